"""
The search: claim after claim, request after request, device after device, first fit in the order of the site.

Whole combinations are tried as upstream tries them, with three short cuts that find the same first solution.
Devices of one request are taken in ascending order, since their order among themselves says nothing. Where
one device was taken in vain, another that looks the same to the claims would be, too. And once a request has
failed, how many acceptable devices are left is known, so that 25 of 24 are not tried in all combinations.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from uuid import uuid4

from dra.allocator.capacity import Amount, share
from dra.allocator.constraints import Constraint
from dra.allocator.counters import Counters
from dra.allocator.errors import AllocationError, SearchGivenUp
from dra.allocator.looks import Looks
from dra.allocator.plan import ClaimPlan, Wish, accepts
from dra.allocator.result import DeviceResult
from dra.allocator.site import Site
from dra.features import Implementation
from dra.held import Held
from dra.objects import MAX_RESULTS, Json, alternatives, requests
from dra.pools import DeviceKey, PoolDevice
from dra.quantity import ZERO, Quantity
from dra.taints import untolerated

STEPS = 50_000  # devices tried before a search gives up, about a second

type Undo = Callable[[], None]


class _TooMany(Exception):
    """The claim would hold more devices than one claim can."""


class Search:
    """One search on one node. Use it once."""

    def __init__(self, site: Site, plans: Sequence[ClaimPlan]) -> None:
        self.site, self.plans, self.features = site, plans, site.features
        held = site.picture.held
        self.gone = Held(holders=held.holders) if self.features.stable else held
        self.results: list[list[DeviceResult]] = [[] for _ in plans]
        self.chosen: list[list[Wish]] = [[] for _ in plans]
        self.held = Held()  # shares that this search has taken
        self.seen_by: dict[DeviceKey, set[int]] = {}  # claims of this search that take or watch a device
        self.counters = Counters(site, self.gone)
        self.looks = Looks(site, plans, self.gone)
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

    def _devices(self, number: int, request: int, wish: Wish, taken: int, start: int) -> bool:
        if wish.all_of is not None and not wish.all_of:
            return False
        if taken == wish.count:
            return self._request(number, request + 1)
        if len(self.results[number]) + wish.count - taken > MAX_RESULTS:
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

    def _with(self, undo: Undo, number: int, request: int, wish: Wish, taken: int, start: int) -> bool:
        """Go on with a device taken; give it back if that leads nowhere."""
        done = False
        try:
            done = self._devices(number, request, wish, taken, start)
        finally:
            if not done:
                undo()
        return done

    def _untouched(self, spot: int) -> bool:
        key = self.site.devices[spot].key
        return not self.seen_by.get(key) and not self.held.sharers.get(key)

    def _learn(self, wish: Wish) -> None:
        """
        Count from each spot on how many devices the request could take at best.

        Only once it is known of all devices whether selectors accept them: upstream must not come upon one
        on which they fail where this search has turned back.
        """
        if wish.left is not None:
            return
        left, counts = 0, [0]
        for spot in range(len(self.site.devices) - 1, -1, -1):
            if wish.ask.admin or self.site.devices[spot].key not in self.gone.holders:
                known = wish.known.get(spot)
                if known is None:
                    return
                left += known and self._tolerated(wish, spot)
            counts.append(left)
        wish.left = counts[::-1]

    def _open(self, number: int, wish: Wish, spot: int) -> bool:
        """Whether the device is not in use: cheap to know, and therefore asked before the selectors."""
        key = self.site.devices[spot].key
        seen = self.seen_by.get(key)
        if wish.ask.admin:
            return not seen or number not in seen
        return not seen and key not in self.gone.holders

    def _tolerated(self, wish: Wish, spot: int) -> bool:
        if not self.features.device_taints:
            return True
        return untolerated(wish.ask.tolerations, self.site.taints(spot)) is None

    def _usable(self, device: PoolDevice) -> bool:
        """Whether the switches allow to take the device, and the node can leave out what its driver does."""
        if device.raw.get("consumesCounters") and not self.features.partitionable_devices:
            return False
        if not device.skipped or self.features.implementation is not Implementation.EXPERIMENTAL:
            return True
        status: Json = self.site.node.get("status") or {}
        declared = "DRAOptionalNodeOperations" in (status.get("declaredFeatures") or ())
        return self.features.optional_node_operations and declared

    def _take(self, number: int, wish: Wish, spot: int) -> Undo | None:
        """Take a device for a request and return how to give it back; None if it cannot be taken."""
        self.steps += 1
        if self.steps > STEPS:
            raise SearchGivenUp(f"No way to allocate was found among the first {STEPS} tried.")
        device = self.site.devices[spot]
        consumed: dict[str, Amount] | None = {}
        if self.features.consumable_capacity:
            fractional = self.features.fractional_capacity_range
            consumed = share(device, wish.ask.capacity, self._consumed(device), fractional=fractional)
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
        record = self._record(number, wish, device, consumed if shared else {}, shared=shared)

        def undo() -> None:
            record()
            for constraint in added:
                constraint.drop()
            if release is not None:
                release()

        return undo

    def _in_shares(self, device: PoolDevice) -> bool:
        return bool(self.held.sharers.get(device.key)) or device.key in self.gone.sharers

    def _consumed(self, device: PoolDevice) -> dict[str, Quantity]:
        gone = dict(self.gone.consumed.get(device.key, {}))
        for name, amount in self.held.consumed.get(device.key, {}).items():
            gone[name] = gone.get(name, ZERO) + amount
        return gone

    def _constrain(self, number: int, wish: Wish, device: PoolDevice) -> list[Constraint] | None:
        """Return the constraints that have accepted the device, or None if one refuses it."""
        added: list[Constraint] = []
        for constraint in self.plans[number].constraints:
            if not constraint.applies(wish.ask):
                continue
            if not constraint.add(wish.ask, device):
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
        self, number: int, wish: Wish, device: PoolDevice, consumed: dict[str, Amount], *, shared: bool
    ) -> Undo:
        key = device.key
        result = DeviceResult(
            ask=wish.ask,
            device=device,
            share_id=str(uuid4()) if shared else "",
            consumed=consumed,
            tolerations=self._tolerations(number, wish),
            binding=self.features.device_binding_and_status,
            skipping=self.features.implementation is Implementation.EXPERIMENTAL,
        )
        self.results[number].append(result)
        amounts = self.held.consumed[key] if shared else {}
        if shared:
            self.held.sharers[key].append(str(number))
        else:
            self.seen_by.setdefault(key, set()).add(number)
        for name, amount in consumed.items():
            amounts[name] = amounts.get(name, ZERO) + amount.quantity

        def undo() -> None:
            self.results[number].pop()
            if shared:
                self.held.sharers[key].pop()
            else:
                self.seen_by[key].discard(number)
            for name, amount in consumed.items():
                amounts[name] = amounts[name] - amount.quantity

        return undo

    def _tolerations(self, number: int, wish: Wish) -> list[Json]:
        """Return the tolerations of the first request of that name, which is where upstream looks them up."""
        for request in requests(self.plans[number].spec):
            for ask in alternatives(request):
                if ask.result_name == wish.ask.result_name:
                    return ask.tolerations
        return wish.ask.tolerations
