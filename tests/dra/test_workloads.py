"""Workloads that use a claim: what each of them asks for."""

import ast
import json
import re
from dataclasses import replace
from fractions import Fraction
from itertools import chain

import pytest

from dra import workloads
from dra.workload_parts import (
    ASSUMED,
    IMAGES,
    ClaimUse,
    WorkloadOptions,
    container_device_count,
    environment,
    is_partial,
    is_separate,
    limits_each_process,
    memory_part,
    pod_count,
)
from tests.dra.workload_manifests import GOLDEN, written

MAKERS = {
    "Pod": workloads.pod,
    "Job": workloads.job,
    "Deployment": workloads.deployment,
    "StatefulSet": workloads.stateful_set,
    "Jupyter": workloads.jupyter,
    "Triton": workloads.triton,
    "vLLM": workloads.vllm,
    "Notebook": workloads.notebook,
    "PyTorchJob": workloads.pytorch_job,
    "InferenceService": workloads.inference_service,
}
NAMED = ClaimUse("sam2", "vision", requests=(("gpu", 2),), vendor="nvidia")
TEMPLATE = ClaimUse("sweep", "vision", template=True, parallel=3, requests=(("gpu", 2),), vendor="nvidia")
SEPARATE = replace(NAMED, requests=(("large", 1), ("small", 2)), separate=True)
every_maker = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def pods_in(content):
    """Yield every pod spec of a document, wherever it stands."""
    if isinstance(content, dict):
        if "containers" in content:
            yield content
        for inner in content.values():
            yield from pods_in(inner)


def specs(make, use=NAMED, **options):
    return list(chain.from_iterable(map(pods_in, make(use, WorkloadOptions(**options)))))


@every_maker
@pytest.mark.parametrize("use", [NAMED, TEMPLATE], ids=["named", "template"])
def test_every_pod_names_the_claim_and_its_container_wants_it(make, use):
    source = "resourceClaimTemplateName" if use.template else "resourceClaimName"
    for spec in specs(make, use):
        assert spec["resourceClaims"] == [{"name": "gpu", source: use.name}]
        assert [one["resources"]["claims"] for one in spec["containers"]] == [[{"name": "gpu"}]]


def test_container_requests_cpu_and_memory_for_each_device():
    def requested(use, **options):
        (spec,) = specs(workloads.pod, use, **options)
        return [container["resources"]["requests"] for container in spec["containers"]]

    assert requested(NAMED) == [{"cpu": "8", "memory": "32Gi"}]
    assert requested(replace(NAMED, partial=True)) == [{"cpu": "2", "memory": "8Gi"}]
    assert requested(replace(NAMED, requests=(("gpu", None),))) == [{"cpu": "4", "memory": "16Gi"}]
    nic = replace(NAMED, requests=(("gpu", 2), ("nic", 2)))
    assert requested(nic) == [{"cpu": "8", "memory": "32Gi"}]
    assert requested(SEPARATE) == [{"cpu": "4", "memory": "16Gi"}, {"cpu": "8", "memory": "32Gi"}]


@every_maker
def test_every_container_knows_its_claim(make):
    for spec in specs(make, replace(TEMPLATE, claim_id="0199-7")):
        for container in spec["containers"]:
            variables = {row["name"]: row["value"] for row in container["env"]}
            assert (variables["CLAIM_ID"], variables["CLAIM_NAME"]) == ("0199-7", "sweep")


@pytest.mark.parametrize("make", [workloads.pod, workloads.job, workloads.deployment, workloads.stateful_set])
def test_separate_requests_get_a_container_each(make):
    (spec,) = specs(make, SEPARATE, port=9000, image="a/b:1")
    assert [(row["name"], row["resources"]["claims"]) for row in spec["containers"]] == [
        ("large", [{"name": "gpu", "request": "large"}]),
        ("small", [{"name": "gpu", "request": "small"}]),
    ]
    assert "ports" not in spec["containers"][1]  # two containers of a pod cannot serve one port
    (chosen,) = specs(make, SEPARATE, request="small")
    assert [row["name"] for row in chosen["containers"]] == ["main"]


