"""What a check finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Problem:
    """`path` stands as in the API's own messages ("devices.requests[0].name"); `message` is a sentence."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class Findings:
    """Problems as they come up, and the checks of shape that every part of a spec needs."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def add(self, path: str, message: str) -> None:
        self.problems.append(Problem(path, message))

    def mapping(self, path: str, value: Any, known: frozenset[str]) -> Mapping[str, Any] | None:
        """Return `value` if it is an object, after a word on fields that the API would drop; else None."""
        if not isinstance(value, Mapping):
            self.add(path, "This must be an object.")
            return None
        for key in value.keys() - known:
            self.add(f"{path}.{key}" if path else str(key), f"The API has no field {key} here.")
        return value

    def items(self, path: str, value: Any, most: int, what: str) -> list[tuple[str, Any]]:
        """Return (path, item) of a list, after a word if it is none or too long; nothing for null."""
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            self.add(path, "This must be a list.")
            return []
        if len(value) > most:
            self.add(path, f"There are {len(value)} {what}; at most {most} are allowed.")
        return [(f"{path}[{place}]", item) for place, item in enumerate(value)]
