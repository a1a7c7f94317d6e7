"""What drivers publish, written into the mirror of a cluster without a cluster."""

from demo.controlplane import machines
from inventory import cluster_snapshot
from inventory.models import DeviceClass, Node, ResourceSlice


def mirrored(cluster, *published, nodes=()):
    """Write classes, slices and nodes into the mirror of a cluster."""
    for number, one in enumerate(machines.device_classes()):
        DeviceClass.objects.create(cluster=cluster, uid=f"c{number}", name=one["metadata"]["name"], raw=one)
    for number, one in enumerate(published):
        spec = one["spec"]
        ResourceSlice.objects.create(
            cluster=cluster, uid=f"s{number}", name=one["metadata"]["name"], raw=one,
            driver=spec["driver"], pool=spec["pool"]["name"], generation=1, pool_slices=1,
            node_name=spec["nodeName"],
        )  # fmt: skip
    for name, labels, taints in nodes:
        raw = {"metadata": {"name": name}, "spec": {"taints": taints}}
        Node.objects.create(cluster=cluster, uid=name, name=name, labels=labels, raw=raw, ready=True)
    cluster_snapshot.forget()
