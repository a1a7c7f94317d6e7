"""Random devices to try selectors on."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.oracle.cel_words import DRIVER, TEXTS


def device(dice: random.Random) -> dict:
    """Return a device as a slice has it, with its driver."""
    values: dict[str, Callable[[], dict]] = {
        "productName": lambda: {"string": dice.choice(TEXTS)},
        "architecture": lambda: {"string": dice.choice(("Hopper", "Ampere", "Ada Lovelace"))},
        "count": lambda: {"int": dice.choice((0, 1, 8, -5, 2**63 - 1))},
        "healthy": lambda: {"bool": dice.random() < 0.5},
        "driverVersion": lambda: {"version": dice.choice(("570.86.15", "9.0.0", "1.2.3-rc.1", "9.0.0+x"))},
        "uuid": lambda: {"string": f"GPU-{dice.randrange(10**6):06}"},
        "memory": lambda: {"string": "80Gi"},
    }
    attributes = {}
    for name, value in values.items():
        if dice.random() < 0.7:
            prefix = dice.choice(("", "", "", f"{DRIVER}/", "resource.kubernetes.io/", "example/"))
            attributes[prefix + name] = value()
    if dice.random() < 0.2:  # a value of another type than its name lets expect
        attributes = {name: its for name, its in attributes.items() if not name.endswith("count")}
        attributes["count"] = {"string": "8"}
    capacity = {
        dice.choice(("", f"{DRIVER}/")) + name: {"value": dice.choice(("81559Mi", "40Gi", "1", "1500m", "7"))}
        for name in ("memory", "slices")
        if dice.random() < 0.7
    }
    made: dict = {
        "driver": dice.choice((DRIVER, DRIVER, "gpu.amd.com")),
        "attributes": attributes,
        "capacity": capacity,
    }
    if dice.random() < 0.3:
        made["allowMultipleAllocations"] = dice.random() < 0.7
    return made
