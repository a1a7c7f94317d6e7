"""
`%gpu` in notebooks: what is free, why a claim waits, and a claim for this notebook.

    %load_ext dragoman
    %gpu free
    %gpu request notebook-24g --hours 4
    %gpu why
    %gpu release

The kernel keeps what it requested alive; `%gpu help` lists the commands.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class

from dragoman._sync.claim import Claim
from dragoman._sync.client import Client
from dragoman.errors import DragomanError
from dragoman.remember import Remembered
from dragoman.request import ClaimRequest
from dragoman.results import LIVE, ClaimCost, Explanation, Match, Usage
from dragoman.text import ago, aligned


@dataclass(frozen=True)
class Rows:
    """A table of a notebook; as text in a terminal."""

    titles: Sequence[str]
    rows: Sequence[Sequence[object]]
    empty: str

    def __repr__(self) -> str:
        if not self.rows:
            return self.empty
        return aligned(self.titles, self.rows)

    def _repr_html_(self) -> str:
        if not self.rows:
            return f"<p>{escape(self.empty)}</p>"
        head = "".join(f'<th scope="col">{escape(title)}</th>' for title in self.titles)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in self.rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n{self.format_usage()}")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise HelpShown  # `--help` has printed it


class HelpShown(Exception):
    """Nothing more to do."""


def parser() -> Parser:
    top = Parser(prog="%gpu")
    commands = top.add_subparsers(dest="command", parser_class=Parser, metavar="COMMAND")
    commands.add_parser("help", help="list the commands")
    free = commands.add_parser("free", help="profiles with a free device")
    free.add_argument("words", nargs="*")
    request = commands.add_parser("request", help="request a claim and wait for it")
    match = commands.add_parser("match", help="preview a request; nothing is reserved")
    for command in (request, match):
        command.add_argument("profile")
        for name in ("--team", "--cluster", "--duration"):
            command.add_argument(name)
        command.add_argument("--hours", type=float)
        command.add_argument("--devices", type=int, default=1)
    request.add_argument("--reason", default="")
    request.add_argument("--timeout", type=float)
    lifetime = (
        "it ends when this kernel is silent for this long, 15m unless said; “off”: it lives until its end"
    )
    request.add_argument("--keep-alive", default="15m", help=lifetime)
    commands.add_parser("claims", help="your live claims")
    abouts = {
        "why": "who acts next, and why",
        "cost": "what it costs",
        "usage": "how busy its devices are",
        "extend": "ask for a later end",
        "release": "end it",
    }
    about = {name: commands.add_parser(name, help=words) for name, words in abouts.items()}
    for command in about.values():
        command.add_argument("claim", nargs="?")
    about["extend"].add_argument("--hours", type=float, required=True)
    about["release"].add_argument(
        "--yes", action="store_true", help="also one that this notebook did not request"
    )
    return top


@magics_class
class GpuMagics(Magics):  # type: ignore[misc,unused-ignore]  # of traitlets, without types
    """One client for the kernel; the last requested claim is the one that commands without a name mean."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._client: Client | None = None
        self._claim: Claim | None = None
        self._requested: dict[str, tuple[Claim, Remembered]] = {}  # by id, of this kernel

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = Client()
        return self._client

    @line_magic
    def gpu(self, line: str) -> Any:
        """
        Use GPUs: %gpu free, match, request, why, cost, usage, extend, claims, release, help.

        Each prints what the portal says. `%gpu request PROFILE` returns the claim.
        """
        top = parser()
        try:
            options = vars(top.parse_args(shlex.split(line)))
            name = options.pop("command")
            if name in (None, "help"):
                return top.print_help()
            return getattr(self, "_" + name)(**options)
        except HelpShown:
            return None
        except (DragomanError, ValueError) as error:
            raise UsageError(str(error)) from error  # its sentence, without a traceback

    def _free(self, words: list[str]) -> Rows:
        found = self.client.profiles(" ".join(words), free=True, mine=True)
        rows = [(one.slug, one.title, f"{one.free} of {one.total}", one.approval_sentence) for one in found]
        return Rows(("profile", "title", "free", "approval"), rows, "No device of your profiles is free now.")

    def _request(self, timeout: float | None, keep_alive: str, **fields: Any) -> Claim:
        request = ClaimRequest(**fields, keep_alive=None if keep_alive == "off" else keep_alive)
        remembered = self.client._remember(request)
        try:
            claim = self.client.request_remembered(request, remembered)
        finally:
            remembered.leave()  # the same line finds the same claim until it is released
        self._claim, self._requested = claim, {**self._requested, claim.id: (claim, remembered)}
        claim.wait(timeout=timeout)
        return claim

    def _match(self, **fields: Any) -> Match:
        return self.client.match(**fields)

    def _claims(self) -> Rows:
        rows = [
            (one.name, one.state, one.info.cluster, ", ".join(map(str, one.devices)), ago(one.expires_at))
            for one in self.client.claims(state=LIVE, mine=True)
        ]
        return Rows(("claim", "state", "cluster", "devices", "ends"), rows, "You have no live claim.")

    def _chosen(self, claim: str | None) -> Claim:
        if claim:
            return self.client.get(claim)
        if self._claim is None:  # in another kernel, by a page or a command
            live = list(self.client.claims(state=LIVE, mine=True))
            if len(live) != 1:
                names = ", ".join(one.name for one in live) or "none"
                raise UsageError(f"Which claim? You have {names}.")
            return live[0]
        return self._claim

    def _why(self, claim: str | None) -> Explanation:
        return self._chosen(claim).why()

    def _cost(self, claim: str | None) -> ClaimCost:
        return self._chosen(claim).cost()

    def _usage(self, claim: str | None) -> Usage:
        return self._chosen(claim).usage()

    def _extend(self, claim: str | None, hours: float) -> None:
        chosen = self._own(claim)
        extension = chosen.extend(hours)
        print(f"{chosen.name}: {extension.status}, until {extension.until:%Y-%m-%d %H:%M %Z}.")  # noqa: T201

    def _own(self, claim: str | None) -> Claim:
        """Return a claim that is changed: without a name the one of this notebook, never another one."""
        if claim is None and self._claim is None:
            live = ", ".join(one.name for one in self.client.claims(state=LIVE, mine=True)) or "none"
            raise UsageError(f"This notebook has requested no claim. Name one of yours: {live}.")
        return self._chosen(claim)

    def _release(self, claim: str | None, yes: bool) -> None:  # noqa: FBT001 (of the parser)
        chosen = self._own(claim)
        own, remembered = self._requested.pop(chosen.id, (chosen, None))
        if (
            remembered is None
            and not yes
            and not agreed(f"{chosen.name} was not requested here. Release it?")
        ):
            print(f"{chosen.name} stays: {chosen.state}.")  # noqa: T201
            return
        own.release()
        if remembered is not None:
            remembered.forget()
        if self._claim is not None and self._claim.id == chosen.id:
            self._claim = None
        print(f"{own.name}: {own.state}.")  # noqa: T201


def agreed(question: str) -> bool:
    """Ask a person; False where nobody can answer, as in a notebook that runs as a job."""
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, NotImplementedError):
        raise UsageError(f"{question} Add --yes.") from None
