"""
Parts of all workloads: the claim and its options, images, the pod, its Service and NetworkPolicy.

The images are public examples per vendor; people name their own. "" means that no public image is known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from fractions import Fraction

from dra.objects import DeviceRequest, Json, Manifest, alternatives, device_requests, requests
from dra.placement import LABELS
from dra.quantity import Quantity, QuantityError

# RFC 1123 subdomain, as names of PriorityClasses and volume claims are.
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
# Characters of an image reference with tag and digest (OCI distribution spec); nothing that ends a string.
REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*", re.ASCII)
QUALIFIED = r"(?:[a-z0-9.-]+/)?[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
VALUE = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
TAINT = re.compile(rf"({QUALIFIED})(?:=({VALUE})?)?:(NoSchedule|NoExecute|PreferNoSchedule)", re.ASCII)
LABEL = re.compile(rf"({QUALIFIED})=({VALUE})", re.ASCII)
CUDA = re.compile(r"(\d{1,2})\.(\d{1,2})(?:\.\d{1,3})?", re.ASCII)
CLAIM_TAG = "dragoman.claim"  # of runs of experiments: the id of the claim that they use
ASSUMED = "assumed"  # on-demand, because no label says otherwise
PARTITION_CLASSES = ("mig.", "partition.")
MAX_NAME_LENGTH, MAX_REFERENCE_LENGTH = 253, 512
MAX_PODS, MAX_COMPLETIONS, LAST_PORT = 1024, 100_000, 65_535


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """
    A claim as pods use it.

    `name` is that of the ResourceClaim, which all pods share, or with `template` that of the
    ResourceClaimTemplate, which makes a claim for each of up to `parallel` pods. `requests` are (name,
    devices), None where their number is known only once they are allocated. `vendor` is a key of
    `IMAGES` below. `claim_id` is the portal's id, "" if it has none. With `separate`, each request is for a
    container of its own. `partial` are shares and partitions of a GPU. `memory_part` is the part of a
    device's memory that the claim may use, or with `each_process` each process of it; None if unknown.
    """

    name: str
    namespace: str
    template: bool = False
    parallel: int = 1
    requests: tuple[tuple[str, int | None], ...] = ()
    vendor: str = ""
    claim_id: str = ""
    separate: bool = False
    partial: bool = False
    memory_part: Fraction | None = Fraction(1)
    each_process: bool = False


@dataclass(frozen=True, slots=True)
class WorkloadOptions:
    """
    What the person chose; empty and 0 mean "as usual". `ValueError` for what could break out of a manifest.

    `request` is the only request that the container sees. `pods` run at once, `completions` are the pods of a
    Job in all. `port` is what the own image serves. `tolerate` holds taints as kubectl writes them,
    "key=value:NoSchedule". `capacity` is a label of nodes, "key=value", or `ASSUMED`. `restricted` is the Pod
    Security Standard, `isolated` a NetworkPolicy that closes all but what the server needs. Weights come from
    a volume claim or from an image, not both. `cuda` is the version in the image, "12.9".
    """

    image: str = ""
    request: str = ""
    pods: int = 0
    completions: int = 0
    port: int = 0
    priority: str = ""
    tolerate: tuple[str, ...] = ()
    capacity: str = ""
    restricted: bool = True
    isolated: bool = False
    weights_claim: str = ""
    weights_image: str = ""
    cuda: str = ""

    def __post_init__(self) -> None:
        shapes = {
            "image": (REFERENCE, MAX_REFERENCE_LENGTH),
            "weights_image": (REFERENCE, MAX_REFERENCE_LENGTH),
            "request": (SUBDOMAIN, MAX_NAME_LENGTH),
            "priority": (SUBDOMAIN, MAX_NAME_LENGTH),
            "weights_claim": (SUBDOMAIN, MAX_NAME_LENGTH),
            "cuda": (CUDA, 9),
        }
        for name, (shape, max_length) in shapes.items():
            text = getattr(self, name)
            if text and (len(text) > max_length or not shape.fullmatch(text)):
                raise ValueError(f"“{text}” cannot be the {name} of a manifest.")
        if wrong := [taint for taint in self.tolerate if not TAINT.fullmatch(taint)]:
            raise ValueError(f"“{wrong[0]}” is not a taint such as gpu=yes:NoSchedule.")
        if self.capacity not in ("", ASSUMED) and not LABEL.fullmatch(self.capacity):
            raise ValueError(f"“{self.capacity}” is not a label such as karpenter.sh/capacity-type=spot.")
        if self.weights_claim and self.weights_image:
            raise ValueError("Weights come from a volume claim or from an image, not from both.")
        for name, maximum in (("pods", MAX_PODS), ("completions", MAX_COMPLETIONS), ("port", LAST_PORT)):
            if not 0 <= getattr(self, name) <= maximum:
                raise ValueError(f"{name} has to be from 0 to {maximum}.")

    @property
    def chosen(self) -> int:
        """How many options differ from the usual."""
        defaults = WorkloadOptions()
        return sum(getattr(self, option.name) != getattr(defaults, option.name) for option in fields(self))


def pod_count(use: ClaimUse, options: WorkloadOptions) -> int:
    """Return how many pods run at once: what was chosen, else a claim each, or one pod of a named claim."""
    return options.pods or (use.parallel if use.template else 1)


def container_device_count(use: ClaimUse, options: WorkloadOptions) -> int | None:
    """
    Return how many devices the container sees; None where that cannot be told.

    Of several requests some are not GPUs (a NIC, say), so they are not added up.
    """
    counts = [count for name, count in use.requests if options.request in ("", name)]
    return counts[0] if len(counts) == 1 else None


def request_counts(spec: Json) -> tuple[tuple[str, int | None], ...]:
    """Return the requests of a claim's spec with their devices, for `Use`."""
    return tuple(
        (str(request.get("name") or ""), _count(alternatives(request))) for request in requests(spec)
    )


