"""What commands write: tables and colors in a terminal, plain text in a file; and in whose name they act."""

from __future__ import annotations

import shutil
from io import StringIO

from django.core.management.base import CommandError, OutputWrapper
from rich.console import Console, RenderableType

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
