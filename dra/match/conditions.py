"""
The conditions of a selector one by one, and what a device has instead of what one of them asks.

Only what is joined by `&&` at the top of an expression is taken apart. CEL's `&&` is false if either side is,
in any order and whatever the other side is (cel-spec, "Logical Operators"), so a device that an expression
turns down is turned down by one of its parts. Whether it is turned down at all is asked of the whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from dra.facts import Malformed, Ref, value
from dra.pools import PoolDevice
from dra.quantity import Quantity, QuantityError

KEPT = 2048  # expressions
TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
      | (?P<string>[rRbB]{0,2}(?:\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}
                  |"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<other>&&|\|\||\.\?|\[\?|[0-9.]+|.)""",
    re.VERBOSE | re.DOTALL,
)
OPENING, CLOSING = frozenset(("(", "[", "[?", "{")), frozenset((")", "]", "}"))
STRING = r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\''
LITERAL = rf"(?:quantity\((?:{STRING})\)|semver\((?:{STRING})\)|{STRING}|-?\d+|true|false)"
ATTRIBUTE = (
    rf"device\.(?P<part>attributes|capacity)\[(?P<domain>{STRING})\]"
    rf"(?:\.\??(?P<name>\w+)\b(?!\()|\[\??(?P<key>{STRING})\])(?:\.orValue\({LITERAL}\))?"
)
SUBJECT = rf"(?:{ATTRIBUTE}|device\.(?P<field>driver))"
FORMS = tuple(
    re.compile(SUBJECT + rest)
    for rest in (
        rf"\.compareTo\((?:quantity|semver)\((?P<wanted>{STRING})\)\)(?P<sign>>=|<=|==|!=|>|<)0",
        rf"\.(?P<sign>isGreaterThan|isLessThan)\((?:quantity|semver)\((?P<wanted>{STRING})\)\)",
        rf"\.(?P<sign>startsWith|endsWith|contains)\((?P<wanted>{STRING})\)",
        rf"(?P<sign>>=|<=|==|!=|>|<)(?P<wanted>{STRING}|-?\d+|true|false)",
        rf" ?(?P<sign>in) ?(?P<wanted>\[(?:{STRING}|-?\d+)(?:,(?:{STRING}|-?\d+))*\])",
    )
)
READS = re.compile(ATTRIBUTE)
SIGNS = {"isGreaterThan": ">", "isLessThan": "<", "startsWith": "begins", "endsWith": "ends"}
SENTENCES = {
    ">=": "%(name)s %(seen)s < %(wanted)s",
    "<=": "%(name)s %(seen)s > %(wanted)s",
    ">": "%(name)s %(seen)s ≤ %(wanted)s",
    "<": "%(name)s %(seen)s ≥ %(wanted)s",
    "==": "%(name)s %(seen)s, not %(wanted)s",
    "!=": "%(name)s is %(seen)s",
    "begins": "%(name)s %(seen)s, not %(wanted)s…",
    "ends": "%(name)s %(seen)s, not …%(wanted)s",
    "contains": "%(name)s %(seen)s, without %(wanted)s",
    "in": "%(name)s %(seen)s, none of %(wanted)s",
    "missing": "%(name)s is not published",
    "": "%(seen)s",
}
SHOWN = {">=": "≥", "<=": "≤", "==": "=", "!=": "≠"}
UNITS = {"Ki": "KiB", "Mi": "MiB", "Gi": "GiB", "Ti": "TiB"}
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Difference:
    """
    What a device has and what a condition asks for, both in words. `sign` is that of the condition, "missing"
    if the device publishes nothing of the name, and "" if the condition is of no usual form.
    """

    sign: str
    name: str = ""
    seen: str = ""
    wanted: str = ""

    @property
    def sentence(self) -> str:
        """Say it in English, as "memory 24 GiB < 40 GiB"."""
        return SENTENCES[self.sign] % {"name": self.name, "seen": self.seen, "wanted": self.wanted}


@dataclass(frozen=True, slots=True)
class Condition:
    """
    One condition of a selector. `text` is CEL; the rest is read only of the usual forms, else empty.

    `sign` is one of >= <= > < == != begins ends contains in; `wanted` what it compares with, as written,
    standing at `at` of `text`. `refs` is all that the condition reads.
    """

    text: str
    refs: tuple[Ref, ...]
    name: str = ""
    sign: str = ""
    wanted: str = ""
    at: tuple[int, int] = (0, 0)

    @property
    def words(self) -> str:
        """Say what is asked for, as "memory ≥ 40 GiB"; "" if the condition is of no usual form."""
        if not self.sign:
            return ""
        if self.sign in ("begins", "ends"):
            return f"{self.name} {self.sign} with {self.wanted}"
        return f"{self.name} {SHOWN.get(self.sign, self.sign)} {in_words(self.wanted)}"

    def against(self, device: PoolDevice) -> Difference:
        """Say what a device that fails the condition has."""
        if not self.sign:
            return Difference("", seen=", ".join(f"{ref[2]} {has(device, ref) or '—'}" for ref in self.refs))
        seen = has(device, self.refs[0]) if self.refs else device.driver
        wanted = in_words(self.wanted)
        if seen == wanted and self.refs:  # to a tenth of a GiB, which is too coarse then
            seen, wanted = has(device, self.refs[0], exactly=True), self.wanted
        return Difference(self.sign if seen else "missing", self.name, seen, wanted)

    def with_wanted(self, literal: str) -> str:
        """Return the text of the condition with another literal, which is given as CEL has it."""
        start, end = self.at
        return self.text[:start] + literal + self.text[end:]


