"""
What messages of the scheduler, Events and container states mean, and who can do what about them.

The tables are data, tried in order. A message that no pattern matches is shown unchanged.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

type Actor = Literal["person", "you", "pod-owner", "portal", "cluster", "admin", "nobody"]


@dataclass(frozen=True, slots=True)
class MessageRule:
    """`meaning` and `next_step` may name groups of `pattern`, as "%(name)s"; `actor` takes the next step."""

    pattern: re.Pattern[str]
    meaning: str
    actor: Actor
    next_step: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """
    One message of Kubernetes (`text`), its meaning in plain words, and what can be done about it.

    `meaning`, `actor` and `next_step` are "" for an unknown message. `count` is the number of nodes it is
    about, None if it is not about nodes.
    """

    text: str
    meaning: str = ""
    actor: Actor | Literal[""] = ""
    next_step: str = ""
    count: int | None = None


def diagnose(text: str, rules: Sequence[MessageRule], *, count: int | None = None) -> Diagnosis:
    """Return the diagnosis of the first rule that matches; one without a meaning if none does."""
    for message_rule in rules:
        if match := message_rule.pattern.search(text):
            names = match.groupdict(default="")
            meaning, next_step = message_rule.meaning % names, message_rule.next_step % names
            return Diagnosis(text, meaning, message_rule.actor, next_step, count)
    return Diagnosis(text, count=count)


def rule(pattern: str, meaning: str, actor: Actor, next_step: str) -> MessageRule:
    return MessageRule(re.compile(pattern), meaning, actor, next_step)


NO_ACTION = "No action is needed."

# Events, as "reason: message". FailedScheduling is missing: it repeats the message of the scheduler.
EVENT_RULES = (
    rule(
        r"^FailedResourceClaimCreation: .*exceeded quota: (?P<quota>[^,]+), requested: (?P<what>[^ ]+), "
        r"used: (?P<used>[^ ]+), limited: (?P<limit>[^ ]+)",
        "Kubernetes may not create the pod's claim: the ResourceQuota %(quota)s of the namespace is "
        "exhausted. Requested: %(what)s; used: %(used)s; limit: %(limit)s.",
        "you",
        "Stop other pods of the namespace, or ask a platform admin to raise the ResourceQuota.",
    ),
    rule(
        r"^FailedResourceClaimCreation: .*template \"(?P<name>[^\"]+)\".*not found",
        "The pod refers to the ResourceClaimTemplate %(name)s, which its namespace does not have.",
        "you",
        "Create that template, or start the pod with one that exists.",
    ),
    rule(
        r"^FailedResourceClaimCreation: .*(forbidden|denied)",
        "A policy of the cluster does not let Kubernetes create the pod's claim.",
        "admin",
        "A platform admin has to check the policy.",
    ),
    rule(
        r"^FailedResourceClaimCreation: ",
        "Kubernetes could not create the pod's claim from its template.",
        "cluster",
        "It tries again. If it keeps failing, tell a platform admin.",
    ),
    rule(
        r"^BindingConditionsPending: .*on node (?P<node>\S+)",
        "The scheduler has chosen devices on %(node)s. Their driver must make them ready before the pod is "
        "bound to the node.",
        "cluster",
        "If they are not ready after ten minutes, the scheduler looks for other devices.",
    ),
    rule(
        r"^FailedPrepareDynamicResources: .*(?i:not registered|plugin name)",
        "The DRA driver does not run on the node, so it cannot prepare the devices.",
        "admin",
        "A platform admin has to check the driver's pods on the node. The kubelet tries again.",
    ),
    rule(
        r"^FailedPrepareDynamicResources: ",
        "The driver could not prepare the devices on the node.",
        "admin",
        "The kubelet tries again. If it keeps failing, a platform admin has to check the driver.",
    ),
    rule(
        r"^DeviceTaintManagerEviction: Cancelling",
        "Kubernetes planned to delete the pod because of a taint on its device, and no longer does.",
        "cluster",
        NO_ACTION,
    ),
    rule(
        r"^DeviceTaintManagerEviction: ",
        "Kubernetes deletes the pod: one of its devices has a NoExecute taint (broken or drained).",
        "you",
        "Start the pod again. It gets another device if one is free.",
    ),
    rule(
        r"^TaintManagerEviction: Cancelling",
        "Kubernetes planned to delete the pod because of a taint on its node, and no longer does.",
        "cluster",
        NO_ACTION,
    ),
    rule(
        r"^TaintManagerEviction: ",
        "Kubernetes deletes the pod: its node has a NoExecute taint, often because it is not ready.",
        "you",
        "Start the pod again, unless its Job does.",
    ),
    rule(
        r"^(Preempted|Preempting): ",
        "A pod of higher priority preempted this one.",
        "you",
        "Start the pod again. It waits until there is room.",
    ),
    rule(
        r"^Evicted: ",
        "The kubelet evicted the pod because the node ran out of memory or disk.",
        "you",
        "Start the pod again with requests for the memory and disk that it needs.",
    ),
    rule(
        r"^(Failed|BackOff|ErrImageNeverPull|InspectFailed): .*(?i:image)",
        "The image of a container cannot be pulled.",
        "you",
        "Check the name of the image and the pull secret.",
    ),
    rule(
        r"^(FailedMount|FailedAttachVolume|FailedMapVolume): ",
        "A volume of the pod cannot be mounted on its node.",
        "you",
        "Check the volumes of the pod.",
    ),
    rule(
        r"^(FailedCreatePodSandBox|NetworkNotReady): ",
        "The node could not set up the network or the sandbox of the pod.",
        "admin",
        "The kubelet tries again. If it keeps failing, a platform admin has to check the node.",
    ),
    rule(
        r"^BackOff: .*restarting failed container",
        "A container fails and restarts repeatedly.",
        "you",
        "Check the log of the container.",
    ),
)

# Reasons why a container waits: `state.waiting.reason`.
CONTAINER_RULES = (
    rule(
        r"^(ErrImagePull|ImagePullBackOff|InvalidImageName|ErrImageNeverPull)",
        "The image of a container cannot be pulled.",
        "you",
        "Check the name of the image and the pull secret.",
    ),
    rule(
        r"^CrashLoopBackOff",
        "A container fails and restarts repeatedly.",
        "you",
        "Check the log of the container.",
    ),
    rule(
        r"^(CreateContainerConfigError|CreateContainerError|RunContainerError)",
        "A container cannot be created: its command, a Secret or a ConfigMap is wrong.",
        "you",
        "Check the events of the pod.",
    ),
    rule(
        r"^(ContainerCreating|PodInitializing)",
        "The node pulls images and creates the containers.",
        "cluster",
        NO_ACTION,
    ),
)


FIX_SELECTOR = (
    "A platform admin has to fix the profile or the DeviceClass: the selector must test that an attribute "
    "exists before it reads it."
)
RETRIES = "The scheduler tries again when claims, devices or nodes change."
LOOSEN_POD = "Relax this in the pod's spec if it can run on other nodes."

# Reasons why the scheduler excludes nodes, with their number: "3 cannot allocate all claims".
NODE_RULES = (
    rule(
        r"^cannot allocate all claims$",
        "The node does not have enough free devices that match the pod's claims.",
        "cluster",
        RETRIES,
    ),
    rule(
        r"^invalid resource pools were encountered",
        "The node's driver publishes an inconsistent pool, so none of its devices are allocated.",
        "admin",
        "A platform admin has to check the DRA driver of the node.",
    ),
    rule(
        r"^resourceclaim not available on the node$",
        "The claim already holds devices on another node.",
        "you",
        "Stop the pods that use the claim there, or let this pod run on that node.",
    ),
    rule(
        r"^resourceclaim in use$",
        "The claim has reached its limit of 256 pods.",
        "you",
        "Stop a pod that uses the claim.",
    ),
    rule(
        r"^node\(s\) were unschedulable$",
        "The node is cordoned, so it accepts no new pods.",
        "admin",
        "A platform admin uncordons the node after maintenance.",
    ),
    rule(
        r"^node\(s\) had untolerated taint|^node\(s\) had taints that the pod didn't tolerate",
        "The node has a taint that the pod does not tolerate.",
        "you",
        "Add a toleration to the pod if it may run there.",
    ),
    rule(
        r"^node\(s\) didn't match (Pod's node affinity/selector|the requested node name)",
        "The pod's node selector, node affinity or node name excludes the node.",
        "you",
        LOOSEN_POD,
    ),
    rule(
        r"^node\(s\) didn't (match|satisfy) .*(affinity rules|topology spread)",
        "Pod affinity, anti-affinity or topology spread constraints exclude the node.",
        "you",
        LOOSEN_POD,
    ),
    rule(
        r"^Insufficient (?P<what>\S+)$",
        "The node does not have enough %(what)s left for the pod.",
        "you",
        "Request less %(what)s in the pod, or wait until other pods end.",
    ),
    rule(
        r"^Too many pods$",
        "The node has reached its limit of pods.",
        "cluster",
        RETRIES,
    ),
    rule(
        r"^node\(s\) didn't have free ports",
        "Another pod on the node uses the host port that this pod needs.",
        "you",
        "Use another host port, or none.",
    ),
    rule(
        r"volume|persistentvolume|pvc|no available disk|free storage",
        "A volume of the pod cannot be used on the node.",
        "you",
        "Check the PersistentVolumeClaims of the pod.",
    ),
    rule(
        r"^Preemption is not helpful for scheduling|^No preemption victims found",
        "No running pod is preempted: Kubernetes does not take devices from a running pod.",
        "cluster",
        RETRIES,
    ),
)

# Messages of the scheduler about the pod, not about a node.
POD_RULES = (
    rule(
        r"(?P<whose>claim|class) (?P<name>\S+): selector #\d+ on device (?P<device>\S+): CEL runtime error",
        "A selector of the %(whose)s %(name)s fails on the device %(device)s, which blocks the pod.",
        "admin",
        FIX_SELECTOR,
    ),
    rule(  # Kubernetes before 1.37, which does not name the device
        r"(?P<whose>claim|class) (?P<name>\S+): selector #\d+: CEL runtime error",
        "A selector of the %(whose)s %(name)s fails on a device, which blocks the pod.",
        "admin",
        FIX_SELECTOR,
    ),
    rule(
        r"(?P<whose>claim|class) (?P<name>\S+): selector #\d+: CEL compile error",
        "A selector of the %(whose)s %(name)s is not valid CEL for this version of Kubernetes.",
        "admin",
        "A platform admin has to fix it.",
    ),
    rule(
        r"device class (?P<name>\S+) does not exist|could not retrieve device class (?P<other>[^\s:]+)",
        "The cluster has no DeviceClass %(name)s%(other)s.",
        "admin",
        "A platform admin has to install the driver that provides it, or fix the profile.",
    ),
    rule(
        r"adding (?P<more>\d+) devices exceeds the claim limit of (?P<most>\d+), with (?P<had>\d+) already",
        "The claim requests %(had)s + %(more)s devices. Kubernetes allows at most %(most)s per claim.",
        "you",
        "Request fewer devices, or several claims.",
    ),
    rule(
        r"number of requested devices (?P<all>\d+) exceeds the claim limit of (?P<most>\d+)|is too large",
        "The claim requests too many devices. Kubernetes allows at most 32 per claim.",
        "you",
        "Request fewer devices, or several claims.",
    ),
    rule(
        r"asks for all devices, but resource pool (?P<pool>\S+) is currently (being updated|invalid)",
        "The claim requests all devices, and the devices of pool %(pool)s are not fully known now.",
        "cluster",
        RETRIES,
    ),
    rule(
        r"cannot add device (?P<device>\S+) because a claim constraint would not be satisfied",
        "The claim requests all devices, and %(device)s violates one of its constraints.",
        "you",
        "Request a number of devices instead of all.",
    ),
    rule(
        r"timed out trying to allocate devices|filter operation aborted",
        "The scheduler did not find a valid set of devices in time and gave up.",
        "you",
        "Request fewer devices or fewer constraints.",
    ),
    rule(
        r"feature is disabled|requires DRA\w+ feature|unknown request type|unsupported",
        "The claim uses a DRA feature that is disabled in this cluster.",
        "admin",
        "A platform admin has to enable it, or fix the profile.",
    ),
    rule(
        r"is in the process of being allocated|resourceclaim in use",
        "The claim is being allocated to another pod.",
        "cluster",
        RETRIES,
    ),
    rule(
        r"(deallocation|deletion) of .*ResourceClaims? completed|unreserved for PodGroup",
        "The scheduler has released the devices to try others.",
        "cluster",
        RETRIES,
    ),
    rule(
        r"device binding (timeout|failed)|BindingConditions|binding conditions",
        "A chosen device did not become ready in time. The scheduler looks for another.",
        "cluster",
        "If this happens again, tell a platform admin to check the DRA driver.",
    ),
    rule(
        r"resourceclaim \"(?P<name>[^\"]+)\" is being deleted",
        "The ResourceClaim %(name)s is being deleted and accepts no new pod.",
        "you",
        "Request a new claim, or wait until this one is deleted and created again.",
    ),
    rule(
        r"resourceclaim\S* \"(?P<name>[^\"]+)\" not found",
        "The pod refers to the ResourceClaim %(name)s, which does not exist.",
        "you",
        "Refer to a claim that exists.",
    ),
    rule(
        r"ResourceClaim not created yet",
        "Kubernetes has not created the pod's claim from its template yet.",
        "cluster",
        "This takes a second. If it fails, an event of the pod says why.",
    ),
    rule(
        r"no nodes available to schedule pods",
        "The cluster has no nodes.",
        "admin",
        "A platform admin has to check the nodes.",
    ),
    rule(
        r"scheduling gates",
        "The pod has scheduling gates, so it is not scheduled yet.",
        "cluster",
        "The controller that set the gate, often a queue such as Kueue, removes it at the pod's turn.",
    ),
    rule(
        r"pods? has unbound immediate PersistentVolumeClaims|persistentvolumeclaim",
        "A volume of the pod does not exist yet.",
        "you",
        "Check the PersistentVolumeClaims of the pod.",
    ),
    rule(
        r"skip schedule deleting pod",
        "The pod is being deleted, so it is no longer scheduled.",
        "cluster",
        NO_ACTION,
    ),
)


NODES_MESSAGE = re.compile(
    r"^(?P<fit>\d+)/(?P<all>\d+) nodes are available: (?P<why>.*?)"
    r"(?:\. (?:still not schedulable, )?preemption: (?P<preemption>.*?))?\.?$",
    re.DOTALL,
)
COUNTED_REASON = re.compile(r"^(?P<count>\d+) (?P<why>.+)$", re.DOTALL)
REASON_SEPARATOR = re.compile(r", (?=\d+ )")
DEVICE_REASON = re.compile(r"cannot allocate all claims|invalid resource pools|resourceclaim")


@dataclass(frozen=True, slots=True)
class SchedulerMessage:
    """
    A parsed message of the scheduler.

    `nodes` is the number of nodes in the cluster, None for a message that is not about nodes. `reasons` start
    with the one that excludes the most nodes. `preemption` says why no other pod is preempted.
    """

    message: str
    nodes: int | None = None
    reasons: tuple[Diagnosis, ...] = ()
    preemption: tuple[Diagnosis, ...] = ()

    @property
    def nodes_without_devices(self) -> int:
        """Return how many nodes are excluded because of devices or claims."""
        return sum(reason.count or 0 for reason in self.reasons if DEVICE_REASON.match(reason.text))

    @property
    def nodes_out_for_other_reasons(self) -> int:
        """Return how many nodes are excluded for reasons other than devices and claims."""
        return sum(reason.count or 0 for reason in self.reasons if not DEVICE_REASON.match(reason.text))

    @property
    def main_reason(self) -> Diagnosis | None:
        """Return the reason to show first: one about devices or about the pod, else that of most nodes."""
        about = [
            reason for reason in self.reasons if reason.count is None or DEVICE_REASON.match(reason.text)
        ]
        return next(iter((*about, *self.reasons)), None)


def parse_message(message: str) -> SchedulerMessage:
    """Split a message into its reasons; a message of another form is a single reason."""
    match = NODES_MESSAGE.match(message)
    if match is None:
        return SchedulerMessage(message, reasons=(diagnose(message, POD_RULES),) if message else ())
    nested = NODES_MESSAGE.match(match["preemption"] or "")
    preemption = nested["why"] if nested else match["preemption"] or ""
    return SchedulerMessage(
        message, int(match["all"]), parse_reasons(match["why"]), parse_reasons(preemption)
    )


def parse_reasons(text: str) -> tuple[Diagnosis, ...]:
    reasons = [parse_reason(reason) for reason in REASON_SEPARATOR.split(text) if reason]
    return tuple(sorted(reasons, key=lambda reason: -(reason.count or 0)))


def parse_reason(text: str) -> Diagnosis:
    counted = COUNTED_REASON.match(text)
    if counted is None:
        return diagnose(text, (*POD_RULES, *NODE_RULES))
    return diagnose(counted["why"], (*NODE_RULES, *POD_RULES), count=int(counted["count"]))
