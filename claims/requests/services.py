"""Request claims, resize them, keep drafts: access, then shape, then quota under lock."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from claims.access import lock_owned_claim
from claims.approvals import authority, notices
from claims.delivery import tasks
from claims.models import Alternative, Claim, ClaimCharge, Delivery, Draft, Profile
from claims.plans import plan
from claims.plans.changes import CurrentPart, current_parts, typed_count
from claims.plans.plan import ProfileCount, RequestPlan, plan_request, require_valid
from claims.quotas import usage
from claims.requests import replacement
from claims.requests.replacement import Carried
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, Invalid, QuotaExceeded, violated_constraint
from core.text import counted
from core.transactions import after_commit
from dra.objects import requests
from inventory.models import Cluster
from teams.access import require_role
from teams.models import Role, Team, User


def request_claim(
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
    key: str,
) -> Claim:
    """
    Ask for GPUs; the same `key` of the same person always yields the same claim.

    `alternatives` are profiles to take, in this order, where `profile` does not fit; those in `together` are
    taken as well, each with a number of devices of its own. While the claim that it `replaces` counts, only
    what exceeds that one counts of this. A rule of the profiles may approve it at once. A draft with the same
    key goes. Raises Http404 for an outsider, PermissionDenied for a viewer, Forbidden for
    a profile not open to the team, Invalid for what is malformed, QuotaExceeded, Conflict.
    """
    require_role(by, team, at_least=Role.MEMBER)
    if not key or len(key) > 80:
        raise Invalid("A request needs a key of 1 to 80 characters, so that sending it twice asks once.")
    if earlier := _earlier(by, key):
        return _same(earlier, team=team, cluster=cluster, profile=profile)
    further = [each for each, _count in together]
    profile, *others = _open_profiles(team, [profile, *alternatives, *further])
    counts = [count for _each, count in together]
    wish = plan_request(
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
    plan.require_person(by, wish.spec)
    require_valid(wish)
    try:
        return _reserve(wish, by=by, reason=reason, key=key, replaces=replaces)
    except IntegrityError as error:
        if earlier := _earlier(by, key):  # the same message came twice at the same time
            return _same(earlier, team=team, cluster=cluster, profile=profile)
        if violated_constraint(error) != "claim_name_free":
            raise
        raise Conflict(f"The name {wish.name} is taken in {wish.namespace} of {cluster}.") from error


@transaction.atomic(durable=True)
def _reserve(wish: RequestPlan, *, by: User, reason: str, key: str, replaces: Claim | None) -> Claim:
    """
    Count and create under the lock of the quota rows.

    Everything that makes a quota less available takes these rows, in the order of their keys, last thing
    before counting. What frees devices needs no lock.
    """
    old = lock_owned_claim(replaces, by) if replaces is not None else None
    rows = usage.lock_quotas(team=wish.team, charge=wish.charge, profiles=wish.profiles)
    if earlier := _earlier(by, key):
        return _same(earlier, team=wish.team, cluster=wish.cluster, profile=wish.profile)
    carried = replacement.carried_to(wish, old)
    lines = replacement.lines_for(rows, wish, carried)
    if refused := [line.sentence for line in lines if not line.fits]:
        raise QuotaExceeded(" ".join(refused))
    claim = _create(wish, by=by, reason=reason, key=key, old=old, carried=carried)
    Draft.objects.filter(by=by, key=key).delete()
    if old is not None:
        old.remark(f"{claim} was asked for to replace it.", by=by)
    rule = authority.rule_for_all(wish.asked, team=wish.team, duration=wish.duration, together=wish.together)
    if rule:
        now = timezone.now()
        claim.advance(
            ClaimState.APPROVED,
            why=rule,
            decided_at=now,
            decision_note=rule,
            approved_hash=claim.spec_hash,
            expires_at=now + claim.duration,
        )
        after_commit(tasks.deliver, str(claim.pk))
    else:
        notices.asked(claim)
    return claim


def _create(
    wish: RequestPlan, *, by: User, reason: str, key: str, old: Claim | None, carried: Carried
) -> Claim:
    claim = Claim.objects.create(
        name=wish.name,
        key=key,
        team=wish.team,
        cluster=wish.cluster,
        namespace=wish.namespace,
        profile_version=wish.version,
        requested_by=by,
        delivery=wish.delivery,
        devices=wish.devices,
        parallel=wish.parallel,
        duration=wish.duration,
        reason=reason.strip(),
        spec=wish.spec,
        spec_hash=wish.spec_hash,
        decide_by=timezone.now() + settings.REQUEST_TTL,
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
        for device_class, count in wish.charge.items()
        if count
    )
    if len(wish.options) > 1:
        Alternative.objects.bulk_create(
            Alternative(
                claim=claim,
                position=position,
                name=option.name,
                profile_version=option.version,
                devices=option.devices * wish.parallel,
                together=wish.together,
            )
            for position, option in enumerate(wish.options)
        )
    claim.record_creation(why=reason.strip() or "Requested.", by=by)
    return claim


def _open_profiles(team: Team, profiles: Sequence[Profile]) -> list[Profile]:
    """Read the profiles again, in their order. Raise Forbidden for one that is not open to the team."""
    ids = [profile.pk for profile in profiles]
    found = Profile.objects.select_related("current").in_bulk(ids)
    is_open = set(Profile.objects.open_to(team).filter(pk__in=ids).values_list("pk", flat=True))
    for pk in ids:
        if pk not in is_open and found[pk].retired_at is None:
            raise Forbidden(f"The profile {found[pk]} is not open to {team}.")
    return [found[pk] for pk in ids]


def _earlier(by: User, key: str) -> Claim | None:
    return Claim.objects.filter(requested_by=by, key=key).first()


def _same(earlier: Claim, *, team: Team, cluster: Cluster, profile: Profile) -> Claim:
    """
    Return the claim that this key has already made; refuse a key that asked for something else.

    Of a claim that an approver has changed, the profile may be another one than was asked for.
    """
    same = earlier.asked is not None or earlier.profile_version.profile_id == profile.pk
    if not same or (earlier.team_id, earlier.cluster_id) != (team.pk, cluster.pk):
        raise Invalid(f"This key was already used to ask for {earlier}.")
    return earlier


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
    Request what shall replace `claim`; what is None stays as it has it. The same `key` asks once.

    Another profile takes the place of all that the claim names, so its alternatives go. `parts` are numbers
    of devices for some of the profiles that it takes together, by slug; 0 leaves one out. Raises as
    `request_claim`, Forbidden for a claim of somebody else, Conflict for one that cannot be replaced, Invalid
    for a part that it does not have.
    """
    version = claim.profile_version
    named = [] if profile is not None else current_parts(claim, ())
    others = [one.alternative.profile_version.profile for one in named[1:] if not one.alternative.together]
    together = _counted([one for one in named if one.alternative.together], parts or {}, claim)
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
        alternatives=others,
        together=together,
        replaces=claim,
        key=key,
    )


