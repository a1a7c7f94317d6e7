"""The meaning of every known message of Kubernetes, and what happens to an unknown one."""

import json
from pathlib import Path

import pytest

from claims.claim_page.scheduler import (
    CONTAINER_RULES,
    EVENT_RULES,
    NODE_RULES,
    POD_RULES,
    diagnose,
    parse_message,
)

RECORDED = Path(__file__).parents[2] / "scheduler" / "messages.jsonl"
COMPOSITE = (
    "0/7 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu, 4 cannot allocate all "
    "claims. preemption: 0/7 nodes are available: 7 Preemption is not helpful for scheduling."
)
NODES = {
    "cannot allocate all claims": ("does not have enough free devices", "cluster"),
    "invalid resource pools were encountered": ("an inconsistent pool", "admin"),
    "resourceclaim not available on the node": ("holds devices on another node", "you"),
    "resourceclaim in use": ("limit of 256 pods", "you"),
    "node(s) were unschedulable": ("is cordoned", "admin"),
    "node(s) had untolerated taint(s)": ("has a taint", "you"),
    "node(s) had untolerated taint {gpu: only}": ("has a taint", "you"),
    "node(s) had taints that the pod didn't tolerate": ("has a taint", "you"),
    "node(s) didn't match Pod's node affinity/selector": ("excludes the node", "you"),
    "node(s) didn't match the requested node name": ("excludes the node", "you"),
    "node(s) didn't match pod affinity rules": ("topology spread constraints exclude", "you"),
    "node(s) didn't match pod anti-affinity rules": ("topology spread constraints exclude", "you"),
    "node(s) didn't satisfy existing pods anti-affinity rules": (
        "topology spread constraints exclude",
        "you",
    ),
    "node(s) didn't match pod topology spread constraints": ("topology spread constraints exclude", "you"),
    "Insufficient nvidia.com/gpu": ("does not have enough nvidia.com/gpu", "you"),
    "Too many pods": ("its limit of pods", "cluster"),
    "node(s) didn't have free ports for the requested pod ports": ("host port", "you"),
    "node(s) exceed max volume count": ("A volume of the pod", "you"),
    "node(s) had volume node affinity conflict": ("A volume of the pod", "you"),
    "Preemption is not helpful for scheduling": ("does not take devices from a running pod", "cluster"),
    "No preemption victims found for incoming pod": ("does not take devices from a running pod", "cluster"),
}
PLUGIN = 'running "DynamicResources" filter plugin: '
PODS = {
    PLUGIN
    + "claim vision/sam: selector #0 on device gpu.nvidia.com/n/gpu-0: CEL runtime error: no such key: x": (
        "A selector of the claim vision/sam fails on the device gpu.nvidia.com/n/gpu-0",
        "admin",
    ),
    PLUGIN + "claim vision/sam: selector #0: CEL runtime error: no such key: x": (
        "A selector of the claim vision/sam fails on a device",
        "admin",
    ),
    PLUGIN + "class gpu: selector #1: CEL compile error: ERROR: <input>:1:1": (
        "A selector of the class gpu is not valid CEL",
        "admin",
    ),
    "request gpu: device class gpu.example.com does not exist": (
        "The cluster has no DeviceClass gpu.example.com.",
        "admin",
    ),
    PLUGIN + "claim a/b, request g: could not retrieve device class gpu.example.com: lister: gone": (
        "The cluster has no DeviceClass gpu.example.com.",
        "admin",
    ),
    PLUGIN
    + "claim a, request g: adding 13 devices exceeds the claim limit of 32, with 20 already accounted for": (
        "The claim requests 20 + 13 devices. Kubernetes allows at most 32 per claim.",
        "you",
    ),
    PLUGIN + "number of requested devices 33 exceeds the claim limit of 32": ("at most 32 per claim", "you"),
    PLUGIN + "claim a/b, request g: asks for all devices, but resource pool d/p is currently being updated": (
        "the devices of pool d/p are not fully known",
        "cluster",
    ),
    PLUGIN
    + "claim a/b, request g: cannot add device d/p/gpu-1 because a claim constraint would not be satisfied": (
        "d/p/gpu-1 violates one of its constraints",
        "you",
    ),
    PLUGIN + "node n: timed out trying to allocate devices": ("gave up", "you"),
    PLUGIN + "claim a/b, request g: admin access is requested, but the feature is disabled": (
        "disabled in this cluster",
        "admin",
    ),
    "resource claim a/b is in the process of being allocated": ("being allocated to another pod", "cluster"),
    "deallocation of ResourceClaim completed": ("released the devices", "cluster"),
    'running PreBind plugin "DynamicResources": device binding timeout: claim=b': (
        "did not become ready in time",
        "cluster",
    ),
    'resourceclaim "b" is being deleted': ("The ResourceClaim b is being deleted", "you"),
    'resourceclaim.resource.k8s.io "b" not found': (
        "refers to the ResourceClaim b, which does not exist",
        "you",
    ),
    'pod "a/p": ResourceClaim not created yet': ("has not created the pod's claim", "cluster"),
    "no nodes available to schedule pods": ("no nodes", "admin"),
    "Scheduling is blocked due to non-empty scheduling gates": ("scheduling gates", "cluster"),
    "pod has unbound immediate PersistentVolumeClaims": ("A volume of the pod does not exist", "you"),
    "skip schedule deleting pod: a/b": ("is being deleted", "cluster"),
}
REFUSED = (
    "FailedResourceClaimCreation: PodResourceClaim gpu: create ResourceClaim : "
    'resourceclaims.resource.k8s.io "train-gpu-x7" is forbidden: exceeded quota: gpus, requested: '
    "gpu.nvidia.com.deviceclass.resource.k8s.io/devices=2, used: "
    "gpu.nvidia.com.deviceclass.resource.k8s.io/devices=1, limited: "
    "gpu.nvidia.com.deviceclass.resource.k8s.io/devices=2"
)
EVENTS = {
    REFUSED: ("the ResourceQuota gpus of the namespace is exhausted", "you"),
    'FailedResourceClaimCreation: PodResourceClaim gpu: resource claim template "batch": '
    'resourceclaimtemplate.resource.k8s.io "batch" not found': ("the ResourceClaimTemplate batch", "you"),
    "FailedResourceClaimCreation: create ResourceClaim : admission webhook denied the request": (
        "A policy of the cluster",
        "admin",
    ),
    "FailedResourceClaimCreation: PodResourceClaim gpu: something new": (
        "could not create the pod's claim",
        "cluster",
    ),
    "FailedResourceClaimCreation: (combined from similar events): PodResourceClaim gpu: create "
    "ResourceClaim : forbidden: exceeded quota: q, requested: d=1, used: d=0, limited: d=0": (
        "the ResourceQuota q of the namespace is exhausted",
        "you",
    ),
    "BindingConditionsPending: waiting for binding conditions for device on node node-7": (
        "chosen devices on node-7",
        "cluster",
    ),
    "FailedPrepareDynamicResources: Failed to prepare dynamic resources: prepare dynamic resources: "
    "NodePrepareResources: rpc error: code = Unavailable": ("could not prepare the devices", "admin"),
    "FailedPrepareDynamicResources: Failed to prepare dynamic resources: prepare dynamic resources: "
    "DRA driver gpu.nvidia.com is not registered": ("driver does not run on the node", "admin"),
    "DeviceTaintManagerEviction: Marking for deletion": ("one of its devices has a NoExecute taint", "you"),
    "DeviceTaintManagerEviction: Cancelling deletion": ("no longer does", "cluster"),
    "TaintManagerEviction: Marking for deletion Pod a/b": ("its node has a NoExecute taint", "you"),
    "TaintManagerEviction: Cancelling deletion of Pod a/b": ("no longer does", "cluster"),
    "Preempted: Preempted by pod x on node n": ("preempted this one", "you"),
    "Evicted: The node was low on resource: memory.": ("the node ran out of memory or disk", "you"),
    'Failed: Failed to pull image "x": not found': ("cannot be pulled", "you"),
    'BackOff: Back-off pulling image "x"': ("cannot be pulled", "you"),
    "BackOff: Back-off restarting failed container main in pod x": ("fails and restarts", "you"),
    'FailedMount: MountVolume.SetUp failed for volume "data"': ("cannot be mounted", "you"),
    "FailedCreatePodSandBox: Failed to create pod sandbox": ("network or the sandbox", "admin"),
}
CONTAINERS = {
    "ImagePullBackOff: Back-off pulling image": ("cannot be pulled", "you"),
    "ErrImagePull": ("cannot be pulled", "you"),
    "CrashLoopBackOff: back-off 10s": ("fails and restarts", "you"),
    'CreateContainerConfigError: secret "x" not found': ("cannot be created", "you"),
    "ContainerCreating": ("creates the containers", "cluster"),
}
EVERY = [
    (table, text, *known)
    for table, all_of in (
        (NODE_RULES, NODES), (POD_RULES, PODS), (EVENT_RULES, EVENTS), (CONTAINER_RULES, CONTAINERS),
    )
    for text, known in all_of.items()
]  # fmt: skip


