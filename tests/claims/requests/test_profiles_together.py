"""Profiles together: each cluster is judged by whether one of its nodes has all of them."""

import re
from datetime import timedelta
from fractions import Fraction

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from claims.catalogue.listing import DeviceKind
from claims.models import Claim
from inventory import cluster_snapshot
from inventory.models import Cluster, DeviceClass, Node, ResourceClaim, ResourceSlice
from tests.claims.requests.test_request_pages import stored, verdict
from tests.dra.clusters import device_class, gpu, holds, node, resource_slice
from tests.factories import make_cluster, make_profile, make_spec, make_team
from usage.models import Rate

pytestmark = pytest.mark.django_db

FORM, PANEL = reverse("claims:request"), reverse("claims:request_preview")
SMALL = "NVIDIA L4"
TOGETHER = {"devices": "1", "together": "small", "together_devices": "1", "cluster": ""}
REVISION = 7


@pytest.fixture
def lab(vision):
    return make_cluster("lab-2", teams=(vision,))


def of_product(product):
    """Return a spec for one device of a product."""
    spec = make_spec()
    selector = f'device.attributes["gpu.nvidia.com"].productName == "{product}"'
    spec["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": selector}}]
    return spec


@pytest.fixture(autouse=True)
def small(train):
    """A second profile, for L4; the first one takes any device that is an H100."""
    train.current.spec = of_product("NVIDIA H100 80GB HBM3")
    type(train.current).objects.filter(pk=train.current.pk).update(spec=train.current.spec)
    return make_profile("small", spec=of_product(SMALL))


def mirrored(cluster, nodes, *claims):
    """Write nodes with their devices into the mirror: (large, small) of each; the claims hold some."""
    DeviceClass.objects.create(
        cluster=cluster, uid="c", name="gpu.nvidia.com", raw=device_class(), revision=REVISION
    )
    for name, (large, small) in nodes.items():
        devices = [gpu(number) for number in range(large)]
        devices += [gpu(large + number, product=SMALL, memory="24Gi") for number in range(small)]
        Node.objects.create(
            cluster=cluster, uid=name, name=name, ready=True, raw=node(name), revision=REVISION
        )
        ResourceSlice.objects.create(
            cluster=cluster, uid=name, name=f"{name}-1", raw=resource_slice(name, devices), pool=name,
            driver="gpu.nvidia.com", generation=1, pool_slices=1, node_name=name, revision=REVISION,
        )  # fmt: skip
    for claim in claims:
        ResourceClaim.objects.create(
            cluster=cluster, uid="u", name=claim["metadata"]["name"], namespace="vision", raw=claim,
            revision=REVISION,
        )  # fmt: skip
    Cluster.objects.filter(pk=cluster.pk).update(revision=REVISION)
    cluster_snapshot.forget()


def figures(cluster, *profiles, free=8):
    """Store what each profile alone has there."""
    for profile in profiles:
        stored(cluster, profile, matching=8, free=free, nodes=free and 4, most=free)


@pytest.fixture
def scattered(fra, lab, train, small):
    """In fra-1 each profile has many free devices, on different nodes; lab-2 has one node with both."""
    mirrored(fra, {"a": (8, 0), "b": (0, 8)})
    mirrored(lab, {"a": (1, 1)})
    figures(fra, train, small)
    figures(lab, train, small, free=1)


def test_request_for_any_cluster_goes_where_all_profiles_fit_on_one_node(
    client, alice, request_fields, scattered
):
    client.force_login(alice)
    client.post(FORM, request_fields | TOGETHER)
    assert Claim.objects.get().cluster.name == "lab-2"


