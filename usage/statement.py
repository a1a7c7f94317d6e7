"""What one claim has cost, costs per hour, and will have cost when it expires."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from claims.models import Allocation, Claim
from usage.cost import Cost, Line, Spell, lines, per_hour, total
from usage.rates import RateCard


@dataclass(frozen=True, slots=True)
class Statement:
    """
    `projected` is what the claim will have cost at `expires_at` if it keeps what it holds now, at the prices
    that are known; None where it holds nothing or does not expire.
    """

    lines: list[Line]
    so_far: Cost
    per_hour: Cost
    projected: Cost | None
    is_held: bool
    was_held: bool


def statement(claim: Claim, held: Sequence[Allocation], card: RateCard, *, now: datetime) -> Statement:
    """Add up `held`, all allocations of `claim`. Makes no query."""
    spells = [Spell.of(one, claim.cluster_id) for one in held]
    open_now = [spell for spell in spells if spell.end is None]
    billed = list(lines(spells, card, until=now))
    projected = None
    if open_now and claim.expires_at is not None and claim.expires_at > now:
        projected = total(line.cost for line in lines(spells, card, until=claim.expires_at))
    return Statement(
        lines=billed,
        so_far=total(line.cost for line in billed),
        per_hour=per_hour(open_now, card, at=now),
        projected=projected,
        is_held=bool(open_now),
        was_held=bool(held),
    )


def allocations_of(claim: Claim) -> list[Allocation]:
    """Return every allocation of `claim`, in one query."""
    return list(Allocation.objects.filter(claim=claim).order_by("started_at", "device"))
