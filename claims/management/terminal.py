"""What commands read and write: files, tables and colors in a terminal; refusals; in whose name they act."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

from django.core.management.base import CommandError, OutputWrapper
from rich.console import Console, RenderableType

from core.errors import PortalError
from core.yaml_documents import text_in
from teams.access import is_platform_admin
from teams.models import User

REFUSED = 2


def show(out: OutputWrapper, *parts: RenderableType) -> None:
    page = StringIO()
    width = max(shutil.get_terminal_size((120, 40)).columns, 80)
    console = Console(file=page, width=width, force_terminal=out.isatty(), highlight=False)
    for part in parts:
        console.print(part)
    out.write(page.getvalue(), ending="")


@contextmanager
def refusals() -> Iterator[None]:
    """Raise CommandError with exit code 2 for a refusal, with all its problems, and an unreadable file."""
    try:
        yield
    except PortalError as refusal:
        problems = refusal.extra.get("problems") or [refusal.message]
        raise CommandError("\n".join(problems), returncode=REFUSED) from None
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(str(error), returncode=REFUSED) from None


def read_file(name: str) -> tuple[str, str]:
    """Return the text of a file and its name for messages; "-" is standard input."""
    return (sys.stdin.read(), "stdin") if name == "-" else (text_in(Path(name).read_bytes()), name)


def write_file(name: str, text: str, out: OutputWrapper) -> None:
    """Write a text to a file, or for "-" to `out`."""
    if name == "-":
        out.write(text, ending="")
    else:
        Path(name).write_text(text)


def author(err: OutputWrapper, username: str | None) -> User:
    """
    Return the platform admin in whose name a command acts; write who it is if `username` is None.

    Raises CommandError for anybody else.
    """
    if username is None:
        admins = User.objects.filter(is_superuser=True, is_active=True)
        by = admins.order_by("date_joined", "pk").first()
        if by is None:
            raise CommandError("There is no platform admin. Create one first.", returncode=REFUSED)
        err.write(f"Author: {by.username}, the first platform admin.")
        return by
    person = User.objects.filter(username=username, is_active=True).first()
    if person is None or not is_platform_admin(person):
        raise CommandError(f"{username} is not a platform admin.", returncode=REFUSED)
    return person
