"""Which names the devices of a cluster publish, and which of them somebody may have meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches

from dra.facts import Malformed, Ref, qualified, value
from dra.pools import PoolDevice
from dra.quantity import Quantity
from dra.semver import Version

PARTS = ("attributes", "capacity")
KINDS: dict[type, str] = {bool: "bool", int: "int", str: "string", Version: "version", Quantity: "quantity"}


class Published:
    """How many devices publish each name, by its full spelling."""

    def __init__(self, devices: Iterable[PoolDevice]) -> None:
        looks: Counter[tuple[str, tuple[str, ...], tuple[str, ...]]] = Counter(
            (one.driver, tuple(one.raw.get("attributes") or ()), tuple(one.raw.get("capacity") or ()))
            for one in devices
        )
        self.names: Counter[Ref] = Counter()
        for (driver, attributes, capacities), times in looks.items():
            for part, listed in zip(PARTS, (attributes, capacities), strict=True):
                for name in listed:
                    self.names[(part, *qualified(driver, name))] += times

    def has(self, ref: Ref) -> bool:
        return ref in self.names

    def closest(self, ref: Ref) -> Ref | None:
        """
        Return the name that was probably meant: a close one of the same domain, the same name elsewhere, or
        a close one anywhere. A capacity is only a capacity, save for a name that is spelled the same.
        """
        part, domain, name = ref
        other = "capacity" if part == "attributes" else "attributes"
        if (other, domain, name) in self.names:
            return (other, domain, name)
        of_part = [one for one in self.names if one[0] == part]
        here = {one[2].lower(): one for one in of_part if one[1] == domain}
        there = {one[1]: one for one in of_part if one[2] == name}
        elsewhere = {one[2].lower(): one for one in of_part if one[1] != domain}
        for wanted, known, cutoff in (
            (name.lower(), here, 0.7),
            (domain, there, 0.5),
            (name.lower(), elsewhere, 0.8),
        ):
            if close := get_close_matches(wanted, list(known), n=1, cutoff=cutoff):
                return known[close[0]]
        return None


def kinds_of(ref: Ref, devices: Iterable[PoolDevice]) -> Counter[str]:
    """Return how many of the devices publish a name as string, int, bool, version, list or quantity."""
    found: Counter[str] = Counter()
    for device in devices:
        try:
            seen = value(device, ref)
        except Malformed:
            continue
        if seen is not None:
            found[KINDS.get(type(seen), "list")] += 1
    return found


def spelled(ref: Ref) -> str:
    """Return "attribute gpu.nvidia.com/profile"."""
    return f"{'attribute' if ref[0] == 'attributes' else 'capacity'} {ref[1]}/{ref[2]}"
