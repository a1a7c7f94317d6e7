"""The search gives back all that it has taken in vain: constraints, counters, capacity and devices."""

import pytest

from dra.allocator import AllocationError, SearchGivenUp, allocate
from dra.features import Features
from tests.dra.clusters import (
    NODE,
    NVIDIA,
    ask,
    claim,
    device_class,
    exactly,
    given,
    gpu,
    holds,
    node,
    resource_slice,
    snapshot,
    spec,
)
from tests.dra.test_allocator_shortcuts import many, steps


def distinct(name, *requests):
    return {"distinctAttribute": f"{NVIDIA}/{name}"} | ({"requests": list(requests)} if requests else {})


def same(name, *requests):
    return {"matchAttribute": f"{NVIDIA}/{name}"} | ({"requests": list(requests)} if requests else {})


def device(number, *, counter=None, capacity=None, **attributes):
    """A GPU with whole numbers as attributes that takes so much of a counter; one with capacity is shared."""
    more = {}
    if counter is not None:
        takes = {"counterSet": "s", "counters": {"c": {"value": str(counter)}}}
        more["consumesCounters"] = [takes]
    made = gpu(number, attributes={name: {"int": value} for name, value in attributes.items()}, **more)
    if capacity:
        made["allowMultipleAllocations"] = True
        made["capacity"] = {name: {"value": value} for name, value in capacity.items()}
    return made


def site(*devices, counter=None, held=(), **more):
    slices = [resource_slice(devices=list(devices), slices=1 if counter is None else 2, name="devices")]
    if counter is not None:
        sets = [{"name": "s", "counters": {"c": {"value": str(counter)}}}]
        slices.append(resource_slice(slices=2, name="counters", sharedCounters=sets))
    return snapshot(slices, *held, **more)


def part(name="gpu", count=1, **capacity):
    return exactly(count, name=name, capacity={"requests": capacity})


def share(device, name="theirs", **consumed):
    return holds(
        device,
        name=name,
        shareID="0d6b4a8e-0000-4000-8000-000000000001",
        consumedCapacity=consumed,
    )


@pytest.mark.parametrize("third", [{"a": 2, "b": 3}, {"a": 3, "b": 2}])
def test_a_device_that_one_constraint_refuses_is_forgotten_by_those_before_it(third):
    devices = [device(0, a=1, b=1, r=0), device(1, a=2, b=2, r=1), device(2, r=0, **third)]
    claim_spec = spec(exactly(2), constraints=[distinct("a"), distinct("b"), same("r")])
    assert given(site(*devices), claim_spec) == [["gpu-0", "gpu-2"]]


@pytest.mark.parametrize("constraints", [[same("r"), distinct("a")], [distinct("a"), same("r")]])
def test_a_device_that_was_taken_in_vain_is_forgotten_by_every_constraint(constraints):
    devices = [device(0, a=1, r=0), device(1, a=1, r=1), device(2, a=2, r=1)]
    assert given(site(*devices), spec(exactly(2), constraints=constraints)) == [["gpu-1", "gpu-2"]]


def test_a_constraint_of_another_request_does_not_hide_those_behind_it():
    devices = [device(0, r=0), device(1, r=1), device(2, r=0)]
    claim_spec = spec(exactly(2), exactly(name="other"), constraints=[same("r", "other"), same("r", "gpu")])
    assert given(site(*devices), claim_spec) == [["gpu-0", "gpu-2", "gpu-1"]]


def test_counters_of_a_device_that_a_constraint_refuses_are_given_back():
    devices = [device(0, counter=1, r=0), device(1, counter=1, r=1), device(2, counter=1, r=0)]
    claim_spec = spec(exactly(2), constraints=[same("r")])
    assert given(site(*devices, counter=2), claim_spec) == [["gpu-0", "gpu-2"]]


def test_counters_of_a_device_that_was_taken_in_vain_are_given_back():
    devices = [device(0, counter=2, r=0), device(1, counter=1, r=1), device(2, counter=1, r=1)]
    claim_spec = spec(exactly(2), constraints=[same("r")])
    assert given(site(*devices, counter=2), claim_spec) == [["gpu-1", "gpu-2"]]
    assert given(site(*devices, counter=1), claim_spec) is None