def is_separate(spec: Json) -> bool:
    """
    Return whether a spec has several requests of one vendor's classes, so each serves a container of its own.

    A GPU and the NIC beside it serve one container.
    """
    domains = {".".join(row.class_name.split(".")[-2:]) for row in device_requests(spec)}
    return len(requests(spec)) > 1 and len(domains) == 1


def is_partial(spec: Json) -> bool:
    """Return whether every request is for a share of a GPU or for a partition."""
    rows = device_requests(spec)
    return bool(rows) and all(row.capacity or row.class_name.startswith(PARTITION_CLASSES) for row in rows)


def memory_part(spec: Json, device_memory: int) -> Fraction | None:
    """
    Return the part of a device's memory that a claim may use, at most 1; None if it is limited and the
    memory of the largest matching device, in bytes, is unknown (0).

    Limits are the memory of a share (KEP 5075) and the pinned memory of MPS in the settings of NVIDIA's
    driver.
    """
    amounts = [amount for row in device_requests(spec) for amount in _memory_amounts(row.capacity)]
    amounts += _process_limits(spec)
    if not amounts:
        return Fraction(1)
    with suppress(QuantityError):
        if device_memory:
            limit = min(Quantity.parse(amount).bytes for amount in amounts)
            return min(Fraction(limit, device_memory), Fraction(1))
    return None


def limits_each_process(spec: Json) -> bool:
    """Return whether only the pinned memory of MPS limits memory: it is that of each process, not of all."""
    shares = any(_memory_amounts(row.capacity) for row in device_requests(spec))
    return bool(_process_limits(spec)) and not shares


def _process_limits(spec: Json) -> list[str]:
    parameters = [
        (config.get("opaque") or {}).get("parameters") or {}
        for config in (spec.get("devices") or {}).get("config") or ()
    ]
    sharing = [one.get("sharing") or {} for one in parameters]
    limits = [(one.get("mpsConfig") or {}).get("defaultPinnedDeviceMemoryLimit") for one in sharing]
    return [str(limit) for limit in limits if limit]


