"""
Other ways to write an expression. Each takes the text apart by the idioms that people use; what does not look
like one of them is left alone, so nothing here has to be right: whoever uses it tries the result out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from dra.facts import Ref
from dra.quantity import Quantity, QuantityError

DEFAULTS = {
    "string": '""',
    "int": "0",
    "bool": "false",
    "version": 'semver("0.0.0")',
    "quantity": 'quantity("0")',
}
OR_VALUE = r"\.orValue\((?:[^()\"']|\"[^\"]*\"|'[^']*'|\((?:[^()\"']|\"[^\"]*\"|'[^']*')*\))*\)"
ACCESS = (
    r"device\.(?P<part>attributes|capacity)\[(?P<quote>[\"'])(?P<domain>[^\"']+)(?P=quote)\]"
    r"(?:\.(?P<maybe>\??)(?P<name>[A-Za-z_]\w*)|\[(?P<quote2>[\"'])(?P<quoted>\w+)(?P=quote2)\])(?!\w|\s*\()"
)
READ = re.compile(rf"(?P<has>\bhas\(\s*)?(?P<access>{ACCESS})(?P<default>{OR_VALUE})?")
AMOUNT = r"quantity\((?P<amount_quote>[\"'])(?P<amount>[^\"']+)(?P=amount_quote)\)"
ABOVE = AMOUNT.replace("amount", "above")
AT_LEAST = re.compile(
    rf"{ACCESS}(?:{OR_VALUE})?"
    rf"(?:\.compareTo\({AMOUNT}\)\s*(?P<sign>>=|>)\s*0|\.isGreaterThan\({ABOVE}\))"
)
ORDER = re.compile(
    rf"(?P<left>{ACCESS}(?:{OR_VALUE})?)\s*(?P<sign>>=|<=|>|<|==|!=)\s*(?P<right>(?:quantity|semver)\([^()]*\))"
)
LITERAL = (
    r"\"(?P<text>[^\"\\]*)\"|'(?P<other_text>[^'\\]*)'|(?P<number>-?\d+)(?![\w.])|(?P<flag>true|false)\b"
)
EQUAL = re.compile(rf"(?P<left>{ACCESS}(?P<default>{OR_VALUE})?)\s*==\s*(?P<right>{LITERAL})")

GIB, MIB = 2**30, 2**20


def ref_of(found: re.Match[str]) -> Ref:
    return (found["part"], found["domain"], found["name"] or found["quoted"])


def guarded(expression: str, kind_of: Callable[[Ref], str]) -> str:
    """Read with `.?name.orValue(…)` whatever is read plainly; `kind_of` tells the type of a name."""

    def guard(found: re.Match[str]) -> str:
        if found["has"] or found["maybe"] or found["default"]:
            return found[0]
        part, domain, name = ref_of(found)
        quote = found["quote"]
        default = DEFAULTS[kind_of((part, domain, name))]
        return f"device.{part}[{quote}{domain}{quote}].?{name}.orValue({default})"

    return READ.sub(guard, expression)


def asked_first(expression: str) -> str:
    """Ask `has(…)` first for whatever is read plainly."""
    plain = [
        f"has(device.{part}[{found['quote']}{domain}{found['quote']}].{name})"
        for found in READ.finditer(expression)
        if not (found["has"] or found["maybe"] or found["default"])
        for part, domain, name in [ref_of(found)]
    ]
    return " && ".join([*dict.fromkeys(plain), f"({expression})"])


def renamed(expression: str, wrong: Ref, right: Ref) -> str:
    """Read another attribute or capacity."""

    def rename(found: re.Match[str]) -> str:
        if ref_of(found) != wrong:
            return found[0]
        quote, mark = found["quote"], found["maybe"] or ""
        access = f"device.{right[0]}[{quote}{right[1]}{quote}].{mark}{right[2]}"
        return f"{found['has'] or ''}{access}{found['default'] or ''}"

    return READ.sub(rename, expression)


def methods(expression: str) -> str:
    """Write `a.compareTo(b) >= 0` for `a >= b`, which quantities and versions do not have."""

    def write(found: re.Match[str]) -> str:
        return f"{found['left']}.compareTo({found['right']}) {found['sign']} 0"

    return ORDER.sub(write, expression)


@dataclass(frozen=True, slots=True)
class Threshold:
    """An “at least” in an expression."""

    expression: str
    ref: Ref
    least: Quantity
    span: tuple[int, int]

    def at(self, amount: str) -> str:
        """Return the expression with another amount."""
        return self.expression[: self.span[0]] + amount + self.expression[self.span[1] :]


def thresholds(expression: str) -> list[Threshold]:
    found = []
    for match in AT_LEAST.finditer(expression):
        group = "amount" if match["amount"] else "above"
        try:
            least = Quantity.parse(match[group])
        except QuantityError:
            continue
        found.append(Threshold(expression, ref_of(match), least, match.span(group)))
    return found


def below(amount: Quantity) -> str:
    """Return the next round amount at or below: 79Gi for 81559Mi."""
    unit, suffix = (GIB, "Gi") if amount.bytes >= 20 * GIB else (MIB, "Mi")
    if amount.bytes < MIB:
        return str(amount)
    return f"{amount.bytes // unit}{suffix}"


@dataclass(frozen=True, slots=True)
class Equality:
    """A `name == literal` in an expression; `kind` is that of the literal."""

    expression: str
    ref: Ref
    kind: str
    text: str
    access: str  # without a default
    has_default: bool
    span: tuple[int, int]

    def as_kind(self, wanted: str) -> str:
        """Return the expression with a literal of another kind."""
        left = self.access + (f".orValue({DEFAULTS[wanted]})" if self.has_default else "")
        right = {
            "string": f'{left} == "{self.text}"',
            "version": f'{left}.compareTo(semver("{full_version(self.text)}")) == 0',
            "quantity": f'{left}.compareTo(quantity("{self.text}")) == 0',
        }.get(wanted, f"{left} == {self.text}")
        return self.expression[: self.span[0]] + right + self.expression[self.span[1] :]


def equalities(expression: str) -> list[Equality]:
    return [_equality(expression, match) for match in EQUAL.finditer(expression)]


def _equality(expression: str, match: re.Match[str]) -> Equality:
    if match["number"]:
        kind, text = "int", match["number"]
    elif match["flag"]:
        kind, text = "bool", match["flag"]
    else:
        kind, text = "string", match["text"] or match["other_text"] or ""
    default = match["default"] or ""
    access = match["left"].removesuffix(default)
    return Equality(expression, ref_of(match), kind, text, access, bool(default), match.span())


def full_version(text: str) -> str:
    """Return "9.0.0" for "9.0": a semantic version has three numbers."""
    return text + ".0" * max(0, 2 - text.count(".")) if re.fullmatch(r"\d+(\.\d+)*", text) else text
