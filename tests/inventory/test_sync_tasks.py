"""What is queued when, what a task asks, and which pods have their Events read."""

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.utils import timezone

from cluster.protocol import POD, Unreachable
from inventory import events, tasks
from inventory.events import has_due, pod_events
from inventory.models import Cluster, Freshness, Pod, PodEvent
from inventory.sync.list_watch import sync_once
from inventory.sync.session import Halted
from tests.fakes import FakeGateway

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)


@pytest.fixture
def queued(monkeypatch):
    found = []
    for name in ("watch", "inspect", "read_pod_events"):
        task = getattr(tasks, name)
        monkeypatch.setattr(
            task, "apply_async", lambda args, name=name, **options: found.append((name, args, options))
        )
    return found


def names_of(queued):
    return [(name, *args[1:]) for name, args, _ in queued]


EVERY = [
    ("watch", plural)
    for plural in (
        "namespaces",
        "nodes",
        "deviceclasses",
        "resourceclaimtemplates",
        "resourceclaims",
        "devicetaintrules",
        "resourceslices",
        "pods",
    )
]


def test_sessions_are_queued_with_an_expiry(mirrored, queued):
    other = Cluster.objects.create(name="zrh-1", credentials=b"", checked_at=timezone.now())
    other.discovery = {"taint_rules": None}
    other.save(update_fields=["discovery"])
    tasks.sync_all()
    assert names_of(queued) == EVERY + [each for each in EVERY if each[1] != "devicetaintrules"]
    assert {args[0] for _, args, _ in queued} == {str(mirrored.pk), str(other.pk)}
    assert all(options == {"countdown": 0.0, "expires": 60.0} for _, _, options in queued)
    held_for = Freshness.objects.get(cluster=mirrored, resource="nodes")
    assert held_for.holder == "queued"


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"checked_at": None}, [("inspect",)]),
        ({"checked_at": NOW - timedelta(minutes=5)}, []),
        ({"checked_at": NOW - timedelta(minutes=5, seconds=1)}, [("inspect",)]),
        ({"halt_reason": "stopped"}, [("inspect",)]),
        ({"enabled": False, "checked_at": None}, []),
    ],
)
def test_cluster_is_inspected_every_five_minutes_and_when_halted(mirrored, queued, changed, expected):
    Cluster.objects.update(**{"checked_at": NOW, **changed})
    Freshness.objects.update(holder="somebody", held_until=timezone.now() + timedelta(hours=1))
    with time_machine.travel(NOW, tick=False):
        tasks.sync_all()
    assert names_of(queued) == expected
    if expected:
        assert queued[0][1:] == ((str(mirrored.pk),), {"expires": 60.0})


def test_pod_events_are_queued_if_a_pod_waits(mirrored, fake, queued, run_session):
    Freshness.objects.update(holder="somebody", held_until=timezone.now() + timedelta(hours=1))
    tasks.sync_all()
    assert queued == []
    waits = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"resourceClaims": [{"name": "g"}]}}
    Freshness.objects.filter(resource="pods").update(holder="", held_until=None)
    fake.put(POD, waits)
    run_session("pods")
    Freshness.objects.update(holder="somebody", held_until=timezone.now() + timedelta(hours=1))
    tasks.sync_all()
    assert queued == [("read_pod_events", (str(mirrored.pk),), {"expires": 20.0})]


@pytest.mark.parametrize("task", ["inspect", "read_pod_events"])
@pytest.mark.parametrize(
    ("changed", "asked"), [({}, True), ({"enabled": False}, False), ({"halt_reason": "x"}, None)]
)
def test_a_task_reads_its_cluster_again_before_it_asks(mirrored, monkeypatch, task, changed, asked):
    seen = []

    @contextmanager
    def open_(cluster):
        seen.append(cluster.name)
        raise Unreachable("Down.")
        yield

    monkeypatch.setattr(tasks, "gateway_for", open_)
    Cluster.objects.update(**changed)
    getattr(tasks, task)(str(mirrored.pk))
    wanted = task == "inspect" if asked is None else asked
    assert seen == ["fra-1"] * wanted
    mirrored.delete()
    getattr(tasks, task)(str(mirrored.pk or "00000000-0000-7000-8000-000000000000"))
    assert seen == ["fra-1"] * wanted


def test_an_inspection_that_halts_is_no_failure_of_the_task(mirrored, fake, monkeypatch):
    @contextmanager
    def to_fake(cluster):
        yield fake

    monkeypatch.setattr(tasks, "gateway_for", to_fake)
    fake._objects["namespaces", "", "kube-system"]["metadata"]["uid"] = "another"
    tasks.inspect(str(mirrored.pk))
    assert "another" in Cluster.objects.get().halt_reason
    with pytest.raises(Halted):
        sync_once(mirrored, fake)


@pytest.mark.parametrize(("pause", "messages"), [(None, 0), (timedelta(0), 1), (timedelta(seconds=90), 1)])
def test_session_queues_the_next_unless_the_lease_was_lost(mirrored, queued, monkeypatch, pause, messages):
    asked = []
    monkeypatch.setattr(tasks, "run_session", lambda *args: asked.append(args) or pause)
    tasks.watch(str(mirrored.pk), "nodes")
    assert asked == [(mirrored.pk, "nodes")]
    seconds = pause.total_seconds() if pause is not None else 0
    expected = ("watch", (str(mirrored.pk), "nodes"), {"countdown": seconds, "expires": seconds + 60})
    assert queued == [expected] * messages


# Events of pods.


