"""Every message of Kubernetes that the portal knows, and what becomes of one that it does not know."""

import json
from pathlib import Path

import pytest

from claims.claim_page.scheduler import OF_A_CONTAINER, OF_A_NODE, OF_A_POD, OF_AN_EVENT, read, tell

RECORDED = Path(__file__).parents[2] / "scheduler" / "messages.jsonl"
COMPOSITE = (
    "0/7 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu, 4 cannot allocate all "
    "claims. preemption: 0/7 nodes are available: 7 Preemption is not helpful for scheduling."
)
NODES = {
    "cannot allocate all claims": ("no set of free devices", "cluster"),
    "invalid resource pools were encountered": ("a pool that contradicts itself", "admin"),
    "resourceclaim not available on the node": ("they are on another node", "you"),
    "resourceclaim in use": ("as many pods as it may have: 256", "you"),
    "node(s) were unschedulable": ("is cordoned", "admin"),
    "node(s) had untolerated taint(s)": ("is tainted", "you"),
    "node(s) had untolerated taint {gpu: only}": ("is tainted", "you"),
    "node(s) had taints that the pod didn't tolerate": ("is tainted", "you"),
    "node(s) didn't match Pod's node affinity/selector": ("wants other nodes", "you"),
    "node(s) didn't match the requested node name": ("wants other nodes", "you"),
    "node(s) didn't match pod affinity rules": ("Where the other pods run", "you"),
    "node(s) didn't match pod anti-affinity rules": ("Where the other pods run", "you"),
    "node(s) didn't satisfy existing pods anti-affinity rules": ("Where the other pods run", "you"),
    "node(s) didn't match pod topology spread constraints": ("Where the other pods run", "you"),
    "Insufficient nvidia.com/gpu": ("not enough nvidia.com/gpu", "you"),
    "Too many pods": ("as many pods as it may have.", "cluster"),
    "node(s) didn't have free ports for the requested pod ports": ("host port", "you"),
    "node(s) exceed max volume count": ("A volume of the pod", "you"),
    "node(s) had volume node affinity conflict": ("A volume of the pod", "you"),
    "Preemption is not helpful for scheduling": ("takes no device away from a running pod", "cluster"),
    "No preemption victims found for incoming pod": ("takes no device away from a running pod", "cluster"),
}
PLUGIN = 'running "DynamicResources" filter plugin: '
PODS = {
    PLUGIN
    + "claim vision/sam: selector #0 on device gpu.nvidia.com/n/gpu-0: CEL runtime error: no such key: x": (
        "A selector of the claim vision/sam fails on the device gpu.nvidia.com/n/gpu-0",
        "admin",
    ),
    PLUGIN + "claim vision/sam: selector #0: CEL runtime error: no such key: x": (
        "A selector of the claim vision/sam fails on some device",
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
        "The claim asks for 20 + 13 devices; Kubernetes gives one claim 32 at most.",
        "you",
    ),
    PLUGIN + "number of requested devices 33 exceeds the claim limit of 32": ("which is 32", "you"),
    PLUGIN + "claim a/b, request g: asks for all devices, but resource pool d/p is currently being updated": (
        "those of the pool d/p are not known for certain",
        "cluster",
    ),
    PLUGIN
    + "claim a/b, request g: cannot add device d/p/gpu-1 because a claim constraint would not be satisfied": (
        "for all to be alike, and d/p/gpu-1 is not",
        "you",
    ),
    PLUGIN + "node n: timed out trying to allocate devices": ("gave up", "you"),
    PLUGIN + "claim a/b, request g: admin access is requested, but the feature is disabled": (
        "switched off in this cluster",
        "admin",
    ),
    "resource claim a/b is in the process of being allocated": ("just being given the claim", "cluster"),
    "deallocation of ResourceClaim completed": ("taken the devices back", "cluster"),
    'running PreBind plugin "DynamicResources": device binding timeout: claim=b': (
        "did not become ready in time",
        "cluster",
    ),
    'resourceclaim "b" is being deleted': ("The ResourceClaim b is being deleted", "you"),
    'resourceclaim.resource.k8s.io "b" not found': ("names the ResourceClaim b, which is not there", "you"),
    'pod "a/p": ResourceClaim not created yet': ("has not made the claim", "cluster"),
    "no nodes available to schedule pods": ("no node at all", "admin"),
    "Scheduling is blocked due to non-empty scheduling gates": ("scheduling gates", "cluster"),
    "pod has unbound immediate PersistentVolumeClaims": ("A volume of the pod is not there", "you"),
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
    REFUSED: ("the ResourceQuota gpus of the namespace is used up", "you"),
    'FailedResourceClaimCreation: PodResourceClaim gpu: resource claim template "batch": '
    'resourceclaimtemplate.resource.k8s.io "batch" not found': ("the ResourceClaimTemplate batch", "you"),
    "FailedResourceClaimCreation: create ResourceClaim : admission webhook denied the request": (
        "A policy of the cluster",
        "admin",
    ),
    "FailedResourceClaimCreation: PodResourceClaim gpu: something new": (
        "could not make the claim",
        "cluster",
    ),
    "FailedResourceClaimCreation: (combined from similar events): PodResourceClaim gpu: create "
    "ResourceClaim : forbidden: exceeded quota: q, requested: d=1, used: d=0, limited: d=0": (
        "the ResourceQuota q of the namespace is used up",
        "you",
    ),
    "BindingConditionsPending: waiting for binding conditions for device on node node-7": (
        "Devices are chosen on node-7",
        "cluster",
    ),
    "FailedPrepareDynamicResources: Failed to prepare dynamic resources: prepare dynamic resources: "
    "NodePrepareResources: rpc error: code = Unavailable": ("could not prepare the devices", "admin"),
    "FailedPrepareDynamicResources: Failed to prepare dynamic resources: prepare dynamic resources: "
    "DRA driver gpu.nvidia.com is not registered": ("driver does not run on the node", "admin"),
    "DeviceTaintManagerEviction: Marking for deletion": ("a device of it is tainted with NoExecute", "you"),
    "DeviceTaintManagerEviction: Cancelling deletion": ("is not any more", "cluster"),
    "TaintManagerEviction: Marking for deletion Pod a/b": ("its node is tainted with NoExecute", "you"),
    "TaintManagerEviction: Cancelling deletion of Pod a/b": ("is not any more", "cluster"),
    "Preempted: Preempted by pod x on node n": ("makes room for one of higher priority", "you"),
    "Evicted: The node was low on resource: memory.": ("the node ran short", "you"),
    'Failed: Failed to pull image "x": not found': ("cannot be fetched", "you"),
    'BackOff: Back-off pulling image "x"': ("cannot be fetched", "you"),
    "BackOff: Back-off restarting failed container main in pod x": ("ends with an error", "you"),
    'FailedMount: MountVolume.SetUp failed for volume "data"': ("cannot be mounted", "you"),
    "FailedCreatePodSandBox: Failed to create pod sandbox": ("network or the sandbox", "admin"),
}
CONTAINERS = {
    "ImagePullBackOff: Back-off pulling image": ("cannot be fetched", "you"),
    "ErrImagePull": ("cannot be fetched", "you"),
    "CrashLoopBackOff: back-off 10s": ("ends with an error", "you"),
    'CreateContainerConfigError: secret "x" not found': ("cannot be made", "you"),
    "ContainerCreating": ("makes the containers", "cluster"),
}
EVERY = [
    (table, text, *known)
    for table, all_of in (
        (OF_A_NODE, NODES), (OF_A_POD, PODS), (OF_AN_EVENT, EVENTS), (OF_A_CONTAINER, CONTAINERS),
    )
    for text, known in all_of.items()
]  # fmt: skip


