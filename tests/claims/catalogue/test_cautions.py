"""Cautions: driver features that a spec needs and the portal cannot see."""

from typing import Any

import pytest

from claims.catalogue.sharing import cautions
from tests.factories import make_spec


def with_sharing(kind: str, **sharing: object) -> dict[str, Any]:
    spec = make_spec()
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": kind, "sharing": sharing}
    spec["devices"]["config"] = [{"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}]
    return spec


def with_selector(expression: str) -> dict[str, Any]:
    return make_spec(selectors=[{"cel": {"expression": expression}}])


def with_constraint(attribute: str) -> dict[str, Any]:
    spec = make_spec(2)
    spec["devices"]["constraints"] = [{"matchAttribute": attribute}]
    return spec


@pytest.mark.parametrize(
    ("spec", "gate"),
    [
        (with_sharing("GpuConfig", strategy="TimeSlicing"), "TimeSlicingSettings"),
        (with_sharing("GpuConfig", strategy="MPS"), "MPSSupport"),
        (with_sharing("MigDeviceConfig", strategy="MPS"), "MPSSupport"),
        (make_spec(capacity={"requests": {"memory": "10Gi"}}), "ConsumableShares"),
        (with_selector("device.allowMultipleAllocations"), "ConsumableShares"),
        (with_constraint("gpu.nvidia.com/partition2"), "FabricManagerPartitioning"),
        (
            with_selector('device.attributes["gpu.nvidia.com"].?partition8.orValue("") == "3"'),
            "FabricManager",
        ),
        (make_spec(device_class="mig.nvidia.com"), "DynamicMIG"),
        (make_spec(device_class="vfio.gpu.nvidia.com"), "PassthroughSupport"),
    ],
)
def test_caution_names_the_feature_gate(spec, gate):
    (sentence,) = cautions(spec)
    assert gate in sentence
    assert "alpha, off by default" in sentence


@pytest.mark.parametrize(
    ("spec", "like_it"),
    [
        (make_spec(), make_spec(device_class="mig.nvidia.com")),
        (
            with_constraint("resource.kubernetes.io/pcieRoot"),
            with_constraint("gpu.nvidia.com/partition2"),
        ),
        (
            make_spec(device_class="gpu.amd.com", capacity={"requests": {"memory": "10Gi"}}),
            make_spec(device_class="gpu.nvidia.com", capacity={"requests": {"memory": "10Gi"}}),
        ),
        (
            with_selector('device.attributes["gpu.nvidia.com"].?productName.orValue("") == "NVIDIA L4"'),
            with_selector('device.attributes["gpu.nvidia.com"].?partition8.orValue("") == "NVIDIA L4"'),
        ),
    ],
)
def test_similar_spec_without_a_gate_has_no_caution(spec, like_it):
    assert cautions(spec) == []
    assert len(cautions(like_it)) == 1


def test_time_slicing_of_a_mig_device_has_no_effect():
    assert cautions(with_sharing("MigDeviceConfig", strategy="TimeSlicing")) == [
        "Time-slicing settings have no effect on MIG devices."
    ]


def test_caution_of_several_alternatives_appears_once():
    either: list[dict[str, Any]] = [
        {"name": name, "deviceClassName": "mig.nvidia.com", "selectors": []} for name in ("large", "small")
    ]
    spec = {"devices": {"requests": [{"name": "gpu", "firstAvailable": either}]}}
    assert len(cautions(spec)) == 1


def test_setting_of_another_driver_has_no_caution():
    spec = with_sharing("GpuConfig", strategy="MPS")
    assert len(cautions(spec)) == 1
    spec["devices"]["config"][0]["opaque"]["driver"] = "gpu.example.com"
    assert cautions(spec) == []