def test_the_first_share_of_a_device_takes_its_counters_and_further_ones_take_none():
    devices = device(0, counter=2, capacity={"memory": "40Gi"}), device(1, counter=1)
    little, whole = spec(part(memory="10Gi")), spec(exactly())
    seen = site(*devices, counter=2)
    assert given(seen, little, little) == [["gpu-0"], ["gpu-0"]]
    assert given(seen, little, whole) is None
    partly = site(*devices, counter=2, held=[share("gpu-0", memory="10Gi")])
    assert given(partly, little) == [["gpu-0"]]
    assert given(partly, whole) is None
    assert given(site(*devices, counter=3), little, whole) == [["gpu-0"], ["gpu-1"]]


def test_where_sharing_is_off_a_share_that_is_held_has_its_counters():
    off = Features(partitionable_devices=True, device_binding_and_status=True)
    shared = device(0, counter=2, capacity={"memory": "40Gi"})
    assert given(site(shared, counter=3, features=off), spec(exactly())) == [["gpu-0"]]
    held = [share("gpu-0", memory="10Gi")]
    assert given(site(shared, counter=3, features=off, held=held), spec(exactly())) is None
    assert given(site(shared, counter=4, features=off, held=held), spec(exactly())) == [["gpu-0"]]


def test_a_first_share_that_was_given_back_is_a_first_share_again():
    devices = [
        device(0, counter=1, capacity={"memory": "40Gi"}, a=0),
        device(1, counter=1, capacity={"memory": "80Gi"}, a=1),
    ]
    both = spec(part("a", memory="30Gi"), part("b", memory="20Gi"), constraints=[same("a")])
    assert given(site(*devices, counter=1), both) == [["gpu-1", "gpu-1"]]
    assert given(site(*devices, counter=1), both, spec(part(memory="40Gi"))) is None
    assert given(site(*devices, counter=2), both, spec(part(memory="40Gi"))) == [
        ["gpu-1", "gpu-1"],
        ["gpu-0"],
    ]


def test_shares_of_every_capacity_add_up_and_are_given_back():
    devices = [
        device(0, capacity={"memory": "40Gi", "slots": "4"}, a=0),
        device(1, capacity={"memory": "80Gi", "slots": "8"}, a=1),
    ]
    assert given(site(devices[0]), *[spec(part(memory="1Gi", slots="2"))] * 2) == [["gpu-0"], ["gpu-0"]]
    assert given(site(devices[0]), *[spec(part(memory="1Gi", slots="3"))] * 2) is None
    both = spec(
        part("a", memory="30Gi", slots="3"), part("b", memory="20Gi", slots="2"), constraints=[same("a")]
    )
    all_of_it = spec(part(memory="40Gi", slots="4"))
    assert given(site(*devices), both, all_of_it) == [["gpu-1", "gpu-1"], ["gpu-0"]]
    assert given(site(*devices), both, all_of_it, spec(part(memory="30Gi", slots="3"))) == [
        ["gpu-1", "gpu-1"],
        ["gpu-0"],
        ["gpu-1"],
    ]
    assert given(site(*devices), both, all_of_it, spec(part(memory="30Gi", slots="4"))) is None


def test_shares_of_this_search_add_up_with_those_that_are_held():
    seen = site(device(0, capacity={"memory": "40Gi"}), held=[share("gpu-0", memory="10Gi")])
    assert given(seen, spec(part(memory="10Gi")), spec(part(memory="20Gi"))) == [["gpu-0"], ["gpu-0"]]
    assert given(seen, spec(part(memory="10Gi")), spec(part(memory="21Gi"))) is None


