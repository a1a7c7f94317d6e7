"""Quotas that the portal keeps, on the real control plane: Kubernetes refuses at exactly the limit."""

from datetime import timedelta
from functools import partial

import pytest
from django.utils import timezone

from claims.approvals import decide
from claims.delivery import deliver
from claims.delivery import tasks as delivery_tasks
from claims.models import Quota, QuotaIncrease, WrittenQuota
from claims.plans import plan
from claims.quotas import resource_quota
from claims.states import ClaimState
from claims.tasks import maintain_quotas
from cluster.protocol import POD, RESOURCE_CLAIM, RESOURCE_QUOTA, Refused
from core.errors import QuotaExceeded
from demo.controlplane.client import eventually
from inventory.models import Cluster
from inventory.sync.columns import requested_resources
from inventory.sync.list_watch import sync_once
from tests.factories import GPU_CLASS, make_spec
from tests.inventory.test_extended_resources import SHAPES

pytestmark = [pytest.mark.controlplane, pytest.mark.django_db(transaction=True)]
DEVICES = f"{GPU_CLASS}.deviceclass.resource.k8s.io/devices"


@pytest.fixture
def kept(gateway, fra, namespace, monkeypatch):
    """`fra` keeps quotas; call it to bring them in line, and to wait until Kubernetes counts by them."""
    Cluster.objects.filter(pk=fra.pk).update(write_quotas=True)
    monkeypatch.setattr("claims.quotas.resource_quota_rounds.gateway_for", deliver.gateway_for)
    sync_once(fra, gateway)

    def keep():
        maintain_quotas()
        row = WrittenQuota.objects.select_related("team_namespace__team", "team_namespace__cluster").get()
        assert row.problem == ""

        def counted():
            found = gateway.get(RESOURCE_QUOTA, "dragoman", namespace=namespace)
            status = found.get("status") or {}
            return status.get("used") is not None and not resource_quota.counts_old_limit(
                row.team_namespace, gateway
            )

        eventually(counted, subject="Kubernetes counts by the quota")
        return row

    return keep


def by_hand(admin, namespace, name, count):
    requested = {"metadata": {"name": name, "namespace": namespace}, "spec": make_spec(count)}
    return admin.create(RESOURCE_CLAIM, requested)


def used(gateway, namespace):
    found = gateway.get(RESOURCE_QUOTA, "dragoman", namespace=namespace)
    return (found.get("status") or {}).get("used", {}).get(DEVICES)


def test_past_the_portal_the_cluster_refuses_at_exactly_the_limit(
    approved, kept, admin, gateway, namespace, quota, until
):
    Quota.objects.update(devices=4)
    kept()
    until(approved(devices=2), ClaimState.PROVISIONED)
    kept()
    with pytest.raises(Refused, match="exceeded quota: dragoman"):
        by_hand(admin, namespace, "too-much", 3)
    by_hand(admin, namespace, "just-fits", 2)
    with pytest.raises(Refused, match="exceeded quota: dragoman"):
        by_hand(admin, namespace, "one-more", 1)
    eventually(lambda: used(gateway, namespace) == "4", subject="four counted")


def test_what_a_request_reserves_cannot_be_taken_by_hand(ask, kept, admin, namespace, quota, lena, until):
    Quota.objects.update(devices=4)
    kept()
    claim = ask(devices=3)
    kept()
    with pytest.raises(Refused, match="exceeded quota: dragoman"):
        by_hand(admin, namespace, "too-much", 2)
    by_hand(admin, namespace, "just-fits", 1)
    decide.approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    until(claim, ClaimState.PROVISIONED)


def test_a_class_without_a_quota_may_be_held_by_nobody(kept, admin, namespace, quota):
    kept()
    requested = {"metadata": {"name": "mig", "namespace": namespace}, "spec": make_spec(1, "mig.nvidia.com")}
    with pytest.raises(Refused, match="exceeded quota: dragoman"):
        admin.create(RESOURCE_CLAIM, requested)


def test_what_is_made_by_hand_counts_in_the_portal(kept, admin, gateway, namespace, fra, quota, ask):
    kept()
    by_hand(admin, namespace, "by-hand", 6)
    sync_once(fra, gateway)
    with pytest.raises(QuotaExceeded, match="6 of them unmanaged"):
        ask(devices=3)


