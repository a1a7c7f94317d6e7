"""What the engine says of a pod, from a picture of the cluster that was taken before the pod was made."""

from __future__ import annotations

from dataclasses import dataclass, field

from dra.allocator import AllocationError, AllocationResult, NodeFailed, allocate
from dra.cluster_snapshot import ClusterSnapshot
from dra.match import NoFitReason, preview
from dra.nodes import name_of, selects
from dra.objects import Json
from dra.validation import problems
from tests.scheduler.stage import Pod, Stage

IMPLICIT = "deviceclass.resource.kubernetes.io/"


@dataclass(slots=True)
class Foretold:
    """
    `fits` has the allocations of the new claims by node that takes the pod; `refusals` are sentences.

    `held` are the allocations that claims of the pod have already. `previewed` is what the request form would
    say of the only claim: whether it fits, or None where the form has no such question. `problems` are why it
    would not even take the claims.
    """

    fits: dict[str, list[AllocationResult]] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    held: list[Json] = field(default_factory=list)
    previewed: bool | None = None
    problems: list[str] = field(default_factory=list)


def foretell(snapshot: ClusterSnapshot, stage: Stage, pod: Pod) -> Foretold:
    told = Foretold()
    claims = claims_of(snapshot, stage, pod)
    names = [one["metadata"]["name"] for one in snapshot.classes]
    told.problems = [one.message for claim in claims for one in problems(claim["spec"], names)]
    told.held = [claim["status"]["allocation"] for claim in claims if is_allocated(claim)]
    new = [claim for claim in claims if not is_allocated(claim)]
    for node in candidates(snapshot, pod):
        if not all(reachable(allocation, node) for allocation in told.held):
            continue
        try:
            results = allocate(snapshot, node, new)
        except NodeFailed:  # other nodes are tried
            continue
        except AllocationError as refusal:
            told.refusals.append(refusal.message)
            continue
        if results is not None:
            told.fits[name_of(node)] = results
    if len(claims) == len(new) == 1 and not pod.pinned:  # the form knows one claim, and no node
        form = preview(snapshot, new[0]["spec"])
        # The form warns of a selector that fails on any device; the scheduler may fit the claim before that.
        told.previewed = None if form.reason == NoFitReason.SELECTOR_FAILS else form.fits
    return told


def candidates(snapshot: ClusterSnapshot, pod: Pod) -> list[Json]:
    wanted = pod.manifest["spec"]["nodeSelector"].items()
    return [
        node
        for node in snapshot.nodes
        if wanted <= node["metadata"]["labels"].items() and not node["spec"].get("unschedulable")
    ]


def claims_of(snapshot: ClusterSnapshot, stage: Stage, pod: Pod) -> list[Json]:
    """Return the claims that the pod will have: named ones as they are, others as they will be made."""
    found: list[Json] = []
    for use in pod.manifest["spec"]["resourceClaims"]:
        if template := use.get("resourceClaimTemplateName"):
            made = next(one for one in stage.objects if one["metadata"]["name"] == template)
            found.append({"metadata": made["metadata"], "spec": made["spec"]["spec"]})
        else:
            found += [
                claim
                for claim in snapshot.claims
                if claim["metadata"]["namespace"] == stage.namespace
                and claim["metadata"]["name"] == use["resourceClaimName"]
            ]
    return found + extended_claim(snapshot, pod)


def extended_claim(snapshot: ClusterSnapshot, pod: Pod) -> list[Json]:
    """Return the claim that the scheduler makes for the extended resources of the only container."""
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
        one["metadata"]["name"]
        for one in snapshot.classes
        if one["spec"].get("extendedResourceName") == resource
    )


def is_allocated(claim: Json) -> bool:
    return bool((claim.get("status") or {}).get("allocation"))


def reachable(allocation: Json, node: Json) -> bool:
    selector = allocation.get("nodeSelector")
    return selector is None or selects(selector, node)
