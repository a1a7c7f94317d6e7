"""
Pods of workloads in manifests: where each kind keeps them, which devices their containers request by number,
and the same pods with a claim instead.

The claim has what the scheduler itself requests for numbers of a DeviceClass (Kubernetes 1.37,
`createRequestsAndMappings` of the plugin dynamicresources): a request for each container that asks and runs
as long as the pod. Init containers use those of later ones; what the largest lacks is one more request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from core.errors import Invalid
from core.yaml_documents import YamlLimits, read_yaml
from dra import quota
from dra.manifests import to_yaml
from dra.objects import Json, Manifest
from dra.quantity import Quantity, QuantityError
from dra.validation import is_label

# Where kinds keep their pods: paths of keys, “*” for each entry of a list or an object, “^” before what runs
# as often as it says itself, however often the rest does.
IN_TEMPLATE, IN_JOB = "spec.template.spec", "template.spec.template.spec"
RAY = ("headGroupSpec.template.spec", "workerGroupSpecs.*.template.spec")
WORKER = "spec.leaderWorkerTemplate"
POD_PATHS: dict[str, tuple[str, ...]] = {
    "Pod": ("spec",),
    "PodTemplate": ("template.spec",),
    "Job": (IN_TEMPLATE, "spec.tasks.*.template.spec"),  # Kubernetes', and Volcano's
    "CronJob": ("spec.jobTemplate.spec.template.spec",),
    **dict.fromkeys(("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"), (IN_TEMPLATE,)),
    **dict.fromkeys(("ReplicationController", "Notebook", "Service"), (IN_TEMPLATE,)),  # Knative's Service
    "TFJob": ("spec.tfReplicaSpecs.*.template.spec",),
    "PyTorchJob": ("spec.pytorchReplicaSpecs.*.template.spec",),
    "MPIJob": ("spec.mpiReplicaSpecs.*.template.spec",),
    "XGBoostJob": ("spec.xgbReplicaSpecs.*.template.spec",),
    "PaddleJob": ("spec.paddleReplicaSpecs.*.template.spec",),
    "JAXJob": ("spec.jaxReplicaSpecs.*.template.spec",),
    "TrainJob": ("spec.trainer",),
    **dict.fromkeys(
        ("TrainingRuntime", "ClusterTrainingRuntime"), (f"spec.template.spec.replicatedJobs.*.{IN_JOB}",)
    ),
    "SparkApplication": ("spec.driver", "spec.executor"),
    "ScheduledSparkApplication": ("spec.template.driver", "spec.template.executor"),
    "JobSet": (f"spec.replicatedJobs.*.{IN_JOB}",),
    "LeaderWorkerSet": (f"{WORKER}.leaderTemplate.spec", f"{WORKER}.workerTemplate.spec"),
    "RayCluster": tuple(f"spec.{path}" for path in RAY),
    "RayJob": (*(f"spec.rayClusterSpec.{path}" for path in RAY), "spec.submitterPodTemplate.spec"),
    "RayService": tuple(f"spec.rayClusterConfig.{path}" for path in RAY),
    **dict.fromkeys(("Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate"), ("spec.templates.*",)),
    "CronWorkflow": ("spec.workflowSpec.templates.*",),
    "LLMInferenceService": ("spec.template", "spec.worker", "spec.^prefill.template", "spec.^prefill.worker"),
    "InferenceService": tuple(f"spec.{part}" for part in ("predictor", "transformer", "explainer")),
}
RUN_ONCE = ("Job", "CronJob")  # whose pods must not be started again by the kubelet when they succeed
COUNTS = (
    *(("replicas", "minReplicas", "replicaCount", "instances"), ("parallelism",)),
    *(("numOfHosts",), ("numNodes",)),
)
# Variables with which runtimes and libraries choose among all devices of a node.
VISIBLE_DEVICES = frozenset(
    ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
) | {"GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK", "HABANA_VISIBLE_DEVICES", "TPU_VISIBLE_CHIPS"}

# Extended resource → class, where `dra.quota` does not count it; partitions and the attribute of their name.
# Kubernetes has no resource “gpu”: operators such as NVIDIA's Dynamo call nvidia.com/gpu so.
MORE_CLASSES = {
    "gpu": "gpu.nvidia.com",
    "habana.ai/gaudi": "gaudi.intel.com",
    "google.com/tpu": "tpu.google.com",
}
PARTITIONS = (
    (re.compile(r"nvidia\.com/mig-(\d+g\.\d+gb(?:\.me)?)", re.ASCII), "gpu.nvidia.com", "profile"),
    (re.compile(r"amd\.com/([a-z]+_nps\d)", re.ASCII), "gpu.amd.com", "partitionProfile"),
)
SHARED_DEVICE = "device.allowMultipleAllocations"  # CEL


@dataclass(frozen=True, slots=True)
class SharePlugin:
    """
    A device plugin that hands out parts of a GPU: `count` are devices, `memory` that of each in `unit` bytes,
    and patterns of `other` resources say more of the same.
    """

    count: str
    memory: str
    unit: int = 2**20
    other: tuple[str, ...] = ()
    device_class: str = "gpu.nvidia.com"

    def uses(self, resource: str) -> bool:
        return resource == self.memory or any(fnmatchcase(resource, pattern) for pattern in self.other)


SHARE_PLUGINS = (
    SharePlugin("nvidia.com/gpu", "nvidia.com/gpumem", other=("nvidia.com/gpumem-*", "nvidia.com/gpucores")),
    SharePlugin("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", other=("volcano.sh/vgpu-*",)),
    SharePlugin("aliyun.com/gpu-count", "aliyun.com/gpu-mem", 2**30, ("aliyun.com/gpu-*",)),
    SharePlugin("", "tencent.com/vcuda-memory", 2**28, ("tencent.com/vcuda-*",)),
    SharePlugin("k8s.amazonaws.com/vgpu", "", other=("k8s.amazonaws.com/vgpu",)),
    SharePlugin(
        "gpu.intel.com/i915",
        "gpu.intel.com/memory.max",
        unit=1,
        other=("gpu.intel.com/millicores",),
        device_class="gpu.intel.com",
    ),
)


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """A pod spec at `path` of an object, which runs `pods` of it at once; `spec` is part of the object."""

    path: tuple[str | int, ...]
    spec: dict[str, Any]
    pods: int


def pod_templates(manifest: Json) -> tuple[list[PodTemplate], bool]:
    """
    Return the pods of an object, and whether they were found by their shape, since the kind is not known.

    Raises Invalid, which names no place, for pods that are malformed.
    """
    paths = POD_PATHS.get(str(manifest.get("kind") or ""), ())
    found = [pod for path in paths for pod in _at(manifest, path.split("."), (), 1)]
    return (
        (found, False) if found or "Pod" in str(manifest.get("kind")) else ([*_shaped(manifest, (), 1)], True)
    )


def _at(value: Any, steps: list[str], path: tuple[str | int, ...], pods: int) -> Iterator[PodTemplate]:
    if isinstance(value, dict):
        pods *= _factor(value)
    if not steps:
        if value is not None:
            yield PodTemplate(path, mapping(value, "the spec of the pod"), pods)
    elif steps[0] == "*":
        for key, entry in _entries(value):
            yield from _at(entry, steps[1:], (*path, key), pods)
    elif isinstance(value, dict):
        key = steps[0].removeprefix("^")
        times = (pods if key == steps[0] else 1) * _of_group(value, key)
        yield from _at(value.get(key), steps[1:], (*path, key), times)


def _shaped(value: Any, path: tuple[str | int, ...], pods: int) -> Iterator[PodTemplate]:
    """Yield what has a list of containers or, without one, resources, wherever it is."""
    if isinstance(value, dict):
        pods *= _factor(value)
        has_containers = isinstance(value.get("containers"), list)
        if has_containers or isinstance(value.get("resources"), dict):
            yield PodTemplate(path, value, pods)
        if has_containers:
            return
    for key, entry in _entries(value):
        times = _of_group(value, key) if isinstance(value, dict) else 1
        yield from _shaped(entry, (*path, key), pods * times)


def _entries(value: Any) -> list[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) else []


def passed_through(part: Any) -> list[str]:
    """Return what KubeVirt passes through to virtual machines: a device plugin's resource for each device."""
    own = part.get("deviceName") if isinstance(part, dict) else None
    inner = [name for _key, entry in _entries(part) for name in passed_through(entry)]
    return [own, *inner] if isinstance(own, str) else inner


