"""
The two roles of the database: the owner of the tables migrates and removes old entries of the audit log, the
portal runs as a role that may only add to it.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.db import connection

from teams.models import AuditEntry, AuditSeal

LOG = [model._meta.db_table for model in (AuditEntry, AuditSeal)]
# The portal creates and drops partitions of rollups, for which PostgreSQL wants their owner.
PARTITIONED = """
SELECT oid::regclass::text FROM pg_class
WHERE relnamespace = current_schema()::regnamespace
AND (relkind = 'p' OR relkind = 'r' AND relispartition) ORDER BY oid
"""


def may_change_log() -> bool:
    """Return whether the role of this connection may change or delete entries."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT bool_or(has_table_privilege(name, privilege)) FROM unnest(%s::text[]) name,"
            " unnest(ARRAY['UPDATE', 'DELETE', 'TRUNCATE']) privilege",
            [LOG],
        )
        return bool(cursor.fetchone()[0])


def grants(role: str) -> Iterator[str]:
    """Yield the SQL, for the owner of the tables, that lets `role` run the portal but not change the log."""
    quote = connection.ops.quote_name
    name = quote(role)
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_schema()")
        schema = quote(cursor.fetchone()[0])
        cursor.execute(PARTITIONED)
        partitioned = [table for (table,) in cursor.fetchall()]
    yield f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {name}"
    for what, rights in (("TABLES", "SELECT, INSERT, UPDATE, DELETE"), ("SEQUENCES", "USAGE, SELECT")):
        yield f"GRANT {rights} ON ALL {what} IN SCHEMA {schema} TO {name}"
        yield f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT {rights} ON {what} TO {name}"
    log = ", ".join(LOG)
    yield f"REVOKE ALL ON {log} FROM {name}"
    yield f"GRANT SELECT, INSERT ON {log} TO {name}"
    for table in partitioned:
        yield f"ALTER TABLE {table} OWNER TO {name}"