def pod_row(cluster, name, **fields):
    defaults = {"uid": name, "name": name, "namespace": "vision", "phase": "Pending", "created_at": NOW}
    return Pod.objects.create(cluster=cluster, **{**defaults, **fields})


@pytest.mark.parametrize(
    ("waited", "ago", "due"),
    [
        (timedelta(0), timedelta(seconds=15), True),
        (timedelta(0), timedelta(seconds=14), False),
        (timedelta(minutes=10), timedelta(seconds=60), True),
        (timedelta(minutes=10), timedelta(seconds=59), False),
        (timedelta(days=9), timedelta(minutes=5), True),
        (timedelta(days=9), timedelta(minutes=4, seconds=59), False),
    ],
)
def test_a_pod_is_read_again_after_a_tenth_of_its_wait(fra, waited, ago, due):
    pod_row(fra, "p", created_at=NOW - waited, events_at=NOW - ago)
    with time_machine.travel(NOW, tick=False):
        assert has_due(fra) is due


@pytest.mark.parametrize(
    ("fields", "due"),
    [
        ({"phase": ""}, True),
        ({"phase": "Running"}, False),
        ({"phase": "Running", "deleting_since": NOW}, True),
        ({"gone_at": NOW - timedelta(minutes=10)}, True),
        ({"gone_at": NOW - timedelta(minutes=10, seconds=1)}, False),
        ({"gone_at": NOW - timedelta(minutes=1), "events_at": NOW - timedelta(minutes=2)}, True),
        ({"gone_at": NOW - timedelta(minutes=1), "events_at": NOW - timedelta(minutes=1)}, False),
    ],
)
def test_which_pods_are_read(fra, fields, due):
    other = Cluster.objects.create(name="ber-1", credentials=b"")
    pod_row(fra, "p", **fields)
    with time_machine.travel(NOW, tick=False):
        assert has_due(fra) is due
        assert not has_due(other)


def test_pods_with_the_oldest_events_come_first(fra):
    hour = timedelta(hours=1)
    for name, ago in (("b", 2 * hour), ("a", hour), ("c", None), ("d", None)):
        pod_row(fra, name, events_at=ago and NOW - ago)
    pod_row(fra, "gone", gone_at=NOW - timedelta(minutes=1))
    assert [pod.name for pod in events._due(fra, NOW)] == ["c", "d", "b", "a", "gone"]


def said(message="m", **more):
    return {
        "metadata": {"creationTimestamp": "2026-11-20T08:00:00Z"},
        "reason": "r",
        "message": message,
        "type": "Warning",
        **more,
    }


def when(hour, minute=0):
    return datetime(2026, 11, 20, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("event", "first", "last", "count"),
    [
        (said(), when(8), when(8), 1),
        (said(eventTime="2026-11-20T09:00:00Z"), when(9), when(9), 1),
        (
            said(firstTimestamp="2026-11-20T07:00:00Z", eventTime="2026-11-20T09:00:00Z", count=4),
            when(7),
            when(7),
            4,
        ),
        (said(lastTimestamp="2026-11-20T10:00:00Z", count=2), when(8), when(10), 2),
        (
            said(
                lastTimestamp="2026-11-20T10:00:00Z",
                count=2,
                series={"count": 9, "lastObservedTime": "2026-11-20T11:00:00Z"},
            ),
            when(8),
            when(11),
            9,
        ),
        (said(metadata={}), NOW, NOW, 1),
    ],
)
def test_event_has_times_and_count(event, first, last, count):
    [row] = pod_events(Pod(), [event], NOW)
    assert (row.first_at, row.last_at, row.count) == (first, last, count)


def test_event_has_source_and_type():
    rows = pod_events(
        Pod(),
        [
            said("a", reportingComponent="kubelet", source={"component": "other"}),
            said("b", source={"component": "other"}, type="Normal"),
            {"metadata": {}, "reason": "x" * 200},
        ],
        NOW,
    )
    found = {(row.message, row.source, row.warning, len(row.reason)) for row in rows}
    assert found == {("a", "kubelet", True, 1), ("b", "other", False, 1), ("", "", False, 128)}


def test_equal_events_are_added_up():
    early = said(firstTimestamp="2026-11-20T07:00:00Z", lastTimestamp="2026-11-20T12:00:00Z", count=2)
    late = said(firstTimestamp="2026-11-20T08:00:00Z", lastTimestamp="2026-11-20T11:00:00Z", count=3)
    for pair in ((early, late), (late, early)):
        [row] = pod_events(Pod(), pair, NOW)
        assert (row.count, row.first_at, row.last_at) == (5, when(7), when(12))
    assert len(pod_events(Pod(), [early, said("other"), said(reason="other")], NOW)) == 3


@pytest.mark.parametrize(("pods", "asked"), [(3, 3), (4, 1)])
def test_few_pods_are_listed_one_by_one_and_more_together(fra, monkeypatch, pods, asked):
    gateway, selectors = FakeGateway(), []

    def listed(kind, *, namespace, field_selector):
        selectors.append((namespace, field_selector))
        return iter(())

    monkeypatch.setattr(gateway, "list", listed)
    for number in range(pods):
        pod_row(fra, f"p{number}")
    with time_machine.travel(NOW, tick=False):
        events.read_events(fra, gateway)
    one_by_one = [
        ("vision", f"involvedObject.kind=Pod,involvedObject.uid=p{number}") for number in range(pods)
    ]
    assert selectors == (one_by_one if asked == pods else [("vision", "involvedObject.kind=Pod")])
    assert set(Pod.objects.values_list("events_at", flat=True)) == {NOW}
    assert not PodEvent.objects.exists()
