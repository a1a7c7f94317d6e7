"""The manifests of a claim over the API: the options of the page, and its sentences."""

import pytest
import yaml
from rest_framework.test import APIClient

from demo.controlplane import machines
from inventory import cluster_snapshot
from tests.claims.published import mirrored
from tests.factories import make_claim

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


def test_manifest_api_returns_all_kinds_by_default(get):
    found = {one["key"]: one for one in get().json()["snippets"]}
    assert {"pod", "job", "deployment", "jupyter", "vllm", "triton", "kubectl", "notebook"} <= set(found)
    assert "pytorchjob" not in found
    assert found["pod"]["cuda"] is None


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"colour": "red"}, "Unknown option colour"),
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
