"""PostgreSQL refuses to change the log: by triggers to everybody, by grants to the portal's role."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import ProgrammingError, connection, transaction

from teams.audit.chain import seal, verify
from teams.audit.grants import may_change_log
from teams.models import AuditEntry, AuditSeal, Team, record
from usage import partitions

TABLES = ("teams_auditentry", "teams_auditseal")
CHANGES = [
    statement.format(table)
    for table in TABLES
    for statement in ("UPDATE {} SET at = now()", "DELETE FROM {}", "TRUNCATE {}")
]


@pytest.fixture
def entry(db):
    record(by=None, action="team.changed", kind="team", name="one")
    seal()
    return AuditEntry.objects.get()


def run(statement):
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.security("audit", "changes or removes entries in the database")
@pytest.mark.parametrize("statement", CHANGES)
def test_the_owner_cannot_change_the_log_either(entry, statement):
    with pytest.raises(ProgrammingError, match="The audit log is only added to"):
        run(statement)
    assert AuditEntry.objects.filter(name="one").count() == AuditSeal.objects.count() == 1


def test_the_setting_of_a_removal_allows_no_update(entry):
    run("SET LOCAL dragoman.audit_removal = 'on'")
    with pytest.raises(ProgrammingError, match="only added to"):
        run("UPDATE teams_auditentry SET name = 'other'")


@pytest.fixture
def portal_role(entry):
    """The role of a portal that is no owner, with the grants of `manage.py audit grants`."""
    run("CREATE ROLE dragoman_of_test")
    call_command("audit", "grants", "--role", "dragoman_of_test", "--apply", verbosity=0)
    run("SET ROLE dragoman_of_test")
    yield
    run("RESET ROLE")


@pytest.mark.parametrize("statement", CHANGES)
def test_the_portals_role_has_no_right_to_change_the_log(portal_role, statement):
    with pytest.raises(ProgrammingError, match="permission denied"):
        run(statement)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE {} DISABLE TRIGGER ALL",
        "DROP TABLE {}",
        "ALTER TABLE {} OWNER TO dragoman_of_test",
        "GRANT DELETE ON {} TO dragoman_of_test",
    ],
)
def test_the_portals_role_cannot_take_the_rights(portal_role, table, statement):
    if statement.startswith("GRANT"):  # PostgreSQL warns, and grants nothing
        run(statement.format(table))
        assert not may_change_log()
        return
    with pytest.raises(ProgrammingError, match="must be owner"):
        run(statement.format(table))


def test_the_portals_role_cannot_pretend_to_be_a_removal(portal_role):
    run("SET LOCAL dragoman.audit_removal = 'on'")
    with pytest.raises(ProgrammingError, match="permission denied"):
        run("DELETE FROM teams_auditentry")
    with pytest.raises(ProgrammingError, match="permission denied"):
        run("SET session_replication_role = replica")


def test_the_portals_role_runs_the_portal(portal_role):
    assert not may_change_log()
    record(by=None, action="team.changed", kind="team", name="two")
    assert seal() == 1
    assert verify().problem == ""
    team = Team.objects.create(slug="vision", title="Vision")
    Team.objects.filter(pk=team.pk).update(title="Computer vision")
    team.delete()


def test_the_portals_role_creates_and_drops_partitions(portal_role):
    day = partitions.FIVE_MINUTES.start_of(AuditEntry.objects.get().at)
    start = day.replace(year=day.year + 1)
    partitions.create(partitions.FIVE_MINUTES, start)
    name = partitions.FIVE_MINUTES.partition(start)
    assert name in partitions.FIVE_MINUTES.existing()
    run(f"DROP TABLE {name}")


def test_tables_of_the_next_migration_are_granted_too(entry):
    run("CREATE ROLE dragoman_of_test")
    call_command("audit", "grants", "--role", "dragoman_of_test", "--apply", verbosity=0)
    run("CREATE TABLE of_the_next_version (id int)")
    run("SET ROLE dragoman_of_test")
    try:
        run("INSERT INTO of_the_next_version VALUES (1)")
    finally:
        run("RESET ROLE")
