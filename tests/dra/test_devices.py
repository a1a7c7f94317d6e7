"""Descriptions: what each driver publishes, in words that do not depend on the vendor."""

from fractions import Fraction

import pytest

from dra.devices import (
    describe,
    mig_fraction,
    model_name,
    names_product,
    partition_width,
    share,
    short_name,
)
from tests.dra.clusters import NVIDIA, gpu


def raw(name="dev-0", memory=None, **attributes):
    kinds = {str: "string", int: "int", bool: "bool"}
    listed = {key: {kinds[type(value)]: value} for key, value in attributes.items()}
    return {"name": name, "attributes": listed, "capacity": {"memory": {"value": memory}} if memory else {}}


def test_a_whole_nvidia_gpu():
    seen = describe(NVIDIA, gpu(3))
    assert (seen.product, seen.kind, seen.uuid, seen.partition) == (
        "NVIDIA H100 80GB HBM3",
        "gpu",
        "GPU-0003",
        "",
    )
    assert seen.memory_bytes == 81559 * 1024**2
    assert (seen.compute_capability, seen.driver_version) == ("9.0.0", "580.95.5")
    assert seen.fraction == 1


def test_dynamic_mig_has_a_parent_and_no_uuid(manifests):
    devices = manifests["ResourceSlice/node-b-devices"]["spec"]["devices"]
    seen = describe(NVIDIA, devices[1])
    assert (seen.kind, seen.partition, seen.uuid) == ("mig", "1g.5gb", "")
    assert seen.parent_uuid == "GPU-2fa81118-5a5f-aa66-7660-471eed407182"
    assert seen.fraction == Fraction(1, 7)
    assert describe(NVIDIA, devices[0]).fraction == 1


@pytest.mark.parametrize(
    ("driver", "device", "expected"),
    [
        (
            "gpu.amd.com",
            raw(type="amdgpu", productName="AMD Instinct MI300X", driverVersion="6.10.5", memory="192Gi"),
            ("AMD Instinct MI300X", "gpu", "", "", 192 * 1024**3),
        ),
        (
            "gpu.amd.com",
            raw(
                type="amdgpu-partition",
                productName="AMD Instinct MI300X",
                partitionProfile="cpx_nps4",
                memory="0",
            ),
            ("AMD Instinct MI300X", "partition", "cpx_nps4", "", None),
        ),
        (
            "gpu.intel.com",
            raw(model="Max 1550", type="gpu", memory="128Gi"),
            ("Max 1550", "gpu", "", "", 128 * 1024**3),
        ),
        ("gaudi.intel.com", raw(model="Gaudi3", serial="S1"), ("Gaudi3", "gaudi", "", "S1", None)),
        ("tpu.google.com", raw(tpuGen="v5litepod", uuid="T1"), ("v5litepod", "tpu", "", "T1", None)),
        (
            "gpu.example.com",
            raw(model="LATEST-GPU-MODEL", uuid="E1", index=0, memory="80Gi"),
            ("LATEST-GPU-MODEL", "gpu", "", "E1", 80 * 1024**3),
        ),
        ("dra.net", raw(ifName="eth1", mac="00:11:22:33:44:55"), ("eth1", "nic", "", "", None)),
        ("acme.example", raw(model="Rocket"), ("Rocket", "device", "", "", None)),
        ("acme.example", {"name": "thing-7"}, ("thing-7", "device", "", "", None)),
    ],
)
def test_other_vendors_and_unknown_ones(driver, device, expected):
    seen = describe(driver, device)
    assert (seen.product, seen.kind, seen.partition, seen.uuid, seen.memory_bytes) == expected


def test_vfio_devices_give_their_memory_under_another_name():
    device = raw(type="vfio", productName="NVIDIA L40S") | {
        "capacity": {"addressableMemory": {"value": "48Gi"}}
    }
    assert describe(NVIDIA, device).memory_bytes == 48 * 1024**3
    assert describe(NVIDIA, device).kind == "vfio"


def test_what_is_malformed_is_unknown():
    device = gpu(
        0, memory="lots", attributes={"productName": {"future": 1}, "driverVersion": {"version": "new"}}
    )
    seen = describe(NVIDIA, device)
    assert (seen.product, seen.memory_bytes, seen.driver_version) == ("gpu-0", None, "")


def test_full_names_count_like_bare_ones():
    assert describe(NVIDIA, {"attributes": {"gpu.nvidia.com/productName": {"string": "X"}}}).product == "X"


@pytest.mark.parametrize(
    ("profile", "product", "part"),
    [
        ("1g.5gb", "NVIDIA A100-SXM4-40GB", Fraction(1, 7)),
        ("1g.10gb", "NVIDIA A100-SXM4-40GB", Fraction(2, 8)),
        ("1g.10gb", "NVIDIA A100-SXM4-80GB", Fraction(1, 7)),
        ("1g.10gb", "NVIDIA H100 80GB HBM3", Fraction(1, 7)),
        ("1g.10gb+me", "NVIDIA H100 80GB HBM3", Fraction(1, 7)),
        ("1g.20gb", "NVIDIA H100 80GB HBM3", Fraction(2, 8)),
        ("2g.20gb", "NVIDIA H100 80GB HBM3", Fraction(2, 7)),
        ("3g.40gb", "NVIDIA H100 80GB HBM3", Fraction(1, 2)),
        ("4g.40gb", "NVIDIA H100 80GB HBM3", Fraction(4, 7)),
        ("7g.80gb", "NVIDIA H100 80GB HBM3", Fraction(1)),
        ("3g.47gb", "NVIDIA H100 NVL", Fraction(1, 2)),
        ("1g.35gb", "NVIDIA H200", Fraction(2, 8)),
        ("1g.18gb", "NVIDIA H200", Fraction(1, 7)),
        ("1g.24gb", "NVIDIA GH200 480GB", Fraction(2, 8)),
        ("1g.47gb", "NVIDIA GB200", Fraction(2, 8)),
        ("2g.12gb", "NVIDIA A30", Fraction(1, 2)),
        ("4g.96gb", "NVIDIA RTX PRO 6000 Blackwell Server Edition", Fraction(1)),
        ("3g.71gb", "some GPU", Fraction(1, 2)),
        ("1c.3g.20gb", "NVIDIA A100-SXM4-40GB", Fraction(1, 6)),
        ("cpx_nps4", "AMD Instinct MI300X", None),
        ("", "NVIDIA H100 80GB HBM3", None),
    ],
)
def test_a_mig_device_is_the_larger_of_its_parts_of_compute_and_memory(profile, product, part):
    assert mig_fraction(profile, product, {}) == part


