"""Where the pods of a claim stand, and what is said of it: each situation that a person may meet."""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from claims.explain import explain
from claims.explain.stages import Stage
from claims.models import Claim
from claims.states import ClaimState
from inventory import picture
from inventory.models import DeviceClass, Freshness, Node, Pod, PodEvent, ResourceClaim, ResourceSlice
from tests.claims.mirror import Mirror, result
from tests.factories import make_claim

pytestmark = pytest.mark.django_db
NOTHING_FITS = (
    "0/1 nodes are available: 1 cannot allocate all claims. preemption: 0/1 nodes are available: 1 "
    "Preemption is not helpful for scheduling."
)
AT = "2026-11-21T10:00:00Z"


@pytest.fixture(autouse=True)
def fresh_picture():
    picture.forget()
    yield
    picture.forget()


@pytest.fixture
def mirror(fra):
    return Mirror(fra)


@pytest.fixture
def claim(vision, fra, train, alice, quota):
    """A named claim for one device, written, and used by nobody."""
    return delivered(make_claim(vision, by=alice, cluster=fra, profile=train, name="sam"))


@pytest.fixture
def template(vision, fra, train, alice, quota):
    return delivered(
        make_claim(
            vision, by=alice, cluster=fra, profile=train, name="batch", delivery="template", parallel=4
        )
    )


def delivered(claim):
    claim.advance(ClaimState.APPROVED, why="ok")
    claim.advance(ClaimState.PROVISIONED, why="written")
    mirror = Mirror(claim.cluster)
    if claim.delivery == "template":
        mirror.template(claim)
    else:
        mirror.claim(claim.name, claim)
    return Claim.objects.get(pk=claim.pk)


def have_devices(cluster, *names, node="node-1"):
    """Let the mirror have a ready node with these GPUs."""
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    common = {"cluster": cluster, "revision": 1}
    Node.objects.create(
        uid=node,
        name=node,
        raw={"metadata": {"name": node}, "spec": {}, "status": ready},
        ready=True,
        **common,
    )
    gpu = {
        "attributes": {"type": {"string": "gpu"}, "productName": {"string": "NVIDIA H100 80GB HBM3"}},
        "capacity": {"memory": {"value": "81559Mi"}},
    }
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool}
    spec["devices"] = [{"name": name, **gpu} for name in names]
    ResourceSlice.objects.create(
        uid=f"s-{node}", name=f"s-{node}", driver="gpu.nvidia.com", pool=node, generation=1, pool_slices=1,
        raw={"metadata": {"name": f"s-{node}"}, "spec": spec}, **common,
    )  # fmt: skip
    DeviceClass.objects.get_or_create(
        cluster=cluster, uid="class", name="gpu.nvidia.com",
        defaults={"raw": {"metadata": {"name": "gpu.nvidia.com"}, "spec": {}}, "revision": 1},
    )  # fmt: skip
    type(cluster).objects.filter(pk=cluster.pk).update(revision=1)


def conditions(**statuses):
    return [{"type": kind, "status": status, "lastTransitionTime": AT} for kind, status in statuses.items()]


def event(pod, reason, message, **more):
    at = timezone.now()
    row = Pod.objects.get(name=pod)
    return PodEvent.objects.create(
        pod=row, reason=reason, message=message, first_at=at, last_at=at, **{"source": "kubelet", **more}
    )


def now(claim):
    return next(step for step in explain(claim).steps if step.status == "now")


def test_nobody_uses_the_claim(claim):
    found = explain(claim)
    assert (found.answer.actor, found.pods, found.fit) == ("you", (), None)
    assert "Start a pod that uses the ResourceClaim sam." in found.answer.sentence
    assert (now(claim).key, now(claim).note) == ("waiting", "no pod uses it")


def test_a_pod_that_names_a_missing_claim_is_not_queued(claim, mirror):
    mirror.pod("train", claims=["sam", "data"], phase="Pending")
    found = explain(claim)
    assert (found.pods[0].stage, found.pods[0].missing) == (Stage.MISSING_CLAIM, ("data",))
    assert found.answer.actor == "you"
    assert "names the ResourceClaim data, which is not in its namespace" in found.answer.sentence


def test_a_claim_of_another_namespace_is_missing_too(claim, mirror, fra):
    ResourceClaim.objects.create(cluster=fra, uid="other", name="data", namespace="speech")
    mirror.pod("train", claims=["sam", "data"], phase="Pending")
    assert explain(claim).pods[0].stage == Stage.MISSING_CLAIM


def test_a_claim_that_is_going_takes_no_new_pod(claim, mirror):
    mirror.claim("sam", claim, deleting_since=timezone.now())
    mirror.pod("train", claims=["sam"], phase="Pending")
    assert explain(claim).pods[0].stage == Stage.GOING_CLAIM


