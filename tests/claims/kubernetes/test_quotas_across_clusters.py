"""
One limit in two clusters, on the real control plane: together they admit what the team may hold.

Both are namespaces of one control plane, which the portal takes for two clusters: their quotas know as
little of each other as those of two.
"""

from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest

from claims.approvals.decide import approve
from claims.delivery import tasks as delivery_tasks
from claims.lifecycle.services import release
from claims.models import Claim, Quota, TeamNamespace, WrittenQuota
from claims.quotas import resource_quota
from claims.states import ClaimState
from claims.tasks import maintain_quotas
from cluster.protocol import NAMESPACE, RESOURCE_CLAIM, RESOURCE_QUOTA, Refused
from demo.controlplane.client import eventually
from inventory.models import Cluster
from inventory.sync.list_watch import sync_once
from tests.claims.kubernetes.test_quota import by_hand
from tests.factories import make_cluster

pytestmark = [pytest.mark.controlplane, pytest.mark.django_db(transaction=True)]
OTHER = "uid-of-another-cluster"


class Part:
    """One namespace of the control plane and what has none, as a cluster of its own."""

    def __init__(self, gateway, uid, namespace):
        self.gateway, self.uid, self.namespace = gateway, uid, namespace

    def __getattr__(self, name):
        return getattr(self.gateway, name)

    def identity(self):
        return self.uid

    def list(self, kind, **chosen):
        for page in self.gateway.list(kind, **chosen):
            own = [item for item in page.items if item["metadata"].get("namespace") in (None, self.namespace)]
            yield replace(page, items=own)


@pytest.fixture
def osl(vision, admin, namespace):
    """A second cluster, in which vision works in a namespace of its own."""
    found = make_cluster("osl-1", uid=OTHER)
    there = f"{namespace}-osl"
    admin.create(NAMESPACE, {"metadata": {"name": there}})
    TeamNamespace.objects.create(team=vision, cluster=found, namespace=there)
    yield found
    admin.delete(NAMESPACE, there)


@pytest.fixture
def follow(gateway, namespace, fra, osl, monkeypatch):
    """Both keep quotas; call it to mirror both, to sweep, and to wait until Kubernetes counts by them."""
    Cluster.objects.update(write_quotas=True)
    gateways = {
        "fra-1": Part(gateway, gateway.identity(), namespace),
        "osl-1": Part(gateway, OTHER, f"{namespace}-osl"),
    }

    @contextmanager
    def connected(cluster):
        yield gateways[cluster.name]

    for module in ("claims.quotas.resource_quota_rounds", "claims.delivery.deliver"):
        monkeypatch.setattr(f"{module}.gateway_for", connected)

    def counted(row):
        found = gateway.get(RESOURCE_QUOTA, "dragoman", namespace=row.team_namespace.namespace)
        used = (found.get("status") or {}).get("used")
        return used is not None and not resource_quota.counts_old_limit(row.team_namespace, gateway)

    def look():
        for cluster in (fra, osl):
            sync_once(cluster, gateways[cluster.name])
        delivery_tasks.sweep()
        maintain_quotas()
        for row in WrittenQuota.objects.select_related("team_namespace__team", "team_namespace__cluster"):
            assert row.problem == ""
            eventually(partial(counted, row), subject=f"{row} counted by")

    look()
    return look


@pytest.fixture
def reach(follow):
    """Follow both clusters until a claim is in a state; it may not go back to people on the way."""

    def wait(claim, state):
        def reached():
            follow()
            found = Claim.objects.get(pk=claim.pk)
            assert found.state != ClaimState.REQUESTED, found.problem
            return found if found.state == state else None

        return eventually(reached, subject=f"{claim} {state}")

    return wait


@pytest.fixture
def provisioned(ask, lena, reach):
    def make(**requested):
        claim = ask(**requested)
        approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
        return reach(claim, ClaimState.PROVISIONED)

    return make


def test_what_is_held_in_one_cluster_cannot_be_made_in_the_other(
    follow, provisioned, reach, admin, gateway, namespace, alice, osl, quota
):
    Quota.objects.update(devices=4)
    claim = provisioned(devices=3)
    follow()
    there = f"{namespace}-osl"
    with pytest.raises(Refused, match="exceeded quota: dragoman"):
        by_hand(admin, there, "too-much", 2)
    by_hand(admin, there, "just-fits", 1)
    follow()
    with pytest.raises(Refused, match="exceeded quota: dragoman"):
        by_hand(admin, namespace, "one-more", 1)
    release(claim=claim, by=alice)
    reach(claim, ClaimState.RELEASED)
    follow()
    with pytest.raises(Refused, match="exceeded quota: dragoman"):
        by_hand(admin, there, "four-more", 4)
    by_hand(admin, there, "three-more", 3)


def test_what_the_portal_admits_is_delivered_wherever_the_limit_moves(
    follow, provisioned, reach, admin, namespace, alice, fra, osl, quota
):
    """All of the limit goes to and fro; in each cluster it is delivered, and no more fits into the other."""
    Quota.objects.update(devices=4)
    others = {fra.name: f"{namespace}-osl", osl.name: namespace}
    for number, cluster in enumerate((fra, osl, fra)):
        claim = provisioned(devices=4, cluster=cluster, name=f"round-{number}")
        assert admin.get(RESOURCE_CLAIM, claim.name, namespace=claim.namespace)
        follow()
        with pytest.raises(Refused, match="exceeded quota: dragoman"):
            by_hand(admin, others[cluster.name], f"past-{number}", 1)
        release(claim=claim, by=alice)
        reach(claim, ClaimState.RELEASED)


def test_a_successor_in_the_other_cluster_is_delivered_beside_what_it_replaces(
    follow, provisioned, admin, namespace, osl, quota
):
    Quota.objects.update(devices=4)
    old = provisioned(devices=4)
    new = provisioned(devices=4, cluster=osl, replaces=old)
    assert admin.get(RESOURCE_CLAIM, new.name, namespace=new.namespace)
    follow()
    for where in (namespace, f"{namespace}-osl"):
        with pytest.raises(Refused, match="exceeded quota: dragoman"):
            by_hand(admin, where, "one-more", 1)
