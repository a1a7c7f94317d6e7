"""What a team may hold at once, set by platform admins."""

from django.db import transaction
from django.utils.translation import gettext as _

from claims.models import Profile, Quota
from claims.quota import tasks as quota_tasks
from core.errors import Invalid
from core.queueing import after_commit
from dra.quota_keys import why_no_class
from teams.access import require_admin
from teams.models import Team, User

MOST = 1_000_000


def set_quota(
    *,
    by: User,
    team: Team,
    device_class: str = "",
    profile: Profile | None = None,
    counts: str = Quota.Counts.DEVICES,
    devices: int,
    guaranteed: int = 0,
) -> Quota:
    """
    Let `team` hold so many devices at once, of a device class or of a profile; or have so many claims, where
    `counts` says so. `guaranteed` of a device class are kept free for it.

    A quota lowered below what is held takes nothing away; it is shown as over. Raises Forbidden, Invalid.
    """
    require_admin(by)
    require_quota(device_class=device_class, profile=profile, counts=counts, devices=devices)
    if guaranteed and not device_class:
        raise Invalid(_("Only devices of a device class can be guaranteed."))
    if not 0 <= guaranteed <= devices:
        raise Invalid(
            _("A guarantee of %(guaranteed)d is more than the limit of %(limit)d.")
            % {"guaranteed": guaranteed, "limit": devices}
        )
    with transaction.atomic(durable=True):
        return save_quota(
            team=team,
            device_class=device_class,
            profile=profile,
            counts=counts,
            values={"devices": devices, "guaranteed": guaranteed},
        )


def require_quota(*, device_class: str, profile: Profile | None, counts: str, devices: int) -> None:
    """Raise Invalid unless this names one thing that Kubernetes or the portal counts, and a sane number."""
    named = [bool(device_class), profile is not None, counts == Quota.Counts.CLAIMS]
    if sum(named) != 1:
        raise Invalid(_("A quota is for one device class, for one profile, or for the number of claims."))
    if problem := device_class and why_no_class(device_class):
        raise Invalid(problem)
    if not 0 <= devices <= MOST:
        raise Invalid(
            _("A quota is from 0 to %(most)d devices; it is %(count)d.") % {"most": MOST, "count": devices}
        )


def save_quota(
    *, team: Team, device_class: str, profile: Profile | None, counts: str, values: dict[str, int]
) -> Quota:
    """Write these columns of a team's quota, and have the clusters told. Called in a transaction."""
    quota, _made = Quota.objects.update_or_create(
        team=team,
        device_class=device_class,
        profile=profile,
        counts=counts,
        defaults=values,
        create_defaults={"devices": 0, **values},
    )
    after_commit(quota_tasks.write_team, str(team.pk))
    return quota
