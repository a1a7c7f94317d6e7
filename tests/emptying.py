"""
How the database is emptied after a test that commits (`transaction=True`, `live_server`).

Django truncates each table, which makes new files of all of them and of their indexes, and then sends
`post_migrate`, for which every app looks up its content types and permissions and writes them again. Most
tests fill ten tables with a few rows: deleting these takes a tenth of the time, and what `post_migrate` wrote
stays.
"""

from typing import Any

from django.core.management.commands import flush
from django.db.backends.postgresql.operations import DatabaseOperations

# What `post_migrate` writes; no code of the portal changes it.
KEPT = {"django_content_type", "auth_permission"}


def statements(operations: DatabaseOperations, _style: Any, tables: list[str], **_options: Any) -> list[str]:
    """
    Return what empties `tables`, in one message to the server.

    The locks wait for every transaction that is still under way, as TRUNCATE does. For a replica no trigger
    runs: neither those of foreign keys, nor what keeps the audit log.
    """
    names = [operations.quote_name(table) for table in sorted(set(tables) - KEPT)]
    deletes = [f"DELETE FROM {name}" for name in names]
    first = ["SET LOCAL session_replication_role = replica", f"LOCK {', '.join(names)}"]
    return ["; ".join([*first, *deletes])]


def install() -> None:
    """Replace what Django's `flush` does in this process."""
    DatabaseOperations.sql_flush = statements  # type: ignore[method-assign, assignment]
    flush.emit_post_migrate_signal = lambda *_of_migrations: None
