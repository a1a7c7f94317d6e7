"""Kinds that operators bring: Kubeflow's Notebook and PyTorchJob, and KServe's InferenceService."""

from __future__ import annotations

import copy
from dataclasses import replace

from dra.objects import Manifest
from dra.workloads.images import IMAGES
from dra.workloads.network import policies
from dra.workloads.pods import Program, labels, metadata, name_of, pod_spec
from dra.workloads.servers import jupyter_program, vllm_program
from dra.workloads.use import Options, Use, devices_of, pods_of

MASTER_PORT = 23456  # of the training operator's rendezvous
SHOW = "import torch; print(torch.cuda.is_available(), torch.cuda.device_count())"


def notebook(use: Use, options: Options) -> list[Manifest]:
    """Return a Notebook; its container has the notebook's name, and the controller labels the pod with it."""
    name = name_of(use, "notebook")
    program = replace(jupyter_program(use), container=name)
    spec = {"template": {"spec": pod_spec(use, options, program)}}
    made = {"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "metadata": metadata(name, use)}
    own = {"notebook-name": name}
    return [made | {"spec": spec}, *policies(name, use, options, ports=program.ports, pods=own)]


def pytorch_job(use: Use, options: Options) -> list[Manifest]:
    """Return a PyTorchJob of a master and as many workers as make up the pods at once."""
    name, pods = name_of(use, "train"), pods_of(use, options)
    program = Program(IMAGES[use.maker].torch, ("python", "-c", SHOW), container="pytorch", shm=True)
    template = {"metadata": {"labels": labels(name)}, "spec": pod_spec(use, options, program)}
    replicas: Manifest = {"Master": {"replicas": 1, "restartPolicy": "OnFailure", "template": template}}
    if pods > 1:
        worker = {"replicas": pods - 1, "restartPolicy": "OnFailure", "template": copy.deepcopy(template)}
        replicas["Worker"] = worker
    devices = devices_of(use, options)
    spec: Manifest = {} if devices is None else {"nprocPerNode": str(devices)}
    made = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": metadata(name, use),
        "spec": spec | {"pytorchReplicaSpecs": replicas},
    }
    return [made, *policies(name, use, options, between=(MASTER_PORT,))]


def inference_service(use: Use, options: Options) -> list[Manifest]:
    """
    Return an InferenceService that KServe runs as a plain Deployment.

    Knative, its other way, refuses `resources.claims` (knative/serving issue 15332).
    """
    name, pods = name_of(use, "serve"), pods_of(use, options)
    program = replace(vllm_program(use, options), container="kserve-container")
    predictor = {"minReplicas": pods, "maxReplicas": pods, **pod_spec(use, options, program)}
    about = metadata(name, use) | {"annotations": {"serving.kserve.io/deploymentMode": "RawDeployment"}}
    made = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": about,
        "spec": {"predictor": predictor},
    }
    own = {"serving.kserve.io/inferenceservice": name}
    return [made, *policies(name, use, options, ports=program.ports, pods=own)]
