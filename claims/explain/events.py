"""
What Events and containers say: the claim controller (pkg/controller/resourceclaim), the eviction controllers
(pkg/controller/tainteviction, devicetainteviction) and the kubelet (pkg/kubelet/events, kubelet/cm/dra).
"""

from django.utils.translation import gettext_lazy as _

from claims.explain.meaning import means

# What Events say, as "reason: message". FailedScheduling carries the words of the scheduler.
OF_AN_EVENT = (
    means(
        r"^FailedResourceClaimCreation: .*exceeded quota: (?P<quota>[^,]+), requested: (?P<what>[^ ]+), "
        r"used: (?P<used>[^ ]+), limited: (?P<limit>[^ ]+)",
        _(
            "Kubernetes may not make the claim of the pod: the ResourceQuota %(quota)s of the namespace is "
            "used up. Asked for %(what)s, used %(used)s, limited to %(limit)s."
        ),
        "you",
        _("End other pods of the namespace, or have a platform admin raise the ResourceQuota."),
    ),
    means(
        r"^FailedResourceClaimCreation: .*template \"(?P<name>[^\"]+)\".*not found",
        _("The pod names the ResourceClaimTemplate %(name)s, which is not in its namespace."),
        "you",
        _("Name a template that exists; the pod then starts by itself."),
    ),
    means(
        r"^FailedResourceClaimCreation: .*(forbidden|denied)",
        _("A policy of the cluster does not let Kubernetes make the claim of the pod."),
        "admin",
        _("A platform admin has to look at the policy."),
    ),
    means(
        r"^FailedResourceClaimCreation: ",
        _("Kubernetes could not make the claim of the pod from its template."),
        "cluster",
        _("It goes on trying; if it goes on failing, a platform admin has to look."),
    ),
    means(
        r"^BindingConditionsPending: .*on node (?P<node>\S+)",
        _("Devices are chosen on %(node)s; their driver has to get them ready before the pod goes there."),
        "cluster",
        _("It takes up to ten minutes; then the scheduler looks for others."),
    ),
    means(
        r"^FailedPrepareDynamicResources: .*(?i:not registered|plugin name)",
        _("The DRA driver does not run on the node, so the devices cannot be prepared."),
        "admin",
        _("A platform admin has to look at the driver's pods on the node. The kubelet goes on trying."),
    ),
    means(
        r"^FailedPrepareDynamicResources: ",
        _("The driver could not prepare the devices on the node."),
        "admin",
        _("The kubelet goes on trying; if it goes on failing, a platform admin has to look at the driver."),
    ),
    means(
        r"^DeviceTaintManagerEviction: Cancelling",
        _("The pod was to be deleted because of its device, and is not any more."),
        "cluster",
        _("Nothing has to be done."),
    ),
    means(
        r"^DeviceTaintManagerEviction: ",
        _("Kubernetes deletes the pod: a device of it is tainted with NoExecute, broken or drained."),
        "you",
        _("Start the pod again: it gets another device if one is free."),
    ),
    means(
        r"^TaintManagerEviction: Cancelling",
        _("The pod was to be deleted because of its node, and is not any more."),
        "cluster",
        _("Nothing has to be done."),
    ),
    means(
        r"^TaintManagerEviction: ",
        _("Kubernetes deletes the pod: its node is tainted with NoExecute, often because it is not ready."),
        "you",
        _("Start the pod again, or let its Job do so."),
    ),
    means(
        r"^(Preempted|Preempting): ",
        _("The pod makes room for one of higher priority."),
        "you",
        _("Start the pod again: it waits until there is room."),
    ),
    means(
        r"^Evicted: ",
        _("The kubelet ended the pod because the node ran short."),
        "you",
        _("Start the pod again; let it ask for the memory and disk that it needs."),
    ),
    means(
        r"^(Failed|BackOff|ErrImageNeverPull|InspectFailed): .*(?i:image)",
        _("The image of a container cannot be fetched."),
        "you",
        _("Look at the name of the image and at the secret that fetches it."),
    ),
    means(
        r"^(FailedMount|FailedAttachVolume|FailedMapVolume): ",
        _("A volume of the pod cannot be mounted on its node."),
        "you",
        _("Look at the volumes of the pod."),
    ),
    means(
        r"^(FailedCreatePodSandBox|NetworkNotReady): ",
        _("The node could not set up the network or the sandbox of the pod."),
        "admin",
        _("The kubelet goes on trying; if it goes on failing, a platform admin has to look at the node."),
    ),
    means(
        r"^BackOff: .*restarting failed container",
        _("A container ends with an error again and again."),
        "you",
        _("Look at the log of the container."),
    ),
)

# Why a container waits: `state.waiting.reason`.
OF_A_CONTAINER = (
    means(
        r"^(ErrImagePull|ImagePullBackOff|InvalidImageName|ErrImageNeverPull)",
        _("The image of a container cannot be fetched."),
        "you",
        _("Look at the name of the image and at the secret that fetches it."),
    ),
    means(
        r"^CrashLoopBackOff",
        _("A container ends with an error again and again."),
        "you",
        _("Look at the log of the container."),
    ),
    means(
        r"^(CreateContainerConfigError|CreateContainerError|RunContainerError)",
        _("A container cannot be made: its command, a secret or a ConfigMap is not right."),
        "you",
        _("Look at the events of the pod."),
    ),
    means(
        r"^(ContainerCreating|PodInitializing)",
        _("The node fetches images and makes the containers."),
        "cluster",
        _("Nothing has to be done."),
    ),
)
