"""Manifests: what is applied and what people paste."""

import copy
from typing import Any

import pytest
import yaml

from dra.manifests import job, pod, resource_claim, resource_claim_template, to_yaml, with_count
from tests.dra.clusters import ask, exactly, spec

LABELS = {"gpu.dragoman.dev/claim": "0192", "gpu.dragoman.dev/team": "vision"}
IMAGE = "images.example.org/train:1"


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


@pytest.mark.parametrize("source", ["claim", "template"])
def test_a_pod_meets_the_restricted_pod_security_standard(source):
    named: dict[str, Any] = {source: "big"}
    made = pod("train", "team-a", **named, image=IMAGE, command=["python", "train.py"], requests=["gpu"])
    inside, (container,) = made["spec"], made["spec"]["containers"]
    assert inside["securityContext"]["runAsNonRoot"] is True
    assert inside["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    key = {"claim": "resourceClaimName", "template": "resourceClaimTemplateName"}[source]
    assert inside["resourceClaims"] == [{"name": "gpu", key: "big"}]
    assert container["resources"] == {"claims": [{"name": "gpu", "request": "gpu"}]}
    assert container["command"] == ["python", "train.py"]


def test_a_container_sees_all_requests_unless_some_are_named():
    made = pod("train", "team-a", claim="big", image=IMAGE)
    assert made["spec"]["containers"][0]["resources"] == {"claims": [{"name": "gpu"}]}


@pytest.mark.parametrize("both", [{}, {"claim": "a", "template": "b"}])
def test_a_pod_needs_one_source_of_its_claim(both):
    with pytest.raises(ValueError, match="either a claim or a template"):
        pod("train", "team-a", image=IMAGE, **both)


def test_a_job_runs_as_many_pods_as_claims_are_granted():
    made = job("train", "team-a", template="big", image=IMAGE, parallelism=4, labels=LABELS)
    assert (made["kind"], made["apiVersion"]) == ("Job", "batch/v1")
    assert (made["spec"]["parallelism"], made["spec"]["completions"]) == (4, 4)
    assert made["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert made["spec"]["template"]["metadata"]["labels"] == LABELS


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
