"""`manage.py example_rates`: example prices to begin with, marked as such."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from claims.management.terminal import author, refusals
from core.text import counted
from usage.examples import CURRENCY, add_examples, missing_examples


class Command(BaseCommand):
    help = "Adds example prices of GPUs as rates, from the begin of this month on; those that exist stay."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--by", metavar="USER", help="author; default: the first platform admin")
        parser.add_argument("--dry-run", action="store_true", help="only show what would be added")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["dry_run"]:
            for one in missing_examples():
                self.stdout.write(f"{one.per_hour:>6} {CURRENCY} / h  {one.title}")
            return
        with refusals():
            added = add_examples(by=author(self.stderr, options["by"]))
        for rate in added:
            self.stdout.write(str(rate))
        self.stdout.write(f"{counted(len(added), 'rate')} added.")
