"""Quota: the counting rules of Kubernetes' ResourceQuota evaluator."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.objects import MAX_RESULTS
from dra.quota import charge, devices, keys
from tests.dra.clusters import ask, device_class, exactly, spec

GPU, MIG = "gpu.nvidia.com", "mig.nvidia.com"


@pytest.mark.parametrize(
    ("name", "charged", "held"),
    [
        ("gpu-40g", {GPU: 1}, 1),
        ("two-gpus-same-pcie-root", {GPU: 2}, 2),
        ("mig-3g40-1g10", {MIG: 2}, 2),
        ("h100-a100-2xl40s", {GPU: 2}, 2),
        ("shared-gpu", {GPU: 1}, 1),
        ("gpu-admin", {GPU: 32}, 32),
        ("ten-gig-share", {GPU: 1}, 1),
    ],
)
def test_the_examples_cost_what_a_cluster_charges(specs, name, charged, held):
    assert charge(specs[name]) == charged
    assert devices(specs[name]) == held


def first_available(*asks, name="gpu"):
    return {"name": name, "firstAvailable": [{"name": f"a{place}", **one} for place, one in enumerate(asks)]}


def test_every_class_among_alternatives_is_charged_with_its_dearest():
    claim_spec = spec(first_available(ask(1), ask(2), ask(1, class_name=MIG)))
    assert charge(claim_spec) == {GPU: 2, MIG: 1}
    assert devices(claim_spec) == 2


def test_several_requests_add_up():
    assert charge(spec(exactly(3), exactly(2, name="more"), exactly(1, name="part", class_name=MIG))) == {
        GPU: 5,
        MIG: 1,
    }


def test_a_count_of_nothing_is_one():
    assert charge(spec({"name": "gpu", "exactly": {"deviceClassName": GPU}})) == {GPU: 1}
    assert charge(spec(exactly(0))) == {GPU: 1}


def test_a_mode_that_nobody_knows_costs_nothing():
    assert charge(spec(exactly(4, allocationMode="Some"))) == {GPU: 0}


def test_a_class_counts_under_the_names_that_pods_may_ask_by_too():
    named, plain = device_class(GPU), device_class(MIG)
    named["spec"]["extendedResourceName"] = "nvidia.com/gpu"
    claim_spec = spec(exactly(2), exactly(1, name="part", class_name=MIG))
    assert keys(claim_spec, [named, plain]) == {
        "count/resourceclaims.resource.k8s.io": 1,
        "gpu.nvidia.com.deviceclass.resource.k8s.io/devices": 2,
        "requests.deviceclass.resource.kubernetes.io/gpu.nvidia.com": 2,
        "requests.nvidia.com/gpu": 2,
        "mig.nvidia.com.deviceclass.resource.k8s.io/devices": 1,
        "requests.deviceclass.resource.kubernetes.io/mig.nvidia.com": 1,
    }


def test_no_request_costs_nothing():
    assert charge({}) == {}
    assert devices(spec()) == 0


asks = st.builds(
    lambda count, mode, name: ask(count, class_name=name, allocationMode=mode),
    st.integers(1, 8),
    st.sampled_from(["ExactCount", "ExactCount", "All"]),
    st.sampled_from([GPU, MIG, "other"]),
)
requests = st.one_of(
    asks.map(lambda one: {"name": "r", "exactly": one}),
    st.lists(asks, min_size=1, max_size=4).map(lambda many: first_available(*many)),
)


@given(st.lists(requests, max_size=5), st.lists(requests, max_size=5))
def test_two_claims_cost_what_one_with_all_their_requests_costs(one, other):
    together = charge(spec(*one, *other))
    apart = [charge(spec(*one)), charge(spec(*other))]
    assert together == {
        name: sum(part.get(name, 0) for part in apart) for name in sorted({*apart[0], *apart[1]})
    }


@given(st.lists(requests, max_size=5))
def test_a_claim_never_holds_more_than_it_is_charged_with(wished):
    assert 0 <= devices(spec(*wished)) <= sum(charge(spec(*wished)).values())


@given(st.lists(asks, min_size=1, max_size=4))
def test_alternatives_cost_at_least_what_any_of_them_costs(many):
    charged = charge(spec(first_available(*many)))
    for one in many:
        cost = MAX_RESULTS if one["allocationMode"] == "All" else one["count"]
        assert charged[one["deviceClassName"]] >= cost


def test_all_devices_are_charged_as_the_most_that_a_claim_can_hold():
    claim_spec = spec(
        exactly(None, allocationMode="All"), first_available(ask(3), ask(1, allocationMode="All"))
    )
    assert (charge(claim_spec), devices(claim_spec)) == ({GPU: 64}, 64)


def test_alternatives_of_several_classes_hold_the_most_of_one_and_are_charged_for_each():
    claim_spec = spec(
        first_available(ask(5), ask(7, class_name=MIG), ask(2, class_name=MIG), name="a"), exactly(2)
    )
    assert (charge(claim_spec), devices(claim_spec)) == ({GPU: 7, MIG: 7}, 9)


def test_classes_are_charged_in_the_order_of_their_names():
    claim_spec = spec(exactly(1, class_name="z"), exactly(1, class_name="a"), exactly(1, class_name="m"))
    assert list(charge(claim_spec)) == ["a", "m", "z"]


def test_a_class_that_the_cluster_does_not_have_is_counted_too():
    assert keys(spec(exactly(3, class_name="gone")), [{"metadata": {"name": "bare"}}]) == {
        "count/resourceclaims.resource.k8s.io": 1,
        "gone.deviceclass.resource.k8s.io/devices": 3,
        "requests.deviceclass.resource.kubernetes.io/gone": 3,
    }
