"""A device as the variable `device` shows it (dynamic-resource-allocation `cel/compile.go`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dra.cel.amount import Amount, amount, version
from dra.cel.values import Domains, Map, Names
from dra.facts import Json, Malformed, Ref, Selectable, attribute, lookup, qualified
from dra.quantity import QuantityError
from dra.semver import VersionError

MISSING: Any = object()


def _capacity(entry: Json) -> Amount:
    try:
        return amount(str(entry.get("value", "")))
    except QuantityError as error:
        raise Malformed(str(error)) from error


def _attribute(entry: Json) -> Any:
    text = entry.get("version")
    if text is None:
        return attribute(entry)
    try:
        return version(text)
    except VersionError as error:
        raise Malformed(str(error)) from error


READ: dict[str, Callable[[Json], Any]] = {"attributes": _attribute, "capacity": _capacity}


class View:
    """Reads a device piece by piece, as an expression asks. Raise `Malformed` for what is no value."""

    __slots__ = ("_domains", "device")

    def __init__(self, device: Selectable) -> None:
        self.device = device
        self._domains: dict[str, Domains] = {}

    @property
    def driver(self) -> str:
        return self.device.driver

    @property
    def shareable(self) -> bool:
        return self.device.raw.get("allowMultipleAllocations") is True

    def read(self, ref: Ref) -> Any:
        """Return one attribute or capacity, or `MISSING`."""
        part, domain, name = ref
        entry = lookup(self.device.raw.get(part) or {}, self.device.driver, domain, name)
        return MISSING if entry is None else READ[part](entry)

    def domains(self, part: str) -> Domains:
        """Return all attributes or all capacities."""
        known = self._domains.get(part)
        if known is None:
            by_domain: dict[str, dict[str, Any]] = {}
            for full, entry in (self.device.raw.get(part) or {}).items():
                domain, name = qualified(self.device.driver, full)
                by_domain.setdefault(domain, {})[name] = READ[part](entry)
            known = Domains({domain: Names(named) for domain, named in by_domain.items()})
            self._domains[part] = known
        return known

    def whole(self) -> Map:
        """Return the variable itself."""
        return Names(
            {
                "driver": self.driver,
                "allowMultipleAllocations": self.shareable,
                "attributes": self.domains("attributes"),
                "capacity": self.domains("capacity"),
            }
        )
