"""How many devices match a preset."""

import pytest

from claims.catalogue.presets import presets
from claims.catalogue.presets.matches import matching_devices
from dra.cluster_snapshot import ClusterSnapshot
from tests.factories import make_spec
from tests.scheduler.hardware import CASES, every_class

SPECS = {entry.slug: entry.spec for entry in presets()}


def snapshot(*presets_of_machines):
    slices = [one for case in CASES if case.preset in presets_of_machines for one in case.machine(case.name)]
    return ClusterSnapshot(classes=every_class(), slices=slices)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_devices_of_the_matching_cluster_are_counted(case):
    assert matching_devices(snapshot(case.preset), SPECS[case.preset]) >= len(case.gets)


@pytest.mark.parametrize(
    ("preset", "machine", "count"),
    [
        ("train-nvswitch", "train-nvswitch", 8),
        ("train-nvswitch", "whole-node", 0),  # no device has the attribute of the constraint
        ("gpu-with-nic", "gpu-with-nic", 5),  # four GPUs, and the NIC with RDMA
        ("gpu-with-nic", "whole-node", 0),  # no NIC at all
        ("mig-mix", "mig-mix", 4),
        ("real-time-share", "whole-node", 0),
        ("tpu-host", "whole-node", 0),
    ],
)
def test_preset_with_a_request_that_matches_nothing_counts_0(preset, machine, count):
    assert matching_devices(snapshot(machine), SPECS[preset]) == count


def test_missing_class_counts_0():
    assert matching_devices(ClusterSnapshot(classes=[], slices=[]), SPECS["mps"]) == 0


@pytest.mark.parametrize(
    "expression",
    ["cidr('10.0.0.0/8').containsIP(device.driver)", 'device.attributes["gpu.nvidia.com"].missing == "x"'],
)
def test_selector_that_cannot_be_evaluated_is_unknown(expression):
    assert (
        matching_devices(snapshot("mps"), make_spec(selectors=[{"cel": {"expression": expression}}])) is None
    )
