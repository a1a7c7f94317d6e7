"""Semantic Versioning 2.0 as in Kubernetes' CEL library (apiserver `pkg/cel/library/semverlib.go`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import Self

NUMBER = r"(0|[1-9][0-9]*)"
SYNTAX = re.compile(rf"{NUMBER}\.{NUMBER}\.{NUMBER}(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?", re.ASCII)
LOOSE = re.compile(r"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?([-+].*)?", re.ASCII)
LIMIT = 2**64  # upstream stores each part in 64 bits


class VersionError(ValueError):
    """The text is not a semantic version; the message is a sentence."""


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A version. Order and equality ignore build metadata (SemVer §10)."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()
    build: str = ""

    @classmethod
    def parse(cls, text: str, normalize: bool = False) -> Self:  # noqa: FBT001, FBT002 - CEL passes it by place
        """
        Read `text`; with `normalize` also "v1.2", which becomes 1.2.0, and leading zeros.

        Raise `VersionError` if it is not a version.
        """
        match = SYNTAX.fullmatch(_normalized(text) if normalize else text)
        if match is None:
            raise VersionError(f"“{text}” is not a semantic version such as 9.0.0.")
        major, minor, patch = (int(part) if len(part) <= 20 else LIMIT for part in match.groups()[:3])
        prerelease = tuple(match[4].split(".")) if match[4] else ()
        builds = match[5].split(".") if match[5] else []
        if max(major, minor, patch) >= LIMIT or not all(map(_identifier, prerelease)) or not all(builds):
            raise VersionError(f"“{text}” is not a semantic version such as 9.0.0.")
        return cls(major, minor, patch, prerelease, match[5] or "")

    @property
    def _order(self) -> tuple[object, ...]:
        # Numbers sort below words, and a release above each of its prereleases (SemVer §11).
        # Without leading zeros, the longer number is larger; numbers of equal length compare as text.
        parts = tuple((0, len(part), part) if part.isdigit() else (1, 0, part) for part in self.prerelease)
        return (self.major, self.minor, self.patch, not self.prerelease, parts)

    def __eq__(self, other: object) -> bool:
        return self._order == other._order if isinstance(other, Version) else NotImplemented

    def __lt__(self, other: Version) -> bool:
        return self._order < other._order

    def __hash__(self) -> int:
        return hash(self._order)

    def __str__(self) -> str:
        tail = f"-{'.'.join(self.prerelease)}" if self.prerelease else ""
        return f"{self.major}.{self.minor}.{self.patch}{tail}" + (f"+{self.build}" if self.build else "")


def _identifier(part: str) -> bool:
    return bool(part) and not (part.isdigit() and len(part) > 1 and part[0] == "0")


def _normalized(text: str) -> str:
    match = LOOSE.fullmatch(text)
    if match is None:
        return text
    numbers = ".".join((part or "0").lstrip("0") or "0" for part in match.groups()[:3])
    return numbers + (match[4] or "")
