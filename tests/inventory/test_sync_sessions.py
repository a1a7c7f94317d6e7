"""One turn of a holder: when it lists, what it notes of success and failure, and who gets the lease next."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from cluster.protocol import NODE, POD, Event, Expired, Page, Unreachable
from inventory.models import Cluster, Freshness, Node, ObjectEvent, Pod
from inventory.sync import list_watch
from inventory.sync.list_watch import list_all
from inventory.sync.session import Halted, LeaseLost, take
from tests.inventory.conftest import node

pytestmark = pytest.mark.django_db
NEAR = 5


def state(cluster, resource="nodes"):
    """Every column of Freshness; times as seconds before now."""
    row: dict[str, Any] = dict(Freshness.objects.filter(cluster=cluster, resource=resource).values().get())
    for name in ("id", "cluster_id", "resource"):
        del row[name]
    for name in ("listed_at", "seen_at", "failed_at", "held_until"):
        if row[name] is not None:
            row[name] = pytest.approx((timezone.now() - row[name]).total_seconds(), abs=NEAR)
    return row


def verbs(fake):
    return [verb for verb, plural, _ in fake.calls if plural == "nodes"]


FAILED = {"error": "It was down.", "failures": 3, "failed_at": timezone.now() - timedelta(minutes=1)}


def test_a_turn_that_lists_notes_every_column_and_leaves_the_lease_to_the_next_message(
    fra, fake, run_session
):
    Freshness.objects.create(cluster=fra, resource="nodes", **FAILED)
    other = Freshness.objects.create(cluster=fra, resource="pods", **FAILED)
    assert run_session("nodes") == timedelta(0)
    assert state(fra) == {
        "resource_version": str(fake._now()),
        "listed_at": 0,
        "seen_at": 0,
        "failed_at": None,
        "error": "",
        "failures": 0,
        "holder": "queued",
        "held_until": -60,
    }
    kept = Freshness.objects.get(pk=other.pk)
    assert (kept.error, kept.failures, kept.seen_at) == ("It was down.", 3, None)


def test_a_turn_that_only_watches_notes_that_all_is_well_but_not_a_listing(mirrored, fake, run_session):
    rows = Freshness.objects.filter(cluster=mirrored, resource="nodes")
    ago = timezone.now() - timedelta(minutes=10)
    rows.update(**FAILED, listed_at=ago, seen_at=ago)
    fake.calls.clear()
    fake.put(POD, {"metadata": {"name": "p", "namespace": "default"}, "spec": {}})  # the version moves on
    assert run_session("nodes") == timedelta(0)
    assert verbs(fake) == ["watch"]
    assert state(mirrored) == {
        "resource_version": str(fake._now()),
        "listed_at": 600,
        "seen_at": 0,
        "failed_at": None,
        "error": "",
        "failures": 0,
        "holder": "queued",
        "held_until": -60,
    }


def test_a_failed_turn_notes_the_failure_and_nothing_else(mirrored, fake, run_session, monkeypatch):
    asked = []
    monkeypatch.setattr(
        list_watch, "backoff_delay", lambda attempt, **how: asked.append((attempt, how)) or 7.5
    )
    rows = Freshness.objects.filter(cluster=mirrored, resource="nodes")
    ago = timezone.now() - timedelta(minutes=10)
    rows.update(listed_at=ago, seen_at=ago)
    before = rows.get()
    for failures in (1, 2):
        fake.fail(Unreachable(f"Down {failures}."))
        assert run_session("nodes") == timedelta(seconds=7.5)
        assert state(mirrored) == {
            "resource_version": before.resource_version,
            "listed_at": 600,
            "seen_at": 600,
            "failed_at": 0,
            "error": f"Down {failures}.",
            "failures": failures,
            "holder": "queued",
            "held_until": -67.5,
        }
    assert asked == [(0, {"first": 2.0, "longest": 120.0}), (1, {"first": 2.0, "longest": 120.0})]
    assert set(Freshness.objects.exclude(resource="nodes").values_list("error", "failures")) == {("", 0)}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, ["watch"]),
        ({"resource_version": ""}, ["list", "watch"]),
        ({"listed_at": None}, ["list", "watch"]),
        ({"listed_at": timedelta(minutes=31)}, ["list", "watch"]),
        ({"listed_at": timedelta(minutes=29)}, ["watch"]),
        ({"seen_at": timedelta(minutes=29)}, ["watch"]),
    ],
)
def test_a_turn_lists_when_it_must_and_every_half_hour(mirrored, fake, run_session, changed, expected):
    values = {
        name: timezone.now() - value if isinstance(value, timedelta) else value
        for name, value in changed.items()
    }
    Freshness.objects.filter(cluster=mirrored, resource="nodes").update(**values)
    fake.calls.clear()
    assert run_session("nodes") == timedelta(0)
    assert verbs(fake) == expected


@pytest.mark.parametrize(
    ("silent_for", "seconds"), [(None, 1), (timedelta(seconds=70), 1), (timedelta(seconds=50), 25)]
)
def test_first_watch_after_an_outage_takes_one_second(
    mirrored, fake, run_session, monkeypatch, silent_for, seconds
):
    asked = []
    monkeypatch.setattr(list_watch, "follow", lambda *args, **how: asked.append(how["seconds"]))
    seen = timezone.now() - silent_for if silent_for else None
    Freshness.objects.filter(cluster=mirrored, resource="nodes").update(seen_at=seen)
    run_session("nodes", seconds=25)
    assert asked == [seconds]


def test_session_watches_for_the_given_time(fra, fake, run_session, monkeypatch):
    asked = []
    monkeypatch.setattr(list_watch, "follow", lambda *args, **how: asked.append(how))
    run_session("nodes", seconds=25)
    assert asked == [{"version": str(fake._now()), "seconds": 25}]


@pytest.mark.parametrize("why", ["disabled", "unknown kind", "taken"])
def test_session_without_a_lease_sends_no_request(mirrored, fake, run_session, why):
    plural = "nodes"
    if why == "disabled":
        Cluster.objects.update(enabled=False)
    elif why == "unknown kind":
        plural = "widgets"
    else:
        take(mirrored.pk, "nodes")
    fake.calls.clear()
    before = list(Freshness.objects.order_by("pk").values())
    assert run_session(plural) is None
    assert fake.calls == []
    assert list(Freshness.objects.order_by("pk").values()) == before


def test_a_halt_gives_the_lease_back_and_is_no_failure(mirrored, fake, run_session):
    fake._objects["namespaces", "", "kube-system"]["metadata"]["uid"] = "another"
    fake.calls.clear()
    assert run_session("nodes") is None
    assert verbs(fake) == []
    row = Freshness.objects.get(cluster=mirrored, resource="nodes")
    assert (row.holder, row.held_until, row.error, row.failures) == ("", None, "", 0)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_failing_session_returns_the_lease_and_raises(mirrored, run_session, monkeypatch, error):
    def break_down(*args, **how):
        raise error

    monkeypatch.setattr(list_watch, "follow", break_down)
    with pytest.raises(error):
        run_session("nodes")
    row = Freshness.objects.get(cluster=mirrored, resource="nodes")
    assert (row.holder, row.held_until, row.error) == ("", None, "")


@pytest.mark.parametrize("when", ["while it follows", "at the end"])
def test_a_turn_whose_lease_was_taken_leaves_it_to_the_successor(mirrored, run_session, monkeypatch, when):
    def lose(*args, **how):
        Freshness.objects.filter(resource="nodes").update(holder="successor")
        if when == "while it follows":
            raise LeaseLost

    monkeypatch.setattr(list_watch, "follow", lose)
    assert run_session("nodes") is None
    assert Freshness.objects.get(resource="nodes").holder == "successor"


@pytest.mark.parametrize("ended", ["well", "halted", "broken", "failed"])
def test_every_session_returns_its_database_connection(mirrored, fake, run_session, monkeypatch, ended):
    given: list[str] = []
    errors: dict[str, Any] = {"halted": Halted, "broken": ValueError, "failed": Unreachable("Down.")}

    def follow(*args, **how):
        given.clear()
        if ended in errors:
            raise errors[ended]

    monkeypatch.setattr(list_watch, "follow", follow)
    monkeypatch.setattr(list_watch, "release_connection", lambda: given.append("released"))
    if ended == "broken":
        with pytest.raises(ValueError):  # noqa: PT011
            run_session("nodes")
    else:
        run_session("nodes")
    assert given == ["released"]


def test_a_listing_that_expires_is_tried_three_times(mirrored, fake, monkeypatch):
    lease = take(mirrored.pk, "nodes")
    pages, tries = fake.list, []

    def expire_first(times):
        def list_(kind):
            tries.append(kind)
            if len(tries) <= times:
                raise Expired
            return pages(kind)

        return list_

    monkeypatch.setattr(fake, "list", expire_first(2))
    assert list_all(lease, fake, NODE) == str(fake._now())
    assert len(tries) == 3
    tries.clear()
    monkeypatch.setattr(fake, "list", expire_first(3))
    with pytest.raises(Expired):
        list_all(lease, fake, NODE)
    assert len(tries) == 3


def test_a_listing_goes_on_from_the_version_of_its_last_page_that_names_one(mirrored, fake, monkeypatch):
    lease = take(mirrored.pk, "nodes")
    [page] = list(fake.list(NODE))
    pages = [Page(page.items[:1], "700", 1), Page(page.items[1:], "701", None), Page([], "", None)]
    monkeypatch.setattr(fake, "list", lambda kind: iter(pages))
    assert list_all(lease, fake, NODE) == "701"
    assert Freshness.objects.get(resource="nodes").resource_version == "701"
    assert Node.objects.filter(gone_at=None).count() == 2


def test_objects_on_no_page_of_the_listing_are_closed(mirrored, fake, monkeypatch):
    for name in ("node-c", "node-d"):
        fake.put(NODE, node(name))
    lease = take(mirrored.pk, "nodes")
    list_all(lease, fake, NODE)
    [page] = list(fake.list(NODE))
    by_name = {item["metadata"]["name"]: item for item in page.items}
    pages = [Page([by_name[name]], "700", None) for name in ("node-a", "node-c")]
    monkeypatch.setattr(fake, "list", lambda kind: iter(pages))
    list_all(lease, fake, NODE)
    assert list(Node.objects.filter(gone_at=None).values_list("name", flat=True)) == ["node-a", "node-c"]
    gone = ObjectEvent.objects.filter(kind="Node", change="gone").values_list("name", flat=True)
    assert sorted(gone) == ["node-b", "node-d"]


def test_a_pod_that_uses_claims_no_longer_is_closed_by_the_next_listing(mirrored, fake):
    uses = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]}
    for spec, gone in ((uses, False), ({}, True)):
        fake.put(POD, {"metadata": {"name": "p", "namespace": "default"}, "spec": spec, "status": {}})
        lease = take(mirrored.pk, "pods")
        list_all(lease, fake, POD)
        lease.drop()
        assert (Pod.objects.get().gone_at is not None) is gone


class Clock:
    """The monotonic clock of `follow`, set by the test."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr(list_watch.time, "monotonic", lambda: self.now)


