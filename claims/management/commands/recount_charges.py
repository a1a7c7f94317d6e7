"""
`manage.py recount_charges`: compare which charges are live with the states of their claims.

With `--check` nothing is changed, and the exit code is 1 if rows differ.
"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from claims.quotas.counts import mark_live_charges
from core.text import counted


class Command(BaseCommand):
    help = "Compare which charges are live with the states of their claims, and repair the rows that differ."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="Only compare; exit code 1 if rows differ.")

    def handle(self, *args: Any, **options: Any) -> None:
        differing = mark_live_charges(check=options["check"])
        if options["check"] and differing:
            raise CommandError(f"{counted(differing, 'row differs', 'rows differ')}.")
        self.stdout.write(f"{counted(differing, 'row')} {'differ' if options['check'] else 'differed'}.")
