"""
Which attributes and capacities an expression reads, found without running it.

Two uses. Devices that agree in what is read agree in the result, so thousands of devices need a handful of
evaluations. And an unknown domain reads as an empty map upstream, which the library's maps cannot do: the
expression is rewritten to read a second variable that holds every domain it names, empty where need be.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from dra.facts import Ref

TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
      | (?P<string>[rRbB]{0,2}(?:\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}
                  |"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<other>\.\?|\[\?|[0-9.]+|.)""",
    re.VERBOSE | re.DOTALL,
)
TABLES = {"attributes": "attributesOrNone", "capacity": "capacityOrNone"}
OPENING = {"[": "]", "[?": "]"}


@dataclass(frozen=True, slots=True)
class Reading:
    """
    What an expression reads of a device.

    `everything` says that the names could not all be told, as in a loop over attributes. `loose` says that a
    domain is looked up by something other than a literal, so that a missing one may be an artefact of this
    portal.
    """

    text: str  # rewritten
    refs: frozenset[Ref]
    domains: frozenset[str]
    everything: bool
    loose: bool


@dataclass(slots=True)
class _Scanner:
    tokens: list[tuple[str, str]]
    refs: set[Ref] = field(default_factory=set)
    domains: set[str] = field(default_factory=set)
    everything: bool = False
    loose: bool = False

    def at(self, index: int) -> str:
        return self.tokens[index][1] if 0 <= index < len(self.tokens) else ""

    def step(self, index: int) -> tuple[str | None, int]:
        """Read `.name`, `.?name`, `["name"]` or `[?"name"]` from `index` on; None if it is none of them."""
        opening, kind = self.at(index), self.tokens[index + 1][0] if index + 1 < len(self.tokens) else ""
        if opening in (".", ".?") and kind == "name" and self.at(index + 2) != "(":
            return self.at(index + 1), index + 2
        if opening in OPENING and kind == "string" and self.at(index + 2) == OPENING[opening]:
            return _literal(self.at(index + 1)), index + 3
        return None, index

    def table(self, index: int) -> bool:
        """
        Note what is read after `device.attributes` at `index`; say whether the rewritten table is to be read.
        """
        part = self.at(index)
        domain, after = self.step(index + 1)
        if domain is None:
            self.everything = True
            self.loose = self.loose or self.at(index - 3) != "in"
            return False
        self.domains.add(domain)
        name, end = self.step(after)
        if name is None or self.at(end) == "(":
            self.everything = True
        else:
            self.refs.add((part, domain, name))
        return True


def scan(expression: str) -> Reading:
    """Tell what `expression` reads. It need not be valid; nothing is promised of the reading then."""
    pieces = [(found.lastgroup or "other", found[0]) for found in TOKEN.finditer(expression)]
    places = [place for place, (kind, _) in enumerate(pieces) if kind != "space"]
    scanner = _Scanner([pieces[place] for place in places])
    for index in range(2, len(places)):
        path = [scanner.at(index - 2), scanner.at(index - 1), scanner.at(index)]
        if path[:2] != ["device", "."] or path[2] not in TABLES or scanner.at(index - 3) in (".", ".?"):
            continue
        if scanner.table(index):
            pieces[places[index]] = ("name", TABLES[path[2]])
    return Reading(
        "".join(text for _, text in pieces),
        frozenset(scanner.refs),
        frozenset(scanner.domains),
        scanner.everything,
        scanner.loose,
    )


def _literal(text: str) -> str:
    try:
        return str(ast.literal_eval(text))  # CEL's escapes that name attributes are Python's
    except (ValueError, SyntaxError):
        return text
