"""What each cluster may admit for a team: what stands there, and what is free over all clusters."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from claims.models import Quota, TeamNamespace
from claims.quotas.resource_quota import headrooms
from claims.states import ClaimState
from inventory.models import DeviceClass, ResourceClaimTemplate
from tests.claims.quotas.test_quota_usage import make_unmanaged, plugin_pod
from tests.factories import GPU_CLASS, make_claim, make_cluster, make_quota, make_spec, make_team

pytestmark = pytest.mark.django_db


@pytest.fixture
def osl(vision):
    return make_cluster("osl-1", teams=(vision,))


@pytest.fixture
def of_claims(vision):
    return Quota.objects.create(team=vision, counts="claims", devices=5)


def places():
    return list(TeamNamespace.objects.select_related("team", "cluster").order_by("cluster__name"))


def devices():
    """Return what may be there by name of the cluster."""
    found = headrooms(places())
    return {place.cluster.name: found[place.pk].devices.get(GPU_CLASS) for place in places()}


def test_what_is_held_in_one_cluster_is_less_in_the_other(vision, fra, osl, train, quota):
    assert devices() == {"fra-1": 8, "osl-1": 8}
    make_claim(vision, cluster=fra, profile=train, devices=3, state=ClaimState.ALLOCATED)
    make_unmanaged(osl, "by-hand", 1)
    assert devices() == {"fra-1": 7, "osl-1": 5}


def test_what_a_request_reserves_is_nobodys_to_take_by_hand(vision, fra, osl, train, quota):
    claim = make_claim(vision, cluster=fra, profile=train, devices=3)
    assert devices() == {"fra-1": 5, "osl-1": 5}
    claim.advance(ClaimState.APPROVED, why="yes")
    assert devices() == {"fra-1": 8, "osl-1": 5}


def test_what_stands_there_beyond_the_limit_may_stay_and_nothing_is_added(vision, fra, osl, train, quota):
    """Kubernetes makes claims of a template anew with each pod: they must not be refused."""
    template = {"profile": train, "delivery": "template", "parallel": 3, "state": ClaimState.PROVISIONED}
    make_claim(vision, cluster=fra, devices=2, **template)
    make_unmanaged(osl, "by-hand", 1)
    Quota.objects.update(devices=2)
    assert devices() == {"fra-1": 6, "osl-1": 1}


def test_a_successor_beside_what_it_replaces_has_room_for_all_it_is_charged(vision, fra, osl, train, quota):
    old = make_claim(vision, cluster=fra, profile=train, devices=2, state=ClaimState.ALLOCATED)
    new = make_claim(vision, cluster=fra, profile=train, devices=3, replaces=old, carried=2)
    new.charges.update(carried=2)
    assert devices() == {"fra-1": 2 + 5, "osl-1": 5}
    new.advance(ClaimState.APPROVED, why="yes")
    assert devices() == {"fra-1": 2 + 3 + 5, "osl-1": 5}


def test_a_smaller_alternative_leaves_the_rest_to_all_clusters(vision, fra, osl, train, quota):
    """The cluster goes on charging the claim with its worst alternative."""
    settled = make_claim(vision, cluster=fra, profile=train, devices=4, state=ClaimState.ALLOCATED)
    settled.charges.update(settled=1)
    assert devices() == {"fra-1": 4 + 7, "osl-1": 7}


def test_claims_and_templates_are_counted_over_all_clusters_too(vision, fra, osl, train, quota, of_claims):
    make_claim(
        vision, cluster=fra, profile=train, delivery="template", parallel=3, state=ClaimState.PROVISIONED
    )
    make_unmanaged(osl, "by-hand", 1)
    found = headrooms(places())
    assert [(found[place.pk].claims, found[place.pk].templates) for place in places()] == [(4, 4), (2, 2)]


def test_a_template_of_the_portal_has_room_beside_templates_that_count_nothing(
    vision, fra, train, quota, of_claims
):
    Quota.objects.filter(counts="claims").update(devices=1)
    for name in ("one", "two"):
        ResourceClaimTemplate.objects.create(
            cluster=fra, uid=name, namespace="vision", name=name, raw={"spec": {"spec": make_spec()}}
        )
    make_claim(vision, cluster=fra, profile=train, delivery="template", state=ClaimState.APPROVED)
    (room,) = headrooms(places()).values()
    assert (room.claims, room.templates) == (1, 3)


def test_pods_that_no_line_of_the_cluster_counts_make_no_room_there(vision, fra, osl, quota):
    plugin_pod(fra, "legacy", nvidia_com__gpu=2)
    assert devices() == {"fra-1": 6, "osl-1": 6}
    DeviceClass.objects.create(cluster=fra, uid="c", name=GPU_CLASS, extended_resource="nvidia.com/gpu")
    assert devices() == {"fra-1": 8, "osl-1": 6}


def test_pods_that_ask_for_a_class_by_its_own_name_are_counted_by_a_line_of_the_cluster(
    vision, fra, osl, quota
):
    DeviceClass.objects.create(cluster=fra, uid="c", name=GPU_CLASS)
    plugin_pod(fra, "implicit", deviceclass_resource_kubernetes_io__gpu_nvidia_com=2)
    assert devices() == {"fra-1": 8, "osl-1": 6}


def test_a_template_that_is_gone_takes_no_room(vision, fra, quota, of_claims):
    ResourceClaimTemplate.objects.create(cluster=fra, uid="t", namespace="vision", name="t", raw={})
    Quota.objects.filter(counts="claims").update(devices=0)
    (room,) = headrooms(places()).values()
    assert room.templates == 1
    ResourceClaimTemplate.objects.update(gone_at=timezone.now())
    (room,) = headrooms(places()).values()
    assert room.templates == 0


def test_claims_in_a_namespace_that_the_team_has_left_are_not_there(vision, fra, osl, train, quota):
    make_claim(vision, cluster=fra, profile=train, namespace="old", devices=3, state=ClaimState.ALLOCATED)
    assert devices() == {"fra-1": 5, "osl-1": 5}


def test_a_class_without_a_quota_has_no_room(vision, fra, quota):
    DeviceClass.objects.create(cluster=fra, uid="m", name="mig.nvidia.com")
    (room,) = headrooms(places()).values()
    assert room.devices == {GPU_CLASS: 8, "mig.nvidia.com": 0}


def test_counting_costs_the_same_for_one_team_and_for_many(
    vision, fra, train, quota, of_claims, django_assert_num_queries
):
    def fill(team):
        make_claim(team, cluster=fra, profile=train, state=ClaimState.ALLOCATED)
        make_unmanaged(fra, f"hand-{team}", 1, namespace=team.slug)
        plugin_pod(fra, f"pod-{team}", namespace=team.slug, nvidia_com__gpu=1)

    fill(vision)
    one = places()
    with CaptureQueriesContext(connection) as captured:
        headrooms(one)
    for number in range(6):
        team = make_team(f"team-{number}")
        TeamNamespace.objects.create(team=team, cluster=fra, namespace=team.slug)
        make_quota(team, 4)
        fill(team)
    many = places()
    with django_assert_num_queries(len(captured)):
        assert {room.devices[GPU_CLASS] for room in headrooms(many).values()} == {7, 3}
