"""Many rows at once arrive as they were given, and cost as many statements as few."""

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from cluster.protocol import DEVICE_CLASS, DEVICE_TAINT_RULE_VERSIONS, NODE, RESOURCE_CLAIM, RESOURCE_SLICE
from inventory.models import Cluster, Device, DeviceClass, Namespace, ResourceClaim
from inventory.sync import derive as sync_derive
from inventory.sync import list_watch, rows
from inventory.sync.list_watch import sync_once
from inventory.sync.pools import class_book
from inventory.sync.rows import insert_rows, number_rows, update_rows
from inventory.sync.session import take
from tests.fakes import FakeGateway
from tests.inventory.conftest import device_class, gpu, node, resource_claim, slice_of

pytestmark = pytest.mark.django_db

AWKWARD = ["it's", 'say "so"', "50 %s", "back\\slash", "Ω – 雪", "line\nbreak", "{}", "null", ""]


def row(cluster, uid, name, **more):
    return {
        "cluster_id": cluster.pk,
        "uid": uid,
        "name": name,
        "labels": {"note": name},
        "raw": {"text": [name, None, 1.5, 10**18]},
        "resource_version": "1",
        "created_at": None,
        "seen_at": timezone.now(),
        "gone_at": None,
        "revision": 1,
        **more,
    }


def is_stored(given):
    """Return whether each row is in the database as it was given."""
    stored = {row.uid: row for row in Namespace.objects.all()}
    return all({name: getattr(stored[row["uid"]], name) for name in row} == row for row in given) and len(
        stored
    ) == len(given)


def test_bulk_insert_keeps_every_value(fra):
    given = [row(fra, f"uid-{number}", text) for number, text in enumerate(AWKWARD)]
    number_rows(Namespace, given)
    insert_rows(Namespace, given)
    assert is_stored(given)


def test_bulk_update_keeps_every_value(fra):
    before = [row(fra, f"uid-{number}", "before") for number in range(len(AWKWARD))]
    number_rows(Namespace, before)
    insert_rows(Namespace, before)
    after = [was | row(fra, was["uid"], text) for was, text in zip(before, AWKWARD, strict=True)]
    update_rows(Namespace, after)
    assert is_stored(after)


def test_update_changes_only_the_given_columns_of_the_given_rows(fra):
    rows_before = [row(fra, "a", "old", revision=1), row(fra, "b", "other", revision=1)]
    number_rows(Namespace, rows_before)
    insert_rows(Namespace, rows_before)
    update_rows(Namespace, [{"id": rows_before[0]["id"], "name": "new"}])
    assert set(Namespace.objects.values_list("uid", "name", "revision")) == {
        ("a", "new", 1),
        ("b", "other", 1),
    }


def test_row_that_exists_is_not_inserted_again(fra):
    insert_rows(Namespace, [row(fra, "a", "old")])
    with pytest.raises(IntegrityError), transaction.atomic():
        insert_rows(Namespace, [row(fra, "a", "new")])


def test_no_rows_are_no_statement(fra, django_assert_num_queries):
    with django_assert_num_queries(0):
        insert_rows(Namespace, [])
        number_rows(Namespace, [])
        update_rows(Namespace, [])


def test_rows_beyond_one_statement_are_all_written(fra, monkeypatch):
    monkeypatch.setattr(rows, "AT_ONCE", 3)
    given = [row(fra, f"uid-{number}", "old") for number in range(8)]
    number_rows(Namespace, given)
    insert_rows(Namespace, given)
    update_rows(Namespace, [{"id": new["id"], "name": new["uid"]} for new in given])
    assert dict(Namespace.objects.values_list("name", "id")) == {new["uid"]: new["id"] for new in given}


