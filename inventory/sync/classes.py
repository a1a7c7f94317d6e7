"""
Which DeviceClasses a device belongs to.

A fleet has thousands of devices and a dozen shapes: each selector is evaluated once per shape, which is what
it can see of a device. What CEL cannot decide here counts as no member, never as a guess.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache

from dra.cel import CelError, Selector, compile_selector
from dra.objects import expressions
from dra.pools import PoolDevice
from inventory.models import DeviceClass

BOOKS = 32  # kept per process; a cluster has one until its classes change
SHAPES = 20_000  # of devices remembered by a book


def class_book(classes: Iterable[DeviceClass]) -> ClassBook:
    """Return the book of these classes: the last one if they have not changed, with the shapes it knows."""
    return _book(tuple((row.name, tuple(expressions(row.raw.get("spec") or {}))) for row in classes))


class ClassBook:
    """The classes of one cluster, ready to be asked for many devices."""

    def __init__(self, classes: Iterable[tuple[str, tuple[str, ...]]]) -> None:
        self._selectors = {name: _compiled(texts) for name, texts in classes}
        self._known: dict[tuple[str, Hashable], bool] = {}

    def of(self, devices: Sequence[PoolDevice]) -> list[list[str]]:
        """Return for each device the names of the classes whose selectors are all met, sorted."""
        found: list[list[str]] = [[] for _ in devices]
        for name in sorted(self._selectors):
            for place, met in enumerate(self._members(self._selectors[name], devices)):
                if met:
                    found[place].append(name)
        return found

    def _members(self, selectors: list[Selector] | None, devices: Sequence[PoolDevice]) -> list[bool]:
        met = [selectors is not None] * len(devices)
        for selector in selectors or ():
            for place, shape in enumerate(selector.shapes(devices)):
                met[place] = met[place] and self._meets(selector, shape, devices[place])
        return met

    def _meets(self, selector: Selector, shape: Hashable, device: PoolDevice) -> bool:
        key = (selector.expression, shape)
        met = self._known.get(key)
        if met is None:
            if len(self._known) >= SHAPES:
                self._known.clear()
            met = self._known[key] = _matches(selector, device)
        return met


@lru_cache(maxsize=BOOKS)
def _book(classes: tuple[tuple[str, tuple[str, ...]], ...]) -> ClassBook:
    return ClassBook(classes)


def _matches(selector: Selector, device: PoolDevice) -> bool:
    try:
        return selector.matches(device)
    except CelError:
        return False


def _compiled(texts: Iterable[str]) -> list[Selector] | None:
    """Return None if one of the selectors cannot be evaluated here."""
    try:
        return [compile_selector(text) for text in texts]
    except CelError:
        return None
