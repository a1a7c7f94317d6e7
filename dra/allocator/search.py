"""
The search: claim after claim, request after request, device after device, first fit in the order of the
picture.

Whole combinations are tried as upstream tries them, with two short cuts that find the same first solution.
Devices of one request are taken in ascending order, since their order among themselves says nothing. And once
a request has failed, how many acceptable devices are left is known, so that 25 of 24 devices is not tried in
all combinations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import uuid4

from dra.allocator.capacity import share
from dra.allocator.constraints import Constraint
from dra.allocator.plan import ClaimPlan, Wish, accepts
from dra.allocator.result import AllocationError, DeviceResult, SearchGivenUp
from dra.held import Held
from dra.objects import MAX_RESULTS, Json
from dra.picture import Picture
from dra.pools import DeviceKey, PoolDevice
from dra.quantity import ZERO, Quantity
from dra.taints import untolerated

STEPS = 50_000  # devices tried before a search gives up, about a second

type Undo = Callable[[], None]


class _TooMany(Exception):
    """The claim would hold more devices than one claim can."""


class Search:
    """One search on one node. Use it once."""

    def __init__(
        self, picture: Picture, node: Json, places: Sequence[int], plans: Sequence[ClaimPlan]
    ) -> None:
        self.picture, self.node, self.places, self.plans = picture, node, places, plans
        self.results: list[list[DeviceResult]] = [[] for _ in plans]
        self.chosen: list[list[Wish]] = [[] for _ in plans]
        self.held = Held()  # what this search has taken, beside picture.held
        self.seen_by: dict[DeviceKey, set[int]] = {}  # claims of this search that take or watch a device
        self.steps = 0

    def run(self) -> bool:
        """
        Fill `results`; return False if the claims do not fit.

        Raise `AllocationError` if a selector fails on a device that had to be asked, or if it takes too long.
        """
        try:
            return self._claim(0)
        except _TooMany:
            raise AllocationError(f"The claim would hold more than {MAX_RESULTS} devices.") from None

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
        if not options[0].ask.alternative:
            return self._choose(number, request, options[0])
        too_many = 0
        for wish in options:
            try:
                if self._choose(number, request, wish):
                    return True
            except _TooMany:
                too_many += 1
        if too_many == len(options):
            raise _TooMany
        return False

    def _choose(self, number: int, request: int, wish: Wish) -> bool:
        self.chosen[number].append(wish)
        try:
            if self._devices(number, request, wish, 0, 0):
                return True
        except _TooMany:
            self.chosen[number].pop()
            raise
        self.chosen[number].pop()
        return False

    def _devices(self, number: int, request: int, wish: Wish, taken: int, start: int) -> bool:
        if wish.all_of is not None and not wish.all_of:
            return False
        if taken == wish.count:
            return self._request(number, request + 1)
        if len(self.results[number]) + wish.count - taken > MAX_RESULTS:
            raise _TooMany
        if wish.all_of is not None:
            return self._next_of_all(number, request, wish, taken)
        for at in range(start, len(self.places)):
            if wish.left is not None and wish.left[at] < wish.count - taken:
                return False
            place = self.places[at]
            device = self.picture.devices[place]
            if not self._open(number, wish, device) or not accepts(self.picture, self.node, wish, place):
                continue
            undo = self._take(number, wish, place)
            if undo is None:
                continue
            if self._devices(number, request, wish, taken + 1, at + 1):
                return True
            undo()
        self._learn(wish)
        return False

    def _next_of_all(self, number: int, request: int, wish: Wish, taken: int) -> bool:
        place = (wish.all_of or [])[taken]
        undo = (
            self._take(number, wish, place) if self._open(number, wish, self.picture.devices[place]) else None
        )
        if undo is None:
            return False
        if self._devices(number, request, wish, taken + 1, 0):
            return True
        undo()
        return False

    def _learn(self, wish: Wish) -> None:
        """
        Count from each place on how many devices the request could still take at best.

        A device that was in use has not been asked yet: it counts, since it may be given back.
        """
        if wish.left is not None:
            return
        left, counts = 0, []
        for place in reversed(self.places):
            held = self.picture.devices[place].key in self.picture.held.holders
            if wish.known.get(place) is not False and (wish.ask.admin or not held):
                left += 1
            counts.append(left)
        wish.left = counts[::-1]

    def _open(self, number: int, wish: Wish, device: PoolDevice) -> bool:
        """Whether the device is not in use: cheap to know, and therefore asked before the selectors."""
        seen = self.seen_by.get(device.key)
        if wish.ask.admin:
            return not seen or number not in seen
        return not seen and device.key not in self.picture.held.holders

    def _take(self, number: int, wish: Wish, place: int) -> Undo | None:
        """Take a device for a request and return how to give it back; None if it cannot be taken."""
        self.steps += 1
        if self.steps > STEPS:
            raise SearchGivenUp(f"No way to allocate was found among the first {STEPS} tried.")
        device = self.picture.devices[place]
        consumed = share(device, wish.ask.capacity, self._consumed(device))
        if consumed is None and wish.all_of is None:
            return None
        if untolerated(wish.ask.tolerations, self.picture.taints[place]):
            return None
        # The first share of a device takes its counters, admin access as well; further shares take none.
        counts = bool(device.counters) and not (device.shareable and self._shared(device))
        if counts and not self._counters_suffice(device):
            return None
        added = self._constrain(number, wish, device)
        if added is None:
            return None
        if consumed is None:  # of all devices a constraint is asked first, since it is an error to break it
            for constraint in added:
                constraint.drop()
            return None
        return self._record(number, wish, device, consumed if device.shareable else {}, counts=counts)

    def _shared(self, device: PoolDevice) -> bool:
        return bool(self.held.sharers.get(device.key)) or device.key in self.picture.held.sharers

    def _consumed(self, device: PoolDevice) -> dict[str, Quantity]:
        gone = dict(self.picture.held.consumed.get(device.key, {}))
        for name, amount in self.held.consumed.get(device.key, {}).items():
            gone[name] = gone.get(name, ZERO) + amount
        return gone

    def _counters_suffice(self, device: PoolDevice) -> bool:
        pool = (device.driver, device.pool)
        used = dict(self.held.counters.get(pool, {}))
        for counter, need in device.counters:
            used[counter] = used.get(counter, 0) + need.nano
        gone = self.picture.held.counters.get(pool, {})
        # All counters of the pool are looked at: one that is overdrawn blocks every device that takes any.
        return all(
            gone.get(counter, 0) + used.get(counter, 0) <= whole
            for counter, whole in self.picture.counters.get(pool, {}).items()
        )

    def _constrain(self, number: int, wish: Wish, device: PoolDevice) -> list[Constraint] | None:
        """Return the constraints that have accepted the device, or None if one refuses it."""
        added: list[Constraint] = []
        for constraint in self.plans[number].constraints:
            if not constraint.applies(wish.ask):
                continue
            if not constraint.add(device):
                for earlier in added:
                    earlier.drop()
                if wish.all_of is not None:
                    raise AllocationError(
                        f"Request {wish.ask.result_name} asks for all devices, and {device} does not meet "
                        "a constraint of the claim."
                    )
                return None
            added.append(constraint)
        return added

    def _record(
        self, number: int, wish: Wish, device: PoolDevice, consumed: dict[str, Quantity], *, counts: bool
    ) -> Undo:
        key, shared = device.key, device.shareable
        used = self.held.counters[device.driver, device.pool] if counts else {}
        amounts = self.held.consumed[key] if shared else {}
        if not shared:
            self.seen_by.setdefault(key, set()).add(number)
        self.results[number].append(DeviceResult(wish.ask, device, str(uuid4()) if shared else "", consumed))
        if shared:
            self.held.sharers[key].append(str(number))
        for name, amount in consumed.items():
            amounts[name] = amounts.get(name, ZERO) + amount
        for counter, need in device.counters if counts else ():
            used[counter] = used.get(counter, 0) + need.nano

        def undo() -> None:
            self.results[number].pop()
            if shared:
                self.held.sharers[key].pop()
            else:
                self.seen_by[key].discard(number)
            for name, amount in consumed.items():
                amounts[name] = amounts[name] - amount
            for counter, need in device.counters if counts else ():
                used[counter] -= need.nano
            for constraint in self.plans[number].constraints:
                if constraint.applies(wish.ask):
                    constraint.drop()

        return undo
