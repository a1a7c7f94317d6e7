"""What follows the end of a claim, as a sub-line of a list."""

from __future__ import annotations

from datetime import datetime, timedelta

from django import template
from django.utils import timezone
from django.utils.safestring import SafeString

from claims.models import Claim
from claims.states import RUNNING
from core.markup import markup
from core.times import ago, duration

register = template.Library()

BEFORE = '<span class="sub dg-nowrap dg-desk">then {} of grace</span>'
IN_GRACE = '<span class="sub dg-nowrap">grace ends {}</span>'
OVER = '<span class="sub dg-nowrap">is being deleted</span>'


def grace_line(state: str, expires_at: datetime | None, grace: timedelta) -> SafeString:
    """Return the grace period of a claim whose time runs, before its end and after it; "" without one."""
    if state not in RUNNING or expires_at is None:
        return SafeString("")
    now = timezone.now()
    if expires_at > now:
        return markup(BEFORE, duration(grace)) if grace else SafeString("")
    deletion = expires_at + grace
    return markup(IN_GRACE, ago(deletion)) if deletion > now else SafeString(OVER)


@register.filter
def grace_of(claim: Claim) -> SafeString:
    """As `grace_line`; the version of the profile must be loaded."""
    return grace_line(claim.state, claim.expires_at, claim.profile_version.grace)
