"""The map: a link per GPU, partitions inside it, and what is a whole GPU among the whole ones."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser
from django.urls import reverse
from django.utils import timezone

from claims.models import TeamNamespace
from cluster.protocol import RESOURCE_SLICE
from inventory import views
from inventory.counts import fleet_counts
from inventory.fleet import Grouping, fleet_map, out_of_service
from inventory.models import Device, Freshness, Node, ResourceClaim
from inventory.states import LOOKS
from inventory.team_marks import marks
from teams.models import User
from tests.factories import make_team, make_user
from tests.inventory.conftest import DRIVER, gpu, slice_of

pytestmark = pytest.mark.django_db
NOBODY = AnonymousUser()


def mig(parent: str, index: int, profile: str) -> dict[str, object]:
    device = gpu(index, product="NVIDIA A100-SXM4-80GB", memory="9728Mi")
    device["name"] = f"{parent.lower()}-mig-{index}"
    device["attributes"] |= {
        "type": {"string": "mig"},
        "uuid": {"string": f"MIG-{parent}-{index}"},
        "parentUUID": {"string": parent},
        "profile": {"string": profile},
    }
    return device


def amd(index: int, partition: str, parent: str) -> dict[str, object]:
    attributes = {
        "productName": {"string": "AMD Instinct MI300X"},
        "partitionProfile": {"string": partition},
        "parentPciAddr": {"string": parent},
    }
    return {"name": f"amd-{index}", "attributes": attributes, "capacity": {"memory": {"value": "192Gi"}}}


def amd_slice(node: str, devices: list[dict[str, object]]) -> dict[str, object]:
    made = slice_of(node, devices, name=f"{node}-amd")
    made["spec"]["driver"] = "gpu.amd.com"
    return made


@pytest.fixture
def cut(mirrored, fake, run_session):
    """node-a: two A100 in partitions, and the two H100 no more. node-b: an MI300X whole, and one in two."""
    halves = [mig("GPU-x", 0, "3g.40gb"), mig("GPU-x", 1, "3g.40gb"), mig("GPU-y", 2, "7g.80gb")]
    fake.put(RESOURCE_SLICE, slice_of("node-a", halves, generation=2))
    parts = [amd(0, "spx_nps1", "0000:01"), amd(1, "dpx_nps1", "0000:02"), amd(2, "dpx_nps1", "0000:02")]
    fake.put(RESOURCE_SLICE, amd_slice("node-b", parts))
    run_session("resourceslices")


def groups():
    found = fleet_map(fleet_counts(), person=NOBODY)
    return {(group.title, group.partitioned): group for group in found}


def test_partition_with_the_full_gpu_counts_as_a_whole_gpu(cut):
    found = {key: group.count for key, group in groups().items()}
    assert found == {
        ("H100 80GB HBM3", False): 1,
        ("A100-SXM4-80GB", False): 1,  # 7g.80gb
        ("A100-SXM4-80GB", True): 2,
        ("MI300X", False): 1,  # spx
        ("MI300X", True): 2,
    }


def test_a_gpu_in_partitions_is_one_link_to_its_devices(cut, client):
    client.force_login(User.objects.create_user("alice"))
    [gpu_of_two] = groups()["A100-SXM4-80GB", True].rows[0].gpus
    assert [cell.width for cell in gpu_of_two.cells] == [3, 3]
    assert gpu_of_two.label == "2 partitions of a GPU on node-a. 3g.40gb: Free, 3g.40gb: Free"
    page = client.get(reverse("inventory:fleet")).content.decode()
    assert page.count('class="dg-mig"') == 2  # the A100 and the MI300X
    assert gpu_of_two.url.replace("&", "&amp;") in page
    listed = client.get(gpu_of_two.url).context["listing"].page.object_list
    shown = Device.objects.filter(pk__in=[device.pk for device in listed])
    assert {device.parent_uuid for device in shown} == {"GPU-x"}
    assert len(listed) == 2


def test_one_partition_of_a_gpu_leads_to_that_device(mirrored, fake, run_session, client):
    fake.put(RESOURCE_SLICE, slice_of("node-a", [mig("GPU-x", 0, "1g.10gb")], generation=2))
    run_session("resourceslices")
    [only] = groups()["A100-SXM4-80GB", True].rows[0].gpus
    device = Device.objects.get(parent_uuid="GPU-x", gone_at=None)
    assert device.driver == DRIVER
    assert only.url == reverse("inventory:device", args=[device.pk])
    assert only.label == "1 partition of a GPU on node-a. 1g.10gb: Free"


def grouped(grouping, person=NOBODY, hits=None):
    found = fleet_map(fleet_counts(with_places=True), hits, person=person, grouping=grouping)
    return {group.title: (group.count, group.free, group.cells) for group in found}


def test_devices_are_grouped_by_node_pool_and_those_without_one_come_last(cut):
    Node.objects.filter(name="node-a").update(node_pool="training")
    assert list(grouped(Grouping.NODE_POOL).items()) == [("training", (3, 3, 3)), ("No node pool", (4, 4, 4))]
    [training, _rest] = fleet_map(fleet_counts(with_places=True), person=NOBODY, grouping=Grouping.NODE_POOL)
    assert (training.is_wide, training.clusters) == (True, ["fra-1"])
    hits = Device.objects.present().filter(node__node_pool="training")
    assert list(grouped(Grouping.NODE_POOL, hits=hits)) == ["training"]


def hold_three(cluster, mia):
    """One device each is held by vision, whose member is mia, by nlp, and from a namespace without a team."""
    for number, (slug, members) in enumerate((("vision", (mia,)), ("nlp", ()), ("", ()))):
        if slug:
            TeamNamespace.objects.create(
                team=make_team(slug, members=members), cluster=cluster, namespace=slug
            )
        claim = ResourceClaim.objects.create(
            cluster=cluster, uid=f"u{number}", name="x", namespace=slug or "scratch", raw={}
        )
        device = Device.objects.present().order_by("name")[number]
        Device.objects.filter(pk=device.pk).update(held_by=claim)


def test_devices_are_grouped_by_the_teams_that_the_reader_may_see(cut, mirrored):
    mia, root = make_user("mia"), make_user("root", admin=True)
    hold_three(mirrored, mia)
    assert grouped(Grouping.TEAM, root) == {
        "nlp": (1, 0, 1),
        "vision": (1, 0, 1),
        "Not held": (4, 4, 4),
        "Other namespaces": (1, 0, 1),
    }
    assert grouped(Grouping.TEAM, mia) == {
        "vision": (1, 0, 1),
        "Not held": (4, 4, 4),
        "Other namespaces": (2, 0, 2),
    }


def test_held_devices_are_colored_by_the_teams_that_the_reader_may_see(cut, mirrored, client):
    mia, root = make_user("mia"), make_user("root", admin=True)
    hold_three(mirrored, mia)

    def legend(person):
        client.force_login(person)
        page = client.get(reverse("inventory:fleet"), {"color": "team"})
        assert page.text.count('class="dg-dev by ') == 3 + len(page.context["marks"].legend)
        return {mark.team: (mark.letter, mark.color, cells) for mark, cells in page.context["marks"].legend}

    assert legend(root) == {
        "nlp": ("L", "c1", 1),
        "vision": ("V", "c2", 1),
        "Other namespaces": ("–", "c5", 1),
    }
    assert legend(mia) == {"vision": ("V", "c1", 1), "Other namespaces": ("–", "c5", 2)}
    assert client.get(reverse("inventory:fleet"), {"color": "red"}).context["marks"] is None


def tags(page):
    """Return the conditions of the first groups and of the rows of nodes, as words."""
    words = [" ".join(re.sub("<[^>]*>", " ", one).split()) for one in re.findall(TAG, page, re.S)]
    nodes = [" ".join(re.sub("<[^>]*>", " ", one).split()) for one in re.findall(NODE_TAG, page, re.S)]
    return words, nodes


TAG = r'<span class="dg-tag dg-nowrap">(.*?)</span>\s*(?=<span|</div>)'
NODE_TAG = r'<span class="dg-node-tag[^>]*>(.*?)</span>'


def test_groups_say_what_is_out_of_service_and_how_old_they_are(cut, mirrored, client):
    client.force_login(User.objects.create_user("alice"))
    seen = timezone.now() - timedelta(seconds=20)
    Freshness.objects.filter(cluster=mirrored).update(seen_at=seen)
    page = client.get(reverse("inventory:fleet")).text
    assert (tags(page), "unhealthy</span>" in page) == (([], []), False)
    assert page.count(" · updated ") == len(groups())
    Device.objects.filter(product__contains="MI300X", parent_uuid="").update(condition="unhealthy")
    Device.objects.filter(product__contains="H100").update(condition="tainted")
    assert {
        group.title: out_of_service(group.states) for group in groups().values() if not group.partitioned
    } == {
        "H100 80GB HBM3": [(LOOKS["tainted"], 1)],
        "A100-SXM4-80GB": [],
        "MI300X": [],
    }
    words, _nodes = tags(client.get(reverse("inventory:fleet")).text)
    assert words == ["1 tainted"]
    Freshness.objects.filter(cluster=mirrored).update(seen_at=timezone.now() - timedelta(hours=1))
    stale = client.get(reverse("inventory:fleet")).text
    assert (
        stale.count('title="Stale"') + stale.count("Stale</title>") + stale.count('aria-label="Stale"') >= 1
    )


def test_nodes_of_the_map_are_links_and_say_when_they_take_no_pods(cut, client):
    client.force_login(User.objects.create_user("alice"))
    Node.objects.filter(name="node-a").update(unschedulable=True)
    page = client.get(reverse("inventory:fleet")).text
    assert tags(page)[1] == ["cordoned"] * page.count('href="/clusters/fra-1/nodes/node-a/"')
    assert tags(page)[1]
    Node.objects.filter(name="node-a").update(ready=False)
    page = client.get(reverse("inventory:fleet")).text
    assert set(tags(page)[1]) == {"not ready"}
    assert "not ready</span>" in page


def test_letters_of_teams_differ_from_each_other_and_from_those_of_states():
    teams = [f"team-{number}" for number in range(12)]
    letters = [mark.letter for mark in marks(teams)]
    assert len(set(letters)) == len(teams)
    assert not {"F", "T", "B", "N", "P", "!"} & set(letters)


def test_the_page_groups_as_its_address_says_and_by_model_for_an_unknown_value(cut, client):
    client.force_login(User.objects.create_user("alice"))
    address = reverse("inventory:fleet")
    assert "No node pool" in client.get(address, {"group": "node-pool"}).text
    assert "Not held" in client.get(address, {"group": "team"}).text
    for unknown in ("", "colour", "model"):
        page = client.get(address, {"group": unknown}).text
        assert "No node pool" not in page
        assert "MI300X" in page
    assert "group=" not in client.get(address, {"group": "team", "cluster": "fra-1"}).context["query"]


def test_the_page_shows_the_largest_groups_and_counts_the_others(cut, client, monkeypatch):
    client.force_login(User.objects.create_user("alice"))
    everything = client.get(reverse("inventory:fleet")).context
    largest = max(everything["groups"], key=lambda group: group.count)
    monkeypatch.setattr(views, "MAX_GROUPS", 1)
    page = client.get(reverse("inventory:fleet"))
    assert [group.title for group in page.context["groups"]] == [largest.title]
    others = len(everything["groups"]) - 1
    assert page.context["hidden"] == sum(group.count for group in everything["groups"]) - largest.cells
    assert f"among them {others} groups with fewer devices; the table lists all" in page.text


def test_an_empty_fleet_offers_admins_to_add_a_cluster(client):
    address = reverse("setup:cluster_add")
    for person, may in ((make_user("root", admin=True), True), (make_user("nora"), False)):
        client.force_login(person)
        page = client.get(reverse("inventory:fleet")).text
        assert "No devices yet" in page
        assert (f'href="{address}"' in page.partition("No devices yet")[2]) is may
