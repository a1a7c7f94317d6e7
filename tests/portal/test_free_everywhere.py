"""Free has one meaning: every page and the API count the same devices, over random clusters."""

from random import Random

import pytest
from django.test import Client, RequestFactory
from django.utils import timezone

from dra.devices import is_gpu
from inventory.counts import fleet_counts, store_counts, with_figures
from inventory.fleet import totals
from inventory.fleet_history import MILLION, count_parts
from inventory.freshness import OF_DEVICES, ages
from inventory.models import Cluster, Device, FleetSpan, Node, NodeCount, ResourceClaim, ResourceSlice
from inventory.states import DeviceState
from portal.context import Shell
from portal.home.admin import Platform, cluster_rows
from portal.search import SearchText, find_devices
from tests.factories import make_user
from usage.rates import RateCard

pytestmark = pytest.mark.django_db
NIC, CHANNEL, NVIDIA = "dra.net", "compute-domain.nvidia.com", "gpu.nvidia.com"
NODES = {"ready": (True, False), "down": (False, False), "cordoned": (True, True), "both": (False, True)}


def make_random_cluster(chance: Random) -> Cluster:
    """Return a cluster whose devices have every combination of what keeps a device from being free."""
    cluster = Cluster.objects.create(name="ran-1", uid="ran", credentials=b"", version="v1.37.1")
    claim = ResourceClaim.objects.create(cluster=cluster, uid="c", namespace="x", name="holder", raw={})
    for name, (ready, cordoned) in NODES.items():
        node = Node.objects.create(
            cluster=cluster, uid=name, name=name, raw={}, ready=ready, unschedulable=cordoned
        )
        place = ResourceSlice.objects.create(
            cluster=cluster,
            uid=f"s-{name}",
            name=name,
            raw={},
            driver=NVIDIA,
            pool=name,
            generation=1,
            pool_slices=1,
        )
        Device.objects.bulk_create(
            make_device(chance, cluster, node, place, claim, index) for index in range(40)
        )
    store_counts()
    return cluster


def make_device(chance, cluster, node, place, claim, index):
    driver = chance.choice([NVIDIA, NVIDIA, NVIDIA, NIC, CHANNEL])
    parent = f"GPU-{node.name}-{index // 4}" if driver == NVIDIA and index % 3 else ""
    return Device(
        cluster=cluster, node=node, slice=place, driver=driver, pool=node.name, node_name=node.name,
        name=f"dev-{index}", product="NVIDIA H100" if driver == NVIDIA else f"dev-{index}",
        uuid=f"U-{node.name}-{index}", parent_uuid=parent, memory_bytes=2**36 if driver == NVIDIA else None,
        held_by=claim if chance.random() < 0.25 else None,
        condition=chance.choice(["good", "good", "good", "tainted", "unhealthy"]),
        pool_complete=chance.random() < 0.9, blocked=chance.random() < 0.2, shareable=chance.random() < 0.2,
        gone_at=timezone.now() if chance.random() < 0.15 else None,
    )  # fmt: skip


def is_free(device: Device) -> bool:
    """A claim could get the device now: written without the conditions of the code."""
    return (
        device.gone_at is None
        and device.held_by_id is None
        and device.condition == "good"
        and device.pool_complete
        and not device.blocked
        and device.node is not None
        and device.node.ready
        and not device.node.unschedulable
    )


def api_rows(client, address):
    while address:
        page = client.get(address).json()
        yield from page["results"]
        address = page["next"]


@pytest.mark.parametrize("seed", range(4))
def test_free_devices_are_the_same_number_on_every_page(seed):
    cluster = make_random_cluster(Random(seed))
    devices = list(Device.objects.select_related("node"))
    free = {node: sum(is_free(one) for one in devices if one.node_name == node) for node in NODES}
    gpus = sum(is_free(one) for one in devices if one.driver == NVIDIA)
    admin = make_user("ada", is_superuser=True)
    client, request = Client(), RequestFactory().get("/")
    client.force_login(admin)
    request.user = admin
    platform, shell = Platform.read(RateCard.load(), timezone.now()), Shell.of(request)
    assert 0 < gpus < sum(free.values()) < len(devices)
    assert client.get("/devices/?state=free").context["listing"].total == sum(free.values())
    assert client.get("/devices/?state=free&gpu=yes").context["listing"].total == gpus
    assert sum(1 for _row in api_rows(client, "/api/v1/devices/?state=free")) == sum(free.values())
    assert {
        row["name"]: row["devices_free"] for row in client.get("/api/v1/nodes/").json()["results"]
    } == free
    assert {row.name: row.free_count for row in with_figures(Node.objects.all())} == free
    assert dict(NodeCount.objects.values_list("node__name", "free")) == free
    for name, number in free.items():
        found = find_devices(shell, SearchText((name,)), 9).rows
        assert {row.title: row for row in found}[name].detail.endswith(f", {number} free")
    figures = {figure.look.state: figure.devices for figure in totals(fleet_counts().values()).figures}
    assert figures[DeviceState.FREE] == gpus
    [row] = cluster_rows(ages(OF_DEVICES, cluster=cluster), platform)
    assert row.free == gpus


@pytest.mark.parametrize("seed", range(4))
def test_only_gpus_count_as_gpus(seed):
    cluster = make_random_cluster(Random(seed))
    present = list(Device.objects.present())
    gpus = [one for one in present if is_gpu(one.driver, one.name, one.product, one.memory_bytes)]
    assert {one.driver for one in gpus} == {NVIDIA}
    assert set(Device.objects.present().gpus()) == set(gpus)
    sums = totals(fleet_counts().values())
    physical = {one.parent_uuid or one.uuid for one in gpus}
    assert (sums.devices, sums.others) == (len(gpus), len(present) - len(gpus))
    assert sums.gpus == len(physical)
    assert sum(figure.share for figure in sums.figures) == pytest.approx(1)
    assert sum(count_parts(cluster.pk).values()) == len(physical) * MILLION
    spans = FleetSpan.objects.filter(ended_at=None).values_list("driver", "parts")
    assert {driver for driver, _parts in spans} == {NVIDIA}


@pytest.mark.parametrize(
    ("driver", "product", "memory", "expected"),
    [
        ("gpu.amd.com", "", None, True),
        ("tpu.google.com", "v5e", None, True),
        (NIC, "ConnectX", 2**30, False),
        (CHANNEL, "channel-0", None, False),
        ("gpu.vendor.example", "X1", 2**34, True),
        ("gpu.vendor.example", "one", 2**34, False),
        ("nic.vendor.example", "X1", None, False),
    ],
)
def test_unknown_driver_needs_product_and_memory_to_be_a_gpu(driver, product, memory, expected):
    assert is_gpu(driver, "one", product, memory) is expected


def test_links_of_fleet_lead_to_lists_of_that_many():
    make_random_cluster(Random(7))
    client = Client()
    client.force_login(make_user("ada", is_superuser=True))
    for address in ("/fleet/", "/", "/clusters/ran-1/"):
        page = client.get(address)
        sums = page.context["totals"]
        place = "cluster=ran-1&amp;" if "clusters" in address else ""
        for figure in sums.figures:
            link = f"?{place}state={figure.look.state}&amp;gpu=yes"
            assert f'{link}"' in page.text
            listed = client.get(f"/devices/{link.replace('&amp;', '&')}").context["listing"].total
            assert listed == figure.devices
        assert client.get("/devices/?gpu=no").context["listing"].total == sums.others
    assert "with devices" in client.get("/fleet/").text
    assert client.get("/nodes/?state=devices").context["listing"].total == sums.nodes
