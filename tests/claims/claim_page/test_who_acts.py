"""Who acts next: states and observations × who reads, in the second person, with the command to copy."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from claims.claim_page.explain import explain
from claims.models import Claim
from claims.states import ClaimState
from inventory.models import Device, DeviceUtilization, Pod, ResourceClaim, ResourceSlice
from portal.home.parts import my_claims
from tests.claims.claim_page.test_explain_chain import moved, pod
from tests.claims.explained import have_devices, hold
from tests.claims.mirror import Mirror
from tests.factories import make_claim, make_user
from usage.rates import RateCard

pytestmark = pytest.mark.django_db
S = ClaimState
YOU, NOBODY, ADMIN = "You act next.", "Nobody has to act.", "A platform admin acts next."


def make_idle(claim, mirror, fra):
    """Let all devices of the claim be idle for two hours."""
    hold(claim, mirror)
    have_devices(fra, "gpu-0")
    holder = ResourceClaim.objects.get()
    place = ResourceSlice.objects.get()
    device = Device.objects.create(
        cluster=fra, slice=place, driver="gpu.nvidia.com", pool="node-1", name="gpu-0", held_by=holder
    )
    since = timezone.now() - timedelta(hours=2)
    DeviceUtilization.objects.create(device=device, held_by=holder, use="idle", since=since)
    pod(fra, phase="Running")


def make_releasing(claim, mirror, fra):
    moved(claim, S.ALLOCATED)
    pod(fra, phase="Running")
    Claim.objects.get(pk=claim.pk).advance(S.RELEASING, why="done")


def make_running(claim, mirror, fra):
    moved(claim, S.ALLOCATED)
    pod(fra, phase="Running")


def make_waiting(claim, mirror, fra):
    pass


def make_blocked(claim, mirror, fra):
    Claim.objects.filter(pk=claim.pk).update(state=S.APPROVED)
    type(fra).objects.update(read_only=True)


OWNER_OF_POD = "The owner of the pod train acts next."


@pytest.mark.parametrize(
    ("situation", "for_owner", "for_lead", "for_admin", "words", "command"),
    [
        (make_running, NOBODY, NOBODY, NOBODY, "The claim is in use.", ""),
        (make_idle, YOU, "alice acts next.", "alice acts next.", "Idle for 2 h. Release it, shorten it", ""),
        (
            make_releasing,
            YOU,
            OWNER_OF_POD,
            OWNER_OF_POD,
            "still holds the devices",
            "kubectl delete pod train -n vision",
        ),
        (make_waiting, YOU, "alice acts next.", "alice acts next.", "Start a pod that uses", ""),
        (
            make_blocked,
            "A platform admin acts next.",
            "A platform admin acts next.",
            YOU,
            "may not write",
            "",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_each_reader_is_told_who_acts_next(
    client, alice, lena, claim, mirror, fra, situation, for_owner, for_lead, for_admin, words, command
):
    situation(claim, mirror, fra)
    ada = make_user("ada", is_superuser=True)
    for reader, expected in ((alice, for_owner), (lena, for_lead), (ada, for_admin)):
        client.force_login(reader)
        page = client.get(reverse("claims:detail", args=[claim.pk])).text
        assert f"<b>{expected}</b>" in page
        assert words in page
        assert command in page
        told = client.get(f"/api/v1/claims/{claim.pk}/explain/").json()
        assert (told["headline"], told["command"]) == (expected, command)


def test_pods_of_a_deployment_are_ended_with_it(claim, fra):
    moved(claim, S.ALLOCATED)
    owner = [{"kind": "ReplicaSet", "name": "web-7d9f", "controller": True}]
    pod(fra, phase="Running")
    Pod.objects.update(raw={"metadata": {"ownerReferences": owner}, "spec": {}, "status": {}})
    Claim.objects.get(pk=claim.pk).advance(S.RELEASING, why="done")
    action = explain(Claim.objects.get(pk=claim.pk)).next_action
    assert action.command == "kubectl delete deployment web -n vision"


def test_ended_claim_shows_no_done_step_without_a_time(claim, fra):
    moved(claim, S.ALLOCATED, S.RELEASING, S.RELEASED)
    steps = explain(Claim.objects.get(pk=claim.pk)).shown_steps
    assert [step.key for step in steps if step.status == "done" and step.at is None] == []


def test_home_knows_all_claims_and_their_pending_pods(client, vision, alice, fra, train, quota):
    now = timezone.now()
    for index in range(20):
        make_claim(
            team=vision, by=alice, cluster=fra, profile=train, state=S.PROVISIONED, name=f"c-{index:02}"
        )
    Mirror(fra).pod("p", claims=["c-19"], phase="Pending", created_at=now - timedelta(minutes=12))
    assert len(my_claims(alice, RateCard.load(), now=now).rows) == 20
    client.force_login(alice)
    page = client.get("/").text
    assert "c-19 waits for a device" in page
    assert "Its pod p has been pending for 12 min" in page
    assert page.count("waits for a pod") >= 19
    assert "20" in page.partition("My claims")[2][:120]
    assert client.get("/claims/?who=me&state=live").context["listing"].total == 20
