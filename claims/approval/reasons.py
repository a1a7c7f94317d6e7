"""Reasons to deny, ready to use: those that hold everywhere, and those that somebody wrote down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from claims.models import ReasonTemplate
from teams.access import teams_where
from teams.models import Role, Team, User


@dataclass(frozen=True, slots=True)
class Reason:
    title: str
    text: str


def reasons_for(team: Team | None) -> Sequence[Reason]:
    """Return those written for this team (None: for no team alone) or for everybody, then the usual ones."""
    rows = ReasonTemplate.objects.filter(Q(team=None) | Q(team=team))
    return [Reason(row.title, row.text) for row in rows] + usual()


def kept_by(user: User) -> QuerySet[ReasonTemplate]:
    """Return those that `user` may change: of the teams that they lead; for platform admins every one."""
    if user.is_superuser:
        return ReasonTemplate.objects.all()
    return ReasonTemplate.objects.filter(team__in=teams_where(user, at_least=Role.LEAD))


def usual() -> list[Reason]:
    """Return those that come with the product."""
    return [
        Reason(
            _("Too long"),
            _("This is longer than we can keep devices for one piece of work. Ask for less and extend it."),
        ),
        Reason(
            _("Smaller devices do"),
            _("A smaller device is enough for this work. Ask for the smaller profile instead."),
        ),
        Reason(
            _("Others come first"),
            _("The devices are needed for work with a nearer date. Ask again when that is done."),
        ),
        Reason(
            _("Purpose unclear"),
            _("Say what the devices are for and how long that takes, and ask again."),
        ),
    ]
