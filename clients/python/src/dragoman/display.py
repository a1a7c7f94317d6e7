"""
The line that says why a claim waits: live in a terminal and in a notebook, a line per change in a log.

A `Display` gets a `Waiting` each time that something may have changed, the last one with `is_over`.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal, Protocol, TextIO

from dragoman.results import ClaimInfo, Explanation
from dragoman.text import span, state_label

COLORS = {"requested": "#b35c00", "approved": "#1864ab", "provisioned": "#1864ab", "allocated": "#2b8a3e"}


@dataclass(frozen=True)
class Waiting:
    """A claim at one moment of the wait, which began at `since` (monotonic seconds)."""

    claim: ClaimInfo
    why: Explanation
    since: float = field(default_factory=time.monotonic)
    is_over: bool = False

    @property
    def sentence(self) -> str:
        """Why it waits, or what it has got."""
        if self.claim.allocations and not self.why.problem:
            return ", ".join(map(str, self.claim.allocations))
        return str(self.why)

    @property
    def text(self) -> str:
        return f"{self.claim.name}: {state_label(self.claim.state)}. {self.sentence}".strip()

    @property
    def waited(self) -> str:
        return span(time.monotonic() - self.since)


class Display(Protocol):
    def show(self, waiting: Waiting) -> None: ...

    def close(self) -> None: ...


class Quiet:
    def show(self, waiting: Waiting) -> None: ...

    def close(self) -> None: ...


class Log:
    """A line each time that the text changes, for logs and for terminals without rich."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream, self.shown = stream or sys.stderr, ""

    def show(self, waiting: Waiting) -> None:
        if waiting.text != self.shown:
            self.shown = waiting.text
            print(waiting.text, file=self.stream, flush=True)

    def close(self) -> None: ...


class Terminal:
    """One line with a spinner and the time waited, by rich; what was reached stays."""

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(stderr=True)
        self.status: Any = None

    def show(self, waiting: Waiting) -> None:
        if waiting.is_over:
            self.close()
            self.console.print(self._line(waiting), highlight=False)
        elif self.status is None:
            self.status = self.console.status(_Ticking(waiting))
            self.status.start()
        else:
            self.status.update(_Ticking(waiting))

    def close(self) -> None:
        if self.status is not None:
            self.status.stop()
            self.status = None

    @staticmethod
    def _line(waiting: Waiting) -> Any:
        from rich.text import Text

        return Text.assemble(("✓ " if waiting.claim.is_usable else "✗ ", "bold"), waiting.text)


class _Ticking:
    """A text that rich draws again several times a second, so that the time waited goes on."""

    def __init__(self, waiting: Waiting) -> None:
        self.waiting = waiting

    def __rich__(self) -> Any:
        from rich.text import Text

        return Text.assemble(self.waiting.text, (f"  {self.waiting.waited}", "dim"))


class Notebook:
    """One output of the cell, replaced while the claim waits."""

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self._html = HTML
        self._handle: Any = None
        self._display: Callable[..., Any] = display

    def show(self, waiting: Waiting) -> None:
        content = {"text/html": html(waiting), "text/plain": waiting.text}
        if self._handle is None:
            self._handle = self._display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)

    def close(self) -> None: ...


def html(waiting: Waiting) -> str:
    """Return the line for a notebook; its colors are legible on light and dark themes with their text."""
    claim = waiting.claim
    color = COLORS.get(claim.state, "#868e96")
    time_waited = "" if waiting.is_over else f' <span style="opacity:.6">{escape(waiting.waited)}</span>'
    return (
        f'<div role="status" style="border-left:4px solid {color};padding:.25em .75em">'
        f"<b>{escape(claim.name)}</b> · {escape(state_label(claim.state))}{time_waited}<br>"
        f"{escape(waiting.sentence)}</div>"
    )


DisplayName = Literal["auto", "terminal", "notebook", "log", "quiet"]


def in_notebook() -> bool:
    """Return whether a kernel runs this, which has a front end that shows HTML."""
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell else None  # without importing IPython where nobody has
    return found is not None and hasattr(found, "kernel")


def display_for(chosen: DisplayName | Display) -> Display:
    """Return what shows the wait; "auto" decides by where the output goes."""
    if not isinstance(chosen, str):
        return chosen
    if chosen == "auto":
        chosen = "notebook" if in_notebook() else "terminal" if sys.stderr.isatty() else "log"
    if chosen == "quiet":
        return Quiet()
    if chosen == "notebook":
        return Notebook()
    if chosen == "terminal":
        with contextlib.suppress(ImportError):  # rich comes with the command line
            return Terminal()
    return Log()
