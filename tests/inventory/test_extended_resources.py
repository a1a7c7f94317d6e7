"""How many devices a pod asks for by extended resources."""

import random

import pytest

from inventory.models import Pod
from inventory.sync.columns import is_extended, requested_resources, trim


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


def init(count):
    return container(limits={"nvidia.com/gpu": count})


def sidecar(count):
    return init(count) | {"restartPolicy": "Always"}


SHAPES = {  # init containers, containers → GPUs
    "containers add up": ([], [init(2), init("1")], 3),
    "a larger init container": ([init(5), init(1)], [init(2), init(1)], 5),
    "smaller init containers": ([init(1), init(2)], [init(2), init(1)], 3),
    "a sidecar adds to containers": ([sidecar(1)], [init(1)], 2),
    "an init container beside an earlier sidecar": ([init(1), sidecar(1), init(2)], [init(1)], 3),
    "an init container before a sidecar": ([init(2), sidecar(1)], [init(0)], 2),
    "sidecars add up": ([sidecar(1), sidecar(2)], [], 3),
    "sidecars and a large init container between": ([sidecar(1), init(4), sidecar(2)], [init(1)], 5),
    "a sidecar and no other GPU": ([sidecar(1)], [container()], 1),
    "another restart policy": ([init(1) | {"restartPolicy": "Never"}], [init(1)], 1),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_gpus_of_a_pod_are_what_it_holds_at_its_largest_moment(shape):
    init_containers, containers, gpus = SHAPES[shape]
    spec = {"containers": containers, "initContainers": init_containers}
    assert requested_resources(spec) == {"nvidia.com/gpu": gpus}
    mirrored = trim(Pod, {"metadata": {}, "spec": spec, "status": {}})["spec"]
    assert requested_resources(mirrored) == {"nvidia.com/gpu": gpus}


@pytest.mark.parametrize("seed", range(40))
def test_gpus_of_random_pods_are_the_most_at_any_time(seed):
    chance = random.Random(seed)
    draw = [chance.choice([init, sidecar])(chance.randrange(4)) for _ in range(chance.randrange(6))]
    containers = [init(chance.randrange(3)) for _ in range(chance.randrange(1, 4))]
    now, moments = 0, []  # of the sidecars; what runs while each container starts, and in the end
    for one in draw:
        gpus = one["resources"]["limits"]["nvidia.com/gpu"]
        moments.append(now + gpus)
        now += gpus if "restartPolicy" in one else 0
    moments.append(now + sum(one["resources"]["limits"]["nvidia.com/gpu"] for one in containers))
    counted = requested_resources({"containers": containers, "initContainers": draw})
    assert counted.get("nvidia.com/gpu", 0) == max(moments)


def test_resources_are_counted_one_by_one():
    first = container(limits={"nvidia.com/gpu": 1, "cpu": "4"}, requests={"nvidia.com/gpu": 1})
    spec = {"containers": [first], "initContainers": [container(limits={"amd.com/gpu": "1"})]}
    assert requested_resources(spec) == {"nvidia.com/gpu": 1, "amd.com/gpu": 1}


def test_pod_without_devices_requests_none():
    assert requested_resources({"containers": [{"name": "a"}, container(limits={"cpu": "1"})]}) == {}
