"""Adopts an unmanaged ResourceClaim: it becomes a claim of the portal."""

from datetime import timedelta

from django.db import IntegrityError
from django.utils import timezone

from claims.delivery import tasks
from claims.models import Claim, ClaimCharge, Profile, ProfileVersion, Quota, TeamNamespace
from claims.notices import notify_of
from claims.observation.unmanaged import UnmanagedClaim
from claims.plans.plan import DNS_LABEL
from claims.quotas import quota_usage
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, Invalid, QuotaExceeded, violated_constraint
from core.times import duration as in_words
from core.transactions import after_commit, service
from dra import quota
from dra.manifests import spec_hash
from inventory.models import ResourceClaim
from notify.models import NoticeKind
from teams.access import role_in
from teams.models import Role, Team, User


def adopt(
    *,
    row: ResourceClaim,
    by: User,
    owner: User,
    profile: Profile,
    duration: timedelta,
    reason: str = "",
    over_quota: bool = False,
) -> Claim:
    """
    Create a claim of `owner` for the unmanaged ResourceClaim `row`; it ends after `duration`.

    Only labels of the object change; they are written on commit. Adopting twice has the effect of once.
    Raises Forbidden for everybody but platform admins, Invalid for an object, owner, profile or duration that
    is not allowed, Conflict for an object that is gone, QuotaExceeded unless `over_quota` confirms it.
    """
    if not by.is_platform_admin:
        raise Forbidden("Only a platform admin may adopt a claim.")
    if earlier := adopted_claim(row):
        return earlier
    team = namespace_team(row)
    version = _require_adoptable(row, team, owner, profile, duration)
    try:
        return _adopt(row, team, version, by, owner, duration, reason, over_quota=over_quota)
    except IntegrityError as error:
        if earlier := adopted_claim(row):  # two admins at the same time
            return earlier
        if violated_constraint(error) == "claim_once_per_key":
            raise Conflict(
                f"{row.name} was adopted for {owner.label} before, and that claim has ended. "
                "Choose another owner."
            ) from error
        if violated_constraint(error) != "claim_name_free":
            raise
        raise Conflict(
            f"A claim of the portal has the name {row.name} in {row.namespace} of {row.cluster} already."
        ) from error


def adopted_claim(row: ResourceClaim) -> Claim | None:
    """Return the claim of an adopted object, None for an unmanaged one."""
    return Claim.objects.live().filter(cluster=row.cluster_id, object_uid=row.uid).first()


def namespace_team(row: ResourceClaim) -> Team:
    """Return the team of the namespace; raise Invalid without one."""
    place = TeamNamespace.objects.filter(cluster=row.cluster_id, namespace=row.namespace)
    namespace = place.select_related("team").first()
    if namespace is None:
        raise Invalid(f"{row.namespace} is not the namespace of a team.")
    return namespace.team


def fitting_profiles(row: ResourceClaim, team: Team) -> list[Profile]:
    """Return the profiles open to the team that request every device class of the object."""
    needed = set(quota.charge(row.raw.get("spec") or {}))
    offered = Profile.objects.open_to(team).select_related("current").exclude(current=None)
    return [
        profile
        for profile in offered
        if profile.current is not None and needed <= set(quota.charge(profile.current.spec))
    ]


def adoption_lines(row: ResourceClaim, team: Team, profile: Profile) -> list[quota_usage.QuotaLine]:
    """Return the effect of an adoption on each quota, for display; the service counts again under lock."""
    charge, counted = _claim_charge(row, profile)
    return _lines(row, team, profile, quota_usage.charged_quotas(team=team, charge=charge, profiles=counted))


def _lines(
    row: ResourceClaim, team: Team, profile: Profile, rows: list[Quota]
) -> list[quota_usage.QuotaLine]:
    """
    Compare the use of each quota with its limit.

    For classes and the number of claims, the object counts already, as unmanaged use; only the quota of the
    profile counts it anew.
    """
    charge, counted = _claim_charge(row, profile)
    lines = []
    for usage in quota_usage.quota_usage(rows):
        needs = counted[profile] if usage.quota.profile_id else 0
        fits = usage.used + needs <= usage.limit
        sentence = f"{usage.sentence}; this claim needs {needs}." if needs else f"{usage.sentence}."
        if not fits and needs:
            sentence = quota_usage.exceeded_sentence(usage, needs, "claim")
        lines.append(quota_usage.QuotaLine(usage.label, usage, needs, fits=fits, sentence=sentence))
    classes = {usage.device_class for usage in rows}
    for name in sorted(name for name, count in charge.items() if count and name not in classes):
        problem = f"{team} has no quota for {name} devices."
        lines.append(quota_usage.QuotaLine(name, None, charge[name], fits=False, sentence=problem))
    return lines


