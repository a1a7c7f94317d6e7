"""
`manage.py audit verify | head | lines | grants | remove`: the audit log from a terminal (docs/audit.md).

Exit code of `verify`: 0 if the log is whole, 1 if an entry was changed, removed or put in later. Of `grants
--check`: 1 if the role of this connection may change the log.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection, transaction
from django.utils import timezone

from teams.audit import retention
from teams.audit.chain import LATE, head_of_chain, unsealed, verify
from teams.audit.grants import grants, may_change_log
from teams.audit.lines import lines_after


class Command(BaseCommand):
    help = "Verifies the audit log, prints it, and separates the roles of the database."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        verifying = actions.add_parser("verify", help="compute the hash chain again")
        verifying.add_argument("--since", type=int, default=1, metavar="NUMBER", help="trust those before it")
        verifying.add_argument("--head", metavar="NUMBER:HASH", help="a head that was noted earlier")
        actions.add_parser("head", help="print number and hash of the last seal, to note them elsewhere")
        lines = actions.add_parser("lines", help="print sealed entries as JSON lines")
        lines.add_argument("--after", type=int, default=0, metavar="NUMBER", help="begin behind this number")
        granting = actions.add_parser("grants", help="print the SQL for a role that may only add to the log")
        granting.add_argument("--role", default="dragoman", help="of the portal; default: dragoman")
        granting.add_argument("--apply", action="store_true", help="run it, as the owner of the tables")
        granting.add_argument("--check", action="store_true", help="only say what this role may do")
        removing = actions.add_parser("remove", help="remove entries older than AUDIT_RETENTION_DAYS")
        removing.add_argument("--days", type=int, help="another number of days")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, options["action"])(options)

    def verify(self, options: dict[str, Any]) -> None:
        found = verify(since=options["since"], known=_noted(options["head"]))
        if found.problem:
            self.stdout.write(f"{found.problem} Entries {found.first} to {found.number} before it are whole.")
            sys.exit(1)
        self.stdout.write(f"{found.count} entries are whole, up to {found.number}:{found.hash}.")
        if waiting := unsealed().filter(at__gt=timezone.now() - LATE).count():
            self.stdout.write(f"{waiting} newer entries are not sealed yet: the worker does it every 5 s.")

    def head(self, _options: dict[str, Any]) -> None:
        self.stdout.write(str(head_of_chain() or "The log is empty."))

    def lines(self, options: dict[str, Any]) -> None:
        after = options["after"]
        while batch := list(lines_after(after)):
            self.stdout.write("\n".join(line for _number, line in batch))
            after = batch[-1][0]

    def grants(self, options: dict[str, Any]) -> None:
        if options["check"]:
            may_change = may_change_log()
            says = "may change the audit log" if may_change else "may only add to the audit log"
            self.stdout.write(f"The role {_role()} {says}.")
            sys.exit(int(may_change))
        statements = list(grants(options["role"]))
        if options["apply"]:
            with transaction.atomic(), connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
        self.stdout.write("\n".join(f"{statement};" for statement in statements))

    def remove(self, options: dict[str, Any]) -> None:
        if not may_change_log():
            raise CommandError(
                f"The role {_role()} may not remove entries. Set DATABASE_URL to the owner of the tables."
            )
        days = options["days"]
        before = None if days is None else timezone.now() - timedelta(days=days)
        self.stdout.write(f"{retention.remove(before=before)} entries removed.")


def _role() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user")
        return str(cursor.fetchone()[0])


def _noted(head: str | None) -> tuple[int, str] | None:
    if head is None:
        return None
    number, colon, digest = head.partition(":")
    if not (colon and number.isdecimal()):
        raise CommandError("Write a head as `manage.py audit head` prints it: NUMBER:HASH.")
    return int(number), digest
