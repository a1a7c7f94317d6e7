"""
Pending requests of the demo: an extension, quota, a question, a draft, an approval rule, a delegation, and an
unmanaged claim.

Everything has a key or is created only if it is missing, so a restart changes nothing.
"""

import contextlib
from pathlib import Path

from django.db.models import F
from django.utils import timezone

from claims.approvals.services import delegate, save_rule
from claims.inbox.services import comment_on_claim
from claims.lifecycle.services import approve_extension, extend
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
from claims.quotas.services import approve_quota_request, ask_for_quota, set_quota
from claims.requests.services import save_draft
from claims.states import ClaimState
from cluster.errors import ClusterConflict
from cluster.protocol import RESOURCE_CLAIM
from demo.people import people_gateway
from demo.scenario import DAY, HOUR
from inventory.clusters import write_quotas
from inventory.models import Cluster
from notify.models import Notice
from teams.models import Team, User

FOREIGN = {
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
    asked = ask_for_quota(
        by=User.objects.get(username="noor"),
        team=Team.objects.get(slug="vision"),
        device_class="gpu.nvidia.com",
        devices=26,
        until=timezone.now() + 9 * DAY,
        reason="The networks for the October review are trained side by side until it is over.",
        key="demo-raise",
    )
    approve_quota_request(quota_request=asked, by=admin, note="Until the review, not longer.")
    QuotaRequest.objects.filter(pk=asked.pk).update(
        requested_at=F("requested_at") - 6 * DAY, decided_at=F("decided_at") - 5 * DAY
    )
    QuotaIncrease.objects.filter(request=asked).update(starts_at=F("starts_at") - 5 * DAY)


def lay_out(folder: Path) -> None:
    """Create the pending requests; the claims of the demo must exist."""
    people = {person.username: person for person in User.objects.filter(is_active=True)}
    vision = Team.objects.get(slug="vision")
    _rules(people["admin"])
    _guarantees(people["admin"], vision)
    _more_time(people["engineer"], people["lead"])
    _more_quota(people["lead"], vision)
    _question(people["lead"])
    _away(people["ines"], people["outsider"])
    if not Draft.objects.filter(by=people["engineer"]).exists():
        save_draft(by=people["engineer"], key="demo-draft", fields=DRAFT)
    for cluster in Cluster.objects.filter(name="lab-2", simulated=True):
        _past_the_portal(folder, cluster)


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


def _more_time(engineer: User, lead: User) -> None:
    """Create one extension that was decided yesterday, and a pending one."""
    claim = Claim.objects.filter(key="demo-sam2-finetune", state=ClaimState.ALLOCATED).first()
    if claim is None or claim.expires_at is None or Extension.objects.filter(claim=claim).exists():
        return
    asked = extend(
        claim=claim,
        by=engineer,
        until=claim.expires_at + 2 * DAY,
        reason="The data loader was slow on the first day.",
        key="demo-first-extension",
    )
    approve_extension(extension=asked, by=lead, note="Fine, the loader is fixed by now.")
    ago = DAY + 4 * HOUR
    Extension.objects.filter(pk=asked.pk).update(
        requested_at=F("requested_at") - ago, decided_at=F("decided_at") - ago + HOUR
    )
    remarks = claim.history.filter(old=F("new"))
    remarks.update(at=F("at") - ago)
    remarks.filter(by=lead).update(at=F("at") + HOUR)
    told = Notice.objects.filter(key__startswith=f"extension:{asked.pk}:")
    told.update(created_at=F("created_at") - ago, read_at=F("created_at") - ago + HOUR)
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
    ask_for_quota(
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
        asked = "Could it start on two devices? Then it would not have to wait for the end of sam2-finetune."
        comment_on_claim(claim=claim, by=lead, text=asked, key="demo-question")


def _away(lead: User, to: User) -> None:
    """Create the delegation of a lead who is away this week."""
    if Delegation.objects.exists():
        return
    now = timezone.now()
    nlp = Team.objects.get(slug="nlp")
    delegate(by=lead, team=nlp, to=to, starts_at=now - 2 * DAY, ends_at=now + 5 * DAY)


def _past_the_portal(folder: Path, cluster: Cluster) -> None:
    with contextlib.suppress(ClusterConflict):  # of an earlier start
        people_gateway(folder, cluster.name).create(RESOURCE_CLAIM, FOREIGN)
    if not cluster.write_quotas:
        write_quotas(name=cluster.name, write=True)
