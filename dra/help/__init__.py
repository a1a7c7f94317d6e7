"""
What would help a claim that does not fit: one thing less asked for at a time, each tried on the picture.

Nothing is guessed: every way is a spec, and what is said of it is what `dra.match.preview` says of that spec.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import or_

from dra.help.report import Relief, Way
from dra.help.ways import Found, ways
from dra.match import Preview, Reason, preview
from dra.match.funnel import funnel
from dra.objects import Json, asks
from dra.picture import Picture

__all__ = ["Relief", "Way", "what_would_help"]

TRIES = 24  # previews, which bounds the time that a page waits
# Where these stand in the way, asking for less does not change what can be told.
HOPELESS = frozenset((Reason.NO_REQUEST, Reason.NO_CLASS, Reason.INVALID, Reason.NOT_PREVIEWABLE))


def what_would_help(
    picture: Picture, spec: Json, claims: int = 1, now: Preview | None = None
) -> list[Relief]:
    """
    Return what makes `claims` claims of `spec` fit now, then what only brings more devices, most first.

    Where all of them fit as they are, it says what brings more devices or nodes.
    `now` is the preview of the spec, if it is known already. At most `TRIES` previews are made; a search that
    takes too long ends them.
    """
    now = preview(picture, spec, claims) if now is None else now
    if now.reason in HOPELESS:
        return []
    trying = _Trying(picture, claims, now)
    free = reduce(or_, (funnel(picture, ask).free for ask in asks(spec)), 0)
    found = [relief for way in ways(picture, spec, free) if (relief := trying.relief(way))]
    helpful = [one for one in found if one.fits or one.more or one.more_nodes]
    return sorted(_without_lesser(helpful), key=lambda one: (not one.fits, -one.more, -one.more_nodes))


class _Trying:
    """Previews of other specs, as many as are left."""

    def __init__(self, picture: Picture, claims: int, now: Preview) -> None:
        self.picture, self.claims, self.now = picture, claims, now
        self.left = TRIES

    def relief(self, way: Found) -> Relief | None:
        """Try a way; of several counts the largest that fits. None if nothing could be told."""
        if len(way.specs) == 1:
            seen = self._see(way.specs[0])
            return None if seen is None else self._made(way.relief, way.specs[0], seen)
        # What fits fits with one device less as well, so halving finds the largest count.
        low, high, best = 0, len(way.specs), None
        while low < high:
            middle = (low + high) // 2
            seen = self._see(way.specs[middle])
            if seen is None:
                return None
            if seen.fits:
                best = self._made(way.relief, way.specs[middle], seen, instead=str(middle + 1))
                low = middle + 1
            else:
                high = middle
        return best

    def _see(self, spec: Json) -> Preview | None:
        if not self.left:
            return None
        self.left -= 1
        seen = preview(self.picture, spec, self.claims)
        if seen.reason == Reason.TOO_LONG:
            self.left = 0
        return None if seen.free is None or seen.nodes_that_fit is None else seen

    def _made(self, relief: Relief, spec: Json, seen: Preview, *, instead: str = "") -> Relief:
        return replace(
            relief,
            spec=spec,
            instead=instead or relief.instead,
            fits=seen.fits and not self.now.fits,
            more=max((seen.free or 0) - (self.now.free or 0), 0),
            more_nodes=max((seen.nodes_that_fit or 0) - (self.now.nodes_that_fit or 0), 0),
        )


def _without_lesser(found: list[Relief]) -> list[Relief]:
    """Leave out dropping a condition where a lower bound brings as much."""
    lowered = {
        (one.request, one.condition): (one.fits, one.more) for one in found if one.way == Way.THRESHOLD
    }
    return [
        one
        for one in found
        if one.way != Way.CONDITION or lowered.get((one.request, one.condition)) != (one.fits, one.more)
    ]
