"""
What waits on people's desks in the demo: more time, more quota, a question, a draft, a rule, and a claim that
somebody made past the portal.

Everything has a key or is made only where it is missing, so that starting again changes nothing.
"""

import contextlib
from datetime import timedelta
from pathlib import Path

from django.utils import timezone

from claims import services
from claims.models import Approval, ApprovalRule, Claim, Draft, Extension, Profile, Quota, QuotaRequest
from claims.states import ClaimState
from cluster.errors import ClusterConflict
from cluster.kinds import RESOURCE_CLAIM
from inventory.enrolment import write_quotas
from inventory.models import Cluster
from portal.demo.clusters import people_gateway
from teams.models import Team, User

HOUR = timedelta(hours=1)
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


def lay_out(folder: Path) -> None:
    """Lay out what the story did not: it needs the claims of the story."""
    people = {person.username: person for person in User.objects.filter(is_active=True)}
    vision = Team.objects.get(slug="vision")
    _rules(people["admin"])
    _guarantees(people["admin"], vision)
    _more_time(people["engineer"])
    _more_quota(people["lead"], vision)
    _question(people["lead"])
    if not Draft.objects.filter(by=people["engineer"]).exists():
        services.save_draft(by=people["engineer"], key="demo-draft", fields=DRAFT)
    for cluster in Cluster.objects.filter(name="lab-2", simulated=True):
        _past_the_portal(folder, cluster)


def _rules(admin: User) -> None:
    if ApprovalRule.objects.exists():
        return
    services.save_rule(by=admin, team=Team.objects.get(slug="vision"), approval="", escalate_after=24 * HOUR)
    services.save_rule(
        by=admin,
        team=Team.objects.get(slug="nlp"),
        profile=Profile.objects.get(slug="mi300x"),
        approval=Approval.BOTH,
    )


def _guarantees(admin: User, vision: Team) -> None:
    if Quota.objects.filter(team=vision, counts=Quota.Counts.CLAIMS).exists():
        return
    services.set_quota(by=admin, team=vision, counts=Quota.Counts.CLAIMS, devices=20)
    services.set_quota(by=admin, team=vision, device_class="gpu.nvidia.com", devices=16, guaranteed=12)


def _more_time(engineer: User) -> None:
    claim = Claim.objects.filter(key="demo-sam2-finetune", state=ClaimState.ALLOCATED).first()
    if claim is None or claim.expires_at is None or Extension.objects.filter(claim=claim).exists():
        return
    until = claim.expires_at + timedelta(days=3)
    why = "The last two epochs need three more days."
    services.extend(claim=claim, by=engineer, until=until, reason=why, key="demo-more-time")


def _more_quota(lead: User, vision: Team) -> None:
    if QuotaRequest.objects.filter(key="demo-more-quota").exists():
        return
    services.ask_for_quota(
        by=lead,
        team=vision,
        device_class="gpu.nvidia.com",
        devices=20,
        until=timezone.now() + timedelta(days=7),
        reason="The occupancy network for the review on Friday does not fit beside what runs.",
        key="demo-more-quota",
    )


def _question(lead: User) -> None:
    claim = Claim.objects.filter(key="demo-occ-pretrain", state=ClaimState.REQUESTED).first()
    if claim is not None:
        asked = "Could it start on two devices? Then it would not have to wait for the end of sam2-finetune."
        services.comment_on_claim(claim=claim, by=lead, text=asked, key="demo-question")


def _past_the_portal(folder: Path, cluster: Cluster) -> None:
    with contextlib.suppress(ClusterConflict):  # of an earlier start
        people_gateway(folder, cluster.name).create(RESOURCE_CLAIM, FOREIGN)
    if not cluster.write_quotas:
        write_quotas(name=cluster.name, write=True)
