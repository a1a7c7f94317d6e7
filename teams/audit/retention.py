"""
Removing what is older than `AUDIT_RETENTION_DAYS`: always the oldest part of the chain.

The seal of the last removed entry stays, and an entry says up to which number and hash was removed, so that
what is left can still be verified.
"""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import connection
from django.utils import timezone

from core.transactions import service
from teams.audit.chain import lock_chain
from teams.models import AuditEntry, AuditSeal, User, record

BATCH = 10_000  # seals whose entries one statement deletes


def due(before: datetime | None = None) -> AuditSeal | None:
    """Return the last seal of what is to be removed: sealed before this time, else before the retention."""
    before = before or timezone.now() - settings.AUDIT_RETENTION
    last = AuditSeal.objects.filter(at__lt=before).order_by("-number").first()
    return last if last and AuditEntry.objects.filter(pk=last.entry_id).exists() else None


@service
def remove(*, by: User | None = None, before: datetime | None = None) -> int:
    """
    Remove the entries that are due, record it, and return how many. For the owner of the tables.

    The time is that of sealing, which grows with the number: nothing is left out in between.
    """
    lock_chain()
    last = due(before)
    if last is None:
        return 0
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 0; SET LOCAL dragoman.audit_removal = 'on'")
    removed = 0
    for number in range(_first_number(), last.number + 1, BATCH):
        seals = AuditSeal.objects.filter(number__gte=number, number__lt=min(number + BATCH, last.number + 1))
        removed += AuditEntry.objects.filter(pk__in=seals.values("entry")).delete()[0]
    AuditSeal.objects.filter(number__lt=last.number).delete()
    record(
        by=by,
        action="audit.removed",
        kind="audit",
        object_id=str(last.number),
        name=f"entries up to {last.number}",
        text=f"removed {removed} entries up to number {last.number}",
        values=[("Entries", str(removed), "–"), ("Hash", "–", last.hash)],
    )
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL dragoman.audit_removal = 'off'")
    return removed


def _first_number() -> int:
    return AuditSeal.objects.order_by("number").values_list("number", flat=True).first() or 1
