"""The manifests of a claim over the API: the options of the page, and its sentences."""

import re

import pytest
import yaml
from django.utils import timezone
from rest_framework.test import APIClient

from claims.models import Allocation
from demo.controlplane import machines
from inventory import cluster_snapshot
from inventory.models import Device, ResourceSlice
from tests.claims.published import mirrored
from tests.dra.test_workloads import MPS
from tests.factories import make_allocation, make_claim, make_spec

pytestmark = pytest.mark.django_db


@pytest.fixture
def get(alice, vision, fra, train):
    """Return what alice reads of a claim on eight H100 and four A100."""
    nodes = [(name, dict[str, str](), list[object]()) for name in ("h100-a", "a100-a")]
    mirrored(fra, *machines.h100("h100-a"), *machines.a100("a100-a"), nodes=nodes)
    claim = make_claim(vision, by=alice, cluster=fra, name="sam2", devices=2)
    client = APIClient()
    client.force_authenticate(alice)
    yield lambda **query: client.get(f"/api/v1/claims/{claim.pk}/manifest/", query)
    cluster_snapshot.forget()


def test_manifest_api_takes_options_of_page(get):
    answer = get(kind="job", image="nvidia/cuda:14.0-base", pods=2, network="isolated")
    assert answer.status_code == 200, answer.json()
    (snippet,) = answer.json()["snippets"]
    assert (snippet["key"], snippet["group"], snippet["filename"]) == ("job", "run", "sam2-job.yaml")
    job, policy = yaml.safe_load_all(snippet["text"])
    assert job["spec"]["parallelism"] == 2
    assert policy["kind"] == "NetworkPolicy"
    assert snippet["cuda"]["level"] == "error"
    assert snippet["cuda"]["parts"][0]["devices"] == 12


def test_vllm_on_a_share_takes_its_part_of_the_largest_device(get, vision):
    """The claim can get any of the devices, and an A100 has less memory than an H100."""
    claim = vision.claims.get(name="sam2")
    share = make_spec(capacity={"requests": {"memory": "20Gi"}})
    type(claim).objects.filter(pk=claim.pk).update(spec=share)
    (snippet,) = get(kind="vllm").json()["snippets"]
    (deployment, _service) = yaml.safe_load_all(snippet["text"])
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "--gpu-memory-utilization=0.22" in container["command"]  # 0.9 × 20 GiB of 81559 MiB
    assert {"name": "CLAIM_ID", "value": str(claim.pk)} in container["env"]
    assert container["resources"]["requests"] == {"cpu": "1", "memory": "4Gi"}


def test_vllm_on_a_held_device_takes_its_part_of_that_one(get, vision):
    claim = vision.claims.get(name="sam2")
    config = {"driver": "gpu.nvidia.com", "parameters": MPS}
    spec = make_spec(1)
    spec["devices"]["config"] = [{"opaque": config, "requests": ["gpu"]}]
    type(claim).objects.filter(pk=claim.pk).update(spec=spec)

    def utilization(pods):
        (snippet,) = get(kind="vllm", pods=pods).json()["snippets"]
        return re.findall(r"gpu-memory-utilization=([\d.]+)", snippet["text"])

    assert utilization(2) == ["0.11"]  # 0.9 × 10 GiB of 81559 MiB, for each process
    place = {"driver": "gpu.nvidia.com", "pool": "a100-a"}
    for name, gib in (("gpu-0", 40), ("gpu-1", 80)):
        published = ResourceSlice.objects.get(node_name="a100-a")
        Device.objects.create(
            cluster=claim.cluster, slice=published, name=name, memory_bytes=gib * 2**30, **place
        )
    make_allocation(claim, timezone.now(), None, device="gpu-0", **place)
    assert utilization(2) == ["0.22"]
    Allocation.objects.update(ended_at=timezone.now())
    assert utilization(2) == ["0.11"]


def test_image_of_ngc_is_checked_by_its_month(get):
    (snippet,) = get(kind="job", image="nvcr.io/nvidia/pytorch:24.01-py3").json()["snippets"]
    assert (snippet["cuda"]["version"], snippet["cuda"]["level"]) == ("12.3", "ok")


def test_manifest_api_returns_all_kinds_by_default(get):
    found = {one["key"]: one for one in get().json()["snippets"]}
    assert {"pod", "job", "deployment", "jupyter", "vllm", "triton", "kubectl", "notebook"} <= set(found)
    assert "pytorchjob" not in found
    assert found["pod"]["cuda"] is None


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"colour": "red"}, "Unknown parameter colour. Known: "),
        ({"kind": "cobol"}, "cobol"),
        ({"image": 'a"b'}, "Enter an image like"),
        ({"pods": "many"}, "integer"),
        ({"tolerate": "unknown:NoSchedule"}, "unknown:NoSchedule"),
        ({"security": "none at all"}, "not a valid choice"),
    ],
)
def test_invalid_manifest_option_is_422(get, query, words):
    answer = get(**query)
    assert answer.status_code == 422
    assert words in answer.text
