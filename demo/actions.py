"""
What people and others do in the demo: pending requests (an extension, quota, a question, a draft, an approval
rule, a delegation, an unmanaged claim), and what happens to claims in simulated clusters (transfers,
replacements, consent, a lowered quota, changes by others).

Everything has a key or runs only if it has not run yet, so a restart changes nothing.
"""

from __future__ import annotations

import contextlib
from copy import deepcopy
from pathlib import Path
from typing import Any

from django.db.models import F
from django.utils import timezone

from claims.approvals.decide import approve
from claims.approvals.escalation import escalate_overdue
from claims.approvals.services import delegate, save_rule
from claims.inbox.comments import comment_on_claim
from claims.lifecycle.expiry import remind
from claims.lifecycle.services import approve_extension, deny_extension, extend, transfer
from claims.models import (
    Approval,
    ApprovalRule,
    Claim,
    Delegation,
    Draft,
    Extension,
    Profile,
    Quota,
    QuotaIncrease,
    QuotaRequest,
)
from claims.plans.plan import CLAIM_LABEL, delivery_kind
from claims.quotas.services import approve_quota_request, request_quota, set_quota
from claims.requests.services import resize, save_draft
from claims.states import ClaimState
from cluster.protocol import POD, RESOURCE_CLAIM, ClusterConflict, Kind, Manifest
from demo.backdate import backdate
from demo.people import people_gateway, people_patch
from demo.scenario import DAY, HOUR
from inventory.clusters import write_quotas
from inventory.models import Cluster
from notify.models import Notice
from teams.models import Team, User

UNMANAGED_CLAIM = {
    "apiVersion": RESOURCE_CLAIM.api_version,
    "kind": RESOURCE_CLAIM.kind,
    "metadata": {"name": "jonas-scratch", "namespace": "vision", "labels": {"app": "scratch"}},
    "spec": {
        "devices": {
            "requests": [{"name": "gpu", "exactly": {"deviceClassName": "mig.nvidia.com", "count": 1}}]
        }
    },
}
DRAFT = {
    "profile": ["any-48g"],
    "devices": ["2"],
    "delivery": ["template"],
    "parallel": ["2"],
    "team": ["vision"],
    "cluster": ["fra-1"],
    "reason": ["Label the night drives again with the new detector."],
}


def make_room() -> None:
    """
    Increase the quota of vision for a period, by request and approval: the claims of the demo need it.
    """
    if QuotaRequest.objects.filter(key="demo-raise").exists():
        return
    admin = User.objects.get(username="admin")
    quota_request = request_quota(
        by=User.objects.get(username="noor"),
        team=Team.objects.get(slug="vision"),
        device_class="gpu.nvidia.com",
        devices=26,
        until=timezone.now() + 9 * DAY,
        reason="The networks for the October review are trained side by side until it is over.",
        key="demo-raise",
    )
    approve_quota_request(quota_request=quota_request, by=admin, note="Until the review, not longer.")
    QuotaRequest.objects.filter(pk=quota_request.pk).update(
        requested_at=F("requested_at") - 6 * DAY, decided_at=F("decided_at") - 5 * DAY
    )
    QuotaIncrease.objects.filter(request=quota_request).update(starts_at=F("starts_at") - 5 * DAY)


def lay_out(folder: Path) -> None:
    """Create the pending requests; the claims of the demo must exist."""
    people = {person.username: person for person in User.objects.filter(is_active=True)}
    vision = Team.objects.get(slug="vision")
    _rules(people["admin"])
    _guarantees(people["admin"], vision)
    _extensions(people["engineer"], people["lead"])
    _more_quota(people["lead"], vision)
    _question(people["lead"])
    _delegation(people["ines"], people["outsider"])
    if not Draft.objects.filter(by=people["engineer"]).exists():
        save_draft(by=people["engineer"], key="demo-draft", fields=DRAFT)
    for cluster in Cluster.objects.filter(name="lab-2", simulated=True):
        _unmanaged_claim(folder, cluster)


def _rules(admin: User) -> None:
    if ApprovalRule.objects.exists():
        return
    save_rule(by=admin, team=Team.objects.get(slug="vision"), approval="", escalate_after=24 * HOUR)
    save_rule(
        by=admin,
        team=Team.objects.get(slug="nlp"),
        profile=Profile.objects.get(slug="mi300x"),
        approval=Approval.BOTH,
    )


def _guarantees(admin: User, vision: Team) -> None:
    if Quota.objects.filter(team=vision, counts=Quota.Counts.CLAIMS).exists():
        return
    set_quota(by=admin, team=vision, counts=Quota.Counts.CLAIMS, devices=32)
    set_quota(by=admin, team=vision, device_class="gpu.nvidia.com", devices=16, guaranteed=12)


