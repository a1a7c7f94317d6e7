"""Several holders, dead holders, events in any order: the mirror ends where the cluster is."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import pytest
from django.db import connection
from django.utils import timezone

from cluster.protocol import DEVICE_CLASS, NODE, RESOURCE_SLICE
from inventory.models import Device, Freshness, Node
from inventory.sync import list_watch, rows
from inventory.sync.list_watch import apply_events, list_all
from inventory.sync.session import Lease, LeaseLost, take
from tests.inventory.conftest import DRIVER, device_class, gpu, node, slice_of
from tests.inventory.gateways import Silent, use
from tests.threads import Race, without_lock

pytestmark = pytest.mark.django_db(transaction=True)


def in_threads(count, work):
    """Run `work` in threads that start at once, each with a connection of its own."""
    together = threading.Barrier(count)

    def run(number):
        together.wait()
        try:
            return work(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(run, range(count)))


def test_one_of_many_concurrent_workers_gets_the_lease(fra):
    for _ in range(10):
        leases = [lease for lease in in_threads(6, lambda number: take(fra.pk, "nodes")) if lease]
        assert len(leases) == 1
        leases[0].drop()


@pytest.mark.parametrize("fenced", [True, False])
def test_holder_with_an_expired_lease_cannot_overwrite_rows(mirrored, fake, monkeypatch, fenced):
    """Its listing is from before node-c was made: without the fence it would close node-c."""
    if not fenced:  # shows that this test is able to fail
        monkeypatch.setattr(Lease, "renew", lambda self: None)
    sleeper = take(mirrored.pk, "nodes")
    pages = list(fake.list(NODE))
    Freshness.objects.update(held_until=timezone.now() - timedelta(seconds=1))
    successor = take(mirrored.pk, "nodes")
    fake.put(NODE, node("node-c"))
    list_all(successor, fake, NODE)

    monkeypatch.setattr(fake, "list", lambda kind: iter(pages))
    if fenced:
        with pytest.raises(LeaseLost):
            list_all(sleeper, fake, NODE)
    else:
        list_all(sleeper, fake, NODE)
    assert Node.objects.filter(name="node-c", gone_at=None).exists() is fenced


@pytest.mark.parametrize("locked", [True, False])
def test_a_device_published_while_a_class_is_made_is_of_that_class(mirrored, fake, monkeypatch, locked):
    """Two holders write: the device is joined with the classes of before, the class with the devices."""
    start = str(fake._now())
    fake.put(RESOURCE_SLICE, slice_of("node-c", [gpu(0)]))
    fake.put(DEVICE_CLASS, device_class("all"))
    race = Race(monkeypatch)
    race.hold_before(rows, "store_history")
    if not locked:
        without_lock(monkeypatch, "inventory.sync.rows.writing")

    def follow(kind):
        lease = take(mirrored.pk, kind.plural)
        events = [event for event in fake.watch(kind, resource_version=start) if event.type != "BOOKMARK"]
        apply_events(lease, kind, events, version=str(fake._now()))

    race.run(partial(follow, RESOURCE_SLICE), partial(follow, DEVICE_CLASS))
    assert race.waited is locked
    classes = Device.objects.get(pool="node-c").classes
    assert classes == (["all", DRIVER] if locked else [DRIVER])


@pytest.mark.parametrize("seed", range(5))
def test_events_in_any_order_and_number_lead_to_the_last_state(mirrored, fake, seed):
    chance = random.Random(seed)
    names = ["node-a", "node-b", "node-c", "node-d"]
    start = fake._now()
    for _ in range(40):
        name = chance.choice(names)
        if fake.get(NODE, name) and chance.random() < 0.2:
            fake.remove(NODE, name)
        else:
            fake.put(NODE, node(name, ready=chance.random() < 0.5))
    events = [event for event in fake.watch(NODE, resource_version=str(start)) if event.type != "BOOKMARK"]
    told = events + chance.choices(events, k=20)
    chance.shuffle(told)
    lease = take(mirrored.pk, "nodes")
    while told:
        count = chance.randint(1, 7)
        apply_events(lease, NODE, told[:count], version=str(fake._now()))
        del told[:count]

    there = {
        name: any(c["status"] == "True" for c in found["status"]["conditions"])
        for name in names
        if (found := fake.get(NODE, name))
    }
    assert dict(Node.objects.filter(gone_at=None).values_list("name", "ready")) == there


def connections_of_others():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        return cursor.fetchone()[0]


def test_a_watch_that_waits_holds_no_database_connection(mirrored, fake, monkeypatch):
    silent, before = Silent(fake), connections_of_others()  # of threads of other tests
    use(monkeypatch, silent)
    follower = threading.Thread(target=list_watch.run_session, args=(mirrored.pk, "nodes"))
    follower.start()
    assert silent.waiting.wait(60)
    ends = timezone.now() + timedelta(seconds=60)
    while connections_of_others() > before and timezone.now() < ends:
        pass
    held = connections_of_others()
    silent.speak.set()
    follower.join(60)
    assert held <= before
