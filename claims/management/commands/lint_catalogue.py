"""
`manage.py lint_catalogue`: the check of the catalogue, for a terminal or a pipeline.

Exit code 0 if nothing needs a fix (notes do not count), 1 if something does, 2 for an unknown cluster.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.markup import escape
from rich.table import Table

from claims.catalogue.api import LintOut
from claims.catalogue.lint import CatalogueFinding, CatalogueReport, check_catalogue
from claims.management.terminal import show
from core.errors import PortalError
from core.text import counted
from dra.lint import Severity
from inventory.clusters import find_cluster

# A word and a sign show the severity, never color alone.
SIGNS = {
    Severity.ERROR: "[red]✗ {}[/]",
    Severity.WARNING: "[yellow]! {}[/]",
    Severity.NOTE: "[dim]· {}[/]",
}


class Command(BaseCommand):
    help = "Checks profiles and device classes against what the clusters publish; exit code 1 on findings."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--cluster", metavar="NAME", help="check this cluster; default: all enabled ones")
        parser.add_argument("--json", action="store_true", help="print the JSON of the API")

    def handle(self, *args: Any, **options: Any) -> None:
        clusters = None
        if options["cluster"]:
            try:
                clusters = [find_cluster(options["cluster"])]
            except PortalError as refusal:
                raise CommandError(refusal.message, returncode=2) from None
        report = check_catalogue(clusters)
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
                table.add_row(severity_sign(finding), *finding_cells(finding))
            show(self.stdout, table)
        where = ", ".join(report.checked) or "no cluster"
        self.stdout.write(
            f"{counted(report.profiles, 'profile')} checked on the devices of {where}: "
            f"{counted(len(report.due), 'finding')} to fix, {counted(len(report.notes), 'note')}."
        )
        if report.silent:
            names = ", ".join(report.silent)
            self.stdout.write(f"Not checked: {names}. No device is published there.")


def severity_sign(finding: CatalogueFinding) -> str:
    words = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
    return SIGNS[finding.severity].format(words[finding.severity])


def finding_cells(finding: CatalogueFinding) -> tuple[str, str, str]:
    message = "\n".join(escape(row.message) for row in finding.messages)
    if finding.fix:
        message += "\n" + f"Try: {escape(finding.fix.after)}"
    clusters = "\n".join(", ".join(row.clusters) for row in finding.messages)
    return f"{finding.subject} {escape(finding.name)}\n[dim]{finding.code}[/]", message, escape(clusters)
