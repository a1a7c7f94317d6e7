"""
Workloads that use a claim, as manifests: Pod, Job, Deployment, StatefulSet; JupyterLab, Triton and vLLM with
a Service; Kubeflow's Notebook and PyTorchJob; KServe's InferenceService; JupyterHub's KubeSpawner as Python
and as Helm values.

Pure functions: each takes (`ClaimUse`, `WorkloadOptions`) and returns the documents in the order of applying.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pprint import pformat
from textwrap import indent

from dra.objects import Manifest
from dra.workload_parts import (
    ASSUMED,
    IMAGES,
    MODELS,
    ClaimUse,
    ContainerProgram,
    WorkloadOptions,
    claim_source,
    container_device_count,
    container_security,
    environment,
    has_weights,
    labels,
    metadata,
    mounts,
    placement,
    pod_count,
    pod_security,
    pod_spec,
    policies,
    resources,
    service,
    tolerations,
    unlabeled,
    volumes,
    workload_name,
)

# A new pod that comes before an old one has gone would want a claim more than the team was granted.
ONE_BY_ONE = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


def shower(use: ClaimUse, options: WorkloadOptions, *, stays: bool = False) -> ContainerProgram:
    """Return a program that shows the devices, and then stays for ten minutes or for ever."""
    images = IMAGES[use.vendor]
    command = ("sh", "-c", f"{images.look}; sleep {'infinity' if stays else 600}")
    ports = (("http", options.port),) if options.port else ()
    # An own image knows what it runs, once it serves something or stays by itself.
    return ContainerProgram(
        images.base,
        () if options.image and stays else command,
        ports=ports if stays else (),
        repeatable=True,
    )


def pod(use: ClaimUse, options: WorkloadOptions) -> list[Manifest]:
    name = workload_name(use, "pod")
    spec = pod_spec(use, options, shower(use, options), restart="Never")
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata(name, use), "spec": spec}
    return [manifest, *policies(name, use, options)]


def job(use: ClaimUse, options: WorkloadOptions) -> list[Manifest]:
    """Return an Indexed Job: each pod finds its number in JOB_COMPLETION_INDEX."""
    name, pods = workload_name(use, "job"), pod_count(use, options)
    inner = pod_spec(use, options, shower(use, options), restart="Never")
    spec = {
        "completionMode": "Indexed",
        "completions": options.completions or pods,
        "parallelism": pods,
        "backoffLimit": 2,
        "template": {"metadata": {"labels": labels(name)}, "spec": inner},
    }
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata(name, use), "spec": spec}
    return [manifest, *policies(name, use, options)]


def deployment(use: ClaimUse, options: WorkloadOptions) -> list[Manifest]:
    return deployed(workload_name(use, "deployment"), use, options, shower(use, options, stays=True))


def deployed(name: str, use: ClaimUse, options: WorkloadOptions, program: ContainerProgram) -> list[Manifest]:
    """Return a Deployment of the program, with a Service if it serves something."""
    spec = {
        "replicas": pod_count(use, options),
        "strategy": ONE_BY_ONE,
        "selector": {"matchLabels": labels(name)},
        "template": {"metadata": {"labels": labels(name)}, "spec": pod_spec(use, options, program)},
    }
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(name, use), "spec": spec}
    further = [service(name, use, program.ports)] if program.ports else []
    return [manifest, *further, *policies(name, use, options, ports=program.ports)]


def stateful_set(use: ClaimUse, options: WorkloadOptions) -> list[Manifest]:
    """Return a StatefulSet with the Service that gives each pod a name of its own."""
    name, program = workload_name(use, "set"), shower(use, options, stays=True)
    spec = {
        "serviceName": name,
        "replicas": pod_count(use, options),
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels(name)},
        "template": {"metadata": {"labels": labels(name)}, "spec": pod_spec(use, options, program)},
    }
    manifest = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata(name, use), "spec": spec}
    further = service(name, use, program.ports, headless=True)
    return [manifest, further, *policies(name, use, options, ports=program.ports)]


JOVYAN = 1000  # the user of Jupyter's and of Triton's own images
JUPYTER_PORT, VLLM_PORT = 8888, 8000
TRITON_PORTS = (("http", 8000), ("grpc", 8001), ("metrics", 8002))
VLLM_MEMORY = Fraction(9, 10)  # of a GPU's memory, vLLM's default
MODEL = "Qwen/Qwen2.5-0.5B-Instruct"  # small and public, for a first try


def jupyter_program(use: ClaimUse) -> ContainerProgram:
    """Return JupyterLab with its token in the log; `/api` answers without one."""
    return ContainerProgram(
        IMAGES[use.vendor].jupyter,
        ("jupyter", "lab", "--ip=0.0.0.0", f"--port={JUPYTER_PORT}", "--no-browser"),
        ports=(("http", JUPYTER_PORT),),
        ready="/api",
        user=JOVYAN,
    )


def jupyter(use: ClaimUse, options: WorkloadOptions) -> list[Manifest]:
    name, program = workload_name(use, "lab"), jupyter_program(use)
    spec = pod_spec(use, options, program, restart="Never")
    manifests = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata(name, use), "spec": spec}
    further = service(name, use, program.ports)
    return [manifests, further, *policies(name, use, options, ports=program.ports)]


def memory_utilization(use: ClaimUse, options: WorkloadOptions) -> Decimal | None:
    """
    Return the part of a GPU's memory that each vLLM may take, so that all pods of the claim fit; None where
    it is the usual 0.9 (vLLM, `--gpu-memory-utilization`) or unknown. A limit of each process is not divided
    among the pods unless they do not fit.
    """
    sharers = 1 if use.template else pod_count(use, options)
    if use.memory_part is None or (use.memory_part == 1 and sharers == 1):
        return None
    part = min(use.memory_part, Fraction(1, sharers)) if use.each_process else use.memory_part / sharers
    percent = int(VLLM_MEMORY * part * 100)
    return Decimal(max(percent, 1)).scaleb(-2)


def vllm_program(use: ClaimUse, options: WorkloadOptions) -> ContainerProgram:
    """Return a server of the OpenAI protocol, over all devices of one claim where their number is known."""
    model = MODELS if has_weights(options) else MODEL
    devices = container_device_count(use, options)
    parallel = () if devices is None else (f"--tensor-parallel-size={devices}",)
    utilization = memory_utilization(use, options)
    memory = () if utilization is None else (f"--gpu-memory-utilization={utilization}",)
    return ContainerProgram(
        IMAGES[use.vendor].vllm,
        ("vllm", "serve", model, f"--port={VLLM_PORT}", *parallel, *memory),
        env=(("HOME", "/tmp"),),  # noqa: S108 - a user without a home writes its caches there
        ports=(("http", VLLM_PORT),),
        ready="/health",
        shm=True,
    )


def vllm(use: ClaimUse, options: WorkloadOptions) -> list[Manifest]:
    return deployed(workload_name(use, "vllm"), use, options, vllm_program(use, options))


def triton(use: ClaimUse, options: WorkloadOptions) -> list[Manifest]:
    """Return Triton over the mounted models; without any it starts with none and says so in its log."""
    repository = MODELS if has_weights(options) else "/tmp"  # noqa: S108 - an empty folder of the image
    program = ContainerProgram(
        IMAGES[use.vendor].triton,
        ("tritonserver", f"--model-repository={repository}"),
        ports=TRITON_PORTS,
        ready="/v2/health/ready",
        user=JOVYAN,
        shm=True,
    )
    return deployed(workload_name(use, "triton"), use, options, program)


MASTER_PORT = 23456  # of the training operator's rendezvous
SHOW = "import torch; print(torch.cuda.is_available(), torch.cuda.device_count())"


def notebook(use: ClaimUse, options: WorkloadOptions) -> list[Manifest]:
    """Return a Notebook; its container has the notebook's name, and the controller labels the pod with it."""
    name = workload_name(use, "notebook")
    program = replace(jupyter_program(use), container=name)
    spec = {"template": {"spec": pod_spec(use, options, program)}}
    manifest = {"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "metadata": metadata(name, use)}
    own = {"notebook-name": name}
    return [manifest | {"spec": spec}, *policies(name, use, options, ports=program.ports, pods=own)]


def pytorch_job(use: ClaimUse, options: WorkloadOptions) -> list[Manifest]:
    """Return a PyTorchJob of a master and as many workers as make up the pods at once."""
    name, pods = workload_name(use, "train"), pod_count(use, options)
    program = ContainerProgram(
        IMAGES[use.vendor].torch, ("python", "-c", SHOW), container="pytorch", shm=True
    )
    template = {"metadata": {"labels": labels(name)}, "spec": pod_spec(use, options, program)}
    replicas: Manifest = {"Master": {"replicas": 1, "restartPolicy": "OnFailure", "template": template}}
    if pods > 1:
        worker = {"replicas": pods - 1, "restartPolicy": "OnFailure", "template": copy.deepcopy(template)}
        replicas["Worker"] = worker
    devices = container_device_count(use, options)
    spec: Manifest = {} if devices is None else {"nprocPerNode": str(devices)}
    manifest = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": metadata(name, use),
        "spec": spec | {"pytorchReplicaSpecs": replicas},
    }
    return [manifest, *policies(name, use, options, between=(MASTER_PORT,))]