@pytest.mark.parametrize("chosen", ["", "fra-1", "lab-2"])
def test_each_card_has_the_verdict_of_its_own_cluster_and_so_has_the_panel(
    client, alice, request_fields, scattered, chosen
):
    client.force_login(alice)
    wanted = request_fields | TOGETHER | {"cluster": chosen}
    for page in (client.get(PANEL, wanted).text, client.get(FORM, wanted).text):
        fits = "All the profiles fit together, on 1 node."
        assert verdict(page, "in-lab-2") == f"fits now {fits}"
        assert verdict(page, "any") == "fits now Uses lab-2: all the profiles fit together, on 1 node."
        assert verdict(page, "in-fra-1") == (
            "no match 16 devices are free, but no single node has enough for one claim. "
            "Even with every device free, no node could take all the profiles."
        )
        assert ("Fits now in lab-2" in page) == (chosen != "fra-1")
        assert ("Never fits in fra-1" in page) == (chosen == "fra-1")
        assert ("lab-2 instead of fra-1: <b>fits now</b>" in page) == (chosen == "fra-1")


@pytest.fixture
def full(fra, lab, train, small):
    """Nothing fits now: lab-2 has a node for both whose L4 is held; fra-1 never has both on one node."""
    mirrored(fra, {"a": (8, 0), "b": (0, 8)})
    mirrored(lab, {"a": (1, 1)}, holds("gpu-1", pool="a"))
    figures(fra, train, small)
    figures(lab, train, small, free=0)


def test_where_nothing_fits_now_a_cluster_is_taken_where_it_could(client, alice, request_fields, full):
    client.force_login(alice)
    page = client.get(PANEL, request_fields | TOGETHER).text
    assert verdict(page, "any").startswith("not now lab-2 comes closest.")
    assert verdict(page, "in-lab-2") == "not now Request small needs 1 device; 0 match and are free."
    client.post(FORM, request_fields | TOGETHER)
    assert Claim.objects.get().cluster.name == "lab-2"


def test_panel_of_a_cluster_that_never_fits_offers_the_one_that_could(client, alice, request_fields, full):
    client.force_login(alice)
    panel = client.get(PANEL, request_fields | TOGETHER | {"cluster": "fra-1"}).text
    assert "lab-2 instead of fra-1: <b>fits when devices are free</b>" in panel
    assert "instead of" not in client.get(PANEL, request_fields | TOGETHER | {"cluster": "lab-2"}).text


def test_profiles_that_no_node_can_have_are_to_be_requested_separately(
    client,
    alice,
    request_fields,
    lab,
    fra,
):
    mirrored(fra, {"a": (8, 0), "b": (0, 8)})
    mirrored(lab, {"a": (1, 0)})
    client.force_login(alice)
    page = client.get(PANEL, request_fields | TOGETHER).text
    said = "No cluster has a node that could take all the profiles. Send a separate request for each."
    assert verdict(page, "any") == f"no match {said}"
    assert verdict(page, "in-lab-2") == "no match Request small needs 1 device; 0 match."


WAITS = "You can still send the request; pods will wait until devices are free."
NEVER = "Pods would wait until the cluster gets such devices: even with every device free it would not fit."
BLOCKERS = "Claims that would free enough devices"


@pytest.mark.parametrize("fields", [TOGETHER, {"devices": "9"}], ids=["together", "one profile"])
def test_panel_says_when_waiting_would_not_help(client, alice, request_fields, full, fields):
    client.force_login(alice)
    panel = client.get(PANEL, request_fields | fields | {"cluster": "fra-1"}).text
    assert (NEVER in panel, WAITS in panel, BLOCKERS in panel) == (True, False, False)


def test_panel_says_that_pods_wait_for_devices_that_others_hold(client, alice, request_fields, full):
    client.force_login(alice)
    panel = client.get(PANEL, request_fields | TOGETHER | {"cluster": "lab-2"}).text
    assert (NEVER in panel, WAITS in panel, BLOCKERS in panel) == (False, True, True)


