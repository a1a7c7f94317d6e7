"""How large the portal is that is measured."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.world import PER_NODE

MIN_TEAMS = 3  # one team for each reader of the pages
MIN_PROFILES = 8  # one of each kind


@dataclass(frozen=True, slots=True)
class Size:
    """
    `claims` are those of a whole year; how many hold a device now follows from `devices`.

    One team in 25 is large: it has more people and six times the claims of another. The readers of the
    pages are in large teams.
    """

    devices: int = 40_000
    claims: int = 100_000
    teams: int = 500
    people: int = 3  # per team
    people_of_large_team: int = 25
    profiles: int = 40
    requested: int = 2_000  # undecided
    waiting: int = 300  # for a pod
    notices: int = 40  # per person

    @property
    def large_teams(self) -> int:
        return max(3, self.teams // 25)

    def divided(self, by: int) -> Size:
        """Return a portal of 1/`by` of the size, with as much per person, and at least one of everything."""
        if by == 1:
            return self
        return replace(
            self,
            devices=self.devices // by // PER_NODE * PER_NODE,
            claims=self.claims // by,
            teams=max(self.teams // by, MIN_TEAMS),
            profiles=max(self.profiles // by, MIN_PROFILES),
            requested=max(self.requested // by, MIN_TEAMS),
            waiting=max(self.waiting // by, 1),
        )

    def team_weights(self) -> list[int]:
        """Return the share of the claims that each team has."""
        return [6 if team < self.large_teams else 1 for team in range(self.teams)]


def team_slug(team: int) -> str:
    return f"team-{team:03}"
