"""Pod, Job, Deployment and StatefulSet: what runs anything."""

from __future__ import annotations

from dra.objects import Manifest
from dra.workloads.images import IMAGES
from dra.workloads.network import policies, service
from dra.workloads.pods import Program, labels, metadata, name_of, pod_spec
from dra.workloads.use import Options, Use, pods_of

# A new pod that comes before an old one has gone would want a claim more than the team was granted.
ONE_BY_ONE = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


def shower(use: Use, options: Options, *, stays: bool = False) -> Program:
    """Return a program that shows the devices, and then stays for ten minutes or for ever."""
    images = IMAGES[use.maker]
    command = ("sh", "-c", f"{images.look}; sleep {'infinity' if stays else 600}")
    ports = (("http", options.port),) if options.port else ()
    # An own image knows what it runs, once it serves something or stays by itself.
    return Program(images.base, () if options.image and stays else command, ports=ports if stays else ())


def pod(use: Use, options: Options) -> list[Manifest]:
    name = name_of(use, "pod")
    spec = pod_spec(use, options, shower(use, options), restart="Never")
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata(name, use), "spec": spec}
    return [made, *policies(name, use, options)]


def job(use: Use, options: Options) -> list[Manifest]:
    """Return an Indexed Job: each pod finds its number in JOB_COMPLETION_INDEX."""
    name, pods = name_of(use, "job"), pods_of(use, options)
    inner = pod_spec(use, options, shower(use, options), restart="Never")
    spec = {
        "completionMode": "Indexed",
        "completions": options.completions or pods,
        "parallelism": pods,
        "backoffLimit": 2,
        "template": {"metadata": {"labels": labels(name)}, "spec": inner},
    }
    made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata(name, use), "spec": spec}
    return [made, *policies(name, use, options)]


def deployment(use: Use, options: Options) -> list[Manifest]:
    return deployed(name_of(use, "deployment"), use, options, shower(use, options, stays=True))


def deployed(name: str, use: Use, options: Options, program: Program) -> list[Manifest]:
    """Return a Deployment of the program, with a Service if it serves something."""
    spec = {
        "replicas": pods_of(use, options),
        "strategy": ONE_BY_ONE,
        "selector": {"matchLabels": labels(name)},
        "template": {"metadata": {"labels": labels(name)}, "spec": pod_spec(use, options, program)},
    }
    made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(name, use), "spec": spec}
    beside = [service(name, use, program.ports)] if program.ports else []
    return [made, *beside, *policies(name, use, options, ports=program.ports)]


def stateful_set(use: Use, options: Options) -> list[Manifest]:
    """Return a StatefulSet with the Service that gives each pod a name of its own."""
    name, program = name_of(use, "set"), shower(use, options, stays=True)
    spec = {
        "serviceName": name,
        "replicas": pods_of(use, options),
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels(name)},
        "template": {"metadata": {"labels": labels(name)}, "spec": pod_spec(use, options, program)},
    }
    made = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata(name, use), "spec": spec}
    beside = service(name, use, program.ports, headless=True)
    return [made, beside, *policies(name, use, options, ports=program.ports)]
