"""What commands of this app write: tables and colours in a terminal, plain text in a file."""

from __future__ import annotations

import shutil
from io import StringIO

from django.core.management.base import OutputWrapper
from rich.console import Console, RenderableType


def show(out: OutputWrapper, *parts: RenderableType) -> None:
    page = StringIO()
    width = max(shutil.get_terminal_size((120, 40)).columns, 80)
    console = Console(file=page, width=width, force_terminal=out.isatty(), highlight=False)
    for part in parts:
        console.print(part)
    out.write(page.getvalue(), ending="")