def waits_for_claim(mirror, claim, name="train-0"):
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": claim.name}]}
    mirror.pod(name, templates=[claim.name], phase="Pending", raw={"spec": spec, "status": {}})


def test_a_pod_whose_template_is_missing(template, mirror):
    waits_for_claim(mirror, template)
    mirror.gone("uid-t", timezone.now())
    (view,) = explain(template).pods
    assert (view.stage, view.missing) == (Stage.NO_TEMPLATE, ("batch",))


def test_a_quota_that_refuses_the_claim_of_a_pod_is_told_from_the_event(template, mirror):
    waits_for_claim(mirror, template)
    assert explain(template).pods[0].stage == Stage.NO_CLAIM
    assert explain(template).answer.actor == "cluster"
    event(
        "train-0",
        "FailedResourceClaimCreation",
        "PodResourceClaim gpu: create ResourceClaim : forbidden: exceeded quota: gpus, requested: d=1, "
        "used: d=2, limited: d=2",
    )
    found = explain(template)
    assert found.answer.actor == "you"
    assert (
        "the ResourceQuota gpus of the namespace is used up. Asked for d=1, used d=2" in found.answer.sentence
    )


def test_a_gated_pod_waits_for_whoever_set_the_gate(claim, mirror):
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    mirror.pod("train", claims=["sam"], phase="Pending", raw={"status": {"conditions": [gated]}})
    found = explain(claim)
    assert (found.pods[0].stage, found.fit) == (Stage.GATED, None)
    assert "often a queue such as Kueue" in found.answer.sentence


def test_a_pod_waits_for_the_scheduler_and_the_picture_shows_the_same(claim, mirror, fra):
    have_devices(fra, "gpu-0")
    ResourceClaim.objects.create(
        cluster=fra, uid="taken", name="taken", namespace="speech", revision=1,
        raw={
            "metadata": {"name": "taken", "namespace": "speech", "uid": "taken"},
            "spec": claim.spec,
            "status": {"allocation": {"devices": {"results": [result("gpu-0")]}}},
        },
    )  # fmt: skip
    mirror.pod("train", claims=["sam"], phase="Pending", message=NOTHING_FITS)
    found = explain(claim)
    assert found.fit is not None
    assert found.fit.agrees is True
    assert (found.answer.actor, found.answer.who) == ("cluster", "Kubernetes")
    assert found.answer.sentence.startswith("The pod train waits. The node has no set of free devices")
    assert "shows the same: Request gpu needs 1 device; 0 match and are free." in found.answer.sentence
    assert now(claim).key == "scheduler"


def test_a_scheduler_and_a_picture_that_disagree_are_both_told(claim, mirror, fra):
    have_devices(fra, "gpu-0")
    seen = timezone.now() - timedelta(seconds=12)
    for resource in ("resourceslices", "resourceclaims", "pods"):
        Freshness.objects.create(cluster=fra, resource=resource, seen_at=seen)
    mirror.pod("train", claims=["sam"], phase="Pending", message=NOTHING_FITS)
    found = explain(claim)
    assert found.fit is not None
    assert found.fit.agrees is False
    assert "s old, the claim fits on 1 node now: node-1. The scheduler says that nothing fits; it" in (
        found.answer.sentence
    )


def test_devices_on_a_node_that_the_pod_may_not_use_are_no_disagreement(claim, mirror, fra):
    have_devices(fra, "gpu-0")
    message = (
        "0/2 nodes are available: 1 cannot allocate all claims, 1 node(s) didn't match Pod's node affinity/"
        "selector."
    )
    mirror.pod("train", claims=["sam"], phase="Pending", message=message)
    found = explain(claim)
    assert found.fit is not None
    assert found.fit.agrees is True
    assert "keeps the pod from nodes for other reasons than devices" in found.fit.sentence


def test_before_the_scheduler_has_spoken_only_the_picture_does(claim, mirror, fra):
    have_devices(fra, "gpu-0")
    mirror.pod("train", claims=["sam"], phase="Pending")
    found = explain(claim)
    assert found.fit is not None
    assert found.fit.agrees is None
    assert "has not said anything about the pod train" in found.answer.sentence


def test_what_nobody_knows_is_shown_in_the_words_of_the_scheduler(claim, mirror, fra):
    mirror.pod(
        "train", claims=["sam"], phase="Pending", message="0/1 nodes are available: 1 moon in the way."
    )
    said = explain(claim).pods[0].said
    assert said is not None
    assert [(part.text, part.means) for part in said.parts] == [("moon in the way", "")]


def test_a_selector_that_fails_is_for_a_platform_admin(claim, mirror, fra):
    message = (
        'running "DynamicResources" filter plugin: claim vision/sam: selector #0 on device d/n/gpu-0: CEL '
        "runtime error: no such key: x"
    )
    mirror.pod("train", claims=["sam"], phase="Pending", message=message)
    found = explain(claim)
    assert (found.answer.actor, found.answer.headline) == ("admin", "A platform admin acts next.")
    assert "fails on the device d/n/gpu-0" in found.answer.sentence