def statements(nodes):
    """Return how many statements the first listing of so many nodes with a GPU and a claim each takes."""
    gateway = FakeGateway(name=f"of-{nodes}")
    for number in range(nodes):
        gateway.put(NODE, node(f"n{number}"))
        gateway.put(RESOURCE_SLICE, slice_of(f"n{number}", [gpu(0)]))
        gateway.put(RESOURCE_CLAIM, resource_claim(f"c{number}", "gpu-0", pool=f"n{number}"))
    gateway.put(DEVICE_CLASS, device_class())
    cluster = Cluster.objects.create(name=f"of-{nodes}", uid=gateway.uid, credentials=b"")
    with CaptureQueriesContext(connection) as queries:
        sync_once(cluster, gateway)
    held = Device.objects.filter(cluster=cluster, node__isnull=False, held_by__isnull=False)
    assert held.count() == nodes == ResourceClaim.objects.filter(cluster=cluster).count()
    return len(queries)


def test_first_listing_uses_as_many_statements_for_many_objects():
    assert statements(40) == statements(1)


def test_unchanged_classes_keep_cached_shapes(mirrored, fake, run_session):
    before = class_book(DeviceClass.objects.all())
    assert class_book(DeviceClass.objects.all()) is before
    fake.put(DEVICE_CLASS, device_class(kind="mig"))
    run_session("deviceclasses")
    assert class_book(DeviceClass.objects.all()) is not before
    assert set(Device.objects.values_list("classes__0", flat=True)) == {None}


def test_devices_are_joined_with_taint_rules_only_if_there_is_one(mirrored, fake, monkeypatch):
    joined = []
    join_all = sync_derive.join_all
    monkeypatch.setattr(
        list_watch, "join_all", lambda lease, **how: joined.append(lease.resource) or join_all(lease, **how)
    )
    rules = DEVICE_TAINT_RULE_VERSIONS[0]
    lease = take(mirrored.pk, rules.plural)
    list_watch.list_all(lease, fake, rules)
    assert joined == []
    taint = {"key": "maintenance", "effect": "NoSchedule"}
    fake.put(
        rules,
        {"metadata": {"name": "window"}, "spec": {"deviceSelector": {"pool": "node-b"}, "taint": taint}},
    )
    list_watch.list_all(lease, fake, rules)
    assert set(Device.objects.filter(condition="tainted").values_list("pool", flat=True)) == {"node-b"}
    fake.remove(rules, "window")
    list_watch.list_all(lease, fake, rules)
    assert not Device.objects.filter(condition="tainted").exists()
    assert joined == [rules.plural] * 2


def test_update_tells_in_which_rows_a_part_changed(fra):
    before = [row(fra, f"uid-{number}", "same", raw={"spec": {"size": number}}) for number in range(3)]
    number_rows(Namespace, before)
    insert_rows(Namespace, before)
    after = [was | {"revision": 2, "raw": {"spec": {"size": 1}, "status": "new"}} for was in before]
    assert update_rows(Namespace, after, part="raw -> 'spec'") == {before[0]["id"], before[2]["id"]}
    assert is_stored(after)


def updates():
    """Return how many updates of devices changed no index, and how many there were, in this transaction."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT n_tup_hot_upd, n_tup_upd FROM pg_stat_xact_user_tables WHERE relname = 'inventory_device'"
        )
        return cursor.fetchone()


def test_changed_devices_of_a_slice_stay_on_their_page():
    gateway = FakeGateway(name="fra")
    devices = [gpu(index) for index in range(16)]
    for device in devices:
        device["attributes"]["text"] = {"string": "x" * 700}
    gateway.put(RESOURCE_SLICE, slice_of("n0", devices))
    cluster = Cluster.objects.create(name="fra", uid=gateway.uid, credentials=b"")
    sync_once(cluster, gateway)
    before = updates()
    pks = Device.objects.filter(cluster=cluster).values_list("pk", flat=True)
    update_rows(Device, [{"id": str(pk), "attributes": {"text": {"string": "y" * 700}}} for pk in pks])
    assert [now - then for now, then in zip(updates(), before, strict=True)] == [16, 16]