def _memory_amounts(capacity: Json) -> list[str]:
    return [str(amount) for name, amount in capacity.items() if name.rpartition("/")[2] == "memory"]


def _count(alternatives: Sequence[DeviceRequest]) -> int | None:
    counts = {None if alternative.all else alternative.count for alternative in alternatives}
    return counts.pop() if len(counts) == 1 else None


UBUNTU = "docker.io/library/ubuntu:24.04"


@dataclass(frozen=True, slots=True)
class Images:
    """`look` is a shell command that lists the devices; the NVIDIA driver brings nvidia-smi with it."""

    look: str
    base: str = UBUNTU
    torch: str = ""
    jupyter: str = ""
    vllm: str = ""
    triton: str = ""


NVIDIA = Images(
    look="nvidia-smi -L || ls -l /dev",
    torch="docker.io/pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime",
    jupyter="quay.io/jupyter/pytorch-notebook:cuda12-latest",
    vllm="docker.io/vllm/vllm-openai:v0.11.0",
    triton="nvcr.io/nvidia/tritonserver:25.12-py3",
)

# By the names of `dra.devices`; NVIDIA's where no device is known.
IMAGES = {
    "": NVIDIA,
    "nvidia": NVIDIA,
    "amd": Images(
        look="rocm-smi || ls -l /dev/kfd /dev/dri",
        base="docker.io/rocm/rocm-terminal:latest",
        torch="docker.io/rocm/pytorch:latest",
        vllm="docker.io/rocm/vllm:latest",
    ),
    "intel": Images(look="ls -l /dev/dri"),
    "gaudi": Images(look="hl-smi || ls -l /dev/accel"),
    "tpu": Images(look="ls -l /dev/vfio /dev/accel*", vllm="docker.io/vllm/vllm-tpu:latest"),
    "other": Images(look="ls -l /dev"),
}


POD_CLAIM = "gpu"  # what a container calls the claim
MODELS = "/models"  # where weights are mounted
NOBODY = 65532  # a user that no image gives rights to
BASE = 40  # characters of the claim's name in the names of workloads: a StatefulSet takes 52 in all
# CPUs and GiB of memory that a container requests for each device, and for a share or partition of one.
PER_DEVICE, PER_PART = (4, 16), (1, 4)
SHM = "2Gi"  # processes of one pod pass tensors through /dev/shm, where a container gets 64 MiB


@dataclass(frozen=True, slots=True)
class ContainerProgram:
    """
    What runs in the container.

    `ports` are (name, number), the first one that of the readiness probe, which asks for the path `ready`.
    `user` runs it where the image must not choose. `shm` gives it shared memory. A `repeatable` program can
    run in several containers of a pod.
    """

    image: str
    command: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    ports: tuple[tuple[str, int], ...] = ()
    ready: str = ""
    container: str = "main"
    user: int = NOBODY
    shm: bool = False
    repeatable: bool = False


def workload_name(use: ClaimUse, suffix: str) -> str:
    """Return a DNS label that starts with a letter, as the name of a Service has to."""
    base = use.name if use.name[:1].isalpha() else f"gpu-{use.name}"
    return f"{base[:BASE].strip('-')}-{suffix}"


def metadata(name: str, use: ClaimUse) -> Manifest:
    return {"name": name, "namespace": use.namespace, "labels": labels(name)}


def labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": name}


def pod_spec(
    use: ClaimUse, options: WorkloadOptions, program: ContainerProgram, *, restart: str = ""
) -> Manifest:
    """Return the spec of a pod. `restart` is its restartPolicy, "" for that of the kind around it."""
    spec: Manifest = {"restartPolicy": restart} if restart else {}
    if options.priority:
        spec["priorityClassName"] = options.priority
    spec |= placement(options)
    if options.restricted:
        spec["securityContext"] = pod_security(program)
    spec["resourceClaims"] = [claim_source(use)]
    spec["containers"] = containers(use, options, program)
    pod_volumes = volumes(options, program)
    return spec | ({"volumes": pod_volumes} if pod_volumes else {})


