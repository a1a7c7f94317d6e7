"""
`manage.py config export | diff FILE | apply FILE`: what platform admins set, as a file under version control.

Exit code 0 if it is done or there is nothing to do; 1 if `diff` finds a difference; 2 for an invalid file or
a refusal.
"""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from claims.management.terminal import author, read_file, refusals, write_file
from core.text import counted
from portal.configuration.documents import Change
from portal.configuration.export import config_file, exported
from portal.configuration.plan import Plan, apply_plan, read_plan
from teams.models import record


class Command(BaseCommand):
    help = "Exports what platform admins set, shows how a file differs, or applies it."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        writing = actions.add_parser("export", help="write everything, without secrets")
        writing.add_argument("--out", metavar="FILE", default="-", help="default: standard output")
        for name, words in (("diff", "show what a file would change"), ("apply", "make the portal match it")):
            action = actions.add_parser(name, help=words)
            action.add_argument("file", help="“-” reads standard input")
            action.add_argument(
                "--prune", action="store_true", help="remove rules and retire profiles that it does not have"
            )
            action.add_argument("--by", metavar="USER", help="author; default: the first platform admin")
            if name == "apply":
                action.add_argument("--yes", action="store_true", help="do not ask, even in a terminal")

    def handle(self, *args: Any, **options: Any) -> None:
        with refusals():
            if options["action"] == "export":
                write_file(options["out"], config_file(exported()), self.stdout)
                name = "configuration"
                record(by=None, action="configuration.exported", kind="installation", name=name)
            else:
                self.compare(options)

    def compare(self, options: dict[str, Any]) -> None:
        by = author(self.stderr, options["by"])
        name = options["file"]
        plan = read_plan(*read_file(name), by=by, prune=options["prune"])
        self.show(plan)
        if options["action"] == "diff":
            if plan.due:
                sys.exit(1)
        elif plan.due and (options["yes"] or self.is_confirmed(name)):
            done = sum(1 for _change in apply_plan(plan, by=by))
            self.stdout.write(f"{counted(done, 'object')} changed.")

    def show(self, plan: Plan) -> None:
        for change in plan.due:
            self.stdout.write("\n".join(change_lines(change)))
        for note in plan.notes:
            self.stdout.write(f"Not now: {note}.")
        if not plan.due:
            self.stdout.write("Nothing to do.")

    def is_confirmed(self, name: str) -> bool:
        """Return whether to go on: always without a terminal, as in a pipeline."""
        if name == "-" or not (sys.stdin.isatty() and sys.stdout.isatty()):
            return True
        return input("Apply these changes? [y/N] ").strip().lower() in ("y", "yes")


def change_lines(change: Change) -> list[str]:
    return [f"{change.kind} {change.name}", *(f"    {line}" for line in change.lines)]