def hold(claim, mirror, *names):
    mirror.claim("sam", claim, *(result(name) for name in names or ("gpu-0",)))
    return Claim.objects.get(pk=claim.pk)


def test_a_second_pod_of_a_claim_that_holds_devices_is_not_told_what_is_free(claim, mirror):
    claim = hold(claim, mirror)
    mirror.pod("first", claims=["sam"], node_name="node-1")
    message = "0/2 nodes are available: 1 resourceclaim not available on the node, 1 Too many pods."
    mirror.pod("second", claims=["sam"], phase="Pending", message=message)
    found = explain(claim)
    assert found.fit is None
    assert found.answer.sentence.startswith("The pod second waits. The claim holds devices already, and they")


def test_devices_that_are_chosen_and_not_ready_are_told_from_the_event(claim, mirror):
    claim = hold(claim, mirror)
    mirror.pod("train", claims=["sam"], phase="Pending")
    said = "waiting for binding conditions for device on node node-1"
    event("train", "BindingConditionsPending", said, warning=False)
    assert (
        "Devices are chosen on node-1; their driver has to get them ready" in explain(claim).answer.sentence
    )


def test_what_is_said_again_under_another_name_is_told_once(template, mirror):
    waits_for_claim(mirror, template)
    for name in ("x7", "y8"):
        why = f'"train-{name}" is forbidden: exceeded quota: gpus, requested: d=1, used: d=2, limited: d=2'
        event("train-0", "FailedResourceClaimCreation", f"create ResourceClaim : {why}")
    assert len(explain(template).pods[0].events) == 1


def test_a_scheduled_pod_prepares_its_devices(claim, mirror):
    raw = {"status": {"conditions": conditions(PodScheduled="True", PodReadyToStartContainers="False")}}
    claim = hold(claim, mirror)
    mirror.pod("train", claims=["sam"], phase="Pending", node_name="node-1", raw=raw)
    found = explain(claim)
    assert found.pods[0].stage == Stage.PREPARING
    assert found.pods[0].since == datetime(2026, 11, 21, 10, tzinfo=UTC)
    assert (now(claim).key, now(claim).note, now(claim).at) == (
        "prepared", "1 pod starts", found.pods[0].since,
    )  # fmt: skip
    assert "the driver prepares them there" in found.answer.sentence
    event("train", "FailedPrepareDynamicResources", "NodePrepareResources: rpc error")
    found = explain(claim)
    assert found.answer.actor == "admin"
    assert "The driver could not prepare the devices on the node." in found.answer.sentence


def test_a_pod_with_prepared_devices_starts_its_containers(claim, mirror):
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
    status = {
        "conditions": conditions(PodScheduled="True", PodReadyToStartContainers="True"),
        "containerStatuses": [{"name": "main", "state": waiting}],
    }
    claim = hold(claim, mirror)
    mirror.pod("train", claims=["sam"], phase="Pending", node_name="node-1", raw={"status": status})
    found = explain(claim)
    assert found.pods[0].stage == Stage.STARTING
    assert found.answer.actor == "you"
    assert "The image of a container cannot be fetched." in found.answer.sentence


def test_a_running_pod_uses_its_devices_since_its_first_container_began(claim, mirror):
    state = {"running": {"startedAt": AT}}
    claim = hold(claim, mirror)
    raw = {"status": {"containerStatuses": [{"name": "main", "state": state}]}}
    mirror.pod("train", claims=["sam"], phase="Running", node_name="node-1", raw=raw)
    step = now(claim)
    assert (step.key, step.note) == ("used", "1 pod runs")
    assert step.at == datetime(2026, 11, 21, 10, tzinfo=UTC)
    assert explain(claim).troubled == []
    assert explain(claim).answer.sentence.startswith("Release the claim when its work is done.")


def test_what_is_held_by_nobody_who_is_seen_is_still_in_use(claim, mirror):
    claim = hold(claim, mirror)
    assert (now(claim).key, now(claim).note) == ("used", "")


