"""The mirror follows the cluster, whatever is lost, doubled or out of order on the way."""

from datetime import timedelta

import pytest
import time_machine
from django.db.models import F
from django.utils import timezone

from cluster.protocol import NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE, Event, Unreachable
from inventory.models import Device, Freshness, Node, ObjectEvent, Pod, ResourceClaim, ResourceSlice
from inventory.signals import mirror_changed
from inventory.sync.list_watch import apply_events, list_all
from inventory.sync.rows import writing
from inventory.sync.session import HELD_FOR, LeaseLost, mirrored_kinds, reserve, take
from tests.inventory.conftest import gpu, node, resource_claim, slice_of

pytestmark = pytest.mark.django_db


def fresh(cluster, resource):
    return Freshness.objects.get(cluster=cluster, resource=resource)


def test_first_session_lists_and_later_ones_watch(fra, fake, run_session):
    assert run_session("nodes") == timedelta(0)
    fake.put(NODE, node("node-c"))
    assert run_session("nodes") == timedelta(0)

    assert set(Node.objects.values_list("name", flat=True)) == {"node-a", "node-b", "node-c"}
    assert [call[0] for call in fake.calls if call[1] == "nodes"] == ["list", "watch", "watch"]
    assert fresh(fra, "nodes").error == ""


def test_a_large_listing_comes_in_chunks(fra, fake, run_session):
    for index in range(1200):
        fake.put(RESOURCE_CLAIM, resource_claim(f"claim-{index}"))
    run_session("resourceclaims")
    assert ResourceClaim.objects.filter(cluster=fra, gone_at=None, state="pending").count() == 1200


