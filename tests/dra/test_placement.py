"""Where pods of a claim may land: devices, nodes, their taints, and how the nodes are paid for."""

import pytest

from demo.controlplane import machines
from dra.cluster_snapshot import ClusterSnapshot
from dra.cuda import GpuCapability
from dra.placement import CapacityType, NodePricing, claim_placement, node_pricing
from dra.workload_parts import request_counts

SPOT = {"karpenter.sh/capacity-type": "spot"}
IS_H100 = "device.attributes['gpu.nvidia.com'].productName.contains('H100')"


def any_of(device_class):
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": device_class}}]}}


H100 = any_of("gpu.nvidia.com")
H100["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": IS_H100}}]


def snapshot(*nodes, slices=None):
    published = [*machines.h100("h100-a"), *machines.h100("h100-b"), *machines.a100("a100-a")]
    return ClusterSnapshot(
        classes=machines.device_classes(),
        slices=slices or [*published, *machines.mi300x("mi300x-a")],
        nodes=nodes,
    )


def node(name, labels=None, *taints, **spec):
    made = machines.node(name, **(labels or {}))
    return made | {"spec": {"taints": list(taints), **spec}}


def taint(key, effect="NoSchedule", value=""):
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


def test_only_nodes_with_matching_devices_count():
    found = claim_placement(snapshot(node("h100-a"), node("h100-b"), node("a100-a"), node("cpu-a")), H100)
    assert found.nodes == 2
    assert found.vendor == "nvidia"
    assert found.gpus == ((GpuCapability("NVIDIA H100 80GB HBM3", "13.0.0", "580.95.5", "9.0.0"), 16),)


def test_taints_and_labels_are_counted_by_node():
    found = claim_placement(
        snapshot(
            node("h100-a", SPOT, taint("spot", value="yes"), taint("gpu", "NoExecute")),
            node("h100-b", None, taint("gpu", "NoExecute"), taint("node.kubernetes.io/not-ready")),
        ),
        H100,
    )
    assert found.taints == [("gpu:NoExecute", 2), ("spot=yes:NoSchedule", 1)]
    assert found.pricings == [
        (NodePricing(CapacityType.ON_DEMAND, ""), 1),
        (NodePricing(CapacityType.SPOT, "karpenter.sh/capacity-type=spot"), 1),
    ]


@pytest.mark.parametrize(
    ("tolerated", "labels", "nodes"),
    [
        ([], None, 0),
        (["gpu:NoExecute"], None, 1),
        (["gpu:NoExecute", "spot=yes:NoSchedule"], None, 2),
        (["gpu:NoExecute", "spot=yes:NoSchedule"], [""], 1),
        (["gpu:NoExecute", "spot=yes:NoSchedule"], ["karpenter.sh/capacity-type=spot"], 1),
        (["gpu:NoExecute"], ["karpenter.sh/capacity-type=spot"], 0),
    ],
)
def test_nodes_that_take_the_pods(tolerated, labels, nodes):
    found = claim_placement(
        snapshot(
            node("h100-a", SPOT, taint("spot", value="yes"), taint("gpu", "NoExecute")),
            node("h100-b", None, taint("gpu", "NoExecute"), taint("slow", "PreferNoSchedule")),
        ),
        H100,
    )
    assert found.eligible_nodes(tolerated, labels) == nodes


def test_a_cordoned_node_takes_nothing():
    assert (
        claim_placement(snapshot(node("h100-a", None, unschedulable=True), node("h100-b")), H100).nodes == 1
    )


def test_the_maker_is_that_of_the_devices_and_amd_says_nothing_of_cuda():
    found = claim_placement(snapshot(node("mi300x-a")), any_of("gpu.amd.com"))
    assert (found.vendor, found.gpus) == ("amd", ((GpuCapability(), 8),))


def test_nothing_that_matches_is_no_maker():
    found = claim_placement(snapshot(slices=machines.example("example-a")), any_of("gpu.amd.com"))
    assert (found.vendor, found.gpus, found.nodes, found.problem) == ("", (), 0, "")


