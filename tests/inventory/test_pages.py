"""Pages of the inventory: for everybody who is signed in, with holders only for those who may know them."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from cluster.protocol import RESOURCE_CLAIM, RESOURCE_SLICE
from inventory.models import Device, Freshness
from inventory.states import Holder
from teams.models import User
from tests.inventory.conftest import gpu, resource_claim, slice_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice():
    return User.objects.create_user("alice")


@pytest.fixture
def root():
    return User.objects.create_superuser("root")


@pytest.fixture
def as_alice(client, alice):
    client.force_login(alice)
    return client


@pytest.fixture
def as_root(client, root):
    client.force_login(root)
    return client


@pytest.fixture
def held(mirrored, fake, run_session):
    fake.put(RESOURCE_CLAIM, resource_claim("secret-project", "gpu-0"))
    run_session("resourceclaims")
    return Device.objects.get(pool="node-a", name="gpu-0")


def addresses(device):
    return [
        reverse("inventory:fleet"),
        reverse("inventory:clusters"),
        reverse("inventory:cluster", args=["fra-1"]),
        reverse("inventory:nodes"),
        reverse("inventory:node", args=["fra-1", "node-a"]),
        reverse("inventory:devices"),
        reverse("inventory:device", args=[device.pk]),
    ]


def test_pages_need_a_signed_in_user(client, alice, held):
    for address in addresses(held):
        assert client.get(address).status_code == 302
    client.force_login(alice)
    for address in addresses(held):
        assert client.get(address).status_code == 200, address


def test_holder_is_masked_for_users_who_may_not_see_it(as_alice, held):
    for address in (*addresses(held), reverse("inventory:devices") + "?format=csv"):
        response = as_alice.get(address)
        assert response.status_code == 200
        assert b"secret-project" not in response.getvalue(), address


def test_a_platform_admin_sees_namespace_and_name(as_root, held):
    for address in addresses(held)[-3:]:
        assert "default/secret-project" in as_root.get(address).content.decode(), address
    lines = as_root.get(reverse("inventory:devices") + "?format=csv").getvalue().decode()
    assert "default/secret-project" in lines


def test_device_page_links_a_holder_that_the_reader_may_see(as_alice, held, monkeypatch):
    monkeypatch.setattr(
        "claims.access.visible_holders",
        lambda person, claims: {claim.pk: Holder("bev-train", "/claims/1/") for claim in claims},
    )
    page = as_alice.get(reverse("inventory:device", args=[held.pk])).content.decode()
    assert '<a href="/claims/1/">bev-train</a>' in page


def test_totals_add_up(as_alice, held):
    totals = as_alice.get(reverse("inventory:fleet")).context["totals"]
    assert (totals.devices, totals.held, totals.not_held) == (3, 1, 2)
    assert sum(figure.devices for figure in totals.figures) == totals.devices


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 3),
        ("state=free", 2),
        ("state=in-use", 1),
        ("cluster=fra-1", 3),
        ("product=NVIDIA+H100+80GB+HBM3", 3),
        ("memory=80", 3),
        ("memory=141", 0),
        ("device_class=gpu.nvidia.com", 3),
        ("q=node-b", 1),
        ("q=node-a+GPU-1", 1),
        ("sort=-memory&col=uuid&col=classes&col=taints&col=partition&col=pool&col=driver&col=changed", 3),
    ],
)
def test_the_list_of_devices_is_filtered_by_its_address(as_alice, held, query, count):
    response = as_alice.get(f"{reverse('inventory:devices')}?{query}")
    assert response.context["listing"].total == count


def test_unknown_filter_value_is_a_form_error(as_alice, held):
    for address in (reverse("inventory:devices"), reverse("inventory:fleet"), reverse("inventory:nodes")):
        assert as_alice.get(f"{address}?state=nonsense&cluster=nowhere").status_code == 200


@pytest.mark.parametrize(
    ("address", "marked"), [("/clusters/fra-1/nodes/node-a/", "/nodes/"), ("/clusters/fra-1/", "/clusters/")]
)
def test_the_sidebar_marks_the_list_of_a_page(as_root, held, address, marked):
    assert f'href="{marked}" aria-current="page"' in as_root.get(address).text


@pytest.mark.parametrize(("state", "count"), [("ready", 2), ("cordoned", 0), ("not-ready", 0)])
def test_nodes_are_filtered_by_state(as_alice, held, state, count):
    assert as_alice.get(f"{reverse('inventory:nodes')}?state={state}").context["listing"].total == count


@pytest.mark.parametrize(
    "address",
    ["/devices/00000000-0000-7000-8000-000000000000/", "/clusters/x/", "/clusters/fra-1/nodes/x/"],
)
def test_unknown_object_is_404(as_alice, held, address):
    assert as_alice.get(address).status_code == 404


def test_page_queries_do_not_grow_with_rows(as_alice, held, fake, run_session, django_assert_num_queries):
    lists = addresses(held)[:6]
    before = {}
    for address in lists:
        as_alice.get(address)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            as_alice.get(address)
        before[address] = len(queries)
    fake.put(RESOURCE_SLICE, slice_of("node-a", [gpu(index) for index in range(20)], generation=2))
    fake.put(RESOURCE_CLAIM, resource_claim("many", *(f"gpu-{index}" for index in range(1, 9))))
    run_session("resourceslices")
    run_session("resourceclaims")
    for address in lists:
        with django_assert_num_queries(before[address]):
            as_alice.get(address)


def test_stale_cluster_still_shows_its_devices(as_alice, held):
    Freshness.objects.update(seen_at="2026-01-01T00:00Z", error="fra-1 does not answer.")
    page = as_alice.get(reverse("inventory:devices"))
    assert page.context["listing"].total == 3
    assert "fra-1 does not answer." in page.content.decode()
    assert "Stale" in as_alice.get(reverse("inventory:clusters")).content.decode()


def test_ages_of_the_frame_renew_themselves_with_one_query(as_alice, held, django_assert_max_num_queries):
    address = reverse("inventory:freshness")
    page = as_alice.get(reverse("inventory:clusters")).text
    assert f'data-poll="15" hx-get="{address}"' in page
    Freshness.objects.update(seen_at=timezone.now())
    with django_assert_max_num_queries(3):  # with session and user
        fragment = as_alice.get(address).text
    assert "<html" not in fragment
    assert "Stale" not in fragment
    Freshness.objects.update(seen_at="2026-01-01T00:00Z")
    fragment = as_alice.get(address).text
    assert 'datetime="2026-01-01T00:00:00+00:00"' in fragment
    assert "Stale" in fragment
    as_alice.logout()
    assert as_alice.get(address).status_code == 302


def test_credentials_are_on_no_page(as_root, held, fra):
    fra.credentials = b"hunter2"
    fra.save(update_fields=["credentials"])
    for address in addresses(held):
        page = as_root.get(address)
        assert page.status_code == 200
        assert b"hunter2" not in page.content


@pytest.mark.parametrize("simulated", [True, False])
def test_simulated_cluster_is_marked_on_every_page(as_alice, held, fra, simulated):
    fra.simulated = simulated
    fra.save(update_fields=["simulated"])
    for address in addresses(held):
        assert ("simulated cluster</span>" in as_alice.get(address).content.decode()) is simulated, address