def inference_service(use: ClaimUse, options: WorkloadOptions) -> list[Manifest]:
    """
    Return an InferenceService that KServe runs as a plain Deployment.

    Knative, its other way, refuses `resources.claims` (knative/serving issue 15332).
    """
    name, pods = workload_name(use, "serve"), pod_count(use, options)
    program = replace(vllm_program(use, options), container="kserve-container")
    predictor = {"minReplicas": pods, "maxReplicas": pods, **pod_spec(use, options, program)}
    about = metadata(name, use) | {"annotations": {"serving.kserve.io/deploymentMode": "RawDeployment"}}
    manifest = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": about,
        "spec": {"predictor": predictor},
    }
    own = {"serving.kserve.io/inferenceservice": name}
    return [manifest, *policies(name, use, options, ports=program.ports, pods=own)]


WIDTH = 96


def config(use: ClaimUse, options: WorkloadOptions) -> str:
    """Return lines for jupyterhub_config.py; what other lines set is added to, not replaced."""
    program = jupyter_program(use)
    lines = [_assigned("image", options.image or program.image), *_settings(use, options)]
    if pod_volumes := volumes(options, program):
        lines.append(_added("volumes", "extend", pod_volumes))
        lines.append(_added("volume_mounts", "extend", mounts(options, program)))
    return "\n".join(lines) + "\n"


