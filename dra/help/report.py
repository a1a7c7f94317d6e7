"""What one way of asking for less would bring."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from dra.match.conditions import Condition, in_words
from dra.match.report import Together
from dra.objects import Json
from dra.taints import Taint


class Way(StrEnum):
    """What is asked for less; stable, for programs."""

    CONDITION = "condition"
    THRESHOLD = "threshold"
    COUNT = "count"
    CONSTRAINT = "constraint"
    TOLERATION = "toleration"


@dataclass(frozen=True, slots=True)
class Relief:
    """
    One thing less asked for, and what that brings: `more` free devices that match, `more_nodes` with room.

    Which thing is told by `condition`, `taint`, or `constraint` (the attribute that constrains); `was` and
    `instead` are a bound of a condition, or a count. `fits` says that all claims would fit now, which they do
    not as asked; `spec` is the spec so changed.
    """

    way: Way
    request: str = ""  # "" where it is about all of them
    condition: Condition | None = None
    taint: Taint | None = None
    constraint: str = ""
    together: Together | None = None
    was: str = ""
    instead: str = ""
    fits: bool = False
    more: int = 0
    more_nodes: int = 0
    spec: Json = field(default_factory=dict)

    @property
    def what(self) -> str:
        """Say in English what would be asked for instead."""
        match self.way:
            case Way.CONDITION if self.condition:
                return f"without {self.condition.words or self.condition.text}"
            case Way.THRESHOLD if self.condition:
                instead, was = in_words(self.instead), in_words(self.was)
                if instead == was:  # too close for words
                    instead, was = self.instead, self.was
                return f"{self.condition.name} {instead} instead of {was}"
            case Way.COUNT:
                return f"{self.instead} instead of {self.was}"
            case Way.CONSTRAINT:
                return f"without the constraint on {self.constraint}"
            case Way.TOLERATION if self.taint:
                key = f"{self.taint.key}={self.taint.value}" if self.taint.value else self.taint.key
                return f"tolerating {key}:{self.taint.effect}"
        return ""

    @property
    def sentence(self) -> str:
        if self.fits:
            return f"{self.what}: fits now"
        if self.more:
            return f"{self.what}: {self.more} more free"
        nodes = "node" if self.more_nodes == 1 else "nodes"
        return f"{self.what}: {self.more_nodes} more {nodes} with room"
