from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from claims.approvals.decide import approve, deny
from claims.claim_page.explain import explain
from claims.inbox.comments import comment_on_claim
from claims.lifecycle.services import release
from claims.models import Approval, ApprovalRule, Claim
from claims.states import ClaimState
from inventory.models import Pod
from tests.factories import make_claim, make_profile

pytestmark = pytest.mark.django_db


@pytest.fixture
def claim(vision, fra, train, alice, quota):
    return make_claim(vision, by=alice, cluster=fra, profile=train, devices=2, name="sam")


def moved(claim, *states, why="moved"):
    for state in states:
        Claim.objects.get(pk=claim.pk).advance(state, why=why)
    return Claim.objects.get(pk=claim.pk)


def pod(cluster, name="train", **fields):
    return Pod.objects.create(
        cluster=cluster,
        uid=name,
        namespace="vision",
        name=name,
        claims=["sam"],
        **{"phase": "Pending", **fields},
    )


def statuses(claim):
    return {step.key: step.status for step in explain(claim).steps}


def test_request_waits_for_deciders_other_than_requester(claim, vision, fra, train, lena, quota):
    assert explain(claim).next_action.headline == "lars or lena decides next."
    own = make_claim(vision, by=lena, cluster=fra, profile=train)
    assert explain(own).next_action.who == "lars"
    ApprovalRule.objects.create(team=vision, approval="", self_approval=True)
    assert explain(own).next_action.who == "lars or lena"


def test_request_for_admins_waits_for_admins(vision, fra, alice, root):
    claim = make_claim(vision, by=alice, cluster=fra, profile=make_profile("big", approval=Approval.ADMIN))
    assert explain(claim).next_action.who == "root"


def test_owner_acts_next_while_a_question_is_open(claim, alice, lena, client):
    comment_on_claim(claim=claim, by=lena, text="Would one device do?", key="q")
    action = explain(claim).next_action
    assert (action.headline, action.headline_for_others) == ("You act next.", "alice acts next.")
    assert action.sentence.startswith("lena asked: “Would one device do?” Answer it. lars or lena can decide")
    client.force_login(alice)
    page = client.get(reverse("claims:detail", args=[claim.pk])).text
    assert "<summary>Answer</summary>" in page
    assert "Answer to lena" in page
    comment_on_claim(claim=claim, by=alice, text="Yes.", key="a")
    assert explain(claim).next_action.headline == "lars or lena decides next."


def test_prepared_has_the_time_at_which_the_first_pod_started(claim, fra):
    claim = moved(claim, ClaimState.APPROVED, ClaimState.PROVISIONED, ClaimState.ALLOCATED)
    started = timezone.now().replace(microsecond=0) - timedelta(minutes=5)
    raw = {
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": started.isoformat()}],
        }
    }
    pod(fra, phase="Running", raw=raw)
    steps = {step.key: step for step in explain(claim).steps}
    view = explain(claim).pods[0]
    assert (steps["prepared"].status, steps["prepared"].at) == ("done", view.since)
    assert view.since is not None


def test_timeline_of_new_request(claim):
    assert statuses(claim) == {
        "requested": "done", "quota": "done", "approved": "now", "written": "ahead", "waiting": "ahead",
        "scheduler": "ahead", "prepared": "ahead", "used": "ahead", "releasing": "ahead", "released": "ahead",
    }  # fmt: skip
    steps = {step.key: step for step in explain(claim).steps}
    assert (steps["requested"].by, steps["requested"].note) == ("alice", "2 devices")
    assert steps["quota"].note == "2 × gpu.nvidia.com"


def test_portal_acts_after_approval(claim, lena):
    approve(claim=claim, by=lena, spec_hash=claim.spec_hash, note="fine")
    step = explain(Claim.objects.get(pk=claim.pk))
    assert (step.next_action.actor, step.next_action.headline) == ("portal", "The portal acts next.")
    approved = next(each for each in step.steps if each.key == "approved")
    assert (approved.status, approved.by, approved.note) == ("done", "lena", "fine")


def test_owner_starts_pod_and_nothing_is_billed_until_then(claim):
    claim = moved(claim, ClaimState.APPROVED, ClaimState.PROVISIONED)
    step = explain(claim)
    assert step.next_action.actor == "you"
    assert (
        "Start a pod that uses the ResourceClaim sam. No device is held and nothing is billed"
        in step.next_action.sentence
    )
    assert statuses(claim)["waiting"] == "now"


def test_allocated_claim_shows_deletion_time(claim):
    claim = moved(claim, ClaimState.APPROVED, ClaimState.PROVISIONED, ClaimState.ALLOCATED)
    Claim.objects.filter(pk=claim.pk).update(expires_at=timezone.now() + timedelta(hours=1))
    step = explain(Claim.objects.get(pk=claim.pk))
    assert step.next_action.actor == "nobody"
    assert "The portal then deletes it; running pods keep their devices" in step.next_action.sentence


def test_releasing_claim_names_pods_that_hold_devices(claim, fra, alice):
    claim = moved(claim, ClaimState.APPROVED, ClaimState.PROVISIONED, ClaimState.ALLOCATED)
    pod(fra, phase="Running")
    pod(fra, name="done", phase="Succeeded")
    Claim.objects.get(pk=claim.pk).advance(ClaimState.RELEASING, why="done")
    step = explain(Claim.objects.get(pk=claim.pk))
    assert step.next_action.sentence == "The pod train still holds the devices. They are freed when it ends."
    Pod.objects.all().delete()
    assert explain(Claim.objects.get(pk=claim.pk)).next_action.actor == "cluster"


def test_claim_released_before_delivery_skips_device_steps(claim, alice, lena, gateway):
    approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    release(claim=claim, by=alice)
    claim = moved(claim, ClaimState.RELEASED)
    assert statuses(claim) == {
        "requested": "done", "quota": "done", "approved": "done", "written": "skipped", "waiting": "skipped",
        "scheduler": "skipped", "prepared": "skipped", "used": "skipped", "releasing": "done",
        "released": "done",
    }  # fmt: skip
    assert explain(claim).next_action.actor == "nobody"


def test_denial_ends_timeline_with_reason(claim, lena):
    claim = deny(claim=claim, by=lena, reason="Use an L4")
    step = explain(claim)
    assert (step.next_action.actor, step.next_action.sentence) == ("nobody", "Use an L4")
    assert [(each.key, each.status) for each in step.steps][2:] == [("approved", "bad")]


def test_failure_is_shown_at_its_step(claim):
    claim = moved(claim, ClaimState.APPROVED, ClaimState.FAILED, why="fra-1 refused it")
    assert [(each.key, each.status, each.note) for each in explain(claim).steps][3:] == [
        ("written", "bad", "fra-1 refused it")
    ]
