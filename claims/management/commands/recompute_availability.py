"""
`manage.py recompute_availability`: compute again what clusters have for profiles, and repair the rows.

With `--check` nothing is changed, and the exit code is 1 if rows differ.
"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from claims.catalogue import availability
from claims.models import ProfileAvailability
from core.text import counted


class Command(BaseCommand):
    help = "Compute what every cluster has for every profile again, and repair the rows that differ."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="Only compare; exit code 1 if rows differ.")

    def handle(self, *args: Any, **options: Any) -> None:
        differences = availability.find_differences() if options["check"] else availability.recompute()
        kinds = (
            f"{differences.missing} missing, {differences.altered} altered, {differences.obsolete} obsolete"
        )
        if options["check"] and differences.total:
            raise CommandError(f"{counted(differences.total, 'row differs', 'rows differ')}: {kinds}.")
        verb = "differ" if options["check"] else "differed"
        rows = f"{counted(differences.total, 'row')} {verb}"
        profiles = counted(
            ProfileAvailability.objects.count(), "profile in a cluster", "profiles in clusters"
        )
        details = f": {kinds}" if differences.total else ""
        self.stdout.write(f"{profiles}, {rows}{details}.")
