"""What is read of the Events of pods, when, and that it costs few requests."""

from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from cluster.protocol import EVENT, NAMESPACE, POD, Refused, Unreachable
from inventory import events, tasks
from inventory.events import has_due, read_events
from inventory.models import Pod, PodEvent
from inventory.signals import mirror_changed
from inventory.sync.list_watch import sync_once

pytestmark = pytest.mark.django_db
AT = "2026-11-20T10:00:00Z"


def pod(name: str, *, phase: str = "Pending", **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "vision", "uid": f"uid-{name}", **metadata},
        "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "batch"}], "containers": []},
        "status": {"phase": phase},
    }


def event(about: str, message: str = "no room", **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{about}.{message}.{more.get('count')}", "namespace": "vision"},
        "involvedObject": {"kind": "Pod", "namespace": "vision", "name": about, "uid": f"uid-{about}"},
        "reason": "FailedScheduling",
        "message": message,
        "type": "Warning",
        "source": {"component": "default-scheduler"},
        "firstTimestamp": AT,
        "lastTimestamp": "2026-11-20T10:05:00Z",
        "count": 3,
        **more,
    }


@pytest.fixture
def fra(fra, fake):
    fake.put(NAMESPACE, {"metadata": {"name": "vision"}})
    return fra


@pytest.fixture
def waiting(fra, fake):
    fake.put(POD, pod("train"))
    sync_once(fra, fake)
    fake.calls.clear()
    return Pod.objects.get()


def later(pod_row, **by):
    """Let the last reading lie further back."""
    Pod.objects.filter(pk=pod_row.pk).update(events_at=timezone.now() - timedelta(**by))


def listings(fake):
    return [call for call in fake.calls if call[:2] == ("list", "events")]


def test_a_waiting_pod_has_the_events_about_it_and_no_other(fra, fake, waiting):
    fake.put(EVENT, event("train"))
    fake.put(EVENT, event("other"))
    read_events(fra, fake)
    row = PodEvent.objects.get()
    assert (row.pod, row.reason, row.message, row.source) == (
        waiting, "FailedScheduling", "no room", "default-scheduler",
    )  # fmt: skip
    assert (row.count, row.warning) == (3, True)
    assert (row.last_at - row.first_at) == timedelta(minutes=5)


def test_events_of_the_scheduler_are_read(fra, fake, waiting):
    series = {"count": 7, "lastObservedTime": "2026-11-20T10:09:00.000000Z"}
    new: dict[str, Any] = {"firstTimestamp": None, "lastTimestamp": None, "count": None, "source": {}}
    said = event("train", **new, eventTime="2026-11-20T10:00:00.123456Z", series=series)
    fake.put(EVENT, said | {"reportingComponent": "default-scheduler"})
    read_events(fra, fake)
    row = PodEvent.objects.get()
    assert (row.count, row.source) == (7, "default-scheduler")
    assert (row.first_at.isoformat(), row.last_at.isoformat()) == (
        "2026-11-20T10:00:00.123456+00:00", "2026-11-20T10:09:00+00:00",
    )  # fmt: skip


def test_equal_events_are_one_row(fra, fake, waiting):
    fake.put(EVENT, event("train", count=3))
    fake.put(EVENT, event("train", count=4, firstTimestamp="2026-11-20T09:00:00Z"))
    read_events(fra, fake)
    row = PodEvent.objects.get()
    assert (row.count, row.first_at.hour) == (7, 9)


def test_only_the_latest_events_are_stored(fra, fake, waiting):
    for minute in range(10, 20):
        fake.put(EVENT, event("train", f"said at {minute}", lastTimestamp=f"2026-11-20T10:{minute}:00Z"))
    read_events(fra, fake)
    kept = [row.message for row in PodEvent.objects.all()]
    assert kept == [f"said at {minute}" for minute in range(19, 13, -1)]


def test_expired_event_is_removed(fra, fake, waiting):
    fake.put(EVENT, event("train"))
    read_events(fra, fake)
    assert PodEvent.objects.count() == 1
    fake.remove(EVENT, "train.no room.None", namespace="vision")
    later(waiting, minutes=6)
    read_events(fra, fake)
    assert not PodEvent.objects.exists()