def _extensions(engineer: User, lead: User) -> None:
    """Create one extension that was decided yesterday, and a pending one."""
    claim = Claim.objects.filter(key="demo-sam2-finetune", state=ClaimState.ALLOCATED).first()
    if claim is None or claim.expires_at is None or Extension.objects.filter(claim=claim).exists():
        return
    extension = extend(
        claim=claim,
        by=engineer,
        until=claim.expires_at + 2 * DAY,
        reason="The data loader was slow on the first day.",
        key="demo-first-extension",
    )
    approve_extension(extension=extension, by=lead, note="Fine, the loader is fixed by now.")
    ago = DAY + 4 * HOUR
    Extension.objects.filter(pk=extension.pk).update(
        requested_at=F("requested_at") - ago, decided_at=F("decided_at") - ago + HOUR
    )
    remarks = claim.history.filter(old=F("new"))
    remarks.update(at=F("at") - ago)
    remarks.filter(by=lead).update(at=F("at") + HOUR)
    notices = Notice.objects.filter(key__startswith=f"extension:{extension.pk}:")
    notices.update(created_at=F("created_at") - ago, read_at=F("created_at") - ago + HOUR)
    claim.refresh_from_db()
    extend(
        claim=claim,
        by=engineer,
        until=(claim.expires_at or timezone.now()) + 3 * DAY,
        reason="The last two epochs need three more days.",
        key="demo-more-time",
    )


def _more_quota(lead: User, vision: Team) -> None:
    if QuotaRequest.objects.filter(key="demo-more-quota").exists():
        return
    request_quota(
        by=lead,
        team=vision,
        device_class="gpu.nvidia.com",
        devices=30,
        until=timezone.now() + 7 * DAY,
        reason="The occupancy network for the review on Friday does not fit beside what runs.",
        key="demo-more-quota",
    )


def _question(lead: User) -> None:
    claim = Claim.objects.filter(key="demo-occ-pretrain", state=ClaimState.REQUESTED).first()
    if claim is not None:
        question = (
            "Could it start on two devices? Then it would not have to wait for the end of sam2-finetune."
        )
        comment_on_claim(claim=claim, by=lead, text=question, key="demo-question")


def _delegation(lead: User, to: User) -> None:
    """Create the delegation of a lead who is away this week."""
    if Delegation.objects.exists():
        return
    now = timezone.now()
    nlp = Team.objects.get(slug="nlp")
    delegate(by=lead, team=nlp, to=to, starts_at=now - 2 * DAY, ends_at=now + 5 * DAY)


def _unmanaged_claim(folder: Path, cluster: Cluster) -> None:
    with contextlib.suppress(ClusterConflict):  # of an earlier start
        people_gateway(folder, cluster.name).create(RESOURCE_CLAIM, UNMANAGED_CLAIM)
    if not cluster.write_quotas:
        write_quotas(name=cluster.name, write=True)


def do(folder: Path) -> None:
    """Take the turns; each needs its claim and leaves the others alone."""
    person = {user.username: user for user in User.objects.filter(is_active=True)}
    claims = {claim.key.removeprefix("demo-"): claim for claim in _story_claims()}
    if "tracker-serve" in claims and claims["tracker-serve"].requested_by == person["jonas"]:
        transfer(claim=claims["tracker-serve"], by=person["jonas"], to=person["engineer"])
    if "lidar-seg" in claims and "lidar-seg-2" not in claims:
        _replace(claims["lidar-seg"], person["engineer"])
    if "mt-serve" in claims:
        _consent(claims["mt-serve"], person["ines"])
    if "mt-large" in claims:
        _denied_extension(claims["mt-large"], person["outsider"], person["ines"])
    if "arm-policy" in claims:
        _lower_quota(person["admin"])
    if "eval-nightly" in claims:
        _recreate_edited(folder, claims["eval-nightly"])
    if "thumb-index" in claims:
        _take_label(folder, claims["thumb-index"])
        _use_extended_resources(folder)
    # Send reminders now instead of minutes later.
    escalate_overdue(timezone.now())
    remind(timezone.now())


def _story_claims() -> list[Claim]:
    related = ("team", "cluster", "requested_by", "profile_version__profile")
    claims = Claim.objects.filter(key__startswith="demo-", cluster__simulated=True).live()
    return list(claims.select_related(*related))


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


def _denied_extension(claim: Claim, by: User, lead: User) -> None:
    if claim.expires_at is None or Extension.objects.filter(claim=claim).exists():
        return
    until, why = claim.expires_at + 5 * DAY, "Two more languages could be added."
    extension = extend(claim=claim, by=by, until=until, reason=why, key="demo-five-more-days")
    reason = "Eight devices for five more days are too much for an extra. Request again for four."
    deny_extension(extension=extension, by=lead, reason=reason)


def _lower_quota(admin: User) -> None:
    """Lower the quota of robotics below what it holds; nothing is taken away."""
    robotics = Team.objects.get(slug="robotics")
    if Quota.objects.filter(team=robotics, device_class="gpu.nvidia.com", devices=8).exists():
        set_quota(by=admin, team=robotics, device_class="gpu.nvidia.com", devices=1)


def _recreate_edited(folder: Path, claim: Claim) -> None:
    """Delete the object and create one of the same name that requests more, as somebody else."""
    gateway = people_gateway(folder, claim.cluster.name)
    manifest = gateway.get(RESOURCE_CLAIM, claim.name, namespace=claim.namespace)
    if manifest is None or not claim.object_uid or manifest["metadata"]["uid"] != claim.object_uid:
        return
    spec = deepcopy(manifest["spec"])
    spec["devices"]["requests"][0]["exactly"]["count"] = 2
    metadata = {key: manifest["metadata"][key] for key in ("name", "namespace", "labels")}
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
