"""The part of a workload that is the same in all of them: the pod, with the claim and the chosen options."""

from __future__ import annotations

from dataclasses import dataclass

from dra.capacity import LABELS
from dra.objects import Manifest
from dra.workloads.use import ASSUMED, LABEL, TAINT, Options, Use

POD_CLAIM = "gpu"  # what a container calls the claim
MODELS = "/models"  # where weights are mounted
NOBODY = 65532  # a user that no image gives rights to
BASE = 40  # characters of the claim's name in the names of workloads: a StatefulSet takes 52 in all
SHM = "2Gi"  # processes of one pod pass tensors through /dev/shm, where a container gets 64 MiB


@dataclass(frozen=True, slots=True)
class Program:
    """
    What runs in the container.

    `ports` are (name, number), the first one that of the readiness probe, which asks for the path `ready`.
    `user` runs it where the image must not choose. `shm` gives it shared memory.
    """

    image: str
    command: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    ports: tuple[tuple[str, int], ...] = ()
    ready: str = ""
    container: str = "main"
    user: int = NOBODY
    shm: bool = False


def name_of(use: Use, suffix: str) -> str:
    """Return a DNS label that starts with a letter, as the name of a Service has to."""
    base = use.name if use.name[:1].isalpha() else f"gpu-{use.name}"
    return f"{base[:BASE].strip('-')}-{suffix}"


def metadata(name: str, use: Use) -> Manifest:
    return {"name": name, "namespace": use.namespace, "labels": labels(name)}


def labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": name}


def pod_spec(use: Use, options: Options, program: Program, *, restart: str = "") -> Manifest:
    """Return the spec of a pod. `restart` is its restartPolicy, "" for that of the kind around it."""
    made: Manifest = {"restartPolicy": restart} if restart else {}
    if options.priority:
        made["priorityClassName"] = options.priority
    made |= placement(options)
    if options.restricted:
        made["securityContext"] = pod_security(program)
    made["resourceClaims"] = [claim_source(use)]
    made["containers"] = [container(options, program)]
    found = volumes(options, program)
    return made | ({"volumes": found} if found else {})


def pod_security(program: Program) -> Manifest:
    """Return what the Pod Security Standard "restricted" asks of a pod."""
    return {
        "runAsNonRoot": True,
        "runAsUser": program.user,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Manifest:
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def claim_source(use: Use) -> Manifest:
    source = "resourceClaimTemplateName" if use.template else "resourceClaimName"
    return {"name": POD_CLAIM, source: use.name}


def claim_wanted(options: Options) -> Manifest:
    """Return the entry of `resources.claims`: the whole claim, or one of its requests."""
    return {"name": POD_CLAIM} | ({"request": options.request} if options.request else {})


def container(options: Options, program: Program) -> Manifest:
    made: Manifest = {"name": program.container, "image": options.image or program.image}
    if program.command:
        made["command"] = list(program.command)
    if program.env:
        made["env"] = [{"name": name, "value": value} for name, value in program.env]
    if program.ports:
        made["ports"] = [{"name": name, "containerPort": number} for name, number in program.ports]
    if program.ready:
        made["readinessProbe"] = {"httpGet": {"path": program.ready, "port": program.ports[0][1]}}
    made["resources"] = {"claims": [claim_wanted(options)]}
    if options.restricted:
        made["securityContext"] = container_security()
    found = mounts(options, program)
    return made | ({"volumeMounts": found} if found else {})


def placement(options: Options) -> Manifest:
    """Return nodeSelector, affinity and tolerations as chosen."""
    made: Manifest = {}
    if found := LABEL.fullmatch(options.capacity):
        made["nodeSelector"] = {found[1]: found[2]}
    elif options.capacity == ASSUMED:
        required = {"nodeSelectorTerms": [unlabelled()]}
        made["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    if options.tolerate:
        made["tolerations"] = tolerations(options)
    return made


def unlabelled() -> Manifest:
    """Return the term of a node selector for nodes whose labels do not say how they are paid for."""
    says = [{"key": key, "operator": "NotIn", "values": list(meanings)} for key, meanings in LABELS.items()]
    return {"matchExpressions": says}


def tolerations(options: Options) -> list[Manifest]:
    return [toleration(one) for one in options.tolerate]


def toleration(taint: str) -> Manifest:
    """Return what tolerates exactly this taint. Raise `ValueError` for a text that is none."""
    found = TAINT.fullmatch(taint)
    if found is None:
        raise ValueError(f"“{taint}” is not a taint.")
    key, value, effect = found.groups()
    match = {"operator": "Equal", "value": value} if value else {"operator": "Exists"}
    return {"key": key, **match, "effect": effect}


def volumes(options: Options, program: Program) -> list[Manifest]:
    made: list[Manifest] = []
    if options.weights_claim:
        source = {"claimName": options.weights_claim, "readOnly": True}
        made.append({"name": "models", "persistentVolumeClaim": source})
    if options.weights_image:
        image = {"reference": options.weights_image, "pullPolicy": "IfNotPresent"}
        made.append({"name": "models", "image": image})
    if program.shm:
        made.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": SHM}})
    return made


def mounts(options: Options, program: Program) -> list[Manifest]:
    made: list[Manifest] = []
    if has_weights(options):
        made.append({"name": "models", "mountPath": MODELS, "readOnly": True})
    if program.shm:
        made.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108 - inside the container
    return made


def has_weights(options: Options) -> bool:
    return bool(options.weights_claim or options.weights_image)
