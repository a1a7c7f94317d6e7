"""One number under one name: what pages and the API count of clusters and teams, over small random worlds."""

from collections import Counter
from datetime import timedelta
from random import Random

import pytest
from django.test import Client, RequestFactory
from django.utils import timezone

from claims.approvals import pending
from claims.models import Allocation, Claim, PendingDecision, QuotaRequest, RequestStatus
from claims.states import FINAL, ClaimState
from dra.devices import is_gpu
from inventory.counts import fleet_counts, store_counts, store_uses, with_figures
from inventory.fleet import totals
from inventory.fleet_history import MILLION, count_parts
from inventory.freshness import OF_DEVICES, ages
from inventory.models import (
    Cluster,
    Device,
    FleetSpan,
    Node,
    NodeCount,
    ResourceClaim,
    ResourceSlice,
)
from inventory.states import DeviceState, DeviceUse
from portal.context import Shell
from portal.home.admin import Platform, cluster_rows
from portal.search import SearchText, find_devices
from portal.setup.team_list import TeamFigures, summarize
from teams.models import Role, Team, User
from teams.service_accounts import create_service_account
from tests.factories import (
    make_allocation,
    make_claim,
    make_cluster,
    make_extension,
    make_profile,
    make_quota,
    make_quota_request,
    make_team,
    make_user,
)
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
def test_held_and_idle_devices_are_the_same_number_on_every_page(seed):
    chance = Random(seed)
    cluster = make_random_cluster(chance)
    held = list(Device.objects.present().exclude(held_by=None))
    uses = {
        one.pk: chance.choice([DeviceUse.IDLE, DeviceUse.NO_TELEMETRY, ""]) for one in held if is_nvidia(one)
    }
    keys = {
        (one.driver, one.pool, one.name): (DeviceUse(uses[one.pk]), timezone.now())
        for one in held
        if uses.get(one.pk)
    }
    store_uses(cluster.pk, keys)
    client, nodes = signed_in(), Counter(one.node_name for one in held)
    [(row, _age)] = client.get("/clusters/").context["rows"]
    [api] = client.get("/api/v1/clusters/").json()["results"]
    assert row.held_count == api["devices_held"] == len(held) > len(uses)
    assert {row.name: row.held_count for row in with_figures(Node.objects.all())} == nodes
    assert {row["name"]: row["devices_held"] for row in api_rows(client, "/api/v1/nodes/")} == nodes
    assert client.get("/devices/?state=held").context["listing"].total == len(held)
    assert client.get("/devices/?state=held&gpu=yes").context["listing"].total == len(uses)
    platform = Platform.read(RateCard.load(), timezone.now())
    [row] = cluster_rows(ages(OF_DEVICES, cluster=cluster), platform)
    assert row.held == len(uses)
    for page in ("/fleet/", "/", "/clusters/ran-1/"):
        figures = {one.look.state: one.devices for one in client.get(page).context["totals"].figures}
        for state in (DeviceUse.IDLE, DeviceUse.NO_TELEMETRY, DeviceState.IN_USE):
            expected = [use or DeviceState.IN_USE for use in uses.values()].count(state)
            assert figures.get(state, 0) == expected, (page, state)
            listed = client.get(f"/devices/?gpu=yes&state={state}").context["listing"].total
            assert listed == expected, state


def is_nvidia(device):
    return device.driver == NVIDIA


def signed_in():
    client = Client()
    client.force_login(make_user("ada", is_superuser=True))
    return client


