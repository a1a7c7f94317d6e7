"""A watch as batches, and the allocator's picture of one cluster beside another's."""

import threading
from types import SimpleNamespace

import pytest
from django.urls import reverse

from cluster.protocol import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE_VERSIONS,
    NODE,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    Event,
    Unreachable,
)
from inventory import cluster_snapshot
from inventory.management.commands.cluster import cluster_state
from inventory.models import Cluster, Device, Node, ResourceClaim
from inventory.sync import session
from inventory.sync.list_watch import sync_once
from teams.models import User
from tests.fakes import FakeGateway
from tests.inventory.conftest import device_class, gpu, node, resource_claim, slice_of

RULE = DEVICE_TAINT_RULE_VERSIONS[0]


def event(number):
    return Event("ADDED", {"metadata": {"name": str(number)}}, str(number))


def gateway(*script):
    """A watch that yields these events, raises these errors and calls what can be called."""
    asked = []

    def watch(kind, *, resource_version, seconds):
        asked.append((kind, resource_version, seconds))
        for one in script:
            if isinstance(one, Exception):
                raise one
            if callable(one):
                one()
            else:
                yield one

    return SimpleNamespace(watch=watch, asked=asked)


@pytest.fixture
def quick(monkeypatch):
    """Events are gathered for a moment only, and nobody stops."""
    flag = session.Shutdown()
    monkeypatch.setattr(session, "stopping", flag)
    monkeypatch.setattr(session, "EMPTY_AFTER", 0.05)
    monkeypatch.setattr(session, "GATHER_SECONDS", 5)
    return flag


def numbers(batches):
    return [[int(one.resource_version) for one in batch] for batch in batches]


def read(gateway, seconds=9):
    return session.batches(gateway, NODE, version="7", seconds=seconds)


def test_a_burst_is_one_batch_and_the_end_of_the_watch_ends_it(quick, monkeypatch):
    monkeypatch.setattr(session, "BURST_SECONDS", 5)
    watch = gateway(*map(event, range(5)))
    assert numbers(read(watch)) == [[0, 1, 2, 3, 4]]
    assert watch.asked == [(NODE, "7", 9)]


def test_a_batch_of_a_stream_without_pauses_is_limited_in_time(quick, monkeypatch):
    monkeypatch.setattr(session, "BURST_SECONDS", 30)
    monkeypatch.setattr(session, "GATHER_SECONDS", 0.05)
    speak = threading.Event()
    found = read(gateway(event(1), lambda: speak.wait(20), event(2)))
    assert numbers([next(found)]) == [[1]]
    assert not speak.is_set()
    speak.set()
    assert [one for batch in numbers(found) for one in batch] == [2]


def test_batch_size_is_limited_without_losing_events(quick, monkeypatch):
    monkeypatch.setattr(session, "BURST_SECONDS", 5)
    monkeypatch.setattr(session, "MAX_BATCH", 2)
    assert numbers(read(gateway(*map(event, range(5))))) == [[0, 1], [2, 3], [4]]


def test_events_before_an_error_are_not_lost(quick, monkeypatch):
    monkeypatch.setattr(session, "BURST_SECONDS", 5)
    found = read(gateway(event(1), event(2), Unreachable("gone")))
    assert numbers([next(found)]) == [[1, 2]]
    with pytest.raises(Unreachable, match="gone"):
        next(found)


def test_empty_batches_are_yielded_while_there_are_no_events(quick):
    speak = threading.Event()
    found = read(gateway(lambda: speak.wait(30), event(1)))
    assert numbers([next(found), next(found)]) == [[], []]
    speak.set()
    assert [one for batch in numbers(found) for one in batch] == [1]


@pytest.mark.parametrize("error", [None, Unreachable("gone")])
def test_stopping_worker_ends_the_watch_without_an_error(quick, monkeypatch, error):
    """The watch ends, or breaks, in the same moment."""
    speak, gather = threading.Event(), session._gather
    script = [event(1), lambda: speak.wait(30)] + ([error] if error else [])
    found = read(gateway(*script))
    assert numbers([next(found)]) == [[1]]

    def stop_and_gather(events):
        quick.set()
        speak.set()
        monkeypatch.setattr(session, "EMPTY_AFTER", 30)
        return gather(events)

    monkeypatch.setattr(session, "_gather", stop_and_gather)
    assert numbers(found) == [[]]
    with pytest.raises(session.Stopping):
        session.go_on()
    quick.clear()
    session.go_on()


def test_dead_connection_is_given_up_after_the_deadline(quick, monkeypatch):
    speak = threading.Event()
    now = iter([100.0, 123.9, 124.0])  # asked for 9 seconds, and 15 more
    monkeypatch.setattr(session, "time", SimpleNamespace(monotonic=lambda: next(now)))
    try:
        assert numbers(read(gateway(lambda: speak.wait(30)))) == [[]]
    finally:
        speak.set()


# The picture.


