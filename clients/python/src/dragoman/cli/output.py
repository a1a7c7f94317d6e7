"""What commands print: a table for people, JSON or YAML for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click
import yaml
from rich.console import Console
from rich.table import Table

from dragoman.results import Result

FORMATS = ("table", "json", "yaml")
Columns = Mapping[str, Callable[[Any], object]]


def documents(found: Result | Sequence[Result]) -> Any:
    """Return the answers of the portal as they were sent."""
    return found.raw if isinstance(found, Result) else [one.raw for one in found]


def write(output: str, found: Result | Sequence[Result], columns: Columns) -> None:
    """Print results: in a table the columns of each, otherwise all that the portal has sent."""
    if output == "table":
        rows = [found] if isinstance(found, Result) else found
        write_table(columns, ([cell(row) for cell in columns.values()] for row in rows))
    else:
        write_document(output, documents(found))


def write_document(output: str, document: Any) -> None:
    if output == "json":
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)


def write_table(titles: Iterable[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows below titles, each on one line: in a pipe no cell is cut."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title.upper(), no_wrap=not sys.stdout.isatty())
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    width = None if sys.stdout.isatty() else 100_000
    console = Console(width=width, highlight=False, markup=False, soft_wrap=width is not None)
    console.print(table)


def write_facts(output: str, found: Result, facts: Mapping[str, object]) -> None:
    """Print what is known of one thing, a line each; empty facts are left out."""
    if output != "table":
        write_document(output, documents(found))
        return
    known = {name: str(value) for name, value in facts.items() if value not in (None, "", ())}
    width = max(map(len, known), default=0)
    for name, value in known.items():
        click.echo(f"{name:<{width}}  {value}")
