"""What a real control plane says, read through the portal's account, and explained."""

import itertools

import pytest

from claims.approvals.decide import approve
from claims.claim_page.explain import explain
from claims.claim_page.pods import PodStage
from claims.models import Claim
from claims.plans import plan
from claims.states import ClaimState
from cluster.protocol import POD, RESOURCE_QUOTA
from demo.controlplane.client import eventually
from inventory.events import read_events
from inventory.models import Pod
from inventory.sync.list_watch import sync_once
from tests.factories import make_profile, make_spec

pytestmark = [pytest.mark.controlplane, pytest.mark.django_db(transaction=True)]
CHARGED = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
_numbers = itertools.count(1)


@pytest.fixture
def delivered(ask, lena, gateway, fra):
    """Ask for a spec, approve it, and return the claim, which is written to the cluster."""

    def deliver(spec, **requested):
        profile = make_profile(f"profile-{next(_numbers)}", spec=spec)
        claim = ask(profile=profile, **requested)
        approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
        claim = Claim.objects.get(pk=claim.pk)
        assert claim.state == ClaimState.PROVISIONED
        return claim

    return deliver


@pytest.fixture
def explained(fra, gateway):
    """Mirror the cluster until a pod of the claim is explained as `wanted` says, and return that."""

    def explain_until(claim, wanted):
        def look():
            sync_once(fra, gateway)
            Pod.objects.update(events_at=None)  # no pause between two readings
            read_events(fra, gateway)
            found = explain(Claim.objects.get(pk=claim.pk))
            return found if found.pods and wanted(found) else None

        return eventually(look, subject=f"the pod of {claim} is explained")

    return explain_until


def selecting(expression):
    return make_spec(selectors=[{"cel": {"expression": expression}}])


def test_a_pod_for_which_nothing_matches(delivered, explained, admin):
    claim = delivered(selecting('device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("2Ti"))'))
    admin.create(POD, plan.example_pod(claim))
    found = explained(claim, lambda found: found.pods[0].scheduler_message)
    (view,) = found.pods
    assert view.stage == PodStage.SCHEDULER
    assert all(part.meaning for part in (*view.scheduler_message.reasons, *view.scheduler_message.preemption))
    assert view.scheduler_message.nodes_without_devices > 0
    assert found.fit.agrees is True
    assert found.next_action.who == "Kubernetes"
    assert "Request gpu needs 1 device; 0 match." in found.next_action.sentence


def test_a_selector_that_fails_stops_the_pod(delivered, explained, admin):
    claim = delivered(selecting('device.attributes["gpu.nvidia.com"].nobodyHasThis == "x"'))
    admin.create(POD, plan.example_pod(claim))
    found = explained(claim, lambda found: found.pods[0].scheduler_message)
    assert found.next_action.actor == "admin"
    assert f"A selector of the claim {claim.namespace}/{claim.name} fails on" in found.next_action.sentence
    assert found.fit.agrees is True


def test_a_quota_refuses_the_claim_of_a_pod(delivered, explained, admin):
    claim = delivered(make_spec(), delivery="template", parallel=1)
    limit = {"metadata": {"name": "gpus", "namespace": claim.namespace}, "spec": {"hard": {CHARGED: "0"}}}
    admin.create(RESOURCE_QUOTA, limit)

    def counted():
        found = admin.get(RESOURCE_QUOTA, "gpus", namespace=claim.namespace) or {}
        return found.get("status", {}).get("used")

    eventually(counted, subject="the quota is counted")
    admin.create(POD, plan.example_pod(claim))
    found = explained(claim, lambda found: found.pods[0].events)
    assert found.pods[0].stage == PodStage.NO_CLAIM
    assert found.pods[0].events[0].event.reason == "FailedResourceClaimCreation"
    assert "the ResourceQuota gpus of the namespace is exhausted" in found.next_action.sentence
    assert f"limit: {CHARGED}=0" in found.next_action.sentence


def test_a_pod_that_names_a_missing_claim_is_told_by_nobody_but_the_portal(delivered, explained, admin):
    claim = delivered(make_spec())
    pod = plan.example_pod(claim)
    pod["spec"]["resourceClaims"].append({"name": "data", "resourceClaimName": "not-there"})
    admin.create(POD, pod)
    found = explained(claim, lambda found: True)
    (view,) = found.pods
    assert (view.stage, view.missing) == (PodStage.MISSING_CLAIM, ("not-there",))
    assert (view.pod.message, view.events) == ("", [])
    assert found.next_action.actor == "you"


def test_a_pod_that_names_a_missing_template_is_told_from_its_event(
    delivered, explained, admin, gateway, fra
):
    claim = delivered(make_spec(), delivery="template", parallel=1)
    pod = plan.example_pod(claim)
    pod["spec"]["resourceClaims"].append({"name": "more", "resourceClaimTemplateName": "no-such"})
    admin.create(POD, pod)
    found = explained(claim, lambda found: found.pods[0].events)
    assert (found.pods[0].stage, found.pods[0].missing) == (PodStage.NO_TEMPLATE, ("no-such",))
    assert "The pod refers to the ResourceClaimTemplate no-such" in found.pods[0].events[0].diagnosis.meaning
