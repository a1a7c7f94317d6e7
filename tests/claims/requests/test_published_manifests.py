"""Manifests in the shapes that people publish: each gives an answer, and what is proposed is right."""

import copy
import time
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.urls import reverse

from claims.models import Claim
from claims.requests.manifest_specs import Document, read_documents, requested_specs
from core.errors import Invalid
from core.yaml_documents import read_yaml
from dra.quantity import Quantity
from tests.claims.published import mirrored
from tests.claims.requests.published_manifests import FILES, pods_in
from tests.dra.clusters import gpu, resource_slice
from tests.factories import make_profile, make_spec

PAGE = reverse("claims:request_import")
API = "/api/v1/claims/import/"


def imported(name):
    return requested_specs(read_documents(FILES[name], name), name)


def claims_of(name):
    """Return title, pods at once, and count and class of each request, of the claims of a file."""
    return [
        (
            spec.title,
            spec.pods,
            [
                (request["exactly"].get("count", 1), request["exactly"]["deviceClassName"])
                for request in spec.spec["devices"]["requests"]
            ],
        )
        for spec in imported(name).specs
    ]


TEMPLATE, ONE = "ResourceClaimTemplate train", [(1, "gpu.nvidia.com")]


@pytest.mark.parametrize(
    ("kind", "pods"),
    [
        ("Deployment", 3), ("ReplicaSet", 2), ("StatefulSet", 2), ("DaemonSet", 1), ("PodTemplate", 1),
        ("ReplicationController", 2), ("CronJob by number", 1), ("TFJob", 4),
        ("PyTorchJob", 4), ("MPIJob", 2), ("XGBoostJob", 3), ("PaddleJob", 2), ("TrainingRuntime", 1),
        ("JobSet", 8),
        ("job without a restartPolicy", 8), ("RayCluster", 3), ("RayJob", 3), ("RayService", 3),
        ("Workflow", 2), ("Notebook", 1),
        ("InferenceService with a model", 2), ("InferenceService with containers", 2), ("Volcano job", 4),
        ("LLMInferenceService with a prefill of its own count", 5),
        ("unknown kind", 2),
    ],
)  # fmt: skip
def test_pods_are_found_where_each_kind_keeps_them(kind, pods):
    assert claims_of(kind) == [(TEMPLATE, pods, ONE)]
    assert all("nvidia.com/gpu" not in str(manifest) for manifest in imported(kind).manifests)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("TrainJob", [(TEMPLATE, 4, [(2, "gpu.nvidia.com")])]),
        ("LeaderWorkerSet", [(TEMPLATE, 8, [(8, "gpu.nvidia.com")])]),
        ("LeaderWorkerSet with a leader", [(TEMPLATE, 4, [(8, "gpu.nvidia.com")])]),
        (
            "LeaderWorkerSet with a leader of its own size",
            [
                (TEMPLATE, 2, [(4, "gpu.nvidia.com")]),
                ("ResourceClaimTemplate train-2", 6, [(8, "gpu.nvidia.com")]),
            ],
        ),
        ("SparkApplication", [(TEMPLATE, 2, ONE)]),
        ("NIMService", [(TEMPLATE, 3, [(2, "gpu.nvidia.com")])]),
        (
            "unknown kind with resources beside a pod",
            [(TEMPLATE, 1, ONE), ("ResourceClaimTemplate train-2", 3, [(2, "gpu.nvidia.com")])],
        ),
        ("DynamoGraphDeployment", [(TEMPLATE, 2, ONE)]),
        ("values of a chart", [("ResourceClaimTemplate gpu", 2, ONE)]),
        ("CronJob with its template", [("ResourceClaimTemplate gpu-40g", 2, ONE)]),
        (
            "template without the inner spec, and its job",
            [("ResourceClaimTemplate large-gpu", 3, [(2, "gpu.nvidia.com")])],
        ),
        ("flat shared claim of v1 and two pods", [("ResourceClaim shared", 1, ONE)]),
        ("native sidecar", [("ResourceClaim trainer", 1, [*ONE, *ONE])]),
        ("init container that needs more than the main one", [("ResourceClaim prepare", 1, [*ONE, *ONE])]),
        ("AMD partition", [("ResourceClaim p", 1, [(2, "gpu.amd.com")])]),
        ("Gaudi", [("ResourceClaim p", 1, [(8, "gaudi.intel.com")])]),
        ("TPU", [("ResourceClaim p", 1, [(4, "tpu.google.com")])]),
        (
            "device class with an extended resource, and a pod that requests it",
            [("ResourceClaim p", 1, [(1, "card.example.com")])],
        ),
        ("two vendors in a container", [("ResourceClaim p", 1, [(1, "gpu.amd.com"), (1, "gpu.nvidia.com")])]),
    ],
)
def test_claim_has_what_the_pods_request(name, expected):
    assert claims_of(name) == expected


