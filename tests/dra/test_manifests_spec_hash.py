"""The hash of a spec: equal for what the API server stores alike, different for anything else."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.manifests import canonical, spec_hash
from tests.dra.clusters import ask, exactly, spec

BARE = spec({"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}})


def test_defaults_are_filled_in():
    assert canonical(BARE)["devices"]["requests"][0]["exactly"] == {
        "allocationMode": "ExactCount",
        "count": 1,
        "deviceClassName": "gpu.nvidia.com",
    }


@pytest.mark.parametrize(
    "same",
    [
        spec(exactly(1)),
        spec(exactly(0)),
        spec(exactly(1, allocationMode="ExactCount")),
        spec(exactly(1, adminAccess=False)),
        spec(exactly(1, selectors=[], tolerations=[], capacity=None)),
        spec(exactly(1), constraints=[], config=None),
        {"devices": {"config": [], "requests": [{"exactly": ask(1), "name": "gpu"}]}},
    ],
)
def test_what_means_the_same_hashes_the_same(same):
    assert spec_hash(same) == spec_hash(BARE)


@pytest.mark.parametrize(
    "other",
    [
        spec(exactly(2)),
        spec(exactly(1, name="gpus")),
        spec(exactly(0, allocationMode="All")),
        spec(exactly(1, adminAccess=True)),
        spec(exactly(1, "true")),
        spec(exactly(1, class_name="mig.nvidia.com")),
        spec(exactly(1), exactly(1, name="more")),
        spec(exactly(1), constraints=[{"matchAttribute": "a.example/b"}]),
        spec({"name": "gpu", "firstAvailable": [{"name": "a", **ask(1)}]}),
    ],
)
def test_what_means_something_else_hashes_differently(other):
    assert spec_hash(other) != spec_hash(BARE)


def test_the_operator_of_a_toleration_has_a_default():
    assert spec_hash(spec(exactly(tolerations=[{"key": "k"}]))) == spec_hash(
        spec(exactly(tolerations=[{"key": "k", "operator": "Equal", "value": ""}]))
    )


def test_the_order_of_alternatives_matters():
    one, other = {"name": "a", **ask(1)}, {"name": "b", **ask(2)}
    there = spec({"name": "gpu", "firstAvailable": [one, other]})
    back = spec({"name": "gpu", "firstAvailable": [other, one]})
    assert spec_hash(there) != spec_hash(back)


def test_parameters_of_drivers_are_left_as_they_are():
    def configured(parameters):
        return spec(exactly(), config=[{"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}])

    assert spec_hash(configured({"a": ""})) != spec_hash(configured({}))
    assert spec_hash(configured({"a": 1, "b": 2})) == spec_hash(configured({"b": 2, "a": 1}))


def test_the_examples_all_differ(specs):
    assert len({spec_hash(one) for one in specs.values()}) == len(specs)


def test_the_hash_is_sha256_in_hex():
    assert re.fullmatch("[0-9a-f]{64}", spec_hash(BARE))


def test_the_spec_itself_is_left_alone(specs):
    before = json.dumps(specs, default=str)
    for one in specs.values():
        canonical(one)
    assert json.dumps(specs, default=str) == before


values = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=3))
trees = st.recursive(
    values,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def shuffled(value, draw):
    if isinstance(value, dict):
        return {key: shuffled(value[key], draw) for key in draw(st.permutations(list(value)))}
    return [shuffled(one, draw) for one in value] if isinstance(value, list) else value


@given(
    st.data(), st.dictionaries(st.sampled_from(["selectors", "capacity", "x", "count"]), trees, max_size=4)
)
def test_the_order_of_keys_does_not_matter(data, more):
    claim_spec = spec({"name": "gpu", "exactly": {"deviceClassName": "c", **more}})
    assert spec_hash(shuffled(claim_spec, data.draw)) == spec_hash(claim_spec)


@given(
    st.integers(0, 9),
    st.booleans(),
    st.lists(st.fixed_dictionaries({"key": st.text(max_size=3)}), max_size=2),
)
def test_a_canonical_spec_is_its_own_canonical_form(count, admin, tolerations):
    claim_spec = spec(exactly(count, adminAccess=admin, tolerations=tolerations))
    assert canonical(canonical(claim_spec)) == canonical(claim_spec)


FULL = {
    "devices": {
        "requests": [
            {
                "name": "gpu",
                "exactly": {
                    "deviceClassName": "gpu.nvidia.com",
                    "count": 2,
                    "adminAccess": False,
                    "selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com' // größer"}}],
                    "capacity": {"requests": {"memory": "10Gi"}},
                    "tolerations": [
                        {"key": "k", "effect": ""},
                        {"operator": "Exists", "tolerationSeconds": 0},
                    ],
                },
            },
            {
                "name": "any",
                "firstAvailable": [
                    {"name": "a", "deviceClassName": "c", "allocationMode": "All", "adminAccess": True},
                    {"name": "b", "deviceClassName": "d"},
                ],
            },
        ],
        "constraints": [{"requests": [], "matchAttribute": "a.example/b"}],
        "config": [
            {
                "requests": ["gpu"],
                "opaque": {"driver": "gpu.nvidia.com", "parameters": {"b": "", "a": None}},
            }
        ],
        "later": {"x": [], "y": [1]},
    },
    "unknown": "",
    "other": {"z": 1, "a": None},
}


def test_a_canonical_spec_is_written_out_in_the_order_of_its_keys():
    first = {
        "allocationMode": "ExactCount",
        "capacity": {"requests": {"memory": "10Gi"}},
        "count": 2,
        "deviceClassName": "gpu.nvidia.com",
        "selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com' // größer"}}],
        "tolerations": [
            {"key": "k", "operator": "Equal"},
            {"operator": "Exists", "tolerationSeconds": 0},
        ],
    }
    second = [
        {"adminAccess": True, "allocationMode": "All", "deviceClassName": "c", "name": "a"},
        {"allocationMode": "ExactCount", "count": 1, "deviceClassName": "d", "name": "b"},
    ]
    parameters = {"a": None, "b": ""}
    assert json.dumps(canonical(FULL)) == json.dumps(
        {
            "devices": {
                "config": [
                    {"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}, "requests": ["gpu"]}
                ],
                "constraints": [{"matchAttribute": "a.example/b"}],
                "later": {"y": [1]},
                "requests": [
                    {"exactly": first, "name": "gpu"},
                    {"firstAvailable": second, "name": "any"},
                ],
            },
            "other": {"z": 1},
        }
    )


@pytest.mark.parametrize(
    ("claim_spec", "stored"),
    [
        ({}, "de4ad6de27bb570251a9b8a47a2571d5c278ebb7cdf0caa1f53b3ec5f5acc900"),
        (BARE, "337bea9cd5360b2b727c963f4c196ae6f692ec132f147097a8c3453df88f5c8e"),
        (FULL, "9baea4c886b547bae992951162d1e32064ffbe5c8673690044a3981550029585"),
    ],
)
def test_hashes_that_were_approved_stay_what_they_are(claim_spec, stored):
    """They stand in databases: another hash for the same spec would undo every approval."""
    assert spec_hash(claim_spec) == stored
