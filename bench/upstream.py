"""The allocator of Kubernetes, asked the same over all nodes."""

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
    """Return why it cannot be asked here, as a sentence; "" if it can, and then build it."""
    if not (reason := why_unusable()):
        ensure()
    return reason


def asked(made: World, questions: Iterable[Question]) -> dict[str, tuple[float, int]]:
    """Return, per question, the median milliseconds of a pass over all nodes, and how many nodes fit."""
    nodes = [node for node in made.nodes if not node["spec"].get("unschedulable")]
    on = {name: True for name, attribute in Features.switches().items() if getattr(NEWEST, attribute)}
    case = {"features": on, "classes": made.classes, "slices": _tainted(made), "allocated": _allocated(made)}
    passes = 1 if len(nodes) > MANY else PASSES
    found = {}
    for question in questions:
        claim = {"metadata": {"name": "asked", "namespace": "bench"}, "spec": question.spec}
        (answer,) = Asked([case | {"nodes": nodes, "claim": claim, "passes": passes}], "bench").answers()
        if answer.get("error"):
            raise RuntimeError(f"{question.name}: {answer['error']}")
        found[question.name] = (median(answer["milliseconds"]), answer["nodes"])
    return found


def _tainted(made: World) -> list[Manifest]:
    """Return the slices with the taints of rules, which upstream adds before the allocator sees them."""
    spoilt = {rule["spec"]["deviceSelector"]["pool"]: rule["spec"]["taint"] for rule in made.taint_rules}
    slices = []
    for one in made.slices:
        taint, devices = spoilt.get(one["spec"]["pool"]["name"]), one["spec"].get("devices")
        if taint and devices:
            devices = [device | {"taints": [*device.get("taints", ()), taint]} for device in devices]
            one = one | {"spec": one["spec"] | {"devices": devices}}
        slices.append(one)
    return slices


def _allocated(made: World) -> Mapping[str, Any]:
    devices, shared, consumed = [], [], {}
    for claim in made.claims:
        results = claim["status"]["allocation"]["devices"]["results"]
        for result, (key, _, share) in zip(results, holdings(claim), strict=True):
            named = dict(zip(("driver", "pool", "device"), key, strict=True))
            if share is None:
                devices.append(named)
            else:
                shared.append(named | {"shareID": result["shareID"]})
                consumed["/".join(key)] = result["consumedCapacity"]
    return {"devices": devices, "shared": shared, "consumedCapacity": consumed}