@pytest.mark.parametrize(
    ("name", "skipped"),
    [
        ("namespace, template and pod of v1beta1", "Skipped: Namespace team-a."),
        ("pod, service and network policy", "Skipped: Service triton, NetworkPolicy isolate."),
        ("priority classes, node and pod", "Skipped: PriorityClass high, Node gpu-1."),
        ("v1 List", "Skipped: Service web."),
    ],
)
def test_other_kinds_are_skipped_and_named(name, skipped):
    assert imported(name).remarks == [skipped]


def used(name, index=-1):
    """Return resources of each container of the last object of a file, by container."""
    (pod,) = pods_in(imported(name).manifests[index])
    rows = [*pod.get("initContainers", ()), *pod["containers"]]
    return pod, {row["name"]: row.get("resources", {}) for row in rows}


def test_each_container_uses_its_own_request():
    _pod, resources = used("native sidecar")
    assert resources == {
        "telemetry": {"claims": [{"name": "gpu", "request": "telemetry"}]},
        "trainer": {"claims": [{"name": "gpu", "request": "trainer"}]},
    }


def test_init_container_shares_with_main_and_has_what_it_lacks():
    _pod, resources = used("init container that needs more than the main one")
    assert [row["request"] for row in resources["prepare"]["claims"]] == ["main", "prepare"]
    assert [row["request"] for row in resources["main"]["claims"]] == ["main"]
    assert resources["log"] == {}


def test_existing_claim_of_the_name_stays_beside_the_new_one():
    pod, resources = used("existing entry of the name", index=-1)
    assert [row["name"] for row in pod["resourceClaims"]] == ["gpu", "gpu-2"]
    assert resources["main"]["claims"] == [{"name": "gpu"}, {"name": "gpu-2"}]


@pytest.mark.parametrize("kind", ["job without a restartPolicy", "job with restartPolicy Always"])
def test_job_gets_the_restart_policy_that_it_needs(kind):
    (spec,) = imported(kind).specs
    assert "restartPolicy is Never now, it was " in spec.note
    assert imported(kind).manifests[-1]["spec"]["template"]["spec"]["restartPolicy"] == "Never"


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("pod, service and network policy", "NVIDIA_VISIBLE_DEVICES is removed"),
        ("Workflow", "CUDA_VISIBLE_DEVICES is removed"),
        ("AMD", "ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES are removed"),
        ("Intel", "ZE_AFFINITY_MASK is removed"),
    ],
)
def test_variables_that_choose_devices_are_removed_and_it_is_said(name, variables):
    found = imported(name)
    assert variables in " ".join(spec.note for spec in found.specs)
    assert "VISIBLE" not in str(found.manifests)
    assert "MODEL" in str(found.manifests) or "triton" not in str(found.manifests)


@pytest.mark.parametrize(
    ("name", "mebibytes"),
    [
        ("time-sliced share", None), ("HAMi", 1000), ("HAMi percentage", None), ("Volcano vGPU", 3000),
        ("Aliyun share", 8192), ("MPS configuration and its pod", None),
    ],
)  # fmt: skip
def test_part_of_a_gpu_is_a_share_and_never_the_same_devices(name, mebibytes):
    (spec,) = imported(name).specs
    assert spec.share
    assert "the same devices" not in spec.note
    (request,) = spec.spec["devices"]["requests"]
    assert request["exactly"]["selectors"] == [{"cel": {"expression": "device.allowMultipleAllocations"}}]
    capacity = request["exactly"].get("capacity", {}).get("requests", {})
    assert capacity == ({"memory": f"{mebibytes}Mi"} if mebibytes else {})
    assert spec.memory == (mebibytes and Quantity.parse(f"{mebibytes}Mi").bytes)
    left = str(imported(name).manifests[-1])
    assert not any(word in left for word in ("limits", "gpumem", "gpucores", "vgpu", ".shared"))


