"""The allocator: who gets which device, in the order of the scheduler, and what is an error there."""

import pytest

from dra.allocator import AllocationError, SearchGivenUp, allocate
from tests.dra.clusters import (
    NODE,
    NVIDIA,
    PCIE,
    ask,
    claim,
    eight,
    exactly,
    given,
    gpu,
    holds,
    node,
    resource_slice,
    snapshot,
    spec,
)


def test_the_first_free_devices_are_taken():
    assert given(snapshot(eight(), holds("gpu-0", "gpu-2")), spec(exactly(2))) == [["gpu-1", "gpu-3"]]


def test_claims_of_one_pod_get_different_devices():
    assert given(snapshot(eight()), spec(exactly(3)), spec(exactly(2))) == [
        ["gpu-0", "gpu-1", "gpu-2"],
        ["gpu-3", "gpu-4"],
    ]


def test_missing_devices_are_not_allocated():
    assert given(snapshot(eight()), spec(exactly(9))) is None
    assert given(snapshot(eight()), spec(exactly()), on=node("node-b")) is None
    assert given(snapshot(eight()), spec(exactly(1, class_name="mig.nvidia.com"))) is None
    assert given(snapshot([resource_slice(devices=[gpu(0)], slices=2)]), spec(exactly())) is None


@pytest.mark.parametrize(
    "claim_spec",
    [
        spec(exactly(32)),
        spec(exactly(20), exactly(12, name="more")),
        spec(exactly(0, allocationMode="All")),
    ],
)
def test_one_claim_gets_as_many_devices_as_one_can_hold(claim_spec):
    """32; of 33 see below."""
    (names,) = given(snapshot([resource_slice(devices=[gpu(number) for number in range(32)])]), claim_spec)
    assert len(names) == 32


def test_a_selector_narrows_the_choice():
    slices = [resource_slice(devices=[gpu(0), gpu(1, product="NVIDIA L40S")])]
    claim_spec = 'device.attributes["gpu.nvidia.com"].productName == "NVIDIA L40S"'
    assert given(snapshot(slices), spec(exactly(1, claim_spec))) == [["gpu-1"]]


def test_devices_on_one_pcie_root_are_found_by_going_back():
    seen = snapshot(eight(), holds("gpu-0", "gpu-3"))
    assert given(seen, spec(exactly(2), constraints=[PCIE])) == [["gpu-4", "gpu-5"]]
    assert given(seen, spec(exactly(3), constraints=[PCIE])) is None


def test_a_constraint_on_an_attribute_that_nobody_has_is_never_met():
    assert given(snapshot(eight()), spec(exactly(), constraints=[{"matchAttribute": "a.example/b"}])) is None


def test_distinct_values_are_kept_apart():
    claim_spec = spec(exactly(3), constraints=[{"distinctAttribute": PCIE["matchAttribute"]}])
    assert given(snapshot(eight()), claim_spec) == [["gpu-0", "gpu-2", "gpu-4"]]


def test_values_match_by_type_and_as_written():
    one = {"resource.kubernetes.io/pcieRoot": {"int": 1}}
    true = {"resource.kubernetes.io/pcieRoot": {"bool": True}}
    built = {"resource.kubernetes.io/pcieRoot": {"version": "1.0.0+a"}}
    other = {"resource.kubernetes.io/pcieRoot": {"version": "1.0.0+b"}}
    for left, right in ((one, true), (built, other)):
        slices = [resource_slice(devices=[gpu(0, attributes=left), gpu(1, attributes=right)])]
        assert given(snapshot(slices), spec(exactly(2), constraints=[PCIE])) is None
        assert given(snapshot(slices), spec(exactly(), constraints=[PCIE])) == [["gpu-0"]]


def test_a_constraint_may_concern_one_alternative_alone():
    alternatives = [{"name": "many", **ask(9)}, {"name": "pair", **ask(2)}]
    claim_spec = spec(
        {"name": "gpu", "firstAvailable": alternatives},
        constraints=[{"requests": ["gpu/pair"], **PCIE}],
    )
    (result,) = allocate(snapshot(eight(), holds("gpu-0")), NODE, [claim(claim_spec)])
    assert [(one.request.result_name, one.device.name) for one in result.devices] == [
        ("gpu/pair", "gpu-2"),
        ("gpu/pair", "gpu-3"),
    ]


def test_the_first_alternative_that_fits_is_taken():
    def first(*counts):
        return spec(
            {"name": "gpu", "firstAvailable": [{"name": f"n{count}", **ask(count)} for count in counts]}
        )

    assert given(snapshot(eight()), first(9, 3, 1)) == [["gpu-0", "gpu-1", "gpu-2"]]
    assert given(snapshot(eight()), first(40, 2)) == [["gpu-0", "gpu-1"]]


def test_an_earlier_alternative_is_given_up_for_a_later_request():
    claim_spec = spec(
        {"name": "gpu", "firstAvailable": [{"name": "six", **ask(6)}, {"name": "two", **ask(2)}]},
        exactly(4, name="more"),
    )
    assert given(snapshot(eight()), claim_spec) == [["gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5"]]


