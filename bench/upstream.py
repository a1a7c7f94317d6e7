"""The allocator of Kubernetes, over all nodes of the same cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from bench.specs import Question
from bench.world import World
from dra.features import NEWEST, Features
from dra.held import holdings
from dra.objects import Manifest
from tests.oracle.build import ensure, why_unusable
from tests.oracle.upstream import Asked

PASSES = 5
MANY = 1000  # nodes; one pass over more of them takes seconds


def why_not() -> str:
    """Build it; return why that is impossible here as a sentence, or ""."""
    if not (reason := why_unusable()):
        ensure()
    return reason


def answers(cluster: World, questions: Iterable[Question]) -> dict[str, tuple[float, int]]:
    """Return, per question, the median milliseconds of a pass over all nodes, and how many nodes fit."""
    nodes = [node for node in cluster.nodes if not node["spec"].get("unschedulable")]
    on = {name: True for name, attribute in Features.switches().items() if getattr(NEWEST, attribute)}
    case = {
        "features": on,
        "classes": cluster.classes,
        "slices": _tainted(cluster),
        "allocated": _allocated(cluster),
    }
    passes = 1 if len(nodes) > MANY else PASSES
    medians = {}
    for question in questions:
        claim = {"metadata": {"name": "bench", "namespace": "bench"}, "spec": question.spec}
        (answer,) = Asked([case | {"nodes": nodes, "claim": claim, "passes": passes}], "bench").answers()
        if answer.get("error"):
            raise RuntimeError(f"{question.name}: {answer['error']}")
        medians[question.name] = (median(answer["milliseconds"]), answer["nodes"])
    return medians


def _tainted(cluster: World) -> list[Manifest]:
    """Return the slices with the taints of rules, which upstream adds before the allocator sees them."""
    tainted_pools = {
        rule["spec"]["deviceSelector"]["pool"]: rule["spec"]["taint"] for rule in cluster.taint_rules
    }
    slices = []
    for manifest in cluster.slices:
        taint, devices = tainted_pools.get(manifest["spec"]["pool"]["name"]), manifest["spec"].get("devices")
        if taint and devices:
            devices = [device | {"taints": [*device.get("taints", ()), taint]} for device in devices]
            manifest = manifest | {"spec": manifest["spec"] | {"devices": devices}}
        slices.append(manifest)
    return slices


def _allocated(cluster: World) -> Mapping[str, Any]:
    devices, shared, consumed = [], [], {}
    for claim in cluster.claims:
        results = claim["status"]["allocation"]["devices"]["results"]
        for result, (key, _, share) in zip(results, holdings(claim), strict=True):
            names = dict(zip(("driver", "pool", "device"), key, strict=True))
            if share is None:
                devices.append(names)
            else:
                shared.append(names | {"shareID": result["shareID"]})
                consumed["/".join(key)] = result["consumedCapacity"]
    return {"devices": devices, "shared": shared, "consumedCapacity": consumed}
