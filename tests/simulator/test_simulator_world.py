"""The fleet of the demo, and that two runs of it are alike."""

from collections import Counter

import pytest

from dra.devices import describe
from dra.pools import gather_pools
from simulator.app import opened_clusters
from simulator.cluster import SimulatedCluster
from simulator.controllers.tenants import cluster_seats
from simulator.registry import WriteOptions
from simulator.resources import CLAIMS, NAMESPACES, NODES, PODS, SLICES, TAINT_RULES
from simulator.world import RACKS, populate
from tests.simulator.conftest import NOW

BY_HAND = WriteOptions(manager="kubectl")


def make_world(name, *, seed=7, tenants=True):
    cluster = SimulatedCluster(name, seed=seed, now=lambda: NOW, tenants=tenants)
    populate(cluster.registry, name)
    return cluster


def run(cluster, seconds):
    for _ in range(seconds):
        cluster.step()
    return cluster


def held(cluster):
    return sum(
        len((claim["status"].get("allocation") or {"devices": {"results": []}})["devices"]["results"])
        for claim in cluster.store.all(CLAIMS)
    )


@pytest.fixture(scope="module")
def worlds():
    return {name: make_world(name, tenants=False) for name in RACKS}


def test_there_are_44_nodes_and_288_devices_of_six_kinds(worlds):
    devices: Counter[str] = Counter()
    boards, nodes = set(), 0
    for world in worlds.values():
        nodes += len(world.store.all(NODES))
        for pool in gather_pools(world.store.all(SLICES)):
            assert pool.usable, pool.problem
            for device in pool.devices:
                what = describe(device.driver, device.raw)
                devices[f"{what.product} {what.kind}"] += 1
                boards.add(what.parent_uuid or what.uuid or (device.pool, device.name))
    assert nodes == 44
    assert len(boards) == 214
    assert sum(devices.values()) == 288
    assert devices == {
        "NVIDIA H100 80GB HBM3 gpu": 66,
        "NVIDIA H100 80GB HBM3 mig": 36,
        "NVIDIA A100-SXM4-80GB gpu": 32,
        "NVIDIA L40S gpu": 24,
        "NVIDIA L4 gpu": 32,
        "Tesla T4 gpu": 28,
        "AMD Instinct MI300X gpu": 16,
        "NVIDIA A100-SXM4-80GB mig": 54,
    }


def test_slices_keep_the_limits_of_the_api(worlds):
    for world in worlds.values():
        for one in world.store.all(SLICES):
            spec = one["spec"]
            devices, counter_sets = spec.get("devices", []), spec.get("sharedCounters", [])
            assert bool(devices) != bool(counter_sets)
            assert len(devices) <= 64
            assert len(counter_sets) <= 8
            names = [device["name"] for device in devices]
            assert len(set(names)) == len(names)
            for device in devices:
                assert len(device["attributes"]) + len(device["capacity"]) <= 32
                for attribute in device["attributes"].values():
                    assert len(attribute) == 1


def test_one_device_is_sick_and_one_node_in_maintenance(worlds):
    fra = worlds["fra-1"]
    sick = [
        (one["spec"]["nodeName"], device["name"], device["taints"][0]["key"])
        for one in fra.store.all(SLICES)
        for device in one["spec"].get("devices", [])
        if device.get("taints")
    ]
    assert sick == [("fra1-a100-02", "gpu-2", "gpu.nvidia.com/xid")]
    (rule,) = fra.store.all(TAINT_RULES)
    cordoned = [
        node["metadata"]["name"] for node in fra.store.all(NODES) if node["spec"].get("unschedulable")
    ]
    assert cordoned == [rule["spec"]["deviceSelector"]["pool"]] == ["fra1-h100-06"]


def test_teams_and_tenants_have_namespaces(worlds):
    for world in worlds.values():
        names = {namespace["metadata"]["name"] for namespace in world.store.all(NAMESPACES)}
        assert {"vision", "nlp", "speech", "robotics", "tenant-atlas"} <= names


def test_each_cluster_is_known_by_a_uid_of_its_own_that_stays(worlds):
    uids = {
        name: world.store.get(NAMESPACES, "", "kube-system")["metadata"]["uid"]
        for name, world in worlds.items()
    }
    assert len(set(uids.values())) == 2
    again = make_world("fra-1", tenants=False)
    assert again.store.get(NAMESPACES, "", "kube-system")["metadata"]["uid"] == uids["fra-1"]


@pytest.mark.parametrize("name", sorted(RACKS))
def test_two_runs_with_one_seed_are_alike_and_another_seed_is_another_run(name):
    first, second = (run(make_world(name), 400).dump() for _ in range(2))
    assert first == second
    assert first != run(make_world(name, seed=8), 400).dump()


def test_what_a_person_does_does_not_change_what_tenants_want():
    alone, visited = make_world("lab-2"), make_world("lab-2")
    visited.registry.create(NAMESPACES, "", {"metadata": {"name": "visitor"}}, BY_HAND)
    for world in (alone, visited):
        run(world, 300)
    assert alone.context.due["seat-round"] == visited.context.due["seat-round"]
    names = [[pod["metadata"]["name"] for pod in world.store.all(PODS)] for world in (alone, visited)]
    assert names[0] == names[1]


def test_tenants_come_and_go_and_leave_room():
    world = run(make_world("fra-1"), 10)
    before = {claim["metadata"]["name"] for claim in world.store.all(CLAIMS)}
    counts = [held(run(world, 200)) for _ in range(6)]
    after = {claim["metadata"]["name"] for claim in world.store.all(CLAIMS)}
    assert before - after
    assert after - before
    assert len(set(counts)) > 1
    assert all(20 <= count <= 90 for count in counts), counts


def test_no_device_is_ever_held_twice():
    world = make_world("lab-2")
    for _ in range(20):
        run(world, 30)
        taken = Counter(
            (result["pool"], result["device"])
            for claim in world.store.all(CLAIMS)
            for result in (claim["status"].get("allocation") or {"devices": {"results": []}})["devices"][
                "results"
            ]
        )
        assert set(taken.values()) <= {1}


def test_a_new_cluster_has_a_past():
    """Its claims are of many ages, none of them in the future, and somebody works where no exporter runs."""
    _fra, lab = opened_clusters(RACKS, seed=7, state=None, now=lambda: NOW)
    times = {
        claim["status"]["allocation"]["allocationTimestamp"]
        for claim in lab.store.all(CLAIMS)
        if claim["status"].get("allocation")
    }
    assert len(times) > 10
    assert max(times) <= "2026-11-21T08:00:00Z"
    assert lab.store.since(CLAIMS, lab.store.revision - 1) is None


def test_every_seat_has_a_name_of_its_own():
    for name in RACKS:
        keys = [seat.key for seat in cluster_seats(name)]
        assert len(set(keys)) == len(keys)
