"""One condition of a selector, compared with the value that a device publishes."""

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
    "contains": "%(name)s %(seen)s does not contain %(wanted)s",
    "in": "%(name)s %(seen)s, not in %(wanted)s",
    "missing": "%(name)s is not published",
    "": "%(seen)s",
}
SHOWN = {">=": "≥", "<=": "≤", "==": "=", "!=": "≠"}
UNITS = {"Ki": "KiB", "Mi": "MiB", "Gi": "GiB", "Ti": "TiB"}
GIB = 2**30


@dataclass(frozen=True, slots=True)
class ConditionDifference:
    """
    The published value and the expected one, as text. `sign` is that of the condition, "missing" if the
    device does not publish the name, and "" if the condition has no known form.
    """

    sign: str
    name: str = ""
    seen: str = ""
    wanted: str = ""

    @property
    def sentence(self) -> str:
        """Return the difference in English, such as "memory 24 GiB < 40 GiB"."""
        return SENTENCES[self.sign] % {"name": self.name, "seen": self.seen, "wanted": self.wanted}


@dataclass(frozen=True, slots=True)
class SelectorCondition:
    """
    One condition of a selector. `text` is CEL; `name`, `sign` and `wanted` are "" for unknown forms.

    `sign` is one of >= <= > < == != begins ends contains in; `wanted` is the literal at the span `at` of
    `text`. `refs` are the attributes and capacities that the condition reads.
    """

    text: str
    refs: tuple[Ref, ...]
    name: str = ""
    sign: str = ""
    wanted: str = ""
    at: tuple[int, int] = (0, 0)

    @property
    def words(self) -> str:
        """Return the condition in English, such as "memory ≥ 40 GiB"; "" for unknown forms."""
        if not self.sign:
            return ""
        if self.sign in ("begins", "ends"):
            return f"{self.name} {self.sign} with {self.wanted}"
        return f"{self.name} {SHOWN.get(self.sign, self.sign)} {in_words(self.wanted)}"

    def against(self, device: PoolDevice) -> ConditionDifference:
        """Return how a device that fails the condition differs from it."""
        if not self.sign:
            return ConditionDifference(
                "", seen=", ".join(f"{ref[2]} {has(device, ref) or '—'}" for ref in self.refs)
            )
        published = has(device, self.refs[0]) if self.refs else device.driver
        expected = in_words(self.wanted)
        if published == expected and self.refs:  # equal after rounding to a tenth of a GiB
            published, expected = has(device, self.refs[0], exactly=True), self.wanted
        return ConditionDifference(self.sign if published else "missing", self.name, published, expected)

    def with_wanted(self, literal: str) -> str:
        """Return the text of the condition with another CEL literal."""
        return replaced(self.text, {self.at: literal})


def has(device: PoolDevice, ref: Ref, *, exactly: bool = False) -> str:
    """Return the published value as text, or exactly as written; "" if the device does not publish it."""
    try:
        published = value(device, ref)
    except Malformed as error:
        return str(error)
    if published is None:
        return ""
    return str(published) if exactly else in_words(published)


def in_words(value_: object) -> str:
    """Return a value as text; bytes in GiB, rounded to a tenth."""
    if isinstance(value_, bool):
        return "true" if value_ else "false"
    if isinstance(value_, list):
        return ", ".join(map(in_words, value_))
    if isinstance(value_, str):
        if not re.fullmatch(r"\d+(\.\d+)?(Ki|Mi|Gi|Ti)", value_):
            return value_
        try:
            value_ = Quantity.parse(value_)
        except QuantityError:
            return str(value_)
    if isinstance(value_, Quantity):
        text = str(value_)
        if text[-2:] not in UNITS:
            return text
        gib = value_.nano / 10**9 / GIB
        return f"{gib:.1f}".removesuffix(".0") + " GiB" if gib >= 1 else f"{text[:-2]} {UNITS[text[-2:]]}"
    return str(value_)


@lru_cache(maxsize=KEPT)
def condition(text: str) -> SelectorCondition:
    """Parse one conjunct of an expression, valid or not."""
    refs = tuple(dict.fromkeys(read.ref for read in reads(text)))
    parsed = comparison(text)
    if parsed is None:
        return SelectorCondition(text, refs)
    return SelectorCondition(
        text, refs, parsed.ref[2] if parsed.ref else "driver", parsed.sign, parsed.wanted, parsed.literal
    )
