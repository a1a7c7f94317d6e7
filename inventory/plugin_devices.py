"""
GPUs outside DRA: what device plugins advertise on nodes, and how many of it pods have requested.

Kubernetes knows such a GPU only as one of a number of a node (`status.capacity`): no ResourceSlice describes
it, so no claim can be allocated to it. Fleet and clusters show the sums that `inventory.counts` stores.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from dra.quota import claimed_extended_resources
from inventory.models import Node, Pod

ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class PluginDevices:
    """
    GPUs of one extended resource, on one or several nodes.

    `devices` is the capacity, `allocatable` what of it is healthy, `requested` what running pods requested.
    A plugin that shares GPUs in time advertises each of them several times.
    """

    resource: str
    nodes: int
    devices: int
    allocatable: int
    requested: int

    @property
    def unhealthy(self) -> int:
        return max(self.devices - self.allocatable, 0)


def summed(rows: Iterable[list[Any]]) -> list[PluginDevices]:
    """Return stored rows, of one cluster or several, by resource."""
    numbers: dict[str, list[int]] = {}
    for resource, *counted in rows:
        numbers[resource] = [a + b for a, b in zip(numbers.get(resource, [0] * 4), counted, strict=True)]
    return [PluginDevices(resource, *counted) for resource, counted in sorted(numbers.items())]


def of_node(node: Node) -> list[PluginDevices]:
    """Return what device plugins advertise on a node; one query for the pods, none without a plugin."""
    if not node.plugin_devices:
        return []
    pods = Pod.objects.filter(cluster=node.cluster_id, node_name=node.name)
    requested = _requested(pods, {(node.cluster_id, node.name): node.plugin_devices})
    return [
        PluginDevices(resource, 1, capacity, allocatable, requested[node.cluster_id, resource])
        for resource, (capacity, allocatable) in sorted(node.plugin_devices.items())
    ]


def count_plugin_devices(clusters: Collection[UUID]) -> dict[UUID, list[list[Any]]]:
    """Return the rows of `FleetCount.plugin_devices` by cluster, in at most two queries."""
    nodes = Node.objects.filter(cluster__in=clusters, gone_at=None).exclude(plugin_devices={}).order_by()
    advertised = {(row[0], row[1]): row[2] for row in nodes.values_list("cluster", "name", "plugin_devices")}
    if not advertised:
        return {}
    numbers: dict[tuple[UUID, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for (cluster, _name), resources in advertised.items():
        for resource, (capacity, allocatable) in resources.items():
            row = numbers[cluster, resource]
            row[0], row[1], row[2] = row[0] + 1, row[1] + capacity, row[2] + allocatable
    requested = _requested(Pod.objects.filter(cluster__in=clusters).exclude(node_name=""), advertised)
    counted: dict[UUID, list[list[Any]]] = defaultdict(list)
    for (cluster, resource), row in sorted(numbers.items()):
        counted[cluster].append([resource, *row, requested[cluster, resource]])
    return counted


def _requested(
    pods: Any, advertised: Mapping[tuple[UUID, str], Mapping[str, list[int]]]
) -> Counter[tuple[UUID, str]]:
    """
    Return how many GPUs of each resource the pods requested from device plugins of these nodes.

    Not what the scheduler created a claim for: that comes from the DRA driver of a class with this name.
    """
    status = "raw__status__extendedResourceClaimStatus"
    running = pods.filter(gone_at=None).exclude(extended={}).exclude(phase__in=ENDED).order_by()
    numbers: Counter[tuple[UUID, str]] = Counter()
    for cluster, node, extended, claimed in running.values_list("cluster", "node_name", "extended", status):
        here = advertised.get((cluster, node), {})
        served = claimed_extended_resources({"status": {"extendedResourceClaimStatus": claimed}})
        for resource, count in extended.items():
            if resource in here and resource not in served:
                numbers[cluster, resource] += count
    return numbers
