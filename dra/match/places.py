"""On how many nodes a claim fits, and how many claims fit at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from dra.allocator import AllocationError, SearchGivenUp, allocate
from dra.allocator.constraints import constraints_of
from dra.match.funnel import Funnel
from dra.match.looks import Looks
from dra.match.options import Option, option_of
from dra.nodes import name_of
from dra.objects import Json
from dra.picture import Picture

LOOKS = 500  # searches per preview

type Runs = Sequence[range]


@dataclass(slots=True)
class Fit:
    """
    `nodes` that fit one claim, and how many claims all of them together could take, at most as many as asked.
    """

    nodes: list[str]
    claims: int
    gave_up: bool = False


def fit(picture: Picture, spec: Json, funnels: Sequence[Funnel], claims: int) -> Fit:
    """
    Count nodes and claims. A cordoned node takes no pod and therefore no claim.

    Raise `AllocationError` for a constraint that names no attribute.
    """
    attributes = sorted({constraint.attribute for constraint in constraints_of(spec)})
    counting = _Counting(picture, spec, funnels, attributes, claims)
    found = Fit([], 0)
    looks: Counter[Hashable] = Counter()
    for node, runs in picture.sites:
        if counting.fits(node, runs):
            found.nodes.append(name_of(node))
            looks[counting.look] += 1
    # Devices that several nodes reach can be taken once only: add nothing up that might be the same.
    if found.nodes and not picture.stock.wanders and len(found.nodes) >= claims:
        found.claims = claims
    elif picture.stock.wanders:
        found.claims = max((counting.times(look) for look in looks), default=0)
    else:
        found.claims = sum(counting.times(look) * nodes for look, nodes in looks.items())
    found.claims = min(found.claims, claims)
    found.gave_up = counting.gave_up
    return found


def nodes_of(picture: Picture) -> Sequence[Json]:
    """Return the nodes of the picture; without any, bare ones of the names that devices are local to."""
    return picture.nodes or [node for node, _ in picture.sites]


def needs(funnels: Sequence[Funnel]) -> dict[str, int]:
    """Return the least number of devices per request; of mode All at least one."""
    return {name: min(counts) for name, counts in _counts(funnels).items()}


def _counts(funnels: Sequence[Funnel]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for one in funnels:
        found.setdefault(one.ask.request, []).append(1 if one.ask.all else one.ask.count)
    return found


class _Counting:
    """How many claims fit a node, worked out once per look of a node."""

    def __init__(
        self,
        picture: Picture,
        spec: Json,
        funnels: Sequence[Funnel],
        attributes: Sequence[str],
        claims: int,
    ) -> None:
        self.picture, self.claims = picture, claims
        self.claim: Json = {"metadata": {"name": "preview"}, "spec": spec}
        self.least = max(1, sum(needs(funnels).values()))
        every = any(one.ask.all for one in funnels)
        most = claims * sum(max(counts) for counts in _counts(funnels).values())
        self.most = len(picture.devices) if every else most
        self.options = [option_of(picture, one, self.most) for one in funnels]
        self.alone = None if attributes else _alone(picture, self.options)
        self.looks = Looks(picture, self.options, attributes, self.most)
        self.sites: dict[Hashable, tuple[Json, Runs]] = {}  # one of each look that fits
        self.known: dict[Hashable, bool] = {}
        self.look: Hashable = None  # of the node that was asked about last
        self.searches = 0
        self.gave_up = False

    def fits(self, node: Json, runs: Runs) -> bool:
        """Say whether one claim fits on the node."""
        if self.alone is not None:
            rooms = [
                (sum([flags.count(1, run.start, run.stop) for run in runs]), need)
                for flags, need in self.alone.rooms
            ]
            known = any(room >= need for room, need in rooms)
            self.look = tuple([room for room, _ in rooms])
        else:
            self.look = self.looks.look(runs)
            if self.look not in self.known:
                self.known[self.look] = self._fits(node, 1)
            known = self.known[self.look]
        if known:
            self.sites.setdefault(self.look, (node, runs))
        return known

    def times(self, look: Hashable) -> int:
        """Return how many claims fit on a node of a look that fits one, at most as many as asked for."""
        node, runs = self.sites[look]
        bound = min(self.claims, self._room(runs) // self.least)
        if self.alone is not None and self.alone.additive:
            return bound
        times = 1
        while times < bound and self._fits(node, times + 1):
            times += 1
        return times

    def _room(self, runs: Runs) -> int:
        """Return an upper bound of the devices or shares that requests could take on a node."""
        if any(option.funnel.ask.admin for option in self.options):
            return self.claims * self.least
        length = len(self.picture.devices)
        tables = [option.shares or option.usable.to_bytes(length, "little") for option in self.options]
        return sum(max(table[place] for table in tables) for run in runs for place in run)

    def _fits(self, node: Json, claims: int) -> bool:
        """Try that many claims at once; they share the node, so the search sees them all."""
        # One search that took too long, or very many searches, are as much as a page may wait for.
        self.searches += 1
        self.gave_up = self.gave_up or self.searches > LOOKS
        if self.gave_up:
            return False
        try:
            return allocate(self.picture, node, [self.claim] * claims) is not None
        except SearchGivenUp:
            self.gave_up = True
        except AllocationError:
            pass
        return False


@dataclass(frozen=True, slots=True)
class _Alone:
    """
    For one request of devices that do not depend on each other, the number of usable ones is the answer.

    `rooms` are, per alternative, flags of what is usable and how many it needs. `additive`: twice as many are
    enough for two claims.
    """

    rooms: list[tuple[bytes, int]]
    additive: bool


def _alone(picture: Picture, options: Sequence[Option]) -> _Alone | None:
    """Return None if it takes a search."""
    if len({option.funnel.ask.request for option in options}) > 1 or picture.stock.wanders:
        return None
    entangled = picture.stock.counting | picture.stock.shareable
    for option in options:
        if not option.plain or (entangled & option.usable and option.funnel.ask.count > 1):
            return None
    length = len(picture.devices)
    rooms = [(option.usable.to_bytes(length, "little"), option.funnel.ask.count) for option in options]
    return _Alone(rooms, len(options) == 1 and not entangled & options[0].usable)
