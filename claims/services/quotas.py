"""What a team may hold at once, set by platform admins."""

from django.db import transaction
from django.utils.translation import gettext as _

from claims.models import Profile, Quota
from claims.services.profiles import require_admin
from core.errors import Invalid
from teams.models import Team, User

MOST = 1_000_000


@transaction.atomic(durable=True)
def set_quota(
    *,
    by: User,
    team: Team,
    device_class: str = "",
    profile: Profile | None = None,
    devices: int,
    self_approval: bool = False,
) -> Quota:
    """
    Let `team` hold so many devices at once, of a device class or of a profile.

    A quota lowered below what is held takes nothing away; it is shown as over. Raises Forbidden, Invalid.
    """
    require_admin(by)
    if bool(device_class) == (profile is not None):
        raise Invalid(_("A quota is for one device class or for one profile."))
    if not 0 <= devices <= MOST:
        raise Invalid(
            _("A quota is from 0 to %(most)d devices; it is %(count)d.") % {"most": MOST, "count": devices}
        )
    quota, _made = Quota.objects.update_or_create(
        team=team,
        device_class=device_class,
        profile=profile,
        defaults={"devices": devices, "self_approval": self_approval},
    )
    return quota
