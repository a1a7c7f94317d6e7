"""
What happens to the claims of the demo in simulated clusters: transfers, replacements, consent, a lowered
quota, and changes by others in the cluster.

Each action runs only if it has not run yet, so a restart changes nothing.
"""

import contextlib
from copy import deepcopy
from pathlib import Path
from typing import Any

from django.db.models import F
from django.utils import timezone

from claims.approvals.decide import approve
from claims.approvals.notices import escalate_overdue
from claims.lifecycle.expiry import remind
from claims.lifecycle.services import deny_extension, extend, transfer
from claims.models import Claim, Extension, Quota
from claims.plans.plan import CLAIM_LABEL, delivery_kind
from claims.quotas.services import set_quota
from claims.requests.services import resize
from claims.states import ClaimState
from cluster.errors import ClusterConflict
from cluster.protocol import POD, RESOURCE_CLAIM, Kind, Manifest
from demo.past import backdate
from demo.people import people_gateway, people_patch
from demo.scenario import DAY, HOUR
from teams.models import Team, User


def do(folder: Path) -> None:
    """Take the turns; each needs its claim and leaves the others alone."""
    person = {user.username: user for user in User.objects.filter(is_active=True)}
    claims = {claim.key.removeprefix("demo-"): claim for claim in _told()}
    if "tracker-serve" in claims and claims["tracker-serve"].requested_by == person["jonas"]:
        transfer(claim=claims["tracker-serve"], by=person["jonas"], to=person["engineer"])
    if "lidar-seg" in claims and "lidar-seg-2" not in claims:
        _replace(claims["lidar-seg"], person["engineer"])
    if "mt-serve" in claims:
        _consent(claims["mt-serve"], person["ines"])
    if "mt-large" in claims:
        _refuse_time(claims["mt-large"], person["outsider"], person["ines"])
    if "arm-policy" in claims:
        _lower_quota(person["admin"])
    if "eval-nightly" in claims:
        _make_again(folder, claims["eval-nightly"])
    if "thumb-index" in claims:
        _take_label(folder, claims["thumb-index"])
        _use_extended_resources(folder)
    # Send reminders now instead of minutes later.
    escalate_overdue(timezone.now())
    remind(timezone.now())


def _told() -> list[Claim]:
    related = ("team", "cluster", "requested_by", "profile_version__profile")
    found = Claim.objects.filter(key__startswith="demo-", cluster__simulated=True).live()
    return list(found.select_related(*related))


def _replace(claim: Claim, by: User) -> None:
    successor = resize(
        claim=claim,
        by=by,
        devices=2,
        name="lidar-seg-2",
        reason="One device takes nine hours for an epoch; with two it is done before the review.",
        key="demo-lidar-seg-2",
    )
    backdate(successor, 3 * HOUR, None)
    claim.history.filter(old=F("new")).update(at=F("at") - 3 * HOUR)  # the remark that it was asked for


def _consent(claim: Claim, by: User) -> None:
    """Give the first of two consents."""
    if claim.state == ClaimState.REQUESTED and not claim.steps.exists():
        note = "The pilot is agreed with sales."
        approve(claim=claim, by=by, spec_hash=claim.spec_hash, note=note)


def _refuse_time(claim: Claim, by: User, lead: User) -> None:
    if claim.expires_at is None or Extension.objects.filter(claim=claim).exists():
        return
    until, why = claim.expires_at + 5 * DAY, "Two more languages could be added."
    asked = extend(claim=claim, by=by, until=until, reason=why, key="demo-five-more-days")
    reason = "Eight devices for five more days are too much for an extra. Request again for four."
    deny_extension(extension=asked, by=lead, reason=reason)


def _lower_quota(admin: User) -> None:
    """Lower the quota of robotics below what it holds; nothing is taken away."""
    robotics = Team.objects.get(slug="robotics")
    if Quota.objects.filter(team=robotics, device_class="gpu.nvidia.com", devices=8).exists():
        set_quota(by=admin, team=robotics, device_class="gpu.nvidia.com", devices=1)


def _make_again(folder: Path, claim: Claim) -> None:
    """Delete the object and create one of the same name that requests more, as somebody else."""
    gateway = people_gateway(folder, claim.cluster.name)
    found = gateway.get(RESOURCE_CLAIM, claim.name, namespace=claim.namespace)
    if found is None or not claim.object_uid or found["metadata"]["uid"] != claim.object_uid:
        return
    spec = deepcopy(found["spec"])
    spec["devices"]["requests"][0]["exactly"]["count"] = 2
    metadata = {key: found["metadata"][key] for key in ("name", "namespace", "labels")}
    gateway.delete(RESOURCE_CLAIM, claim.name, namespace=claim.namespace)
    gateway.create(RESOURCE_CLAIM, _object(RESOURCE_CLAIM, metadata, spec))


def _take_label(folder: Path, claim: Claim) -> None:
    """Remove the portal's label from the object, as somebody else."""
    address = delivery_kind(claim.delivery).path(claim.namespace, claim.name)
    people_patch(folder, claim.cluster.name, address, {"metadata": {"labels": {CLAIM_LABEL: None}}})


def _use_extended_resources(folder: Path) -> None:
    """
    Create pods that request GPUs by number: one served by a device plugin, without a claim, and one for which
    the scheduler creates a claim.
    """
    for cluster, name, resource in (
        ("lab-2", "old-dashboard", "nvidia.com/gpu.shared"),
        ("fra-1", "helm-chart-probe", "nvidia.com/gpu"),
    ):
        limits = {"limits": {resource: "1"}}
        spec = {"containers": [{"name": "main", "image": "images.example.org/work:1", "resources": limits}]}
        pod = _object(POD, {"name": name, "namespace": "vision"}, spec)
        with contextlib.suppress(ClusterConflict):  # of an earlier start
            people_gateway(folder, cluster).create(POD, pod)


def _object(kind: Kind, metadata: dict[str, Any], spec: dict[str, Any]) -> Manifest:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
