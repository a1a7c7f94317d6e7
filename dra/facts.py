"""
Attributes and capacities of a device, as selectors and constraints read them.

A slice writes names in the driver's own domain without a domain; CEL reads them under the driver's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol

from dra.quantity import Quantity, QuantityError
from dra.semver import Version, VersionError

type Ref = tuple[str, str, str]  # ("attributes" | "capacity", domain, name)
type Json = Mapping[str, Any]


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


def capacity_of(raw: Json, name: str) -> Quantity | None:
    """
    Return a capacity by the exact key of the slice, as requests name it: `memory` is not `driver/memory`.
    """
    entry = (raw.get("capacity") or {}).get(name)
    try:
        return None if entry is None else capacity(entry)
    except Malformed:
        return None