def values(use: ClaimUse, options: WorkloadOptions) -> Manifest:
    """Return values of the chart zero-to-jupyterhub: what it has no value for is Python in extraConfig."""
    program = jupyter_program(use)
    name, tag = _split(options.image or program.image)
    user: Manifest = {"image": {"name": name, "tag": tag}}
    if pod_volumes := volumes(options, program):
        user["storage"] = {"extraVolumes": pod_volumes, "extraVolumeMounts": mounts(options, program)}
    python = "\n".join(_settings(use, options))
    return {"singleuser": user, "hub": {"extraConfig": {"gpu-claim": python}}}


def _settings(use: ClaimUse, options: WorkloadOptions) -> list[str]:
    wanted = {"resources": resources(use, options)}  # replaces what cpu_guarantee and mem_guarantee set
    lines = [
        _added("extra_pod_config", "update", {"resourceClaims": [claim_source(use)]}),
        _added("extra_container_config", "update", wanted),
        _added("environment", "update", {name: in_template(value) for name, value in environment(use)}),
    ]
    if options.priority:
        lines.append(_assigned("priority_class_name", options.priority))
    if selector := placement(options).get("nodeSelector"):
        lines.append(_added("node_selector", "update", selector))
    if options.capacity == ASSUMED:
        lines.append(_added("node_affinity_required", "extend", [unlabeled()]))
    if options.tolerate:
        lines.append(_added("tolerations", "extend", tolerations(options)))
    if options.restricted:
        lines.append(_assigned("pod_security_context", pod_security(jupyter_program(use))))
        lines.append(_assigned("container_security_context", container_security()))
    return lines


def in_template(value: str) -> str:
    """Return a value as KubeSpawner reads it: as a template of `str.format`, in which braces are doubled."""
    return value.replace("{", "{{").replace("}", "}}")


def _assigned(trait: str, value: object) -> str:
    return f"c.KubeSpawner.{trait} = {pformat(value, width=WIDTH, sort_dicts=False)}"


def _added(trait: str, how: str, value: object) -> str:
    written = indent(pformat(value, width=WIDTH, sort_dicts=False), "    ")
    return f"c.KubeSpawner.{trait}.{how}(\n{written}\n)"


def _split(image: str) -> tuple[str, str]:
    """Split "registry:5000/name:tag". The chart joins them with a colon, so "@sha256" stays with the name."""
    name, at, digest = image.partition("@")
    if at:
        kind, _colon, value = digest.partition(":")
        return f"{name}@{kind}", value
    head, slash, last = image.rpartition("/")
    last, _colon, tag = last.partition(":")
    return f"{head}{slash}{last}", tag or "latest"
