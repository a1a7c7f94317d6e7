"""
`manage.py catalogue export | import FILE | presets`: the catalogue as a file under version control.

Exit code 0 if it is done or there is nothing to do; 1 with `--check` if an import would change something;
2 for an invalid file or name, and then nothing is written.
"""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.markup import escape
from rich.table import Table

from claims.catalogue import services
from claims.catalogue.presets import presets
from claims.catalogue.presets.matches import preset_matches
from claims.catalogue.yaml_export import (
    CHANGED,
    NEW,
    RESTORED,
    RETIRED,
    SAME,
    STAYS_RETIRED,
    ProfileChange,
    catalogue_file,
    exported,
)
from claims.catalogue.yaml_import import read_definitions
from claims.management.terminal import REFUSED, author, read_file, refusals, show, write_file
from core.text import counted


class Command(BaseCommand):
    help = "Exports the catalogue to a file, imports a file, or adds presets."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        writing = actions.add_parser("export", help="write every profile that is not retired")
        writing.add_argument("--out", metavar="FILE", default="-", help="default: standard output")
        reading = actions.add_parser("import", help="make the catalogue match a file")
        reading.add_argument("file", help="“-” reads standard input")
        reading.add_argument("--prune", action="store_true", help="retire profiles that are not in the file")
        offered = actions.add_parser("presets", help="add the profiles that come with Dragoman")
        offered.add_argument("--list", action="store_true", help="only list them with their matching devices")
        offered.add_argument("--only", nargs="+", metavar="SLUG", default=[], help="add these; default: all")
        reading.add_argument("--check", action="store_true", help="as --dry-run; exit code 1 on changes")
        for action in (reading, offered):
            action.add_argument(
                "--dry-run", action="store_true", help="show what would change, write nothing"
            )
            action.add_argument("--by", metavar="USER", help="author; default: the first platform admin")

    def handle(self, *args: Any, **options: Any) -> None:
        with refusals():
            match options["action"]:
                case "export":
                    write_file(options["out"], catalogue_file(exported()), self.stdout)
                case "import":
                    self.import_(options)
                case "presets":
                    self.presets(options)

    def import_(self, options: dict[str, Any]) -> None:
        by = author(self.stderr, options["by"])
        definitions = read_definitions(*read_file(options["file"]))
        dry_run = options["dry_run"] or options["check"]
        if dry_run:
            changes = services.plan_import(by=by, definitions=definitions, prune=options["prune"])
        else:
            changes = services.import_profiles(by=by, definitions=definitions, prune=options["prune"])
        self.show_changes(changes, dry_run=dry_run)
        if options["check"] and any(change.changes_something for change in changes):
            sys.exit(1)

    def presets(self, options: dict[str, Any]) -> None:
        by_slug = {preset.slug: preset for preset in presets()}
        if unknown := [slug for slug in options["only"] if slug not in by_slug]:
            raise CommandError(
                f"There is no preset {unknown[0]}. The presets are {', '.join(by_slug)}.",
                returncode=REFUSED,
            )
        if options["list"]:
            self.list_presets(options["only"])
            return
        by = author(self.stderr, options["by"])
        chosen = [by_slug[slug] for slug in dict.fromkeys(options["only"] or by_slug)]
        if options["dry_run"]:
            missing = [match.preset for match in preset_matches(options["only"]) if not match.in_catalogue]
            self.show_changes(services.plan_import(by=by, definitions=missing), dry_run=True)
        else:
            self.show_changes(services.add_profiles(by=by, definitions=chosen), dry_run=False)

    def list_presets(self, slugs: list[str]) -> None:
        table = Table("Preset", "Title", "Matching devices", "In the catalogue")
        for match in preset_matches(slugs):
            counts = [
                f"{name}: {'unknown' if count is None else count}" for name, count in match.counts.items()
            ]
            preset, there = match.preset, "yes" if match.in_catalogue else "no"
            table.add_row(preset.slug, escape(preset.title), escape(", ".join(counts)), there)
        show(self.stdout, table)

    def show_changes(self, changes: list[ProfileChange], *, dry_run: bool) -> None:
        due = [change for change in changes if change.changes_something]
        for change in changes:
            if change.kind == SAME:
                continue
            show(self.stdout, *change_lines(change))
        if not due:
            self.stdout.write("Nothing to do.")
            return
        same = len(changes) - len(due)
        done = "would change" if dry_run else "changed"
        self.stdout.write(f"{counted(len(due), 'profile')} {done}, {same} unchanged.")


def change_lines(change: ProfileChange) -> list[str]:
    """Return the lines that show a change: what happens, the keys, and the diff of the spec."""
    words = {
        NEW: "[green]+ {}[/]: new",
        CHANGED: "[yellow]~ {}[/]: changed",
        RESTORED: "[green]↑ {}[/]: changed and restored; it was retired",
        RETIRED: "[red]- {}[/]: retired",
        STAYS_RETIRED: "[dim]· {}[/]: stays retired, the file repeats its last version",
    }
    lines = [words[change.kind].format(escape(change.slug))]
    for difference in change.differences:
        before, after = (escape(value) if value else "–" for value in (difference.before, difference.after))
        values = after if change.kind == NEW else f"{before} → {after}"
        lines.append(f"    {difference.key}: {values}")
    lines += [f"    {escape(line)}" for line in change.spec]
    return lines
