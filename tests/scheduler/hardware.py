"""Machines with devices that each preset must refuse and devices that it gets, as drivers publish them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from demo.controlplane.machines import (
    NVIDIA,
    PCI,
    device_class,
    device_classes,
    h100,
    mi300x,
    nvidia_attributes,
    resource_slice,
    stable_uuid,
)
from tests.scheduler.scenario import Json

INTEL, GAUDI, TPU, NET = "gpu.intel.com", "gaudi.intel.com", "tpu.google.com", "dra.net"
BROKEN = {"key": "example.com/broken", "effect": "NoSchedule"}
# product → architecture, compute capability, memory as published
PRODUCTS = {
    "NVIDIA H100 80GB HBM3": ("Hopper", "9.0.0", "81559Mi"),
    "NVIDIA A100-SXM4-80GB": ("Ampere", "8.0.0", "81920Mi"),
    "NVIDIA L40S": ("Ada Lovelace", "8.9.0", "46068Mi"),
    "NVIDIA L4": ("Ada Lovelace", "8.9.0", "23034Mi"),
    "Quadro RTX 8000": ("Turing", "7.5.0", "49152Mi"),
    "Tesla T4": ("Turing", "7.5.0", "15360Mi"),
}
H100, A100, L40S, L4, RTX8000, T4 = PRODUCTS
# (GPU, profile, start, memory): only the last GPU has both a large and a small partition.
CUT = (
    (0, "3g.40gb", 0, "40192Mi"),
    (1, "1g.10gb", 0, "9856Mi"),
    (2, "3g.40gb", 0, "40192Mi"),
    (2, "1g.10gb", 4, "9856Mi"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A preset on a machine, and the names of the devices that it gets there."""

    preset: str
    machine: Callable[[str], list[Json]]  # name of the node → its slices
    gets: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.preset}-{getattr(self.machine, '__name__', '').replace('_', '-')}"


def classes() -> list[Json]:
    """Return the classes beyond those that every test cluster has."""
    return [
        device_class(INTEL, f"device.driver == '{INTEL}'"),
        device_class(GAUDI, f"device.driver == '{GAUDI}'"),
        device_class(TPU, f"device.driver == '{TPU}'"),
        device_class("dranet", f"device.driver == '{NET}'"),
    ]


def every_class() -> list[Json]:
    return [*device_classes(), *classes()]


def gpus(node: str, *products: str) -> list[Json]:
    """Return one slice of GPUs, two on each PCIe root."""
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": nvidia_attributes(node, number, product, *PRODUCTS[product][:2]),
            "capacity": {"memory": {"value": PRODUCTS[product][2]}},
        }
        for number, product in enumerate(products)
    ]
    return [resource_slice(NVIDIA, node, devices=devices)]


def devices_of(slices: Sequence[Json]) -> list[Json]:
    return [device for one in slices for device in one["spec"]["devices"]]


def eight_h100(node: str) -> list[Json]:
    return h100(node)


def one_of_eight_is_broken(node: str) -> list[Json]:
    """The first root has one sound GPU left, so a pair is on the second."""
    slices = h100(node)
    devices_of(slices)[0]["taints"] = [BROKEN]
    return slices


def nvswitch_partitions(node: str) -> list[Json]:
    """Two partitions of four; the first lacks a sound GPU."""
    slices = one_of_eight_is_broken(node)
    for number, device in enumerate(devices_of(slices)):
        device["attributes"] |= {f"partition{size}": {"string": f"{number // size}"} for size in (2, 4, 8)}
    return slices


def l40s_and_h100(node: str) -> list[Json]:
    return gpus(node, L40S, H100)


def t4_and_l4(node: str) -> list[Json]:
    return gpus(node, T4, L4)


def l40s_and_a100(node: str) -> list[Json]:
    return gpus(node, L40S, L40S, A100)


def three_l40s(node: str) -> list[Json]:
    """Only the last two are on one root."""
    slices = gpus(node, L40S, L40S, L40S, L40S)
    del slices[0]["spec"]["devices"][0]
    return slices


def old_small_and_fit(node: str) -> list[Json]:
    """Enough memory but too old, young but too small, and both right."""
    return gpus(node, RTX8000, L4, L40S)


def shareable(node: str) -> list[Json]:
    """The first GPU is had as a whole only; the second in steps of memory."""
    slices = gpus(node, L40S, L40S)
    device = devices_of(slices)[1]
    policy = {"default": "46068Mi", "validRange": {"min": "1Mi", "max": "46068Mi", "step": "1Mi"}}
    device["allowMultipleAllocations"] = True
    device["capacity"]["memory"]["requestPolicy"] = policy
    return slices


