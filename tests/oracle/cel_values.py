"""Random expressions of every type but bool, which `tests.oracle.cel_expressions` adds."""

# ruff: noqa: E501 - a grammar reads best with a rule on a line

from __future__ import annotations

import random
from collections.abc import Callable

from tests.oracle.cel_words import AMOUNTS, DOMAINS, DRIVER, NAMES, NETS, PATTERNS, PLACES, TEXTS, VERSIONS


class Values:
    """Makes expressions of a wanted type, `depth` levels deep at most."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.locals: list[tuple[str, str]] = []  # variables in scope with their types
        self.made: dict[str, Callable[[int], str]] = {
            "bool": self.truth,
            "int": self.integer,
            "string": self.string,
            "double": self.double,
            "uint": lambda _depth: self.one(
                "0u", "1u", "42u", "18446744073709551615u", 'uint("7")', "uint(3)"
            ),
            "quantity": self.quantity,
            "semver": self.semver,
            "any": self.attribute,
            "ints": self.ints,
            "strings": self.strings,
            "optional": self.optional,
            "map": self.map,
            "ip": lambda _depth: f'ip("{self.one(*PLACES)}")',
            "cidr": self.cidr,
            "bytes": lambda depth: self.one('b"abc"', "b''", f"bytes({self.of('string', depth)})"),
        }

    def truth(self, depth: int) -> str:
        raise NotImplementedError

    def one(self, *choices: str) -> str:
        return self.dice.choice(choices)

    def of(self, kind: str, depth: int) -> str:
        """Return an expression of a type, now and then of another one."""
        if self.dice.random() < 0.02:
            kind = self.dice.choice(list(self.made))
        known = [name for name, its in self.locals if its == kind]
        if known and self.dice.random() < 0.5:
            return self.dice.choice(known)
        return self.made[kind](depth - 1)

    def text(self) -> str:
        return f'"{self.one(*TEXTS)}"'

    def domain(self) -> str:
        return self.one(f'["{self.one(*DOMAINS)}"]', f'["{self.one(*DOMAINS)}"]', ".example", f"['{DRIVER}']")

    def attribute(self, depth: int) -> str:
        name = self.one(*NAMES)
        table = f"device.attributes{self.domain()}"
        return self.dice.choice(
            [
                lambda: f"{table}.{name}",
                lambda: f"{table}.{name}",
                lambda: f'{table}["{name}"]',
                lambda: (
                    f"{table}.?{name}.orValue({self.of(self.one('string', 'int', 'bool', 'semver'), depth)})"
                ),
            ]
        )()

    def scope(self, name: str, kind: str, wanted: str, depth: int) -> str:
        """Return an expression with one more variable in scope."""
        self.locals.append((name, kind))
        try:
            return self.of(wanted, depth)
        finally:
            self.locals.pop()

    def integer(self, depth: int) -> str:
        simple = ("0", "1", "-1", "42", "9223372036854775807", "-9223372036854775808", "80 * 1024", "0x10")
        if depth <= 0:
            return self.one(*simple)
        of = self.of
        choices: list[Callable[[], str]] = [
            lambda: self.one(*simple),
            lambda: f"({of('int', depth)} {self.one('+', '-', '*', '/', '%')} {of('int', depth)})",
            lambda: f"size({of(self.one('string', 'strings', 'map', 'bytes', 'any'), depth)})",
            lambda: f"{of(self.one('string', 'strings', 'map', 'any'), depth)}.size()",
            lambda: f"{of('quantity', depth)}.asInteger()",
            lambda: f"sign({of('quantity', depth)})",
            lambda: f"{of(self.one('semver', 'any'), depth)}.{self.one('major', 'minor', 'patch')}()",
            lambda: f"int({of(self.one('string', 'double', 'int', 'any', 'uint'), depth)})",
            lambda: f"{of('string', depth)}.{self.one('indexOf', 'lastIndexOf')}({of('string', depth)})",
            lambda: (
                f"{of('string', depth)}.{self.one('indexOf', 'lastIndexOf')}({of('string', depth)}, {of('int', depth)})"
            ),
            lambda: f"{of('ints', depth)}.{self.one('sum', 'min', 'max')}()",
            lambda: f"{of('strings', depth)}.{self.one('indexOf', 'lastIndexOf')}({of('string', depth)})",
            lambda: f"{of('ints', depth)}[{of('int', depth)}]",
            lambda: f"({of('bool', depth)} ? {of('int', depth)} : {of('int', depth)})",
            lambda: f"{of('ip', depth)}.family()",
            lambda: f"{of('cidr', depth)}.prefixLength()",
            lambda: f"-{self.one('1', 'device.driver.size()', of('any', depth))}",
        ]
        return self.dice.choice(choices)()

    def double(self, depth: int) -> str:
        if depth <= 0 or self.dice.random() < 0.3:
            return self.one("0.5", "1.0", "-2.5e3", "1e300", ".5", "42.0")
        return self.dice.choice(
            [
                lambda: (
                    f"({self.of('double', depth)} {self.one('+', '-', '*', '/')} {self.of('double', depth)})"
                ),
                lambda: f"double({self.of(self.one('int', 'string', 'any'), depth)})",
                lambda: f"{self.of('quantity', depth)}.asApproximateFloat()",
                lambda: "[1.5, 2.5].sum()",
            ]
        )()

    def string(self, depth: int) -> str:
        if depth <= 0:
            return self.one("device.driver", self.text(), self.text())
        of = self.of
        choices: list[Callable[[], str]] = [
            self.text,
            lambda: "device.driver",
            lambda: f"({of('string', depth)} + {of(self.one('string', 'any'), depth)})",
            lambda: (
                f"string({of(self.one('int', 'double', 'bool', 'any', 'string', 'ip', 'cidr', 'uint', 'bytes'), depth)})"
            ),
            lambda: (
                f"{of(self.one('string', 'any'), depth)}.{self.one('lowerAscii', 'upperAscii', 'trim')}()"
            ),
            lambda: f"{of('string', depth)}.replace({of('string', depth)}, {of('string', depth)})",
            lambda: (
                f"{of('string', depth)}.replace({self.text()}, {self.text()}, {self.one('0', '1', '2', '-1')})"
            ),
            lambda: f"{of('string', depth)}.substring({of('int', depth)})",
            lambda: f"{of('string', depth)}.substring({self.one('0', '1', '2')}, {self.one('1', '3', '5')})",
            lambda: f"{of('string', depth)}.charAt({self.one('0', '1', '3', '99')})",
            lambda: f"{of('strings', depth)}.join({self.one('', of('string', depth))})",
            lambda: f'{of("string", depth)}.find("{self.one(*PATTERNS)}")',
            lambda: f"{of('strings', depth)}[{self.one('0', '1', '9')}]",
            lambda: f"({of('bool', depth)} ? {of('string', depth)} : {of('string', depth)})",
            lambda: f"device.attributes{self.domain()}.?{self.one(*NAMES)}.orValue({of('string', depth)})",
            lambda: f"strings.quote({of('string', depth)})",
            lambda: f"{of('strings', depth)}.{self.one('min', 'max')}()",
            lambda: f"{of('map', depth)}[{of('string', depth)}]",
        ]
        return self.dice.choice(choices)()

    def quantity(self, depth: int) -> str:
        named = f"device.capacity{self.domain()}"
        simple = (
            f'quantity("{self.one(*AMOUNTS)}")',
            f"{named}.{self.one('memory', 'slices', 'absent')}",
            f'{named}.?{self.one("memory", "slices", "absent")}.orValue(quantity("0"))',
        )
        if depth <= 0 or self.dice.random() < 0.6:
            return self.one(*simple)
        return f"{self.of('quantity', depth)}.{self.one('add', 'sub')}({self.of(self.one('quantity', 'int'), depth)})"

    def semver(self, depth: int) -> str:
        named = f"device.attributes{self.domain()}"
        return self.dice.choice(
            [
                lambda: f'semver("{self.one(*VERSIONS)}")',
                lambda: f'semver("{self.one(*VERSIONS)}", {self.one("true", "false")})',
                lambda: f'{named}.?driverVersion.orValue(semver("0.0.0"))',
                lambda: f"semver({self.of('string', depth)})" if depth > 0 else f"{named}.driverVersion",
            ]
        )()

    def cidr(self, depth: int) -> str:
        if depth > 0 and self.dice.random() < 0.3:
            return f"{self.of('cidr', depth)}.masked()"
        return f'cidr("{self.one(*NETS)}")'

    def ints(self, depth: int) -> str:
        simple = ("[1, 2, 3]", "[]", "[3, 1, 2]", "lists.range(4)", "[9223372036854775807, 1]")
        if depth <= 0:
            return self.one(*simple)
        of = self.of
        choices: list[Callable[[], str]] = [
            lambda: self.one(*simple),
            lambda: f"[{of('int', depth)}, {of('int', depth)}]",
            lambda: f"({of('ints', depth)} + {of('ints', depth)})",
            lambda: f"{of('ints', depth)}.map(i, {self.scope('i', 'int', 'int', depth)})",
            lambda: f"{of('ints', depth)}.filter(i, {self.scope('i', 'int', 'bool', depth)})",
            lambda: f"{of('ints', depth)}.map(i, {self.scope('i', 'int', 'bool', depth)}, i * 2)",
            lambda: f"{of('ints', depth)}.{self.one('sort', 'reverse', 'distinct')}()",
            lambda: f"{of('ints', depth)}.sortBy(i, {self.scope('i', 'int', 'int', depth)})",
            lambda: f"{of('ints', depth)}.slice({self.one('0', '1')}, {self.one('1', '2', '9')})",
            lambda: f"{of('ints', depth)}.transformList(i, v, {self.scope('v', 'int', 'int', depth)})",
            lambda: "[[1, 2], [3]].flatten()",
            lambda: f"[1, ?{of('optional', depth)}]",
        ]
        return self.dice.choice(choices)()

    def strings(self, depth: int) -> str:
        simple = ('["a", "b"]', "[]", '["NVIDIA L4", "NVIDIA L40S", "Hopper"]', '["gpu.nvidia.com"]')
        if depth <= 0:
            return self.one(*simple)
        of = self.of
        choices: list[Callable[[], str]] = [
            lambda: self.one(*simple),
            lambda: f"[{of('string', depth)}, {of(self.one('string', 'any'), depth)}]",
            lambda: f"{of('string', depth)}.split({self.one(self.text(), '"."', '""')})",
            lambda: f'{of("string", depth)}.split(".", {self.one("0", "1", "2", "-1")})',
            lambda: f'{of("string", depth)}.findAll("{self.one(*PATTERNS)}"{self.one("", ", 2")})',
            lambda: f"{of('strings', depth)}.map(s, {self.scope('s', 'string', 'string', depth)})",
            lambda: f"{of('strings', depth)}.filter(s, {self.scope('s', 'string', 'bool', depth)})",
            lambda: f"{of('strings', depth)}.{self.one('sort', 'distinct', 'reverse')}()",
            lambda: f"device.attributes{self.domain()}.map(k, k).sort()",
            lambda: f"{of('map', depth)}.transformList(k, v, k).sort()",
        ]
        return self.dice.choice(choices)()

    def optional(self, depth: int) -> str:
        named = f"device.attributes{self.domain()}.?{self.one(*NAMES)}"
        if depth <= 0:
            return self.one("optional.none()", "optional.of(1)", named)
        of = self.of
        return self.dice.choice(
            [
                lambda: named,
                lambda: f"optional.of({of(self.one('int', 'any', 'string'), depth)})",
                lambda: f"optional.ofNonZeroValue({of(self.one('int', 'any', 'string'), depth)})",
                lambda: (
                    f"{named}.optMap(o, {self.scope('o', 'any', self.one('string', 'int', 'bool'), depth)})"
                ),
                lambda: f"{named}.optFlatMap(o, {self.scope('o', 'any', 'optional', depth)})",
                lambda: f"{of('optional', depth)}.or({of('optional', depth)})",
                lambda: f"{of('ints', depth)}[?{of('int', depth)}]",
                lambda: f"{of(self.one('ints', 'strings'), depth)}.{self.one('first', 'last')}()",
                lambda: f'{of("map", depth)}[?"a"]',
                lambda: f'device.attributes[?"{self.one(*DOMAINS)}"].?{self.one(*NAMES)}',
                lambda: f"device.capacity{self.domain()}.?memory",
            ]
        )()

    def map(self, depth: int) -> str:
        if depth <= 0:
            return self.one("{}", '{"a": "b"}', '{"a": 1, "b": 2}')
        of = self.of
        return self.dice.choice(
            [
                lambda: '{"a": "x", "b": "y"}',
                lambda: f"device.attributes{self.domain()}",
                lambda: f'{{"a": {of("string", depth)}, ?"b": {of("optional", depth)}}}',
                lambda: (
                    f'{{"a": "b", "c": "d"}}.transformMap(k, v, {self.scope("v", "string", "string", depth)})'
                ),
                lambda: '{"a": "b"}.transformMapEntry(k, v, {v: k})',
                lambda: (
                    f"device.attributes{self.domain()}.transformMap(k, v, k.size() > 5, {self.scope('v', 'any', 'any', depth)})"
                ),
            ]
        )()
