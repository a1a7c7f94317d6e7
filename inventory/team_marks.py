"""The map by team: a letter and a color for each team whose claims hold devices, and how many it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.utils.module_loading import import_string

from inventory.states import LOOKS, DeviceState, DeviceUse

HELD = (DeviceState.IN_USE, DeviceUse.IDLE, DeviceUse.NO_TELEMETRY)
NO_TEAM = "Other namespaces"
SERIES = 4  # colors of charts that teams get in turn; the fifth is that of other namespaces
# Letters of cells that nobody holds: they keep them beside those of teams.
TAKEN = {look.letter for state, look in LOOKS.items() if state not in HELD}


def namespace_teams(person: AbstractUser | AnonymousUser) -> Mapping[tuple[UUID, str], str]:
    """Return the names of the teams that `person` may see, by cluster and namespace; one query."""
    teams: Mapping[tuple[UUID, str], str] = import_string(settings.NAMESPACE_TEAMS)(person)
    return teams


class TeamMark(NamedTuple):
    team: str
    letter: str
    color: str  # class of a series


OTHERS = TeamMark(NO_TEAM, "–", "c5")


@dataclass(slots=True)
class TeamMarks:
    """The marks of the teams that the reader may see, and how many cells of the map have each."""

    teams: Mapping[tuple[UUID, str], str]
    by_team: Mapping[str, TeamMark]
    cells: Counter[TeamMark] = field(default_factory=Counter)

    @classmethod
    def read(cls, person: AbstractUser | AnonymousUser) -> TeamMarks:
        teams = namespace_teams(person)
        return cls(teams, {mark.team: mark for mark in marks(teams.values())})

    def mark(self, cluster: UUID, namespace: str | None) -> TeamMark | None:
        """Return the mark of a held device, and count its cell; None if nobody holds it."""
        if not namespace:
            return None
        mark = self.by_team.get(self.teams.get((cluster, namespace), ""), OTHERS)
        self.cells[mark] += 1
        return mark

    @property
    def legend(self) -> list[tuple[TeamMark, int]]:
        """Return the marks of the map with their cells, by team, other namespaces last."""
        return sorted(self.cells.items(), key=lambda entry: (entry[0] == OTHERS, entry[0].team))


def marks(teams: Iterable[str]) -> list[TeamMark]:
    """Return a mark per team, in the order of their names; a letter stands for one team only."""
    found, letters = [], set(TAKEN)
    for place, team in enumerate(sorted(set(teams))):
        choices = [sign for sign in f"{team.upper()}ACDEGHJKLMOQRSVWXYZ0123456789" if sign.isalnum()]
        letter = next((sign for sign in choices if sign not in letters), "+")
        letters.add(letter)
        found.append(TeamMark(team, letter, f"c{place % SERIES + 1}"))
    return found