def test_tainted_devices_are_passed_over_unless_tolerated():
    tainted = gpu(0, taints=[{"key": "k", "effect": "NoSchedule"}])
    slices = [resource_slice(devices=[tainted, gpu(1)])]
    assert given(snapshot(slices), spec(exactly())) == [["gpu-1"]]
    assert given(snapshot(slices), spec(exactly(tolerations=[{"operator": "Exists"}]))) == [["gpu-0"]]
    rule = {
        "metadata": {"name": "drain"},
        "spec": {"deviceSelector": {"device": "gpu-1"}, "taint": {"key": "k", "effect": "NoExecute"}},
    }
    assert given(snapshot(slices, taint_rules=[rule]), spec(exactly())) is None


def test_all_means_all_that_match_or_nothing():
    claim_spec = spec(exactly(0, allocationMode="All"))
    assert given(snapshot(eight()), claim_spec) == [[f"gpu-{number}" for number in range(8)]]
    assert given(snapshot(eight(), holds("gpu-5")), claim_spec) is None
    assert given(snapshot([resource_slice("node-b", [gpu(0)])]), claim_spec) is None


def test_all_of_an_incomplete_pool_is_an_error():
    slices = [*eight(), resource_slice(devices=[gpu(9)], slices=2, pool="late")]
    with pytest.raises(AllocationError, match="1 of 2 slices"):
        given(snapshot(slices), spec(exactly(0, allocationMode="All")))
    assert given(snapshot(slices), spec(exactly())) == [["gpu-0"]]


def test_an_incomplete_pool_of_another_node_does_not_matter():
    slices = [*eight(), resource_slice("node-b", [gpu(9)], slices=2)]
    assert len(given(snapshot(slices), spec(exactly(0, allocationMode="All")))[0]) == 8


def test_admin_access_sees_what_others_hold_but_not_what_is_tainted():
    claim_spec = spec(exactly(0, allocationMode="All", adminAccess=True))
    seen = snapshot(eight(), holds("gpu-1"))
    assert len(given(seen, claim_spec)[0]) == 8
    (result,) = allocate(seen, NODE, [claim(claim_spec)])
    assert all(one["adminAccess"] for one in result.as_dict()["devices"]["results"])
    tainted = [resource_slice(devices=[gpu(0), gpu(1, taints=[{"key": "k", "effect": "NoSchedule"}])])]
    assert given(snapshot(tainted), claim_spec) is None


def test_admin_access_of_others_holds_nothing():
    assert given(snapshot(eight(), holds("gpu-0", adminAccess=True)), spec(exactly())) == [["gpu-0"]]


@pytest.mark.parametrize(
    ("claim_spec", "said"),
    [
        (spec(exactly(33)), "33 devices"),
        (spec(exactly(20), exactly(13, name="more")), "13 devices in addition to 20"),
        (spec(exactly(1, class_name="nobody")), "class nobody does not exist"),
        (spec(exactly(1, 'device.attributes["gpu.nvidia.com"].nope == 1')), "nope"),
        (spec(exactly(1, "device.name == 'x'")), r"device\.name"),
        (spec({"name": "gpu"}), "neither exactly nor firstAvailable"),
        (spec(exactly(), constraints=[{"requests": ["gpu"]}]), "no attribute"),
        (spec(exactly(1, capacity={"requests": {"memory": "-1"}})), "negative"),
        (spec(exactly(1, capacity={"requests": {"memory": "lots"}})), "lots"),
        (spec(exactly(0, allocationMode="All"), constraints=[PCIE]), "constraint"),
    ],
)
def test_impossible_claim_is_an_error(claim_spec, said):
    with pytest.raises(AllocationError, match=said):
        given(snapshot(eight()), claim_spec)


def test_a_selector_that_fails_behind_the_first_fit_is_never_asked():
    odd = gpu(1)
    del odd["attributes"]["productName"]
    seen = snapshot([resource_slice(devices=[gpu(0), odd])])
    claim_spec = 'device.attributes["gpu.nvidia.com"].productName != ""'
    assert given(seen, spec(exactly(1, claim_spec))) == [["gpu-0"]]
    with pytest.raises(AllocationError, match="gpu-1"):
        given(seen, spec(exactly(2, claim_spec)))


def test_too_many_devices_during_the_search_end_a_first_claim_with_an_error():
    slices = [resource_slice(devices=[gpu(number) for number in range(40)])]
    every = spec(exactly(0, allocationMode="All"))
    with pytest.raises(AllocationError, match="40 devices"):
        given(snapshot(slices), every)


def test_one_missing_device_does_not_take_for_ever():
    slices = [resource_slice(devices=[gpu(number) for number in range(24)])]
    assert given(snapshot(slices), spec(exactly(25))) is None


def test_a_search_without_end_is_given_up():
    devices = [gpu(number, attributes={"a": {"int": number % 7}}) for number in range(60)]
    claim_spec = spec(exactly(8), constraints=[{"distinctAttribute": f"{NVIDIA}/a"}])
    with pytest.raises(SearchGivenUp, match="50000"):
        given(snapshot([resource_slice(devices=devices)]), claim_spec)
