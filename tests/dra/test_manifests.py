"""Manifests: what is applied, and YAML as people read it."""

import copy

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dra.manifests import WIDTH, _Dumper, resource_claim, resource_claim_template, to_yaml, with_count
from tests.dra.clusters import ask, exactly, spec

LABELS = {"gpu.dragoman.dev/claim": "0192", "gpu.dragoman.dev/team": "vision"}


def test_a_named_claim_carries_spec_and_labels(specs):
    made = resource_claim("train", "team-a", specs["shared-gpu"], LABELS)
    assert made == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "train", "namespace": "team-a", "labels": LABELS},
        "spec": specs["shared-gpu"],
    }


def test_a_template_hands_its_labels_to_the_claims_it_makes(specs):
    made = resource_claim_template("train", "team-a", specs["shared-gpu"], LABELS)
    assert made["metadata"]["labels"] == LABELS
    assert made["spec"] == {"metadata": {"labels": LABELS}, "spec": specs["shared-gpu"]}
    assert "metadata" not in resource_claim_template("train", "team-a", specs["shared-gpu"])["spec"]


def test_a_manifest_shares_nothing_with_the_spec():
    claim_spec = spec(exactly(1))
    made = resource_claim("a", "b", claim_spec)
    made["spec"]["devices"]["requests"].clear()
    assert claim_spec == spec(exactly(1))


def test_a_count_can_be_changed_and_nothing_else():
    claim_spec = spec(exactly(1), exactly(2, name="more"))
    before = copy.deepcopy(claim_spec)
    changed = with_count(claim_spec, "more", 4)
    assert [one["exactly"]["count"] for one in changed["devices"]["requests"]] == [1, 4]
    assert claim_spec == before


@pytest.mark.parametrize(
    "claim_spec",
    [
        spec(exactly(name="other")),
        spec(exactly(0, allocationMode="All")),
        spec({"name": "gpu", "firstAvailable": [{"name": "a", **ask()}]}),
    ],
)
def test_a_count_that_is_not_there_cannot_be_changed(claim_spec):
    with pytest.raises(ValueError, match="Request gpu has no count"):
        with_count(claim_spec, "gpu", 2)


def test_yaml_reads_back_as_it_was(manifests):
    listed = list(manifests.values())
    assert list(yaml.safe_load_all(to_yaml(*listed))) == listed


def test_yaml_is_written_for_people(manifests):
    text = to_yaml(manifests["ResourceClaimTemplate/gpu-40g"])
    assert text.startswith(
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata:\n  name: gpu-40g\n"
    )
    assert '                  expression: |-\n                    device.capacity["gpu.nvidia.com"].?' in text
    assert "      requests:\n        - name: gpu\n" in text
    assert "&id" not in text
    assert "{" not in text


def test_without_labels_a_manifest_has_none():
    claim_spec = spec(exactly(1))
    metadata = {"name": "a", "namespace": "b"}
    assert resource_claim("a", "b", claim_spec) == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": claim_spec,
    }
    assert resource_claim_template("a", "b", claim_spec, {}) == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": {"spec": claim_spec},
    }


def test_labels_of_a_manifest_are_its_own():
    labels = dict(LABELS)
    made = resource_claim_template("a", "b", spec(exactly(1)), labels)
    labels["more"] = "x"
    assert made["metadata"]["labels"] == made["spec"]["metadata"]["labels"] == LABELS


def test_a_count_is_set_where_there_was_none_and_of_the_first_request_of_a_name_alone():
    bare = {"name": "gpu", "exactly": {"deviceClassName": "c"}}
    changed = with_count(spec(exactly(1, name="other"), bare, exactly(5)), "gpu", 4)
    assert [one["exactly"].get("count") for one in changed["devices"]["requests"]] == [1, 4, 5]
    with pytest.raises(ValueError, match="Request gpu has no count"):
        with_count({}, "gpu", 2)


def test_yaml_puts_long_quotes_and_lines_in_blocks_and_nothing_else():
    long = 'device.attributes["gpu.nvidia.com"].productName == "größer"'
    once = ["shared"]
    texts = {
        "short": 'a == "b"',
        "long": long,
        "spaced": f" {long}",
        "lines": "x: y\nz",
        "word": "true",
        "folded": "long " * 25 + "end",
        "empty": {},
        "lists": [[1], once, once],
    }
    assert to_yaml({"b": 1, "a": texts}, {"c": None}) == (
        "b: 1\n"
        "a:\n"
        '  short: a == "b"\n'
        "  long: |-\n"
        f"    {long}\n"
        f"  spaced: ' {long}'\n"
        "  lines: |-\n"
        "    x: y\n"
        "    z\n"
        "  word: 'true'\n"
        f"  folded: {'long ' * 20}long\n"
        f"    {'long ' * 4}end\n"
        "  empty: {}\n"
        "  lists:\n"
        "    - - 1\n"
        "    - - shared\n"
        "    - - shared\n"
        "---\n"
        "c: null\n"
    )


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=140),
    st.text("aby 01.-/_:=#'\"\n\t=(){}[]~é", max_size=140),
    st.sampled_from(["yes", "off", "null", "1.0", "1_0", "12e3", "0x1f", "1:30", "2026-01-01", "a" * 120]),
    st.sampled_from(
        ["-c", "-1", "--", "---", "--a", "---a", "a:b", "a:", "a: b", "=", "--a=0.0.0.0", "x/y:1-2"]
    ),
)
KEYS = st.one_of(st.text(max_size=8), st.sampled_from(["name", "a.b/c", "k" * 70, "no", "1"]))
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
)


@given(st.lists(st.dictionaries(KEYS, VALUES, min_size=1, max_size=3), min_size=1, max_size=3))
def test_yaml_equals_that_of_pyyaml(written):
    expected = yaml.dump_all(written, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)
    assert to_yaml(*written) == expected
