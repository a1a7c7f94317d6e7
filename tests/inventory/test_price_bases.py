"""What the price of devices depends on, recorded from the mirror: once for devices that are alike."""

import pytest

from claims.catalogue.listing import kinds_for
from cluster.protocol import NODE, RESOURCE_SLICE
from inventory import price_bases
from inventory.cluster_snapshot import current_snapshot, forget
from inventory.models import BasisKey, Device, FleetSpan, Node, PriceBasis
from inventory.tasks import count_fleet
from tests.inventory.conftest import DRIVER, gpu, node, slice_of

pytestmark = pytest.mark.django_db
H100 = "NVIDIA H100 80GB HBM3"
SPOT = {"karpenter.sh/capacity-type": "spot"}


def labelled(name, **labels):
    found = node(name)
    found["metadata"]["labels"] = {"kubernetes.io/hostname": name, **labels}
    return found


def rows():
    columns = ("product", "partition", "capacity_type", "node_labels", "devices")
    return sorted(PriceBasis.objects.values_list(*columns), key=repr)


@pytest.fixture
def spot(mirrored, fake, run_session):
    """Node-a is on demand and has two GPUs, node-b is spot and has one."""
    fake.put(NODE, labelled("node-a"))
    fake.put(NODE, labelled("node-b", **SPOT))
    run_session("nodes")
    count_fleet()
    return mirrored


def test_devices_that_are_alike_have_one_basis_with_their_number(spot):
    assert rows() == [(H100, "", "on-demand", {}, 2), (H100, "", "spot", SPOT, 1)]


def test_nodes_that_differ_in_their_names_only_are_alike(spot, fake, run_session):
    fake.put(NODE, labelled("node-b"))
    run_session("nodes")
    count_fleet()
    assert rows() == [(H100, "", "on-demand", {}, 3), (H100, "", "spot", SPOT, 0)]


def test_basis_stays_when_its_devices_are_gone(spot, fake, run_session):
    fake.put(RESOURCE_SLICE, slice_of("node-b", [], generation=2))
    run_session("resourceslices")
    count_fleet()
    assert rows() == [(H100, "", "on-demand", {}, 2), (H100, "", "spot", SPOT, 0)]


def test_counting_again_adds_nothing(spot):
    before = set(PriceBasis.objects.values_list("pk", flat=True))
    price_bases.record(spot.pk)
    price_bases.add([BasisKey(spot.pk, DRIVER, H100, "", key) for key in labels_keys()])
    assert set(PriceBasis.objects.values_list("pk", flat=True)) == before


def labels_keys():
    return set(Node.objects.values_list("labels_key", flat=True))


def test_gpus_of_the_fleet_are_counted_by_basis(spot):
    spans = FleetSpan.objects.filter(ended_at=None).values_list("basis__capacity_type", "parts")
    assert sorted(spans) == [("on-demand", 2_000_000), ("spot", 1_000_000)]


def test_device_without_a_node_has_no_capacity_type(mirrored):
    Device.objects.update(node=None)
    price_bases.record(mirrored.pk)
    assert [row for row in rows() if row[-1]] == [(H100, "", "", {}, 3)]


def test_a_request_is_priced_by_the_bases_of_the_devices_that_it_would_get(spot):
    forget()
    exactly = {"deviceClassName": DRIVER}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    kinds = kinds_for(spot.pk, current_snapshot(spot), spec)
    assert {kind.basis for kind in kinds} == set(PriceBasis.objects.values_list("pk", flat=True))
    assert {kind.basis for kind in kinds} == {
        price_bases.basis_of(device).pk for device in Device.objects.select_related("node")
    }


def test_gpu_of_another_product_on_the_same_node_has_its_own_basis(spot, fake, run_session):
    fake.put(RESOURCE_SLICE, slice_of("node-a", [gpu(0), gpu(1, product="NVIDIA L4")], generation=2))
    run_session("resourceslices")
    count_fleet()
    assert [row[0] for row in rows() if row[-1]] == [H100, H100, "NVIDIA L4"]


def test_cluster_is_removed_with_its_bases(spot):
    spot.delete()
    assert not PriceBasis.objects.exists()
    assert not FleetSpan.objects.exists()
