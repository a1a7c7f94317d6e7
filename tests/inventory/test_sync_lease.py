"""Who may write the mirror of a resource: every column of the lease, for every state it can be in."""

from contextlib import suppress
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from inventory.models import Cluster, Freshness, ObjectEvent
from inventory.signals import mirror_changed
from inventory.sync.rows import Change, writing
from inventory.sync.session import Lease, LeaseLost, reserve, take

pytestmark = pytest.mark.django_db

NEAR = 4  # seconds that a loaded machine may lose between two statements


@pytest.fixture
def others(fra):
    """Rows that are not meant: of another resource, and of another cluster, with the same holder."""
    ber = Cluster.objects.create(name="ber-1", uid="ber", credentials=b"")
    return [
        Freshness.objects.create(cluster=ber, resource="nodes", holder="me"),
        Freshness.objects.create(cluster=fra, resource="pods", holder="me"),
    ]


def row_of(fra, holder, seconds):
    """The Freshness row of the nodes of fra-1, held by `holder` for so many seconds more."""
    until = None if seconds is None else timezone.now() + timedelta(seconds=seconds)
    return Freshness.objects.create(cluster=fra, resource="nodes", holder=holder, held_until=until)


def lease_now(row):
    """Return the holder and for how many seconds from now on."""
    row.refresh_from_db()
    if row.held_until is None:
        return row.holder, None
    return row.holder, pytest.approx((row.held_until - timezone.now()).total_seconds(), abs=NEAR)


def untouched(others):
    before = [(row.pk, row.holder, row.held_until) for row in others]
    return before == list(
        Freshness.objects.filter(pk__in=[row.pk for row in others])
        .order_by("pk")
        .values_list("pk", "holder", "held_until")
    )


STATES = [
    # holder, seconds left, may be taken, may be queued, may be queued by a worker that starts
    ("", None, True, True, True),
    ("somebody", None, True, True, True),
    ("somebody", 20, False, False, False),
    ("somebody", -1, True, True, True),
    ("queued", 50, True, False, True),
    ("queued", -1, True, True, True),
    ("", 20, True, False, False),
]


@pytest.mark.parametrize(("holder", "seconds", "taken", "queued", "again"), STATES)
def test_a_lease_is_taken_when_nobody_holds_it(fra, others, holder, seconds, taken, queued, again):
    row = row_of(fra, holder, seconds)
    before = (row.holder, row.held_until)
    lease = take(fra.pk, "nodes")
    row.refresh_from_db()
    if taken:
        assert lease == Lease(fra.pk, "nodes", row.holder)
        assert len(row.holder) == 32
        assert lease_now(row) == (lease.holder, 30)
    else:
        assert lease is None
        assert (row.holder, row.held_until) == before
    assert untouched(others)


@pytest.mark.parametrize(("holder", "seconds", "taken", "queued", "again"), STATES)
def test_session_is_queued_if_no_worker_holds_the_lease(fra, others, holder, seconds, taken, queued, again):
    for wanted, how in ((queued, {}), (again, {"again": True})):
        Freshness.objects.filter(cluster=fra, resource="nodes").delete()
        row = row_of(fra, holder, seconds)
        before = (row.holder, row.held_until)
        assert reserve(fra.pk, "nodes", **how) is wanted
        row.refresh_from_db()
        if wanted:
            assert lease_now(row) == ("queued", 60)
        else:
            assert (row.holder, row.held_until) == before
    assert untouched(others)


def test_lease_and_queue_create_a_missing_freshness_row(fra):
    assert take(fra.pk, "nodes")
    assert reserve(fra.pk, "pods") is True
    assert list(Freshness.objects.values_list("cluster", "resource")) == [
        (fra.pk, "nodes"),
        (fra.pk, "pods"),
    ]


def test_lease_operations_touch_only_their_own_row(fra, others):
    row, lease = row_of(fra, "me", 5), Lease(fra.pk, "nodes", "me")
    assert list(lease.rows()) == [row]
    lease.renew()
    assert lease_now(row) == ("me", 30)
    assert lease.pass_on(after=timedelta(seconds=100)) is True
    assert lease_now(row) == ("queued", 160)
    Freshness.objects.filter(pk=row.pk).update(holder="me")
    assert lease.pass_on() is True
    assert lease_now(row) == ("queued", 60)
    Freshness.objects.filter(pk=row.pk).update(holder="me")
    lease.drop()
    assert lease_now(row) == ("", None)
    assert untouched(others)


def test_lost_lease_cannot_change_that_of_the_next_holder(fra):
    row, lost = row_of(fra, "successor", 7), Lease(fra.pk, "nodes", "me")
    with pytest.raises(LeaseLost, match=f"^nodes of {fra.pk}$"):
        lost.renew()
    assert lost.pass_on(after=timedelta(minutes=5)) is False
    lost.drop()
    assert not lost.rows().exists()
    assert lease_now(row) == ("successor", 7)


