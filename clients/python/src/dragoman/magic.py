"""
`%gpu` in notebooks: what is free, why a claim waits, and a claim for this notebook.

    %load_ext dragoman
    %gpu free
    %gpu request notebook-24g --hours 4
    %gpu why
    %gpu release
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
from dragoman.results import LIVE, ClaimCost, Explanation
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


def parser() -> Parser:
    top = Parser(prog="%gpu", add_help=False)
    commands = top.add_subparsers(dest="command", required=True, parser_class=Parser)
    free = commands.add_parser("free", help="profiles with a free device", add_help=False)
    free.add_argument("words", nargs="*")
    request = commands.add_parser("request", help="request a claim and wait for it", add_help=False)
    request.add_argument("profile")
    for name in ("--team", "--cluster", "--duration"):
        request.add_argument(name)
    request.add_argument("--hours", type=float)
    request.add_argument("--devices", type=int, default=1)
    request.add_argument("--reason", default="")
    request.add_argument("--timeout", type=float)
    commands.add_parser("claims", help="your live claims", add_help=False)
    for name in ("why", "cost", "release"):
        commands.add_parser(name, add_help=False).add_argument("claim", nargs="?")
    return top


@magics_class
class GpuMagics(Magics):  # type: ignore[misc,unused-ignore]  # of traitlets, without types
    """One client for the kernel; the last requested claim is the one that commands without a name mean."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._client: Client | None = None
        self._claim: Claim | None = None
        self._remembered: Remembered | None = None

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = Client()
        return self._client

    @line_magic
    def gpu(self, line: str) -> Any:
        """
        Use GPUs: %gpu free, request, why, cost, claims, release.

        Each prints what the portal says. `%gpu request PROFILE` returns the claim.
        """
        options = vars(parser().parse_args(shlex.split(line)))
        command = getattr(self, "_" + options.pop("command"))
        try:
            return command(**options)
        except (DragomanError, ValueError) as error:
            raise UsageError(str(error)) from error  # its sentence, without a traceback

    def _free(self, words: list[str]) -> Rows:
        found = self.client.profiles(" ".join(words), free=True, mine=True)
        rows = [(one.slug, one.title, f"{one.free} of {one.total}", one.approval_sentence) for one in found]
        return Rows(("profile", "title", "free", "approval"), rows, "No device of your profiles is free now.")

    def _request(self, timeout: float | None, **fields: Any) -> Claim:
        claim, self._remembered = self.client.request_remembered(ClaimRequest(**fields))
        self._remembered.leave()  # the same line finds the same claim until it is released
        self._claim = claim
        claim.wait(timeout=timeout)
        return claim

    def _claims(self) -> Rows:
        rows = [
            (one.name, one.state, one.info.cluster, ", ".join(map(str, one.devices)), ago(one.expires_at))
            for one in self.client.claims(state=LIVE, mine=True)
        ]
        return Rows(("claim", "state", "cluster", "devices", "ends"), rows, "You have no live claim.")

    def _chosen(self, claim: str | None) -> Claim:
        if claim:
            return self.client.get(claim)
        if self._claim is None:
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

    def _release(self, claim: str | None) -> None:
        chosen = self._chosen(claim)
        chosen.release()
        if self._claim is not None and self._claim.id == chosen.id:
            if self._remembered is not None:
                self._remembered.forget()
            self._claim = self._remembered = None
        print(f"{chosen.name}: {chosen.state}.")  # noqa: T201
