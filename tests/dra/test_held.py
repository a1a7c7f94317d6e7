"""What claims have taken is counted, and given back whole."""

from typing import Any

from dra.held import HeldDevices, held_devices, holdings
from dra.quantity import Quantity
from tests.dra.clusters import NVIDIA, claim, exactly, spec

KEY, OTHER = (NVIDIA, "node-a", "gpu-0"), (NVIDIA, "node-a", "gpu-1")
ONE, TWO = {"memory": Quantity.parse("1Gi")}, {"memory": Quantity.parse("2Gi"), "slots": Quantity.parse("3")}


def test_shares_add_up_and_are_given_back_one_by_one():
    held = HeldDevices()
    for holder, share in (("a", ONE), ("b", TWO), ("c", ONE)):
        held.hold(KEY, holder, share=share)
    assert (held.sharers[KEY], held.is_held(KEY), held.is_held(OTHER)) == (["a", "b", "c"], True, False)
    assert held.consumed[KEY] == {"memory": Quantity.parse("4Gi"), "slots": Quantity.parse("3")}
    held.release(KEY, "b", share=TWO)
    assert held.sharers[KEY] == ["a", "c"]
    assert held.consumed[KEY] == {"memory": Quantity.parse("2Gi"), "slots": Quantity.parse("0")}
    held.release(KEY, "a", share=ONE)
    held.release(KEY, "c", share=ONE)
    assert (dict(held.sharers), dict(held.consumed), held.is_held(KEY)) == ({}, {}, False)


def test_a_whole_device_has_one_holder_and_two_are_noted():
    held = HeldDevices()
    held.hold(KEY, "a")
    held.hold(OTHER, "a")
    assert (held.holders, held.double_held) == ({KEY: "a", OTHER: "a"}, set())
    held.hold(KEY, "b")
    assert (held.holders[KEY], held.double_held) == ("b", {KEY})
    held.release(OTHER, "a")
    assert OTHER not in held.holders


def test_a_copy_is_changed_without_the_first():
    held = HeldDevices()
    held.hold(KEY, "a", share=ONE)
    held.hold(OTHER, "b")
    copy = held.copy([KEY, OTHER])
    copy.hold(KEY, "c", share=TWO)
    copy.release(OTHER, "b")
    assert (held.sharers[KEY], held.consumed[KEY], held.holders) == (["a"], ONE, {OTHER: "b"})
    assert (copy.sharers[KEY], copy.holders) == (["a", "c"], {})


def test_results_of_a_claim_are_shares_or_whole_and_admin_access_is_neither():
    place = {"driver": NVIDIA, "pool": "node-a"}
    results: list[dict[str, Any]] = [
        {**place, "device": "gpu-0", "shareID": "x", "consumedCapacity": {"memory": "1Gi", "bad": "many"}},
        {**place, "device": "gpu-1", "consumedCapacity": {"memory": "1Gi"}},
        {**place, "device": "gpu-2", "adminAccess": True},
        {**place, "device": "gpu-3", "adminAccess": False},
        {**place, "device": "gpu-4", "shareID": "y"},
    ]
    one = claim(spec(exactly()), "mine", results)
    keys = [(NVIDIA, "node-a", f"gpu-{number}") for number in (0, 1, 3, 4)]
    assert list(holdings(one)) == [
        (keys[0], "vision/mine", ONE),
        (keys[1], "vision/mine", None),
        (keys[2], "vision/mine", None),
        (keys[3], "vision/mine", {}),
    ]
    held = held_devices([one, {}])
    assert held.holders == {keys[1]: "vision/mine", keys[2]: "vision/mine"}
    assert dict(held.sharers) == {keys[0]: ["vision/mine"], keys[3]: ["vision/mine"]}
