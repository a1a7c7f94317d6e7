"""
The devices of a cluster, grouped by all that the expressions of a catalogue read of them.

Devices that agree in that get one verdict from every expression, so a fleet of thousands needs some dozen
evaluations per expression, and a set of groups is a column of the samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence

from dra.cel import CelError, CompileError, NotPreviewable, Selector, compile_selector
from dra.cel.reading import Reading
from dra.columns import Column, everything, places
from dra.facts import Ref, lookup
from dra.lint.published import Published
from dra.lint.rewrite import methods
from dra.picture import Picture
from dra.pools import PoolDevice
from dra.verdicts import Verdicts, judge

type Groups = Column


class Population:
    """Groups of alike devices of one picture. Use it for one run: it is not safe for several threads."""

    def __init__(self, picture: Picture, expressions: Iterable[str], published: Published) -> None:
        self.picture = picture
        self.every = picture.devices
        self._judged: dict[str, Verdicts] = {}
        self._by_node: dict[int, Counter[str]] = {}
        refs: set[Ref] = set()
        self._whole = False
        for expression in expressions:
            reading = self._reading(expression) or self._reading(methods(expression))
            if reading is None:
                continue
            refs |= reading.refs
            self._whole = self._whole or bool(reading.names or reading.whole)
        meant = {published.closest(ref) for ref in refs if not published.has(ref)}
        refs |= {ref for ref in meant if ref is not None}
        self._refs = refs
        by_look: dict[Hashable, list[int]] = {}
        for place, device in enumerate(self.every):
            by_look.setdefault(self._look(device), []).append(place)
        self.places: Sequence[list[int]] = list(by_look.values())
        self.samples = [self.every[places[0]] for places in self.places]
        self.all: Groups = everything(len(self.places))

    def _look(self, device: PoolDevice) -> Hashable:
        raw, driver = device.raw, device.driver
        if self._whole:
            return driver, device.shareable, repr(raw.get("attributes")), repr(raw.get("capacity"))
        seen = (repr(lookup(raw.get(part) or {}, driver, domain, name)) for part, domain, name in self._refs)
        return driver, device.shareable, *seen

    def numbers(self, groups: Groups) -> Iterator[int]:
        """Return the numbers of the groups in the set."""
        return places(groups, len(self.places))

    def count(self, groups: Groups) -> int:
        """Return how many devices the groups have."""
        return sum(len(self.places[number]) for number in self.numbers(groups))

    def devices(self, groups: Groups) -> Iterator[PoolDevice]:
        for number in self.numbers(groups):
            for place in self.places[number]:
                yield self.every[place]

    def by_node(self, number: int) -> Counter[str]:
        """Return how many devices of a group are local to each node; "" counts those that several reach."""
        known = self._by_node.get(number)
        if known is None:
            known = Counter([self.every[place].node_name for place in self.places[number]])
            self._by_node[number] = known
        return known

    def judge(self, expression: str) -> Verdicts:
        """Raise `CompileError` or `NotPreviewable` for what cannot be evaluated here."""
        known = self._judged.get(expression)
        if known is None:
            known = self._judged[expression] = self._judge(
                compile_selector(expression, self.picture.features)
            )
        return known

    def _judge(self, selector: Selector) -> Verdicts:
        found = judge(selector, self.samples, list(selector.shapes(self.samples)))
        for error in found.failing.values():
            if isinstance(error, NotPreviewable):
                raise error
        return found

    def try_out(self, expression: str) -> Verdicts | None:
        """Return what another expression says, None if it cannot be used or reads what was not foreseen."""
        try:
            selector = compile_selector(expression, self.picture.features)
            reading = selector.reading
            foreseen = not (reading.names or reading.whole) and reading.refs <= self._refs
            return self._judge(selector) if self._whole or foreseen else None
        except (CompileError, NotPreviewable):
            return None

    def _reading(self, expression: str) -> Reading | None:
        try:
            return compile_selector(expression, self.picture.features).reading
        except CelError:
            return None