def test_holder_killed_between_list_and_watch_is_followed_by_a_listing(fra, fake, run_session, monkeypatch):
    def die(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("inventory.sync.list_watch.note_listed", die)
        with pytest.raises(KeyboardInterrupt):
            run_session("nodes")
    assert Node.objects.count() == 2
    assert not fresh(fra, "nodes").listed_at

    fake.remove(NODE, "node-a")
    run_session("nodes")
    assert list(Node.objects.filter(gone_at=None).values_list("name", flat=True)) == ["node-b"]


def test_expired_version_leads_to_a_new_listing_without_an_error(mirrored, fake, run_session):
    fake.put(NODE, node("node-c"))
    fake.compact()
    assert run_session("nodes") == timedelta(0)
    assert fresh(mirrored, "nodes").resource_version == ""
    assert fresh(mirrored, "nodes").error == ""

    run_session("nodes")
    assert Node.objects.filter(name="node-c", gone_at=None).exists()


def test_object_deleted_during_an_outage_is_closed_by_the_listing(mirrored, fake, run_session):
    fake.remove(NODE, "node-b")
    fake.remove(RESOURCE_SLICE, "node-b-slice")
    fake.compact()
    for resource in ("nodes", "resourceslices"):
        run_session(resource)
        run_session(resource)

    assert Node.objects.get(name="node-b").gone_at
    assert Device.objects.get(pool="node-b").gone_at
    gone = ObjectEvent.objects.filter(change="gone").values_list("kind", "name")
    assert set(gone) == {("Node", "node-b"), ("Device", "gpu.nvidia.com/node-b/gpu-0")}


def test_repeated_and_late_events_change_nothing(mirrored, fake):
    lease = take(mirrored.pk, "nodes")
    old = fake.get(NODE, "node-a")
    new = fake.put(NODE, node("node-a", ready=False))
    later = new["metadata"]["resourceVersion"]
    earlier = old["metadata"]["resourceVersion"]

    apply_events(lease, NODE, [Event("MODIFIED", new, later)], version=later)
    apply_events(lease, NODE, [Event("MODIFIED", new, later)], version=later)
    apply_events(lease, NODE, [Event("MODIFIED", old, earlier)], version=later)

    assert Node.objects.get(name="node-a").ready is False
    assert ObjectEvent.objects.filter(kind="Node", name="node-a", change="changed").count() == 1


def test_versions_are_compared_as_numbers_not_as_text(mirrored, fake):
    lease = take(mirrored.pk, "nodes")
    seen = fake.get(NODE, "node-a")
    seen["metadata"]["resourceVersion"] = "1000"
    apply_events(lease, NODE, [Event("MODIFIED", seen, "1000")], version="1000")
    late = node("node-a", ready=False)
    late["metadata"] |= {"uid": seen["metadata"]["uid"], "resourceVersion": "999"}
    apply_events(lease, NODE, [Event("MODIFIED", late, "999")], version="1000")
    assert Node.objects.get(name="node-a").ready is True


def test_a_change_that_arrives_after_the_deletion_does_not_bring_the_object_back(mirrored, fake):
    lease = take(mirrored.pk, "nodes")
    old = fake.get(NODE, "node-a")
    fake.remove(NODE, "node-a")
    deletion = Event("DELETED", old, "5000")
    stale = Event("MODIFIED", old, "4999")

    apply_events(lease, NODE, [deletion, stale], version="5000")
    apply_events(lease, NODE, [stale], version="5000")

    assert Node.objects.get(name="node-a").gone_at


def test_repeated_deletion_keeps_the_first_time(mirrored, fake):
    """Of an object that was never seen, too: it is gone since the first time."""
    lease = take(mirrored.pk, "nodes")
    unseen = node("node-x")
    unseen["metadata"] |= {"uid": "never-seen", "resourceVersion": "5000"}
    for manifest, version in ((fake.get(NODE, "node-a"), "5000"), (unseen, "5001")):
        with time_machine.travel(timezone.now(), tick=False) as clock:
            deletion = Event("DELETED", manifest, version)
            apply_events(lease, NODE, [deletion], version=version)
            gone = Node.objects.get(name=manifest["metadata"]["name"]).gone_at
            clock.shift(timedelta(minutes=5))
            lease.renew()
            apply_events(lease, NODE, [deletion], version=version)
        assert gone is not None
        assert Node.objects.get(name=manifest["metadata"]["name"]).gone_at == gone


def test_listing_reopens_a_row_closed_by_mistake(mirrored, fake):
    """The object has not changed in the cluster: its version is the one that was mirrored."""
    Node.objects.filter(name="node-a").update(gone_at=timezone.now())
    version = Node.objects.get(name="node-a").resource_version
    assert fake.get(NODE, "node-a")["metadata"]["resourceVersion"] == version
    list_all(take(mirrored.pk, "nodes"), fake, NODE)
    assert Node.objects.get(name="node-a").gone_at is None
    assert ObjectEvent.objects.filter(kind="Node", name="node-a", change="appeared").exists()


def test_object_created_again_under_its_name_is_a_new_row(mirrored, fake, run_session):
    fake.remove(NODE, "node-a")
    fake.put(NODE, node("node-a"))
    run_session("nodes")
    rows = Node.objects.filter(name="node-a")
    assert rows.count() == 2
    assert Device.objects.filter(pool="node-a", node=rows.get(gone_at=None)).count() == 2


def test_restored_cluster_with_older_versions_is_mirrored(mirrored, fake):
    Node.objects.filter(name="node-a").update(resource_version="999999", ready=False)
    lease = take(mirrored.pk, "nodes")
    list_all(lease, fake, NODE)
    assert Node.objects.get(name="node-a").ready is True


def test_an_unreachable_cluster_is_stale_and_never_empty(mirrored, fake, run_session):
    before = fresh(mirrored, "nodes").seen_at
    fake.fail(Unreachable("fra-1 does not answer."), times=1)
    pause = run_session("nodes")

    assert pause > timedelta(seconds=1)
    after = fresh(mirrored, "nodes")
    assert (after.error, after.seen_at, after.failures) == ("fra-1 does not answer.", before, 1)
    assert Node.objects.filter(gone_at=None).count() == 2


def test_pause_grows_with_failures_and_resets_after_a_success(mirrored, fake, run_session):
    fake.fail(Unreachable("fra-1 does not answer."), times=5)
    pauses = [run_session("nodes") for _ in range(5)]
    assert pauses[4] > 4 * pauses[0]
    assert run_session("nodes") == timedelta(0)
    assert fresh(mirrored, "nodes").failures == 0


def test_forbidden_optional_resource_does_not_stop_the_others(fra, fake, run_session):
    fake.denied |= {("list", "nodes"), ("watch", "nodes")}
    for resource in ("nodes", "resourceslices"):
        run_session(resource)
    assert fresh(fra, "nodes").error == "The credentials may not list nodes."
    assert Device.objects.filter(gone_at=None, node=None).count() == 3


def test_credentials_of_another_cluster_halt_the_sync(mirrored, fake, run_session):
    fake.uid = "another-cluster"
    stranger = fake._objects["namespaces", "", "kube-system"]
    stranger["metadata"]["uid"] = "another-cluster"
    fake.remove(NODE, "node-a")

    assert run_session("nodes") is None
    mirrored.refresh_from_db()
    assert "another-cluster" in mirrored.halt_reason
    assert mirrored.uid in mirrored.halt_reason
    assert Node.objects.filter(gone_at=None).count() == 2


def test_cluster_replaced_during_a_listing_closes_no_rows(mirrored, fake):
    lease = take(mirrored.pk, "nodes")
    fake.remove(NODE, "node-a")
    fake._objects["namespaces", "", "kube-system"]["metadata"]["uid"] = "another-cluster"
    with pytest.raises(Exception, match="another cluster"):
        list_all(lease, fake, NODE)
    assert Node.objects.filter(gone_at=None).count() == 2


def test_only_one_worker_gets_the_lease_until_it_expires(fra):
    first = take(fra.pk, "nodes")
    assert first
    assert take(fra.pk, "nodes") is None
    assert reserve(fra.pk, "nodes") is False

    Freshness.objects.update(held_until=timezone.now() - timedelta(seconds=1))
    second = take(fra.pk, "nodes")
    assert second
    with pytest.raises(LeaseLost), writing(first):
        pass
    second.renew()
    assert fresh(fra, "nodes").held_until > timezone.now() + HELD_FOR / 2


def test_queued_session_is_not_queued_twice(fra):
    assert reserve(fra.pk, "nodes") is True
    assert reserve(fra.pk, "nodes") is False
    assert take(fra.pk, "nodes")


def test_session_waiting_after_a_failure_is_not_queued_twice(fra):
    lease = take(fra.pk, "nodes")
    assert lease
    assert lease.pass_on(after=timedelta(minutes=2))
    Freshness.objects.update(held_until=F("held_until") - timedelta(minutes=2))  # so much later it is now
    assert reserve(fra.pk, "nodes") is False


def test_only_pods_with_claims_are_mirrored_without_secrets(fra, fake, run_session):
    env = [{"name": "PASSWORD", "value": "hunter2"}]
    container = {"name": "main", "image": "app:1", "env": env, "resources": {"claims": [{"name": "gpu"}]}}
    uses = {"containers": [container], "resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]}
    fake.put(POD, {"metadata": {"name": "train", "namespace": "default"}, "spec": uses})
    fake.put(POD, {"metadata": {"name": "web", "namespace": "default"}, "spec": {"containers": [container]}})
    run_session("pods")

    pod = Pod.objects.get()
    assert (pod.name, pod.claims) == ("train", ["mine"])
    assert "hunter2" not in str(pod.raw)
    assert pod.raw["spec"]["containers"][0]["resources"] == {"claims": [{"name": "gpu"}]}


def test_listeners_hear_of_changes_after_commit_by_kind_and_name(
    mirrored, fake, run_session, django_capture_on_commit_callbacks
):
    heard = []

    def listen(sender, *, cluster_id, kind, names, **rest):
        heard.append((cluster_id, kind, names))

    mirror_changed.connect(listen)
    try:
        fake.put(RESOURCE_CLAIM, resource_claim("mine", "gpu-0"))
        with django_capture_on_commit_callbacks(execute=True):
            run_session("resourceclaims")
    finally:
        mirror_changed.disconnect(listen)
    assert (mirrored.pk, "ResourceClaim", frozenset({"default/mine"})) in heard
    assert (mirrored.pk, "Device", frozenset({"gpu.nvidia.com/node-a/gpu-0"})) in heard


def test_revision_grows_only_with_the_mirror(mirrored, fake, run_session):
    before = mirrored.revision
    run_session("nodes")
    mirrored.refresh_from_db()
    assert mirrored.revision == before
    fake.put(NODE, node("node-a", ready=False))
    run_session("nodes")
    mirrored.refresh_from_db()
    assert mirrored.revision > before


def test_a_slice_may_be_listed_before_its_node(fra, fake, run_session):
    run_session("resourceslices")
    assert Device.objects.filter(node=None).count() == 3
    run_session("nodes")
    assert Device.objects.filter(node=None).count() == 0


def test_gpu_added_to_a_pool_appears_in_the_history(mirrored, fake, run_session):
    fake.put(RESOURCE_SLICE, slice_of("node-b", [gpu(0), gpu(1)], generation=2))
    run_session("resourceslices")
    assert Device.objects.filter(pool="node-b", gone_at=None).count() == 2
    event = ObjectEvent.objects.get(kind="Device")
    assert (event.name, event.change) == ("gpu.nvidia.com/node-b/gpu-1", "appeared")
    assert ResourceSlice.objects.get(name="node-b-slice", gone_at=None).generation == 2


def test_taint_rules_are_listed_before_slices_so_that_devices_are_joined_once(fra):
    fra.discovery = {"taint_rules": "v1"}
    plurals = [kind.plural for kind in mirrored_kinds(fra)]
    assert plurals.index("devicetaintrules") < plurals.index("resourceslices")
    assert len(plurals) == len(set(plurals)) == 8