def test_a_limit_that_somebody_changed_or_deleted_is_put_right(kept, admin, gateway, namespace, root, quota):
    kept()
    hard = gateway.get(RESOURCE_QUOTA, "dragoman", namespace=namespace)["spec"]["hard"]
    names = {"name": "dragoman", "namespace": namespace, "labels": dict([resource_quota.LABEL])}
    wild = {"metadata": names, "spec": {"hard": hard | {DEVICES: "99"}}}
    admin.apply(RESOURCE_QUOTA, wild, force=True)
    row = kept()
    assert row.drift == f"Somebody changed {DEVICES} from 8 to 99."
    assert gateway.get(RESOURCE_QUOTA, "dragoman", namespace=namespace)["spec"]["hard"][DEVICES] == "8"
    admin.delete(RESOURCE_QUOTA, "dragoman", namespace=namespace)
    assert kept().drift == "Somebody deleted the ResourceQuota."


def test_a_raise_ends_and_what_is_held_stays(kept, approved, admin, gateway, namespace, quota, fra, until):
    Quota.objects.update(devices=2)
    given = QuotaIncrease.objects.create(quota=quota, devices=2, ends_at=timezone.now() + timedelta(hours=1))
    kept()
    claim = approved(devices=4)
    pod = admin.create(POD, plan.example_pod(claim))
    until(claim, ClaimState.ALLOCATED)
    start = timezone.now() - timedelta(hours=1)
    QuotaIncrease.objects.filter(pk=given.pk).update(starts_at=start, ends_at=timezone.now())
    kept()
    assert gateway.get(RESOURCE_QUOTA, "dragoman", namespace=namespace)["spec"]["hard"][DEVICES] == "4"
    found = gateway.get(RESOURCE_CLAIM, claim.name, namespace=namespace)
    assert found["status"]["reservedFor"][0]["uid"] == pod["metadata"]["uid"]
    with pytest.raises(Refused, match="exceeded quota: dragoman"):
        by_hand(admin, namespace, "one-more", 1)


def test_a_limit_raised_a_moment_ago_does_not_send_a_claim_back(kept, ask, lena, quota):
    """Kubernetes admits by what its controller copied to the status: the delivery waits for it."""
    Quota.objects.update(devices=2)
    kept()
    Quota.objects.update(devices=6)
    claim = ask(devices=6)
    decide.approve(claim=claim, by=lena, spec_hash=claim.spec_hash)

    def delivered():
        delivery_tasks.sweep()
        claim.refresh_from_db()
        assert claim.state in (ClaimState.APPROVED, ClaimState.PROVISIONED)
        return claim.state == ClaimState.PROVISIONED

    eventually(delivered, subject="the claim delivered")


def test_switched_off_the_object_is_gone_and_the_claims_stay(
    kept, approved, gateway, namespace, fra, quota, until
):
    kept()
    claim = until(approved(devices=2), ClaimState.PROVISIONED)
    Cluster.objects.filter(pk=fra.pk).update(write_quotas=False)
    maintain_quotas()
    assert gateway.get(RESOURCE_QUOTA, "dragoman", namespace=namespace) is None
    assert gateway.get(RESOURCE_CLAIM, claim.name, namespace=namespace) is not None


def test_gpus_of_a_pod_are_those_that_kubernetes_counts(admin, gateway, namespace):
    """Containers, init containers and sidecars that a device plugin serves."""
    hard = {"spec": {"hard": {"requests.nvidia.com/gpu": "100"}}}
    admin.create(RESOURCE_QUOTA, {"metadata": {"name": "gpus", "namespace": namespace}} | hard)

    def is_counted(total: int) -> bool:
        found = admin.get(RESOURCE_QUOTA, "gpus", namespace=namespace)
        return int(found.get("status", {}).get("used", {}).get("requests.nvidia.com/gpu", -1)) == total

    eventually(partial(is_counted, 0), subject="Kubernetes counts by the quota")
    before = 0
    for number, (init_containers, containers, gpus) in enumerate(SHAPES.values()):
        parts = {"i": init_containers, "c": containers or [{}]}
        named = {
            kind: [{"name": f"{kind}{index}", "image": "ubuntu"} | one for index, one in enumerate(rows)]
            for kind, rows in parts.items()
        }
        spec = {"initContainers": named["i"], "containers": named["c"]}
        made = admin.create(POD, {"metadata": {"name": f"p{number}", "namespace": namespace}, "spec": spec})
        assert requested_resources(made["spec"]).get("nvidia.com/gpu", 0) == gpus
        before += gpus
        eventually(partial(is_counted, before), subject=f"{gpus} more counted")