@pytest.mark.parametrize(("table", "text", "means", "actor"), EVERY)
def test_known_message_has_meaning_and_actor(table, text, means, actor):
    diagnosis = diagnose(text, table)
    assert means in diagnosis.meaning
    assert (diagnosis.text, diagnosis.actor) == (text, actor)
    assert diagnosis.next_step.endswith(".")
    assert "%(" not in diagnosis.meaning + diagnosis.next_step


def test_every_rule_matches_a_message():
    met = {
        next(meaning.pattern.pattern for meaning in table if meaning.pattern.search(text))
        for table, text, *_ in EVERY
    }
    lines = {
        rule.pattern.pattern
        for table in (NODE_RULES, POD_RULES, EVENT_RULES, CONTAINER_RULES)
        for rule in table
    }
    assert lines == met


@pytest.mark.parametrize("table", [NODE_RULES, POD_RULES, EVENT_RULES, CONTAINER_RULES])
def test_unknown_message_is_shown_unchanged(table):
    diagnosis = diagnose("a moon stands in the way", table)
    assert (diagnosis.text, diagnosis.meaning, diagnosis.actor, diagnosis.next_step) == (
        "a moon stands in the way",
        "",
        "",
        "",
    )


def test_exceeded_quota_shows_its_numbers():
    diagnosis = diagnose(REFUSED, EVENT_RULES)
    resource = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
    assert f"Requested: {resource}=2; used: {resource}=1; limit: {resource}=2." in diagnosis.meaning