def _factor(part: Mapping[str, Any]) -> int:
    """Return how often a part of a workload runs what is in it."""
    factor = 1
    for names in COUNTS:
        counts = [part[name] for name in names if type(part.get(name)) is int and part[name] > 0]
        factor *= counts[0] if counts else 1
    completions = part.get("completions")
    return min(factor, completions) if type(completions) is int and completions > 0 else factor


def _of_group(group: Mapping[str, Any], key: str | int) -> int:
    """Return how many pods of a group of a LeaderWorkerSet have a template; its size counts the leader."""
    size = group.get("size")
    if key != "workerTemplate" or type(size) is not int:
        return 1
    return max(1, size - 1 if group.get("leaderTemplate") else size)


def mapping(value: Any, what: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Invalid(f"{what} must be an object")
    return value


def mappings(value: Any, what: str) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise Invalid(f"{what} must be a list")
    return [mapping(entry, f"an entry of {what}") for entry in value]


@dataclass(slots=True)
class Container:
    """A container, whether it runs as long as the pod, and the key of its resources."""

    raw: dict[str, Any]
    stays: bool = True
    key: str = "resources"

    @property
    def wanted(self) -> dict[str, Any]:
        """Return what it requests: the API server fills in requests from limits."""
        resources = mapping(self.raw.get(self.key), self.key)
        return mapping(resources.get("limits"), "limits") | mapping(resources.get("requests"), "requests")


def own_container(pod: dict[str, Any]) -> Container | None:
    """
    Return the container that `pod` is itself, None if it has some: the trainer of a TrainJob, Spark's driver
    or executor, or what an operator or chart makes pods of.
    """
    gpu = pod.get("gpu")
    if isinstance(gpu, dict) and "quantity" in gpu:
        return Container({"resources": {"limits": {str(gpu.get("name")): gpu["quantity"]}}})
    key = next((key for key in ("resourcesPerNode", "resources") if key in pod), "")
    return Container(pod, key=key) if key and "containers" not in pod else None


def containers(pod: dict[str, Any]) -> list[Container]:
    """
    Return the containers in the order in which they start. Beside those of Kubernetes: Argo's container,
    script, containerSet and sidecars, and KServe's model.
    """
    if own := own_container(pod):
        return [own]
    found = [
        Container(raw, stays=raw.get("restartPolicy") == "Always")
        for raw in mappings(pod.get("initContainers"), "initContainers")
    ]
    found += [Container(raw) for raw in pod.values() if isinstance(raw, dict) and "resources" in raw]
    several = mapping(pod.get("containerSet"), "containerSet")
    for part, name in ((several, "containers"), (pod, "containers"), (pod, "sidecars")):
        found += [Container(raw) for raw in mappings(part.get(name), name)]
    return found


@dataclass(frozen=True, slots=True)
class Ask:
    """
    What a container requests of one kind of device; `names` are the resources that say so, `text` has their
    amounts. `share` is whether it is a part of a device that others use too, `memory` the bytes of that.
    """

    names: tuple[str, ...]
    text: str
    count: int
    device_class: str
    expression: str = ""
    share: bool = False
    memory: int | None = None

    @property
    def kind(self) -> tuple[object, ...]:
        return (self.device_class, self.expression, self.memory, self.names)

    def device_request(self, count: int) -> Manifest:
        fields: Manifest = {"deviceClassName": self.device_class, "count": count}
        if self.expression:
            fields["selectors"] = [{"cel": {"expression": self.expression}}]
        if self.memory:
            fields["capacity"] = {"requests": {"memory": f"{max(1, self.memory // 2**20)}Mi"}}
        return fields


def asks(wanted: Json, classes: Mapping[str, str], replicas: Mapping[str, int]) -> list[Ask]:
    """
    Return the devices that a container requests by number. `classes` maps extended resources to classes
    beside those known, `replicas` says which are time-sliced or shared by MPS, and by how many.
    """
    found, rest = [], dict(wanted)
    for plugin in SHARE_PLUGINS:
        names = [name for name in rest if plugin.uses(name)]
        if not names:
            continue
        names += [name for name in (plugin.count,) if name in rest and name not in names]
        amount = _amount(rest, plugin.memory)
        count = max(1, _amount(rest, plugin.count))
        memory = amount * plugin.unit or None
        found.append(_ask(rest, names, count, plugin.device_class, SHARED_DEVICE, share=True, memory=memory))
        rest = {name: value for name, value in rest.items() if name not in names}
    for name in sorted(rest):
        whole = name.removesuffix(".shared")
        is_shared = whole != name or name in replicas
        device_class = MORE_CLASSES.get(whole) or quota.class_of_resource(whole, dict(classes))
        expression = SHARED_DEVICE if is_shared else ""
        for pattern, domain, attribute in PARTITIONS:
            if part := pattern.fullmatch(whole):
                device_class = device_class or domain
                selector = f'device.attributes["{domain}"].?{attribute}.orValue("") == "{part[1]}"'
                expression = f"{selector} && {expression}" if expression else selector
        if device_class and (count := _amount(rest, name)):
            found.append(_ask(rest, [name], count, device_class, expression, share=is_shared))
    return found


def _ask(wanted: Json, names: list[str], count: int, device_class: str, expression: str, **more: Any) -> Ask:
    text = ", ".join(f"{name}: {wanted[name]}" for name in sorted(names))
    return Ask(tuple(sorted(names)), text, count, device_class, expression, **more)


def _amount(wanted: Json, name: str) -> int:
    """Return a whole amount, 0 if there is none. Raise Invalid for anything else."""
    if name not in wanted:
        return 0
    try:
        quantity = Quantity.parse(wanted[name])
    except QuantityError as error:
        raise Invalid(f"{name}: {error}".rstrip(".")) from None
    if quantity.nano < 0 or quantity.nano % 10**9:
        raise Invalid(f"{name} is {wanted[name]}; it must be a whole number")
    return int(quantity.nano // 10**9)


@dataclass(slots=True)
class Proposal:
    """
    A claim for what the containers of a pod request by number: `asked` by place of the container. `uses` are
    the requests of the claim that each is given.
    """

    rows: list[Container]
    asked: dict[int, list[Ask]]
    requests: list[Manifest] = field(default_factory=list)
    uses: dict[int, list[str]] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)  # names of requests

    @property
    def spec(self) -> Manifest:
        return {"devices": {"requests": self.requests}}

    @property
    def asks(self) -> list[Ask]:
        return [ask for asks in self.asked.values() for ask in asks]

    @property
    def share(self) -> bool:
        return any(ask.share for ask in self.asks)

    @property
    def memory(self) -> int | None:
        return max((ask.memory for ask in self.asks if ask.memory), default=None)

    @property
    def text(self) -> str:
        """Return what is requested: of several containers each with its name."""
        texts = {at: ", ".join(ask.text for ask in found) for at, found in self.asked.items()}
        if len(texts) == 1:
            return next(iter(texts.values()))
        return ", ".join(f"{text} ({self.rows[at].raw.get('name')})" for at, text in texts.items())

    @property
    def sentence(self) -> str:
        if self.share:
            size = f"a share of {self.memory // 2**20} MiB" if self.memory else "a share"
            return (
                f"That is a part of a GPU: this claim requests {size} of a device that others use too. "
                "Choose a profile with a share or a partition."
            )
        if len(self.requests) == 1:
            return "This claim requests the same devices."
        return "This claim has a request for each container, as the scheduler makes for extended resources."

    def add(self, of_kind: Mapping[int, Ask]) -> None:
        """Add the requests for containers that ask for one kind of device."""
        lasting = {
            at: self._request(at, ask, ask.count) for at, ask in of_kind.items() if self.rows[at].stays
        }
        lacking: dict[int, int] = {}
        for at, ask in of_kind.items():
            names, left = self.uses.setdefault(at, []), ask.count
            for later in (at,) if at in lasting else (later for later in lasting if later > at):
                if left > 0:
                    names.append(lasting[later])
                    left -= of_kind[later].count
            if left > 0:
                lacking[at] = left
        if lacking:
            largest = max(lacking, key=lambda at: lacking[at])
            name = self._request(largest, of_kind[largest], lacking[largest])
            for at in lacking:
                self.uses[at].append(name)

    def _request(self, at: int, ask: Ask, count: int) -> str:
        name = str(self.rows[at].raw.get("name") or "gpu")
        name = name if is_label(name) and len(name) < 60 else f"container-{at + 1}"
        name = unique(name, self.taken)
        self.taken.add(name)
        self.requests.append({"name": name, "exactly": ask.device_request(count)})
        return name


def proposed(pod: dict[str, Any], classes: Mapping[str, str], replicas: Mapping[str, int]) -> Proposal | None:
    """Return the claim for the devices that a pod requests by number; None without any."""
    rows = containers(pod)
    asked = {at: found for at, row in enumerate(rows) if (found := asks(row.wanted, classes, replicas))}
    proposal = Proposal(rows, asked)
    for kind in dict.fromkeys(ask.kind for ask in proposal.asks):
        of_kind = ((at, ask) for at, found in asked.items() for ask in found if ask.kind == kind)
        proposal.add(dict(of_kind))
    if len(proposal.requests) == 1:  # containers use the whole claim without naming the request
        proposal.requests[0]["name"] = "gpu"
    return proposal if proposal.requests else None


def unique(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free


def object_name(text: str) -> str:
    """Return the text as the name of an object, “gpu” if nothing is left of it."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:50].rstrip("-") or "gpu"


def use_claim(pod: dict[str, Any], proposal: Proposal, kind: str, name: str) -> str:
    """
    Change a pod so that its containers use a claim, or one of a template, where they requested numbers.
    Return why that is impossible, "" if it is done.
    """
    if "resourcesPerNode" in pod:
        return (
            f"A TrainJob has no field for claims: refer to {kind} {name} in the pods of its TrainingRuntime."
        )
    if own_container(pod):
        return f"An operator or chart makes its pods: where that takes claims, name {kind} {name} in it."
    is_argo = "containers" not in pod and any(part in pod for part in ("container", "script", "containerSet"))
    if is_argo and "podSpecPatch" in pod:
        return f"Refer to {kind} {name} in its podSpecPatch."
    entries = mappings(pod.get("resourceClaims"), "resourceClaims")
    entry = unique("gpu", {str(one.get("name")) for one in entries})
    added = {"name": entry, f"r{kind[1:]}Name": name}
    if is_argo:
        pod["podSpecPatch"] = to_yaml({"resourceClaims": [added]})
    else:
        pod["resourceClaims"] = [*entries, added]
    several = len(proposal.spec["devices"]["requests"]) > 1
    for at, row in enumerate(containers(pod)):
        if at not in proposal.uses:
            continue
        resources = row.raw[row.key]
        dropped = {resource for ask in proposal.asked[at] for resource in ask.names}
        for part in ("limits", "requests"):
            wanted = resources.pop(part, None) or {}
            if left := {key: value for key, value in wanted.items() if key not in dropped}:
                resources[part] = left
        used = [{"name": entry} | ({"request": one} if several else {}) for one in proposal.uses[at]]
        resources["claims"] = [*mappings(resources.get("claims"), "claims"), *used]
    return ""


def run_once(template: PodTemplate) -> list[str]:
    """Set the restartPolicy that the pod of a Job needs, and say so."""
    policy = template.spec.get("restartPolicy")
    if policy in ("Never", "OnFailure") or "tasks" in template.path:
        return []
    template.spec["restartPolicy"] = "Never"
    was = policy or "missing"
    return [f"restartPolicy is Never now, it was {was}: the pods of a Job need Never or OnFailure."]


PATCH_LIMITS = YamlLimits(bytes=64_000, documents=1, levels=20, nodes=1_000)


def claim_entries(pod: Json) -> list[dict[str, Any]]:
    """Return the entries of `resourceClaims`, also those of Argo's podSpecPatch."""
    entries = mappings(pod.get("resourceClaims"), "resourceClaims")
    patch = pod.get("podSpecPatch")
    if isinstance(patch, str):
        for _node, value in read_yaml(patch, "podSpecPatch", PATCH_LIMITS):
            entries += mappings(mapping(value, "podSpecPatch").get("resourceClaims"), "resourceClaims")
    return entries


def without_visible_devices(pod: dict[str, Any]) -> list[str]:
    """Remove variables that choose among all devices from the containers of a pod, and say so."""
    removed: list[str] = []
    for row in containers(pod):
        variables = mappings(row.raw.get("env"), "env")
        if found := [str(one["name"]) for one in variables if str(one.get("name")) in VISIBLE_DEVICES]:
            removed += found
            row.raw["env"] = [one for one in variables if str(one.get("name")) not in VISIBLE_DEVICES]
    verb = "is" if len(set(removed)) == 1 else "are"
    names = ", ".join(dict.fromkeys(removed))
    return [f"{names} {verb} removed: the claim decides which devices a container sees."] if removed else []


PLUGIN_LIMITS = YamlLimits(bytes=64_000, documents=5, levels=20, nodes=2_000)


def shared_replicas(text: Any) -> dict[str, int]:
    """Return the extended resources that NVIDIA's device plugin is to share, and among how many."""
    found: dict[str, int] = {}
    if isinstance(text, str) and "replicas" in text:
        for _node, value in read_yaml(text, "The configuration", PLUGIN_LIMITS):
            sharing = mapping(mapping(value, "it").get("sharing"), "sharing")
            for strategy in ("timeSlicing", "mps"):
                for row in mappings(mapping(sharing.get(strategy), strategy).get("resources"), "resources"):
                    if type(row.get("replicas")) is int and row["replicas"] > 1:
                        found[str(row.get("name"))] = row["replicas"]
    return found
