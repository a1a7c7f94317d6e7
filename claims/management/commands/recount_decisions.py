"""
`manage.py recount_decisions`: compute who decides on each undecided request again, and repair the rows.

With `--check` nothing is changed, and the exit code is 1 if rows differ.
"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from claims.approvals import pending
from claims.models import PendingDecision
from core.text import counted


class Command(BaseCommand):
    help = "Compute who decides on each undecided request again, and repair the rows that differ."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="Only compare; exit code 1 if rows differ.")

    def handle(self, *args: Any, **options: Any) -> None:
        differences = pending.find_differences() if options["check"] else pending.refresh()
        kinds = (
            f"{differences.missing} missing, {differences.altered} altered, {differences.obsolete} obsolete"
        )
        if options["check"] and differences.total:
            raise CommandError(f"{counted(differences.total, 'row differs', 'rows differ')}: {kinds}.")
        verb = "differ" if options["check"] else "differed"
        rows = f"{counted(differences.total, 'row')} {verb}"
        requests = counted(PendingDecision.objects.count(), "undecided request")
        details = f": {kinds}" if differences.total else ""
        self.stdout.write(f"{requests}, {rows}{details}.")