def test_profiles_that_take_the_same_device_do_not_fit_on_one(client, alice, request_fields, lab, fra, train):
    """Each of two profiles has the free device of fra-1; in lab-2 there is one for each."""
    twin = make_profile("twin", spec=of_product("NVIDIA H100 80GB HBM3"))
    mirrored(fra, {"a": (1, 0)})
    mirrored(lab, {"a": (2, 0)})
    figures(fra, train, twin)
    figures(lab, train, twin)
    client.force_login(alice)
    page = client.get(PANEL, request_fields | TOGETHER | {"together": "twin"}).text
    assert verdict(page, "in-lab-2").startswith("fits now")
    assert verdict(page, "in-fra-1").startswith("no match")


def test_pods_of_a_template_count_together(client, alice, request_fields, lab, fra):
    mirrored(fra, {"a": (1, 1)})
    mirrored(lab, {"a": (1, 1), "b": (1, 1)})
    client.force_login(alice)
    page = client.get(PANEL, request_fields | TOGETHER | {"delivery": "template", "parallel": "2"}).text
    assert verdict(page, "in-lab-2") == "fits now All the profiles fit together, on 2 nodes."
    assert verdict(page, "in-fra-1") == "no match Request train-80 needs 2 devices; 1 match."


def test_of_clusters_where_all_profiles_fit_the_cheapest_is_taken(
    client, alice, request_fields, lab, fra, train, small
):
    for cluster, price in ((fra, "2.90"), (lab, "1.00")):
        mirrored(cluster, {"a": (1, 1)})
        kind = DeviceKind(cluster.pk, "gpu.nvidia.com", "NVIDIA H100", Fraction(1)).as_json()
        for profile in (train, small):
            stored(cluster, profile, matching=8, free=8, nodes=4, most=8, kinds=[kind])
        began = timezone.now() - timedelta(days=1)
        Rate.objects.create(title="x", cluster=cluster, per_hour=price, valid_from=began)
    client.force_login(alice)
    page = client.get(PANEL, request_fields | TOGETHER).text
    why = "Uses lab-2 for its price, the lowest of 2 clusters where it fits now"
    assert why in verdict(page, "any")


def test_cluster_that_has_not_been_read_is_not_taken_before_one_that_fits(
    client, alice, request_fields, lab, fra
):
    mirrored(lab, {"a": (1, 1)})
    client.force_login(alice)
    page = client.get(PANEL, request_fields | TOGETHER).text
    assert verdict(page, "any").startswith("fits now Uses lab-2")
    assert verdict(page, "in-fra-1") == "no match The cluster has no device class gpu.nvidia.com."


def test_profiles_that_cannot_be_combined_have_no_verdict(client, alice, request_fields, scattered):
    client.force_login(alice)
    page = client.get(PANEL, request_fields | TOGETHER | {"together": "train-80"}).text
    assert verdict(page, "in-lab-2") == verdict(page, "in-fra-1") == ""
    assert "fits now" not in page


def test_clusters_of_other_teams_are_not_matched(client, alice, request_fields, scattered):
    hidden = make_cluster("ber-3", teams=(make_team("nlp"),))
    mirrored(hidden, {"a": (4, 4)})
    client.force_login(alice)
    assert "ber-3" not in client.get(PANEL, request_fields | TOGETHER).text


def test_panel_needs_as_few_queries_for_two_clusters_as_for_five(
    client, alice, request_fields, vision, scattered
):
    client.force_login(alice)
    client.get(PANEL, request_fields | TOGETHER)
    with CaptureQueriesContext(connection) as two:
        client.get(PANEL, request_fields | TOGETHER)
    for name in ("mia-3", "mia-4", "mia-5"):
        mirrored(make_cluster(name, teams=(vision,)), {"a": (8, 0)})
    client.get(PANEL, request_fields | TOGETHER)
    with CaptureQueriesContext(connection) as five:
        client.get(PANEL, request_fields | TOGETHER)
    assert len(five) == len(two), "\n".join(query["sql"][:90] for query in five)
    assert len(re.findall("instead of", client.get(PANEL, request_fields | TOGETHER).text)) == 0
