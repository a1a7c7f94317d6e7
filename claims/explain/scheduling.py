"""
What the scheduler of Kubernetes 1.34 to 1.37 says: of nodes, and of a pod as a whole.

Its words are in pkg/scheduler/framework/plugins, and those of the allocator in
k8s.io/dynamic-resource-allocation/structured.
"""

from django.utils.translation import gettext_lazy as _

from claims.explain.meaning import means

SELECTOR = _(
    "A platform admin has to mend the profile or the DeviceClass: it must ask what a device has first."
)
NEXT_TRY = _("The scheduler tries again when claims, devices or nodes change.")
POD_SPEC = _("Loosen that in the pod, if it can run on other nodes.")

# Why a node is out of the question, as the scheduler counts it: "3 cannot allocate all claims".
OF_A_NODE = (
    means(
        r"^cannot allocate all claims$",
        _("The node has no set of free devices that matches all that the claims of the pod ask for."),
        "cluster",
        NEXT_TRY,
    ),
    means(
        r"^invalid resource pools were encountered",
        _("The node's driver publishes a pool that contradicts itself, so none of it is given out."),
        "admin",
        _("A platform admin has to look at the DRA driver of the node."),
    ),
    means(
        r"^resourceclaim not available on the node$",
        _("The claim holds devices already, and they are on another node."),
        "you",
        _("End the pods that use the claim there, or let this pod run on that node."),
    ),
    means(
        r"^resourceclaim in use$",
        _("The claim has as many pods as it may have: 256."),
        "you",
        _("End a pod that uses the claim."),
    ),
    means(
        r"^node\(s\) were unschedulable$",
        _("The node is cordoned: an admin keeps new pods away."),
        "admin",
        _("A platform admin lifts the cordon when the maintenance is over."),
    ),
    means(
        r"^node\(s\) had untolerated taint|^node\(s\) had taints that the pod didn't tolerate",
        _("The node is tainted, and the pod does not tolerate it."),
        "you",
        _("Add the toleration to the pod if it may run there."),
    ),
    means(
        r"^node\(s\) didn't match (Pod's node affinity/selector|the requested node name)",
        _("The pod wants other nodes, by its node selector, affinity or node name."),
        "you",
        POD_SPEC,
    ),
    means(
        r"^node\(s\) didn't (match|satisfy) .*(affinity rules|topology spread)",
        _("Where the other pods run keeps this one away, by affinity or by how they are to be spread."),
        "you",
        POD_SPEC,
    ),
    means(
        r"^Insufficient (?P<what>\S+)$",
        _("The node has not enough %(what)s left for the pod."),
        "you",
        _("Let the pod ask for less %(what)s, or wait until other pods end."),
    ),
    means(
        r"^Too many pods$",
        _("The node has as many pods as it may have."),
        "cluster",
        NEXT_TRY,
    ),
    means(
        r"^node\(s\) didn't have free ports",
        _("Another pod of the node has the host port that this one wants."),
        "you",
        _("Take another host port, or none."),
    ),
    means(
        r"volume|persistentvolume|pvc|no available disk|free storage",
        _("A volume of the pod cannot be used on the node."),
        "you",
        _("Look at the PersistentVolumeClaims of the pod."),
    ),
    means(
        r"^Preemption is not helpful for scheduling|^No preemption victims found",
        _("Nobody is put off for it: Kubernetes takes no device away from a running pod."),
        "cluster",
        NEXT_TRY,
    ),
)

