"""Lint: selectors that miss, fail or name what nobody publishes, and how they are mended."""

import pytest

from dra.lint import LintCode, NamedSpec, Severity, Subject, lint
from tests.dra.catalogue import ATTRIBUTES, MEMORY, codes, findings, fleet, mended, only
from tests.dra.clusters import exactly, gpu, holds, resource_slice, snapshot, spec


def test_working_profile_has_no_finding():
    claim_spec = spec(exactly(2, MEMORY.format("79Gi")))
    report = lint(fleet(), [NamedSpec("p", claim_spec)])
    assert [one for one in report.findings if one.subject == Subject.PROFILE] == []
    assert (report.matching, report.devices) == ({"p": 4}, 6)


def test_held_devices_count_like_free_ones():
    assert findings(spec(exactly(4, MEMORY.format("79Gi"))), fleet(holds("gpu-0", "gpu-1"))) == []


def test_a_cluster_without_devices_says_nothing():
    assert lint(snapshot([]), [NamedSpec("p", spec(exactly(1, class_name="nobody")))]).findings == []


def test_threshold_missed_by_rounding_is_lowered():
    claim_spec = spec(exactly(1, MEMORY.format("80Gi")))
    found = findings(claim_spec)
    assert codes(found) == [LintCode.JUST_MISSED, LintCode.MATCHES_NOTHING]
    missed = found[0]
    assert missed.severity == Severity.WARNING
    assert "4 devices that otherwise match publish 81559Mi (79.65 GiB)" in missed.message
    assert missed.fix.after == MEMORY.format("79Gi")
    assert mended(claim_spec, missed) == []


@pytest.mark.parametrize("least", ["84Gi", "90Gi", "24Gi", "22Gi"])
def test_clear_threshold_has_no_finding(least):
    assert LintCode.JUST_MISSED not in codes(findings(spec(exactly(1, MEMORY.format(least)))))


def test_a_threshold_is_left_alone_if_another_selector_turns_the_device_down_anyway():
    l4 = f'{ATTRIBUTES}.?productName.orValue("") == "NVIDIA L4"'
    assert LintCode.JUST_MISSED not in codes(findings(spec(exactly(1, MEMORY.format("80Gi"), l4))))


def test_other_ways_to_write_a_threshold_are_known_too():
    above = 'device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("80Gi"))'
    assert "79Gi" in only(findings(spec(exactly(1, above))), LintCode.JUST_MISSED).fix.after


def bare():
    """One GPU of four publishes no profile of power."""
    power = {"power": {"string": "high"}}
    return snapshot([resource_slice(devices=[gpu(0), *(gpu(n, attributes=power) for n in (1, 2, 3))])])


@pytest.mark.parametrize(
    ("expression", "after"),
    [
        (f'{ATTRIBUTES}.power == "high"', f'{ATTRIBUTES}.?power.orValue("") == "high"'),
        (f'{ATTRIBUTES}["power"] == "high"', f'{ATTRIBUTES}.?power.orValue("") == "high"'),
        (f'{ATTRIBUTES}.power != "low"', f'has({ATTRIBUTES}.power) && ({ATTRIBUTES}.power != "low")'),
    ],
)
def test_failing_selector_is_fixed_by_a_guard(expression, after):
    claim_spec = spec(exactly(1, expression))
    failing = only(findings(claim_spec, bare()), LintCode.SELECTOR_FAILS)
    assert failing.severity == Severity.ERROR
    assert "fails on 1 of the 4 devices" in failing.message
    assert "gpu.nvidia.com/node-a/gpu-0" in failing.message
    assert failing.fix.after == after
    assert mended(claim_spec, failing, bare()) == []
    assert lint(bare(), [NamedSpec("p", failing.fix.apply(claim_spec))]).matching == {"p": 3}