def cut_by_hand(node: str) -> list[Json]:
    devices = [
        {
            "name": f"gpu-{gpu}-mig-{profile.replace('.', '')}-{start}",
            "attributes": {
                **nvidia_attributes(node, gpu, A100, "Ampere", "8.0.0"),
                "type": {"string": "mig"},
                "profile": {"string": profile},
                "uuid": {"string": f"MIG-{stable_uuid(node, gpu, profile, start)}"},
                "parentUUID": {"string": f"GPU-{stable_uuid(node, gpu)}"},
            },
            "capacity": {"memory": {"value": memory}},
        }
        for gpu, profile, start, memory in CUT
    ]
    return [resource_slice(NVIDIA, node, devices=devices)]


def nics_beside_gpus(node: str) -> list[Json]:
    """A NIC without RDMA is on the root of the first two GPUs, one with it on that of the others."""
    cards = gpus(node, H100, H100, H100, H100)
    roots = [device["attributes"][f"{PCI}pcieRoot"] for device in devices_of(cards)]
    nics = [
        {
            "name": f"nic-{number}",
            "attributes": {
                "ifName": {"string": f"eth{number}"},
                "rdma": {"bool": rdma},
                f"{PCI}pcieRoot": root,
            },
        }
        for number, (rdma, root) in enumerate(((False, roots[0]), (True, roots[2])))
    ]
    return [*cards, resource_slice(NET, node, devices=nics)]


def first_of_unknown_memory(node: str) -> list[Json]:
    slices = mi300x(node)
    devices_of(slices)[0]["capacity"]["memory"] = {"value": "0"}
    return slices


def intel(node: str) -> list[Json]:
    devices = [
        {
            "name": f"card{number}",
            "attributes": {
                "model": {"string": "Data Center GPU Flex 170"},
                "family": {"string": "Data Center GPU Flex"},
                "driver": {"string": "i915"},
                "sriov": {"bool": False},
                f"{PCI}pcieRoot": {"string": f"pci0000:{number:02}"},
            },
            "capacity": {"millicores": {"value": "1000"}},
        }
        for number in range(2)
    ]
    return [resource_slice(INTEL, node, devices=devices)]


def gaudi(node: str) -> list[Json]:
    """The first accelerator reports that it is not healthy."""
    devices = [
        {
            "name": f"accel{number}",
            "attributes": {
                "model": {"string": "Gaudi3"},
                "serial": {"string": f"{node}-{number}"},
                "healthy": {"bool": number > 0},
            },
        }
        for number in range(2)
    ]
    return [resource_slice(GAUDI, node, devices=devices)]


def tpu(node: str) -> list[Json]:
    devices = [
        {
            "name": f"chip-{number}",
            "attributes": {
                "accelerator": {"string": "tpu-v6e-slice"},
                "tpuGen": {"string": "v6e"},
                "topology": {"string": "2x2"},
                "chipCount": {"int": 4},
                "index": {"int": number},
                "uuid": {"string": f"{stable_uuid(node, number)}"},
            },
        }
        for number in range(4)
    ]
    return [resource_slice(TPU, node, devices=devices)]


EIGHT = tuple(f"gpu-{number}" for number in range(8))
CASES = (
    Case("train-pcie", one_of_eight_is_broken, ("gpu-2", "gpu-3")),
    Case("train-nvswitch", nvswitch_partitions, ("gpu-4", "gpu-5", "gpu-6", "gpu-7")),
    Case("fine-tune", l40s_and_h100, ("gpu-1",)),
    Case("batch-inference", t4_and_l4, ("gpu-1",)),
    Case("real-time-inference", t4_and_l4, ("gpu-1",)),
    Case("real-time-share", shareable, ("gpu-1",)),
    Case("notebook-mig", cut_by_hand, ("gpu-1-mig-1g10gb-0",)),
    Case("notebook-share", shareable, ("gpu-1",)),
    Case("mig-mix", cut_by_hand, ("gpu-2-mig-3g40gb-0", "gpu-2-mig-1g10gb-4")),
    Case("any-large", l40s_and_h100, ("gpu-1",)),
    Case("any-large", l40s_and_a100, ("gpu-2",)),
    Case("any-large", three_l40s, ("gpu-2", "gpu-3")),
    Case("gpu-with-nic", nics_beside_gpus, ("gpu-2", "nic-1")),
    Case("whole-node", eight_h100, EIGHT),
    Case("time-slicing", eight_h100, ("gpu-0",)),
    Case("mps", eight_h100, ("gpu-0",)),
    Case("amd-instinct", first_of_unknown_memory, ("gpu-1-129",)),
    Case("intel-gpu", intel, ("card0",)),
    Case("intel-gaudi", gaudi, ("accel1",)),
    Case("tpu-host", tpu, ("chip-0", "chip-1", "chip-2", "chip-3")),
    Case("any-40g", old_small_and_fit, ("gpu-2",)),
    Case("gpu-monitoring", one_of_eight_is_broken, EIGHT),
)
