"""
Equal parts of many JSON objects as one and the same object.

The devices of a large cluster differ in a few attributes and agree in the rest: kept once, they take a
fraction of the memory. What is shared must not be changed.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import Any

MOST = 200_000  # parts that are remembered; beyond it they are learnt anew


class Shared:
    """Parts that have been seen. `forget_single` drops those that turned out to be seen once."""

    def __init__(self) -> None:
        self._single: dict[Hashable, Any] = {}
        self._several: dict[Hashable, Any] = {}

    def __call__(self, value: Any) -> Any:
        """Return an equal value whose parts are those of earlier values where they are equal."""
        if type(value) is str:
            return sys.intern(value)
        if type(value) is dict:
            made: Any = {key: self(part) for key, part in value.items()}
            look: Hashable = (*made, *map(id, made.values()))
        elif type(value) is list:
            made = [self(part) for part in value]
            look = ("", *map(id, made))
        else:
            return value
        known = self._several.get(look)
        if known is None:
            known = self._single.pop(look, None)
            if known is None:
                self._single[look] = made
                return made
            self._several[look] = known
        return known

    def forget_single(self) -> None:
        self._single.clear()
        if len(self._several) > MOST:
            self._several.clear()
