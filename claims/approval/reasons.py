"""Reasons to deny, ready to use: those that hold everywhere, and those that somebody wrote down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q
from django.utils.translation import gettext as _

from claims.models import ReasonTemplate
from teams.models import Team


@dataclass(frozen=True, slots=True)
class Reason:
    title: str
    text: str


def reasons_for(team: Team) -> Sequence[Reason]:
    """Return those written for this team or for everybody, then the usual ones."""
    rows = ReasonTemplate.objects.filter(Q(team=None) | Q(team=team))
    return [Reason(row.title, row.text) for row in rows] + [
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
