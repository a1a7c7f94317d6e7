"""Workers that stop, start and come back: leases are given back, and nothing is followed twice."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

import pytest
from celery import Celery
from django.db import connection
from django.utils import timezone
from kombu.exceptions import OperationalError

from cluster.protocol import NODE, Event, Unreachable
from inventory import tasks
from inventory.models import Freshness, Node
from inventory.sync import list_watch, session
from inventory.sync.session import take
from tests import patience
from tests.inventory.conftest import node
from tests.inventory.gateways import Silent, use

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def stopping(monkeypatch):
    flag = session.Shutdown()
    monkeypatch.setattr(session, "stopping", flag)
    return flag


def is_free(cluster, resource):
    row = Freshness.objects.get(cluster=cluster, resource=resource)
    return (row.holder, row.held_until) == ("", None)


def test_a_worker_that_stops_ends_its_turns_at_once_and_gives_them_back(
    mirrored, fake, monkeypatch, stopping
):
    monkeypatch.setattr(session, "EMPTY_AFTER", 60.0)
    silent = Silent(fake)
    use(monkeypatch, silent)
    with ThreadPoolExecutor(1) as threads:
        following = threads.submit(list_watch.run_session, mirrored.pk, "nodes")
        assert silent.waiting.wait(60)
        stopping.set()
        assert following.result(timeout=patience.LOCK) is None
        silent.speak.set()
    assert is_free(mirrored, "nodes")
    assert list_watch.run_session(mirrored.pk, "nodes") is None  # its last messages are left to others
    assert is_free(mirrored, "nodes")


def test_a_worker_that_stops_does_not_finish_a_long_listing(mirrored, fake, monkeypatch, stopping):
    use(monkeypatch, fake)
    for number in range(600):
        fake.put(NODE, node(f"node-{number}"))
    pages, asked = fake.list, []

    def stop_after_the_first(kind):
        for page in pages(kind):
            asked.append(page)
            stopping.set()
            yield page

    monkeypatch.setattr(fake, "list", stop_after_the_first)
    Freshness.objects.update(resource_version="")
    assert list_watch.run_session(mirrored.pk, "nodes") is None
    assert len(asked) == 1
    assert is_free(mirrored, "nodes")
    assert Freshness.objects.get(cluster=mirrored, resource="nodes").resource_version == ""


def test_a_cluster_that_goes_while_the_worker_stops_is_no_failure(mirrored, fake, monkeypatch, stopping):
    use(monkeypatch, fake)

    def break_off():
        stopping.set()
        raise Unreachable("fra-1 does not answer.")

    monkeypatch.setattr(fake, "identity", break_off)
    assert list_watch.run_session(mirrored.pk, "nodes") is None
    assert is_free(mirrored, "nodes")
    assert Freshness.objects.get(cluster=mirrored, resource="nodes").error == ""


@pytest.mark.parametrize(
    ("silent_for", "seconds"), [(5, list_watch.WATCH_SECONDS), (120, list_watch.FIRST_WATCH_SECONDS)]
)
def test_after_a_silence_the_first_watch_is_short(mirrored, fake, monkeypatch, silent_for, seconds):
    use(monkeypatch, fake)
    asked = []
    watch = fake.watch
    monkeypatch.setattr(fake, "watch", lambda kind, **how: asked.append(how["seconds"]) or watch(kind, **how))
    Freshness.objects.update(seen_at=timezone.now() - timedelta(seconds=silent_for))
    assert list_watch.run_session(mirrored.pk, "nodes") == timedelta(0)
    assert asked == [seconds]


def test_no_connection_to_the_database_is_held_while_a_cluster_has_nothing_to_tell(
    mirrored, fake, monkeypatch
):
    held = []
    lease = take(mirrored.pk, "nodes")

    def slow(*args, **options):
        for batch in ([Event("ADDED", fake.put(NODE, node("node-c")), "900")], []):
            held.append(connection.connection is not None)
            yield batch
        held.append(connection.connection is not None)

    monkeypatch.setattr(list_watch, "batches", slow)
    assert connection.connection is not None  # of the lease
    assert list_watch.follow(lease, fake, NODE, version="800", seconds=1) == "900"
    assert held == [False, False, False]
    assert Node.objects.filter(name="node-c").exists()


def test_a_worker_that_starts_queues_again_what_the_last_one_had_queued(mirrored, monkeypatch):
    queued = []
    monkeypatch.setattr(tasks.watch, "apply_async", lambda args, **options: queued.append(args[1]))
    monkeypatch.setattr(tasks.inspect, "apply_async", lambda args, **options: None)
    assert take(mirrored.pk, "nodes")
    tasks.sync_all()
    first = sorted(queued)
    queued.clear()
    tasks.sync_all(again=True)
    assert sorted(queued) == first
    assert "nodes" not in queued


class Worker:
    """What the signals of a worker come from: something with an app that consumes these queues."""

    def __init__(self, *queues):
        self.app = Celery("a-worker", broker="memory://", set_as_current=False)
        self.app.amqp.queues.select(list(queues))


@pytest.mark.parametrize(("queue", "sent"), [("sync", 1), ("delivery", 0)])
def test_only_a_worker_that_follows_clusters_starts_that_and_hands_it_over(monkeypatch, queue, sent):
    messages = []
    monkeypatch.setattr(tasks.sync_all, "apply_async", lambda **options: messages.append(options))
    worker = Worker(queue)
    tasks.sync_at_start(sender=worker)
    assert [message["kwargs"] for message in messages] == [{"again": True}] * sent
    tasks.wake_other_workers(sender=worker)
    assert len(messages) == 2 * sent


def test_a_worker_that_cannot_reach_the_broker_any_more_stops_without_an_error(monkeypatch):
    def refuse(**options):
        raise OperationalError("Connection refused")

    monkeypatch.setattr(tasks.sync_all, "apply_async", refuse)
    tasks.wake_other_workers(sender=Worker("sync"))


def test_beat_queues_each_resource_without_a_holder_once(mirrored, monkeypatch):
    queued = []
    monkeypatch.setattr(tasks.watch, "apply_async", lambda args, **options: queued.append(args[1]))
    monkeypatch.setattr(tasks.inspect, "apply_async", lambda args, **options: None)
    held = take(mirrored.pk, "nodes")
    assert held

    tasks.sync_all()
    assert "nodes" not in queued
    assert set(queued) >= {"resourceslices", "resourceclaims", "devicetaintrules", "pods"}
    first = len(queued)
    tasks.sync_all()
    assert len(queued) == first


def test_a_cluster_that_is_switched_off_or_halted_is_not_followed(mirrored, monkeypatch):
    queued = []
    monkeypatch.setattr(tasks.watch, "apply_async", lambda args, **options: queued.append(args))
    monkeypatch.setattr(tasks.inspect, "apply_async", lambda args, **options: None)
    type(mirrored).objects.update(halt_reason="Another cluster answers.")
    tasks.sync_all()
    type(mirrored).objects.update(halt_reason="", enabled=False)
    tasks.sync_all()
    assert queued == []
    assert list_watch.run_session(mirrored.pk, "nodes") is None
    type(mirrored).objects.update(enabled=True)
    tasks.sync_all()
    assert queued


def test_a_turn_queues_the_next_one_after_its_pause(mirrored, fake, monkeypatch):
    use(monkeypatch, fake)
    queued = []
    monkeypatch.setattr(tasks.watch, "apply_async", lambda args, **options: queued.append((args, options)))
    monkeypatch.setattr(tasks, "run_session", lambda cluster_id, plural: timedelta(seconds=4))
    tasks.watch(str(mirrored.pk), "nodes")
    [(args, options)] = queued
    assert args == (str(mirrored.pk), "nodes")
    assert options == {"countdown": 4.0, "expires": 64.0}


def test_credentials_that_lead_back_end_the_halt(mirrored, fake, monkeypatch):
    @contextmanager
    def to_it(cluster):
        yield fake

    monkeypatch.setattr(tasks, "gateway_for", to_it)
    type(mirrored).objects.update(halt_reason="Another cluster answers.")
    tasks.inspect(str(mirrored.pk))
    mirrored.refresh_from_db()
    assert mirrored.halt_reason == ""
    assert (mirrored.version, mirrored.missing) == ("v1.37.1", [])


def test_a_portal_that_may_not_read_events_knows_it(mirrored, fake, monkeypatch):
    @contextmanager
    def to_it(cluster):
        yield fake

    monkeypatch.setattr(tasks, "gateway_for", to_it)
    fake.denied = {("list", "events")}
    tasks.inspect(str(mirrored.pk))
    mirrored.refresh_from_db()
    assert mirrored.missing == ["list events"]
