"""The hash chain: every committed entry is sealed once, and a verification names what somebody did to it."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from threading import Event, Thread

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from teams.audit import chain
from teams.audit.chain import head_of_chain, seal, unsealed, verify, verify_and_store
from teams.models import AuditEntry, AuditSeal, AuditState, record
from tests import patience
from tests.factories import changing_the_log, make_user
from tests.threads import Race, without_lock


def write(number: int, begin: int = 0) -> None:
    for index in range(begin, begin + number):
        record(by=None, action="team.changed", kind="team", object_id=str(index), name=f"entry {index}")


@pytest.fixture
def sealed(db):
    """Five sealed entries."""
    write(5)
    seal()
    return list(AuditSeal.objects.order_by("number"))


def test_entries_are_numbered_in_the_order_of_their_time_and_sealed_once(db):
    write(3)
    assert (seal(), seal()) == (3, 0)
    write(2, begin=3)
    assert seal() == 2
    seals = AuditSeal.objects.order_by("number").values_list("number", "entry__name")
    assert list(seals) == [(index + 1, f"entry {index}") for index in range(5)]
    assert not unsealed().exists()
    found = verify()
    assert (found.problem, found.first, found.number, found.count) == ("", 1, 5, 5)


def test_more_entries_than_a_batch_are_one_chain(db, monkeypatch):
    monkeypatch.setattr(chain, "BATCH", 2)
    write(5)
    assert seal() == 5
    assert verify().number == 5


@pytest.mark.django_db(transaction=True)
def test_a_transaction_that_commits_late_is_sealed_late_and_once():
    written, may_commit = Event(), Event()

    def write_slowly() -> None:
        try:
            with transaction.atomic():
                record(by=None, action="team.changed", kind="team", name="slow")
                written.set()
                assert may_commit.wait(patience.LOCK)
        finally:
            connection.close()

    slow = Thread(target=write_slowly)
    slow.start()
    assert written.wait(patience.LOCK)
    record(by=None, action="team.changed", kind="team", name="fast")
    assert AuditEntry.objects.filter(name="slow").count() == 0
    assert seal() == 1
    may_commit.set()
    slow.join()
    assert AuditEntry.objects.get(name="slow").at < AuditEntry.objects.get(name="fast").at
    assert (seal(), seal()) == (1, 0)
    assert list(AuditSeal.objects.values_list("number", "entry__name")) == [(1, "fast"), (2, "slow")]
    assert verify().problem == ""


@pytest.mark.django_db(transaction=True)
def test_what_is_rolled_back_leaves_no_gap():
    write(1)
    with transaction.atomic():
        write(1, begin=1)
        transaction.set_rollback(True)
    write(1, begin=2)
    seal()
    assert list(AuditSeal.objects.values_list("number", "entry__name")) == [(1, "entry 0"), (2, "entry 2")]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("locked", [True, False])
def test_two_that_seal_at_once_number_each_entry_once(monkeypatch, locked):
    write(3)
    race = Race(monkeypatch)
    race.hold_before(chain, "hash_of")
    if not locked:
        without_lock(monkeypatch, "teams.audit.chain.lock_chain")

    def seal_or_fail() -> int:
        try:
            return seal()
        except IntegrityError:
            return -1

    first, second = race.run(seal_or_fail, seal_or_fail)
    assert race.waited is locked
    assert (first, second) == ((3, 0) if locked else (-1, 3))
    assert list(AuditSeal.objects.values_list("number", flat=True)) == [1, 2, 3]


def test_a_changed_entry_is_named(sealed):
    with changing_the_log():
        AuditEntry.objects.filter(pk=sealed[2].entry_id).update(actor="mallory")
    found = verify()
    assert (found.number, found.entry) == (2, sealed[2].entry_id)
    assert "was changed" in found.problem


@pytest.mark.parametrize("column", chain.COLUMNS)
def test_no_column_can_be_changed(sealed, column):
    other = {"at": timezone.now() - timedelta(minutes=1), "in_activity": True, "values": [["a", "b", "c"]]}
    other |= {"address": "192.0.2.1", "by_id": sealed[0].entry_id, "team_id": sealed[0].entry_id}
    with changing_the_log():
        changed = {column: other.get(column, "0190" + 28 * "0" if column == "id" else "other")}
        AuditEntry.objects.filter(pk=sealed[2].entry_id).update(**changed)
    assert verify().number == 2


def test_a_removed_entry_is_named(sealed):
    with changing_the_log():
        AuditEntry.objects.filter(pk=sealed[3].entry_id).delete()
    found = verify()
    assert (found.number, found.entry) == (3, sealed[3].entry_id)
    assert "is missing" in found.problem


def test_an_entry_removed_with_its_seal_leaves_a_gap(sealed):
    with changing_the_log():
        AuditEntry.objects.filter(pk=sealed[3].entry_id).delete()
        AuditSeal.objects.filter(number=4).delete()
    assert verify().problem == "Number 4 is missing: its seal was removed."


def test_the_oldest_entries_cannot_be_removed_silently(sealed):
    with changing_the_log():
        AuditEntry.objects.filter(pk__in=[sealed[0].entry_id, sealed[1].entry_id]).delete()
        AuditSeal.objects.filter(number=1).delete()
    assert "begins with number 2, and no entry says why" in verify().problem


def test_the_newest_entries_cannot_be_removed_once_they_were_verified(sealed):
    verify_and_store()
    with changing_the_log():
        AuditEntry.objects.filter(pk=sealed[4].entry_id).delete()
        AuditSeal.objects.filter(number=5).delete()
    assert "Number 5" in verify().problem
    assert "was sealed once and is missing" in verify().problem


def test_a_chain_that_was_computed_anew_does_not_fit_a_noted_head(sealed):
    noted = head_of_chain()
    with changing_the_log():
        AuditEntry.objects.filter(pk=sealed[1].entry_id).update(name="other")
        AuditSeal.objects.all().delete()
    seal()
    assert verify().problem == ""
    assert "computed anew" in verify(known=(noted.number, noted.hash)).problem


def test_an_entry_that_is_put_in_later_is_named(sealed):
    late = AuditEntry.objects.create(
        action="team.changed", kind="team", name="late", at=timezone.now() - timedelta(days=1)
    )
    assert seal() == 0
    assert (verify().entry, "never sealed" in verify().problem) == (late.pk, True)
    assert seal(everything=True) == 1
    assert (verify().entry, "was added later" in verify().problem) == (late.pk, True)


def test_entries_that_waited_for_a_worker_are_sealed_and_no_fault(sealed):
    with changing_the_log():
        AuditEntry.objects.update(at=timezone.now() - timedelta(days=2))
        AuditSeal.objects.all().delete()
    write(1, begin=5)
    assert seal() == 6
    assert verify().problem == ""


def test_entries_that_waited_are_all_sealed_though_they_are_more_than_a_batch(db, monkeypatch):
    monkeypatch.setattr(chain, "BATCH", 2)
    write(7)
    with changing_the_log():
        AuditEntry.objects.update(at=timezone.now() - timedelta(days=2))
    assert chain._seal_batch(everything=False) == 2  # and the worker dies
    assert seal() == 5
    assert verify().problem == ""


def test_an_entry_of_the_future_is_named(sealed):
    AuditEntry.objects.create(
        action="team.changed", kind="team", name="early", at=timezone.now() + timedelta(days=1)
    )
    seal()
    assert "was added later: it was sealed on" in verify().problem


def test_a_verification_since_a_number_trusts_what_stands_before_it(sealed):
    with changing_the_log():
        AuditEntry.objects.filter(pk=sealed[1].entry_id).update(name="other")
    assert verify(since=3).problem == ""
    assert (verify(since=3).first, verify(since=3).count) == (3, 3)
    assert verify().problem


def test_an_empty_log_is_whole(db):
    assert (verify().problem, verify().count) == ("", 0)


def test_the_result_of_a_verification_is_stored(sealed):
    verify_and_store()
    state = AuditState.objects.get()
    assert (state.verified_number, state.verified_hash, state.problem) == (5, sealed[4].hash, "")
    with changing_the_log():
        AuditEntry.objects.filter(pk=sealed[0].entry_id).update(name="other")
    verify_and_store()
    state.refresh_from_db()
    assert "was changed" in state.problem
    assert state.verified_number == 5  # how far it was whole once


def test_the_hash_can_be_computed_from_the_columns_alone(sealed):
    """As docs/audit.md says it, without the portal."""
    import hashlib
    import json

    previous = "0" * 64
    for one in sealed:
        row = AuditEntry.objects.filter(pk=one.entry_id).values(*chain.COLUMNS).get()
        row |= {"id": str(row["id"]), "at": row["at"].isoformat(timespec="microseconds")}
        text = json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        at = one.at.isoformat(timespec="microseconds")
        lines = "\n".join((previous, str(one.number), at, text))
        assert one.hash == hashlib.sha256(lines.encode()).hexdigest()
        previous = one.hash


def test_recording_adds_one_statement(db, django_assert_num_queries):
    alice = make_user("alice")
    with django_assert_num_queries(1):
        record(by=alice, action="team.changed", kind="team", name="x")


def test_sealing_takes_a_fixed_number_of_statements(db, django_assert_num_queries):
    write(50)
    with django_assert_num_queries(12):  # lock, head, entries, seals, savepoint; once more for no entries
        seal()
    assert partial(verify)().count == 50
