"""Which devices are alike: taking one of them leads exactly as far as taking another."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from dra.allocator.constraints import compile_derived
from dra.allocator.plan import ClaimPlan
from dra.allocator.site import NodeSite
from dra.cel import CelError, Selector
from dra.cel.selector import compile_stored
from dra.held import HeldDevices


class NodeClasses:
    """
    All that the claims of a search can see of a device, worked out when first asked for.

    That is what their selectors and constraints read, and what decides whether it can be taken.
    """

    def __init__(self, site: NodeSite, plans: Sequence[ClaimPlan], gone: HeldDevices) -> None:
        self.site, self.plans, self.gone = site, plans, gone
        self._selectors: list[Selector | None] | None = None
        self._known: dict[int, Hashable] = {}

    def of(self, spot: int) -> Hashable:
        """Return what is equal for devices that are alike. One that cannot be told is like no other."""
        if spot not in self._known:
            self._known[spot] = self._look(spot)
        return self._known[spot]

    def _compile_all(self) -> list[Selector | None]:
        if self._selectors is None:
            wishes = [wish for plan in self.plans for options in plan.wishes for wish in options]
            expressions = {one for wish in wishes for one in (*wish.class_expressions, *wish.expressions)}
            derived = {str(one.get("expression") or "") for wish in wishes for one in wish.ask.derived}
            self._selectors = [_compiled(compile_stored, expression) for expression in sorted(expressions)]
            self._selectors += [_compiled(compile_derived, expression) for expression in sorted(derived)]
        return self._selectors

    def _look(self, spot: int) -> Hashable:
        device, raw = self.site.devices[spot], self.site.devices[spot].raw
        selectors = self._compile_all()
        if any(selector is None for selector in selectors):
            return spot
        seen = [next(selector.shapes((device,))) for selector in selectors if selector is not None]
        values = [repr(one.value(device)) for plan in self.plans for one in plan.constraints]
        counted = repr(raw.get("consumesCounters") or "")
        return (
            tuple(seen),
            tuple(values),
            counted and (self.site.pool_of[spot], counted),
            device.shareable,
            repr(raw.get("capacity")),
            repr(self.gone.consumed.get(device.key, "")),
            device.key in self.gone.holders,
            device.key in self.gone.sharers,
            tuple((taint.key, taint.value, taint.effect) for taint in self.site.taints(spot)),
            bool(raw.get("bindingConditions")),
            device.skipped,
            not device.per_device_node_selection or self.site.reached(spot),
        )


def _compiled(compiler: Callable[[str], Selector], expression: str) -> Selector | None:
    try:
        return compiler(expression)
    except CelError:
        return None
