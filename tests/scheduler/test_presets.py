"""Every preset, on machines that have something to refuse and something to take: foretold, then scheduled."""

from collections.abc import Iterator

import pytest

from claims.catalogue.presets import presets
from demo.controlplane.client import Client
from dra.cluster_snapshot import ClusterSnapshot
from dra.lint import NamedSpec, Severity, lint
from tests.scheduler.hardware import CASES, Case, classes, every_class
from tests.scheduler.judged import it_is_scheduled
from tests.scheduler.play import Act, play, strike
from tests.scheduler.stage import Stage

PRESETS = {entry.slug: entry for entry in presets()}
NAMES = [case.name for case in CASES]


def staged(case: Case) -> Stage:
    """Put a preset on a node of its own. What others may share, a second pod shares."""
    entry = PRESETS[case.preset]
    at = Stage(case.name)
    asked = entry.spec["devices"]
    if case.preset == "gpu-monitoring":
        at.allow_admin_access()
    at.node()
    for one in case.machine(at.name):
        one["metadata"]["labels"] = {"situation": at.name}
        at.objects.append(one)
    others = {key: value for key, value in asked.items() if key != "requests"}
    (at.claim if "claim" in entry.limits.deliveries else at.template)("wish", *asked["requests"], **others)
    if case.preset == "gpu-monitoring":  # it sees what others hold
        at.claim("theirs", at.exactly(1, klass="gpu.nvidia.com"))
        at.pod("theirs", name="holder", gets=["gpu-1"], earlier=True)
    if case.preset == "real-time-inference":
        at.pod("wish", name="replica", gets=case.gets, earlier=True)
    at.pod("wish", gets=case.gets)
    return at


@pytest.fixture(scope="module")
def acts(controlplane) -> Iterator[dict[str, list[Act]]]:
    """All presets, each on its node, all at once."""
    client: Client = controlplane.client()
    for one in classes():
        client.apply(one | {"metadata": one["metadata"] | {"labels": {"situation": "presets"}}})
    try:
        yield play(client, [staged(case) for case in CASES])
    finally:
        strike(client)


@pytest.mark.controlplane
@pytest.mark.parametrize("name", NAMES)
def test_the_scheduler_gives_what_was_foretold(acts, name):
    (act,) = acts[name]
    it_is_scheduled(act)


@pytest.mark.controlplane
@pytest.mark.parametrize("preset", ["time-slicing", "mps"])
def test_settings_of_the_driver_stand_in_the_allocation(acts, preset):
    (act,) = acts[f"{preset}-eight-h100"]
    (config,) = act.allocations[0]["devices"]["config"]
    assert config["source"] == "FromClaim"
    assert config["opaque"] == PRESETS[preset].spec["devices"]["config"][0]["opaque"]


@pytest.mark.controlplane
@pytest.mark.parametrize(("preset", "memory"), [("real-time-share", "20Gi"), ("notebook-share", "8Gi")])
def test_a_share_takes_what_it_asked_for(acts, preset, memory):
    (act,) = acts[f"{preset}-shareable"]
    (result,) = act.allocations[0]["devices"]["results"]
    assert result["consumedCapacity"] == {"memory": memory}
    assert result["shareID"]


@pytest.mark.controlplane
def test_admin_access_takes_nothing_away(acts):
    (act,) = acts["gpu-monitoring-one-of-eight-is-broken"]
    assert all(result["adminAccess"] for result in act.allocations[0]["devices"]["results"])


def test_every_preset_is_played():
    assert {case.preset for case in CASES} == PRESETS.keys()
    assert len(set(NAMES)) == len(NAMES)


def test_the_check_of_the_catalogue_finds_nothing_to_mend():
    slices = [one for case in CASES for one in case.machine(case.name)]
    specs = [
        NamedSpec(entry.slug, entry.spec, entry.limits.scalable, entry.limits.max_devices)
        for entry in PRESETS.values()
    ]
    report = lint(ClusterSnapshot(classes=every_class(), slices=slices), specs)
    due = [found for found in report.findings if found.severity is not Severity.NOTE]
    assert [f"{found.name}: {found.message}" for found in due] == []
    assert all(report.matching[slug] for slug in PRESETS)
