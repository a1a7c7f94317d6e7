"""Reasons to deny, ready to use: platform admins keep those for everybody, leads those of their team."""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext as _

from claims.models import ReasonTemplate
from core.errors import Invalid
from teams.access import require_admin, require_role
from teams.models import Role, Team, User

LONGEST_TITLE, LONGEST = 80, 500  # characters; a note that goes with a decision has no more


@transaction.atomic(durable=True)
def save_reason(
    *, by: User, title: str, text: str, team: Team | None = None, reason: ReasonTemplate | None = None
) -> ReasonTemplate:
    """
    Make a reason, or change `reason`; for one team, or (None) for everybody.

    Raises Http404 for an outsider, PermissionDenied for who does not lead the team, Forbidden for what is for
    everybody, Invalid.
    """
    _require_may_keep(by, team)
    if reason is not None:
        _require_may_keep(by, reason.team)
    title, text = title.strip(), text.strip()
    if not 0 < len(title) <= LONGEST_TITLE:
        raise Invalid(_("A reason needs a title of 1 to %(most)d characters.") % {"most": LONGEST_TITLE})
    if not 0 < len(text) <= LONGEST:
        values = {"most": LONGEST, "count": len(text)}
        raise Invalid(_("Write from 1 to %(most)d characters; these are %(count)d.") % values)
    same = ReasonTemplate.objects.filter(team=team, title=title)
    if reason is not None:
        same = same.exclude(pk=reason.pk)
    if other := same.first():
        if reason is None and other.text == text:
            return other  # making it twice is making it once
        raise Invalid(_("There is a reason “%(title)s” already.") % {"title": title})
    kept = reason or ReasonTemplate()
    kept.title, kept.text, kept.team = title, text, team
    kept.save()
    return kept


@transaction.atomic(durable=True)
def remove_reason(*, by: User, reason: ReasonTemplate) -> None:
    """Offer it no more; what was denied with it keeps its words. Raises as `save_reason`."""
    _require_may_keep(by, reason.team)
    ReasonTemplate.objects.filter(pk=reason.pk).delete()


def _require_may_keep(by: User, team: Team | None) -> None:
    if team is None:
        require_admin(by)
    else:
        require_role(by, team, at_least=Role.LEAD)
