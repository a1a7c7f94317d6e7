"""Unmanaged use in “How is this computed?”: each part links to its own page."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from claims.models import Claim, Quota
from claims.quotas.quota_usage import quota_breakdown
from claims.states import ClaimState
from inventory.models import Pod, ResourceClaim
from tests.claims.quotas.test_quota_usage import make_unmanaged, plugin_pod
from tests.factories import make_claim

pytestmark = pytest.mark.django_db


@pytest.fixture(params=["quota", "quota_parts"])
def page(request, client, bob, quota):
    """Read the page of the quota, or its drawer, as a viewer of the team."""
    client.force_login(bob)
    return lambda: client.get(reverse(f"claims:{request.param}", args=[quota.pk])).text


def test_a_claim_made_by_hand_leads_to_its_page(page, client, fra):
    row = make_unmanaged(fra, "by-hand", 2)
    address = reverse("claims:unmanaged_claim", args=[row.uid])
    assert f'<a class="dg-link dg-break" href="{address}">vision/by-hand</a>' in page()
    assert client.get(address).status_code == 200


def test_a_pod_of_a_device_plugin_leads_to_its_node(page, fra):
    plugin_pod(fra, "legacy", nvidia_com__gpu=2)
    Pod.objects.update(node_name="node-a")
    address = reverse("inventory:node", args=["fra-1", "node-a"])
    assert f'<a class="dg-link dg-break" href="{address}">vision/legacy</a>' in page()
    Pod.objects.update(node_name="")
    assert '<span class="dg-break">vision/legacy</span>' in page()


def test_what_has_no_page_is_named_without_a_link(page, vision, fra, train):
    """Under another name than the claim whose label it carries it counts, and the list leaves it out."""
    own = make_claim(vision, cluster=fra, profile=train, state=ClaimState.ALLOCATED)
    make_unmanaged(fra, "labeled", 1, owner=str(own.pk), origin="portal")
    assert '<span class="dg-break">vision/labeled</span>' in page()


def test_links_are_only_for_those_who_may_follow_them(fra, vision, quota, bob, eve):
    make_unmanaged(fra, "by-hand", 2)
    assert [bool(part.url) for part in quota_breakdown(quota, bob).unmanaged] == [True]
    assert [bool(part.url) for part in quota_breakdown(quota, eve).unmanaged] == [False]


def test_the_page_costs_the_same_for_one_part_and_for_many(client, bob, vision, fra, train, quota):
    Quota.objects.update(devices=90)
    address = reverse("claims:quota", args=[quota.pk])
    client.force_login(bob)

    def fill(number):
        make_claim(vision, cluster=fra, profile=train)
        make_unmanaged(fra, f"hand-{number}", 1)
        plugin_pod(fra, f"pod-{number}", nvidia_com__gpu=1)

    fill(0)
    client.get(address)
    with CaptureQueriesContext(connection) as one:
        client.get(address)
    for number in range(1, 8):
        fill(number)
    with CaptureQueriesContext(connection) as many:
        client.get(address)
    assert len(many) == len(one)
    assert (Claim.objects.count(), ResourceClaim.objects.count()) == (8, 8)