@pytest.fixture
def ber(mirrored):
    """A cluster with other things under the same names."""
    fake = FakeGateway(name="ber-1", minor=34)
    taint = {"key": "k", "effect": "NoSchedule"}
    for kind, manifest in (
        (NODE, node("node-a")),
        (RESOURCE_SLICE, slice_of("node-a", [gpu(0), gpu(1), gpu(2)])),
        (DEVICE_CLASS, device_class("mig", kind="mig")),
        (RULE, {"metadata": {"name": "drain"}, "spec": {"deviceSelector": {"pool": "x"}, "taint": taint}}),
        (RESOURCE_CLAIM, resource_claim("theirs", "gpu-2")),
    ):
        fake.put(kind, manifest)
    cluster = Cluster.objects.create(name="ber-1", uid=fake.uid, credentials=b"")
    sync_once(cluster, fake)
    cluster.refresh_from_db()
    return cluster


def facts(cluster):
    found = cluster_snapshot.current_snapshot(cluster)
    return {
        "devices": sorted(map(str, found.devices)),
        "free": sorted(map(str, found.free)),
        "claims": [claim["metadata"]["name"] for claim in found.claims],
        "classes": [one["metadata"]["name"] for one in found.classes],
        "nodes": sorted(one["metadata"]["name"] for one in found.nodes),
        "rules": [one["metadata"]["name"] for one in found.taint_rules],
    }


GPUS = [f"gpu.nvidia.com/node-a/gpu-{number}" for number in range(3)]
OF_BER = {
    "devices": GPUS,
    "free": GPUS[:2],
    "claims": ["theirs"],
    "classes": ["mig"],
    "nodes": ["node-a"],
    "rules": ["drain"],
}
OF_FRA = {
    "devices": [*GPUS[:2], "gpu.nvidia.com/node-b/gpu-0"],
    "free": [*GPUS[:2], "gpu.nvidia.com/node-b/gpu-0"],
    "claims": [],
    "classes": ["gpu.nvidia.com"],
    "nodes": ["node-a", "node-b"],
    "rules": [],
}


@pytest.mark.django_db
def test_snapshot_has_only_objects_of_its_cluster(ber, mirrored):
    cluster_snapshot.forget()
    assert (facts(ber), facts(mirrored)) == (OF_BER, OF_FRA)
    assert cluster_snapshot.current_snapshot(ber).features == cluster_snapshot.cluster_features("v1.34.1")


@pytest.mark.django_db
def test_snapshot_is_rebuilt_with_the_mirror(mirrored, fake, run_session):
    cluster_snapshot.forget()
    fake.put(RESOURCE_CLAIM, resource_claim("gone", "gpu-0"))
    run_session("resourceclaims")
    fake.remove(RESOURCE_CLAIM, "gone", namespace="default")
    run_session("resourceclaims")
    assert ResourceClaim.objects.filter(name="gone").exists()
    assert facts(mirrored) == OF_FRA
    Node.objects.filter(name="node-b").delete()
    Cluster.objects.update(revision=1)
    assert facts(mirrored) == OF_FRA | {"nodes": ["node-a"]}


@pytest.mark.parametrize(
    ("version", "same"),
    [("v1.36.2", "v1.36.0"), ("1.36", "v1.36.0"), ("v1.x", ""), ("v2", ""), ("v1.36+", "")],
)
def test_features_are_those_of_the_minor_version_or_the_newest(version, same):
    assert cluster_snapshot.cluster_features(version) == cluster_snapshot.cluster_features(same)
    assert cluster_snapshot.cluster_features("v1.34.0") != cluster_snapshot.cluster_features("v1.36.0")


# Django admin and the terminal.


@pytest.mark.django_db
@pytest.mark.parametrize("kind", ["device", "node", "resourceclaim", "freshness", "objectevent", "cluster"])
def test_mirrored_rows_are_read_only_in_the_admin(client, mirrored, kind):
    client.force_login(User.objects.create_superuser("root"))
    model = {"device": Device, "node": Node, "cluster": Cluster}.get(kind)
    row = model.objects.first() if model else None
    if row is not None:
        change = reverse(f"admin:inventory_{kind}_change", args=[row.pk])
        assert client.post(reverse(f"admin:inventory_{kind}_delete", args=[row.pk])).status_code == 403
        if kind != "cluster":
            assert client.post(change, {"name": "other"}).status_code == 403
        assert model.objects.filter(pk=row.pk, name=row.name).exists()
    page = client.get(reverse(f"admin:inventory_{kind}_changelist"))
    assert b"delete_selected" not in page.content
    assert client.get(reverse(f"admin:inventory_{kind}_add")).status_code == 403


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "in use"),
        ({"read_only": True}, "in use, read-only"),
        ({"simulated": True}, "in use, simulated"),
        ({"read_only": True, "simulated": True}, "in use, read-only, simulated"),
        ({"enabled": False, "simulated": True}, "not in use"),
        ({"enabled": False, "halt_reason": "Another."}, "Another."),
    ],
)
def test_the_state_of_a_cluster_in_words(fields, words):
    assert cluster_state(Cluster(name="fra-1", **fields)) == words
