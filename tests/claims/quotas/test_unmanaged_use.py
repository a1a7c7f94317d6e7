"""Unmanaged use, object by object."""

from datetime import timedelta

import pytest
from django.utils import timezone

from claims.models import Delivery, Quota, TeamNamespace
from claims.quotas.counts import UnmanagedUse, unmanaged_use
from claims.quotas.quota_usage import device_capacity, quota_usage
from claims.states import ClaimState
from inventory.models import Device, DeviceClass, ResourceSlice
from tests.claims.quotas.test_quota_usage import make_unmanaged, plugin_pod
from tests.factories import GPU_CLASS, make_claim, make_cluster, make_quota, make_team

pytestmark = pytest.mark.django_db
MIG = "mig.nvidia.com"


@pytest.fixture
def osl(vision):
    return make_cluster("osl-1", teams=(vision,))


def names(team):
    return sorted(
        f"{use.cluster_name}/{use.namespace}/{use.name}" for use in unmanaged_use([team.pk])[team.pk]
    )


def test_each_object_is_told_with_its_place_and_what_it_counts_for(vision, fra):
    row = make_unmanaged(fra, "by-hand", 2, origin="template")
    DeviceClass.objects.create(cluster=fra, uid="m", name=MIG, extended_resource="example.com/mig")
    plugin_pod(fra, "legacy", nvidia_com__gpu=2, example_com__mig=1)
    assert unmanaged_use([vision.pk]) == {
        vision.pk: [
            UnmanagedUse(
                kind="ResourceClaim",
                cluster=fra.pk,
                cluster_name="fra-1",
                namespace="vision",
                name="by-hand",
                origin="template",
                charge={GPU_CLASS: 2},
                uid=row.uid,
                unseen={},
                node="",
            ),
            UnmanagedUse(
                kind="Pod",
                cluster=fra.pk,
                cluster_name="fra-1",
                namespace="vision",
                name="legacy",
                origin="device-plugin",
                charge={GPU_CLASS: 2, MIG: 1},
                uid="uid-legacy",
                unseen={GPU_CLASS: 2},
                node="",
            ),
        ]
    }


def test_an_object_counts_for_the_team_whose_namespace_of_that_cluster_it_is_in(vision, fra, osl):
    """`vision` of `osl` is another team's, and vision's namespace there has another name."""
    nlp = make_team("nlp")
    TeamNamespace.objects.filter(cluster=osl).update(namespace="vision-osl")
    TeamNamespace.objects.create(team=nlp, cluster=osl, namespace="vision")
    for cluster, namespace in ((fra, "vision"), (osl, "vision"), (osl, "vision-osl"), (fra, "nlp")):
        make_unmanaged(cluster, f"claim-{namespace}", 1, namespace=namespace)
        plugin_pod(cluster, f"pod-{cluster}-{namespace}", namespace=namespace, nvidia_com__gpu=1)
    assert names(vision) == [
        "fra-1/vision/claim-vision",
        "fra-1/vision/pod-fra-1-vision",
        "osl-1/vision-osl/claim-vision-osl",
        "osl-1/vision-osl/pod-osl-1-vision-osl",
    ]
    assert names(nlp) == ["osl-1/vision/claim-vision", "osl-1/vision/pod-osl-1-vision"]
    assert set(unmanaged_use([nlp.pk])) == {nlp.pk}
    assert unmanaged_use([make_team("speech").pk]) == {}


@pytest.mark.parametrize(
    ("phase", "counts"),
    [("Pending", True), ("Running", True), ("Unknown", True), ("Succeeded", False), ("Failed", False)],
)
def test_a_pod_counts_until_it_has_ended(vision, fra, phase, counts):
    plugin_pod(fra, "legacy", phase=phase, nvidia_com__gpu=1)
    assert bool(names(vision)) is counts


def test_a_pod_that_is_gone_or_asks_for_nothing_does_not_count(vision, fra):
    pod = plugin_pod(fra, "gone", nvidia_com__gpu=1)
    pod.gone_at = timezone.now()
    pod.save()
    plugin_pod(fra, "plain")
    assert names(vision) == []