def events():
    return list(ObjectEvent.objects.order_by("pk").values("kind", "name", "uid", "change", "detail"))


def test_a_transaction_of_the_mirror_counts_up_by_one_and_keeps_its_history(fra):
    Cluster.objects.update(revision=41)
    lease = take(fra.pk, "nodes")
    with writing(lease) as write:
        assert (write.cluster_id, write.revision) == (fra.pk, 42)
        write.touch("Node", "node-a")
        write.remember("Node", "node-a", Change.APPEARED, uid="u")
        write.remember("Node", "node-b", Change.CHANGED, detail={"ready": [True, False]})
    fra.refresh_from_db()
    assert fra.revision == 42
    assert events() == [
        {"kind": "Node", "name": "node-a", "uid": "u", "change": "appeared", "detail": {}},
        {
            "kind": "Node",
            "name": "node-b",
            "uid": "",
            "change": "changed",
            "detail": {"ready": [True, False]},
        },
    ]
    assert set(ObjectEvent.objects.values_list("cluster", "at")) == {(fra.pk, write.now)}
    with writing(lease):
        pass
    fra.refresh_from_db()
    assert fra.revision == 42


def test_writing_moves_no_other_cluster_and_renews_the_lease(fra, others):
    lease = take(fra.pk, "nodes")
    Freshness.objects.filter(cluster=fra, resource="nodes").update(held_until=timezone.now())
    with writing(lease) as write:
        write.touch("Node", "node-a")
    assert list(Cluster.objects.values_list("name", "revision")) == [("ber-1", 0), ("fra-1", 1)]
    assert lease_now(lease.rows().get()) == (lease.holder, 30)


def test_writing_waits_a_minute_for_the_database_where_a_page_would_not(fra):
    limits = []
    with writing(take(fra.pk, "nodes")), connection.cursor() as cursor:
        for name in ("lock_timeout", "statement_timeout"):
            cursor.execute(f"SHOW {name}")
            limits += cursor.fetchone()
    assert limits == ["1min", "1min"]


def test_nothing_is_written_with_a_lost_lease(fra):
    lost = Lease(fra.pk, "nodes", "me")
    row_of(fra, "successor", 7)
    entered = []
    with pytest.raises(LeaseLost), writing(lost):
        entered.append("inside")
    assert entered == []


@pytest.fixture
def heard():
    told = []

    def hear(sender, *, cluster_id, kind, names, **rest):
        told.append((cluster_id, kind, names))

    mirror_changed.connect(hear)
    yield told
    mirror_changed.disconnect(hear)


def test_rolled_back_transaction_sends_no_signal(fra, heard, django_capture_on_commit_callbacks):
    lease = take(fra.pk, "nodes")
    commits, rolled_back = django_capture_on_commit_callbacks(execute=True), suppress(ZeroDivisionError)
    with commits, rolled_back, writing(lease) as write:
        write.touch("Node", "node-a")
        write.remember("Node", "node-a", Change.GONE)
        raise ZeroDivisionError
    assert (heard, events()) == ([], [])
    fra.refresh_from_db()
    assert fra.revision == 0


def test_signal_is_sent_once_per_kind_after_the_commit(fra, heard, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        with writing(take(fra.pk, "nodes")) as write:
            for kind, name in (("Node", "a"), ("Node", "b"), ("Node", "a"), ("Pod", "vision/p")):
                write.touch(kind, name)
        assert heard == []
    assert heard == [
        (fra.pk, "Node", frozenset({"a", "b"})),
        (fra.pk, "Pod", frozenset({"vision/p"})),
    ]


def test_a_listener_that_fails_stops_neither_the_mirror_nor_the_next_listener(
    fra, caplog, django_capture_on_commit_callbacks
):
    told = []

    def fail(sender, **rest):
        raise ValueError("broken")

    def hear(sender, *, kind, **rest):
        told.append(kind)

    mirror_changed.connect(fail)
    mirror_changed.connect(hear)
    try:
        with django_capture_on_commit_callbacks(execute=True), writing(take(fra.pk, "nodes")) as write:
            write.touch("Node", "a")
            write.touch("Pod", "vision/p")
    finally:
        mirror_changed.disconnect(fail)
        mirror_changed.disconnect(hear)
    assert told == ["Node", "Pod"]
    logged = [record.message for record in caplog.records if record.name == "inventory.sync.rows"]
    assert [line.rpartition(" failed ")[2] for line in logged] == [
        "on a change of Node",
        "on a change of Pod",
    ]
