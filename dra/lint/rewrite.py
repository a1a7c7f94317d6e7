"""
Other ways to write an expression. What does not have one of the usual forms is left alone, so nothing here
has to be right: whoever uses it tries the result out.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from dra.cel.idioms import Comparison, Read, comparisons, quoted, reads, replaced
from dra.facts import Ref
from dra.quantity import Quantity

DEFAULTS = {
    "string": '""',
    "int": "0",
    "bool": "false",
    "version": 'semver("0.0.0")',
    "quantity": 'quantity("0")',
}
GIB, MIB = 2**30, 2**20


def guarded(expression: str, kind_of: Callable[[Ref], str]) -> str:
    """Read with `.?name.orValue(…)` whatever is read plainly; `kind_of` tells the type of a name."""
    return replaced(
        expression,
        {
            read.whole: f"{read.table}.?{read.ref[2]}.orValue({DEFAULTS[kind_of(read.ref)]})"
            for read in _plain(expression)
        },
    )


def asked_first(expression: str) -> str:
    """Ask `has(…)` first for whatever is read plainly."""
    plain = [f"has({read.table}.{read.ref[2]})" for read in _plain(expression)]
    return " && ".join([*dict.fromkeys(plain), f"({expression})"])


def renamed(expression: str, wrong: Ref, right: Ref) -> str:
    """Read another attribute or capacity."""
    part, domain, name = right
    changes = {}
    for read in reads(expression):
        if read.ref == wrong:
            table = read.table if right[:2] == wrong[:2] else f"device.{part}[{quoted(domain)}]"
            plain = f"{table}{'.?' if read.optional else '.'}{name}"
            changes[read.whole] = f"has({plain})" if read.has else plain
    return replaced(expression, changes)


def methods(expression: str) -> str:
    """Write `a.compareTo(b) >= 0` for `a >= b`, which quantities and versions do not have."""
    return replaced(
        expression,
        {
            one.whole: f"{one.left}.compareTo({one.right}) {one.sign} 0"
            for one in comparisons(expression)
            if one.operator and one.kind in ("quantity", "version")
        },
    )


def equalities(expression: str) -> list[tuple[Ref, Comparison]]:
    """Return what is compared by `==` with a string, a number, true or false."""
    return [
        (one.ref, one)
        for one in comparisons(expression)
        if one.ref and one.operator and one.sign == "==" and one.kind in ("string", "int", "bool")
    ]


def as_kind(expression: str, equality: Comparison, wanted: str) -> str:
    """Compare with a literal of another kind."""
    left = equality.access
    if equality.left != equality.access:
        left += f".orValue({DEFAULTS[wanted]})"
    text = equality.wanted
    written = {
        "string": f"{left} == {quoted(text)}",
        "version": f"{left}.compareTo(semver({quoted(full_version(text))})) == 0",
        "quantity": f"{left}.compareTo(quantity({quoted(text)})) == 0",
    }.get(wanted, f"{left} == {text}")
    return replaced(expression, {equality.whole: written})


def full_version(text: str) -> str:
    """Return "9.0.0" for "9.0": a semantic version has three numbers."""
    return text + ".0" * max(0, 2 - text.count(".")) if re.fullmatch(r"\d+(\.\d+)*", text) else text


def below(amount: Quantity) -> str:
    """Return the next round amount at or below: 79Gi for 81559Mi."""
    unit, suffix = (GIB, "Gi") if amount.bytes >= 20 * GIB else (MIB, "Mi")
    if amount.bytes < MIB:
        return str(amount)
    return f"{amount.bytes // unit}{suffix}"


def _plain(expression: str) -> list[Read]:
    return [read for read in reads(expression) if not read.has and not read.optional]