def test_a_name_is_that_of_the_newest_class_that_stands_in_the_pods_cluster(vision, fra, osl):
    now = timezone.now()
    for cluster, name, age, gone in (
        (fra, "old.example.com", 3, None),
        (fra, "new.example.com", 2, None),
        (fra, "gone.example.com", 1, now),
        (osl, "elsewhere.example.com", 1, None),
    ):
        fields = {"extended_resource": "nvidia.com/gpu", "gone_at": gone}
        fields["created_at"] = now - timedelta(days=age)
        DeviceClass.objects.create(cluster=cluster, uid=name, name=name, **fields)
    plugin_pod(fra, "legacy", nvidia_com__gpu=1)
    (use,) = unmanaged_use([vision.pk])[vision.pk]
    assert (use.charge, use.unseen) == ({"new.example.com": 1}, {})


@pytest.mark.parametrize(
    ("what", "ours"),
    [
        ("the object itself", True),
        ("another name", False),
        ("another namespace", False),
        ("another cluster", False),
        ("of the team that had the namespace before", True),
        ("of a template under any name", True),
    ],
)
def test_a_label_makes_an_object_the_portals_only_in_the_claims_place_under_its_name(
    vision, fra, osl, train, what, ours
):
    delivery = Delivery.TEMPLATE if "template" in what else Delivery.CLAIM
    team = make_team("nlp") if what == "of the team that had the namespace before" else vision
    claim = make_claim(
        team,
        cluster=osl if what == "another cluster" else fra,
        namespace="other" if what == "another namespace" else "vision",
        profile=train,
        state=ClaimState.ALLOCATED,
        delivery=delivery,
    )
    name = "another" if what in ("another name", "of a template under any name") else claim.name
    make_unmanaged(fra, name, 1, owner=str(claim.pk), origin="portal")
    assert (names(vision) == []) is ours


@pytest.mark.parametrize(
    ("state", "ours"),
    [(ClaimState.PROVISIONED, True), (ClaimState.ALLOCATED, True), (ClaimState.RELEASED, False)],
)
def test_an_adopted_object_is_the_portals_while_its_claim_lives(vision, fra, train, state, ours):
    row = make_unmanaged(fra, "by-hand", 1)
    make_claim(
        vision, cluster=fra, profile=train, name="by-hand", origin="adopted", object_uid=row.uid, state=state
    )
    assert (names(vision) == []) is ours


def test_unmanaged_use_is_read_once_for_any_number_of_quotas_and_teams(vision, fra, quota):
    nlp = make_team("nlp")
    make_cluster("fra-1", teams=(nlp,))
    rows = [quota, make_quota(vision, 3, device_class=MIG), make_quota(nlp, 3)]
    make_unmanaged(fra, "one", 2)
    make_unmanaged(fra, "two", 1, device_class=MIG)
    make_unmanaged(fra, "three", 3, namespace="nlp")
    assert [row.unmanaged for row in quota_usage(rows)] == [2, 1, 3]
    assert [row.unmanaged for row in quota_usage([Quota.objects.get(pk=quota.pk)])] == [2]


def test_the_capacity_is_of_present_devices_in_all_clusters_in_use(fra, osl):
    off = make_cluster("sto-1", enabled=False)
    for cluster, count in ((fra, 3), (osl, 2), (off, 4)):
        DeviceClass.objects.create(cluster=cluster, uid=f"c-{cluster}", name=GPU_CLASS)
        DeviceClass.objects.create(cluster=cluster, uid=f"e-{cluster}", name="empty.example.com")
        fields = {"driver": "d", "pool": "p", "generation": 1, "pool_slices": 1}
        piece = ResourceSlice.objects.create(cluster=cluster, uid=f"s-{cluster}", name="s", **fields)
        for number in range(count):
            own = {"driver": "d", "pool": "p", "name": f"gpu-{number}", "classes": [GPU_CLASS]}
            Device.objects.create(cluster=cluster, slice=piece, **own)
    classes = [GPU_CLASS, "empty.example.com", "unknown.example.com"]
    assert device_capacity(classes) == {GPU_CLASS: 5, "empty.example.com": 0}
    assert device_capacity([]) == {}
    DeviceClass.objects.filter(cluster=fra).update(gone_at=timezone.now())
    assert device_capacity([GPU_CLASS]) == {
        GPU_CLASS: 5
    }  # osl shows it still; a device counts by its own classes