def test_a_server_is_one_container_whatever_the_requests():
    for make in (workloads.vllm, workloads.triton, workloads.jupyter, workloads.pytorch_job):
        for spec in specs(make, SEPARATE):
            assert len(spec["containers"]) == 1


def asks(name, device_class, **fields):
    return {"name": name, "exactly": {"deviceClassName": device_class, **fields}}


@pytest.mark.parametrize(
    ("requests", "separate", "partial"),
    [
        ([asks("gpu", "gpu.nvidia.com")], False, False),
        ([asks("large", "mig.nvidia.com"), asks("small", "mig.nvidia.com")], True, True),
        ([asks("gpu", "gpu.nvidia.com"), asks("part", "mig.nvidia.com")], True, False),
        ([asks("gpu", "gpu.nvidia.com"), asks("nic", "dranet")], False, False),
        ([asks("share", "gpu.nvidia.com", capacity={"requests": {"memory": "8Gi"}})], False, True),
    ],
)
def test_requests_of_one_vendor_are_separate(requests, separate, partial):
    spec = {"devices": {"requests": requests}}
    assert (is_separate(spec), is_partial(spec)) == (separate, partial)


MPS = {"sharing": {"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "10Gi"}}}


@pytest.mark.parametrize(
    ("capacity", "parameters", "memory", "part"),
    [
        ({}, {}, 0, Fraction(1)),
        ({"memory": "20Gi"}, {}, 40 << 30, Fraction(1, 2)),
        ({"gpu.nvidia.com/memory": "20Gi"}, {}, 80 << 30, Fraction(1, 4)),
        ({"memory": "20Gi"}, {}, 0, None),
        ({"memory": "90Gi"}, {}, 80 << 30, Fraction(1)),
        ({"cores": "2"}, {}, 80 << 30, Fraction(1)),
        ({}, MPS, 40 << 30, Fraction(1, 4)),
        ({"memory": "5Gi"}, MPS, 40 << 30, Fraction(1, 8)),
        ({"memory": "much"}, {}, 40 << 30, None),
    ],
)
def test_part_of_a_devices_memory(capacity, parameters, memory, part):
    request = asks("gpu", "gpu.nvidia.com", capacity={"requests": capacity})
    config = [{"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}]
    spec = {"devices": {"requests": [request], "config": config}}
    assert memory_part(spec, memory) == part
    assert limits_each_process(spec) is (parameters == MPS and not capacity)


@pytest.mark.parametrize(
    ("use", "options", "utilization"),
    [
        (NAMED, {}, None),
        (TEMPLATE, {}, None),
        (replace(NAMED, memory_part=Fraction(20, 45)), {}, "0.40"),
        (replace(NAMED, memory_part=None), {}, None),
        (NAMED, {"pods": 2}, "0.45"),
        (TEMPLATE, {"pods": 2}, None),
        (replace(TEMPLATE, memory_part=Fraction(1, 2)), {"pods": 2}, "0.45"),
        (replace(NAMED, memory_part=Fraction(1, 200)), {"pods": 4}, "0.01"),
        # 10 GiB for each process of an H200 with 141 GiB, whatever the number of pods that fit.
        (replace(NAMED, memory_part=Fraction(10, 141), each_process=True), {"pods": 2}, "0.06"),
        (replace(NAMED, memory_part=Fraction(10, 141), each_process=True), {}, "0.06"),
        (replace(NAMED, memory_part=Fraction(1, 2), each_process=True), {"pods": 4}, "0.22"),
    ],
)
@pytest.mark.parametrize("make", [workloads.vllm, workloads.inference_service])
def test_vllm_takes_only_its_part_of_a_shared_gpu(make, use, options, utilization):
    command = specs(make, use, **options)[0]["containers"][0]["command"]
    given = [word.partition("=")[2] for word in command if word.startswith("--gpu-memory-utilization")]
    assert given == ([utilization] if utilization else [])


@every_maker
def test_the_container_sees_one_request_if_one_is_chosen(make):
    for spec in specs(make, request="gpu"):
        assert spec["containers"][0]["resources"]["claims"] == [{"name": "gpu", "request": "gpu"}]


@every_maker
def test_every_pod_is_restricted_unless_the_image_decides(make):
    for spec in specs(make):
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["containers"][0]["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
    for spec in specs(make, restricted=False):
        assert "securityContext" not in spec
        assert "securityContext" not in spec["containers"][0]


@every_maker
def test_placement_goes_into_every_pod(make):
    chosen = {"tolerate": ("gpu=yes:NoSchedule", "spot:NoExecute"), "priority": "low"}
    for spec in specs(make, capacity="karpenter.sh/capacity-type=spot", **chosen):
        assert spec["priorityClassName"] == "low"
        assert spec["nodeSelector"] == {"karpenter.sh/capacity-type": "spot"}
        assert spec["tolerations"] == [
            {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
            {"key": "spot", "operator": "Exists", "effect": "NoExecute"},
        ]
    for spec in specs(make, capacity=ASSUMED):
        (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        assert {one["operator"] for one in term["matchExpressions"]} == {"NotIn"}


@every_maker
@pytest.mark.parametrize("source", ["weights_claim", "weights_image"])
def test_weights_are_mounted_for_reading_only(make, source):
    for spec in specs(make, **{source: "models"}):
        volume = next(one for one in spec["volumes"] if one["name"] == "models")
        if source == "weights_claim":
            assert volume["persistentVolumeClaim"] == {"claimName": "models", "readOnly": True}
        else:
            assert volume["image"]["reference"] == "models"
        assert {"name": "models", "mountPath": "/models", "readOnly": True} in spec["containers"][0][
            "volumeMounts"
        ]


@every_maker
def test_an_own_image_is_run(make):
    for spec in specs(make, image="example.org/own:1"):
        assert [one["image"] for one in spec["containers"]] == ["example.org/own:1"]


@pytest.mark.parametrize("vendor", IMAGES)
def test_each_vendor_has_an_image_and_a_command(vendor):
    (made,) = workloads.pod(ClaimUse("a", "b", vendor=vendor), WorkloadOptions())
    (container,) = made["spec"]["containers"]
    assert container["image"]
    assert IMAGES[vendor].look in container["command"][2]


def test_a_job_is_indexed_and_holds_a_claim_for_each_pod_at_once():
    (made,) = workloads.job(TEMPLATE, WorkloadOptions(completions=10))
    assert made["spec"]["completionMode"] == "Indexed"
    assert (made["spec"]["parallelism"], made["spec"]["completions"]) == (3, 10)
    (alone,) = workloads.job(NAMED, WorkloadOptions())
    assert (alone["spec"]["parallelism"], alone["spec"]["completions"]) == (1, 1)
    (more,) = workloads.job(NAMED, WorkloadOptions(pods=4))
    assert (more["spec"]["parallelism"], more["spec"]["completions"]) == (4, 4)


@pytest.mark.parametrize("make", [workloads.deployment, workloads.vllm, workloads.triton])
def test_a_deployment_never_wants_one_claim_more_than_granted(make):
    made = make(TEMPLATE, WorkloadOptions())[0]
    assert made["spec"]["replicas"] == 3
    assert made["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert (
        made["spec"]["selector"]["matchLabels"].items()
        <= made["spec"]["template"]["metadata"]["labels"].items()
    )


@pytest.mark.parametrize(
    ("make", "ports"),
    [(workloads.jupyter, [8888]), (workloads.vllm, [8000]), (workloads.triton, [8000, 8001, 8002])],
)
def test_a_server_has_a_service_and_closed_it_opens_its_ports_alone(make, ports):
    made = {one["kind"]: one for one in make(NAMED, WorkloadOptions(isolated=True))}
    assert [port["port"] for port in made["Service"]["spec"]["ports"]] == ports
    policy = made["NetworkPolicy"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert [[port["port"] for port in rule["ports"]] for rule in policy["ingress"]] == [ports]
    assert {port["port"] for rule in policy["egress"] for port in rule["ports"]} == {53}
    assert "NetworkPolicy" not in {one["kind"] for one in make(NAMED, WorkloadOptions())}


def test_a_policy_is_for_the_pods_beside_it():
    labels = {"Notebook": "notebook-name", "InferenceService": "serving.kserve.io/inferenceservice"}
    for name, make in MAKERS.items():
        made = make(NAMED, WorkloadOptions(isolated=True))
        (policy,) = [one for one in made if one["kind"] == "NetworkPolicy"]
        label = labels.get(name, "app.kubernetes.io/name")
        assert policy["spec"]["podSelector"]["matchLabels"] == {label: made[0]["metadata"]["name"]}


def test_a_port_of_ones_own_makes_a_service():
    assert [one["kind"] for one in workloads.deployment(NAMED, WorkloadOptions())] == ["Deployment"]
    _made, service = workloads.deployment(NAMED, WorkloadOptions(image="a/b:1", port=9000))
    assert service["spec"]["ports"] == [{"name": "http", "port": 9000, "targetPort": 9000}]
    made, headless = workloads.stateful_set(NAMED, WorkloadOptions())
    assert headless["spec"]["clusterIP"] == "None"
    assert made["spec"]["serviceName"] == headless["metadata"]["name"]


def test_vllm_spreads_over_the_devices_of_one_claim_where_their_number_is_known():
    def command(use, **options):
        return specs(workloads.vllm, use, **options)[0]["containers"][0]["command"]

    assert "--tensor-parallel-size=2" in command(NAMED)
    several = ClaimUse("a", "b", requests=(("gpu", 4), ("nic", 1)), vendor="nvidia")
    assert not any("tensor" in word for word in command(several))
    assert "--tensor-parallel-size=4" in command(several, request="gpu")
    assert command(NAMED, weights_claim="qwen")[2] == "/models"


def test_a_pytorch_job_has_a_master_and_the_other_pods_as_workers():
    made = workloads.pytorch_job(TEMPLATE, WorkloadOptions())[0]
    replicas = made["spec"]["pytorchReplicaSpecs"]
    assert {name: one["replicas"] for name, one in replicas.items()} == {"Master": 1, "Worker": 2}
    assert made["spec"]["nprocPerNode"] == "2"
    assert set(workloads.pytorch_job(NAMED, WorkloadOptions())[0]["spec"]["pytorchReplicaSpecs"]) == {
        "Master"
    }


def test_a_service_is_named_with_a_letter_first():
    made = workloads.jupyter(ClaimUse("7b-" + "x" * 60, "vision"), WorkloadOptions())
    names = {one["metadata"]["name"] for one in made}
    assert len(names) == 1
    (name,) = names
    assert name[0].isalpha()
    assert len(name) <= 52


def test_jupyterhub_is_told_in_python_and_in_values_the_same():
    chosen = WorkloadOptions(
        priority="low", capacity=ASSUMED, tolerate=("gpu:NoSchedule",), weights_claim="qwen"
    )
    python = workloads.config(TEMPLATE, chosen)
    assert "'resourceClaimTemplateName': 'sweep'" in python
    calls = [node.value.func.attr for node in ast.parse(python).body if isinstance(node, ast.Expr)]
    assert calls == ["update", "update", "update", "extend", "extend", "extend", "extend"]
    assert "'requests': {'cpu': '8', 'memory': '32Gi'}" in python
    values = workloads.values(TEMPLATE, chosen)
    inside = values["hub"]["extraConfig"]["gpu-claim"]
    assert inside in python
    assert values["singleuser"]["storage"]["extraVolumes"][0]["name"] == "models"


def test_kubespawner_reads_the_environment_back_as_it_is_in_other_pods():
    """It formats each value (`KubeSpawner._expand_env`), and one of them is JSON."""
    use = replace(NAMED, claim_id="0190c8f4-0000-7000-8000-000000000001")
    (update,) = re.findall(
        r"environment\.update\((.*?)^\)", workloads.config(use, WorkloadOptions()), re.S | re.M
    )
    read = {name: value.format(username="mira") for name, value in ast.literal_eval(update.strip()).items()}
    assert read == dict(environment(use))
    assert json.loads(read["MLFLOW_RUN_CONTEXT"]) == {"dragoman.claim": use.claim_id}


@pytest.mark.parametrize(
    ("image", "name", "tag"),
    [
        ("registry:5000/a/b:1", "registry:5000/a/b", "1"),
        ("registry:5000/a/b", "registry:5000/a/b", "latest"),
        ("a/b@sha256:0f", "a/b@sha256", "0f"),
    ],
)
def test_the_chart_gets_name_and_tag_apart(image, name, tag):
    assert workloads.values(NAMED, WorkloadOptions(image=image))["singleuser"]["image"] == {
        "name": name,
        "tag": tag,
    }


@pytest.mark.parametrize("name", written())
def test_manifests_are_those_that_were_looked_at(name):
    """`python -m tests.dra.workload_manifests` writes the files anew."""
    assert written()[name] == (GOLDEN / name).read_text()


def test_no_file_is_of_a_workload_that_is_gone():
    assert {path.name for path in GOLDEN.iterdir()} == set(written())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pods": 1024, "completions": 100_000, "port": 65_535}, ""),
        ({"pods": 1025}, "pods has to be from 0 to 1024."),
        ({"pods": -1}, "pods has to be from 0 to 1024."),
        ({"completions": 100_001}, "completions has to be from 0 to 100000."),
        ({"port": 65_536}, "port has to be from 0 to 65535."),
        ({"image": "a" * 512, "priority": "a" * 253, "cuda": "12.9.100"}, ""),
        ({"image": "a" * 513}, f"“{'a' * 513}” cannot be the image of a manifest."),
        ({"priority": "a" * 254}, f"“{'a' * 254}” cannot be the priority of a manifest."),
        ({"weights_claim": "A"}, "“A” cannot be the weights_claim of a manifest."),
        ({"weights_image": "a b"}, "“a b” cannot be the weights_image of a manifest."),
        ({"request": "a/b"}, "“a/b” cannot be the request of a manifest."),
        ({"cuda": "12"}, "“12” cannot be the cuda of a manifest."),
        ({"tolerate": ("a:NoSchedule", "b")}, "“b” is not a taint such as gpu=yes:NoSchedule."),
        ({"capacity": "spot"}, "“spot” is not a label such as karpenter.sh/capacity-type=spot."),
        (
            {"weights_claim": "a", "weights_image": "b"},
            "Weights come from a volume claim or from an image, not from both.",
        ),
    ],
)
def test_options_have_limits(options, said):
    if not said:
        assert WorkloadOptions(**options).chosen == len(options)
        return
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        WorkloadOptions(**options)


@pytest.mark.parametrize(
    ("use", "options", "pods", "devices"),
    [
        (NAMED, {}, 1, 2),
        (TEMPLATE, {}, 3, 2),
        (TEMPLATE, {"pods": 5}, 5, 2),
        (ClaimUse("a", "b", parallel=3), {}, 1, None),
        (ClaimUse("a", "b", requests=(("gpu", 4), ("nic", 1))), {}, 1, None),
        (ClaimUse("a", "b", requests=(("gpu", 4), ("nic", 1))), {"request": "nic"}, 1, 1),
        (ClaimUse("a", "b", requests=(("gpu", None),)), {}, 1, None),
    ],
)
def test_pods_and_devices_follow_the_claim_and_what_was_chosen(use, options, pods, devices):
    assert (
        pod_count(use, WorkloadOptions(**options)),
        container_device_count(use, WorkloadOptions(**options)),
    ) == (
        pods,
        devices,
    )