def test_scheduler_message_is_split_by_reason():
    message = parse_message(COMPOSITE)
    assert message.nodes == 7
    assert [(reason.count, reason.text) for reason in message.reasons] == [
        (4, "cannot allocate all claims"),
        (2, "Insufficient cpu"),
        (1, "node(s) were unschedulable"),
    ]
    assert (message.nodes_without_devices, message.nodes_out_for_other_reasons) == (4, 3)
    assert [(reason.count, bool(reason.meaning)) for reason in message.preemption] == [(7, True)]
    assert message.main_reason == message.reasons[0]


def test_message_of_older_schedulers_is_parsed():
    message = parse_message(
        "0/4 nodes are available: 4 cannot allocate all claims. still not schedulable, preemption: 0/4 nodes "
        "are available: 4 Preemption is not helpful for scheduling."
    )
    assert [(reason.count, reason.text) for reason in message.reasons] == [(4, "cannot allocate all claims")]
    assert message.preemption[0].meaning


def test_message_about_pod_is_one_reason_without_count():
    message = parse_message(
        "0/134 nodes are available: request gpu: device class gpu.example.com does not exist. preemption: "
        "0/134 nodes are available: 134 Preemption is not helpful for scheduling."
    )
    (reason,) = message.reasons
    assert (reason.count, reason.meaning) == (None, "The cluster has no DeviceClass gpu.example.com.")


def test_unknown_reason_is_kept_beside_known_ones():
    message = parse_message("0/3 nodes are available: 1 moon in the way, 2 cannot allocate all claims.")
    assert [(reason.text, bool(reason.meaning)) for reason in message.reasons] == [
        ("cannot allocate all claims", True), ("moon in the way", False),
    ]  # fmt: skip


def test_empty_message_has_no_reasons():
    assert parse_message("").reasons == ()


def test_recorded_scheduler_messages_are_all_known():
    messages = [parse_message(json.loads(line)["message"]) for line in RECORDED.read_text().splitlines()]
    reasons = [reason for message in messages for reason in (*message.reasons, *message.preemption)]
    assert reasons
    assert {reason.text for reason in reasons if not reason.meaning} == set()
