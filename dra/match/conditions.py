"""One condition of a selector, and what a device has instead of what it asks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from dra.cel.idioms import comparison, reads, replaced
from dra.facts import Malformed, Ref, value
from dra.pools import PoolDevice
from dra.quantity import Quantity, QuantityError

KEPT = 2048  # expressions
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
class ConditionDifference:
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
class SelectorCondition:
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

    def against(self, device: PoolDevice) -> ConditionDifference:
        """Say what a device that fails the condition has."""
        if not self.sign:
            return ConditionDifference(
                "", seen=", ".join(f"{ref[2]} {has(device, ref) or '—'}" for ref in self.refs)
            )
        seen = has(device, self.refs[0]) if self.refs else device.driver
        wanted = in_words(self.wanted)
        if seen == wanted and self.refs:  # to a tenth of a GiB, which is too coarse then
            seen, wanted = has(device, self.refs[0], exactly=True), self.wanted
        return ConditionDifference(self.sign if seen else "missing", self.name, seen, wanted)

    def with_wanted(self, literal: str) -> str:
        """Return the text of the condition with another literal, which is given as CEL has it."""
        return replaced(self.text, {self.at: literal})


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
def condition(text: str) -> SelectorCondition:
    """Read one part of an expression. It need not be valid."""
    refs = tuple(dict.fromkeys(read.ref for read in reads(text)))
    asked = comparison(text)
    if asked is None:
        return SelectorCondition(text, refs)
    return SelectorCondition(
        text, refs, asked.ref[2] if asked.ref else "driver", asked.sign, asked.wanted, asked.literal
    )
