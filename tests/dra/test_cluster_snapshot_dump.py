"""A picture from a dump: lists in lists, lists without the kind of their items, and what is left out."""

import pytest

from dra.cluster_snapshot import EmptyDumpError, flatten_lists, snapshot_from_dump
from tests.dra.clusters import device_class, gpu, holds, node, resource_slice


def test_every_kind_of_a_dump_goes_to_its_place():
    rule = {
        "metadata": {"name": "drain"},
        "spec": {"deviceSelector": {}, "taint": {"key": "k", "effect": "None"}},
    }
    seen = snapshot_from_dump(
        [
            {
                "kind": "ResourceSliceList",
                "items": [resource_slice("b", [gpu(0)]), resource_slice("a", [gpu(1)])],
            },
            {"kind": "List", "items": [node("a") | {"kind": "Node"}, {"kind": "Pod"}, "text"]},
            {"kind": "DeviceClassList", "items": [device_class()]},
            holds("gpu-1", pool="a") | {"kind": "ResourceClaim"},
            rule | {"kind": "DeviceTaintRule"},
            {"items": [{"kind": "List", "items": [node("b") | {"kind": "Node"}]}]},
            None,
            7,
        ]
    )
    assert [device.name for device in seen.devices] == ["gpu-1", "gpu-0"]
    assert [device.name for device in seen.free] == ["gpu-0"]
    assert [one["metadata"]["name"] for one in seen.nodes] == ["a", "b"]
    assert list(seen.class_by_name) == ["gpu.nvidia.com"]
    assert [taint.source for taint in seen.taints[0]] == ["drain"]


def test_items_keep_the_kind_that_they_name():
    listed = {"kind": "NodeList", "items": [{"a": 1}, {"kind": "Own"}, 3]}
    assert list(flatten_lists([listed, {"kind": "Pod"}])) == [
        {"kind": "Node", "a": 1},
        {"kind": "Own"},
        {"kind": "Pod"},
    ]


@pytest.mark.parametrize("documents", [[], [{"kind": "Pod"}], [{"kind": "ResourceSliceList", "items": []}]])
def test_a_dump_without_devices_is_none(documents):
    with pytest.raises(EmptyDumpError, match="contains no ResourceSlice"):
        snapshot_from_dump(documents)