def test_full_layouts_cost_one_gpu():
    h100 = "NVIDIA H100 80GB HBM3"
    one, two, three = (mig_fraction(profile, h100, {}) for profile in ("1g.10gb", "2g.20gb", "3g.40gb"))
    assert one * 7 == three * 2 == two * 3 + one == 1


def test_memory_slices_that_the_driver_publishes_beat_the_table():
    static = {"capacity": {f"memorySlice{number}": {"value": "1"} for number in range(4)}}
    dynamic = {
        "consumesCounters": [
            {"counters": {"memory-slice-2": {"value": "1"}, "memory-slice-3": {"value": "1"}}}
        ]
    }
    assert mig_fraction("1g.99gb", "NVIDIA H900", static) == Fraction(4, 8)
    assert mig_fraction("1g.99gb", "NVIDIA H900", dynamic) == Fraction(2, 8)


def test_an_amd_partition_is_its_part_of_eight_dies():
    assert describe("gpu.amd.com", raw(partitionProfile="cpx_nps4")).fraction == Fraction(1, 8)
    assert describe("gpu.amd.com", raw(computePartition="DPX")).fraction == Fraction(1, 2)
    assert describe("gpu.amd.com", raw(partitionProfile="spx_nps1")).fraction == 1


def test_a_share_is_the_largest_part_of_what_it_consumes():
    device = {"capacity": {"memory": {"value": "40Gi"}, "shares": {"value": "10"}}}
    assert share(device, {"memory": "10Gi"}) == Fraction(1, 4)
    assert share(device, {"memory": "10Gi", "shares": "5"}) == Fraction(1, 2)
    assert share(device, {}) == 1
    assert share(device, {"unknown": "5"}) == 1
    assert share(device, {"memory": "80Gi"}) == 1


@pytest.mark.parametrize(
    ("partition", "width"),
    [("3g.40gb", 3), ("1c.7g.80gb", 7), ("2g.20gb+me", 2), ("", 1), ("dpx_nps1", 1), ("9g.1gb", 1)],
)
def test_partition_is_as_wide_as_its_compute_slices(partition, width):
    assert partition_width(partition) == width


@pytest.mark.parametrize(
    ("product", "short"),
    [
        ("NVIDIA H200", "H200"),
        ("Tesla T4", "T4"),
        ("NVIDIA Tesla T4", "T4"),
        ("AMD Instinct MI300X", "MI300X"),
        ("AMD Radeon", "Radeon"),
        ("Intel Max 1550", "Max 1550"),
        ("Intel® Data Center GPU Flex 170", "Flex 170"),
        ("Instinctive 1", "Instinctive 1"),
        ("NVIDIA", "NVIDIA"),
        ("Other", "Other"),
        ("", ""),
    ],
)
def test_short_name_has_no_brand(product, short):
    assert short_name(product) == short


@pytest.mark.parametrize(
    ("name", "product", "meant"),
    [
        ("", "anything", True),
        ("H100", "NVIDIA H100 80GB HBM3", True),
        ("nvidia h100", "NVIDIA H100 80GB HBM3", True),
        ("H100 80GB", "NVIDIA H100 80GB HBM3", True),
        ("H100 80GB", "NVIDIA H100 NVL", False),
        ("NVIDIA Tesla T4", "Tesla T4", True),
        ("A100", "NVIDIA A100-SXM4-80GB", True),
        ("A100 80GB", "NVIDIA A100-SXM4-80GB", True),
        ("A100 80GB", "NVIDIA A100-SXM4-40GB", False),
        ("A100 80GB SXM4", "NVIDIA A100-SXM4-80GB", False),
        ("L4", "NVIDIA L40S", False),
        ("L40S", "NVIDIA L40S", True),
        ("L4", "NVIDIA L4", True),
        ("80GB", "NVIDIA H100 80GB HBM3", False),
        ("H100 8", "NVIDIA H100 80GB HBM3", False),
        ("H100", "", False),
        ("MI300X", "AMD Instinct MI300X", True),
        ("MI300X", "AMD Instinct MI300A", False),
        ("AMD", "AMD Instinct MI300X", True),
        ("AMD", "NVIDIA H100 80GB HBM3", False),
        ("AMD Instinct", "AMD Radeon", False),
    ],
)
def test_name_means_products_that_begin_with_its_words(name, product, meant):
    assert names_product(name, product) is meant


@pytest.mark.parametrize(
    ("product", "model"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 NVL", "H100"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA A100-PCIE-40GB", "A100"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada Generation"),
        ("NVIDIA L40S", "L40S"),
        ("AMD Instinct MI300X", "MI300X"),
    ],
)
def test_model_name_has_neither_memory_nor_form_factor(product, model):
    assert model_name(product) == model
