"""What the allocator predicts for a pod, from a snapshot of the cluster before the pod exists."""

from __future__ import annotations

from dataclasses import dataclass, field

from dra.allocator import AllocationError, AllocationResult, NodeFailed, allocate
from dra.cluster_snapshot import ClusterSnapshot
from dra.match import NoFitReason, preview
from dra.nodes import name_of_node, selects
from dra.objects import Json
from dra.validation import problems
from tests.scheduler.scenario import Pod, Scenario

IMPLICIT = "deviceclass.resource.kubernetes.io/"


@dataclass(slots=True)
class Prediction:
    """
    `fits` has the allocations of the new claims by node that accepts the pod; `refusals` are sentences.

    `held` are the existing allocations of claims of the pod. `previewed` is whether the request form would
    show the only claim as fitting, None if the form has no such question. `problems` are why it would refuse
    the claims.
    """

    fits: dict[str, list[AllocationResult]] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    held: list[Json] = field(default_factory=list)
    previewed: bool | None = None
    problems: list[str] = field(default_factory=list)


def predict(snapshot: ClusterSnapshot, scenario: Scenario, pod: Pod) -> Prediction:
    prediction = Prediction()
    claims = expected_claims(snapshot, scenario, pod)
    names = [item["metadata"]["name"] for item in snapshot.classes]
    prediction.problems = [item.message for claim in claims for item in problems(claim["spec"], names)]
    prediction.held = [claim["status"]["allocation"] for claim in claims if is_allocated(claim)]
    unallocated = [claim for claim in claims if not is_allocated(claim)]
    for node in candidates(snapshot, pod):
        if not all(reachable(allocation, node) for allocation in prediction.held):
            continue
        try:
            results = allocate(snapshot, node, unallocated)
        except NodeFailed:  # other nodes are tried
            continue
        except AllocationError as refusal:
            prediction.refusals.append(refusal.message)
            continue
        if results is not None:
            prediction.fits[name_of_node(node)] = results
    if len(claims) == len(unallocated) == 1 and not pod.pinned:  # the form knows one claim, and no node
        # Only the nodes of the scenario: pools of other scenarios would refuse mode All.
        here = snapshot.after(nodes=candidates(snapshot, pod))
        form = preview(here, unallocated[0]["spec"])
        # The form warns of a selector that fails on any device; the scheduler may fit the claim before that.
        prediction.previewed = None if form.reason == NoFitReason.SELECTOR_FAILS else form.fits
    return prediction


def candidates(snapshot: ClusterSnapshot, pod: Pod) -> list[Json]:
    selector = pod.manifest["spec"]["nodeSelector"].items()
    return [
        node
        for node in snapshot.nodes
        if selector <= node["metadata"]["labels"].items() and not node["spec"].get("unschedulable")
    ]


def expected_claims(snapshot: ClusterSnapshot, scenario: Scenario, pod: Pod) -> list[Json]:
    """Return the claims that the pod will have: named ones as they are, others as they will be created."""
    claims: list[Json] = []
    for use in pod.manifest["spec"]["resourceClaims"]:
        if template := use.get("resourceClaimTemplateName"):
            template = next(item for item in scenario.objects if item["metadata"]["name"] == template)
            claims.append({"metadata": template["metadata"], "spec": template["spec"]["spec"]})
        else:
            claims += [
                claim
                for claim in snapshot.claims
                if claim["metadata"]["namespace"] == scenario.namespace
                and claim["metadata"]["name"] == use["resourceClaimName"]
            ]
    return claims + extended_claim(snapshot, pod)


def extended_claim(snapshot: ClusterSnapshot, pod: Pod) -> list[Json]:
    """Return the claim that the scheduler creates for the extended resources of the only container."""
    resources = pod.manifest["spec"]["containers"][0]["resources"].get("requests") or {}
    requests = [
        {
            "name": f"container-0-request-{number}",
            "exactly": {"deviceClassName": class_for(snapshot, name), "count": int(amount)},
        }
        for number, (name, amount) in enumerate(sorted(resources.items()))
    ]
    return [{"metadata": {"name": ""}, "spec": {"devices": {"requests": requests}}}] if requests else []


def class_for(snapshot: ClusterSnapshot, resource: str) -> str:
    if resource.startswith(IMPLICIT):
        return resource.removeprefix(IMPLICIT)
    return next(
        device_class["metadata"]["name"]
        for device_class in snapshot.classes
        if device_class["spec"].get("extendedResourceName") == resource
    )


def is_allocated(claim: Json) -> bool:
    return bool((claim.get("status") or {}).get("allocation"))


def reachable(allocation: Json, node: Json) -> bool:
    selector = allocation.get("nodeSelector")
    return selector is None or selects(selector, node)
