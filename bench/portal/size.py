"""How large the portal is that is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """`claims` are all of them over two years; those that hold a device now follow from `devices`."""

    devices: int = 40_000
    claims: int = 100_000
    teams: int = 60
    people: int = 25  # per team
    profiles: int = 40
    requested: int = 300  # undecided
    notices: int = 40  # per person


def slug_of(team: int) -> str:
    return f"team-{team:02}"
