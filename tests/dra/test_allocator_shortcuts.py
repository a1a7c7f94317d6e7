"""The search finds what upstream finds, first fit, without trying devices that look alike one by one."""

import pytest

from dra.allocator import AllocationError, allocate
from dra.allocator.node import NodeSite
from dra.allocator.plan import plan_claim
from dra.allocator.search import NodeSearch
from tests.dra.clusters import NODE, PCIE, ask, claim, exactly, given, gpu, resource_slice, snapshot, spec


def many(number, **more):
    return [resource_slice(devices=[gpu(at, **more) for at in range(number)])]


def steps(seen, *claim_specs):
    site = NodeSite(seen, NODE)
    plans = [
        plan_claim(site, claim(claim_spec, f"c{at}"), literal=False)
        for at, claim_spec in enumerate(claim_specs)
    ]
    search = NodeSearch(site, plans)
    return search.run(), search.steps


def test_one_device_too_few_is_found_out_at_once():
    seen = snapshot(many(24))
    fits, tried = steps(seen, spec(exactly(12)), spec(exactly(13)))
    assert not fits
    assert tried < 1000


def test_devices_that_look_alike_are_tried_once():
    claim_specs = [spec(exactly(4), exactly(1, "device.driver == 'x'", name="none")) for _ in range(3)]
    fits, tried = steps(snapshot(many(24)), *claim_specs)
    assert not fits
    assert tried < 100


def test_devices_that_differ_in_what_is_asked_for_are_all_tried():
    devices = [gpu(at, product="A" if at < 6 else "B") for at in range(8)]
    pick = "device.attributes['gpu.nvidia.com'].productName == 'B'"
    claim_spec = spec(exactly(2), exactly(1, pick, name="b"), constraints=[PCIE])
    assert given(snapshot([resource_slice(devices=devices)]), claim_spec) is None
    same = {"matchAttribute": "gpu.nvidia.com/productName"}
    claim_spec = spec(exactly(1), exactly(1, pick, name="b"), constraints=[same])
    assert given(snapshot([resource_slice(devices=devices)]), claim_spec) == [["gpu-6", "gpu-7"]]


def test_alternatives_that_would_be_too_many_leave_nothing_taken():
    offered = {"name": "a", "firstAvailable": [ask(20) | {"name": "many"}, ask(10) | {"name": "few"}]}
    claim_spec = spec(offered, exactly(15, name="b"))
    (names,) = given(snapshot(many(26)), claim_spec)
    assert names == [f"gpu-{at}" for at in range(25)]


def test_an_error_of_a_selector_is_not_skipped_with_devices_that_are():
    fails = "device.attributes['gpu.nvidia.com'].slow"
    devices = [gpu(at) for at in range(3)]
    devices[0]["attributes"]["slow"] = {"bool": False}
    devices[1]["attributes"]["slow"] = {"bool": False}
    with pytest.raises(AllocationError, match="gpu-2"):
        allocate(snapshot([resource_slice(devices=devices)]), NODE, [claim(spec(exactly(1, fails)))])


def test_tolerations_are_those_of_the_first_request_of_a_name():
    tolerant = exactly(tolerations=[{"operator": "Exists"}])
    (result,) = allocate(snapshot(many(2)), NODE, [claim(spec(tolerant, exactly()))])
    written = result.as_dict()["devices"]["results"]
    assert [one["tolerations"] for one in written] == [[{"operator": "Exists"}]] * 2
