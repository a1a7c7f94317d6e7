"""The order in which people write the keys of a specification; a database keeps none."""

from __future__ import annotations

from typing import Any

# What is not named here follows by name.
READING_ORDER = (
    *("apiVersion", "kind", "name", "requests", "constraints", "config", "exactly", "firstAvailable"),
    *("deviceClassName", "allocationMode", "count", "adminAccess", "selectors", "tolerations", "capacity"),
    *("driver", "parameters", "key", "operator", "value", "effect", "strategy"),
)
RANKS = {key: (rank, "") for rank, key in enumerate(READING_ORDER)}


def in_reading_order(part: Any) -> Any:
    """Return a part of a specification, a whole one for instance, with its keys in that order."""
    if isinstance(part, dict):
        keys = sorted(part, key=lambda key: RANKS.get(key, (len(RANKS), key)))
        return {key: in_reading_order(part[key]) for key in keys}
    return [in_reading_order(one) for one in part] if isinstance(part, list) else part
