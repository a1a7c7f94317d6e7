"""
`manage.py recount_ownership`: compare mirrored ResourceClaims and templates with the claims that own them.

With `--check` nothing is changed, and the exit code is 1 if rows differ.
"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from claims.observation import ownership
from core.text import counted


class Command(BaseCommand):
    help = "Compare mirrored ResourceClaims and templates with the claims, and repair the rows that differ."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="Only compare; exit code 1 if rows differ.")

    def handle(self, *args: Any, **options: Any) -> None:
        differences = ownership.find_differences() if options["check"] else ownership.refresh()
        kinds = f"{differences.missing} missing, {differences.altered} altered"
        if options["check"] and differences.total:
            raise CommandError(f"{counted(differences.total, 'row differs', 'rows differ')}: {kinds}.")
        objects = sum(model._default_manager.filter(gone_at=None).count() for model in ownership.MODELS)
        verb = "differ" if options["check"] else "differed"
        details = f": {kinds}" if differences.total else ""
        rows = f"{counted(differences.total, 'row')} {verb}"
        self.stdout.write(f"{counted(objects, 'object')}, {rows}{details}.")
