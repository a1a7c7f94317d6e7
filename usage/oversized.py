"""
Claims that hold more than they use: what `usage.right_size` says of each, stored, so that lists compare
nothing.

A claim is compared with the profiles that its owner may request. Percentiles over the life of a claim change
slowly, so `usage.tasks.check_sizes` runs every six hours. It is the only writer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import batched
from uuid import UUID

from claims.catalogue.listing import CatalogueEntry
from claims.models import Allocation, Claim
from claims.states import ClaimState
from core.text import gib, percent
from teams.models import User
from usage.models import SizeCheck
from usage.rates import RateCard
from usage.right_size import ENOUGH, Evidence, are_alike, compare, evidence, offers_to

AT_ONCE = 200  # claims whose devices and evidence are in memory
COLUMNS = tuple(column.attname for column in SizeCheck._meta.concrete_fields if not column.primary_key)

Verdict = SizeCheck.Verdict


def check_sizes(now: datetime) -> None:
    """Check every claim that holds devices, and forget the others; what an owner may request is read once."""
    held = Claim.objects.filter(state=ClaimState.ALLOCATED)
    SizeCheck.objects.exclude(claim__in=held.order_by().values("pk")).delete()
    card = RateCard.load()

    @lru_cache(maxsize=1)  # the claims come owner by owner, and what one may request is large
    def offers(owner: UUID) -> list[CatalogueEntry]:
        return offers_to(User.objects.get(pk=owner))

    keys = held.order_by("requested_by", "pk").values_list("pk", flat=True)
    for batch in batched(list(keys), AT_ONCE):
        claims = list(held.filter(pk__in=batch).select_related("profile_version").order_by("requested_by"))
        seen, devices = evidence(batch), _devices(batch)
        checks = []
        for claim in claims:
            owned = offers(claim.requested_by_id)
            checks.append(_check(claim, devices[claim.pk], seen.get(claim.pk), owned, card, now))
        SizeCheck.objects.bulk_create(
            checks, AT_ONCE, update_conflicts=True, unique_fields=["claim"], update_fields=COLUMNS
        )


def _devices(claims: Collection[UUID]) -> dict[UUID, list[Allocation]]:
    """Return what each of these claims holds; one query."""
    held: dict[UUID, list[Allocation]] = defaultdict(list)
    for allocation in Allocation.objects.filter(claim__in=list(claims), ended_at=None).order_by("device"):
        held[allocation.claim_id].append(allocation)
    return held


def _check(
    claim: Claim,
    devices: Sequence[Allocation],
    seen: Evidence | None,
    offers: Sequence[CatalogueEntry],
    card: RateCard,
    now: datetime,
) -> SizeCheck:
    check = SizeCheck(
        claim=claim, team_id=claim.team_id, checked_at=now, devices=len(devices), verdict=Verdict.UNMEASURED
    )
    if seen is None or seen.measured < ENOUGH:
        return check
    check.activity, check.memory_bytes, check.measured = seen.activity, seen.memory_bytes, seen.measured
    check.verdict = Verdict.UNKNOWN
    found = compare(claim, devices, seen, offers, card, now=now) if are_alike(devices) else None
    if found is None or found.why_not:
        return check
    check.verdict = Verdict.FITS
    check.per_hour, check.currency = found.price * len(devices), found.currency
    if best := found.best:
        check.verdict = Verdict.OVERSIZED
        check.profile, check.caveat = best.entry.profile, best.caveat
        check.saves = (found.price - best.price) * len(devices)
    return check


def evidence_text(check: SizeCheck) -> str:
    """Return "p95 memory 8.1 GiB, compute 12 %"."""
    parts = [] if check.memory_bytes is None else [f"memory {gib(check.memory_bytes)}"]
    parts += [] if check.activity is None else [f"compute {percent(check.activity)}"]
    return f"p95 {', '.join(parts)}" if parts else ""