# What the scheduler says of the pod as a whole, whatever the node is.
OF_A_POD = (
    means(
        r"(?P<whose>claim|class) (?P<name>\S+): selector #\d+ on device (?P<device>\S+): CEL runtime error",
        _("A selector of the %(whose)s %(name)s fails on the device %(device)s, which stops the whole pod."),
        "admin",
        SELECTOR,
    ),
    means(  # before 1.37, which names the device
        r"(?P<whose>claim|class) (?P<name>\S+): selector #\d+: CEL runtime error",
        _("A selector of the %(whose)s %(name)s fails on some device, which stops the whole pod."),
        "admin",
        SELECTOR,
    ),
    means(
        r"(?P<whose>claim|class) (?P<name>\S+): selector #\d+: CEL compile error",
        _("A selector of the %(whose)s %(name)s is not valid CEL for this version of Kubernetes."),
        "admin",
        _("A platform admin has to mend it."),
    ),
    means(
        r"device class (?P<name>\S+) does not exist|could not retrieve device class (?P<other>[^\s:]+)",
        _("The cluster has no DeviceClass %(name)s%(other)s."),
        "admin",
        _("A platform admin has to install the driver that brings it, or to mend the profile."),
    ),
    means(
        r"adding (?P<more>\d+) devices exceeds the claim limit of (?P<most>\d+), with (?P<had>\d+) already",
        _("The claim asks for %(had)s + %(more)s devices; Kubernetes gives one claim %(most)s at most."),
        "you",
        _("Ask for fewer devices, or for several claims."),
    ),
    means(
        r"number of requested devices (?P<all>\d+) exceeds the claim limit of (?P<most>\d+)|is too large",
        _("The claim asks for more devices than Kubernetes gives to one claim, which is 32."),
        "you",
        _("Ask for fewer devices, or for several claims."),
    ),
    means(
        r"asks for all devices, but resource pool (?P<pool>\S+) is currently (being updated|invalid)",
        _("The claim asks for all devices, and those of the pool %(pool)s are not known for certain now."),
        "cluster",
        NEXT_TRY,
    ),
    means(
        r"cannot add device (?P<device>\S+) because a claim constraint would not be satisfied",
        _("The claim asks for all devices and for all to be alike, and %(device)s is not."),
        "you",
        _("Ask for a number of devices, not for all."),
    ),
    means(
        r"timed out trying to allocate devices|filter operation aborted",
        _("The scheduler gave up: it did not find in time which devices go together."),
        "you",
        _("Ask for fewer devices or with fewer constraints."),
    ),
    means(
        r"feature is disabled|requires DRA\w+ feature|unknown request type|unsupported",
        _("The claim uses a part of DRA that is switched off in this cluster."),
        "admin",
        _("A platform admin has to switch it on, or to mend the profile."),
    ),
    means(
        r"is in the process of being allocated|resourceclaim in use",
        _("Another pod is just being given the claim."),
        "cluster",
        NEXT_TRY,
    ),
    means(
        r"(deallocation|deletion) of .*ResourceClaims? completed|unreserved for PodGroup",
        _("The scheduler has taken the devices back to try others."),
        "cluster",
        NEXT_TRY,
    ),
    means(
        r"device binding (timeout|failed)|BindingConditions|binding conditions",
        _("A device was chosen and did not become ready in time; the scheduler looks for another."),
        "cluster",
        _("If it happens again, a platform admin has to look at the DRA driver."),
    ),
    means(
        r"resourceclaim \"(?P<name>[^\"]+)\" is being deleted",
        _("The ResourceClaim %(name)s is being deleted, and takes no new pod."),
        "you",
        _("Ask for a new claim, or wait until it is gone and made again."),
    ),
    means(
        r"resourceclaim\S* \"(?P<name>[^\"]+)\" not found",
        _("The pod names the ResourceClaim %(name)s, which is not there."),
        "you",
        _("Name a claim that exists."),
    ),
    means(
        r"ResourceClaim not created yet",
        _("Kubernetes has not made the claim of the pod from its template yet."),
        "cluster",
        _("It takes a second; if it does not, an event says why."),
    ),
    means(
        r"no nodes available to schedule pods",
        _("The cluster has no node at all."),
        "admin",
        _("A platform admin has to look at the nodes."),
    ),
    means(
        r"scheduling gates",
        _("The pod has scheduling gates: somebody wants to be asked before it is scheduled."),
        "cluster",
        _("Whoever set the gate, often a queue such as Kueue, takes it away when it is the pod's turn."),
    ),
    means(
        r"pods? has unbound immediate PersistentVolumeClaims|persistentvolumeclaim",
        _("A volume of the pod is not there yet."),
        "you",
        _("Look at the PersistentVolumeClaims of the pod."),
    ),
    means(
        r"skip schedule deleting pod",
        _("The pod is being deleted, so it is not scheduled any more."),
        "cluster",
        _("Nothing has to be done."),
    ),
)
