"""Equal parts of JSON objects are kept once."""

import json

from dra.held import Interner


def device(uuid):
    return json.loads(
        json.dumps({"name": "gpu-0", "attributes": {"model": {"string": "H100"}, "uuid": uuid}})
    )


def test_objects_stay_equal_and_share_their_equal_parts():
    shared = Interner()
    one, other = shared(device("a")), shared(device("b"))
    assert (one, other) == (device("a"), device("b"))
    assert one["attributes"]["model"] is other["attributes"]["model"]
    assert one["name"] is other["name"]
    assert shared(device("a")) is one


def test_a_part_of_other_type_or_order_is_another():
    shared = Interner()
    kept = [shared(json.loads(text)) for text in ("[1]", "[true]", "[1.0]", "{}", "[]", '{"0": 1}', "[[]]")]
    assert [json.dumps(one) for one in kept] == ["[1]", "[true]", "[1.0]", "{}", "[]", '{"0": 1}', "[[]]"]


def test_what_was_seen_once_is_forgotten_and_what_was_seen_twice_is_not():
    shared = Interner()
    twice = [shared({"model": "H100"}), shared({"model": "H100"})][0]
    once = shared({"uuid": "a"})
    shared.drop_singletons()
    assert shared({"model": "H100"}) is twice
    assert shared({"uuid": "a"}) is not once
