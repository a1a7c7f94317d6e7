"""What a search has taken for a claim, as the results of an allocation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import uuid4

from dra.allocator.capacity import Amount
from dra.allocator.plan import ClaimPlan, Wish
from dra.allocator.result import DeviceResult
from dra.allocator.site import Site
from dra.features import Implementation
from dra.objects import Json, alternatives, requests


class Taken(NamedTuple):
    """A device that a search has taken, as a whole or `shared`."""

    wish: Wish
    spot: int
    consumed: dict[str, Amount]
    shared: bool


def results_of(site: Site, plan: ClaimPlan, taken: Iterable[Taken]) -> list[DeviceResult]:
    """Return one result per device, in the order in which they were taken."""
    return [
        DeviceResult(
            ask=one.wish.ask,
            device=site.devices[one.spot],
            share_id=str(uuid4()) if one.shared else "",
            consumed=one.consumed,
            tolerations=_tolerations(plan, one.wish),
            binding=site.features.device_binding_and_status,
            skipping=site.features.implementation is Implementation.EXPERIMENTAL,
        )
        for one in taken
    ]


def _tolerations(plan: ClaimPlan, wish: Wish) -> list[Json]:
    """Return the tolerations of the first request of that name, which is where upstream looks them up."""
    for request in requests(plan.spec):
        for ask in alternatives(request):
            if ask.result_name == wish.ask.result_name:
                return ask.tolerations
    return wish.ask.tolerations
