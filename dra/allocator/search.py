"""
The search: backtracking over claims, requests and devices, first fit in the order of the node's devices.

It tries combinations like upstream, with three shortcuts that find the same first solution. Devices of one
request are allocated in ascending order, as their order does not matter. After a device failed, equivalent
devices are skipped. After a request failed once, the number of acceptable devices from each index on is
known, so that 25 of 24 devices are not tried in all combinations.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

from dra.allocator.capacity import CapacityAmount, Counters, Undo, is_left, share
from dra.allocator.node import AllocationError, NodeSite, SearchGivenUp, TooManyDevices
from dra.allocator.plan import Candidate, ClaimPlan, Constraint, accepts, compile_derived
from dra.allocator.result import InternalDeviceResult
from dra.cel import CelError, Selector
from dra.cel.selector import compile_stored
from dra.held import HeldDevices
from dra.node_pools import is_supported
from dra.objects import MAX_RESULTS
from dra.pools import DeviceKey, PoolDevice
from dra.quantity import ZERO, Quantity
from dra.taints import untolerated

MAX_STEPS = 50_000  # devices tried before a search gives up, in less than a second: a page waits for it


class _TooManyDevices(Exception):
    """The claim exceeds the device limit of one claim."""


class NodeSearch:
    """One search on one node, of at most `steps` devices. Use it once."""

    def __init__(self, site: NodeSite, plans: Sequence[ClaimPlan], steps: int = MAX_STEPS) -> None:
        self.site, self.plans, self.features = site, plans, site.features
        held = site.snapshot.held
        self.held_before = HeldDevices(holders=held.holders) if self.features.stable else held
        self.taken: list[list[InternalDeviceResult]] = [[] for _ in plans]
        self.chosen: list[list[Candidate]] = [[] for _ in plans]
        self.held = HeldDevices()  # shares that this search has allocated
        self.users: dict[DeviceKey, set[int]] = {}  # claims of this search that use a device
        self.counters = Counters(site, self.held_before)
        self.node_classes = EquivalentDevices(site, plans, self.held_before)
        self.keys = [device.key for device in site.devices]
        self.steps, self.max_steps = 0, steps

    def run(self) -> bool:
        """
        Fill `taken`; return False if the claims do not fit.

        Raise `AllocationError` if a selector fails on a tried device, or if the search takes too long.
        """
        try:
            return self._claim(0)
        except _TooManyDevices:
            raise TooManyDevices(f"The claim needs more than {MAX_RESULTS} devices.") from None
        except RecursionError:
            raise SearchGivenUp("One search cannot allocate so many claims.") from None

    def _claim(self, number: int) -> bool:
        return number == len(self.plans) or self._request(number, 0)

    def _request(self, number: int, request: int) -> bool:
        plan = self.plans[number]
        if request == len(plan.candidates):
            try:
                return self._claim(number + 1)
            except _TooManyDevices:
                return False  # another alternative of an earlier claim may leave room
        options = plan.candidates[request]
        too_many = 0
        for candidate in options:
            self.chosen[number].append(candidate)
            try:
                if self._devices(number, request, candidate, 0, 0):
                    return True
            except _TooManyDevices:
                too_many += 1
            self.chosen[number].pop()
        if too_many == len(options):
            raise _TooManyDevices
        return False

    def _devices(self, number: int, request: int, candidate: Candidate, allocated: int, start: int) -> bool:  # noqa: C901
        if candidate.all_of is not None and not candidate.all_of:
            return False
        if allocated == candidate.count:
            return self._request(number, request + 1)
        if len(self.taken[number]) + candidate.count - allocated > MAX_RESULTS:
            raise _TooManyDevices
        if candidate.all_of is not None:
            index = candidate.all_of[allocated]
            undo = self._take(number, candidate, index) if self._is_unused(number, candidate, index) else None
            return undo is not None and self._continue_with(
                undo, number, request, candidate, allocated + 1, 0
            )
        failed_classes: set[Hashable] = set()
        for index in range(start, len(self.site.devices)):
            if candidate.left is not None and candidate.left[index] < candidate.count - allocated:
                return False
            if not self._is_unused(number, candidate, index) or not accepts(self.site, candidate, index):
                continue
            if failed_classes and self._untouched(index) and self.node_classes.of(index) in failed_classes:
                continue
            undo = self._take(number, candidate, index)
            if undo is None:
                continue
            if self._continue_with(undo, number, request, candidate, allocated + 1, index + 1):
                return True
            if self._untouched(index):
                failed_classes.add(self.node_classes.of(index))
        self._count_acceptable(candidate)
        return False

    def _continue_with(
        self, undo: Undo, number: int, request: int, candidate: Candidate, allocated: int, start: int
    ) -> bool:
        """Continue with a device allocated; undo that if the search fails."""
        done = False
        try:
            done = self._devices(number, request, candidate, allocated, start)
        finally:
            if not done:
                undo()
        return done

    def _untouched(self, index: int) -> bool:
        key = self.keys[index]
        return not self.users.get(key) and not self.held.sharers.get(key)

    def _count_acceptable(self, candidate: Candidate) -> None:
        """
        Count the devices that the request can get from each index on.

        Only after all devices have selector results: upstream may find a device on which a selector fails
        where this search would stop.
        """
        if candidate.left is not None:
            return
        left, counts = 0, [0]
        for index in range(len(self.site.devices) - 1, -1, -1):
            if candidate.request.admin or self.keys[index] not in self.held_before.holders:
                accepted = candidate.known.get(index)
                if accepted is None:
                    return
                left += accepted and self._tolerated(candidate, index)
            counts.append(left)
        candidate.left = counts[::-1]

    def _is_unused(self, number: int, candidate: Candidate, index: int) -> bool:
        """Whether the device is unused; checked before the selectors because it is cheap."""
        key = self.keys[index]
        users = self.users.get(key)
        if candidate.request.admin:
            return not users or number not in users
        return not users and key not in self.held_before.holders

    def _tolerated(self, candidate: Candidate, index: int) -> bool:
        if not self.features.device_taints:
            return True
        tolerated = candidate.tolerated.get(index)
        if tolerated is None:
            tolerated = untolerated(candidate.request.tolerations, self.site.taints(index)) is None
            candidate.tolerated[index] = tolerated
        return tolerated

    def _take(self, number: int, candidate: Candidate, index: int) -> Undo | None:  # noqa: C901
        """Allocate a device for a request and return the undo function; None if that is impossible."""
        self.steps += 1
        if self.steps > self.max_steps:
            raise SearchGivenUp(f"The search found no allocation after {self.max_steps} devices.")
        device = self.site.devices[index]
        consumed: dict[str, CapacityAmount] | None = {}
        if self.features.consumable_capacity:
            consumed = self._share(candidate, index)
        if consumed is None and candidate.all_of is None:
            return None
        if not is_supported(device, self.site.node, self.features) or not self._tolerated(candidate, index):
            return None
        shared = self.features.consumable_capacity and device.shareable
        release: Undo | None = None
        # The first share of a device consumes its counters, also with admin access; further shares do not.
        if device.raw.get("consumesCounters") and not (shared and self._in_shares(device)):
            release = self.counters.take(index)
            if release is None:
                return None
        added = self._constrain(number, candidate, device)
        # Constraints come before capacity, since mode All fails with an error if one is not met.
        if added is None or consumed is None:
            for constraint in added or ():
                constraint.drop()
            if release is not None:
                release()
            return None
        record = self._record(number, candidate, index, consumed if shared else {}, shared=shared)

        def undo() -> None:
            record()
            for constraint in added:
                constraint.drop()
            if release is not None:
                release()

        return undo

    def _in_shares(self, device: PoolDevice) -> bool:
        return bool(self.held.sharers.get(device.key)) or device.key in self.held_before.sharers

    def _share(self, candidate: Candidate, index: int) -> dict[str, CapacityAmount] | None:
        """Return the capacity that the candidate consumes of the device; None if too little is left."""
        device, cached = self.site.devices[index], candidate.shares.get(index)
        consumed = self._consumed(self.keys[index])
        if cached is not None:  # the amounts do not depend on what is held
            return cached if not consumed or is_left(device, cached, consumed) else None
        fractional = self.features.fractional_capacity_range
        amounts = share(device, candidate.request.capacity, consumed, fractional=fractional)
        if amounts is not None:
            candidate.shares[index] = amounts
        return amounts

    def _consumed(self, key: DeviceKey) -> Mapping[str, Quantity]:
        held, allocated = self.held_before.consumed.get(key), self.held.consumed.get(key)
        if not held or not allocated:
            return held or allocated or {}
        return held | {name: held.get(name, ZERO) + amount for name, amount in allocated.items()}

    def _constrain(self, number: int, candidate: Candidate, device: PoolDevice) -> list[Constraint] | None:
        """Return the constraints that accepted the device, or None if one rejects it."""
        added: list[Constraint] = []
        for constraint in self.plans[number].constraints:
            if not constraint.applies(candidate.request):
                continue
            if not constraint.add(candidate.request, device):
                for earlier in added:
                    earlier.drop()
                if candidate.all_of is not None:
                    raise AllocationError(
                        f"Request {candidate.request.result_name} needs all devices, but {device} does not "
                        "meet a constraint of the claim."
                    )
                return None
            added.append(constraint)
        return added

    def _record(
        self,
        number: int,
        candidate: Candidate,
        index: int,
        consumed: dict[str, CapacityAmount],
        *,
        shared: bool,
    ) -> Undo:
        key = self.keys[index]
        self.taken[number].append(InternalDeviceResult(candidate, index, consumed, shared))
        amounts = self.held.consumed[key] if shared else {}
        if shared:
            self.held.sharers[key].append(str(number))
        else:
            self.users.setdefault(key, set()).add(number)
        for name, amount in consumed.items():
            amounts[name] = amounts.get(name, ZERO) + amount.quantity

        def undo() -> None:
            self.taken[number].pop()
            if shared:
                self.held.sharers[key].pop()
            else:
                self.users[key].discard(number)
            for name, amount in consumed.items():
                amounts[name] = amounts[name] - amount.quantity

        return undo


class EquivalentDevices:
    """
    Equivalence classes of devices for the claims of a search, computed on first use.

    A class consists of the values that selectors and constraints read, and of what decides availability.
    """

    def __init__(self, site: NodeSite, plans: Sequence[ClaimPlan], held: HeldDevices) -> None:
        self.site, self.plans, self.held_before = site, plans, held
        self._selectors: list[Selector | None] | None = None
        self._known: dict[int, Hashable] = {}

    def of(self, index: int) -> Hashable:
        """Return a key that is equal for equivalent devices; unique if a selector cannot be compiled."""
        if index not in self._known:
            self._known[index] = self._class_key(index)
        return self._known[index]

    def _compile_all(self) -> list[Selector | None]:
        if self._selectors is None:
            candidates = [
                candidate for plan in self.plans for options in plan.candidates for candidate in options
            ]
            expressions = {
                expression
                for candidate in candidates
                for expression in (*candidate.class_expressions, *candidate.expressions)
            }
            derived = {
                str(derived.get("expression") or "")
                for candidate in candidates
                for derived in candidate.request.derived
            }
            self._selectors = [_compiled(compile_stored, expression) for expression in sorted(expressions)]
            self._selectors += [_compiled(compile_derived, expression) for expression in sorted(derived)]
        return self._selectors

    def _class_key(self, index: int) -> Hashable:
        device, raw = self.site.devices[index], self.site.devices[index].raw
        selectors = self._compile_all()
        if any(selector is None for selector in selectors):
            return index
        shapes = [next(selector.shapes((device,))) for selector in selectors if selector is not None]
        values = [repr(constraint.value(device)) for plan in self.plans for constraint in plan.constraints]
        counted = repr(raw.get("consumesCounters") or "")
        return (
            tuple(shapes),
            tuple(values),
            counted and (self.site.pool_of[index], counted),
            device.shareable,
            repr(raw.get("capacity")),
            repr(self.held_before.consumed.get(device.key, "")),
            device.key in self.held_before.holders,
            device.key in self.held_before.sharers,
            tuple((taint.key, taint.value, taint.effect) for taint in self.site.taints(index)),
            bool(raw.get("bindingConditions")),
            device.skipped,
            not device.per_device_node_selection or self.site.reached(index),
        )


def _compiled(compiler: Callable[[str], Selector], expression: str) -> Selector | None:
    try:
        return compiler(expression)
    except CelError:
        return None