def test_what_a_share_takes_is_looked_at_again_when_more_is_gone():
    def devices(first):
        return device(0, capacity={"memory": first}, a=0), device(1, capacity={"memory": "40Gi"}, a=1)

    def pair(second):
        return spec(part("a", memory="30Gi"), part("b", memory=second), constraints=[same("a")])

    assert given(site(*devices("40Gi")), pair("20Gi")) is None
    assert given(site(*devices("30Gi")), pair("10Gi")) == [["gpu-1", "gpu-1"]]
    both = [device(at, capacity={"memory": "40Gi", "slots": "4"}, a=at) for at in range(2)]
    slots = spec(
        part("a", memory="10Gi", slots="3"), part("b", memory="10Gi", slots="2"), constraints=[same("a")]
    )
    assert given(site(*both), slots) is None


def test_a_device_that_is_shared_already_says_nothing_about_one_that_is_not():
    devices = [device(number, capacity={"memory": "40Gi"}) for number in range(2)]
    claim_specs = [
        part(name, memory=amount) for name, amount in (("b", "10Gi"), ("c", "20Gi"), ("d", "30Gi"))
    ]
    assert given(site(*devices), spec(part("a", memory="20Gi")), spec(*claim_specs)) == [
        ["gpu-0"],
        ["gpu-1", "gpu-0", "gpu-1"],
    ]


def either(*options, name="gpu"):
    named = [{"name": f"o{number}", **option} for number, option in enumerate(options)]
    return {"name": name, "firstAvailable": named}


EVERY = {"allocationMode": "All"}


def test_all_devices_that_have_too_little_left_are_forgotten_by_the_constraints():
    shared = device(0, capacity={"memory": "40Gi"}, a=1, b=1)
    options = (
        ask(0, **EVERY, capacity={"requests": {"memory": "30Gi"}}),
        ask(1, capacity={"requests": {"memory": "10Gi"}}),
    )
    claim_spec = spec(either(*options), constraints=[distinct("a"), distinct("b")])
    (result,) = allocate(site(shared, held=[share("gpu-0", memory="20Gi")]), NODE, [claim(claim_spec)])
    assert [(one.device.name, one.request.alternative) for one in result.devices] == [("gpu-0", "o1")]
    (result,) = allocate(site(shared), NODE, [claim(claim_spec)])
    assert [(one.device.name, one.request.alternative) for one in result.devices] == [("gpu-0", "o0")]


def test_a_broken_constraint_of_all_devices_is_an_error_before_capacity_is_looked_at():
    devices = [device(number, capacity={"memory": "40Gi"}, a=number) for number in range(2)]
    claim_spec = spec(exactly(0, **EVERY, capacity={"requests": {"memory": "20Gi"}}), constraints=[same("a")])
    with pytest.raises(AllocationError, match="gpu-1 does not meet a constraint"):
        given(site(*devices, held=[share("gpu-1", memory="30Gi")]), claim_spec)


def test_all_devices_are_those_that_would_be_large_enough_if_nothing_were_taken():
    devices = [device(0, capacity={"memory": "40Gi"}), device(1, capacity={"memory": "20Gi"})]
    claim_spec = spec(exactly(0, **EVERY, capacity={"requests": {"memory": "30Gi"}}))
    assert given(site(*devices), claim_spec) == [["gpu-0"]]
    assert given(site(*devices, held=[share("gpu-0", memory="20Gi")]), claim_spec) is None


@pytest.mark.parametrize(("first", "taken"), [(17, 17), (18, 10)])
def test_an_alternative_with_which_the_claim_would_be_too_large_is_passed_over(first, taken):
    claim_spec = spec(either(ask(first), ask(10)), exactly(15, name="b"))
    (names,) = given(snapshot(many(40)), claim_spec)
    assert names == [f"gpu-{at}" for at in range(taken + 15)]


def test_other_claims_of_the_pod_do_not_make_a_claim_too_large():
    found = given(snapshot(many(40)), spec(exactly(20)), spec(exactly(20)))
    assert [len(names) for names in found] == [20, 20]