def bookmark(version):
    return Event("BOOKMARK", {"metadata": {}}, version)


def test_a_watch_renews_its_lease_every_15_seconds_and_notes_bookmarks_every_5(mirrored, fake, monkeypatch):
    lease = take(mirrored.pk, "nodes")
    clock, noted, renewed = Clock(monkeypatch), [], []
    made = fake.put(NODE, node("node-c"))
    script = [
        (4.0, [bookmark("801")]),  # too soon to be noted
        (5.0, [bookmark("802")]),
        (9.0, [bookmark("803")]),
        (14.9, []),
        (15.0, []),  # renewed
        (16.0, [Event("ADDED", made, "804")]),  # written, which renews
        (20.0, [bookmark("805")]),  # four seconds after that
        (30.0, []),
        (31.0, []),  # renewed
        (50.0, []),  # renewed, and nothing to note
    ]

    def batches(gateway, kind, *, version, seconds):
        assert (gateway, kind, version, seconds) == (fake, NODE, "800", 25)
        for at, batch in script:
            clock.now = 1000.0 + at
            yield batch

    monkeypatch.setattr(list_watch, "batches", batches)
    monkeypatch.setattr(list_watch, "note_seen", lambda lease, version: noted.append((clock.now, version)))
    monkeypatch.setattr(type(lease), "renew", lambda self: renewed.append(clock.now))
    assert list_watch.follow(lease, fake, NODE, version="800", seconds=25) == "805"
    assert noted == [(1005.0, "802"), (1016.0, "804"), (1050.0, "805")]
    assert renewed == [1015.0, 1016.0, 1031.0, 1050.0]
    assert Node.objects.filter(name="node-c").exists()