def test_of_many_pods_those_that_wait_are_counted_and_the_first_are_shown(template, mirror, fra):
    have_devices(fra, "gpu-0")
    for number in range(5):
        spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "batch"}]}
        made = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"made-{number}"}]}
        name = f"made-{number}"
        held = [result(f"gpu-{number}")] if number < 2 else []
        mirror.claim(name, template, *held, uid=f"uid-{number}", origin="template")
        where = {"phase": "Running", "node_name": "node-1"} if number < 2 else {"phase": "Pending"}
        message = "" if number < 2 else NOTHING_FITS
        raw = {"spec": spec, "status": made}
        mirror.pod(f"train-{number}", claims=[name], templates=["batch"], raw=raw, message=message, **where)
    template = Claim.objects.get(pk=template.pk)
    found = explain(template)
    assert template.state == ClaimState.ALLOCATED
    assert found.answer.sentence.startswith("3 pods wait: train-2, train-3, train-4.")
    notes = {step.key: step.note for step in found.steps}
    assert (notes["scheduler"], notes["used"]) == ("2 devices, 3 pods wait", "2 pods run")
    assert [group.names for group in found.troubled] == ["train-2, train-3, train-4"]
    assert [(group.first.stage, group.count) for group in found.groups] == [
        (Stage.SCHEDULER, 3), (Stage.RUNNING, 2),
    ]  # fmt: skip


def test_pods_that_wait_for_different_reasons_are_told_apart(claim, mirror):
    mirror.pod("train-0", claims=["sam"], phase="Pending", message=NOTHING_FITS)
    other = "0/1 nodes are available: 1 Insufficient cpu."
    for name in ("train-1", "train-2", "train-3", "train-4", "train-5"):
        mirror.pod(name, claims=["sam"], phase="Pending", message=other)
    for number, text in enumerate(("moon", "sun", "star")):
        message = f"0/1 nodes are available: 1 {text} in the way."
        mirror.pod(f"train-8{number}", claims=["sam"], phase="Pending", message=message)
    found = explain(claim)
    assert [group.names for group in found.troubled] == [
        "train-0", "train-1, train-2, train-3 and 2 more", "train-80",
    ]  # fmt: skip
    assert found.more == 2
    assert found.fit is not None
    assert found.fit.agrees is None  # without a DeviceClass nothing can be told
    assert "The pod train-0 waits. 8 more pods wait for other reasons." in found.answer.sentence


def test_a_pod_that_others_ended_is_told_with_why(claim, mirror):
    mirror.pod("train", claims=["sam"], gone_at=timezone.now())
    event("train", "DeviceTaintManagerEviction", "Marking for deletion", warning=False)
    found = explain(claim)
    assert [view.pod.name for view in found.lost] == ["train"]
    assert found.answer.sentence.startswith(
        "The last pod, train, was ended: Kubernetes deletes the pod: a device of it is tainted"
    )
    Pod.objects.update(gone_at=timezone.now() - timedelta(hours=2))
    assert explain(claim).lost == ()


def test_a_pod_that_its_owner_ended_is_not_called_lost(claim, mirror):
    mirror.pod("train", claims=["sam"], gone_at=timezone.now())
    event("train", "Killing", "Stopping container main", warning=False)
    assert explain(claim).lost == ()


def test_a_releasing_claim_names_who_still_holds_it(claim, mirror):
    claim = hold(claim, mirror)
    mirror.pod("train", claims=["sam"], node_name="node-1")
    claim.advance(ClaimState.RELEASING, why="done")
    assert explain(claim).answer.actor == "you"
    mirror.pod("train", claims=["sam"], node_name="node-1", deleting_since=timezone.now())
    found = explain(claim)
    assert (found.answer.actor, found.pods[0].stage) == ("cluster", Stage.ENDING)
    Pod.objects.update(gone_at=timezone.now())
    ResourceClaim.objects.update(
        raw={
            "metadata": {},
            "status": {"reservedFor": [{"resource": "podgroups", "name": "gang", "uid": "g"}]},
        }
    )
    assert "still reserved for podgroups gang" in explain(claim).answer.sentence


def test_a_portal_that_may_not_read_events_says_so(claim, fra):
    assert explain(claim).hears_events
    type(fra).objects.update(missing=["list events"])
    assert not explain(Claim.objects.get(pk=claim.pk)).hears_events


def test_something_new_that_is_said_of_a_pod_moves_the_claim_on(claim, mirror):
    mirror.pod("train", claims=["sam"], phase="Pending")
    before = Claim.objects.get(pk=claim.pk).version
    row = event("train", "FailedPrepareDynamicResources", "NodePrepareResources: rpc error")
    mirror.tell("train", kind="Pod")
    after = Claim.objects.get(pk=claim.pk).version
    assert after > before
    PodEvent.objects.filter(pk=row.pk).update(count=9, last_at=timezone.now())
    mirror.tell("train", kind="Pod")
    assert Claim.objects.get(pk=claim.pk).version == after


def test_the_picture_is_held_against_what_was_said_of_devices(claim, mirror, fra):
    have_devices(fra, "gpu-0")
    other = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    mirror.pod("a", claims=["sam"], phase="Pending", message=other)
    mirror.pod("b", claims=["sam"], phase="Pending", message=NOTHING_FITS)
    found = explain(claim)
    assert found.fit is not None
    assert found.fit.agrees is False
    assert [view.pod.name for view in found.pods] == ["b", "a"]
