"""
`manage.py explain_spec FILE`: what the claims of a file of manifests would meet, and why not more.

Exit code 0, also if something does not fit now; with `--check` 1 if a claim fits in none of the clusters; 2
for a file that cannot be understood.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.markup import escape
from rich.table import Table

from claims.catalogue.lint import enabled_clusters
from claims.management.terminal import show
from claims.quotas.quota_usage import QuotaLine, team_usage, usage_lines
from claims.requests.manifest_specs import (
    CLAIM,
    Finder,
    ImportedSpec,
    SpecReport,
    read_documents,
    report_on,
    requested_specs,
    why,
)
from core.errors import Invalid, PortalError
from core.yaml_documents import YamlLimits, read_yaml, text_in
from dra.cluster_snapshot import ClusterSnapshot, EmptyDumpError, flatten_lists, snapshot_from_dump
from dra.objects import Json
from dra.quota import charge
from inventory.cluster_snapshot import current_snapshot
from inventory.clusters import find_cluster
from inventory.models import Cluster, ResourceClaim, ResourceClaimTemplate
from teams.models import Team

MAX_BLOCKERS = 5  # shown


class Command(BaseCommand):
    help = "Explains what the claims, templates and pods of a file would meet in the clusters, step by step."
    requires_system_checks = ()  # a snapshot needs no database

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", help="YAML or JSON; “-” reads standard input")
        source = parser.add_mutually_exclusive_group()
        source.add_argument("--cluster", metavar="NAME", help="this one; all enabled ones by default")
        source.add_argument(
            "--snapshot",
            metavar="FILE",
            action="append",
            help="a dump instead of the mirror, or several: kubectl get "
            "resourceslices,deviceclasses,devicetaintrules,nodes -o json, and resourceclaims -A",
        )
        parser.add_argument("--team", metavar="SLUG", help="with the quota of this team")
        parser.add_argument("--json", action="store_true", help="for programs")
        parser.add_argument("--check", action="store_true", help="exit code 1 if a claim fits nowhere now")

    def handle(self, *args: Any, **options: Any) -> None:
        name = "stdin" if options["file"] == "-" else options["file"]
        try:
            snapshots, elsewhere = sources(options)
            imported = requested_specs(read_documents(read(options["file"]), name), name, elsewhere)
        except (PortalError, EmptyDumpError) as refusal:
            raise CommandError(str(refusal), returncode=2) from None
        quota = QuotaOf(options["team"])
        reports = [
            (
                document,
                [
                    report_on(cluster, snapshot, document, imported.classes, quota=quota.lines(document))
                    for cluster, snapshot in snapshots.items()
                ],
            )
            for document in imported.specs
        ]
        if options["json"]:
            lines = [
                {
                    "title": document.title,
                    "line": document.line,
                    "note": document.note,
                    "problems": document.problems,
                    "pods": document.pods,
                    "clusters": [report.as_json() for report in document_reports],
                }
                for document, document_reports in reports
            ]
            self.stdout.write(json.dumps(lines, indent=2))
        else:
            for document, document_reports in reports:
                self.explain(document, document_reports)
            show(self.stdout, *map(escape, imported.remarks))
        if options["check"] and not all(
            any(report.fits for report in reports_of_document) for _document, reports_of_document in reports
        ):
            sys.exit(1)

    def explain(self, wanted: ImportedSpec, reports: list[SpecReport]) -> None:
        show(self.stdout, f"[bold]{escape(wanted.title)}[/]")
        if wanted.note:
            show(self.stdout, escape(wanted.note))
            show(self.stdout, *(escape(f"{line.sign} {line.text}") for line in wanted.changes))
        show(self.stdout, *(f"[red]{escape(problem)}[/]" for problem in wanted.problems))
        if not reports:
            self.stdout.write("There is no cluster to look at.")
        for report in reports:
            table = Table(title=escape(report.cluster), title_justify="left", box=None)
            table.add_column("", justify="right")
            table.add_column("what is left")
            table.add_column("left out", justify="right")
            table.add_column("such as")
            for step, drops in zip(report.match.steps, report.drops, strict=True):
                such = "\n".join(f"{drop.device}: {why(drop)}" for drop in drops)
                words = f"{step.request}: {step.label}" if step.request else step.label
                gone = str(step.dropped) if step.dropped else ""
                table.add_row(str(step.count), escape(words), gone, f"[dim]{escape(such)}[/]")
            show(self.stdout, table, *conclusion(report))


class QuotaOf:
    """The quota of the team with this slug, None for no team. Raises CommandError for an unknown one."""

    def __init__(self, slug: str | None) -> None:
        self.team = Team.objects.active().filter(slug=slug).first() if slug else None
        if slug and self.team is None:
            raise CommandError(f"There is no team {slug}.", returncode=2)
        self.usages = team_usage([self.team]) if self.team else []

    def lines(self, imported: ImportedSpec) -> list[QuotaLine]:
        if self.team is None:
            return []
        charged = {name: count * imported.pods for name, count in charge(imported.spec).items()}
        return usage_lines(self.usages, team=self.team, charge=charged, profiles={})


def conclusion(report: SpecReport) -> list[str]:
    """Return the verdict, what is wrong with the spec, and whose end would help."""
    if report.fits:
        lines = ["[green]✓ fits now[/]"]
    elif report.verdict.accepted:
        lines = [f"[yellow]! {escape(report.verdict.label)}[/]  {escape(report.match.problem)}"]
    else:
        lines = [f"[red]✗ {escape(str(report.verdict))}[/]  {escape(report.match.problem)}"]
    for finding in report.findings:
        lines.append(f"[red]{finding.severity}[/] {finding.code}: {escape(finding.message)}")
        if finding.fix:
            lines.append("  " + f"Try: {escape(finding.fix.after)}")
    if report.blockers.sentence:
        lines.append(escape(report.blockers.sentence))
    for blocker in report.blockers.blockers[:MAX_BLOCKERS]:
        lines.append(f"It would fit on {escape(blocker.node)} if {escape(', '.join(blocker.claims))} ended.")
    return [*lines, ""]


def read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else text_in(Path(file).expanduser().read_bytes())
    except (OSError, UnicodeDecodeError) as problem:
        raise Invalid(f"{file} cannot be read: {problem}.") from None


def sources(options: Mapping[str, Any]) -> tuple[dict[str, ClusterSnapshot], Finder]:
    """Return the snapshots to look at by name, and where to find what the file only names."""
    if options["snapshot"]:
        objects = [document for file in options["snapshot"] for document in objects_in(file)]
        return {"snapshot": snapshot_from_dump(objects)}, finder_in(objects)
    clusters = [find_cluster(options["cluster"])] if options["cluster"] else list(enabled_clusters())
    return {cluster.name: current_snapshot(cluster) for cluster in clusters}, mirror_finder(clusters)


def objects_in(file: str) -> list[Json]:
    text = read(file)
    try:
        # A dump may be large, and the parser of JSON is a hundred times faster than that of YAML.
        documents = [json.loads(text)] if text.lstrip().startswith("{") else values_in(text, file)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{file} is neither JSON nor YAML: {error}.") from None
    return list(flatten_lists(documents))


DUMP_LIMITS = YamlLimits(bytes=1 << 30, documents=1 << 20, nodes=1 << 30)


def values_in(text: str, file: str) -> list[Any]:
    return [value for _node, value in read_yaml(text, file, DUMP_LIMITS)]


def finder_in(objects: list[Json]) -> Finder:
    def find(kind: str, namespace: str, name: str) -> Json | None:
        for document in objects:
            metadata = document.get("metadata") or {}
            same = metadata.get("name") == name and (metadata.get("namespace") or "default") == namespace
            if same and document.get("kind") == kind:
                return document
        return None

    return find


def mirror_finder(clusters: list[Cluster]) -> Finder:
    def find(kind: str, namespace: str, name: str) -> Json | None:
        model = ResourceClaim if kind == CLAIM else ResourceClaimTemplate
        rows = model.objects.filter(cluster__in=clusters, gone_at=None, namespace=namespace, name=name)
        raw: Json | None = rows.values_list("raw", flat=True).first()
        return raw

    return find
