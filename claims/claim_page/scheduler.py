"""
What messages and events of Kubernetes mean, and who can do what about them.

What a message of Kubernetes means, and who can do what about it.

The tables below are data, tried in order. What no sign
matches is shown as it came.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

type Actor = Literal["you", "admin", "cluster"]


@dataclass(frozen=True, slots=True)
class Meaning:
    """`means` and `then` may name groups of `sign`, as "%(name)s"; `actor` is who can do what `then` says."""

    sign: re.Pattern[str]
    means: str
    actor: Actor
    then: str


@dataclass(frozen=True, slots=True)
class SchedulerReason:
    """
    One thing that Kubernetes said: `text` in its words, `means` in plain ones, `then` what can be done.

    `means`, `actor` and `then` are "" where the words are not known. `count` is of how many nodes it was
    said, None if of none in particular.
    """

    text: str
    means: str = ""
    actor: Actor | Literal[""] = ""
    then: str = ""
    count: int | None = None


def tell(text: str, meanings: Sequence[Meaning], *, count: int | None = None) -> SchedulerReason:
    """Look a message up."""
    for meaning in meanings:
        if found := meaning.sign.search(text):
            named = found.groupdict(default="")
            means, then = (said % named for said in (meaning.means, meaning.then))
            return SchedulerReason(text, means, meaning.actor, then, count)
    return SchedulerReason(text, count=count)


def means(sign: str, words: str, actor: Actor, then: str) -> Meaning:
    return Meaning(re.compile(sign), words, actor, then)


# What Events say, as "reason: message". FailedScheduling carries the words of the scheduler.
OF_AN_EVENT = (
    means(
        r"^FailedResourceClaimCreation: .*exceeded quota: (?P<quota>[^,]+), requested: (?P<what>[^ ]+), "
        r"used: (?P<used>[^ ]+), limited: (?P<limit>[^ ]+)",
        "Kubernetes may not make the claim of the pod: the ResourceQuota %(quota)s of the namespace is "
        "used up. Asked for %(what)s, used %(used)s, limited to %(limit)s.",
        "you",
        "End other pods of the namespace, or have a platform admin raise the ResourceQuota.",
    ),
    means(
        r"^FailedResourceClaimCreation: .*template \"(?P<name>[^\"]+)\".*not found",
        "The pod names the ResourceClaimTemplate %(name)s, which is not in its namespace.",
        "you",
        "Name a template that exists; the pod then starts by itself.",
    ),
    means(
        r"^FailedResourceClaimCreation: .*(forbidden|denied)",
        "A policy of the cluster does not let Kubernetes make the claim of the pod.",
        "admin",
        "A platform admin has to look at the policy.",
    ),
    means(
        r"^FailedResourceClaimCreation: ",
        "Kubernetes could not make the claim of the pod from its template.",
        "cluster",
        "It goes on trying; if it goes on failing, a platform admin has to look.",
    ),
    means(
        r"^BindingConditionsPending: .*on node (?P<node>\S+)",
        "Devices are chosen on %(node)s; their driver has to get them ready before the pod goes there.",
        "cluster",
        "It takes up to ten minutes; then the scheduler looks for others.",
    ),
    means(
        r"^FailedPrepareDynamicResources: .*(?i:not registered|plugin name)",
        "The DRA driver does not run on the node, so the devices cannot be prepared.",
        "admin",
        "A platform admin has to look at the driver's pods on the node. The kubelet goes on trying.",
    ),
    means(
        r"^FailedPrepareDynamicResources: ",
        "The driver could not prepare the devices on the node.",
        "admin",
        "The kubelet goes on trying; if it goes on failing, a platform admin has to look at the driver.",
    ),
    means(
        r"^DeviceTaintManagerEviction: Cancelling",
        "The pod was to be deleted because of its device, and is not any more.",
        "cluster",
        "Nothing has to be done.",
    ),
    means(
        r"^DeviceTaintManagerEviction: ",
        "Kubernetes deletes the pod: a device of it is tainted with NoExecute, broken or drained.",
        "you",
        "Start the pod again: it gets another device if one is free.",
    ),
    means(
        r"^TaintManagerEviction: Cancelling",
        "The pod was to be deleted because of its node, and is not any more.",
        "cluster",
        "Nothing has to be done.",
    ),
    means(
        r"^TaintManagerEviction: ",
        "Kubernetes deletes the pod: its node is tainted with NoExecute, often because it is not ready.",
        "you",
        "Start the pod again, or let its Job do so.",
    ),
    means(
        r"^(Preempted|Preempting): ",
        "The pod makes room for one of higher priority.",
        "you",
        "Start the pod again: it waits until there is room.",
    ),
    means(
        r"^Evicted: ",
        "The kubelet ended the pod because the node ran short.",
        "you",
        "Start the pod again; let it ask for the memory and disk that it needs.",
    ),
    means(
        r"^(Failed|BackOff|ErrImageNeverPull|InspectFailed): .*(?i:image)",
        "The image of a container cannot be fetched.",
        "you",
        "Look at the name of the image and at the secret that fetches it.",
    ),
    means(
        r"^(FailedMount|FailedAttachVolume|FailedMapVolume): ",
        "A volume of the pod cannot be mounted on its node.",
        "you",
        "Look at the volumes of the pod.",
    ),
    means(
        r"^(FailedCreatePodSandBox|NetworkNotReady): ",
        "The node could not set up the network or the sandbox of the pod.",
        "admin",
        "The kubelet goes on trying; if it goes on failing, a platform admin has to look at the node.",
    ),
    means(
        r"^BackOff: .*restarting failed container",
        "A container ends with an error again and again.",
        "you",
        "Look at the log of the container.",
    ),
)

# Why a container waits: `state.waiting.reason`.
OF_A_CONTAINER = (
    means(
        r"^(ErrImagePull|ImagePullBackOff|InvalidImageName|ErrImageNeverPull)",
        "The image of a container cannot be fetched.",
        "you",
        "Look at the name of the image and at the secret that fetches it.",
    ),
    means(
        r"^CrashLoopBackOff",
        "A container ends with an error again and again.",
        "you",
        "Look at the log of the container.",
    ),
    means(
        r"^(CreateContainerConfigError|CreateContainerError|RunContainerError)",
        "A container cannot be made: its command, a secret or a ConfigMap is not right.",
        "you",
        "Look at the events of the pod.",
    ),
    means(
        r"^(ContainerCreating|PodInitializing)",
        "The node fetches images and makes the containers.",
        "cluster",
        "Nothing has to be done.",
    ),
)


SELECTOR = "A platform admin has to mend the profile or the DeviceClass: it must ask what a device has first."
NEXT_TRY = "The scheduler tries again when claims, devices or nodes change."
POD_SPEC = "Loosen that in the pod, if it can run on other nodes."

# Why a node is out of the question, as the scheduler counts it: "3 cannot allocate all claims".
OF_A_NODE = (
    means(
        r"^cannot allocate all claims$",
        "The node has no set of free devices that matches all that the claims of the pod ask for.",
        "cluster",
        NEXT_TRY,
    ),
    means(
        r"^invalid resource pools were encountered",
        "The node's driver publishes a pool that contradicts itself, so none of it is given out.",
        "admin",
        "A platform admin has to look at the DRA driver of the node.",
    ),
    means(
        r"^resourceclaim not available on the node$",
        "The claim holds devices already, and they are on another node.",
        "you",
        "End the pods that use the claim there, or let this pod run on that node.",
    ),
    means(
        r"^resourceclaim in use$",
        "The claim has as many pods as it may have: 256.",
        "you",
        "End a pod that uses the claim.",
    ),
    means(
        r"^node\(s\) were unschedulable$",
        "The node is cordoned: an admin keeps new pods away.",
        "admin",
        "A platform admin lifts the cordon when the maintenance is over.",
    ),
    means(
        r"^node\(s\) had untolerated taint|^node\(s\) had taints that the pod didn't tolerate",
        "The node is tainted, and the pod does not tolerate it.",
        "you",
        "Add the toleration to the pod if it may run there.",
    ),
    means(
        r"^node\(s\) didn't match (Pod's node affinity/selector|the requested node name)",
        "The pod wants other nodes, by its node selector, affinity or node name.",
        "you",
        POD_SPEC,
    ),
    means(
        r"^node\(s\) didn't (match|satisfy) .*(affinity rules|topology spread)",
        "Where the other pods run keeps this one away, by affinity or by how they are to be spread.",
        "you",
        POD_SPEC,
    ),
    means(
        r"^Insufficient (?P<what>\S+)$",
        "The node has not enough %(what)s left for the pod.",
        "you",
        "Let the pod ask for less %(what)s, or wait until other pods end.",
    ),
    means(
        r"^Too many pods$",
        "The node has as many pods as it may have.",
        "cluster",
        NEXT_TRY,
    ),
    means(
        r"^node\(s\) didn't have free ports",
        "Another pod of the node has the host port that this one wants.",
        "you",
        "Take another host port, or none.",
    ),
    means(
        r"volume|persistentvolume|pvc|no available disk|free storage",
        "A volume of the pod cannot be used on the node.",
        "you",
        "Look at the PersistentVolumeClaims of the pod.",
    ),
    means(
        r"^Preemption is not helpful for scheduling|^No preemption victims found",
        "No running pod is preempted: Kubernetes takes no device away from a running pod.",
        "cluster",
        NEXT_TRY,
    ),
)

# What the scheduler says of the pod as a whole, whatever the node is.
OF_A_POD = (
    means(
        r"(?P<whose>claim|class) (?P<name>\S+): selector #\d+ on device (?P<device>\S+): CEL runtime error",
        "A selector of the %(whose)s %(name)s fails on the device %(device)s, which stops the whole pod.",
        "admin",
        SELECTOR,
    ),
    means(  # before 1.37, which names the device
        r"(?P<whose>claim|class) (?P<name>\S+): selector #\d+: CEL runtime error",
        "A selector of the %(whose)s %(name)s fails on some device, which stops the whole pod.",
        "admin",
        SELECTOR,
    ),
    means(
        r"(?P<whose>claim|class) (?P<name>\S+): selector #\d+: CEL compile error",
        "A selector of the %(whose)s %(name)s is not valid CEL for this version of Kubernetes.",
        "admin",
        "A platform admin has to mend it.",
    ),
    means(
        r"device class (?P<name>\S+) does not exist|could not retrieve device class (?P<other>[^\s:]+)",
        "The cluster has no DeviceClass %(name)s%(other)s.",
        "admin",
        "A platform admin has to install the driver that brings it, or to mend the profile.",
    ),
    means(
        r"adding (?P<more>\d+) devices exceeds the claim limit of (?P<most>\d+), with (?P<had>\d+) already",
        "The claim asks for %(had)s + %(more)s devices; Kubernetes gives one claim %(most)s at most.",
        "you",
        "Ask for fewer devices, or for several claims.",
    ),
    means(
        r"number of requested devices (?P<all>\d+) exceeds the claim limit of (?P<most>\d+)|is too large",
        "The claim asks for more devices than Kubernetes gives to one claim, which is 32.",
        "you",
        "Ask for fewer devices, or for several claims.",
    ),
    means(
        r"asks for all devices, but resource pool (?P<pool>\S+) is currently (being updated|invalid)",
        "The claim asks for all devices, and those of the pool %(pool)s are not known for certain now.",
        "cluster",
        NEXT_TRY,
    ),
    means(
        r"cannot add device (?P<device>\S+) because a claim constraint would not be satisfied",
        "The claim asks for all devices and for all to be alike, and %(device)s is not.",
        "you",
        "Ask for a number of devices, not for all.",
    ),
    means(
        r"timed out trying to allocate devices|filter operation aborted",
        "The scheduler gave up: it did not find in time which devices go together.",
        "you",
        "Ask for fewer devices or with fewer constraints.",
    ),
    means(
        r"feature is disabled|requires DRA\w+ feature|unknown request type|unsupported",
        "The claim uses a part of DRA that is switched off in this cluster.",
        "admin",
        "A platform admin has to switch it on, or to mend the profile.",
    ),
    means(
        r"is in the process of being allocated|resourceclaim in use",
        "Another pod is just being given the claim.",
        "cluster",
        NEXT_TRY,
    ),
    means(
        r"(deallocation|deletion) of .*ResourceClaims? completed|unreserved for PodGroup",
        "The scheduler has taken the devices back to try others.",
        "cluster",
        NEXT_TRY,
    ),
    means(
        r"device binding (timeout|failed)|BindingConditions|binding conditions",
        "A device was chosen and did not become ready in time; the scheduler looks for another.",
        "cluster",
        "If it happens again, a platform admin has to look at the DRA driver.",
    ),
    means(
        r"resourceclaim \"(?P<name>[^\"]+)\" is being deleted",
        "The ResourceClaim %(name)s is being deleted, and takes no new pod.",
        "you",
        "Ask for a new claim, or wait until it is gone and made again.",
    ),
    means(
        r"resourceclaim\S* \"(?P<name>[^\"]+)\" not found",
        "The pod names the ResourceClaim %(name)s, which is not there.",
        "you",
        "Name a claim that exists.",
    ),
    means(
        r"ResourceClaim not created yet",
        "Kubernetes has not made the claim of the pod from its template yet.",
        "cluster",
        "It takes a second; if it does not, an event says why.",
    ),
    means(
        r"no nodes available to schedule pods",
        "The cluster has no node at all.",
        "admin",
        "A platform admin has to look at the nodes.",
    ),
    means(
        r"scheduling gates",
        "The pod has scheduling gates: somebody wants to be asked before it is scheduled.",
        "cluster",
        "Whoever set the gate, often a queue such as Kueue, takes it away when it is the pod's turn.",
    ),
    means(
        r"pods? has unbound immediate PersistentVolumeClaims|persistentvolumeclaim",
        "A volume of the pod is not there yet.",
        "you",
        "Look at the PersistentVolumeClaims of the pod.",
    ),
    means(
        r"skip schedule deleting pod",
        "The pod is being deleted, so it is not scheduled any more.",
        "cluster",
        "Nothing has to be done.",
    ),
)


NODES = re.compile(
    r"^(?P<fit>\d+)/(?P<all>\d+) nodes are available: (?P<why>.*?)"
    r"(?:\. (?:still not schedulable, )?preemption: (?P<preemption>.*?))?\.?$",
    re.DOTALL,
)
COUNTED = re.compile(r"^(?P<count>\d+) (?P<why>.+)$", re.DOTALL)
BETWEEN = re.compile(r", (?=\d+ )")
DEVICES = re.compile(r"cannot allocate all claims|invalid resource pools|resourceclaim")


@dataclass(frozen=True, slots=True)
class SchedulerMessage:
    """
    A message of the scheduler. `nodes` is how many there are, None where the message counts none; `parts`
    are the reasons, those with the most nodes first; `preemption` is what it says of putting others off.
    """

    message: str
    nodes: int | None = None
    parts: tuple[SchedulerReason, ...] = ()
    preemption: tuple[SchedulerReason, ...] = ()

    @property
    def out_for_devices(self) -> int:
        """How many nodes are out because of devices and claims."""
        return sum(part.count or 0 for part in self.parts if DEVICES.match(part.text))

    @property
    def out_for_other(self) -> int:
        """How many nodes are out for what has nothing to do with devices."""
        return sum(part.count or 0 for part in self.parts if not DEVICES.match(part.text))

    @property
    def main(self) -> SchedulerReason | None:
        """The reason to tell first: one about devices, for others the portal can do nothing."""
        about = [part for part in self.parts if part.count is None or DEVICES.match(part.text)]
        return next(iter((*about, *self.parts)), None)


def read(message: str) -> SchedulerMessage:
    """Take a message apart; one of another form is a single part."""
    found = NODES.match(message)
    if found is None:
        return SchedulerMessage(message, parts=(tell(message, OF_A_POD),) if message else ())
    preemption = NODES.match(found["preemption"] or "")
    helpless = preemption["why"] if preemption else found["preemption"] or ""
    return SchedulerMessage(message, int(found["all"]), _parts(found["why"]), _parts(helpless))


def _parts(text: str) -> tuple[SchedulerReason, ...]:
    parts = [_part(part) for part in BETWEEN.split(text) if part]
    return tuple(sorted(parts, key=lambda part: -(part.count or 0)))


def _part(text: str) -> SchedulerReason:
    counted = COUNTED.match(text)
    if counted is None:
        return tell(text, (*OF_A_POD, *OF_A_NODE))
    return tell(counted["why"], (*OF_A_NODE, *OF_A_POD), count=int(counted["count"]))
