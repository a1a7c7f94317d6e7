"""The inventory API: read-only, for everybody with an account, without credentials or foreign names."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from cluster.protocol import RESOURCE_CLAIM, RESOURCE_SLICE
from inventory.models import Device, Node
from teams.models import User
from tests.inventory.conftest import gpu, resource_claim, slice_of

pytestmark = pytest.mark.django_db
LISTS = ("/api/v1/clusters/", "/api/v1/nodes/", "/api/v1/devices/", "/api/v1/device-classes/")


@pytest.fixture
def as_alice(client):
    client.force_login(User.objects.create_user("alice"))
    return client


@pytest.fixture
def as_root(client):
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture
def held(mirrored, fake, run_session):
    fake.put(RESOURCE_CLAIM, resource_claim("secret-project", "gpu-0"))
    run_session("resourceclaims")
    return Device.objects.get(pool="node-a", name="gpu-0")


def rows(response):
    assert response.status_code == 200, response.content
    return response.json()["results"]


@pytest.mark.parametrize("address", LISTS)
def test_api_needs_authentication_and_is_read_only(client, as_alice, held, address):
    assert as_alice.get(address).status_code == 200
    for method in ("post", "put", "patch", "delete"):
        # Clusters are added by platform admins.
        refusal = 403 if (method, address) == ("post", "/api/v1/clusters/") else 405
        assert getattr(as_alice, method)(address, {}, content_type="application/json").status_code == refusal
    client.logout()
    assert client.get(address).status_code in (401, 403)


@pytest.mark.parametrize("address", LISTS)
def test_api_list_queries_do_not_grow_with_rows(as_alice, held, fake, run_session, address):
    def cost():
        with CaptureQueriesContext(connection) as queries:
            as_alice.get(address)
        return len(queries)

    as_alice.get(address)
    before = cost()
    fake.put(RESOURCE_SLICE, slice_of("node-a", [gpu(index) for index in range(20)], generation=2))
    fake.put(RESOURCE_CLAIM, resource_claim("many", *(f"gpu-{index}" for index in range(1, 9))))
    run_session("resourceslices")
    run_session("resourceclaims")
    assert cost() == before


def test_cluster_response_has_freshness_but_no_credentials(as_root, held, fra):
    fra.credentials = b"hunter2"
    fra.save(update_fields=["credentials"])
    response = as_root.get("/api/v1/clusters/fra-1/")
    assert b"hunter2" not in response.content
    found = response.json()
    assert (found["name"], found["devices"], found["devices_held"]) == ("fra-1", 3, 1)
    assert "resourceslices" in {row["resource"] for row in found["freshness"] if row["listed_at"]}


def test_holder_is_shown_to_users_who_may_see_it(as_alice, held):
    [device] = rows(as_alice.get("/api/v1/devices/?state=in-use"))
    assert device["holder"] == {"text": "another team", "url": "", "masked": True}
    as_alice.force_login(User.objects.create_superuser("root"))
    assert as_alice.get(f"/api/v1/devices/{held.pk}/").json()["holder"]["text"] == "default/secret-project"


def test_device_response_has_all_attributes_of_the_slice(as_alice, held):
    found = as_alice.get(f"/api/v1/devices/{held.pk}/").json()
    assert found["attributes"]["productName"] == {"string": "NVIDIA H100 80GB HBM3"}
    assert found["capacity"] == {"memory": {"value": "81559Mi"}}
    assert "attributes" not in rows(as_alice.get("/api/v1/devices/"))[0]


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("cluster=fra-1", 3),
        ("node=node-a", 2),
        ("state=free", 2),
        ("state=free&state=in-use", 3),
        ("product=h100", 3),
        ("memory_gib=79", 3),
        ("memory_gib=80", 0),
        ("device_class=gpu.nvidia.com", 3),
        ("uuid=GPU-1", 1),
    ],
)
def test_devices_are_filtered_by_query_parameters(as_alice, held, query, count):
    assert len(rows(as_alice.get(f"/api/v1/devices/?{query}"))) == count


def test_a_malformed_filter_is_422_with_the_field_named(as_alice, held):
    response = as_alice.get("/api/v1/devices/?state=nonsense")
    assert response.status_code == 422
    assert response.json()["field"] == "state"


def test_cursor_pages_have_every_row_once(as_alice, held):
    seen, address = [], "/api/v1/devices/?limit=2"
    while address:
        answer = as_alice.get(address).json()
        seen += [row["id"] for row in answer["results"]]
        address = answer["next"]
    assert sorted(seen) == sorted(str(pk) for pk in Device.objects.values_list("pk", flat=True))


def test_nodes_and_classes_are_found_by_their_uid(as_alice, held):
    node = Node.objects.get(name="node-a")
    assert as_alice.get(f"/api/v1/nodes/{node.uid}/").json()["devices"] == 2
    [device_class] = rows(as_alice.get("/api/v1/device-classes/"))
    assert "device.driver == 'gpu.nvidia.com'" in device_class["selectors"][0]
    assert as_alice.get("/api/v1/nodes/nope/").status_code == 404
