"""
`manage.py catalogue export | import FILE | presets`: the catalogue as a file under version control.

Exit code 0 when it is done or there is nothing to do; with `--check` 1 if an import would change something;
2 for a file or a name that is refused, and then nothing is written.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.markup import escape
from rich.table import Table

from claims.catalogue import services
from claims.catalogue.presets import presets
from claims.catalogue.presets.serving import served
from claims.catalogue.yaml_export import CHANGED, NEW, RETIRED, RETURNS, ProfileChange, exported, written
from claims.catalogue.yaml_import import entries_in
from claims.management.terminal import show
from core.errors import PortalError
from core.text import counted
from teams.access import is_platform_admin
from teams.models import User

REFUSED = 2


class Command(BaseCommand):
    help = "Writes the catalogue to a file, makes it what a file says, or adds the presets."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        writing = actions.add_parser("export", help="write every profile that is not retired")
        writing.add_argument("--out", metavar="FILE", default="-", help="standard output by default")
        reading = actions.add_parser("import", help="make the catalogue what a file says")
        reading.add_argument("file", help="“-” reads standard input")
        reading.add_argument("--prune", action="store_true", help="retire profiles that are not in the file")
        offered = actions.add_parser("presets", help="add the profiles that come with the portal")
        offered.add_argument("--list", action="store_true", help="only show them, and what of them matches")
        offered.add_argument("--only", nargs="+", metavar="SLUG", default=[], help="these; all by default")
        reading.add_argument("--check", action="store_true", help="as --dry-run; exit code 1 on changes")
        for action in (reading, offered):
            action.add_argument(
                "--dry-run", action="store_true", help="show what would change, write nothing"
            )
            action.add_argument("--by", metavar="USER", help="the first platform admin by default")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            match options["action"]:
                case "export":
                    self.export(options["out"])
                case "import":
                    self.import_(options)
                case "presets":
                    self.presets(options)
        except PortalError as refusal:
            problems = refusal.extra.get("problems") or [refusal.message]
            raise CommandError("\n".join(problems), returncode=REFUSED) from None
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(str(error), returncode=REFUSED) from None

    def export(self, out: str) -> None:
        text = written(exported())
        if out == "-":
            self.stdout.write(text, ending="")
        else:
            Path(out).write_text(text)

    def import_(self, options: dict[str, Any]) -> None:
        by = self.person(options["by"])
        text = sys.stdin.read() if options["file"] == "-" else Path(options["file"]).read_text()
        entries = entries_in(text, "stdin" if options["file"] == "-" else options["file"])
        only_look = options["dry_run"] or options["check"]
        if only_look:
            changes = services.plan_import(by=by, entries=entries, prune=options["prune"])
        else:
            changes = services.import_profiles(by=by, entries=entries, prune=options["prune"])
        self.tell(changes, only_look=only_look)
        if options["check"] and any(change.changes_something for change in changes):
            sys.exit(1)

    def presets(self, options: dict[str, Any]) -> None:
        known = {entry.slug: entry for entry in presets()}
        if unknown := [slug for slug in options["only"] if slug not in known]:
            raise CommandError(
                f"There is no preset {unknown[0]}; there are {', '.join(known)}.",
                returncode=REFUSED,
            )
        if options["list"]:
            self.offer(options["only"])
            return
        by = self.person(options["by"])
        entries = [known[slug] for slug in dict.fromkeys(options["only"] or known)]
        if options["dry_run"]:
            there = {one.entry.slug for one in served(options["only"]) if one.is_there}
            missing = [entry for entry in entries if entry.slug not in there]
            self.tell(services.plan_import(by=by, entries=missing), only_look=True)
        else:
            self.tell(services.add_profiles(by=by, entries=entries), only_look=False)

    def offer(self, only: list[str]) -> None:
        table = Table("Preset", "Title", "Devices that match", "In the catalogue")
        for one in served(only):
            counts = [
                f"{name}: {'unknown' if count is None else count}" for name, count in one.counts.items()
            ]
            there = "yes" if one.is_there else "no"
            table.add_row(one.entry.slug, escape(one.entry.title), escape(", ".join(counts)), there)
        show(self.stdout, table)

    def person(self, username: str | None) -> User:
        """Return who is written down as the author of new versions; say who it is if nobody was named."""
        if username is None:
            admins = User.objects.filter(is_superuser=True, is_active=True)
            by = admins.order_by("date_joined", "pk").first()
            if by is None:
                raise CommandError("There is no platform admin; make one first.", returncode=REFUSED)
            self.stderr.write(f"As {by.username}, the first platform admin.")
            return by
        found = User.objects.filter(username=username, is_active=True).first()
        if found is None or not is_platform_admin(found):
            raise CommandError(f"{username} is not a platform admin.", returncode=REFUSED)
        return found

    def tell(self, changes: list[ProfileChange], *, only_look: bool) -> None:
        due = [change for change in changes if change.changes_something]
        for change in due:
            show(self.stdout, *lines_of(change))
        if not due:
            self.stdout.write("Nothing to do.")
            return
        same = len(changes) - len(due)
        done = "would change" if only_look else "changed"
        self.stdout.write(f"{counted(len(due), 'profile')} {done}, {same} stay as they are.")


def lines_of(change: ProfileChange) -> list[str]:
    """Return a change for people: what happens, the keys, and the lines of the specification."""
    words = {
        NEW: "[green]+ {}[/]: new",
        CHANGED: "[yellow]~ {}[/]: changed",
        RETURNS: "[green]↑ {}[/]: comes back",
        RETIRED: "[red]- {}[/]: retired",
    }
    lines = [words[change.kind].format(escape(change.slug))]
    for one in change.differences:
        before, after = (escape(value) if value else "–" for value in (one.before, one.after))
        said = after if change.kind == NEW else f"{before} → {after}"
        lines.append(f"    {one.key}: {said}")
    lines += [f"    {escape(line)}" for line in change.spec]
    return lines
