"""
The hash chain of the audit log: sealing entries, and verifying them.

Whoever changes something adds an entry and waits for nobody. One task numbers the entries that are committed
and have no seal yet, each with a hash over the one before and the entry; so an entry that is changed, removed
or put in between later no longer fits. Sealing asks which entries have no seal, never which came last: one
whose transaction commits late is sealed late, and once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from teams.models import AuditEntry, AuditSeal, AuditState

LOCK: Final = 3_301_001  # of `pg_advisory_xact_lock`
# How much older than the last sealed entry one may be that is sealed after it: longer than any transaction.
LATE: Final = timedelta(hours=1)
BATCH: Final = 1_000
EPOCH: Final = datetime(1970, 1, 2, tzinfo=UTC)
START: Final = "0" * 64  # what stands for the hash before the first entry
COLUMNS = tuple(field.attname for field in AuditEntry._meta.concrete_fields)


def canonical(entry: dict[str, Any]) -> str:
    """Return the columns of an entry as JSON: sorted keys, no spaces, times in UTC to the microsecond."""
    return json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_text)


def _text(value: object) -> str:
    return instant(value) if isinstance(value, datetime) else str(value)


def instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def hash_of(previous: str, number: int, at: datetime, entry: dict[str, Any]) -> str:
    """Return the SHA-256 of the hash before, number, time of sealing and entry, each on a line."""
    lines = (previous, str(number), instant(at), canonical(entry))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def lock_chain() -> None:
    """Let only one transaction at a time add to the chain."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_advisory_xact_lock({LOCK})")


def seal(*, everything: bool = False) -> int:
    """
    Seal the committed entries that have no seal, and return how many.

    Those more than LATE older than the last sealed entry are looked for with `everything`: a comparison of
    all, which takes seconds for a million.
    """
    sealed = 0
    while number := _seal_batch(everything=everything):
        sealed += number
    return sealed


@transaction.atomic
def _seal_batch(*, everything: bool) -> int:
    lock_chain()
    head, now = head_of_chain(), timezone.now()
    entries = unsealed()
    if everything:
        without_time_limit()
    elif head:
        entries = entries.filter(at__gte=sealed_until(head) - LATE)
    last, previous = (head.number, head.hash) if head else (0, START)
    seals = []
    for number, entry in enumerate(entries.order_by("at", "pk").values(*COLUMNS)[:BATCH], last + 1):
        previous = hash_of(previous, number, now, entry)
        seals.append(AuditSeal(number=number, entry_id=entry["id"], hash=previous, at=now))
    AuditSeal.objects.bulk_create(seals)
    return len(seals)


def head_of_chain() -> AuditSeal | None:
    """Return the last seal: its number and hash, noted elsewhere, prove all entries up to it."""
    return AuditSeal.objects.order_by("-number").first()


def sealed_until(head: AuditSeal) -> datetime:
    """Return the time of the last sealed entry: entries are sealed in the order of their times."""
    at = AuditEntry.objects.filter(pk=head.entry_id).values_list("at", flat=True).first()
    return min(at or head.at, head.at)


