"""
`manage.py recompute_spend`: store past days that have no rows yet, compute all days again, repair the rows.

With `--check` nothing is changed, and the exit code is 1 if rows differ.
"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from core.text import counted
from usage import daily


class Command(BaseCommand):
    help = "Compute the stored use and cost of past days again, and repair the rows that differ."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="Only compare; exit code 1 if rows differ.")

    def handle(self, *args: Any, **options: Any) -> None:
        check = options["check"]
        differences = daily.refresh_all(check=check)
        if not check:
            daily.store_days(now=timezone.now())
        kinds = (
            f"{differences.missing} missing, {differences.altered} altered, {differences.obsolete} obsolete"
        )
        if check and differences.total:
            raise CommandError(f"{counted(differences.total, 'row differs', 'rows differ')}: {kinds}.")
        until = daily.stored_until()
        days = f"Days before {until}" if until else "No days"
        verb = "differ" if check else "differed"
        details = f": {kinds}" if differences.total else ""
        self.stdout.write(f"{days}: {counted(differences.total, 'row')} {verb}{details}.")
