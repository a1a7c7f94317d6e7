"""Attributes and capacities of a device as rows for people: name, value, and the value in plain units."""

from typing import Any, NamedTuple

from dra.quantity import Quantity, QuantityError


class Fact(NamedTuple):
    name: str
    value: str
    plain: str = ""  # the same in units that people use


def attribute_rows(driver: str, attributes: dict[str, Any]) -> list[Fact]:
    """Names of the driver's own domain are shown without it, as drivers write them."""
    return [
        Fact(short(driver, name), ", ".join(map(spelled, values_of(value))))
        for name, value in sorted(attributes.items())
    ]


def capacity_rows(driver: str, capacity: dict[str, Any]) -> list[Fact]:
    rows = []
    for name, entry in sorted(capacity.items()):
        text = str(entry.get("value", "")) if isinstance(entry, dict) else str(entry)
        rows.append(Fact(short(driver, name), text, plain_bytes(text)))
    return rows


def short(driver: str, name: str) -> str:
    return name.removeprefix(f"{driver}/")


def values_of(entry: Any) -> list[Any]:
    """Return the values of one attribute: a union of string, int, bool, version, and lists of them."""
    if not isinstance(entry, dict):
        return [entry]
    return [item for value in entry.values() for item in (value if isinstance(value, list) else [value])]


def spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def plain_bytes(text: str) -> str:
    """Return "79.6 GiB" for a quantity of a gibibyte or more, else nothing: small ones are counts."""
    try:
        amount = Quantity.parse(text).bytes
    except QuantityError:
        return ""
    return f"{amount / 2**30:.1f}".removesuffix(".0") + " GiB" if amount >= 2**30 else ""
