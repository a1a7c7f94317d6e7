"""Page and API show the same explanation to those who may see the claim."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from claims.models import Claim
from claims.states import ClaimState
from inventory import cluster_snapshot
from inventory.models import Pod, PodEvent
from tests.claims.mirror import Mirror
from tests.factories import make_claim

pytestmark = pytest.mark.django_db
NOTHING = "0/2 nodes are available: 1 cannot allocate all claims, 1 a moon in the way."


@pytest.fixture
def claim(vision, fra, train, alice, quota):
    cluster_snapshot.forget()
    claim = make_claim(vision, by=alice, cluster=fra, profile=train, name="sam", state=ClaimState.PROVISIONED)
    Mirror(fra).claim("sam", claim)
    Mirror(fra).pod("train-0", claims=["sam"], phase="Pending", message=NOTHING)
    at = timezone.now()
    PodEvent.objects.create(
        pod=Pod.objects.get(), reason="FailedMount", message="MountVolume.SetUp failed", source="kubelet",
        count=4, first_at=at, last_at=at,
    )  # fmt: skip
    yield Claim.objects.get(pk=claim.pk)
    cluster_snapshot.forget()


@pytest.fixture(params=["page", "live"])
def url(request, claim):
    return reverse("claims:detail" if request.param == "page" else "claims:detail_live", args=[claim.pk])


def address(claim):
    return f"/api/v1/claims/{claim.pk}/explain/"


def test_page_shows_reasons_meanings_and_funnel(client, alice, url):
    client.force_login(alice)
    page = client.get(url).text
    for words in (
        "Waits for the scheduler",
        "cannot allocate all claims",
        "The node does not have enough free devices",
        "a moon in the way",
        "MountVolume.SetUp failed",
        "4 times",
        "What the cluster has now",
        "The cluster has no device class gpu.nvidia.com.",
    ):
        assert words in page


def test_members_get_link_to_excluded_devices(client, alice, bob, url, claim):
    link = f"{reverse('claims:request')}?profile=train-80&amp;"
    client.force_login(alice)
    assert link in (page := client.get(url).text)
    assert "&amp;help=1" in page
    client.force_login(bob)
    assert "help=1" not in client.get(url).text


def test_claim_without_pods_has_no_pod_panel(client, alice, claim):
    Pod.objects.all().delete()
    client.force_login(alice)
    page = client.get(reverse("claims:detail", args=[claim.pk])).text
    assert "What the cluster has now" not in page
    assert "Start a pod that uses the ResourceClaim sam." in page


def test_page_reports_missing_event_permission(client, alice, claim, fra):
    type(fra).objects.update(missing=["list events"])
    client.force_login(alice)
    assert (
        "The portal lacks the permission “list events” in fra-1"
        in client.get(reverse("claims:detail", args=[claim.pk])).text
    )


def test_messages_of_cluster_are_escaped(client, alice, claim):
    Pod.objects.update(message="<script>alert(1)</script>")
    client.force_login(alice)
    page = client.get(reverse("claims:detail", args=[claim.pk])).text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


@pytest.mark.parametrize("who", ["alice", "bob"])
def test_api_explains_to_members_and_viewers(client, request, claim, who):
    client.force_login(request.getfixturevalue(who))
    found = client.get(address(claim)).json()
    assert [step["key"] for step in found["steps"] if step["status"] == "now"] == ["scheduler"]
    (group,) = found["pods"]
    assert (group["names"], group["count"], group["stage"]) == (["train-0"], 1, "scheduler")
    assert [(part["count"], part["actor"]) for part in group["scheduler"]["reasons"]] == [
        (1, "cluster"),
        (1, ""),
    ]
    assert [(one["reason"], one["count"]) for one in group["events"]] == [("FailedMount", 4)]
    assert found["fit"]["match"]["fits"] is False
    assert found["hears_events"] is True
    page = client.get(reverse("claims:detail", args=[claim.pk])).text
    assert found["headline"] in page


def test_api_hides_claims_of_other_teams(client, eve, claim):
    client.force_login(eve)
    assert client.get(address(claim)).status_code == 404


@pytest.mark.parametrize("place", ["page", "api"])
def test_number_of_pods_does_not_change_number_of_queries(client, alice, claim, fra, place):
    url = address(claim) if place == "api" else reverse("claims:detail", args=[claim.pk])
    client.force_login(alice)
    client.get(url)
    with CaptureQueriesContext(connection) as one:
        client.get(url)
    for number in range(1, 30):
        Mirror(fra).pod(f"train-{number}", claims=["sam"], phase="Pending", message=NOTHING)
    client.get(url)
    with CaptureQueriesContext(connection) as many:
        answer = client.get(url)
    assert answer.status_code == 200
    assert len(many) == len(one)
