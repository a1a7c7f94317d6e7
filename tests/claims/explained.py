"""What tests of explanations put into the mirror."""

from django.utils import timezone

from claims.claim_page.explain import explain
from claims.models import Claim
from claims.states import ClaimState
from inventory.models import DeviceClass, Node, Pod, PodEvent, ResourceSlice
from tests.claims.mirror import Mirror, result
from tests.factories import make_claim

NOTHING_FITS = (
    "0/1 nodes are available: 1 cannot allocate all claims. preemption: 0/1 nodes are available: 1 "
    "Preemption is not helpful for scheduling."
)
AT = "2026-11-21T10:00:00Z"


def delivered(*args, **fields):
    """Make a claim that is written, and let the mirror show its object."""
    uid = "uid-t" if fields.get("delivery") == "template" else "uid-1"
    claim = make_claim(*args, state=ClaimState.PROVISIONED, object_uid=uid, **fields)
    mirror = Mirror(claim.cluster)
    if claim.delivery == "template":
        mirror.template(claim)
    else:
        mirror.claim(claim.name, claim)
    return Claim.objects.get(pk=claim.pk)


def have_devices(cluster, *names, node="node-1"):
    """Let the mirror have a ready node with these GPUs."""
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    # A snapshot that was read before reads what is newer than its revision.
    revision = type(cluster).objects.get(pk=cluster.pk).revision + 1
    common = {"cluster": cluster, "revision": revision}
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
        defaults={"raw": {"metadata": {"name": "gpu.nvidia.com"}, "spec": {}}, "revision": revision},
    )  # fmt: skip
    type(cluster).objects.filter(pk=cluster.pk).update(revision=revision)


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


def hold(claim, mirror, *names):
    mirror.claim("sam", claim, *(result(name) for name in names or ("gpu-0",)))
    return Claim.objects.get(pk=claim.pk)


def waits_for_claim(mirror, claim, name="train-0"):
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": claim.name}]}
    mirror.pod(name, templates=[claim.name], phase="Pending", raw={"spec": spec, "status": {}})
