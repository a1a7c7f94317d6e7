"""Where the pods of a claim stand, and what is said of it: each situation that a person may meet."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from claims.claim_page.explain import explain
from claims.claim_page.pods import PodStage
from claims.models import Claim
from claims.states import ClaimState
from inventory.models import Pod, PodEvent, ResourceClaim
from tests.claims.explained import (
    AT,
    conditions,
    event,
    hold,
    now,
    waits_for_claim,
)
from tests.claims.mirror import result
from usage.rates import RateCard
from usage.reports import claim_allocations, claim_cost

pytestmark = pytest.mark.django_db


def test_claim_without_pod_waits_for_its_owner(claim):
    found = explain(claim)
    assert (found.next_action.actor, found.pods, found.fit) == ("you", (), None)
    assert "Start a pod that uses the ResourceClaim sam." in found.next_action.sentence
    assert (now(claim).key, now(claim).note) == ("waiting", "no pod uses the claim")


def test_pod_with_missing_claim_is_diagnosed(claim, mirror):
    mirror.pod("train", claims=["sam", "data"], phase="Pending")
    found = explain(claim)
    assert (found.pods[0].stage, found.pods[0].missing) == (PodStage.MISSING_CLAIM, ("data",))
    assert found.next_action.actor == "you"
    assert "refers to the ResourceClaim data, which its namespace does not have" in found.next_action.sentence


def test_claim_of_another_namespace_is_missing(claim, mirror, fra):
    ResourceClaim.objects.create(cluster=fra, uid="other", name="data", namespace="speech")
    mirror.pod("train", claims=["sam", "data"], phase="Pending")
    assert explain(claim).pods[0].stage == PodStage.MISSING_CLAIM


def test_claim_being_deleted_accepts_no_pod(claim, mirror):
    mirror.claim("sam", claim, deleting_since=timezone.now())
    mirror.pod("train", claims=["sam"], phase="Pending")
    assert explain(claim).pods[0].stage == PodStage.CLAIM_BEING_DELETED


def test_pod_with_missing_template_is_diagnosed(template, mirror):
    waits_for_claim(mirror, template)
    mirror.gone("uid-t", timezone.now())
    (view,) = explain(template).pods
    assert (view.stage, view.missing) == (PodStage.NO_TEMPLATE, ("batch",))


def test_exceeded_resource_quota_is_read_from_event(template, mirror):
    waits_for_claim(mirror, template)
    assert explain(template).pods[0].stage == PodStage.NO_CLAIM
    assert explain(template).next_action.actor == "cluster"
    event(
        "train-0",
        "FailedResourceClaimCreation",
        "PodResourceClaim gpu: create ResourceClaim : forbidden: exceeded quota: gpus, requested: d=1, "
        "used: d=2, limited: d=2",
    )
    found = explain(template)
    assert found.next_action.actor == "you"
    assert "the ResourceQuota gpus of the namespace is exhausted. Requested: d=1; used: d=2;" in (
        found.next_action.sentence
    )


def test_gated_pod_waits_for_its_gate(claim, mirror):
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    mirror.pod("train", claims=["sam"], phase="Pending", raw={"status": {"conditions": [gated]}})
    found = explain(claim)
    assert (found.pods[0].stage, found.fit) == (PodStage.GATED, None)
    assert "often a queue such as Kueue" in found.next_action.sentence


def test_pending_binding_conditions_are_read_from_event(claim, mirror):
    claim = hold(claim, mirror)
    mirror.pod("train", claims=["sam"], phase="Pending")
    message = "waiting for binding conditions for device on node node-1"
    event("train", "BindingConditionsPending", message, warning=False)
    assert "The scheduler has chosen devices on node-1." in explain(claim).next_action.sentence


def binds(mirror, claim, *reported, failure=()):
    """Let the claim hold gpu-0, which binds on two conditions, of which the driver has reported some."""
    bound = result("gpu-0", bindingConditions=["attached", "ready"], bindingFailureConditions=["broken"])
    row = mirror.claim("sam", claim, bound)
    conditions = [{"type": name, "status": "True"} for name in (*reported, *failure)]
    row.raw["status"]["devices"] = [
        {"driver": "gpu.nvidia.com", "pool": "node-1", "device": "gpu-0", "conditions": conditions}
    ]
    row.save()
    return Claim.objects.get(pk=claim.pk)


@pytest.mark.parametrize(
    ("reported", "failure", "words"),
    [
        ((), (), "gpu-0 of node-1 is allocated and not ready: its driver has not reported attached."),
        (("attached",), (), "has not reported ready."),
        (("attached", "ready"), ("broken",), "gpu-0 of node-1 reports broken: it does not become ready."),
    ],
)
def test_wait_for_binding_is_explained_by_the_claim_itself(claim, mirror, reported, failure, words):
    """Without an Event, which comes up to a minute later."""
    claim = binds(mirror, claim, *reported, failure=failure)
    mirror.pod("train", claims=["sam"], phase="Pending")
    assert claim.state == ClaimState.ALLOCATED
    found = explain(claim)
    assert words in found.next_action.sentence
    assert {step.key: step.status for step in found.steps if step.status in ("now", "ahead")} == {
        "scheduler": "now", "prepared": "ahead", "used": "ahead", "releasing": "ahead", "released": "ahead",
    }  # fmt: skip


def test_claim_is_not_in_use_while_a_device_binds_for_a_pod_that_is_not_mirrored_yet(claim, mirror):
    claim = binds(mirror, claim, "attached")
    found = explain(claim)
    assert "has not reported ready. Its cost counts from allocation on." in found.next_action.sentence
    assert "in use" not in found.next_action.sentence
    assert now(claim).key == "scheduler"


def test_nothing_waits_for_binding_once_all_conditions_are_true(claim, mirror):
    claim = binds(mirror, claim, "attached", "ready")
    mirror.pod("train", claims=["sam"], phase="Pending")
    assert "The scheduler has not reported anything" in explain(claim).next_action.sentence
    mirror.pod("train", claims=["sam"], phase="Running", node_name="node-1")
    assert now(claim).key == "used"


def test_repeated_event_with_another_name_is_shown_once(template, mirror):
    waits_for_claim(mirror, template)
    for name in ("x7", "y8"):
        why = f'"train-{name}" is forbidden: exceeded quota: gpus, requested: d=1, used: d=2, limited: d=2'
        event("train-0", "FailedResourceClaimCreation", f"create ResourceClaim : {why}")
    assert len(explain(template).pods[0].events) == 1


def test_scheduled_pod_prepares_devices(claim, mirror):
    raw = {"status": {"conditions": conditions(PodScheduled="True", PodReadyToStartContainers="False")}}
    claim = hold(claim, mirror)
    mirror.pod("train", claims=["sam"], phase="Pending", node_name="node-1", raw=raw)
    found = explain(claim)
    assert found.pods[0].stage == PodStage.PREPARING
    assert found.pods[0].since == datetime(2026, 11, 21, 10, tzinfo=UTC)
    assert (now(claim).key, now(claim).note, now(claim).at) == (
        "prepared", "1 pod starts", found.pods[0].since,
    )  # fmt: skip
    assert "The driver prepares the devices on that node." in found.next_action.sentence
    event("train", "FailedPrepareDynamicResources", "NodePrepareResources: rpc error")
    found = explain(claim)
    assert found.next_action.actor == "admin"
    assert "The driver could not prepare the devices on the node." in found.next_action.sentence


def test_pod_with_prepared_devices_starts_containers(claim, mirror):
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
    status = {
        "conditions": conditions(PodScheduled="True", PodReadyToStartContainers="True"),
        "containerStatuses": [{"name": "main", "state": waiting}],
    }
    claim = hold(claim, mirror)
    mirror.pod("train", claims=["sam"], phase="Pending", node_name="node-1", raw={"status": status})
    found = explain(claim)
    assert found.pods[0].stage == PodStage.STARTING
    assert found.next_action.actor == "you"
    assert "The image of a container cannot be pulled." in found.next_action.sentence


def test_running_pod_uses_devices_since_first_container(claim, mirror):
    state = {"running": {"startedAt": AT}}
    claim = hold(claim, mirror)
    raw = {"status": {"containerStatuses": [{"name": "main", "state": state}]}}
    mirror.pod("train", claims=["sam"], phase="Running", node_name="node-1", raw=raw)
    step = now(claim)
    assert (step.key, step.note) == ("used", "1 pod runs")
    assert step.at == datetime(2026, 11, 21, 10, tzinfo=UTC)
    assert explain(claim).problem_groups == []
    assert explain(claim).next_action.sentence.startswith(
        "The claim is in use. Release it when its work is done."
    )


def test_held_devices_without_visible_pod_are_in_use(claim, mirror):
    claim = hold(claim, mirror)
    assert (now(claim).key, now(claim).note) == ("used", "")


def test_evicted_pod_is_lost_with_reason(claim, mirror):
    mirror.pod("train", claims=["sam"], gone_at=timezone.now())
    event("train", "DeviceTaintManagerEviction", "Marking for deletion", warning=False)
    found = explain(claim)
    assert [view.pod.name for view in found.lost_pods] == ["train"]
    assert found.next_action.sentence.startswith(
        "The last pod, train, was stopped: Kubernetes deletes the pod: one of its devices"
    )
    Pod.objects.update(gone_at=timezone.now() - timedelta(hours=2))
    assert explain(claim).lost_pods == ()


def test_evicted_pod_asks_nothing_of_anybody_once_another_runs(claim, mirror):
    claim = hold(claim, mirror)
    mirror.pod("old", claims=["sam"], gone_at=timezone.now())
    event("old", "DeviceTaintManagerEviction", "Marking for deletion", warning=False)
    action = explain(claim).next_action
    assert (action.actor, "Release the claim when its work is done." in action.sentence) == ("you", True)
    started = {"containerStatuses": [{"state": {"running": {"startedAt": AT}}}]}
    mirror.pod("new", claims=["sam"], phase="Running", node_name="node-1", raw={"status": started})
    found = explain(claim)
    assert [view.pod.name for view in found.lost_pods] == ["old"]
    assert found.next_action.actor == "nobody"
    assert found.next_action.sentence.startswith("The claim is in use.")


def test_pod_deleted_by_owner_is_not_lost(claim, mirror):
    mirror.pod("train", claims=["sam"], gone_at=timezone.now())
    event("train", "Killing", "Stopping container main", warning=False)
    assert explain(claim).lost_pods == ()


def test_releasing_claim_names_remaining_consumers(claim, mirror):
    claim = hold(claim, mirror)
    mirror.pod("train", claims=["sam"], node_name="node-1")
    claim.advance(ClaimState.RELEASING, why="done")
    assert explain(claim).next_action.headline_for_others == "The owner of the pod train acts next."
    mirror.pod("train", claims=["sam"], node_name="node-1", deleting_since=timezone.now())
    found = explain(claim)
    assert (found.next_action.actor, found.pods[0].stage) == ("cluster", PodStage.ENDING)
    Pod.objects.update(gone_at=timezone.now())
    ResourceClaim.objects.update(
        raw={
            "metadata": {},
            "status": {"reservedFor": [{"resource": "podgroups", "name": "gang", "uid": "g"}]},
        }
    )
    assert "still reserved for podgroups gang" in explain(claim).next_action.sentence


def test_missing_event_permission_is_reported(claim, fra):
    assert explain(claim).can_read_events
    type(fra).objects.update(missing=["list events"])
    assert not explain(Claim.objects.get(pk=claim.pk)).can_read_events


def test_new_event_of_pod_advances_claim_version(claim, mirror):
    mirror.pod("train", claims=["sam"], phase="Pending")
    before = Claim.objects.get(pk=claim.pk).version
    row = event("train", "FailedPrepareDynamicResources", "NodePrepareResources: rpc error")
    mirror.events_of("train")
    after = Claim.objects.get(pk=claim.pk).version
    assert after > before
    PodEvent.objects.filter(pk=row.pk).update(count=9, last_at=timezone.now())
    mirror.events_of("train")
    assert Claim.objects.get(pk=claim.pk).version == after


def test_cost_counts_from_allocation_while_a_device_binds_and_no_pod_runs(claim, mirror):
    claim = binds(mirror, claim, "attached")
    allocated_at = ResourceClaim.objects.get(name="sam").allocated_at
    later = allocated_at + timedelta(hours=3)
    cost = claim_cost(claim, claim_allocations(claim), RateCard.load(), now=later)
    assert (cost.is_held, cost.so_far.hours) == (True, Decimal(3))
