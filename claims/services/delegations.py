"""Letting a member decide while a lead is away."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from claims.approval import announce
from claims.models import Delegation
from core.errors import Conflict, Forbidden, Invalid
from core.templatetags.ui import moment
from core.times import duration, require_date
from teams.access import require_role, role_in
from teams.models import Membership, Role, Team, User

LONGEST = timedelta(days=92)


@transaction.atomic(durable=True)
def delegate(*, by: User, team: Team, to: User, starts_at: datetime, ends_at: datetime) -> Delegation:
    """
    Let `to`, a member of the team, decide in the place of `by`, a lead of it, from an instant to an instant.

    The same again is the same. Raises Http404 for an outsider, PermissionDenied for who does not lead the
    team, Invalid for a stand-in or a time that is none, Conflict where somebody stands in already.
    """
    require_role(by, team, at_least=Role.LEAD)
    # Locked, so that of two wishes at once one is second.
    own = Membership.objects.select_for_update(no_key=True).filter(user=by, team=team).first()
    if own is None:
        raise Forbidden(_("You do not lead %(team)s, so nobody can stand in for you there.") % {"team": team})
    role = role_in(to, team)
    if to == by or not to.is_active or role is None or role.rank < Role.MEMBER.rank or to.is_superuser:
        raise Invalid(
            _("Somebody else who is a member of %(team)s has to stand in for you.") % {"team": team}
        )
    require_date(starts_at)
    require_date(ends_at)
    if ends_at <= max(starts_at, timezone.now()):
        raise Invalid(_("It has to end after it begins, and not in the past."))
    if ends_at - starts_at > LONGEST:
        values = {"longest": duration(LONGEST), "span": duration(ends_at - starts_at)}
        raise Invalid(_("Somebody may stand in for %(longest)s at most; this is %(span)s.") % values)
    standing = Delegation.objects.filter(
        team=team, lead=by, starts_at__lt=ends_at, ends_at__gt=max(starts_at, timezone.now())
    ).select_related("to")
    for row in standing:
        if (row.to_id, row.starts_at, row.ends_at) == (to.pk, starts_at, ends_at):
            return row
        values = {"person": row.to.label, "from": moment(row.starts_at), "to": moment(row.ends_at)}
        raise Conflict(_("%(person)s stands in for you from %(from)s to %(to)s already.") % values)
    row = Delegation.objects.create(team=team, lead=by, to=to, starts_at=starts_at, ends_at=ends_at)
    announce.delegated(row)
    return row


@transaction.atomic(durable=True)
def end_delegation(*, by: User, delegation: Delegation) -> Delegation:
    """
    End it now; one that has not begun has never held. Ending twice is ending once. Raises Forbidden for
    anybody but the lead whose it is and the stand-in.
    """
    require_role(by, delegation.team, at_least=Role.VIEWER)
    if by.pk not in (delegation.lead_id, delegation.to_id):
        raise Forbidden(
            _("Only %(lead)s and %(to)s may end this.") % {"lead": delegation.lead, "to": delegation.to}
        )
    row = Delegation.objects.select_for_update(no_key=True).get(pk=delegation.pk)
    now = timezone.now()
    if row.ends_at > now:
        row.starts_at, row.ends_at = min(row.starts_at, now), now
        row.save(update_fields=["starts_at", "ends_at"])
    return row
