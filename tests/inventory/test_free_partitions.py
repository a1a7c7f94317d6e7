"""Pages of a device and of a node say what can still be cut from a GPU."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from cluster.protocol import NODE, RESOURCE_CLAIM, RESOURCE_SLICE
from inventory.models import Device
from teams.models import User
from tests.dra.test_fragmentation import slices
from tests.inventory.conftest import node, resource_claim

pytestmark = pytest.mark.django_db

TITLE = "What can still be cut from gpu-0"


@pytest.fixture
def cut(mirrored, fake, run_session, client):
    """A third node, whose GPU is published in partitions; one small partition of it is held."""
    for one in slices("node-c"):
        fake.put(RESOURCE_SLICE, one)
    fake.put(NODE, node("node-c"))
    run_session("resourceslices")
    run_session("nodes")
    fake.put(RESOURCE_CLAIM, resource_claim("theirs", "gpu-0-1g10gb-1", pool="node-c"))
    run_session("resourceclaims")
    client.force_login(User.objects.create_user("alice"))


def page(client, name):
    device = Device.objects.get(pool="node-c", name=name)
    return client.get(reverse("inventory:device", args=[device.pk])).text


@pytest.mark.parametrize("name", ["gpu-0", "gpu-0-3g40gb-0"])
def test_page_of_a_partition_shows_free_partitions_of_the_gpu(client, cut, name):
    said = " ".join(page(client, name).split())
    assert TITLE in said
    assert '<td class="dg-n" data-l="Free placements">1 of 2</td>' in said  # 3g.40gb
    assert '<td class="dg-n" data-l="Free placements">6 of 7</td>' in said  # 1g.10gb
    assert '<td class="dg-n" data-l="Free placements">0 of 1</td>' in said  # the whole


def test_page_of_a_node_shows_free_partitions(client, cut):
    assert TITLE in client.get(reverse("inventory:node", args=["fra-1", "node-c"])).text


def test_whole_gpu_shows_no_free_partitions(client, cut):
    pages = {}
    for pool in ("node-a", "node-c"):
        device = Device.objects.get(pool=pool, name="gpu-0")
        of_device = client.get(reverse("inventory:device", args=[device.pk])).text
        of_node = client.get(reverse("inventory:node", args=["fra-1", pool])).text
        pages[pool] = ["What can still be cut from" in text for text in (of_device, of_node)]
    assert pages == {"node-a": [False, False], "node-c": [True, True]}


def test_free_partitions_of_two_gpus_need_no_more_queries(client, cut, fake, run_session):
    address = reverse("inventory:node", args=["fra-1", "node-c"])
    client.get(address)
    with CaptureQueriesContext(connection) as one:
        client.get(address)
    for more in slices("node-c", boards=2):
        more["spec"]["pool"]["generation"] = 2
        fake.put(RESOURCE_SLICE, more)
    run_session("resourceslices")
    assert client.get(address).text.count("What can still be cut from") == 2
    with CaptureQueriesContext(connection) as two:
        client.get(address)
    assert len(two) == len(one)