def test_events_of_a_waiting_pod_are_listed_less_and_less_often(fra, fake, waiting):
    assert has_due(fra)
    read_events(fra, fake)
    assert not has_due(fra)
    later(waiting, seconds=20)
    assert has_due(fra)
    Pod.objects.update(created_at=timezone.now() - timedelta(minutes=20))
    assert not has_due(fra)
    later(waiting, seconds=130)
    assert has_due(fra)
    Pod.objects.update(created_at=timezone.now() - timedelta(days=2))
    assert not has_due(fra)
    later(waiting, minutes=6)
    assert has_due(fra)


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
def test_events_of_a_running_pod_are_not_listed(fra, fake, waiting, phase):
    assert has_due(fra)
    fake.put(POD, pod("train", phase=phase))
    sync_once(fra, fake)
    assert not has_due(fra)


def test_events_of_a_deleted_pod_are_listed_once_more(fra, fake):
    fake.put(POD, pod("train", phase="Running", deletionTimestamp=AT, finalizers=["test/keep"]))
    sync_once(fra, fake)
    read_events(fra, fake)
    fake.put(
        EVENT, event("train", "Marking for deletion", reason="DeviceTaintManagerEviction", type="Normal")
    )
    fake.remove(POD, "train", namespace="vision")
    sync_once(fra, fake)
    read_events(fra, fake)
    assert [(row.reason, row.warning) for row in PodEvent.objects.all()] == [
        ("DeviceTaintManagerEviction", False)
    ]
    assert not has_due(fra)


def test_events_of_a_pod_deleted_long_ago_are_not_listed(fra, fake, waiting):
    fake.remove(POD, "train", namespace="vision")
    sync_once(fra, fake)
    assert has_due(fra)
    Pod.objects.update(gone_at=timezone.now() - timedelta(hours=1))
    assert not has_due(fra)


def test_many_pods_of_a_namespace_need_one_listing(fra, fake):
    for number in range(20):
        fake.put(POD, pod(f"train-{number}"))
        fake.put(EVENT, event(f"train-{number}"))
    sync_once(fra, fake)
    read_events(fra, fake)
    assert len(listings(fake)) == 1
    assert PodEvent.objects.count() == 20


def test_signal_is_sent_for_new_events_but_not_for_repeated_ones(fra, fake, waiting):
    told: list[frozenset[str]] = []

    def hear(sender, *, kind, names, **rest):
        told.append(names if kind == "Pod" else frozenset())

    mirror_changed.connect(hear)
    try:
        fake.put(EVENT, event("train"))
        read_events(fra, fake)
        assert told == [frozenset({"vision/train"})]
        fra.refresh_from_db()
        revision = fra.revision
        assert Pod.objects.get(name="train").revision == revision
        fake.put(EVENT, event("train") | {"count": 9})
        later(waiting, minutes=6)
        read_events(fra, fake)
    finally:
        mirror_changed.disconnect(hear)
    assert len(told) == 1
    assert PodEvent.objects.get().count == 9
    fra.refresh_from_db()
    assert fra.revision == revision


@pytest.mark.parametrize("problem", [Refused("no", verb="list", resource="events"), Unreachable("gone")])
def test_missing_permission_for_events_stops_nothing(fra, fake, waiting, monkeypatch, run_session, problem):
    monkeypatch.setattr(tasks, "gateway_for", events_gateway(fake))
    fake.fail(problem)
    tasks.read_pod_events(str(fra.pk))
    assert not PodEvent.objects.exists()
    assert has_due(fra)
    fake.put(EVENT, event("train"))
    tasks.read_pod_events(str(fra.pk))
    assert PodEvent.objects.get().message == "no room"


def events_gateway(fake):
    @contextmanager
    def to_it(cluster):
        yield fake

    return to_it


def test_events_of_a_halted_cluster_are_not_listed(fra, fake, waiting, monkeypatch):
    monkeypatch.setattr(tasks, "gateway_for", events_gateway(fake))
    type(fra).objects.update(halt_reason="another cluster")
    tasks.read_pod_events(str(fra.pk))
    assert not listings(fake)
    type(fra).objects.update(halt_reason="")
    tasks.read_pod_events(str(fra.pk))
    assert listings(fake)


def test_number_of_namespaces_per_run_is_limited(fra, fake, monkeypatch):
    monkeypatch.setattr(events, "MAX_NAMESPACES", 2)
    for name in ("a", "b", "c"):
        fake.put(NAMESPACE, {"metadata": {"name": name}})
        one = pod("train", uid=f"uid-{name}")
        one["metadata"]["namespace"] = name
        fake.put(POD, one)
    sync_once(fra, fake)
    read_events(fra, fake)
    assert len(listings(fake)) == 2
    read_events(fra, fake)
    assert len(listings(fake)) == 3
