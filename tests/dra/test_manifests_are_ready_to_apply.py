"""Manifests: what is applied, and YAML as people read it."""

import copy

import pytest
import yaml

from dra.manifests import resource_claim, resource_claim_template, to_yaml, with_count
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
    wish = spec(exactly(1))
    made = resource_claim("a", "b", wish)
    made["spec"]["devices"]["requests"].clear()
    assert wish == spec(exactly(1))


def test_a_count_can_be_changed_and_nothing_else():
    wish = spec(exactly(1), exactly(2, name="more"))
    before = copy.deepcopy(wish)
    changed = with_count(wish, "more", 4)
    assert [one["exactly"]["count"] for one in changed["devices"]["requests"]] == [1, 4]
    assert wish == before


@pytest.mark.parametrize(
    "wish",
    [
        spec(exactly(name="other")),
        spec(exactly(0, allocationMode="All")),
        spec({"name": "gpu", "firstAvailable": [{"name": "a", **ask()}]}),
    ],
)
def test_a_count_that_is_not_there_cannot_be_changed(wish):
    with pytest.raises(ValueError, match="Request gpu has no count"):
        with_count(wish, "gpu", 2)


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
