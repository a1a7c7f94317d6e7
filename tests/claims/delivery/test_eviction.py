"""What happens to pods at the end of their claim: who is told, which pods are evicted, and when."""

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.urls import reverse

from claims.delivery import deliver, eviction, tasks
from claims.delivery.eviction import claims_to_evict
from claims.lifecycle.expiry import report_overstays
from claims.lifecycle.services import evict, release
from claims.models import Claim, ProfileVersion
from claims.observation.observations import observe
from claims.states import ClaimState
from claims.tasks import expire
from cluster.protocol import POD, RESOURCE_CLAIM, Refused, Unreachable
from core.errors import Conflict, Forbidden
from inventory.clusters import change_cluster
from inventory.models import Cluster, Pod
from notify.models import Notice
from tests.claims.mirror import Mirror, result
from tests.factories import make_claim, make_user

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


@pytest.fixture
def clock():
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


@pytest.fixture
def mirror(clock, fra, gateway):
    return Mirror(fra)


@pytest.fixture
def held(mirror, vision, fra, train, alice, gateway):
    """Return a function that makes a claim of alice with a pod that holds its device."""

    def hold(name="sam", pod="train-0", state=ClaimState.ALLOCATED, **fields):
        claim = make_claim(
            vision, by=alice, cluster=fra, profile=train, name=name, namespace="vision", state=state,
            object_uid=f"uid-{name}", expires_at=NOON + DAY, **fields,
        )  # fmt: skip
        attach(claim, pod)
        return claim

    def attach(claim, *pods):
        reserved = [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"} for pod in pods]
        metadata = {"name": claim.name, "namespace": "vision", "uid": f"uid-{claim.name}"}
        metadata |= {"labels": {"gpu.dragoman.dev/claim": str(claim.pk)}, "finalizers": ["keep"]}
        gateway.put(RESOURCE_CLAIM, {"metadata": metadata, "spec": claim.spec})
        row = mirror.claim(claim.name, claim, result(f"gpu-{claim.name}"), uid=f"uid-{claim.name}")
        row.raw["status"]["reservedFor"] = reserved
        row.save(update_fields=["raw"])
        for pod in pods:
            start(pod, claims=[claim.name])

    def start(pod, *, claims=(), uid=""):
        metadata = {"name": pod, "namespace": "vision", "uid": uid or f"uid-{pod}", "finalizers": ["keep"]}
        gateway.put(POD, {"metadata": metadata, "status": {"phase": "Running"}})
        mirror.pod(pod, claims=claims, node_name="node-1", raw={"metadata": metadata})

    hold.attach, hold.start = attach, start
    return hold


def policy(value):
    Cluster.objects.update(end_policy=value)


def evicted(gateway):
    return [name for verb, plural, name in gateway.calls if (verb, plural) == ("create", "pods/eviction")]


def keys(person, prefix=""):
    return sorted(Notice.objects.filter(user=person, key__startswith=prefix).values_list("key", flat=True))


@pytest.mark.parametrize(
    ("cluster", "profile", "effective"),
    [
        ("run", "cluster", "run"),
        ("ask", "cluster", "ask"),
        ("evict", "cluster", "evict"),
        ("evict", "run", "run"),
        ("run", "evict", "evict"),
        ("ask", "evict", "evict"),
    ],
)
def test_profile_overrides_the_end_policy_of_the_cluster(held, cluster, profile, effective):
    policy(cluster)
    ProfileVersion.objects.update(end_policy=profile)
    claim = Claim.objects.get(pk=held().pk)
    assert claim.end_policy == effective


def test_pods_run_on_under_the_default_policy_however_long(held, clock, alice, gateway):
    claim = held()
    release(claim=claim, by=alice)
    for _ in range(3):
        clock.shift(DAY)
        tasks.sweep()
    claim.refresh_from_db()
    assert (claim.state, claim.evict_at, evicted(gateway)) == (ClaimState.RELEASING, None, [])


@pytest.mark.parametrize("ends", ["release", "expire", "sweep"])
def test_eviction_is_announced_once_and_follows_after_the_notice(held, clock, alice, lena, gateway, ends):
    claim = held()
    if ends == "release":
        policy("evict")
        release(claim=claim, by=alice)
    elif ends == "expire":
        policy("evict")
        clock.move_to(NOON + DAY)
        Claim.objects.filter(pk=claim.pk).update(decided_at=NOON)
        expire()
    else:  # ended before the policy was set, or while the mirror did not know the pod yet
        release(claim=claim, by=alice)
        policy("evict")
    tasks.sweep()
    tasks.sweep()
    claim.refresh_from_db()
    announced = datetime.now(UTC) + 10 * MINUTE
    assert (claim.state, claim.evict_at) == (ClaimState.RELEASING, announced)
    assert keys(alice, "ev") == keys(lena, "ev") == [f"evict:{claim.pk}"]
    assert not keys(alice, "ended:")
    assert (
        "The portal evicts the pod train-0 then" in Notice.objects.get(user=alice, key__startswith="ev").body
    )
    clock.move_to(announced - MINUTE)
    tasks.sweep()
    assert evicted(gateway) == []
    clock.move_to(announced)
    tasks.sweep()
    assert evicted(gateway) == ["train-0"]
    assert gateway.get(POD, "train-0", namespace="vision")["metadata"]["deletionTimestamp"]
    assert keys(alice, "disrupted:") == [f"disrupted:{claim.pk}:uid-train-0"]
    assert "so its pods are evicted" in Notice.objects.get(user=alice, key__contains="disr").body


@pytest.fixture
def due(held, clock, alice):
    """A claim whose pod is due to be evicted."""
    policy("evict")
    claim = held()
    release(claim=claim, by=alice)
    clock.shift(11 * MINUTE)
    claim.refresh_from_db()
    return claim


def test_evicting_twice_evicts_once(due, gateway, alice):
    for _ in range(3):
        tasks.evict(str(due.pk))
    tasks.sweep()
    assert evicted(gateway) == ["train-0"]
    assert len(keys(alice, "disrupted:")) == 1


def test_lost_message_is_repaired_by_the_sweep(due, gateway, monkeypatch):
    monkeypatch.setattr(tasks, "queue_once", lambda *_: None)
    tasks.sweep()
    assert evicted(gateway) == []
    monkeypatch.undo()
    monkeypatch.setattr("claims.delivery.deliver.gateway_for", connected(gateway))
    tasks.sweep()
    assert evicted(gateway) == ["train-0"]


def connected(gateway):
    @contextmanager
    def connect(cluster):
        yield gateway

    return connect


def test_pod_of_another_claim_on_the_same_node_is_left_alone(due, held, gateway):
    held("other", "infer-0")
    held.start("stranger", claims=["sam"])  # names the claim, and holds nothing of it
    for _ in range(2):
        tasks.sweep()
    assert evicted(gateway) == ["train-0"]


def test_pod_that_replaced_one_under_its_name_is_left_alone(due, gateway):
    gateway.remove(POD, "train-0", namespace="vision")
    gateway.put(POD, {"metadata": {"name": "train-0", "namespace": "vision", "uid": "new"}})
    tasks.evict(str(due.pk))
    assert evicted(gateway) == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pod_that_has_ended_is_not_evicted_with_its_log(due, gateway, phase):
    pod = gateway.get(POD, "train-0", namespace="vision")
    gateway.put(POD, pod | {"status": {"phase": phase}})
    tasks.evict(str(due.pk))
    assert evicted(gateway) == []


def test_refusing_disruption_budget_is_shown_told_once_and_tried_again(due, gateway, alice, lena):
    gateway.protected.add("train-0")
    for _ in range(3):
        tasks.sweep()
    due.refresh_from_db()
    assert due.problem == (
        "Not evicted: A PodDisruptionBudget protects the pod train-0: The disruption budget train-0 needs 1 "
        "healthy pods and has 1 currently. The portal keeps trying."
    )
    assert keys(alice, "not-") == keys(lena, "not-") == [f"not-evicted:{due.pk}"]
    assert len(evicted(gateway)) == 3
    assert not keys(alice, "disrupted:")
    gateway.protected.clear()
    tasks.sweep()
    due.refresh_from_db()
    assert due.problem == ""
    assert gateway.get(POD, "train-0", namespace="vision")["metadata"]["deletionTimestamp"]


def test_one_protected_pod_does_not_save_the_others(due, held, gateway):
    held.attach(due, "train-0", "train-1")
    gateway.protected.add("train-0")
    tasks.evict(str(due.pk))
    assert gateway.get(POD, "train-1", namespace="vision")["metadata"]["deletionTimestamp"]


def test_missing_permission_is_shown_and_tried_again(due, gateway):
    gateway.denied.add(("create", "pods/eviction"))
    tasks.sweep()
    due.refresh_from_db()
    assert due.problem.startswith("Not evicted: The credentials may not create pods/eviction.")


def test_unreachable_cluster_is_shown(due, gateway):
    gateway.fail(Unreachable("fra-1 does not answer."), times=1)
    tasks.evict(str(due.pk), patient=False)
    due.refresh_from_db()
    assert due.problem == "fra-1 cannot be reached: fra-1 does not answer. The portal keeps trying."
    assert evicted(gateway) == []


@pytest.mark.parametrize(
    "columns", [{"enabled": False}, {"read_only": True}, {"halt_reason": "Another uid."}]
)
def test_nothing_is_evicted_from_a_cluster_that_is_not_written(due, gateway, columns):
    Cluster.objects.update(**columns)
    tasks.evict(str(due.pk))
    tasks.sweep()
    assert evicted(gateway) == []


def test_policy_that_lets_pods_run_again_stops_announced_evictions(due, gateway):
    change_cluster(name="fra-1", end_policy="run")
    tasks.evict(str(due.pk))
    tasks.sweep()
    assert evicted(gateway) == []


def test_owner_of_another_claim_of_the_pod_hears_why_it_was_evicted(due, held, gateway, lars, vision):
    other = held("net", "train-0")
    Claim.objects.filter(pk=other.pk).update(requested_by=lars)
    held.start("train-0", claims=["sam", "net"])
    tasks.evict(str(due.pk))
    (notice,) = Notice.objects.filter(user=lars, key__startswith="disrupted:")
    assert notice.title == "Kubernetes stopped the pod train-0 of net"
    assert "sam has ended, so its pods are evicted." in notice.body
    assert "The claim stays." in notice.body


def test_template_evicts_the_pods_of_its_generated_claims(
    mirror, held, vision, fra, train, alice, gateway, clock
):
    policy("evict")
    claim = make_claim(
        vision, by=alice, cluster=fra, profile=train, name="batch", namespace="vision", delivery="template",
        state=ClaimState.ALLOCATED, object_uid="uid-t", expires_at=NOON + DAY,
    )  # fmt: skip
    mirror.template(claim)
    labels = {"gpu.dragoman.dev/claim": str(claim.pk)}
    metadata = {"name": "batch-x", "namespace": "vision", "uid": "uid-g", "labels": labels}
    gateway.put(RESOURCE_CLAIM, {"metadata": metadata, "spec": claim.spec})
    row = mirror.claim("batch-x", claim, result("gpu-0"), uid="uid-g", origin="template")
    row.raw["status"]["reservedFor"] = [{"resource": "pods", "name": "batch-0", "uid": "uid-batch-0"}]
    row.save(update_fields=["raw"])
    held.start("batch-0", claims=["batch-x"])
    release(claim=claim, by=alice)
    clock.shift(11 * MINUTE)
    tasks.sweep()
    assert evicted(gateway) == ["batch-0"]


def test_second_worker_announces_nothing(held, alice):
    claim = held()
    release(claim=claim, by=alice)
    policy("evict")
    first, second = Claim.objects.get(pk=claim.pk), Claim.objects.get(pk=claim.pk)
    seen = observe([first])[first.pk]
    assert [eviction.announce(first, seen), eviction.announce(second, seen)] == [True, False]
    assert claim.history.filter(reason__startswith="Evicts ").count() == 1


# Ask first.


def test_asking_notifies_owner_and_leads_and_evicts_nobody_by_itself(held, clock, alice, lena, gateway):
    policy("ask")
    claim = held()
    release(claim=claim, by=alice)
    clock.shift(DAY)
    tasks.sweep()
    claim.refresh_from_db()
    assert (claim.evict_at, evicted(gateway)) == (None, [])
    assert keys(alice, "ask") == keys(lena, "ask") == [f"ask-evict:{claim.pk}"]
    notice = Notice.objects.get(user=alice, key__startswith="ask")
    assert "until it ends, or until the owner or a lead evicts it." in notice.body
    assert notice.url == reverse("claims:evict", args=[claim.pk])


@pytest.mark.parametrize("who", ["alice", "lena"])
@pytest.mark.parametrize("value", ["ask", "evict"])
def test_owner_and_lead_evict_at_once(held, request, alice, gateway, who, value):
    policy(value)
    claim, by = held(), request.getfixturevalue(who)
    release(claim=claim, by=alice)
    claim = evict(claim=claim, by=by, reason="Needed for the review.")
    claim = evict(claim=claim, by=by)
    tasks.sweep()
    assert evicted(gateway) == ["train-0"]
    lines = list(claim.history.filter(reason__startswith="Evicts the pod train-0 now"))
    assert [(line.reason, line.by) for line in lines] == [
        ("Evicts the pod train-0 now. Needed for the review.", by)
    ]


def test_nobody_else_evicts(held, alice, bob, make_member, gateway):
    policy("ask")
    claim = held()
    release(claim=claim, by=alice)
    with pytest.raises(Forbidden):
        evict(claim=claim, by=make_member("mia"))
    assert evicted(gateway) == []


@pytest.fixture
def make_member(vision):
    def make(name):
        user = make_user(name)
        vision.memberships.create(user=user, role="member")
        return user

    return make


def test_eviction_is_refused_where_it_is_not_possible(held, alice, gateway):
    claim = held()
    with pytest.raises(Conflict, match="only while it is “Releasing”"):
        evict(claim=claim, by=alice)
    release(claim=claim, by=alice)
    with pytest.raises(Conflict, match="The end policy of sam is “pods keep running”"):
        evict(claim=claim, by=alice)
    policy("ask")
    gateway.remove(POD, "train-0", namespace="vision")
    Pod.objects.all().delete()
    with pytest.raises(Conflict, match="No pod holds devices of sam"):
        evict(claim=claim, by=alice)
    assert evicted(gateway) == []


# Overstays are reported, whatever the policy.


@pytest.mark.parametrize("value", ["run", "ask", "evict"])
def test_overstay_is_reported_after_a_day_and_a_week(held, clock, alice, lena, value):
    policy(value)
    claim = held()
    release(claim=claim, by=alice)
    Claim.objects.update(state_since=NOON)
    reports = {0: 0, 1: 1, 2: 1, 7: 2, 30: 2}
    for day, count in reports.items():
        clock.move_to(NOON + day * DAY)
        for _ in range(2):
            report_overstays(datetime.now(UTC))
        assert len(keys(alice, "overstay:")) == len(keys(lena, "overstay:")) == count
    first = Notice.objects.filter(user=alice, key__startswith="overstay:").earliest("created_at")
    assert first.title == "sam ended 1 d ago and still holds devices"
    assert "billed until its pods end: train-0." in first.body


def test_ended_claim_without_pods_is_no_overstay(held, clock, alice):
    claim = held()
    release(claim=claim, by=alice)
    Claim.objects.update(state_since=NOON)
    Pod.objects.all().delete()
    report_overstays(NOON + 2 * DAY)
    assert not keys(alice, "overstay:")


def test_sentences_name_the_policy(held):
    claim = held()
    for value, clause in (
        ("run", "running pods keep their devices until they end."),
        ("ask", "running pods keep their devices until they end or the owner or a lead evicts them."),
        ("evict", "pods that still run are evicted 10 min later."),
    ):
        policy(value)
        assert eviction.pods_after_end(Claim.objects.get(pk=claim.pk).end_policy) == clause


def test_refused_eviction_raises_nothing(due, gateway):
    gateway.fail(Refused("Not known."), times=2)
    deliver.evict(str(due.pk))
    due.refresh_from_db()
    assert "Not known." in due.problem


@pytest.mark.parametrize(
    ("value", "banner", "then", "action"),
    [
        ("run", "The end policy lets pods run", "End its pods when their work is done.", ""),
        ("ask", "The owner or a lead may evict.", "End its pods when their work is done.", "Evict…"),
        ("evict", "save the work before.", "The portal evicts its pods.", ""),
    ],
)
def test_page_and_home_show_an_overstay_and_what_follows(
    held, alice, client, gateway, value, banner, then, action
):
    policy(value)
    claim = held()
    tasks.sweep()
    release(claim=claim, by=alice)
    Claim.objects.update(state_since=NOON - 10 * MINUTE)
    client.force_login(alice)
    address = reverse("claims:evict", args=[claim.pk])
    page = client.get(reverse("claims:detail", args=[claim.pk])).text
    assert "1 pod still holds 1 device, billed until it ends." in page
    assert banner in page
    assert (address in page) is (value != "run")
    home = client.get("/").text
    assert "sam ended 10 min ago and still holds 1 device" in home
    assert then in home
    assert (address in home) is bool(action)


@pytest.mark.parametrize("columns", [{"halt_reason": "x"}, {"enabled": False}, {"read_only": True}])
def test_no_eviction_is_announced_in_a_cluster_that_is_not_written(held, columns):
    policy("evict")
    claim = held(state=ClaimState.RELEASING)
    before = {name: getattr(claim.cluster, name) for name in columns}
    Cluster.objects.update(**columns)
    assert claims_to_evict() == []
    assert Claim.objects.get(pk=claim.pk).evict_at is None
    assert not Notice.objects.filter(key__startswith="evict:").exists()
    Cluster.objects.update(**before)
    claims_to_evict()
    assert Claim.objects.get(pk=claim.pk).evict_at is not None