def test_trainjob_is_left_as_it_is_and_says_where_the_claim_belongs():
    (spec,) = imported("TrainJob").specs
    assert "A TrainJob has no field for claims" in spec.note
    assert imported("TrainJob").manifests[-1]["spec"]["trainer"]["resourcesPerNode"]["limits"] == {
        "nvidia.com/gpu": 2
    }


def test_kind_that_is_not_known_is_named():
    (spec,) = imported("unknown kind").specs
    assert (
        "ServingGraph is not known here: its pods were found by their containers and resources." in spec.note
    )


def refusal(text):
    with pytest.raises(Invalid) as refused:
        requested_specs(read_documents(text, "f"), "f")
    return refused.value.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "kind: ResourceClaim\nspec: {devices: {deviceRequests: [{alternatives: []}]}}",
            "The list of requests is devices.requests.",
        ),
        (
            "kind: ResourceClaim\nspec: {devices: {requests: [{name: a, alternatives: []}]}}",
            "Alternatives are the list “firstAvailable” of a request",
        ),
        (
            "kind: Pod\nspec: {containers: [{resources: {limits: {nvidia.com/gpu: half}}}]}",
            "f, line 1: nvidia.com/gpu: ",
        ),
        (
            "kind: Pod\nspec: {containers: [{resources: {limits: {nvidia.com/gpu: 0.5}}}]}",
            "nvidia.com/gpu is 0.5; it must be a whole number.",
        ),
        (
            "kind: Pod\nspec: {containers: [{resources: {limits: {nvidia.com/gpu: 40}}}]}",
            "the limit per claim is 32 devices",
        ),
    ],
)
def test_refusal_names_what_is_wrong(text, said):
    assert said in refusal(text)


def test_fragment_without_a_kind_is_read_as_what_it_looks_like():
    text = "devices: {requests: [{name: gpu, deviceClassName: nvidia.com/gpu}]}"
    (spec,) = requested_specs(read_documents(text, "f"), "f").specs
    assert "It has no kind: read as a claim." in spec.note
    text = "containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}}}]"
    assert requested_specs(read_documents(text, "f"), "f").specs


# Whatever stands at a place of a manifest, the answer is a claim or a refusal.

BAD: tuple[Any, ...] = (
    None,
    5,
    True,
    1.5,
    "x",
    "",
    "2026-01-01",
    [],
    [1],
    {},
    {"a": 1},
    [{"name": 5}],
    -1,
    10**30,
)


def places(part, path=()):
    yield path
    entries = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, entry in entries:
        yield from places(entry, (*path, key))


def changed(manifest, path, value):
    result = copy.deepcopy(manifest)
    *steps, last = path
    part = result
    for step in steps:
        part = part[step]
    part[last] = value
    return result


@pytest.mark.security("bombs", "puts values of wrong types at every place of manifests")
@pytest.mark.parametrize("name", FILES)
def test_wrong_value_at_any_place_is_read_or_refused(name):
    objects = [value for _node, value in read_yaml(FILES[name], name)]
    for number, manifest in enumerate(objects):
        for path in places(manifest):
            for value in BAD if path else ():
                others = [*objects[:number], changed(manifest, path, value), *objects[number + 1 :]]
                with suppress(Invalid):
                    requested_specs([Document(1, one) for one in others], "f")


PARAMETERS = "".join(f"      k{at}: v{at % 97}\n" for at in range(2900))
CONTAINERS = "".join(
    f" - {{name: c{at}, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}\n" for at in range(1000)
)
VARIABLES = "".join(f"   - {{name: V{at % 89}, value: '{at}'}}\n" for at in range(1800))
SELECTORS = ",".join(["{cel: {expression: 'device.driver == \"" + "x" * 1500 + "\"'}}"] * 30)
REQUEST = "requests: [{name: a, deviceClassName: b"
EXPENSIVE = {
    "parameters": f"kind: ResourceClaim\nspec:\n devices:\n  {REQUEST}}}]\n  config:\n  - opaque:\n"
    f"     driver: a.b\n     parameters:\n{PARAMETERS}",
    "containers": f"kind: Pod\nspec:\n containers:\n{CONTAINERS}",
    "variables": "kind: Pod\nspec:\n containers:\n - name: a\n   resources: {limits: {nvidia.com/gpu: 1}}\n"
    f"   env:\n{VARIABLES}",
    "deep unknown kind": "kind: X\nspec: " + "{a: [" * 18 + "1" + "]}" * 18,
    "selectors": f"kind: ResourceClaim\nspec: {{devices: {{{REQUEST}, selectors: [{SELECTORS}]}}]}}}}",
}