def test_a_class_that_is_not_there_and_a_selector_that_cannot_be_run_are_told():
    assert "no device class tpu.google.com" in claim_placement(snapshot(), any_of("tpu.google.com")).problem
    broken = any_of("gpu.amd.com")
    broken["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": "device.("}}]
    assert claim_placement(snapshot(), broken).problem


@pytest.mark.parametrize(
    ("label", "capacity"),
    [
        ("karpenter.sh/capacity-type=on-demand", CapacityType.ON_DEMAND),
        ("karpenter.sh/capacity-type=reserved", CapacityType.RESERVED),
        ("eks.amazonaws.com/capacityType=SPOT", CapacityType.SPOT),
        ("eks.amazonaws.com/capacityType=CAPACITY_BLOCK", CapacityType.RESERVED),
        ("cloud.google.com/gke-spot=true", CapacityType.SPOT),
        ("kubernetes.azure.com/scalesetpriority=spot", CapacityType.SPOT),
    ],
)
def test_what_labels_say_of_the_price(label, capacity):
    key, _equals, value = label.partition("=")
    assert node_pricing({key: value, "other": "x"}) == NodePricing(capacity, label)


@pytest.mark.parametrize("labels", [{}, {"cloud.google.com/gke-spot": "false"}, {"zone": "fra-1a"}])
def test_on_demand_is_assumed_where_no_label_says_otherwise(labels):
    assert node_pricing(labels) == NodePricing(CapacityType.ON_DEMAND, "")


def test_the_devices_of_each_request_where_they_are_known():
    spec = {
        "devices": {
            "requests": [
                {"name": "gpu", "exactly": {"deviceClassName": "a", "count": 4}},
                {"name": "nic", "exactly": {"deviceClassName": "b", "allocationMode": "All"}},
                {"name": "one", "firstAvailable": [{"name": "x", "count": 2}, {"name": "y", "count": 2}]},
                {"name": "two", "firstAvailable": [{"name": "x", "count": 2}, {"name": "y"}]},
            ]
        }
    }
    assert request_counts(spec) == (("gpu", 4), ("nic", None), ("one", 2), ("two", None))


def test_a_landing_is_told_with_every_figure():
    either = {"devices": {"requests": [{"name": "gpu", "firstAvailable": [
        {"name": "h", **H100["devices"]["requests"][0]["exactly"]},
        {"name": "m", "deviceClassName": "gpu.amd.com"},
    ]}]}}  # fmt: skip
    found = claim_placement(
        snapshot(
            node("h100-a", None, taint("b"), taint("a", value="x"), taint("node.kubernetes.io/not-ready")),
            node("h100-b", SPOT, taint("a", value="x"), taint("b")),
            node("a100-a"),
            node("mi300x-a", SPOT, taint("b")),
        ),
        either,
    )
    h100 = GpuCapability("NVIDIA H100 80GB HBM3", "13.0.0", "580.95.5", "9.0.0")
    on_demand, spot = (
        NodePricing(CapacityType.ON_DEMAND, ""),
        NodePricing(CapacityType.SPOT, "karpenter.sh/capacity-type=spot"),
    )
    assert (found.vendor, found.problem, found.nodes) == ("nvidia", "", 3)
    assert dict(found.gpus) == {h100: 16, GpuCapability(): 8}
    assert {(site.taints, site.pricing): number for site, number in found.node_groups} == {
        (("a=x:NoSchedule", "b:NoSchedule"), on_demand): 1,
        (("a=x:NoSchedule", "b:NoSchedule"), spot): 1,
        (("b:NoSchedule",), spot): 1,
    }
    assert found.taints == [("b:NoSchedule", 3), ("a=x:NoSchedule", 2)]
    assert found.pricings == [(on_demand, 1), (spot, 2)]
    assert [found.eligible_nodes(known, None) for known in ([], ["b:NoSchedule"], ["a=x:NoSchedule"])] == [
        0,
        1,
        0,
    ]
