"""Sealed entries as JSON lines: in order, each at least once, resumed after a crash."""

from __future__ import annotations

import hashlib
import json

import pytest

from teams.audit import lines
from teams.audit.chain import seal
from teams.audit.lines import lines_after, write_lines
from teams.models import AuditState, record
from teams.tasks import seal_audit_log
from tests.factories import make_team, make_user
from tests.threads import Race, without_lock


def write(*names):
    for name in names:
        record(by=None, action="team.changed", kind="team", name=name)
    seal()


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def target(tmp_path, settings, db):
    settings.AUDIT_LOG = str(tmp_path / "audit.jsonl")
    return tmp_path / "audit.jsonl"


def test_without_the_setting_nothing_is_written(db, settings):
    settings.AUDIT_LOG = ""
    write("one")
    assert write_lines() == 0


def test_each_sealed_entry_is_a_line_in_the_order_of_the_chain(target):
    write("one", "two")
    assert write_lines() == 2
    write("three")
    assert (write_lines(), write_lines()) == (1, 0)
    assert [(line["number"], line["name"]) for line in read(target)] == [(1, "one"), (2, "two"), (3, "three")]


def test_a_line_has_who_from_where_and_the_slug_of_the_team(target):
    alice, vision = make_user("alice"), make_team("vision")
    record(
        by=alice, action="quota.changed", kind="quota", name="q", team_id=vision.pk, values=[("a", "1", "2")]
    )
    seal()
    write_lines()
    *_account, line = read(target)
    assert (line["actor"], line["actor_kind"], line["team_slug"]) == ("alice", "person", "vision")
    assert (line["action"], line["values"], line["by_id"]) == (
        "quota.changed",
        [["a", "1", "2"]],
        str(alice.pk),
    )


def test_lines_can_be_verified_without_the_database(target):
    write("one", "two")
    write_lines()
    previous = "0" * 64
    for line in read(target):
        seal_of = {name: line.pop(name) for name in ("number", "hash", "sealed_at", "team_slug")}
        text = json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        hashed = "\n".join((previous, str(seal_of["number"]), seal_of["sealed_at"], text))
        previous = hashlib.sha256(hashed.encode()).hexdigest()
        assert previous == seal_of["hash"]


def test_whoever_dies_before_the_number_is_stored_writes_the_lines_again(target, monkeypatch):
    write("one", "two")
    AuditState.objects.create()

    def die(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(AuditState, "save", die)
    with pytest.raises(KeyboardInterrupt):
        write_lines()
    monkeypatch.undo()
    assert AuditState.objects.filter(written_number__gt=0).count() == 0
    assert write_lines() == 2
    assert [line["number"] for line in read(target)] == [1, 2, 1, 2]


def test_a_file_that_cannot_be_written_loses_nothing(target, settings):
    write("one")
    settings.AUDIT_LOG = str(target.parent / "missing" / "audit.jsonl")
    with pytest.raises(FileNotFoundError):
        write_lines()
    settings.AUDIT_LOG = str(target)
    assert write_lines() == 1


def test_more_lines_than_a_batch_are_written(target, monkeypatch):
    monkeypatch.setattr(lines_after, "__kwdefaults__", {"limit": 2})
    write(*"abcde")
    assert write_lines() == 5
    assert [line["name"] for line in read(target)] == list("abcde")


def test_standard_output_has_the_lines(db, settings, capfd):
    settings.AUDIT_LOG = "-"
    write("one")
    assert write_lines() == 1
    assert json.loads(capfd.readouterr().out)["name"] == "one"


def test_the_task_seals_and_writes(target):
    record(by=None, action="team.changed", kind="team", name="one")
    seal_audit_log()
    assert [line["name"] for line in read(target)] == ["one"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("locked", [True, False])
def test_of_two_workers_one_writes(tmp_path, settings, monkeypatch, locked):
    settings.AUDIT_LOG = str(tmp_path / "audit.jsonl")
    write(*"abc")
    AuditState.objects.create()
    race = Race(monkeypatch)
    race.hold_before(lines, "open_target")
    if not locked:
        without_lock(monkeypatch, "teams.audit.lines._write_batch")
    race.run(write_lines, write_lines)
    assert not race.waited  # the second leaves the lines to the first
    numbers = [line["number"] for line in read(tmp_path / "audit.jsonl")]
    assert numbers == ([1, 2, 3] if locked else [1, 2, 3] * 2)
