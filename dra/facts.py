"""
What a selector sees of a device.

The slice writes the names of the driver's own domain bare; CEL sees them under the driver's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from dra.quantity import Quantity, QuantityError
from dra.semver import Version, VersionError

type Ref = tuple[str, str, str]  # ("attributes" | "capacity", domain, name)
type Json = Mapping[str, Any]


class Malformed(ValueError):
    """A device publishes something that is no quantity, version or attribute; the message is a sentence."""


class Selectable(Protocol):
    """Something that selectors apply to: a device of a driver, as in `spec.devices` of a ResourceSlice."""

    @property
    def driver(self) -> str: ...
    @property
    def raw(self) -> Json: ...


def qualified(driver: str, name: str) -> tuple[str, str]:
    """Split a name into (domain, identifier); a bare one belongs to the driver."""
    domain, slash, bare = name.rpartition("/")
    return (domain, bare) if slash else (driver, name)


def lookup(entries: Json, driver: str, domain: str, name: str) -> Any:
    """Return the entry of a qualified name, or None. The full spelling wins where a device has both."""
    found = entries.get(f"{domain}/{name}")
    return entries.get(name) if found is None and domain == driver else found


def attribute(raw: Json) -> Any:
    """
    Return the value of a DeviceAttribute: str, int, bool or `Version`, or a list of such.

    Raise `Malformed` if it has no value that this release knows.
    """
    for kind in ("string", "int", "bool", "strings", "ints", "bools"):
        if raw.get(kind) is not None:
            return raw[kind]
    try:
        if raw.get("version") is not None:
            return Version.parse(str(raw["version"]))
        if raw.get("versions") is not None:
            return [Version.parse(str(version)) for version in raw["versions"]]
    except VersionError as error:
        raise Malformed(str(error)) from error
    raise Malformed(f"The attribute {dict(raw)} has no value.")


def capacity(raw: Json) -> Quantity:
    """Return the value of a DeviceCapacity. Raise `Malformed` if it is no quantity."""
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
    """Return what the device publishes under a name, or None."""
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
    ((kind, found), *_) = raw.items()
    return (kind, repr(found))


def capacity_of(raw: Json, name: str) -> Quantity | None:
    """
    Return a capacity by the exact key of the slice, as requests name it: `memory` is not `driver/memory`.
    """
    entry = (raw.get("capacity") or {}).get(name)
    try:
        return None if entry is None else capacity(entry)
    except Malformed:
        return None
