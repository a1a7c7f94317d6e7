"""Random selectors: what people write, what the language allows, and what it does not."""

# ruff: noqa: E501 - a grammar reads best with a rule on a line

from __future__ import annotations

import random
from collections.abc import Callable

from tests.oracle.cel_values import Values
from tests.oracle.cel_words import (
    AMOUNTS,
    DRIVER,
    FORMATS,
    FORMATTED,
    NAMES,
    PATTERNS,
    PLACES,
    VERSIONS,
)


class Expressions(Values):
    """Makes selectors."""

    def truth(self, depth: int) -> str:
        if depth <= 0:
            return self.one(
                "true", "false", "device.allowMultipleAllocations", f'device.driver == "{DRIVER}"'
            )
        of = self.of
        other = self.one(
            "any", "string", "int", "quantity", "semver", "double", "uint", "optional", "ip", "map", "bytes"
        )
        ordered = self.one("int", "string", "double", "any", "uint", "bool")
        crossed = self.one("int", "double", "uint", ordered, ordered)
        choices: list[Callable[[], str]] = [
            lambda: f"({of('bool', depth)} && {of('bool', depth)})",
            lambda: f"({of('bool', depth)} || {of('bool', depth)})",
            lambda: f"!{of('bool', depth)}" if depth > 1 else "!true",
            lambda: f"({of('bool', depth)} ? {of('bool', depth)} : {of('bool', depth)})",
            lambda: f"{of('any', depth)} == {of(self.one('string', 'int', 'semver', 'bool', 'any'), depth)}",
            lambda: f"{of(self.one('string', 'int', 'semver'), depth)} != {of('any', depth)}",
            lambda: f"{of(other, depth)} {self.one('==', '!=')} {of(other, depth)}",
            lambda: f"{of(ordered, depth)} {self.one('<', '<=', '>', '>=')} {of(crossed, depth)}",
            lambda: f"{of('quantity', depth)}.compareTo({of('quantity', depth)}) >= 0",
            lambda: (
                f"{of('quantity', depth)}.{self.one('isGreaterThan', 'isLessThan')}({of('quantity', depth)})"
            ),
            lambda: f"{of('quantity', depth)}.isInteger()",
            lambda: (
                f"{of(self.one('semver', 'any'), depth)}.compareTo({of('semver', depth)}) {self.one('>=', '<')} 0"
            ),
            lambda: f"{of('semver', depth)}.{self.one('isGreaterThan', 'isLessThan')}({of('semver', depth)})",
            lambda: f"{self.one('isQuantity', 'isSemver', 'isIP', 'isCIDR')}({of('string', depth)})",
            lambda: (
                f'isQuantity("{self.one(*AMOUNTS)}") == isSemver("{self.one(*VERSIONS)}", {self.one("true", "false")})'
            ),
            lambda: (
                f"{of(self.one('string', 'any'), depth)}"
                f".{self.one('startsWith', 'endsWith', 'contains')}({of('string', depth)})"
            ),
            lambda: f'{of(self.one("string", "any"), depth)}.matches("{self.one(*PATTERNS)}")',
            lambda: (
                f"{of('any', depth)} in {self.one('[1, 2, 3]', '[]', of('strings', depth), of('ints', depth))}"
            ),
        ]
        return self.dice.choice([*choices, *self.searches(depth)])()

    def format(self) -> str:
        """Return a named format, one of ten through its name."""
        name = self.one(*FORMATS)
        return self.one(*([f"format.{name}()"] * 9), f"format.named('{name}').value()")

    def formatted(self, depth: int) -> str:
        """Return a text that a format accepts or nearly does."""
        return self.one(self.of("string", depth), *(repr(text) for text in FORMATTED))

    def searches(self, depth: int) -> list[Callable[[], str]]:
        """Return rules about lists, maps and what is in them."""
        of = self.of
        quantified = self.one("all", "exists", "exists_one", "existsOne")
        other = self.one("any", "string", "int", "quantity", "semver", "optional", "ip", "map")
        return [
            lambda: f"{of('string', depth)} in {of('strings', depth)}",
            lambda: (
                f"{of('string', depth)} in {self.one('device.attributes', f'device.capacity{self.domain()}', of('map', depth))}"
            ),
            lambda: f"has(device.{self.one('attributes', 'capacity')}{self.domain()}.{self.one(*NAMES)})",
            lambda: f"{of('strings', depth)}.{quantified}(s, {self.scope('s', 'string', 'bool', depth)})",
            lambda: f"{of('ints', depth)}.{quantified}(i, {self.scope('i', 'int', 'bool', depth)})",
            lambda: (
                f"device.attributes{self.domain()}.{quantified}(k, {self.scope('k', 'string', 'bool', depth)})"
            ),
            lambda: (
                f"device.attributes{self.domain()}.{quantified}(k, v, {self.scope('v', 'any', 'bool', depth)})"
            ),
            lambda: f"device.attributes.{quantified}(d, {self.scope('d', 'string', 'bool', depth)})",
            lambda: f"cel.bind(x, {of('any', depth)}, {self.scope('x', 'any', 'bool', depth)})",
            lambda: (
                f"cel.bind(a, device.attributes{self.domain()}, a.{self.one(*NAMES)} == {of('string', depth)})"
            ),
            lambda: (
                f"{of('optional', depth)}.{self.one('hasValue()', 'orValue(true) == true', 'value() == 1')}"
            ),
            lambda: (
                f"sets.{self.one('contains', 'equivalent', 'intersects')}({of('strings', depth)}, {of('strings', depth)})"
            ),
            lambda: f"{of(self.one('ints', 'strings'), depth)}.isSorted()",
            lambda: (
                f"{of('ip', depth)}.{self.one('isLoopback', 'isGlobalUnicast', 'isUnspecified', 'isLinkLocalUnicast', 'isLinkLocalMulticast')}()"
            ),
            lambda: f"{of('cidr', depth)}.containsIP({self.one(of('ip', depth), of('string', depth))})",
            lambda: f"{of('cidr', depth)}.containsCIDR({of('cidr', depth)})",
            lambda: f'ip.isCanonical("{self.one(*PLACES)}")',
            lambda: f"{self.format()}.validate({self.formatted(depth)}).hasValue()",
            lambda: (
                f"{self.format()}.validate({self.formatted(depth)}).orValue([]) == {of('strings', depth)}"
            ),
            lambda: (
                f"{self.format()}.validate({self.formatted(depth)}).orValue(['']).join('|').size() > {self.one('0', '20', '100', '250')}"
            ),
            lambda: f"{self.format()} {self.one('==', '==', '!=')} {self.format()}",
            lambda: f"format.named({self.one(of('string', depth), *map(repr, FORMATS))}).hasValue()",
            lambda: f"bool({of('string', depth)})",
            lambda: (
                f"type({of(other, depth)}) == {self.one('string', 'int', 'map', 'list', 'bool', 'net.IP', 'type', 'uint')}"
            ),
            lambda: f"device.attributes{self.domain()}.{self.one(*NAMES)}",
            lambda: f"{of('strings', depth)} == {of('strings', depth)}",
        ]


def expression(dice: random.Random) -> str:
    """Return an expression; one of ten is damaged."""
    made = Expressions(dice).of("bool", dice.randint(1, 4))
    if dice.random() < 0.9 or not made:
        return made
    place = dice.randrange(len(made))
    junk = dice.choice(
        ("", "", "(", ")", "]", "&&", "#", "'", ".", "..", "in", " as ", "1", "?", "x", "@", "\n", "é")
    )
    return made[:place] + junk + made[place + dice.randint(0, 3) :]