def without_time_limit() -> None:
    """Let the statements of this transaction take as long as they need."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 0")


def unsealed() -> Any:
    return AuditEntry.objects.exclude(Exists(AuditSeal.objects.filter(entry=OuterRef("pk"))))


@dataclass(frozen=True, slots=True)
class Verification:
    """
    What a verification found: up to which number the chain is whole, and the first `problem`, "" for none.

    `first` is where it began; `entry` is the one that the problem is about.
    """

    first: int
    number: int
    hash: str
    problem: str = ""
    entry: UUID | None = None

    @property
    def count(self) -> int:
        return max(self.number - self.first + 1, 0)


def verify(*, since: int = 1, known: tuple[int, str] | None = None) -> Verification:
    """
    Compute the chain again from number `since` on, and find the first entry that does not fit.

    `known` is number and hash of a seal that was noted elsewhere: only that shows that nobody computed the
    whole chain anew, or cut off its end.
    """
    state = AuditState.objects.first()
    noted = [(state.verified_number, state.verified_hash)] if state and state.verified_number else []
    noted += [known] if known else []
    verified = _verify_seals(since, dict(noted))
    if verified.problem:
        return verified
    for number, digest in noted:
        if number > verified.number:
            return _failed(verified, f"Number {number} ({digest[:12]}…) was sealed once and is missing.")
    return _without_backdated(verified)


def _verify_seals(since: int, noted: dict[int, str]) -> Verification:
    before = AuditSeal.objects.filter(number__lt=max(since, 1)).order_by("-number").first()
    first = before or AuditSeal.objects.order_by("number").first()
    if first is None:
        return Verification(since, 0, START)
    verified = Verification(max(since, 1), 0, START)
    is_rest = before is None and not AuditEntry.objects.filter(pk=first.entry_id).exists()
    if (is_rest or (before is None and first.number > 1)) and (gap := _gap(first)):
        return _failed(verified, gap, first.entry_id)
    if before or is_rest:  # trusted, or what stands for the removed entries up to it
        verified = Verification(first.number + 1, first.number, first.hash)
    newest = EPOCH if is_rest else sealed_until(first)
    for number, entry_id, stored, at, entry in _sealed_after(verified.number):
        wanted = verified.number + 1
        if number != wanted:
            return _failed(verified, f"Number {wanted} is missing: its seal was removed.")
        if entry is None:
            return _failed(verified, f"Number {number}: entry {entry_id} is missing.", entry_id)
        if stored != hash_of(verified.hash, number, at, entry):
            what = f"Number {number}: entry {entry_id} of {instant(entry['at'])} or its seal was changed."
            return _failed(verified, what, entry_id)
        if not newest - LATE <= entry["at"] <= at + LATE:
            what = f"Number {number}: entry {entry_id} says {instant(entry['at'])}, but was added later"
            return _failed(verified, f"{what}: it was sealed on {instant(at)}.", entry_id)
        if noted.get(number, stored) != stored:
            what = f"Number {number} has another hash than was noted: the chain was computed anew."
            return _failed(verified, what, entry_id)
        newest = max(newest, entry["at"])
        verified = Verification(verified.first, number, stored)
    return verified


def _sealed_after(number: int) -> Iterator[tuple[int, UUID, str, datetime, dict[str, Any] | None]]:
    """Yield number, entry, hash and time of the seals after a number, each with its entry or None."""
    seals = AuditSeal.objects.order_by("number").values_list("number", "entry_id", "hash", "at")
    while batch := list(seals.filter(number__gt=number)[:BATCH]):
        found = AuditEntry.objects.filter(pk__in=[entry_id for _number, entry_id, _hash, _at in batch])
        entries = {entry["id"]: entry for entry in found.order_by().values(*COLUMNS)}
        yield from ((*one, entries.get(one[1])) for one in batch)
        number = batch[-1][0]


def _gap(first: AuditSeal) -> str:
    """Return why the chain may not begin here, "" if an entry says that what stood before was removed."""
    removals = AuditEntry.objects.filter(action="audit.removed", object_id=str(first.number))
    if any(["Hash", "–", first.hash] in removal.values for removal in removals):
        return ""
    return f"The chain begins with number {first.number}, and no entry says why."


@transaction.atomic
def _without_backdated(verified: Verification) -> Verification:
    """Fail for an entry without a seal that says to be older than sealed ones: it was added later."""
    head = head_of_chain()
    without_time_limit()
    older = unsealed().filter(at__lt=sealed_until(head) - LATE) if head else AuditEntry.objects.none()
    late = older.order_by("at", "pk").first()
    if late is None:
        return verified
    return _failed(verified, f"Entry {late.pk} says {instant(late.at)}, but was never sealed.", late.pk)


def _failed(verified: Verification, problem: str, entry: UUID | None = None) -> Verification:
    return Verification(verified.first, verified.number, verified.hash, problem, entry)


def verify_and_store() -> Verification:
    """Seal what has no seal, verify the whole chain, and store the result for the page."""
    seal(everything=True)
    found = verify()
    values: dict[str, Any] = {"verified_at": timezone.now(), "problem": found.problem}
    if not found.problem:
        values |= {"verified_number": found.number, "verified_hash": found.hash}
    AuditState.objects.update_or_create(pk=1, defaults=values)
    return found
