"""Who sees on fleet and devices that a claim holds a device."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from claims.access import visible_holders
from inventory.holders import holders_for
from inventory.models import Device, Pod, ResourceClaim, ResourceSlice
from inventory.states import Holder
from tests.factories import make_claim, make_cluster, make_team

pytestmark = pytest.mark.django_db


@pytest.fixture
def claim(vision, fra, train, alice):
    return make_claim(vision, by=alice, cluster=fra, name="sam2")


def mirrored(claim, **columns):
    """What the mirror has of the object of `claim`."""
    values = {"name": claim.name, "namespace": claim.namespace, "cluster": claim.cluster}
    return ResourceClaim.objects.create(
        **{"uid": f"uid-{claim.pk}", "owner": str(claim.pk), **values, **columns}
    )


def hold(row, name):
    pool = {"name": "node-a", "generation": 1, "resourceSliceCount": 1}
    columns = {"name": "s", "driver": "d", "pool": "node-a", "generation": 1, "pool_slices": 1}
    piece, _ = ResourceSlice.objects.get_or_create(
        cluster=row.cluster, uid="s", defaults={**columns, "raw": {"spec": {"driver": "d", "pool": pool}}}
    )
    where = {"driver": "d", "pool": "node-a", "node_name": "node-a"}
    return Device.objects.create(cluster=row.cluster, slice=piece, name=name, held_by=row, **where)


def page_of(claim):
    return reverse("claims:detail", args=[claim.pk])


def test_a_team_sees_its_own_claim_by_name_with_its_page(bob, claim):
    row = mirrored(claim)
    assert holders_for(bob, [row])[row.pk] == Holder("sam2", page_of(claim))


def test_an_outsider_sees_that_somebody_holds_it_and_not_who(eve, claim):
    row = mirrored(claim)
    assert holders_for(eve, [row])[row.pk].masked
    assert visible_holders(eve, [row]) == {}


def test_a_platform_admin_sees_every_holder(root, claim):
    mine, foreign = mirrored(claim), mirrored(claim, uid="x", owner="", namespace="kube-system", name="probe")
    holders = holders_for(root, [mine, foreign])
    assert holders[mine.pk] == Holder("sam2", page_of(claim))
    assert holders[foreign.pk] == Holder("kube-system/probe")


def test_each_of_several_holders_is_named_in_whatever_order_they_come(alice, vision, fra, train, claim):
    other = make_claim(vision, by=alice, cluster=fra, name="sam3")
    rows = [mirrored(claim), mirrored(other), mirrored(claim, uid="x", owner="", name="by-hand")]
    expected = {
        rows[0].pk: Holder("sam2", page_of(claim)),
        rows[1].pk: Holder("sam3", page_of(other)),
        rows[2].pk: Holder("vision/by-hand"),
    }
    assert visible_holders(alice, rows) == visible_holders(alice, iter(rows[::-1])) == expected


def test_what_a_team_made_by_hand_in_its_namespace_is_not_another_teams(alice, eve, claim):
    row = mirrored(claim, owner="", name="by-hand")
    assert holders_for(alice, [row])[row.pk] == Holder("vision/by-hand")
    assert holders_for(eve, [row])[row.pk].masked


@pytest.mark.parametrize("owner", ["not-an-id", "00000000-0000-0000-0000-000000000000"])
def test_a_label_that_names_no_claim_is_passed_over(alice, claim, owner):
    row = mirrored(claim, owner=owner)
    assert holders_for(alice, [row])[row.pk] == Holder("vision/sam2")


def test_a_label_in_a_strange_namespace_or_cluster_makes_nobody_a_holder(alice, claim):
    elsewhere = mirrored(claim, uid="a", namespace="audio")
    abroad = mirrored(claim, uid="b", cluster=make_cluster("ams-1"))
    holders = holders_for(alice, [elsewhere, abroad])
    assert holders[elsewhere.pk].masked
    assert holders[abroad.pk].masked


def test_the_same_namespace_in_another_cluster_is_not_that_of_the_team(alice, claim):
    make_team("audio")
    row = mirrored(claim, owner="", cluster=make_cluster("ams-1"))
    assert holders_for(alice, [row])[row.pk].masked


def test_the_pages_of_devices_name_it_to_the_team_alone(client, alice, eve, claim):
    device = hold(mirrored(claim), "gpu-0")
    for page in (reverse("inventory:devices"), reverse("inventory:device", args=[device.pk])):
        client.force_login(alice)
        assert f'href="{page_of(claim)}">sam2' in client.get(page).text
        client.force_login(eve)
        seen = client.get(page).text
        assert "sam2" not in seen
        assert "another team" in seen


def test_the_list_of_devices_costs_the_same_for_one_holder_and_for_many(
    client, alice, vision, fra, train, claim
):
    hold(mirrored(claim), "gpu-0")
    client.force_login(alice)
    client.get(reverse("inventory:devices"))
    with CaptureQueriesContext(connection) as one:
        client.get(reverse("inventory:devices"))
    for number in range(1, 9):
        hold(mirrored(make_claim(vision, by=alice, cluster=fra)), f"gpu-{number}")
    with CaptureQueriesContext(connection) as many:
        client.get(reverse("inventory:devices"))
    assert len(many) == len(one)


def test_page_of_a_shared_device_names_all_holders_with_their_shares(
    client, eve, alice, claim, vision, fra, train
):
    def share_of(claim, gib, **more):
        result = {"driver": "gpu.nvidia.com", "pool": "node-a", "device": "gpu-0", "shareID": claim.name}
        result |= {"consumedCapacity": {"memory": f"{gib}Gi"}} | more
        Pod.objects.create(
            cluster=fra, uid=f"pod-{claim.pk}", name=claim.name, namespace=claim.namespace, phase="Running",
            claims=[claim.name], node_name="node-a",
        )  # fmt: skip
        raw = {"status": {"allocation": {"devices": {"results": [result]}}}}
        return mirrored(claim, raw=raw, allocated_at=timezone.now())

    first = share_of(claim, 20)
    share_of(make_claim(vision, by=alice, cluster=fra, profile=train, name="probe"), 10)
    share_of(make_claim(vision, by=alice, cluster=fra, profile=train, name="monitor"), 5, adminAccess=True)
    device = hold(first, "gpu-0")
    Device.objects.filter(pk=device.pk).update(shareable=True, driver="gpu.nvidia.com")
    address = reverse("inventory:device", args=[device.pk])
    client.force_login(alice)
    page = client.get(address)
    assert [(one.holder.text, one.memory_bytes) for one in page.context["shares"]] == [
        ("sam2", 20 * 2**30), ("probe", 10 * 2**30),
    ]  # fmt: skip
    assert "20 GiB share" in page.text
    client.force_login(eve)
    page = client.get(address).text
    assert page.count("another team") == 2
    assert "sam2" not in page
    assert "probe" not in page