def test_a_watch_never_goes_back_behind_the_version_it_started_from(mirrored, fake, monkeypatch):
    lease = take(mirrored.pk, "nodes")
    monkeypatch.setattr(list_watch, "batches", lambda *args, **how: iter([[bookmark("7")], [bookmark("")]]))
    assert list_watch.follow(lease, fake, NODE, version="800", seconds=1) == "800"
    assert Freshness.objects.get(resource="nodes").resource_version == "800"


def test_a_burst_of_events_on_one_object_writes_its_last_state_and_one_line(mirrored, fake):
    lease = take(mirrored.pk, "nodes")
    events = []
    for ready in (False, True, False):
        stored = fake.put(NODE, node("node-a", ready=ready))
        events.append(Event("MODIFIED", stored, stored["metadata"]["resourceVersion"]))
    list_watch.apply_events(lease, NODE, events, version="900")
    assert Node.objects.get(name="node-a").ready is False
    assert ObjectEvent.objects.filter(name="node-a").count() == 1
    assert Freshness.objects.get(resource="nodes").resource_version == "900"


def test_events_without_a_version_of_their_own_are_dated_by_the_object(mirrored, fake):
    lease = take(mirrored.pk, "nodes")
    first, second = (fake.put(NODE, node("node-a", ready=ready)) for ready in (True, False))
    events = [Event("MODIFIED", second, ""), Event("MODIFIED", first, "")]
    list_watch.apply_events(lease, NODE, events, version="900")
    assert Node.objects.get(name="node-a").ready is False
    list_watch.apply_events(lease, NODE, [Event("DELETED", second, "")], version="901")
    assert Node.objects.get(name="node-a").resource_version == second["metadata"]["resourceVersion"]


def test_a_connection_outside_of_a_transaction_is_given_back(monkeypatch):
    closed = []

    class Connection:
        in_atomic_block = True

        def close(self):
            closed.append("closed")

    fake = Connection()
    monkeypatch.setattr(list_watch, "connection", fake)
    list_watch.release_connection()
    assert closed == []
    fake.in_atomic_block = False
    list_watch.release_connection()
    assert closed == ["closed"]
