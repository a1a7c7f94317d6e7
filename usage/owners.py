"""
For whom a day counts: whoever owned the claim at the end of it (UTC), and for today whoever owns it now.

A day belongs to one person, so a transfer divides no ledger entry and changes no amount. It changes no day
before it either: these belong to the `previous_owner` of the entry of the history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, time
from uuid import UUID

from django.db.models import QuerySet

from claims.models import Transition
from core.prepared import Prepared
from usage.cost import UsageInterval


def _transfers(since: datetime) -> QuerySet[Transition, tuple[UUID, UUID, datetime]]:
    transfers = Transition.objects.filter(at__gte=since, previous_owner__isnull=False)
    return transfers.order_by("at", "pk").values_list("claim_id", "previous_owner_id", "at")


TRANSFERS = Prepared(_transfers, datetime)


class PreviousOwners:
    """
    The owners of claims before their transfers since an instant; one query, of few rows.

    Read the usage first and these afterwards: of a transfer in between, the usage then has the old owner, as
    the days before it have anyway. The other way round they would count for the new one.
    """

    def __init__(self, since: datetime) -> None:
        # With the begin of the day of the transfer, which is the first of another owner.
        self._until: dict[UUID, list[tuple[datetime, UUID]]] = defaultdict(list)
        for claim, person, at in TRANSFERS.rows(since):
            midnight = datetime.combine(at.astimezone(UTC).date(), time(), UTC)
            self._until[claim].append((midnight, person))

    def divide(self, usage: UsageInterval) -> Iterator[UsageInterval]:
        """Yield usage since that instant, whose owner is the one of now, as one part for each owner."""
        for midnight, person in self._until.get(usage.claim_id, ()):
            if usage.end is not None and usage.end <= midnight:
                yield replace(usage, owner=person)
                return
            if usage.start < midnight:
                yield replace(usage, owner=person, end=midnight)
                usage = replace(usage, start=midnight)
        yield usage