def _claim_charge(row: ResourceClaim, profile: Profile) -> tuple[dict[str, int], dict[Profile, int]]:
    spec = row.raw.get("spec") or {}
    return quota.charge(spec), {profile: quota.devices(spec)}


def _require_adoptable(
    row: ResourceClaim, team: Team, owner: User, profile: Profile, duration: timedelta
) -> ProfileVersion:
    """Return the version that the claim gets."""
    if row.gone_at is not None or not UnmanagedClaim(row).is_adoptable:
        raise Conflict(f"{row} cannot be adopted: it is gone, or comes and goes with its pod.")
    if not DNS_LABEL.fullmatch(row.name):
        raise Invalid(
            f"{row} cannot be adopted: names of the portal have up to 63 letters, digits and hyphens."
        )
    role = role_in(owner, team)
    if role is None or role.rank < Role.MEMBER.rank or not owner.is_active:
        raise Invalid(f"{owner.label} is no member of {team}.")
    fitting = {candidate.pk: candidate.current for candidate in fitting_profiles(row, team)}
    version = fitting.get(profile.pk)
    if version is None:
        raise Invalid(f"The profile {profile} is not open to {team}, or requests other classes than {row}.")
    if not timedelta(0) < duration <= version.max_duration:
        raise Invalid(
            f"{profile} allows at most {in_words(version.max_duration)}; this is for {in_words(duration)}."
        )
    return version


@service
def _adopt(
    row: ResourceClaim,
    team: Team,
    version: ProfileVersion,
    by: User,
    owner: User,
    duration: timedelta,
    reason: str,
    *,
    over_quota: bool,
) -> Claim:
    """Count and create under the lock of the quota rows, as a request does."""
    charge, counted = _claim_charge(row, version.profile)
    rows = quota_usage.lock_quotas(team=team, charge=charge, profiles=counted)
    lines = _lines(row, team, version.profile, rows)
    over = [line.sentence for line in lines if not line.fits]
    if over and not over_quota:
        raise QuotaExceeded(" ".join(over))
    now, spec = timezone.now(), row.raw.get("spec") or {}
    claim = Claim.objects.create(
        name=row.name,
        key=f"adopt:{row.uid}",
        team=team,
        cluster=row.cluster,
        namespace=row.namespace,
        profile_version=version,
        requested_by=owner,
        origin=Claim.Origin.ADOPTED,
        devices=quota.devices(spec),
        duration=duration,
        reason=reason.strip(),
        spec=spec,
        spec_hash=spec_hash(spec),
        approved_hash=spec_hash(spec),
        state=ClaimState.PROVISIONED,
        decided_by=by,
        decided_at=now,
        expires_at=now + duration,
        object_uid=row.uid,
    )
    ClaimCharge.objects.bulk_create(
        ClaimCharge(claim=claim, device_class=name, devices=count) for name, count in charge.items() if count
    )
    why = reason.strip() or "Adopted."
    claim.record_creation(why=" ".join([why, *over]), by=by)
    _notify_owner(claim, by)
    names = [f"{row.namespace}/{row.name}"]
    after_commit(tasks.label, str(claim.pk))
    after_commit(tasks.reconcile_objects, str(claim.cluster_id), names)
    return claim


def _notify_owner(claim: Claim, by: User) -> None:
    if claim.requested_by_id == by.pk:
        return
    notify_of(
        claim,
        kind=NoticeKind.CHANGE,
        key=f"adopted:{claim.pk}",
        title=f"{claim.name} is now your claim",
        body=f"{by.label} adopted ResourceClaim {claim.name} of {claim.namespace} in "
        f"{claim.cluster} for you.",
    )