def pod_security(program: ContainerProgram) -> Manifest:
    """Return what the Pod Security Standard "restricted" asks of a pod."""
    return {
        "runAsNonRoot": True,
        "runAsUser": program.user,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Manifest:
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def claim_source(use: ClaimUse) -> Manifest:
    source = "resourceClaimTemplateName" if use.template else "resourceClaimName"
    return {"name": POD_CLAIM, source: use.name}


def claim_wanted(options: WorkloadOptions) -> Manifest:
    """Return the entry of `resources.claims`: the whole claim, or one of its requests."""
    return {"name": POD_CLAIM} | ({"request": options.request} if options.request else {})


def containers(use: ClaimUse, options: WorkloadOptions, program: ContainerProgram) -> list[Manifest]:
    """Return one container, or with a `repeatable` program one for each separate request."""
    if not (use.separate and program.repeatable) or options.request:
        return [container(use, options, program)]
    return [
        container(use, replace(options, request=name), replace(program, container=name))
        if number == 0
        else container(use, replace(options, request=name), replace(program, container=name, ports=()))
        for number, (name, _devices) in enumerate(use.requests)
    ]


def environment(use: ClaimUse) -> tuple[tuple[str, str], ...]:
    """
    Return the claim's variables: its name, and if the portal knows it its id, also as a tag that MLflow
    (https://mlflow.org/docs/latest/api_reference/python_api/mlflow.environment_variables.html) and Weights &
    Biases (https://docs.wandb.ai/models/track/environment-variables) put on every run.
    """
    if not use.claim_id:
        return (("CLAIM_NAME", use.name),)
    return (
        ("CLAIM_ID", use.claim_id),
        ("CLAIM_NAME", use.name),
        ("MLFLOW_RUN_CONTEXT", json.dumps({CLAIM_TAG: use.claim_id})),
        ("WANDB_TAGS", f"{CLAIM_TAG}={use.claim_id}"),
    )


def resources(use: ClaimUse, options: WorkloadOptions) -> Manifest:
    """Return what a container requests: CPU, memory, and the claim; an unknown number of devices is one."""
    counts = [count or 1 for name, count in use.requests if options.request in ("", name)]
    devices = max(sum(counts) if use.separate else max(counts, default=1), 1)
    cpus, gibibytes = PER_PART if use.partial else PER_DEVICE
    requested = {"cpu": str(cpus * devices), "memory": f"{gibibytes * devices}Gi"}
    return {"requests": requested, "claims": [claim_wanted(options)]}


def container(use: ClaimUse, options: WorkloadOptions, program: ContainerProgram) -> Manifest:
    manifest: Manifest = {"name": program.container, "image": options.image or program.image}
    if program.command:
        manifest["command"] = list(program.command)
    variables = (*program.env, *environment(use))
    manifest["env"] = [{"name": name, "value": value} for name, value in variables]
    if program.ports:
        manifest["ports"] = [{"name": name, "containerPort": number} for name, number in program.ports]
    if program.ready:
        manifest["readinessProbe"] = {"httpGet": {"path": program.ready, "port": program.ports[0][1]}}
    manifest["resources"] = resources(use, options)
    if options.restricted:
        manifest["securityContext"] = container_security()
    volume_mounts = mounts(options, program)
    return manifest | ({"volumeMounts": volume_mounts} if volume_mounts else {})


def placement(options: WorkloadOptions) -> Manifest:
    """Return nodeSelector, affinity and tolerations as chosen."""
    scheduling: Manifest = {}
    if match := LABEL.fullmatch(options.capacity):
        scheduling["nodeSelector"] = {match[1]: match[2]}
    elif options.capacity == ASSUMED:
        required = {"nodeSelectorTerms": [unlabeled()]}
        scheduling["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
        }
    if options.tolerate:
        scheduling["tolerations"] = tolerations(options)
    return scheduling


def unlabeled() -> Manifest:
    """Return the term of a node selector for nodes whose labels do not say how they are paid for."""
    says = [{"key": key, "operator": "NotIn", "values": list(meanings)} for key, meanings in LABELS.items()]
    return {"matchExpressions": says}


def tolerations(options: WorkloadOptions) -> list[Manifest]:
    return [toleration(taint) for taint in options.tolerate]


def toleration(taint: str) -> Manifest:
    """Return what tolerates exactly this taint. Raise `ValueError` for a text that is none."""
    parsed = TAINT.fullmatch(taint)
    if parsed is None:
        raise ValueError(f"“{taint}” is not a taint.")
    key, value, effect = parsed.groups()
    match = {"operator": "Equal", "value": value} if value else {"operator": "Exists"}
    return {"key": key, **match, "effect": effect}


def volumes(options: WorkloadOptions, program: ContainerProgram) -> list[Manifest]:
    manifests: list[Manifest] = []
    if options.weights_claim:
        source = {"claimName": options.weights_claim, "readOnly": True}
        manifests.append({"name": "models", "persistentVolumeClaim": source})
    if options.weights_image:
        image = {"reference": options.weights_image, "pullPolicy": "IfNotPresent"}
        manifests.append({"name": "models", "image": image})
    if program.shm:
        manifests.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": SHM}})
    return manifests


def mounts(options: WorkloadOptions, program: ContainerProgram) -> list[Manifest]:
    manifests: list[Manifest] = []
    if has_weights(options):
        manifests.append({"name": "models", "mountPath": MODELS, "readOnly": True})
    if program.shm:
        manifests.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108 - inside the container
    return manifests


def has_weights(options: WorkloadOptions) -> bool:
    return bool(options.weights_claim or options.weights_image)


DNS = 53


def service(
    name: str, use: ClaimUse, ports: Sequence[tuple[str, int]], *, headless: bool = False
) -> Manifest:
    spec: Manifest = {"clusterIP": "None"} if headless else {}
    spec["selector"] = labels(name)
    if ports:
        spec["ports"] = [{"name": name, "port": number, "targetPort": number} for name, number in ports]
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata(name, use), "spec": spec}