def has(device: PoolDevice, ref: Ref, *, exactly: bool = False) -> str:
    """Return what a device publishes under a name, in words or as written; "" if it does not."""
    try:
        found = value(device, ref)
    except Malformed as error:
        return str(error)
    if found is None:
        return ""
    return str(found) if exactly else in_words(found)


def in_words(found: object) -> str:
    """Return a value of a device or an expression; amounts of bytes in GiB, to a tenth."""
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, list):
        return ", ".join(map(in_words, found))
    if isinstance(found, str):
        if not re.fullmatch(r"\d+(\.\d+)?(Ki|Mi|Gi|Ti)", found):
            return found
        try:
            found = Quantity.parse(found)
        except QuantityError:
            return str(found)
    if isinstance(found, Quantity):
        text = str(found)
        if text[-2:] not in UNITS:
            return text
        gib = found.nano / 10**9 / GIB
        return f"{gib:.1f}".removesuffix(".0") + " GiB" if gib >= 1 else f"{text[:-2]} {UNITS[text[-2:]]}"
    return str(found)


@lru_cache(maxsize=KEPT)
def conjuncts(expression: str) -> tuple[str, ...]:
    """
    Return what `&&` joins at the top of an expression, comments left out; the expression itself if nothing.

    `||` and `?:` bind less than `&&`, so an expression with one of them at the top has one part.
    """
    tokens = [
        (" " if found.lastgroup == "space" else found[0], found.lastgroup != "space")
        for found in TOKEN.finditer(expression)
    ]
    return tuple(_split(tokens)) or (expression,)


def joined(parts: Sequence[str]) -> str:
    """Return one expression that asks for all the parts; "" for none."""
    return " && ".join(part if len(parts) == 1 else f"({part})" for part in parts)


@lru_cache(maxsize=KEPT)
def condition(text: str) -> Condition:
    """Read one part of an expression. It need not be valid."""
    # Spaces say nothing outside of strings; positions in the text are found again by its tokens.
    kept, places = [], []
    before = ""
    for found in TOKEN.finditer(text):
        if found.lastgroup == "space":
            continue
        if before == "name" == found.lastgroup:
            kept.append(" ")
            places.append(found.start())
        kept.append(found[0])
        places.extend(range(found.start(), found.end()))
        before = found.lastgroup or ""
    squeezed = "".join(kept)
    refs = tuple(dict.fromkeys(_ref(found) for found in READS.finditer(squeezed)))
    for form in FORMS:
        match = form.fullmatch(squeezed)
        if match is None:
            continue
        name = refs[0][2] if refs else "driver"
        start, end = match.span("wanted")
        wanted = _read(match["wanted"])
        if match["sign"] == "in":
            wanted = ", ".join(_read(found) for found in re.findall(rf"{STRING}|-?\d+", match["wanted"]))
        sign = SIGNS.get(match["sign"], match["sign"])
        return Condition(text, refs, name, sign, wanted, (places[start], places[end - 1] + 1))
    return Condition(text, refs)


def _split(tokens: list[tuple[str, bool]]) -> list[str]:
    while _wrapped(tokens):
        tokens = _trim(tokens)[1:-1]
    parts: list[list[tuple[str, bool]]] = [[]]
    depth = 0
    for token in tokens:
        text = token[0]
        depth += (text in OPENING) - (text in CLOSING)
        if depth == 0 and text in ("?", "||"):
            parts = [tokens]
            break
        if depth == 0 and text == "&&":
            parts.append([])
        else:
            parts[-1].append(token)
    if len(parts) > 1:
        return [text for part in parts for text in _split(part)]
    text = "".join(text for text, _ in parts[0]).strip()
    return [text] if text else []


def _trim(tokens: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    said = [place for place, (_, counts) in enumerate(tokens) if counts]
    return tokens[said[0] : said[-1] + 1] if said else []


def _wrapped(tokens: list[tuple[str, bool]]) -> bool:
    """Whether one pair of parentheses holds all of the tokens."""
    inner = _trim(tokens)
    if len(inner) < 2 or inner[0][0] != "(" or inner[-1][0] != ")":
        return False
    depth = 0
    for place, (text, _) in enumerate(inner):
        depth += (text in OPENING) - (text in CLOSING)
        if depth == 0:
            return place == len(inner) - 1
    return False


def _ref(match: re.Match[str]) -> Ref:
    return match["part"], _read(match["domain"]), match["name"] or _read(match["key"])


def _read(literal: str) -> str:
    """Return what a CEL literal says, strings without quotes."""
    if literal[:1] == '"':
        try:
            return str(json.loads(literal))
        except ValueError:
            return literal[1:-1]
    return literal[1:-1] if literal[:1] == "'" else literal
