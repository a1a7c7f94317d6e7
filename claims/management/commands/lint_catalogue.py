"""
`manage.py lint_catalogue`: what is wrong with the catalogue, for a terminal or a pipeline.

Exit code 0 if nothing is to be mended (notes do not count), 1 if something is, 2 for a cluster that is not
known.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.markup import escape
from rich.table import Table

from claims.catalogue.api import LintOut
from claims.catalogue.lint import CatalogueFinding, CatalogueReport, catalogue_report
from claims.management.terminal import show
from core.errors import PortalError
from core.text import counted
from dra.lint import Severity
from inventory.clusters import find_cluster

# Severity is a word and a sign, never colour alone.
SIGNS = {
    Severity.ERROR: "[red]✗ {}[/]",
    Severity.WARNING: "[yellow]! {}[/]",
    Severity.NOTE: "[dim]· {}[/]",
}


class Command(BaseCommand):
    help = "Checks profiles and device classes against what the clusters publish; exit code 1 on findings."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--cluster", metavar="NAME", help="this one; all enabled ones by default")
        parser.add_argument("--json", action="store_true", help="write what the API answers")

    def handle(self, *args: Any, **options: Any) -> None:
        clusters = None
        if options["cluster"]:
            try:
                clusters = [find_cluster(options["cluster"])]
            except PortalError as refusal:
                raise CommandError(refusal.message, returncode=2) from None
        report = catalogue_report(clusters)
        if options["json"]:
            self.stdout.write(json.dumps(LintOut(report).data, indent=2))
        else:
            self.show(report)
        if report.due:
            sys.exit(1)

    def show(self, report: CatalogueReport) -> None:
        if report.findings:
            table = Table("", "What", "Finding", "Clusters", show_lines=True)
            for finding in report.findings:
                table.add_row(sign_of(finding), *row_of(finding))
            show(self.stdout, table)
        where = ", ".join(report.checked) or "no cluster"
        self.stdout.write(
            f"{counted(report.profiles, 'profile')} checked on the devices of {where}: "
            f"{len(report.due)} to be mended, {len(report.notes)} worth knowing."
        )
        if report.silent:
            names = ", ".join(report.silent)
            self.stdout.write(f"Nothing was checked in {names}: no device is published there.")


def sign_of(finding: CatalogueFinding) -> str:
    words = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
    return SIGNS[finding.severity].format(words[finding.severity])


def row_of(finding: CatalogueFinding) -> tuple[str, str, str]:
    message = "\n".join(escape(told.message) for told in finding.told)
    if finding.fix:
        message += "\n" + f"Try: {escape(finding.fix.after)}"
    clusters = "\n".join(", ".join(told.clusters) for told in finding.told)
    return f"{finding.subject} {escape(finding.name)}\n[dim]{finding.code}[/]", message, escape(clusters)
