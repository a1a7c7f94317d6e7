"""
The search: claim after claim, request after request, device after device, first fit in the order of the site.

Whole combinations are tried as upstream tries them, with three short cuts that find the same first solution.
Devices of one request are taken in ascending order, since their order among themselves says nothing. Where
one device was taken in vain, another that looks the same to the claims would be, too. And once a request has
failed, how many acceptable devices are left is known, so that 25 of 24 are not tried in all combinations.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

from dra.allocator.capacity import CapacityAmount, is_left, share
from dra.allocator.constraints import Constraint, compile_derived
from dra.allocator.counters import Counters
from dra.allocator.plan import Candidate, ClaimPlan, accepts
from dra.allocator.result import Taken
from dra.allocator.site import AllocationError, NodeSite, SearchGivenUp
from dra.cel import CelError, Selector
from dra.cel.selector import compile_stored
from dra.features import Implementation
from dra.held import HeldDevices
from dra.objects import MAX_RESULTS, Json
from dra.pools import DeviceKey, PoolDevice
from dra.quantity import ZERO, Quantity
from dra.taints import untolerated

STEPS = 50_000  # devices tried before a search gives up, less than a second: a page waits for it

type Undo = Callable[[], None]


class _TooMany(Exception):
    """The claim would hold more devices than one claim can."""


class NodeSearch:
    """One search on one node, of at most that many `steps`. Use it once."""

    def __init__(self, site: NodeSite, plans: Sequence[ClaimPlan], steps: int = STEPS) -> None:
        self.site, self.plans, self.features = site, plans, site.features
        held = site.snapshot.held
        self.gone = HeldDevices(holders=held.holders) if self.features.stable else held
        self.taken: list[list[Taken]] = [[] for _ in plans]
        self.chosen: list[list[Candidate]] = [[] for _ in plans]
        self.held = HeldDevices()  # shares that this search has taken
        self.seen_by: dict[DeviceKey, set[int]] = {}  # claims of this search that take or watch a device
        self.counters = Counters(site, self.gone)
        self.looks = NodeClasses(site, plans, self.gone)
        self.keys = [device.key for device in site.devices]
        self.steps, self.most = 0, steps

    def run(self) -> bool:
        """
        Fill `taken`; return False if the claims do not fit.

        Raise `AllocationError` if a selector fails on a device that had to be asked, or if it takes too long.
        """
        try:
            return self._claim(0)
        except _TooMany:
            raise AllocationError(f"The claim would hold more than {MAX_RESULTS} devices.") from None
        except RecursionError:
            raise SearchGivenUp("These are more claims at once than one search can try.") from None

    def _claim(self, number: int) -> bool:
        return number == len(self.plans) or self._request(number, 0)

    def _request(self, number: int, request: int) -> bool:
        plan = self.plans[number]
        if request == len(plan.wishes):
            try:
                return self._claim(number + 1)
            except _TooMany:
                return False  # an earlier claim may leave room if it takes another alternative
        options = plan.wishes[request]
        too_many = 0
        for wish in options:
            self.chosen[number].append(wish)
            try:
                if self._devices(number, request, wish, 0, 0):
                    return True
            except _TooMany:
                too_many += 1
            self.chosen[number].pop()
        if too_many == len(options):
            raise _TooMany
        return False

    def _devices(self, number: int, request: int, wish: Candidate, taken: int, start: int) -> bool:  # noqa: C901
        if wish.all_of is not None and not wish.all_of:
            return False
        if taken == wish.count:
            return self._request(number, request + 1)
        if len(self.taken[number]) + wish.count - taken > MAX_RESULTS:
            raise _TooMany
        if wish.all_of is not None:
            spot = wish.all_of[taken]
            undo = self._take(number, wish, spot) if self._open(number, wish, spot) else None
            return undo is not None and self._with(undo, number, request, wish, taken + 1, 0)
        in_vain: set[Hashable] = set()
        for spot in range(start, len(self.site.devices)):
            if wish.left is not None and wish.left[spot] < wish.count - taken:
                return False
            if not self._open(number, wish, spot) or not accepts(self.site, wish, spot):
                continue
            if in_vain and self._untouched(spot) and self.looks.of(spot) in in_vain:
                continue
            undo = self._take(number, wish, spot)
            if undo is None:
                continue
            if self._with(undo, number, request, wish, taken + 1, spot + 1):
                return True
            if self._untouched(spot):
                in_vain.add(self.looks.of(spot))
        self._learn(wish)
        return False

    def _with(self, undo: Undo, number: int, request: int, wish: Candidate, taken: int, start: int) -> bool:
        """Go on with a device taken; give it back if that leads nowhere."""
        done = False
        try:
            done = self._devices(number, request, wish, taken, start)
        finally:
            if not done:
                undo()
        return done

    def _untouched(self, spot: int) -> bool:
        key = self.keys[spot]
        return not self.seen_by.get(key) and not self.held.sharers.get(key)

    def _learn(self, wish: Candidate) -> None:
        """
        Count from each spot on how many devices the request could take at best.

        Only once it is known of all devices whether selectors accept them: upstream must not come upon one
        on which they fail where this search has turned back.
        """
        if wish.left is not None:
            return
        left, counts = 0, [0]
        for spot in range(len(self.site.devices) - 1, -1, -1):
            if wish.request.admin or self.keys[spot] not in self.gone.holders:
                known = wish.known.get(spot)
                if known is None:
                    return
                left += known and self._tolerated(wish, spot)
            counts.append(left)
        wish.left = counts[::-1]

    def _open(self, number: int, wish: Candidate, spot: int) -> bool:
        """Whether the device is not in use: cheap to know, and therefore asked before the selectors."""
        key = self.keys[spot]
        seen = self.seen_by.get(key)
        if wish.request.admin:
            return not seen or number not in seen
        return not seen and key not in self.gone.holders

    def _tolerated(self, wish: Candidate, spot: int) -> bool:
        if not self.features.device_taints:
            return True
        known = wish.tolerated.get(spot)
        if known is None:
            known = untolerated(wish.request.tolerations, self.site.taints(spot)) is None
            wish.tolerated[spot] = known
        return known

    def _usable(self, device: PoolDevice) -> bool:
        """Whether the switches allow to take the device, and the node can leave out what its driver does."""
        if device.raw.get("consumesCounters") and not self.features.partitionable_devices:
            return False
        if not device.skipped or self.features.implementation is not Implementation.EXPERIMENTAL:
            return True
        status: Json = self.site.node.get("status") or {}
        declared = "DRAOptionalNodeOperations" in (status.get("declaredFeatures") or ())
        return self.features.optional_node_operations and declared

    def _take(self, number: int, wish: Candidate, spot: int) -> Undo | None:  # noqa: C901
        """Take a device for a request and return how to give it back; None if it cannot be taken."""
        self.steps += 1
        if self.steps > self.most:
            raise SearchGivenUp(f"No way to allocate was found among the first {self.most} tried.")
        device = self.site.devices[spot]
        consumed: dict[str, CapacityAmount] | None = {}
        if self.features.consumable_capacity:
            consumed = self._share(wish, spot)
        if consumed is None and wish.all_of is None:
            return None
        if not self._usable(device) or not self._tolerated(wish, spot):
            return None
        shared = self.features.consumable_capacity and device.shareable
        release: Undo | None = None
        # The first share of a device takes its counters, admin access as well; further shares take none.
        if device.raw.get("consumesCounters") and not (shared and self._in_shares(device)):
            release = self.counters.take(spot)
            if release is None:
                return None
        added = self._constrain(number, wish, device)
        # Of all devices a constraint is asked before capacity, since it is an error to break it.
        if added is None or consumed is None:
            for constraint in added or ():
                constraint.drop()
            if release is not None:
                release()
            return None
        record = self._record(number, wish, spot, consumed if shared else {}, shared=shared)

        def undo() -> None:
            record()
            for constraint in added:
                constraint.drop()
            if release is not None:
                release()

        return undo

    def _in_shares(self, device: PoolDevice) -> bool:
        return bool(self.held.sharers.get(device.key)) or device.key in self.gone.sharers

    def _share(self, wish: Candidate, spot: int) -> dict[str, CapacityAmount] | None:
        """Return what the wish takes of the device's capacity; None if that is not left."""
        device, known = self.site.devices[spot], wish.shares.get(spot)
        gone = self._consumed(self.keys[spot])
        if known is not None:  # what it takes does not depend on what is gone
            return known if not gone or is_left(device, known, gone) else None
        fractional = self.features.fractional_capacity_range
        found = share(device, wish.request.capacity, gone, fractional=fractional)
        if found is not None:
            wish.shares[spot] = found
        return found

    def _consumed(self, key: DeviceKey) -> Mapping[str, Quantity]:
        gone, taken = self.gone.consumed.get(key), self.held.consumed.get(key)
        if not gone or not taken:
            return gone or taken or {}
        return gone | {name: gone.get(name, ZERO) + amount for name, amount in taken.items()}

    def _constrain(self, number: int, wish: Candidate, device: PoolDevice) -> list[Constraint] | None:
        """Return the constraints that have accepted the device, or None if one refuses it."""
        added: list[Constraint] = []
        for constraint in self.plans[number].constraints:
            if not constraint.applies(wish.request):
                continue
            if not constraint.add(wish.request, device):
                for earlier in added:
                    earlier.drop()
                if wish.all_of is not None:
                    raise AllocationError(
                        f"Request {wish.request.result_name} needs all devices, but {device} does not meet a "
                        "constraint of the claim."
                    )
                return None
            added.append(constraint)
        return added

    def _record(
        self, number: int, wish: Candidate, spot: int, consumed: dict[str, CapacityAmount], *, shared: bool
    ) -> Undo:
        key = self.keys[spot]
        self.taken[number].append(Taken(wish, spot, consumed, shared))
        amounts = self.held.consumed[key] if shared else {}
        if shared:
            self.held.sharers[key].append(str(number))
        else:
            self.seen_by.setdefault(key, set()).add(number)
        for name, amount in consumed.items():
            amounts[name] = amounts.get(name, ZERO) + amount.quantity

        def undo() -> None:
            self.taken[number].pop()
            if shared:
                self.held.sharers[key].pop()
            else:
                self.seen_by[key].discard(number)
            for name, amount in consumed.items():
                amounts[name] = amounts[name] - amount.quantity

        return undo


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
            derived = {str(one.get("expression") or "") for wish in wishes for one in wish.request.derived}
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
