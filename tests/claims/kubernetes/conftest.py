"""The people of `tests.claims` on the real control plane, instead of a gateway in memory."""

import itertools
from contextlib import contextmanager

import pytest

from claims.approvals.decide import approve
from claims.delivery import tasks
from claims.models import Claim, TeamNamespace
from cluster.credentials import from_kubeconfig
from cluster.kube import KubeGateway
from cluster.protocol import NAMESPACE
from demo.controlplane.client import eventually
from inventory import cluster_snapshot
from inventory.models import Cluster
from inventory.sync.list_watch import sync_once

_numbers = itertools.count(1)


@pytest.fixture
def admin(controlplane):
    """A cluster admin; also whoever starts the pods."""
    gateway = KubeGateway(from_kubeconfig(controlplane.kubeconfig("admin")))
    yield gateway
    gateway.close()


@pytest.fixture
def gateway(controlplane, admin, fra, vision, monkeypatch):
    """`fra` is the control plane, through the portal's own account; vision has a new namespace."""
    portal = KubeGateway(from_kubeconfig(controlplane.kubeconfig("portal")))
    namespace = f"vision-{next(_numbers)}"
    admin.create(NAMESPACE, {"metadata": {"name": namespace}})
    TeamNamespace.objects.filter(team=vision, cluster=fra).update(namespace=namespace)
    Cluster.objects.filter(pk=fra.pk).update(uid=portal.identity())
    cluster_snapshot.forget()

    @contextmanager
    def connected(cluster):
        yield portal

    monkeypatch.setattr("claims.delivery.deliver.gateway_for", connected)
    yield portal
    portal.close()
    cluster_snapshot.forget()
    admin.delete(NAMESPACE, namespace)  # with its pods, so that their devices are free for other tests


@pytest.fixture
def namespace(gateway, vision, fra):
    """Where vision works in the control plane; new for every test."""
    return TeamNamespace.objects.get(team=vision, cluster=fra).namespace


@pytest.fixture
def approved(ask, lena):
    """Ask as alice, approve as lena; tasks run at once, so the object is written when this returns."""

    def make(**requested):
        claim = ask(**requested)
        approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
        return Claim.objects.get(pk=claim.pk)

    return make


@pytest.fixture
def until(fra, gateway):
    """Follow the cluster until a claim is in a state, and return it."""

    def follow(claim, state):
        def reached():
            sync_once(fra, gateway)
            tasks.sweep()
            found = Claim.objects.get(pk=claim.pk)
            return found if found.state == state else None

        return eventually(reached, subject=f"{claim} {state}")

    return follow
