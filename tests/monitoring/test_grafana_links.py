"""Pages link to the dashboards with the right variables, where the site has a Grafana."""

import json
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
import time_machine
from django.conf import settings as django_settings
from django.utils import timezone
from django.utils.html import strip_tags

from claims.models import TeamNamespace
from claims.states import ClaimState
from core.grafana import Dashboard, dashboard_url, milliseconds
from inventory.models import Device, Node, ResourceSlice
from tests.factories import make_allocation, make_claim, make_cluster, make_team, make_user

pytestmark = pytest.mark.django_db
DASHBOARDS = django_settings.BASE_DIR / "deploy/monitoring/dashboards"
GRAFANA = "https://grafana.example.org"


@pytest.fixture
def alice():
    return make_user("alice")


@pytest.fixture
def vision(alice):
    return make_team("vision", members=(alice,))


@pytest.fixture
def fra(vision):
    return make_cluster("fra-1", teams=(vision,))


@pytest.fixture(autouse=True)
def node(fra):
    """A node with a whole GPU, a GPU in two partitions, and a device of another vendor."""
    row = Node.objects.create(cluster=fra, uid="n", name="gpu-a", ready=True, raw={})
    where = {"cluster": fra, "driver": "gpu.nvidia.com", "pool": "gpu-a"}
    piece = ResourceSlice.objects.create(uid="s", name="s", generation=1, pool_slices=1, **where)
    for uuid, parent in (("GPU-1", ""), ("MIG-1", "GPU-0"), ("MIG-2", "GPU-0"), ("0000:03", "")):
        names = {"name": uuid, "uuid": uuid, "parent_uuid": parent}
        Device.objects.create(slice=piece, node=row, node_name="gpu-a", **where, **names)
    return row


@pytest.fixture
def grafana(settings):
    settings.GRAFANA_URL = f"{GRAFANA}/"


def links(client, address, by):
    """Return dashboard and variables of each link to Grafana on a page."""
    client.force_login(by)
    page = client.get(address)
    assert page.status_code == 200
    targets = [part.split('"')[0] for part in page.text.split('href="')[1:]]
    found = [urlsplit(target.replace("&amp;", "&")) for target in targets if target.startswith(GRAFANA)]
    return [(url.path.removeprefix("/d/").rstrip("/"), parse_qs(url.query)) for url in found]


def pages(vision, fra, claim):
    return (
        f"/clusters/{fra.name}/",
        f"/clusters/{fra.name}/nodes/gpu-a/",
        f"/teams/{vision.slug}/",
        f"/claims/{claim.pk}/usage/",
    )


@pytest.fixture
def claim(vision, alice, fra):
    return make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, name="train")


def test_no_page_links_to_grafana_without_its_address(client, vision, fra, claim, alice):
    for address in pages(vision, fra, claim):
        client.force_login(alice)
        page = client.get(address)
        assert page.status_code == 200
        assert "Grafana" not in strip_tags(page.text)


def test_a_cluster_links_to_the_fleet_and_to_its_dra_health(client, fra, alice, grafana):
    assert links(client, "/clusters/fra-1/", alice) == [
        ("dragoman-fleet", {"var-cluster": ["fra-1"]}),
        ("dragoman-dra", {}),
    ]


def test_a_node_links_to_the_figures_of_its_gpus(client, alice, grafana):
    assert links(client, "/clusters/fra-1/nodes/gpu-a/", alice) == [
        ("dragoman-fleet", {"var-cluster": ["fra-1"], "var-gpu": ["GPU-0|GPU-1"]})
    ]
    Device.objects.exclude(uuid="0000:03").delete()
    assert links(client, "/clusters/fra-1/nodes/gpu-a/", alice) == []


def test_a_team_links_to_its_namespaces_in_all_clusters(client, vision, fra, alice, grafana):
    for name, namespace in (("lab-2", "vision"), ("ber-1", "vision-ber")):
        TeamNamespace.objects.create(team=vision, cluster=make_cluster(name), namespace=namespace)
    assert links(client, "/teams/vision/", alice) == [
        ("dragoman-team", {"var-namespace": ["vision", "vision-ber"]})
    ]


def test_a_claim_links_to_its_own_devices_in_the_range_of_its_graph(client, claim, alice, grafana):
    address = f"/claims/{claim.pk}/usage/?range=1h"
    with time_machine.travel(timezone.now() + timedelta(hours=5), tick=False):
        ((uid, query),) = links(client, address, alice)
        series = client.get(address).context["series"]
    assert uid == "dragoman-claim"
    assert (query["var-namespace"], query["var-claim"]) == (["vision"], ["train"])
    assert (query["from"], query["to"]) == ([milliseconds(series.start)], [milliseconds(series.end)])
    assert timedelta(minutes=55) <= series.end - series.start <= timedelta(minutes=70)


def test_a_claim_of_a_template_links_to_the_claims_of_its_pods(client, vision, fra, alice, grafana):
    batch = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, parallel=4, held=False)
    now = timezone.now()
    for number in range(3):
        at = now - timedelta(minutes=9 - number)
        make_allocation(batch, at, object_name=f"pod-{number}-gpu-x{number}")
    ((_uid, query),) = links(client, f"/claims/{batch.pk}/usage/", alice)
    assert query["var-claim"] == ["pod-2-gpu-x2", "pod-1-gpu-x1", "pod-0-gpu-x0"]


def test_names_are_escaped_in_the_address(grafana):
    url = dashboard_url(Dashboard.CLAIM, [("claim", "a&b=c d")])
    assert url == f"{GRAFANA}/d/dragoman-claim/?var-claim=a%26b%3Dc+d"


def test_each_dashboard_and_each_variable_of_a_link_exists(client, vision, fra, claim, alice, grafana):
    documents = {path.stem: json.loads(path.read_text()) for path in DASHBOARDS.glob("*.json")}
    variables = {
        document["uid"]: {f"var-{one['name']}" for one in document["templating"]["list"]}
        for document in documents.values()
    }
    assert variables.keys() == set(Dashboard)
    for address in pages(vision, fra, claim):
        for uid, query in links(client, address, alice):
            assert query.keys() - {"from", "to"} <= variables[uid]
