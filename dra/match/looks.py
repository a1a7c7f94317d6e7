"""
What a node looks like to a claim. Nodes that look alike give one answer, so thousands of nodes need a handful
of searches.

Whether a claim fits does not depend on the order in which devices are tried, and of devices that are alike no
more matter than the claims could take. Only a selector that fails makes the order tell: then it is kept.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from functools import reduce
from operator import or_

from dra.columns import Column, pack, unpack
from dra.match.options import Option
from dra.picture import Picture
from dra.stock import MISSING

BITS = 8  # flags that a byte has room for


class Looks:
    """How the nodes of a picture look to claims that take at most `most` devices together."""

    def __init__(
        self, picture: Picture, options: Sequence[Option], attributes: Sequence[str], most: int
    ) -> None:
        self.picture, self.most = picture, most
        stock = picture.stock
        groups = [group for option in options for group in _groups(option)]
        failing = {place for option in options for place in option.funnel.failing}
        self.in_order = bool(failing)
        if failing:
            groups.append(pack(place in failing for place in range(len(picture.devices))))
        seen = reduce(or_, groups, 0)
        self.flags = _bytes(groups, len(picture.devices))
        self.values = [stock.values(attribute) for attribute in attributes]
        self.marks: list[Sequence[int]] = list(self.flags)
        if stock.shareable & seen or any(option.funnel.ask.capacity for option in options):
            asked = [option.funnel.ask.capacity for option in options]
            shares = options[0].shares
            alike = all(one == asked[0] for one in asked) and len(options) == 1
            self.marks.append(shares if shares is not None and alike else picture.remains)
        self.counting = bool(stock.counting & seen)
        if self.counting:
            self.marks.append(stock.appetites)
        self._columns = [_packed(one) for one in (*self.marks, *self.values)]
        self._known: dict[Hashable, Hashable] = {}

    def look(self, runs: Sequence[range]) -> Hashable:
        """Describe the devices at these places by what matters: nodes alike to the claims are equal."""
        parts: list[Hashable] = [
            packed[run.start * width : run.stop * width] for packed, width in self._columns for run in runs
        ]
        if self.counting:
            state = self.picture.pool_state
            for run in runs:
                parts += [(times, state(number)) for times, number in self.picture.stock.pools_in(run)]
        raw = tuple(parts)
        known = self._known.get(raw)
        if known is None:
            known = self._known[raw] = self._normal(runs)
        return known

    def _normal(self, runs: Sequence[range]) -> Hashable:
        places = [place for run in runs for place in run if any(flags[place] for flags in self.flags)]
        rows = [(tuple([mark[place] for mark in self.marks]), place) for place in places]
        ties = list(self.values)
        if self.counting:
            ties.append(self.picture.stock.pool_numbers)
        if self.in_order:
            return _renumbered(rows, ties)
        if not ties:
            return self._counted(mark for mark, _ in rows)
        if len(ties) > 1:
            states = [self._state_at(place) for _, place in sorted(rows)]
            return (*_renumbered(sorted(rows), ties), *states)
        groups: dict[int, list[tuple[int, ...]]] = defaultdict(list)
        states_of: dict[int, int] = {}
        for mark, place in rows:
            value = ties[0][place]
            groups[value].append(mark)
            states_of[value] = self._state_at(place) if self.counting else int(value == MISSING)
        return self._counted((states_of[value], self._counted(group)) for value, group in groups.items())

    def _state_at(self, place: int) -> int:
        return self.picture.pool_state(self.picture.stock.pool_numbers[place]) if self.counting else 0

    def _counted(self, found: Iterable[Hashable]) -> Hashable:
        """Return each thing with how often it is there, as far as that matters."""
        return frozenset((one, min(times, self.most)) for one, times in Counter(found).items())


def _groups(option: Option) -> list[Column]:
    """Return what the search asks of a device: of mode All also those in the way, which stop it."""
    if option.funnel.ask.all:
        return [option.funnel.accepted, option.funnel.free]
    return [option.usable]


def _bytes(groups: Sequence[Column], length: int) -> list[bytes]:
    """Return the groups as flags, eight in a byte."""
    packs = (groups[start : start + BITS] for start in range(0, len(groups), BITS))
    return [unpack(sum(group << bit for bit, group in enumerate(pack_)), length) for pack_ in packs]


def _packed(column: Sequence[int]) -> tuple[bytes, int]:
    """Return the numbers as bytes, and how many bytes each has."""
    return (column, 1) if isinstance(column, bytes) else (array("q", column).tobytes(), 8)


def _renumbered(
    rows: Sequence[tuple[tuple[int, ...], int]], ties: Sequence[Sequence[int]]
) -> tuple[Hashable, ...]:
    """Which value it is does not matter, only which devices have the same."""
    found: list[Hashable] = [mark for mark, _ in rows]
    for of in ties:
        numbers = {MISSING: MISSING}
        found.append(tuple([numbers.setdefault(of[place], len(numbers)) for _, place in rows]))
    return tuple(found)
