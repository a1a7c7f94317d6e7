"""Removing old entries: whole beginnings of the chain, recorded, and what is left can still be verified."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from teams.audit import retention
from teams.audit.chain import seal, verify
from teams.models import AuditEntry, AuditSeal, record
from teams.tasks import remove_old_audit_entries
from tests.factories import changing_the_log


def write(number, age=timedelta(0)):
    """Write entries that were sealed so long ago."""
    for index in range(number):
        record(by=None, action="team.changed", kind="team", name=f"entry {index}")
    at, chain_at = timezone.now() - age, retention_time(age)
    with changing_the_log():
        AuditEntry.objects.filter(seal=None).update(at=at)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("teams.audit.chain.timezone.now", lambda: chain_at)
        seal(everything=True)


def retention_time(age):
    return timezone.now() - age


@pytest.fixture
def old(db):
    write(4, timedelta(days=800))
    write(3, timedelta(days=10))


def test_what_is_older_than_the_retention_is_removed_and_the_rest_verified(old):
    assert retention.remove() == 4
    assert AuditEntry.objects.filter(action="team.changed").count() == 3
    seal()
    found = verify()
    assert (found.problem, found.first, found.number) == ("", 5, 8)


def test_the_removal_is_an_entry_with_number_and_hash(old):
    last = AuditSeal.objects.get(number=4)
    retention.remove()
    entry = AuditEntry.objects.get(action="audit.removed")
    assert entry.object_id == "4"
    assert entry.values == [["Entries", "4", "–"], ["Hash", "–", last.hash]]


def test_removing_again_removes_nothing(old):
    retention.remove()
    seal()
    assert retention.remove() == 0
    assert AuditEntry.objects.filter(action="audit.removed").count() == 1


def test_a_second_removal_goes_on_from_the_first(old):
    retention.remove()
    seal()
    assert retention.remove(before=timezone.now() - timedelta(days=1)) == 3
    seal()
    assert (verify().problem, verify().first) == ("", 8)


def test_a_removal_that_no_entry_tells_of_is_found(old):
    retention.remove()
    with changing_the_log():
        AuditEntry.objects.filter(action="audit.removed").delete()
    assert "no entry says why" in verify().problem


def test_what_is_not_sealed_is_kept(db):
    record(by=None, action="team.changed", kind="team", name="one")
    assert retention.remove(before=timezone.now() + timedelta(days=1)) == 0


def test_in_steps_as_at_once(old, monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 3)
    assert retention.remove() == 4
    seal()
    assert verify().problem == ""


def test_the_setting_says_how_long(old, settings):
    settings.AUDIT_RETENTION = timedelta(days=900)
    assert retention.remove() == 0


def test_the_task_removes_only_if_its_role_may(old, monkeypatch):
    monkeypatch.setattr("teams.tasks.may_change_log", lambda: False)
    remove_old_audit_entries()
    assert AuditEntry.objects.filter(action="team.changed").count() == 7
    monkeypatch.undo()
    remove_old_audit_entries()
    assert AuditEntry.objects.filter(action="team.changed").count() == 3


def test_the_command_says_who_may_remove(old, monkeypatch, capsys):
    monkeypatch.setattr("teams.management.commands.audit.may_change_log", lambda: False)
    with pytest.raises(CommandError, match="Set DATABASE_URL to the owner"):
        call_command("audit", "remove")
    monkeypatch.undo()
    call_command("audit", "remove", "--days", "5")
    assert "7 entries removed." in capsys.readouterr().out


def test_nothing_is_removed_after_it(old):
    """The setting of a removal ends with it."""
    from django.db import ProgrammingError

    retention.remove()
    with pytest.raises(ProgrammingError, match="only added to"):
        AuditEntry.objects.all().delete()
