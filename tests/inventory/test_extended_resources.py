"""How many devices a pod asks for by extended resources."""

import pytest

from inventory.sync.columns import is_extended, requested_resources


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/mig-1g.10gb.me", True),
        ("gpu.intel.com/xe", True),
        ("deviceclass.resource.kubernetes.io/gpu.nvidia.com", True),
        ("cpu", False),
        ("memory", False),
        ("hugepages-2Mi", False),
        ("attachable-volumes-csi.example.org", False),
        ("kubernetes.io/batch-cpu", False),
        ("node.kubernetes.io/x", False),
    ],
)
def test_a_resource_is_extended_by_the_domain_of_its_name(name, extended):
    assert is_extended(name) == extended


def container(**wanted):
    return {"resources": {"limits": wanted.get("limits", {}), "requests": wanted.get("requests", {})}}


def test_containers_add_up_and_the_largest_init_container_counts_beside_them():
    spec = {
        "containers": [
            container(limits={"nvidia.com/gpu": "2", "cpu": "4"}),
            container(limits={"nvidia.com/gpu": 1}, requests={"nvidia.com/gpu": 1}),
        ],
        "initContainers": [
            container(limits={"nvidia.com/gpu": "5"}),
            container(limits={"nvidia.com/gpu": "1", "amd.com/gpu": "1"}),
        ],
    }
    assert requested_resources(spec) == {"nvidia.com/gpu": 5, "amd.com/gpu": 1}


def test_pod_without_devices_requests_none():
    assert requested_resources({"containers": [{"name": "a"}, container(limits={"cpu": "1"})]}) == {}
