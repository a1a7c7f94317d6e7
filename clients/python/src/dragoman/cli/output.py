"""What commands print: a table for people, JSON or YAML for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import click
import yaml
from rich.console import Console
from rich.table import Table

from dragoman.results import Result
from dragoman.text import ago, aligned

FORMATS = ("table", "json", "yaml")
Columns = Mapping[str, Callable[[Any], object]]


def documents(found: Result | Sequence[Result]) -> Any:
    """Return the answers of the portal as they were sent."""
    return found.raw if isinstance(found, Result) else [one.raw for one in found]


def write(output: str, found: Result | Sequence[Result], columns: Columns) -> None:
    """Print results: in a table the columns of each, otherwise all that the portal has sent."""
    if output == "table":
        rows = [found] if isinstance(found, Result) else found
        write_table(list(columns), [[cell(row) for cell in columns.values()] for row in rows])
    else:
        write_document(output, documents(found))


def write_document(output: str, document: Any) -> None:
    if output == "json":
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)


def write_table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows below titles: wrapped to a terminal; in a pipe each row on a line, and no cell cut."""
    upper = [title.upper() for title in titles]
    if not sys.stdout.isatty():
        click.echo(aligned(upper, rows))
        return
    table = Table(*upper, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    Console(highlight=False, markup=False).print(table)


def moment(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M %Z} ({ago(at)})" if at else ""


def write_facts(output: str, found: Result, facts: Mapping[str, object]) -> None:
    """Print what is known of one thing, a line each; empty facts are left out."""
    if output != "table":
        write_document(output, documents(found))
        return
    known = {name: str(value) for name, value in facts.items() if value not in (None, "", 0, ())}
    width = max(map(len, known), default=0)
    for name, value in known.items():
        click.echo(f"{name:<{width}}  {value}")