def _counted(named: list[CurrentPart], parts: Mapping[str, int], claim: Claim) -> list[ProfileCount]:
    """Return the profiles that are to be taken together, with their numbers of devices."""
    profiles = [(one.alternative.profile_version.profile, one.typed) for one in named]
    known = {profile.slug for profile, _typed in profiles}
    if unknown := [slug for slug in parts if slug not in known]:
        raise Invalid(f"{claim} takes no devices of {unknown[0]} together with others.")
    kept = [(profile, parts.get(profile.slug, typed)) for profile, typed in profiles]
    if profiles and not any(count for _profile, count in kept):
        raise Invalid(f"Nothing would be left of {claim}; release it instead.")
    return [(profile, count) for profile, count in kept if count]


DRAFT_TTL = timedelta(days=30)  # after somebody last typed


def open_drafts(by: User) -> QuerySet[Draft]:
    """
    Return the drafts of a person, the newest first.

    One that was saved in the very instant in which it was sent is none, though its row may still be there.
    """
    sent = Claim.objects.filter(requested_by=by, key=OuterRef("key"))
    return Draft.objects.filter(~Exists(sent), by=by)


def forget_drafts(now: datetime) -> int:
    """Forget what nobody has touched for 30 days; return how many that were."""
    return Draft.objects.filter(updated_at__lt=now - DRAFT_TTL).delete()[0]


MAX_DRAFTS = 50  # drafts of one person
MAX_DRAFT_LENGTH = 8000  # characters of the fields as JSON: every field at its limit is shorter

type Fields = Mapping[str, list[str]]


@transaction.atomic(durable=True)
def save_draft(*, by: User, key: str, fields: Fields, now: datetime | None = None) -> Draft | None:
    """
    Keep what was typed under the key of its form, in the place of what was kept before.

    None where the request of this key has been sent: what is typed comes late. Raises Invalid for a key or
    fields that no form has, Conflict for more drafts than a person may have.
    """
    if not key or len(key) > 80 or len(json.dumps(dict(fields))) > MAX_DRAFT_LENGTH:
        raise Invalid("This is no draft of a request.")
    if Claim.objects.filter(requested_by=by, key=key).exists():
        return None
    others = open_drafts(by).exclude(key=key).count()
    if others >= MAX_DRAFTS:
        raise Conflict(f"You have {counted(others, 'draft')}; delete one before you keep another.")
    values = {"fields": dict(fields), "updated_at": now or timezone.now()}
    return Draft.objects.update_or_create(by=by, key=key, defaults=values)[0]


@transaction.atomic(durable=True)
def delete_draft(*, by: User, draft: Draft) -> None:
    """Forget a draft of one's own; to forget it twice is no error."""
    Draft.objects.filter(by=by, pk=draft.pk).delete()