def test_only_the_alternative_that_was_taken_brings_its_configuration():
    def configured(name):
        return device_class(name, config=[{"opaque": {"driver": NVIDIA, "parameters": {"class": name}}}])

    seen = snapshot(many(2), classes=[configured("large"), configured("small")])
    claim_spec = spec(either(ask(3, class_name="large"), ask(1, class_name="small")))
    (result,) = allocate(seen, NODE, [claim(claim_spec)])
    assert result.as_dict()["devices"]["config"] == [
        {"source": "FromClass", "opaque": {"driver": NVIDIA, "parameters": {"class": "small"}}}
    ]


@pytest.mark.parametrize("admin", [False, True])
def test_devices_that_are_just_enough_are_found_after_a_failure(admin):
    """`any` takes gpu-0 first, and `two` needs it."""
    devices = [gpu(0, product="B"), gpu(1, product="A"), gpu(2, product="B")]
    pick = "device.attributes['gpu.nvidia.com'].productName == 'B'"
    more = {"adminAccess": True} if admin else {}
    claim_spec = spec(exactly(name="any", **more), exactly(2, pick, name="two", **more))
    held = [holds("gpu-0")] if admin else []
    assert given(site(*devices, held=held), claim_spec) == [["gpu-1", "gpu-0", "gpu-2"]]


def test_admin_access_shares_a_device_with_other_claims_but_not_within_one():
    admin, plain = spec(exactly(adminAccess=True)), spec(exactly())
    seen = snapshot(many(1))
    assert given(seen, admin, admin) == [["gpu-0"], ["gpu-0"]]
    assert given(seen, plain, admin) == [["gpu-0"], ["gpu-0"]]
    assert given(seen, admin, plain) is None
    assert given(seen, plain, plain) is None
    twice = spec(exactly(adminAccess=True), exactly(name="again", adminAccess=True))
    assert given(seen, twice) is None
    assert given(snapshot(many(2)), twice) == [["gpu-0", "gpu-1"]]


def test_operations_are_not_left_out_where_that_is_off():
    slices = [resource_slice(devices=[gpu(0)], skipNodeOperations=["NodePrepareResources"])]
    able = node() | {"status": {"declaredFeatures": ["DRAOptionalNodeOperations"]}}
    off = Features(list_type_attributes=True)
    assert given(snapshot(slices, features=off), spec(exactly()), on=able) is None


def test_a_search_of_just_as_many_steps_as_are_allowed_is_not_given_up():
    seen, claims = snapshot(many(8)), [claim(spec(exactly(8)))]
    assert allocate(seen, NODE, claims, steps=8) is not None
    with pytest.raises(SearchGivenUp, match="after 7 devices"):
        allocate(seen, NODE, claims, steps=7)


def test_more_claims_than_a_search_can_try_are_said_to_be_too_many():
    with pytest.raises(SearchGivenUp, match="cannot allocate so many claims"):
        given(snapshot(many(600)), *[spec(exactly())] * 600)


LATE = "device.attributes['gpu.nvidia.com'].uuid > 'GPU-0001'"
EARLY = "device.attributes['gpu.nvidia.com'].uuid < 'GPU-0010'"
TAINT = {"key": "k", "effect": "NoSchedule"}
HALF_TAINTED = [gpu(at, **({"taints": [TAINT]} if at > 9 else {})) for at in range(20)]
DIFFERS = "device.attributes['gpu.nvidia.com'].uuid != ''"


@pytest.mark.parametrize(
    ("seen", "claim_specs", "tried"),
    [
        (snapshot(many(12)), [spec(exactly(13))], 12),
        (snapshot(many(12)), [spec(exactly(13, DIFFERS))], 12),
        (snapshot(many(12), holds("gpu-3")), [spec(exactly(12, DIFFERS))], 11),
        (snapshot(many(12)), [spec(exactly(11, f"{DIFFERS} && {LATE}"))], 10),
        (snapshot(many(20)), [spec(exactly(11, f"{DIFFERS} && {EARLY}"))], 10),
        (snapshot([resource_slice(devices=HALF_TAINTED)]), [spec(exactly(11, DIFFERS))], 20),
    ],
)
def test_a_search_in_vain_ends_as_soon_as_too_few_devices_are_left(seen, claim_specs, tried):
    assert steps(seen, *claim_specs) == (False, tried)