def policies(
    name: str,
    use: ClaimUse,
    options: WorkloadOptions,
    *,
    ports: Sequence[tuple[str, int]] = (),
    between: Sequence[int] = (),
    pods: Mapping[str, str] | None = None,
) -> list[Manifest]:
    """
    Return the policy if the options ask for it.

    Pods of the namespace reach `ports`; the pods themselves reach each other on `between`, and DNS. `pods`
    are their labels where an operator gives them others than `labels`.
    """
    if not options.isolated:
        return []
    chosen = {"matchLabels": dict(pods or labels(name))}
    resolver = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
    }
    ingress: list[Manifest] = []
    if ports:
        ingress.append({"from": [{"podSelector": {}}], "ports": _tcp(number for _name, number in ports)})
    egress: list[Manifest] = [
        {
            "to": [resolver],
            "ports": [{"protocol": "UDP", "port": DNS}, {"protocol": "TCP", "port": DNS}],
        }
    ]
    if between:
        ingress.append({"from": [{"podSelector": chosen}], "ports": _tcp(between)})
        egress.append({"to": [{"podSelector": chosen}], "ports": _tcp(between)})
    spec = {
        "podSelector": chosen,
        "policyTypes": ["Ingress", "Egress"],
        "ingress": ingress,
        "egress": egress,
    }
    kind = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
    return [{**kind, "metadata": metadata(name, use), "spec": spec}]


def _tcp(numbers: Iterable[int]) -> list[Manifest]:
    return [{"protocol": "TCP", "port": number} for number in numbers]