@pytest.mark.parametrize(("table", "text", "means", "actor"), EVERY)
def test_a_known_message_says_what_it_means_and_who_can_do_what(table, text, means, actor):
    told = tell(text, table)
    assert means in told.means
    assert (told.text, told.actor) == (text, actor)
    assert told.then.endswith(".")
    assert "%(" not in told.means + told.then


def test_every_line_of_the_tables_is_met_by_a_message_above():
    met = {
        next(meaning.sign.pattern for meaning in table if meaning.sign.search(text))
        for table, text, *_ in EVERY
    }
    lines = {
        line.sign.pattern for table in (OF_A_NODE, OF_A_POD, OF_AN_EVENT, OF_A_CONTAINER) for line in table
    }
    assert lines == met


@pytest.mark.parametrize("table", [OF_A_NODE, OF_A_POD, OF_AN_EVENT, OF_A_CONTAINER])
def test_an_unknown_message_is_told_as_it_is(table):
    told = tell("a moon stands in the way", table)
    assert (told.text, told.means, told.actor, told.then) == ("a moon stands in the way", "", "", "")


def test_a_refused_quota_is_told_with_its_numbers():
    told = tell(REFUSED, OF_AN_EVENT)
    asked = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
    assert f"Asked for {asked}=2, used {asked}=1, limited to {asked}=2." in told.means


def test_a_composite_message_is_counted_by_reason():
    said = read(COMPOSITE)
    assert said.nodes == 7
    assert [(part.count, part.text) for part in said.parts] == [
        (4, "cannot allocate all claims"),
        (2, "Insufficient cpu"),
        (1, "node(s) were unschedulable"),
    ]
    assert (said.out_for_devices, said.out_for_other) == (4, 3)
    assert [(part.count, bool(part.means)) for part in said.preemption] == [(7, True)]
    assert said.main == said.parts[0]


def test_the_form_of_older_schedulers_is_read_too():
    said = read(
        "0/4 nodes are available: 4 cannot allocate all claims. still not schedulable, preemption: 0/4 nodes "
        "are available: 4 Preemption is not helpful for scheduling."
    )
    assert [(part.count, part.text) for part in said.parts] == [(4, "cannot allocate all claims")]
    assert said.preemption[0].means


def test_what_is_said_of_the_whole_pod_is_one_part_without_a_count():
    said = read(
        "0/134 nodes are available: request gpu: device class gpu.example.com does not exist. preemption: "
        "0/134 nodes are available: 134 Preemption is not helpful for scheduling."
    )
    ((part),) = said.parts
    assert (part.count, part.means) == (None, "The cluster has no DeviceClass gpu.example.com.")


def test_a_reason_nobody_knows_stands_beside_those_that_are_known():
    said = read("0/3 nodes are available: 1 moon in the way, 2 cannot allocate all claims.")
    assert [(part.text, bool(part.means)) for part in said.parts] == [
        ("cannot allocate all claims", True), ("moon in the way", False),
    ]  # fmt: skip


def test_no_message_has_no_parts():
    assert read("").parts == ()


def test_everything_that_a_real_scheduler_was_seen_to_say_is_known():
    said = [read(json.loads(line)["message"]) for line in RECORDED.read_text().splitlines()]
    parts = [part for one in said for part in (*one.parts, *one.preemption)]
    assert parts
    assert {part.text for part in parts if not part.means} == set()