def test_a_selector_is_not_asked_about_devices_that_the_class_turned_down():
    odd = gpu(9, attributes={"type": {"string": "vfio"}})
    del odd["attributes"]["driverVersion"]
    seen = snapshot([resource_slice(devices=[odd, gpu(1)])])
    newer = f'{ATTRIBUTES}.driverVersion.isGreaterThan(semver("570.0.0"))'
    assert findings(spec(exactly(1, newer)), seen) == []


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (f'{ATTRIBUTES}.?productname.orValue("").startsWith("NVIDIA H100")', "productName"),
        (f'{ATTRIBUTES}.?product_name.orValue("").startsWith("NVIDIA H100")', "productName"),
        (
            'device.attributes["nvidia.com"].?productName.orValue("").startsWith("NVIDIA H100")',
            '"gpu.nvidia.com"',
        ),
        (
            'device.attributes["gpu.nvidia.com"].?memory.orValue(quantity("0"))'
            '.compareTo(quantity("79Gi")) >= 0',
            'device.capacity["gpu.nvidia.com"].?memory',
        ),
    ],
)
def test_unpublished_name_is_fixed_by_the_closest_name(wrong, right):
    claim_spec = spec(exactly(1, wrong))
    found = only(findings(claim_spec), LintCode.NOT_PUBLISHED)
    assert "which no device of the cluster publishes. 6 devices publish" in found.message
    assert right in found.fix.after
    assert mended(claim_spec, found) == []


def test_a_name_like_no_other_has_no_fix():
    found = only(findings(spec(exactly(1, f"{ATTRIBUTES}.?zzz.orValue(1) == 1"))), LintCode.NOT_PUBLISHED)
    assert found.fix is None


@pytest.mark.parametrize(
    ("wrong", "after"),
    [
        (
            f'{ATTRIBUTES}.?cudaComputeCapability.orValue("") == "9.0"',
            f'{ATTRIBUTES}.?cudaComputeCapability.orValue(semver("0.0.0")).compareTo(semver("9.0.0")) == 0',
        ),
        (f'{ATTRIBUTES}.slot == "3"', f"{ATTRIBUTES}.slot == 3"),
        (f"{ATTRIBUTES}.productName == 100", f'{ATTRIBUTES}.productName == "100"'),
    ],
)
def test_comparison_of_different_types_names_the_published_type(wrong, after):
    slot = {"slot": {"int": 3}}
    seen = snapshot([resource_slice(devices=[gpu(0, attributes=slot), gpu(1, attributes=slot)])])
    found = only(findings(spec(exactly(1, wrong)), seen), LintCode.WRONG_TYPE)
    assert found.severity == Severity.ERROR
    assert "publish it as" in found.message or "is published as" in found.message
    assert found.fix.after == after


def test_an_order_of_unlike_types_fails_on_every_device():
    claim_spec = spec(exactly(1, f"{ATTRIBUTES}.productName >= 9"))
    found = only(findings(claim_spec), LintCode.WRONG_TYPE)
    assert "fails on 6 of the 6 devices" in found.message
    assert "attribute gpu.nvidia.com/productName is published as string" in found.message


def test_quantities_compared_like_numbers_are_mended_to_compile():
    claim_spec = spec(exactly(1, 'device.capacity["gpu.nvidia.com"].memory >= quantity("79Gi")'))
    found = only(findings(claim_spec), LintCode.DOES_NOT_COMPILE)
    assert mended(claim_spec, found) == []
    assert lint(fleet(), [NamedSpec("p", found.fix.apply(claim_spec))]).matching == {"p": 4}


def test_an_expression_that_the_api_server_refuses_is_told_with_the_place():
    expression = 'device.attributes["gpu.nvidia.com"].type == 1 &&  device.name == "x"'
    message = only(findings(spec(exactly(1, expression))), LintCode.DOES_NOT_COMPILE).message
    assert message.startswith("The selector of request gpu is rejected by the API server: compilation")
    assert message.endswith(f" | {expression}\n | {'.' * expression.index('.name')}^")


def test_what_only_a_cluster_can_evaluate_is_a_note_and_its_matches_are_unknown():
    claim_spec = spec(exactly(1, "(" * 400 + "true" + ")" * 400))
    report = lint(fleet(), [NamedSpec("p", claim_spec)])
    assert report.matching == {"p": None}
    assert only(findings(claim_spec), LintCode.NOT_PREVIEWABLE).severity == Severity.NOTE


def test_a_fix_is_void_once_the_spec_has_changed():
    claim_spec = spec(exactly(1, MEMORY.format("80Gi")))
    fix = findings(claim_spec)[0].fix
    assert fix.apply(spec(exactly(1, MEMORY.format("70Gi")))) is None
    assert fix.apply(spec()) is None
    assert fix.apply(claim_spec) == spec(exactly(1, MEMORY.format("79Gi")))


def test_an_expression_that_looks_at_all_names_is_asked_of_every_kind_of_device():
    loop = f'{ATTRIBUTES}.exists(name, name == "power")'
    claim_spec = spec(exactly(1, loop))
    assert findings(claim_spec, bare()) == []
    assert lint(bare(), [NamedSpec("p", claim_spec)]).matching == {"p": 3}
