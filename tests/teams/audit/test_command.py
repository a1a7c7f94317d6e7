"""`manage.py audit`."""

from __future__ import annotations

import json

import pytest
from django.core.management import CommandError, call_command

from teams.audit.chain import head_of_chain, seal
from teams.models import AuditEntry, record
from tests.factories import changing_the_log


@pytest.fixture
def audit(db, capsys):
    """Run the command; return what it prints and its exit status."""

    def run(*args):
        status = 0
        try:
            call_command("audit", *args)
        except SystemExit as ended:
            status = int(ended.code or 0)
        return capsys.readouterr().out, status

    return run


@pytest.fixture
def three(db):
    for name in ("one", "two", "three"):
        record(by=None, action="team.changed", kind="team", name=name)
    seal()


def test_verify_says_how_far_the_log_is_whole(audit, three):
    record(by=None, action="team.changed", kind="team", name="new")
    said, status = audit("verify")
    assert status == 0
    assert f"3 entries are whole, up to {head_of_chain()}." in said
    assert "1 newer entries are not sealed yet" in said


def test_verify_fails_for_a_changed_entry_and_names_it(audit, three):
    entry = AuditEntry.objects.get(name="two")
    with changing_the_log():
        AuditEntry.objects.filter(pk=entry.pk).update(name="other")
    said, status = audit("verify")
    assert (status, str(entry.pk) in said) == (1, True)
    assert audit("verify", "--since", "3")[1] == 0


def test_a_head_that_was_noted_is_compared(audit, three):
    head = audit("head")[0].strip()
    assert head == str(head_of_chain())
    assert audit("verify", "--head", head)[1] == 0
    said, status = audit("verify", "--head", f"3:{'0' * 64}")
    assert (status, "computed anew" in said) == (1, True)
    assert audit("verify", "--head", f"4:{'0' * 64}")[1] == 1


@pytest.mark.parametrize("head", ["3", "x:abc", ":"])
def test_a_head_that_is_none_is_refused(audit, three, head):
    with pytest.raises(CommandError, match="NUMBER:HASH"):
        audit("verify", "--head", head)


def test_lines_begin_behind_a_number(audit, three):
    said, _status = audit("lines", "--after", "1")
    assert [json.loads(line)["name"] for line in said.splitlines()] == ["two", "three"]


def test_an_empty_log_has_no_head(audit):
    assert audit("head") == ("The log is empty.\n", 0)


def test_grants_are_printed_and_the_role_is_checked(audit):
    said, _status = audit("grants", "--role", "portal")
    assert 'REVOKE ALL ON teams_auditentry, teams_auditseal FROM "portal";' in said
    assert 'GRANT SELECT, INSERT ON teams_auditentry, teams_auditseal TO "portal";' in said
    said, status = audit("grants", "--check")
    assert (status, "may change the audit log" in said) == (1, True)
