"""
`manage.py recount_fleet`: count the devices of all clusters again, and store the counts.

With `--check` nothing is changed, and the exit code is 1 if the stored counts of a cluster differ.
"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from core.text import counted
from inventory import counts
from inventory.models import Cluster


class Command(BaseCommand):
    help = "Count the devices of all clusters again, and store the counts."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--check", action="store_true", help="Only compare; exit code 1 if counts differ."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        differing = counts.find_differences() if options["check"] else counts.store_counts(changed_only=False)
        if options["check"] and differing:
            raise CommandError(f"The counts of {counted(differing, 'cluster')} differ.")
        verb = "differ" if options["check"] else "differed"
        self.stdout.write(f"{counted(Cluster.objects.count(), 'cluster')}, counts of {differing} {verb}.")
