"""Request, replace and resize claims, save drafts: first access, then fields, then quota under lock."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from django.conf import settings
from django.db import IntegrityError
from django.db.models import Exists, OuterRef, Prefetch, QuerySet, prefetch_related_objects
from django.utils import timezone

from claims.access import lock_owned_claim
from claims.approvals import notices, pending
from claims.approvals.authority import leads_and_delegates
from claims.approvals.rules import effective_rule_for
from claims.delivery import tasks
from claims.models import Alternative, Claim, ClaimCharge, Delivery, Draft, Profile
from claims.plans.changes import CurrentPart, current_parts, typed_count
from claims.plans.plan import ProfileCount, RequestPlan, plan_request, require_permission, require_valid
from claims.quotas import quota_usage
from claims.quotas.quota_usage import QuotaLine, QuotaUsage
from claims.requests import budget_check
from claims.states import FINAL, REMOVABLE, RUNNING, ClaimState
from core.errors import Conflict, Forbidden, Invalid, PortalError, QuotaExceeded, violated_constraint
from core.idempotency import KEEP, KeyUsed
from core.prepared import PreparedObjects
from core.text import counted
from core.transactions import after_commit, service
from dra.objects import requests
from inventory.models import Cluster
from teams.access import require_role
from teams.models import Role, Team, User


def request_claim(  # noqa: PLR0913 (a request has many fields)
    *,
    by: User,
    team: Team,
    cluster: Cluster,
    profile: Profile,
    devices: int = 1,
    parallel: int = 1,
    delivery: str = Delivery.CLAIM,
    duration: timedelta | None = None,
    reason: str = "",
    name: str = "",
    alternatives: Sequence[Profile] = (),
    together: Sequence[ProfileCount] = (),
    replaces: Claim | None = None,
    keep_alive: timedelta | None = None,
    key: str,
) -> Claim:
    """
    Create a claim; the same `key` of the same person returns the claim that it has made, while that is live.
    Once it has ended the same request makes a new one (`_answer`).

    `alternatives` are tried in this order if `profile` does not fit; the profiles in `together` are taken as
    well, each with its own number of devices. While the claim that it `replaces` counts, only the devices
    beyond that one count for the new claim. With `keep_alive` it ends once its program has not renewed it for
    that long. A rule of the profiles may approve it at once. The draft with
    this key is deleted. Raises Http404 for an outsider, PermissionDenied for a viewer, Forbidden for a
    profile that is not open to the team, Invalid for invalid fields, QuotaExceeded, BudgetExceeded, Conflict.
    """
    require_role(by, team, at_least=Role.MEMBER)
    if not key or len(key) > 80:
        raise Invalid("A request needs a key of 1 to 80 characters, so that sending it twice asks once.")
    digest = _digest(
        *(team.pk, cluster.pk, profile.pk, devices, parallel, delivery, duration, reason.strip(), name),
        *([other.pk for other in alternatives], [(other.pk, count) for other, count in together]),
        *(replaces and replaces.pk, keep_alive),
    )
    earlier = _earlier_claim(by, key)
    if answer := _answer(earlier, digest):
        return answer
    further = [extra for extra, _count in together]
    profile, *others = _open_profiles(team, [profile, *alternatives, *further])
    counts = [count for _profile, count in together]
    plan = plan_request(
        team=team,
        cluster=cluster,
        profile=profile,
        devices=devices,
        parallel=parallel,
        delivery=delivery,
        duration=duration,
        name=name,
        alternatives=others[: len(alternatives)],
        together=list(zip(others[len(alternatives) :], counts, strict=True)),
    )
    require_permission(by, plan.spec)
    require_valid(plan)
    try:
        with service:
            if earlier is not None:  # it keeps its place in the history, and gives its key to the new claim
                Claim.objects.filter(pk=earlier.pk, key=key).update(key=uuid4().hex)
            return _reserve(
                plan, by=by, reason=reason, key=key, digest=digest, replaces=replaces, keep_alive=keep_alive
            )
    except (IntegrityError, PortalError) as error:
        if answer := _answer(_earlier_claim(by, key), digest):  # the same request, twice at the same time
            return answer
        if isinstance(error, PortalError) or violated_constraint(error) != "claim_name_free":
            raise
        raise Conflict(f"The name {plan.name} is already used in {plan.namespace} of {cluster}.") from error


@service
def _reserve(
    plan: RequestPlan,
    *,
    by: User,
    reason: str,
    key: str,
    digest: str,
    replaces: Claim | None,
    keep_alive: timedelta | None,
) -> Claim:
    """
    Check quotas and budgets and create the claim while their rows are locked, the quotas first.

    Every change that uses quota locks these rows, in the order of their keys, right before it counts. Changes
    that free devices need no lock.
    """
    old = lock_owned_claim(replaces, by) if replaces is not None else None
    quotas = quota_usage.lock_quotas(team=plan.team, charge=plan.charge, profiles=plan.devices_by_profile)
    carried = carried_from(old, plan)
    lines = plan_quota_lines(quota_usage.quota_usage(quotas), plan, carried)
    if refusals := [line.sentence for line in lines if not line.fits]:
        raise QuotaExceeded(" ".join([*refusals, quota_usage.WAYS_OUT]))
    budgets = budget_check.lock_and_check(plan, replaces=old)
    budget_check.require_budget(budgets)
    claim = _create(
        plan, by=by, reason=reason, key=key, digest=digest, old=old, carried=carried, keep_alive=keep_alive
    )
    Draft.objects.filter(by=by, key=key).delete()
    if old is not None:
        old.remark(f"{claim} was requested as a replacement.", by=by)
    rule = effective_rule_for(
        plan.team, plan.devices_by_version, duration=plan.duration, together=plan.together
    )
    rule = budget_check.rule_with_budget(rule, budgets)
    if sentence := budget_check.approval_sentence(budgets):
        claim.remark(sentence)
    if rule.automatic:
        now = timezone.now()
        claim.advance(
            ClaimState.APPROVED,
            why=rule.sentence,
            decided_at=now,
            decision_note=rule.sentence,
            approved_hash=claim.spec_hash,
            expires_at=now + claim.duration,
        )
        after_commit(tasks.deliver, str(claim.pk))
    else:
        leads, delegates = leads_and_delegates(plan.team, by)
        pending.add(claim, rule, leads)
        notices.notify_deciders(claim, rule, [*leads, *delegates])
    return claim


def _create(
    plan: RequestPlan,
    *,
    by: User,
    reason: str,
    key: str,
    digest: str,
    old: Claim | None,
    carried: Carried,
    keep_alive: timedelta | None,
) -> Claim:
    claim = Claim.objects.create(
        name=plan.name,
        key=key,
        key_digest=digest,
        team=plan.team,
        cluster=plan.cluster,
        namespace=plan.namespace,
        profile_version=plan.version,
        requested_by=by,
        delivery=plan.delivery,
        devices=plan.devices,
        parallel=plan.parallel,
        duration=plan.duration,
        reason=reason.strip(),
        spec=plan.spec,
        spec_hash=plan.spec_hash,
        decide_by=timezone.now() + settings.REQUEST_TTL,
        keep_alive=keep_alive,
        ends_unless_renewed_at=timezone.now() + keep_alive if keep_alive else None,
        replaces=old,
        carried=carried.devices,
    )
    ClaimCharge.objects.bulk_create(
        ClaimCharge(
            claim=claim,
            device_class=device_class,
            devices=count,
            carried=carried.classes.get(device_class, 0),
        )
        for device_class, count in plan.charge.items()
        if count
    )
    Alternative.objects.bulk_create(
        [
            Alternative(
                claim=claim,
                position=position,
                name=option.name,
                profile_version=option.version,
                devices=option.devices * plan.parallel,
                together=plan.together,
            )
            for position, option in enumerate(plan.options if len(plan.options) > 1 else ())
        ]
    )
    # The rows with their profiles, which notices name; of a single profile there are none to read.
    rows = Alternative.objects.select_related("profile_version__profile")
    rows = rows if len(plan.options) > 1 else rows.none()
    prefetch_related_objects([claim], Prefetch("alternatives", rows))
    claim.record_creation(why=reason.strip() or "Requested.", by=by)
    return claim


def _open_profiles(team: Team, profiles: Sequence[Profile]) -> list[Profile]:
    """Return the profiles, read again, in the same order. Raise Forbidden for one not open to the team."""
    ids = [profile.pk for profile in profiles]
    profile_by_id: dict[UUID, Profile] = {}
    for profile in PROFILES.objects(team.pk, ids):
        if profile.is_closed and profile.retired_at is None:  # type: ignore[attr-defined]
            raise Forbidden(f"The profile {profile} is not open to {team}.")
        profile_by_id[profile.pk] = profile
    return [profile_by_id[pk] for pk in ids]


def _profiles(team: UUID, profile: UUID) -> QuerySet[Profile]:
    is_closed = ~Exists(Profile.objects.open_to(Team(pk=team)).filter(pk=OuterRef("pk")))
    rows = Profile.objects.select_related("current").annotate(is_closed=is_closed)
    return rows.filter(pk=profile).order_by()


PROFILES: PreparedObjects[Profile] = PreparedObjects(_profiles, UUID, UUID, any_of='claims_profile"."id')


def _earlier_claim(by: User, key: str) -> Claim | None:
    return next(iter(CLAIM_WITH_KEY.objects(by.pk, key)), None)


CLAIM_WITH_KEY: PreparedObjects[Claim] = PreparedObjects(
    lambda by, key: Claim.objects.filter(requested_by=by, key=key).order_by(), UUID, str
)


def _digest(*fields: object) -> str:
    return hashlib.sha256(json.dumps(fields, default=str).encode()).hexdigest()


def _answer(earlier: Claim | None, digest: str) -> Claim | None:
    """
    Return the live claim that this request has made, None if it may make one: the key is unused, its claim
    has ended, or that is longer ago than keys are kept.

    Raises Invalid if the key was used for another request, and Conflict if the request was denied.
    """
    if earlier is None:
        return None
    is_over = earlier.state in REMOVABLE
    if is_over and earlier.created_at < timezone.now() - KEEP:
        return None
    if earlier.key_digest not in ("", digest):
        raise KeyUsed(f"the request {earlier}, which has other values")
    if earlier.state == ClaimState.DENIED:
        raise Conflict(f"{earlier} was denied: {earlier.decision_note} To request it again, use a new key.")
    return None if is_over else earlier


# A claim that replaces another: another count, profile or duration, requested like any claim.
#
# While both exist, the quota counts only the devices of the new claim beyond those of the old one
# (`Claim.carried`, `ClaimCharge.carried`); `Claim.advance` ends that in the transaction in which the old
# claim stops counting. Once the new claim holds its devices, the portal releases the old one. Nothing is
# carried to or from a claim with alternatives, because its charge changes with the allocation.
# Combined profiles carry only devices per class.


@dataclass(frozen=True, slots=True)
class Carried:
    """
    What the new claim does not count again: devices of the profile, devices per class, and claims.

    `devices` is above 0 only if both claims have the same profile.
    """

    devices: int = 0
    classes: Mapping[str, int] = field(default_factory=dict)
    claims: int = 0  # as a quota of claims counts them


NOTHING = Carried()


def plan_quota_lines(
    usages: Sequence[QuotaUsage], plan: RequestPlan, carried: Carried, *, with_guarantees: bool = True
) -> list[QuotaLine]:
    """Return the effect of `plan` on each quota, less what is carried."""
    return quota_usage.usage_lines(
        usages,
        team=plan.team,
        charge={name: count - carried.classes.get(name, 0) for name, count in plan.charge.items()},
        profiles={profile: count - carried.devices for profile, count in plan.devices_by_profile.items()},
        claims=plan.parallel - carried.claims,
        with_guarantees=with_guarantees,
    )


def carried_from(old: Claim | None, plan: RequestPlan) -> Carried:
    """
    Return the part of `plan` for which the replaced claim `old` already counts.

    Raises Conflict or Invalid if `plan` cannot replace that claim; the result is stable while it is locked.
    """
    if old is None:
        return NOTHING
    if reason := reason_not_to_replace(old):
        raise Conflict(reason)
    if old.team_id != plan.team.pk:
        raise Invalid(f"{old} belongs to {old.team}; its replacement must belong to the same team.")
    multiple = len(plan.options) > 1
    old_has_alternatives = any(request.get("firstAvailable") for request in requests(old.spec))
    if old_has_alternatives or (multiple and not plan.together):
        return NOTHING
    counted = dict(old.charges.values_list("device_class", "devices"))
    single_profiles = not multiple and not old.alternatives.exists()
    same_profile = single_profiles and old.profile_version.profile_id == plan.profile.pk
    devices = min(old.devices * old.parallel, plan.total_devices) if same_profile else 0
    return Carried(
        devices=devices,
        claims=min(old.parallel, plan.parallel) if devices else 0,
        classes={name: min(count, counted.get(name, 0)) for name, count in plan.charge.items()},
    )


def reason_not_to_replace(old: Claim) -> str:
    """Return why this claim cannot be replaced now, "" if it can."""
    if old.state not in RUNNING:
        return f"{old} is “{old.get_state_display()}”; only a running claim can be replaced."
    if successor := old.successors.live().first():
        return f"{old} is already being replaced by {successor}."
    if old.replaces is not None and old.replaces.state not in FINAL:
        # It still shares its charge with the claim before it, so the charge cannot be carried on.
        return f"{old} itself replaces {old.replaces}; wait until {old.replaces} is released."
    return ""


def resize(
    *,
    claim: Claim,
    by: User,
    profile: Profile | None = None,
    devices: int | None = None,
    parts: Mapping[str, int] | None = None,
    parallel: int | None = None,
    duration: timedelta | None = None,
    name: str = "",
    reason: str | None = None,
    key: str,
) -> Claim:
    """
    Request a replacement of `claim`; None keeps a field as it is. The same `key` requests it once.

    Another `profile` replaces all profiles of the claim, including its alternatives. `parts` are numbers of
    devices for some of its combined profiles, by slug; 0 removes one. Raises as `request_claim`, Forbidden
    for the claim of another person, Conflict for one that cannot be replaced, Invalid for an unknown part.
    """
    version = claim.profile_version
    kept_parts = [] if profile is not None else current_parts(claim, ())
    alternatives = [
        part.alternative.profile_version.profile for part in kept_parts[1:] if not part.alternative.together
    ]
    combined = [part for part in kept_parts if part.alternative.together]
    together = _resized_parts(claim, combined, parts or {})
    if together:
        (profile, typed), *together = together
    else:
        typed = typed_count(version, requests(claim.spec))
    return request_claim(
        by=by,
        team=claim.team,
        cluster=claim.cluster,
        profile=profile or version.profile,
        devices=typed if devices is None else devices,
        parallel=claim.parallel if parallel is None else parallel,
        delivery=claim.delivery,
        duration=claim.duration if duration is None else duration,
        reason=claim.reason if reason is None else reason,
        name=name,
        alternatives=alternatives,
        together=together,
        replaces=claim,
        key=key,
    )


def _resized_parts(claim: Claim, parts: list[CurrentPart], counts: Mapping[str, int]) -> list[ProfileCount]:
    """Return the combined profiles with their new numbers of devices, without those set to 0."""
    current = [(part.alternative.profile_version.profile, part.typed) for part in parts]
    slugs = {profile.slug for profile, _typed in current}
    if unknown := [slug for slug in counts if slug not in slugs]:
        raise Invalid(f"{claim} has no combined profile {unknown[0]}.")
    resized = [(profile, counts.get(profile.slug, typed)) for profile, typed in current]
    if current and not any(count for _profile, count in resized):
        raise Invalid(f"No devices of {claim} would be left; release it instead.")
    return [(profile, count) for profile, count in resized if count]


DRAFT_TTL = timedelta(days=30)  # after the last change


def open_drafts(by: User) -> QuerySet[Draft]:
    """
    Return the drafts of a person, the newest first.

    A draft that was saved while its request was being sent is left out, though its row still exists.
    """
    sent = Claim.objects.filter(requested_by=by, key=OuterRef("key"))
    return Draft.objects.filter(~Exists(sent), by=by)


def forget_drafts(now: datetime) -> int:
    """Delete drafts without a change for 30 days; return their number."""
    return Draft.objects.filter(updated_at__lt=now - DRAFT_TTL).delete()[0]


MAX_DRAFTS = 50  # drafts of one person
MAX_DRAFT_LENGTH = 8000  # characters of the fields as JSON: every field at its limit is shorter

type SubmittedFields = Mapping[str, list[str]]


@service
def save_draft(*, by: User, key: str, fields: SubmittedFields, now: datetime | None = None) -> Draft | None:
    """
    Save the typed fields under the key of the form, or overwrite the draft with this key.

    Returns None if the request with this key has been sent already. Raises Invalid for a key or fields that
    the form does not send, Conflict if the person has too many drafts.
    """
    if not key or len(key) > 80 or len(json.dumps(dict(fields))) > MAX_DRAFT_LENGTH:
        raise Invalid("This is not a draft of a request.")
    if Claim.objects.filter(requested_by=by, key=key).exists():
        return None
    other_drafts = open_drafts(by).exclude(key=key).count()
    if other_drafts >= MAX_DRAFTS:
        raise Conflict(f"You have {counted(other_drafts, 'draft')}; delete one before you save another.")
    values = {"fields": dict(fields), "updated_at": now or timezone.now()}
    return Draft.objects.update_or_create(by=by, key=key, defaults=values)[0]


@service
def delete_draft(*, by: User, draft: Draft) -> None:
    """Delete a draft of `by`; deleting it twice is not an error."""
    Draft.objects.filter(by=by, pk=draft.pk).delete()
