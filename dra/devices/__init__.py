"""What a device is, in words that do not depend on who made it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dra.devices.vendors import vendor_by_driver
from dra.facts import Malformed, attribute, capacity, lookup, qualified
from dra.objects import Json
from dra.quantity import Quantity, QuantityError


@dataclass(frozen=True, slots=True)
class Description:
    """
    A device as the portal shows it. What is unknown is empty or None, never 0.

    `kind` is gpu, mig, vfio, partition, tpu, gaudi … `fraction` is the part of a whole device for the price;
    `driver_version` is as published, which NVIDIA strips of leading zeros (595.58.03 → 595.58.3).
    """

    product: str
    kind: str
    partition: str
    uuid: str
    parent_uuid: str
    memory_bytes: int | None
    compute_capability: str
    driver_version: str
    fraction: Fraction


def describe(driver: str, raw_device: Json) -> Description:
    """Describe one entry of `spec.devices`. A value that is malformed counts as unknown."""
    vendor = vendor_by_driver(driver)
    attributes: Json = raw_device.get("attributes") or {}

    def text(names: Iterable[str]) -> str:
        return next(
            (str(found) for name in names if (found := _attribute(attributes, driver, name)) is not None), ""
        )

    own = text(["type"])
    product = (
        text(vendor.product)
        or text(("productName", "model", "accelerator"))
        or str(raw_device.get("name") or "")
    )
    partition = text(vendor.partition)
    return Description(
        product=product,
        kind=vendor.kinds.get(own, own) or vendor.kind,
        partition=partition,
        uuid=text(vendor.uuid),
        parent_uuid=text(vendor.parent),
        memory_bytes=_memory(raw_device.get("capacity") or {}, driver, vendor.memory),
        compute_capability=text(vendor.compute_capability),
        driver_version=text(vendor.driver_version),
        fraction=vendor.fraction(partition, product, raw_device) or Fraction(1),
    )


def share(raw_device: Json, consumed: Json) -> Fraction:
    """
    Return the part of a shareable device that `results[].consumedCapacity` takes: the largest over its
    capacities.

    Raise `QuantityError` for a malformed amount. Nothing consumed is the whole device, which nobody else may
    price.
    """
    parts = [Fraction(0)]
    for name, amount in consumed.items():
        whole = _capacity(raw_device.get("capacity") or {}, "", name)
        if whole:
            parts.append(Fraction(Quantity.parse(amount).nano, whole.nano))
    return min(max(parts), Fraction(1)) or Fraction(1)


def _attribute(attributes: Json, driver: str, name: str) -> Any:
    found = lookup(attributes, driver, *qualified(driver, name))
    try:
        return None if found is None else attribute(found)
    except Malformed:
        return None


def _capacity(capacities: Json, driver: str, name: str) -> Quantity | None:
    found = lookup(capacities, driver, *qualified(driver, name))
    try:
        return None if found is None else capacity(found)
    except (Malformed, QuantityError):
        return None


def _memory(capacities: Json, driver: str, names: Iterable[str]) -> int | None:
    amounts = (_capacity(capacities, driver, name) for name in names)
    return next((amount.bytes for amount in amounts if amount and amount.nano > 0), None)
