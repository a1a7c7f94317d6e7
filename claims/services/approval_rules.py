"""Rules that say who decides, set by platform admins."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.utils.translation import gettext as _

from claims.models import Approval, ApprovalRule, Profile
from core.errors import Invalid
from teams.access import require_admin
from teams.models import Team, User


@transaction.atomic(durable=True)
def save_rule(
    *,
    by: User,
    team: Team | None = None,
    profile: Profile | None = None,
    approval: str = Approval.LEAD,
    automatic_devices: int = 0,
    automatic_duration: timedelta | None = None,
    self_approval: bool = False,
    escalate_after: timedelta | None = None,
) -> ApprovalRule:
    """
    Make the rule for this team and this profile, or change the one there is; an empty `approval` leaves who
    decides to the profile. What waits already is decided by it too.

    Raises Forbidden, Invalid.
    """
    require_admin(by)
    if team is None and profile is None:
        raise Invalid(_("A rule is for a team, for a profile, or for a profile of a team."))
    if approval and approval not in Approval.values:
        raise Invalid(_("“%(approval)s” is no way to decide.") % {"approval": approval})
    if approval in ("", Approval.AUTOMATIC) and (automatic_devices or automatic_duration is not None):
        raise Invalid(_("What nobody is asked for can be said only beside who is asked for the rest."))
    if automatic_duration is not None and (automatic_duration <= timedelta(0) or not automatic_devices):
        raise Invalid(_("Up to how long nobody is asked goes with up to how many devices."))
    if escalate_after is not None and escalate_after <= timedelta(0):
        raise Invalid(_("Platform admins can be asked only after some time."))
    rule, _made = ApprovalRule.objects.update_or_create(
        team=team,
        profile=profile,
        defaults={
            "approval": approval,
            "automatic_devices": automatic_devices,
            "automatic_duration": automatic_duration,
            "self_approval": self_approval,
            "escalate_after": escalate_after,
        },
    )
    return rule


@transaction.atomic(durable=True)
def remove_rule(*, by: User, rule: ApprovalRule) -> None:
    """Forget the rule; the next less specific one counts from now on. Raises Forbidden."""
    require_admin(by)
    ApprovalRule.objects.filter(pk=rule.pk).delete()
