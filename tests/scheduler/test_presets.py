"""
Every preset, on machines with devices that it must refuse and devices that it gets: predicted, then
scheduled.
"""

from collections.abc import Iterator

import pytest

from claims.catalogue.presets import presets
from demo.controlplane.client import Client
from dra.cluster_snapshot import ClusterSnapshot
from dra.lint import NamedSpec, Severity, lint
from tests.scheduler.checks import assert_scheduled_as_predicted
from tests.scheduler.hardware import CASES, Case, classes, every_class
from tests.scheduler.runner import Outcome, delete_all, run_scenarios
from tests.scheduler.scenario import Scenario

PRESETS = {entry.slug: entry for entry in presets()}
NAMES = [case.name for case in CASES]


def preset_scenario(case: Case) -> Scenario:
    """Put a preset on its own node. A second pod shares what can be shared."""
    entry = PRESETS[case.preset]
    scenario = Scenario(case.name)
    requested = entry.spec["devices"]
    if case.preset == "gpu-monitoring":
        scenario.allow_admin_access()
    scenario.node()
    for manifest in case.machine(scenario.name):
        manifest["metadata"]["labels"] = {"situation": scenario.name}
        scenario.objects.append(manifest)
    other_parts = {key: value for key, value in requested.items() if key != "requests"}
    (scenario.claim if "claim" in entry.limits.deliveries else scenario.template)(
        "claim", *requested["requests"], **other_parts
    )
    if case.preset == "gpu-monitoring":  # it sees what others hold
        scenario.claim("theirs", scenario.exactly(1, class_name="gpu.nvidia.com"))
        scenario.pod("theirs", name="holder", gets=["gpu-1"], earlier=True)
    if case.preset == "real-time-inference":
        scenario.pod("claim", name="replica", gets=case.gets, earlier=True)
    scenario.pod("claim", gets=case.gets)
    return scenario


@pytest.fixture(scope="module")
def outcomes(controlplane) -> Iterator[dict[str, list[Outcome]]]:
    """All presets, each on its node, all at once."""
    client: Client = controlplane.client()
    for device_class in classes():
        client.apply(
            device_class | {"metadata": device_class["metadata"] | {"labels": {"situation": "presets"}}}
        )
    try:
        yield run_scenarios(client, [preset_scenario(case) for case in CASES])
    finally:
        delete_all(client)


@pytest.mark.controlplane
@pytest.mark.parametrize("name", NAMES)
def test_scheduler_allocates_presets_as_predicted(outcomes, name):
    (outcome,) = outcomes[name]
    assert_scheduled_as_predicted(outcome)


@pytest.mark.controlplane
@pytest.mark.parametrize("preset", ["time-slicing", "mps"])
def test_settings_of_the_driver_stand_in_the_allocation(outcomes, preset):
    (outcome,) = outcomes[f"{preset}-eight-h100"]
    (config,) = outcome.allocations[0]["devices"]["config"]
    assert config["source"] == "FromClaim"
    assert config["opaque"] == PRESETS[preset].spec["devices"]["config"][0]["opaque"]


@pytest.mark.controlplane
@pytest.mark.parametrize(("preset", "memory"), [("real-time-share", "20Gi"), ("notebook-share", "8Gi")])
def test_share_gets_the_requested_capacity(outcomes, preset, memory):
    (outcome,) = outcomes[f"{preset}-shareable"]
    (result,) = outcome.allocations[0]["devices"]["results"]
    assert result["consumedCapacity"] == {"memory": memory}
    assert result["shareID"]


@pytest.mark.controlplane
def test_admin_access_takes_nothing_away(outcomes):
    (outcome,) = outcomes["gpu-monitoring-one-of-eight-is-broken"]
    assert all(result["adminAccess"] for result in outcome.allocations[0]["devices"]["results"])


def test_every_preset_has_a_case():
    assert {case.preset for case in CASES} == PRESETS.keys()
    assert len(set(NAMES)) == len(NAMES)


def test_catalogue_check_finds_nothing_to_fix():
    slices = [resource_slice for case in CASES for resource_slice in case.machine(case.name)]
    specs = [
        NamedSpec(entry.slug, entry.spec, entry.limits.scalable, entry.limits.max_devices)
        for entry in PRESETS.values()
    ]
    report = lint(ClusterSnapshot(classes=every_class(), slices=slices), specs)
    due = [finding for finding in report.findings if finding.severity is not Severity.NOTE]
    assert [f"{finding.name}: {finding.message}" for finding in due] == []
    assert all(report.matching[slug] for slug in PRESETS)