@pytest.mark.security("bombs", "sends manifests of 64 KiB that are expensive to convert")
@pytest.mark.parametrize("name", EXPENSIVE)
def test_expensive_manifest_is_read_or_refused_soon(name):
    text = EXPENSIVE[name][:64_000]
    began = time.process_time()
    with suppress(Invalid):
        requested_specs(read_documents(text, "f"), "f")
    assert time.process_time() - began < 1.5


# The page and the API.


@pytest.fixture
def h100s(fra):
    mirrored(fra, resource_slice("node-a", [gpu(0), gpu(1)]))


@pytest.mark.django_db
def test_page_and_api_give_the_same_sentences(client, alice, vision, fra, train, h100s):
    client.force_login(alice)
    for name, text in FILES.items():
        page = client.post(PAGE, {"text": text})
        answer = client.post(API, {"text": text}, "application/json")
        assert (page.status_code, answer.status_code) == (200, 200), name
        found, said = page.context["found"], answer.json()
        assert said["remarks"] == found.remarks
        assert [one["note"] for one in said["claims"]] == [one.imported.note for one in found.claims]
        assert said["converted"] == found.converted
        assert [one["clusters"] for one in said["claims"]] != []
    assert not Claim.objects.exists()


@pytest.mark.django_db
def test_form_is_filled_with_the_pods_at_once(client, alice, vision, fra, train):
    client.force_login(alice)
    page = client.post(PAGE, {"text": FILES["job without a restartPolicy"]})
    (found,) = page.context["claims"]
    assert parse_qs(urlsplit(found.exact[0].url).query)["parallel"] == ["8"]
    said = client.post(API, {"text": FILES["job without a restartPolicy"]}, "application/json").json()
    assert (said["claims"][0]["parallel"], said["claims"][0]["delivery"]) == (8, "template")


@pytest.mark.django_db
def test_match_is_of_all_pods_and_names_the_selector_that_would_be_right(
    client, alice, vision, fra, train, h100s
):
    client.force_login(alice)

    def verdict(name):
        (claim,) = client.post(API, {"text": FILES[name]}, "application/json").json()["claims"]
        return claim["problems"], claim["clusters"][0]

    assert verdict("ReplicaSet")[1]["sentence"] == "2 claims fit now."
    eight = verdict("job without a restartPolicy")[1]
    assert (eight["fits"], eight["sentence"][:15]) == (False, "It never fits. ")
    problems, cluster = verdict("selector that does not compile")
    right = 'device.attributes["gpu.nvidia.com"].cudaComputeCapability.major() >= 8'
    assert problems[0].endswith(f"Try: {right}")
    assert cluster["sentence"].startswith("It never fits. Request gpu: compilation failed")
    assert [one["selector"] for one in cluster["findings"]] == [right]
    assert verdict("device class of v1beta1 alone")[1]["matching"] == 2


@pytest.mark.django_db
def test_profiles_for_a_share_are_those_that_give_a_part(client, alice, vision, fra, train):
    parts = {"small": "500Mi", "right": "2Gi"}
    for slug, memory in parts.items():
        spec = make_spec(selectors=[{"cel": {"expression": "device.allowMultipleAllocations"}}])
        spec["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": {"memory": memory}}
        make_profile(slug, spec=spec)
    make_profile("slice", spec=make_spec(device_class="mig.nvidia.com"))
    client.force_login(alice)
    said = client.post(API, {"text": FILES["HAMi"]}, "application/json").json()
    assert [one["profile"] for one in said["claims"][0]["nearest"]] == ["right", "slice"]


@pytest.mark.django_db
def test_outsider_and_viewer_get_no_import(client, olaf_without_team, bob, vision):
    for person in (olaf_without_team, bob):
        client.force_login(person)
        assert client.post(API, {"text": FILES["AMD"]}, "application/json").status_code == 403
    client.logout()
    assert client.post(API, {"text": FILES["AMD"]}, "application/json").status_code == 401


@pytest.fixture
def olaf_without_team(db):
    from tests.factories import make_user

    return make_user("olaf")


@pytest.mark.django_db
def test_api_refuses_a_file_with_the_line(client, alice, vision):
    client.force_login(alice)
    answer = client.post(API, {"text": "a: 1\nb: [", "name": "f.yaml"}, "application/json")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert answer.json()["detail"].startswith("f.yaml, line 2: this is not YAML")
