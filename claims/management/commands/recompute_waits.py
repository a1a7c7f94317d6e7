"""
`manage.py recompute_waits`: compute again how long requests waited in the past 30 days, and repair the rows.

With `--check` nothing is changed, and the exit code is 1 if rows differ.
"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from claims.catalogue import waits
from claims.models import DailyWaits
from core.text import counted


class Command(BaseCommand):
    help = "Compute how long requests for profiles waited again, and repair the rows that differ."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="Only compare; exit code 1 if rows differ.")

    def handle(self, *args: Any, **options: Any) -> None:
        differences = waits.find_differences() if options["check"] else waits.refresh()
        kinds = (
            f"{differences.missing} missing, {differences.altered} altered, {differences.obsolete} obsolete"
        )
        if options["check"] and differences.total:
            raise CommandError(f"{counted(differences.total, 'row differs', 'rows differ')}: {kinds}.")
        verb = "differ" if options["check"] else "differed"
        rows = f"{counted(differences.total, 'row')} {verb}"
        days = counted(
            DailyWaits.objects.count(), "day of a profile in a cluster", "days of profiles in clusters"
        )
        details = f": {kinds}" if differences.total else ""
        self.stdout.write(f"{days}, {rows}{details}.")