def make_random_team(chance: Random, slug: str, people: list[User], cluster: Cluster) -> Team:
    """Return a team with people of every role, and claims in every state that hold GPUs and other devices."""
    owner, lead, *rest = chance.sample(people, len(people) - chance.randrange(2))
    team = make_team(slug, owners=(owner,), leads=(lead,), members=tuple(rest))
    create_service_account(by=owner, team=team, name="ci", role=Role.MEMBER)
    profile = make_profile(f"train-{slug}")
    make_quota(team, 20)
    make_quota(team, chance.randrange(1, 9), profile=profile)
    for state in chance.choices([*ClaimState], k=9):
        claim = make_claim(
            team, by=chance.choice(rest), cluster=cluster, profile=profile, state=state,
            devices=chance.randrange(1, 4), parallel=chance.choice([1, 1, 2]),
        )  # fmt: skip
        if state == ClaimState.ALLOCATED:
            make_allocation(claim, timezone.now() - timedelta(hours=2))
            make_allocation(claim, timezone.now() - timedelta(hours=2), driver=NIC)
            if chance.random() < 0.7:
                make_extension(claim)
    for _number in range(chance.randrange(1, 3)):
        make_quota_request(team, 30, by=rest[0])
    return team


OF_QUOTA = ("held", "reserved", "free", "over", "limit")


@pytest.mark.parametrize("seed", range(4))
def test_figures_of_a_team_are_the_same_on_every_page(seed):
    chance, people = Random(seed), [make_user(name) for name in ("ann", "bob", "cem", "dee", "eva")]
    cluster = make_cluster("fra-1")
    teams = [make_random_team(chance, slug, people, cluster) for slug in ("vision", "nlp")]
    pending.refresh()
    client = signed_in()
    figures = TeamFigures.read([team.pk for team in teams], now=timezone.now())
    summarize(teams, figures)
    assert figures.people == len(
        {person for team in teams for person in team.members.filter(service_of=None)}
    )
    api = {team["slug"]: team for team in api_rows(client, "/api/v1/teams/")}
    waiting = 0
    for team in teams:
        slug = team.slug
        page, settings = (client.get(f"/teams/{slug}/{part}").context for part in ("", "settings/"))
        members = client.get(f"/teams/{slug}/people/").context["members"]
        assert {
            page["members"], settings["member_count"], len(members), team.summary.people,
            api[slug]["members"], len(client.get(f"/api/v1/teams/{slug}/").json()["people"]),
        } == {len(members)}  # fmt: skip
        live, requested, held = page["counts"]
        assert {
            live, settings["claims"]["live"], team.summary.live_claims,
            client.get(f"/claims/?team={slug}&state=live").context["listing"].total,
            sum(row["state"] not in FINAL for row in api_rows(client, f"/api/v1/claims/?team={slug}")),
            sum(person.claims for person in page["people"]),
        } == {Claim.objects.live().filter(team=team).count()}  # fmt: skip
        assert {
            requested, settings["claims"]["waiting"],
            client.get(f"/claims/?team={slug}&state=requested").context["listing"].total,
        } == {Claim.objects.filter(team=team, state=ClaimState.REQUESTED).count()}  # fmt: skip
        gpus = Allocation.objects.gpus().filter(claim__team=team, ended_at=None).count()
        assert held == sum(person.held for person in page["people"]) == gpus
        quotas = client.get(f"/quotas/?team={slug}").context
        [group] = quotas["groups"]
        of_api = [row for row in api_rows(client, "/api/v1/quotas/") if row["team"] == slug]
        limits = sorted([row[name] for name in OF_QUOTA] for row in of_api)
        for rows in (page["quotas"], group.rows):
            assert sorted([getattr(row, name) for name in OF_QUOTA] for row in rows) == limits
        undecided = [*api_rows(client, f"/api/v1/approvals/?tab=all&team={slug}")]
        waiting += len(undecided)
        assert client.get(f"/approvals/?tab=all&team={slug}").context["page"].paginator.count == len(
            undecided
        )
        assert len(undecided) == PendingDecision.objects.filter(team=team).count()
    home = client.get("/").context
    tabs = {tab: count for tab, _title, count in client.get("/approvals/?tab=all").context["tabs"]}
    assert home["waiting"].count == waiting == tabs["all"]
    asked = QuotaRequest.objects.filter(status=RequestStatus.WAITING).count()
    assert (
        quotas["waiting"] == asked == client.get("/quotas/requests/?status=waiting").context["listing"].total
    )
    assert client.get("/people/").context["listing"].total == User.objects.filter(service_of=None).count()


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
