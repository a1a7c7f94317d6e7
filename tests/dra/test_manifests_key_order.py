"""Keys of a specification in the order in which people write them."""

import json

from claims.catalogue.presets import presets
from dra.manifests import in_key_order


def shuffled(part):
    """Order keys as the database does: the shortest first."""
    if isinstance(part, dict):
        return {key: shuffled(part[key]) for key in sorted(part, key=lambda key: (len(key), key))}
    return [shuffled(one) for one in part] if isinstance(part, list) else part


def test_the_order_of_the_database_is_undone():
    keys = ("count", "zone", "area", "selectors", "allocationMode", "deviceClassName")
    stored = dict.fromkeys(keys, 1)
    assert list(in_key_order(stored)) == [
        *("deviceClassName", "allocationMode", "count", "selectors", "area", "zone")
    ]


def test_every_preset_reads_the_same_however_it_was_stored():
    for entry in presets():
        ordered = in_key_order(shuffled(entry.spec))
        assert ordered == entry.spec
        assert json.dumps(ordered) == json.dumps(in_key_order(entry.spec))
