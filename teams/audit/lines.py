"""
Sealed entries as JSON lines, in the order of the chain, for a SIEM.

Each line has the columns of the entry, the slug of its team, and its seal. Lines are written before the
number of the last one is stored: whoever dies in between writes some of them twice, and loses none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.db import transaction

from teams.audit.chain import BATCH, COLUMNS, canonical, instant
from teams.models import AuditSeal, AuditState

SEAL = ("number", "hash", "at", "entry__team__slug")


def lines_after(number: int, *, limit: int = BATCH) -> Iterator[tuple[int, str]]:
    """Yield the number and the line of up to `limit` sealed entries after a number; one query."""
    columns = [f"entry__{column}" for column in COLUMNS]
    rows = AuditSeal.objects.filter(number__gt=number, entry__at__isnull=False).order_by("number")
    for sealed, digest, at, slug, *values in rows.values_list(*SEAL, *columns)[:limit]:
        entry: dict[str, Any] = dict(zip(COLUMNS, values, strict=True))
        seal = {"number": sealed, "hash": digest, "sealed_at": instant(at), "team_slug": slug}
        yield sealed, json.dumps(seal | json.loads(canonical(entry)), ensure_ascii=False)


def write_lines() -> int:
    """
    Write the lines that were not written yet to `AUDIT_LOG`, and return how many; 0 without the setting.

    Of two workers at once one writes: the other finds its row locked.
    """
    written = 0
    while settings.AUDIT_LOG and (number := _write_batch(settings.AUDIT_LOG)):
        written += number
    return written


@transaction.atomic
def _write_batch(target: str) -> int:
    AuditState.objects.get_or_create(pk=1)
    state = AuditState.objects.select_for_update(skip_locked=True).first()
    batch = list(lines_after(state.written_number)) if state else []
    if state and batch:
        with open_target(target) as stream:
            stream.writelines(f"{line}\n".encode() for _number, line in batch)
            stream.flush()
            if target != "-":
                os.fsync(stream.fileno())
        state.written_number = batch[-1][0]
        state.save(update_fields=["written_number"])
    return len(batch)


def open_target(target: str) -> IO[bytes]:
    """Open the file to append to, or for "-" standard output, which Celery replaces by its log otherwise."""
    return os.fdopen(os.dup(1), "wb") if target == "-" else Path(target).open("ab")
