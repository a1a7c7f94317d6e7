"""Findings of a catalogue check, and their fixes."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dra.objects import Json, Manifest

STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


class Severity(StrEnum):
    """An error never works, a warning is probably a mistake, a note is information."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Subject(StrEnum):
    PROFILE = "profile"
    CLASS = "class"


class LintCode(StrEnum):
    """What is wrong; stable, for programs."""

    INVALID = "invalid"
    CLASS_MISSING = "class-missing"
    DOES_NOT_COMPILE = "does-not-compile"
    NOT_PREVIEWABLE = "not-previewable"
    SELECTOR_FAILS = "selector-fails"
    WRONG_TYPE = "wrong-type"
    NOT_PUBLISHED = "not-published"
    JUST_MISSED = "threshold-just-above"
    MATCHES_NOTHING = "matches-nothing"
    ALTERNATIVE_IDLE = "alternative-matches-nothing"
    MATCHES_EVERYTHING = "matches-everything"
    TOO_MANY = "more-than-a-node-has"
    LIMIT_TOO_HIGH = "limit-beyond-a-node"
    CONSTRAINT = "constraint-cannot-be-met"
    EVICTED = "evicted-at-once"
    SAME_SPEC = "same-spec"
    SAME_DEVICES = "same-devices"


# Findings that depend on the devices of the cluster.
DEPENDS_ON_CLUSTER = frozenset(
    (
        LintCode.CLASS_MISSING,
        LintCode.NOT_PUBLISHED,
        LintCode.MATCHES_NOTHING,
        LintCode.ALTERNATIVE_IDLE,
        LintCode.TOO_MANY,
        LintCode.LIMIT_TOO_HIGH,
        LintCode.CONSTRAINT,
    )
)


@dataclass(frozen=True, slots=True)
class Fix:
    """A replacement for the expression at `path`, evaluated on the devices of the cluster."""

    path: str
    before: str
    after: str

    def apply(self, spec: Json) -> Manifest | None:
        """Return a fixed copy of the spec; None if the expression at `path` is not `before`."""
        fixed: Any = copy.deepcopy(dict(spec))
        *steps, last = [name or int(number) for name, number in STEP.findall(self.path)]
        container = fixed
        try:
            for step in steps:
                container = container[step]
            if container[last] != self.before:
                return None
        except (KeyError, IndexError, TypeError):
            return None
        container[last] = self.after
        fixed_spec: Manifest = fixed
        return fixed_spec


@dataclass(frozen=True, slots=True)
class LintFinding:
    """`message` is a sentence; `path` is the place in the spec, "" for the whole spec."""

    subject: Subject
    name: str
    code: LintCode
    severity: Severity
    message: str
    path: str = ""
    fix: Fix | None = None


@dataclass(frozen=True, slots=True)
class NamedSpec:
    """
    A claim spec of the catalogue. `scalable` names the request that takes a count of up to `max_count`.
    """

    name: str
    spec: Json
    scalable: str = ""
    max_count: int = 1


@dataclass(frozen=True, slots=True)
class LintReport:
    """`matching` is the number of devices per spec that match any of its requests, None if unknown."""

    findings: list[LintFinding] = field(default_factory=list)
    matching: Mapping[str, int | None] = field(default_factory=dict)
    devices: int = 0
