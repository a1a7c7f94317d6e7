"""Asking for GPUs: access, then shape, then quota under lock."""

from collections.abc import Sequence
from datetime import timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from claims import tasks
from claims.access import own
from claims.approval import announce, approvals
from claims.life import succession
from claims.life.succession import Carried
from claims.models import Alternative, Claim, ClaimCharge, Delivery, Draft, Profile
from claims.quota import quotas
from claims.request import admin_access
from claims.request.combining import Counted
from claims.request.wish import Wish, make_wish, require_sound
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, Invalid, QuotaExceeded
from core.queueing import after_commit
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
    together: Sequence[Counted] = (),
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
        raise Invalid(_("A request needs a key of 1 to 80 characters, so that sending it twice asks once."))
    if earlier := _earlier(by, key):
        return _same(earlier, team=team, cluster=cluster, profile=profile)
    further = [each for each, _count in together]
    profile, *others = _open_profiles(team, [profile, *alternatives, *further])
    counts = [count for _each, count in together]
    wish = make_wish(
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
    admin_access.require_person(by, wish.spec)
    require_sound(wish)
    try:
        return _reserve(wish, by=by, reason=reason, key=key, replaces=replaces)
    except IntegrityError as error:
        if earlier := _earlier(by, key):  # the same message came twice at the same time
            return _same(earlier, team=team, cluster=cluster, profile=profile)
        if "claim_name_free" not in str(error):
            raise
        where = {"name": wish.name, "namespace": wish.namespace, "cluster": cluster}
        raise Conflict(_("The name %(name)s is taken in %(namespace)s of %(cluster)s.") % where) from error


@transaction.atomic(durable=True)
def _reserve(wish: Wish, *, by: User, reason: str, key: str, replaces: Claim | None) -> Claim:
    """
    Count and create under the lock of the quota rows.

    Everything that makes a quota less available takes these rows, in the order of their keys, last thing
    before counting. What frees devices needs no lock.
    """
    old = own(replaces, by) if replaces is not None else None
    rows = quotas.lock_rows(team=wish.team, charge=wish.charge, profiles=wish.profiles)
    if earlier := _earlier(by, key):
        return _same(earlier, team=wish.team, cluster=wish.cluster, profile=wish.profile)
    carried = succession.carried_to(wish, old)
    lines = succession.lines_for(rows, wish, carried)
    if refused := [line.sentence for line in lines if not line.fits]:
        raise QuotaExceeded(" ".join(refused))
    claim = _create(wish, by=by, reason=reason, key=key, old=old, carried=carried)
    Draft.objects.filter(by=by, key=key).delete()
    if old is not None:
        old.remark(_("%(successor)s was asked for to replace it.") % {"successor": claim}, by=by)
    rule = approvals.rule_for_all(wish.asked, team=wish.team, duration=wish.duration, together=wish.together)
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
        announce.asked(claim)
    return claim


def _create(wish: Wish, *, by: User, reason: str, key: str, old: Claim | None, carried: Carried) -> Claim:
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
    claim.history.create(new=ClaimState.REQUESTED, why=reason.strip() or _("Requested."), by=by)
    return claim


def _open_profiles(team: Team, profiles: Sequence[Profile]) -> list[Profile]:
    """Read the profiles again, in their order. Raise Forbidden for one that is not open to the team."""
    ids = [profile.pk for profile in profiles]
    found = Profile.objects.select_related("current").in_bulk(ids)
    is_open = set(Profile.objects.open_to(team).filter(pk__in=ids).values_list("pk", flat=True))
    for pk in ids:
        if pk not in is_open and found[pk].retired_at is None:
            raise Forbidden(
                _("The profile %(profile)s is not open to %(team)s.") % {"profile": found[pk], "team": team}
            )
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
        raise Invalid(_("This key was already used to ask for %(claim)s.") % {"claim": earlier})
    return earlier
