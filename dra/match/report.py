"""What a preview says."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Reason(StrEnum):
    """Why nothing fits, or why that cannot be told; stable, for programs."""

    NONE = ""
    NO_REQUEST = "no-request"
    NO_CLASS = "no-class"
    TOO_MANY = "too-many-devices"
    INVALID = "invalid-selector"
    NOT_PREVIEWABLE = "not-previewable"
    SELECTOR_FAILS = "selector-fails"
    NO_MATCH = "no-match"
    TAINTED = "tainted"
    TAKEN = "taken"
    NO_NODE = "no-node"
    TOO_LONG = "search-too-long"


class Kind(StrEnum):
    """What a step of the funnel asks, so that a page may put it into its own words."""

    TOTAL = "total"
    IN_CLASS = "class"
    SELECTOR = "selector"
    UNTAINTED = "untainted"
    FREE = "free"
    NODES = "nodes"


@dataclass(frozen=True, slots=True)
class Step:
    """
    One step: `count` devices (of the last step: nodes) are left, `dropped` went.

    `label` is in English; `kind` and `detail` (name of the class, text of one condition of a selector) say
    the same to programs. `request` names the request or alternative ("gpu/h100"), and is empty for the steps
    of the whole.
    """

    label: str
    count: int
    dropped: int
    kind: Kind
    detail: str = ""
    request: str = ""


@dataclass(frozen=True, slots=True)
class Together:
    """
    What one node has to give to one claim: so many devices, which agree in the attributes `same` and differ
    in each of `distinct`.
    """

    devices: int
    same: tuple[str, ...] = ()
    distinct: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Say it, as "2 devices with the same resource.kubernetes.io/pcieRoot"."""
        said = [f"{self.devices} device" + "s" * (self.devices != 1)]
        said += [f"with the same {name}" for name in self.same]
        said += [f"each with another {name}" for name in self.distinct]
        return " ".join(said)


@dataclass(frozen=True, slots=True)
class Preview:
    """
    What a spec would meet on a cluster now.

    `matching` devices pass class and selectors, `free` of them could be taken, `nodes_that_fit` nodes could
    run one claim and `claims_that_fit` of the claims asked for fit at once. None means that it cannot be
    told, never 0. `problem` is a sentence and empty if all claims fit; `reason` is its code.
    """

    steps: list[Step] = field(default_factory=list)
    matching: int | None = None
    free: int | None = None
    nodes_that_fit: int | None = None
    claims_that_fit: int | None = None
    nodes: tuple[str, ...] = ()  # names of the first that fit
    problem: str = ""
    reason: Reason = Reason.NONE
    together: Together | None = None  # None where no node was asked

    @property
    def fits(self) -> bool:
        return not self.problem
