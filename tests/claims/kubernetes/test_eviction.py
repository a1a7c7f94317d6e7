"""Pods at the end of a claim on the real control plane: evicted down to the freed device."""

from datetime import timedelta

import pytest
from django.utils import timezone

from claims.delivery import tasks
from claims.lifecycle.services import evict, release
from claims.models import Claim
from claims.plans import plan
from claims.states import ClaimState
from cluster.protocol import POD, RESOURCE_CLAIM, Kind
from demo.controlplane.client import eventually
from inventory.models import Cluster
from inventory.sync.list_watch import sync_once
from notify.models import Notice

pytestmark = [pytest.mark.controlplane, pytest.mark.django_db(transaction=True)]
BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", namespaced=True)
NODE = "h100-b"
KUBELET = "test.dragoman.dev/kubelet"  # stands for containers that still end


def start(admin, claim, name, **metadata):
    """Create a pod for the claim, on the one node of all, with 45 s to end."""
    pod = plan.example_pod(claim)
    pod["metadata"] |= {"name": name, **metadata}
    pod["spec"] |= {"terminationGracePeriodSeconds": 45, "nodeSelector": {"kubernetes.io/hostname": NODE}}
    admin.create(POD, pod)


def live(admin, claim, name):
    return admin.get(POD, name, namespace=claim.namespace)


def graces(admin, claim, *, since):
    """Return the grace periods, in seconds, that events of the namespace's pods show within a second."""
    events = admin.watch(POD, resource_version=since, seconds=1, namespace=claim.namespace)
    return {event.object["metadata"].get("deletionGracePeriodSeconds") for event in events}


@pytest.fixture
def overdue(fra, gateway):
    """Return a function that lets the time of an announced eviction come, and sweeps."""

    def pass_notice(claim):
        Claim.objects.filter(pk=claim.pk).update(evict_at=timezone.now() - timedelta(seconds=1))
        sync_once(fra, gateway)
        tasks.sweep()
        return Claim.objects.get(pk=claim.pk)

    return pass_notice


def test_ended_claim_is_evicted_with_its_grace_and_its_device_is_free(
    approved, gateway, admin, controlplane, fra, alice, until, overdue
):
    Cluster.objects.update(end_policy="evict")
    claim, other = approved(name="ends"), approved(name="stays")
    start(admin, claim, "train-0", finalizers=[KUBELET])
    claim = until(claim, ClaimState.ALLOCATED)
    start(admin, other, "infer-0")
    other = until(other, ClaimState.ALLOCATED)

    sync_once(fra, gateway)
    release(claim=claim, by=alice)
    claim.refresh_from_db()
    assert claim.evict_at > timezone.now()
    assert Notice.objects.filter(user=alice, key=f"evict:{claim.pk}").exists()
    tasks.sweep()
    assert "deletionTimestamp" not in live(admin, claim, "train-0")["metadata"]

    before = list(admin.list(POD, namespace=claim.namespace))[-1].resource_version
    overdue(claim)
    # kwok ends the pod at once, so its grace is only in the first event.
    assert 45 in graces(admin, claim, since=before)
    conditions = live(admin, claim, "train-0")["status"]["conditions"]
    assert "EvictionByEvictionAPI" in {row.get("reason") for row in conditions}
    assert "deletionTimestamp" not in live(admin, other, "infer-0")["metadata"]
    held = gateway.get(RESOURCE_CLAIM, claim.name, namespace=claim.namespace)
    assert held["status"]["allocation"]  # its containers still end
    assert overdue(claim).state == ClaimState.RELEASING
    assert claim.allocations.filter(ended_at=None).exists()

    ended = {"metadata": {"finalizers": None}}  # the kubelet's part: the last container has ended
    controlplane.client().patch("Pod", "train-0", ended, namespace=claim.namespace)
    claim = until(claim, ClaimState.RELEASED)
    assert gateway.get(RESOURCE_CLAIM, claim.name, namespace=claim.namespace) is None
    assert not claim.allocations.filter(ended_at=None).exists()
    sync_once(fra, gateway)
    tasks.sweep()
    other.refresh_from_db()
    assert other.state == ClaimState.ALLOCATED
    assert "deletionTimestamp" not in live(admin, other, "infer-0")["metadata"]
    assert Notice.objects.filter(user=alice, key__startswith="disrupted:").count() == 1


def test_disruption_budget_refuses_until_it_is_gone(approved, gateway, admin, fra, alice, until, overdue):
    Cluster.objects.update(end_policy="evict")
    claim = approved(name="guarded")
    start(admin, claim, "serve-0", labels={"app": "serve"})
    claim = until(claim, ClaimState.ALLOCATED)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "serve"}}}
    admin.create(BUDGET, {"metadata": {"name": "serve", "namespace": claim.namespace}, "spec": spec})
    eventually(
        lambda: (admin.get(BUDGET, "serve", namespace=claim.namespace).get("status") or {}).get(
            "currentHealthy"
        ),
        subject="the budget counts the pod",
    )
    sync_once(fra, gateway)
    release(claim=claim, by=alice)
    for _ in range(2):
        claim = overdue(claim)
    assert claim.problem.startswith("Not evicted: A PodDisruptionBudget protects the pod serve-0: ")
    assert "The disruption budget serve needs 1 healthy pods and has 1 currently." in claim.problem
    assert "deletionTimestamp" not in live(admin, claim, "serve-0")["metadata"]
    assert Notice.objects.filter(user=alice, key__startswith="not-evicted:").count() == 1

    admin.delete(BUDGET, "serve", namespace=claim.namespace)
    until(claim, ClaimState.RELEASED)


def test_owner_evicts_by_hand_where_the_policy_is_to_ask(approved, gateway, admin, fra, alice, until):
    Cluster.objects.update(end_policy="ask")
    claim = approved(name="asked")
    start(admin, claim, "train-0")
    claim = until(claim, ClaimState.ALLOCATED)
    sync_once(fra, gateway)
    release(claim=claim, by=alice)
    sync_once(fra, gateway)
    tasks.sweep()
    assert "deletionTimestamp" not in live(admin, claim, "train-0")["metadata"]
    evict(claim=claim, by=alice)
    until(claim, ClaimState.RELEASED)
    assert live(admin, claim, "train-0") is None
