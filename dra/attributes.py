"""
Attributes and capacities of a device, as selectors and constraints read them; semantic versions.

A slice writes names in the driver's own domain without a domain; CEL reads them under the driver's name.
Versions follow Semantic Versioning 2.0 as Kubernetes' CEL library reads it (apiserver
`pkg/cel/library/semverlib.go`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache, total_ordering
from typing import Any, Protocol, Self

from dra.objects import Json
from dra.quantity import Quantity, QuantityError

NUMBER = r"(0|[1-9][0-9]*)"
SYNTAX = re.compile(rf"{NUMBER}\.{NUMBER}\.{NUMBER}(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?", re.ASCII)
LOOSE = re.compile(r"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?([-+].*)?", re.ASCII)
LIMIT = 2**64  # upstream stores each part in 64 bits


class VersionError(ValueError):
    """The text is not a semantic version; the message is a sentence."""


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A version. Order and equality ignore build metadata (SemVer §10)."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()
    build: str = ""

    @classmethod
    def parse(cls, text: str, normalize: bool = False) -> Self:  # noqa: FBT001, FBT002 - CEL passes it by place
        """
        Read `text`; with `normalize` also "v1.2", which becomes 1.2.0, and leading zeros.

        Raise `VersionError` if it is not a version.
        """
        match = SYNTAX.fullmatch(_normalized(text) if normalize else text)
        if match is None:
            raise VersionError(f"“{text}” is not a semantic version such as 9.0.0.")
        major, minor, patch = (int(part) if len(part) <= 20 else LIMIT for part in match.groups()[:3])
        prerelease = tuple(match[4].split(".")) if match[4] else ()
        builds = match[5].split(".") if match[5] else []
        if max(major, minor, patch) >= LIMIT or not all(map(_identifier, prerelease)) or not all(builds):
            raise VersionError(f"“{text}” is not a semantic version such as 9.0.0.")
        return cls(major, minor, patch, prerelease, match[5] or "")

    @property
    def _order(self) -> tuple[object, ...]:
        # Numbers sort below words, and a release above each of its prereleases (SemVer §11).
        # Without leading zeros, the longer number is larger; numbers of equal length compare as text.
        parts = tuple((0, len(part), part) if part.isdigit() else (1, 0, part) for part in self.prerelease)
        return (self.major, self.minor, self.patch, not self.prerelease, parts)

    def __eq__(self, other: object) -> bool:
        return self._order == other._order if isinstance(other, Version) else NotImplemented

    def __lt__(self, other: Version) -> bool:
        return self._order < other._order

    def __hash__(self) -> int:
        return hash(self._order)

    def __str__(self) -> str:
        tail = f"-{'.'.join(self.prerelease)}" if self.prerelease else ""
        return f"{self.major}.{self.minor}.{self.patch}{tail}" + (f"+{self.build}" if self.build else "")


def _identifier(part: str) -> bool:
    return bool(part) and not (part.isdigit() and len(part) > 1 and part[0] == "0")


def _normalized(text: str) -> str:
    match = LOOSE.fullmatch(text)
    if match is None:
        return text
    numbers = ".".join((part or "0").lstrip("0") or "0" for part in match.groups()[:3])
    return numbers + (match[4] or "")


type Ref = tuple[str, str, str]  # ("attributes" | "capacity", domain, name)


class Malformed(ValueError):
    """A device publishes an invalid quantity, version or attribute; the message is a sentence."""


class Selectable(Protocol):
    """A device as selectors read it: its driver, and its entry in `spec.devices` of a ResourceSlice."""

    @property
    def driver(self) -> str: ...
    @property
    def raw(self) -> Json: ...


def qualified(driver: str, name: str) -> tuple[str, str]:
    """Split a name into (domain, identifier); without a domain it belongs to the driver."""
    domain, slash, bare = name.rpartition("/")
    return (domain, bare) if slash else (driver, name)


def lookup(entries: Json, driver: str, domain: str, name: str) -> Any:
    """Return the entry of a qualified name, or None. The name with a domain wins if a device has both."""
    qualified_entry = entries.get(f"{domain}/{name}")
    return entries.get(name) if qualified_entry is None and domain == driver else qualified_entry


@lru_cache(maxsize=1024)
def _version(text: str) -> Version:
    """A fleet has thousands of devices and few versions of drivers."""
    return Version.parse(text)


def attribute(raw: Json) -> Any:
    """
    Return the value of a DeviceAttribute: str, int, bool or `Version`, or a list of these.

    Raise `Malformed` if it has no value of a known type.
    """
    for kind in ("string", "int", "bool", "strings", "ints", "bools"):
        if raw.get(kind) is not None:
            return raw[kind]
    try:
        if raw.get("version") is not None:
            return _version(str(raw["version"]))
        if raw.get("versions") is not None:
            return [_version(str(version)) for version in raw["versions"]]
    except VersionError as error:
        raise Malformed(str(error)) from error
    raise Malformed(f"The attribute {dict(raw)} has no value.")


def capacity(raw: Json) -> Quantity:
    """Return the value of a DeviceCapacity. Raise `Malformed` if it is not a quantity."""
    try:
        return Quantity.parse(raw.get("value", "0"))
    except QuantityError as error:
        raise Malformed(str(error)) from error


def entries(device: Selectable, part: str) -> list[tuple[str, str, Any]]:
    """Return (domain, name, value) of all attributes, or of all capacities."""
    read = attribute if part == "attributes" else capacity
    listed: Json = device.raw.get(part) or {}
    return [(*qualified(device.driver, name), read(value)) for name, value in listed.items()]


def value(device: Selectable, ref: Ref) -> Any:
    """Return the value that the device publishes under a name, or None."""
    part, domain, name = ref
    raw = lookup(device.raw.get(part) or {}, device.driver, domain, name)
    if raw is None:
        return None
    return attribute(raw) if part == "attributes" else capacity(raw)


def exact_value(device: Selectable, attribute: str) -> tuple[str, str] | None:
    """
    Return (type, value) of a fully qualified attribute, as constraints compare it, or None.

    1 and true differ, and so do versions that differ in build metadata only.
    """
    domain, _, name = attribute.partition("/")
    raw = lookup(device.raw.get("attributes") or {}, device.driver, domain, name)
    if not raw:
        return None
    ((kind, raw_value), *_) = raw.items()
    return (kind, repr(raw_value))


def exact_capacity(raw: Json, name: str) -> Quantity | None:
    """
    Return a capacity by the exact key of the slice, as requests name it: `memory` is not `driver/memory`.
    """
    entry = (raw.get("capacity") or {}).get(name)
    try:
        return None if entry is None else capacity(entry)
    except Malformed:
        return None
