"""`manage.py openapi`: write docs/openapi.yaml, or check that it is as the code says."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.openapi import FILE, as_text, breaking_changes, description, stored


class Command(BaseCommand):
    requires_system_checks = ()
    help = "Writes the description of the API to docs/openapi.yaml; refuses a change that breaks clients."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if it differs")
        parser.add_argument("--breaking", action="store_true", help="write it although clients break")

    def handle(self, **options: Any) -> None:
        described = description()
        text, before = as_text(described), FILE.read_text() if FILE.is_file() else ""
        broken = breaking_changes(stored(), described) if before else []
        if broken and not options["breaking"]:
            lines = "\n".join(f"  {one}" for one in broken)
            raise CommandError(f"This breaks clients; if it is meant, use --breaking:\n{lines}")
        if options["check"]:
            if text != before:
                raise CommandError(f"{FILE.name} is not up to date: run manage.py openapi.")
        elif text != before:
            FILE.write_text(text)
            self.stdout.write(f"Wrote {FILE}.")
