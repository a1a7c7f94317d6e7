"""Selectors are taken apart without changing what they mean, and each device hears what keeps it out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.cel import EvaluationError, compile_selector
from dra.cel.idioms import conjuncts, joined
from dra.match import DropCause, StepKind, condition, dropped, explain_drop, preview
from dra.objects import device_requests
from tests.dra.clusters import NVIDIA, PCIE, exactly, gpu, holds, resource_slice, snapshot, spec

MEMORY = 'device.capacity["gpu.nvidia.com"].?memory.orValue(quantity("0")).compareTo(quantity("40Gi")) >= 0'
PRODUCT = 'device.attributes["gpu.nvidia.com"].?productName.orValue("").startsWith("NVIDIA H100")'
LACKING = 'device.attributes["gpu.nvidia.com"].nope == 1'


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        ("a && b", ("a", "b")),
        ("(a && b) && (c)", ("a", "b", "c")),
        ("((a && b))", ("a", "b")),
        ("(a || b) && !(c && d)", ("a || b", "!(c && d)")),
        ('x == "a && b" && c', ('x == "a && b"', "c")),
        ("a // b && c\n && d", ("a", "d")),
        ("[1, 2].exists(x, x == 1 && a)", ("[1, 2].exists(x, x == 1 && a)",)),
        ('t[?"a"].orValue(1) == 1 && b', ('t[?"a"].orValue(1) == 1', "b")),
        ("a && b || c", ("a && b || c",)),
        ("a && b ? c : d", ("a && b ? c : d",)),
        ("a", ("a",)),
        ("", ("",)),
    ],
)
def test_only_what_and_joins_at_the_top_is_taken_apart(expression, parts):
    assert conjuncts(expression) == parts


@pytest.mark.parametrize(
    ("text", "words", "instead"),
    [
        (MEMORY, "memory ≥ 40 GiB", "memory 24 GiB < 40 GiB"),
        (MEMORY.replace("40Gi", "24577Mi"), "memory ≥ 24 GiB", "memory 24Gi < 24577Mi"),
        (MEMORY.replace(">=", "<=").replace("40Gi", "10Gi"), "memory ≤ 10 GiB", "memory 24 GiB > 10 GiB"),
        (
            PRODUCT,
            "productName begins with NVIDIA H100",
            "productName NVIDIA L4, not NVIDIA H100…",
        ),
        (
            f'device.attributes["{NVIDIA}"].driverVersion.isGreaterThan(semver("590.0.0"))',
            "driverVersion > 590.0.0",
            "driverVersion 580.95.5 ≤ 590.0.0",
        ),
        (
            f"device.attributes['{NVIDIA}'][?'productName'].orValue('') == 'NVIDIA A100'",
            "productName = NVIDIA A100",
            "productName NVIDIA L4, not NVIDIA A100",
        ),
        (f'device.attributes["{NVIDIA}"].nope == 1', "nope = 1", "nope is not published"),
        (
            f'device.attributes["{NVIDIA}"].productName in ["a", "b"]',
            "productName in a, b",
            "productName NVIDIA L4, not in a, b",
        ),
        ("device.driver == 'amd.com'", "driver = amd.com", "driver gpu.nvidia.com, not amd.com"),
        (
            f'device.attributes["{NVIDIA}"].productName.lowerAscii() == "x"',
            "",
            "productName NVIDIA L4",
        ),
    ],
)
def test_condition_difference_names_both_values(text, words, instead):
    seen = snapshot([resource_slice(devices=[gpu(0, product="NVIDIA L4", memory="24Gi")])])
    assert condition(text).words == words
    assert condition(text).against(seen.devices[0]).sentence == instead


def test_another_literal_takes_the_place_of_the_old_one():
    changed = condition(MEMORY).with_wanted('"24Gi"')
    assert changed == MEMORY.replace("40Gi", "24Gi")


atoms = st.sampled_from(["true", "false", LACKING, PRODUCT, MEMORY])
trees = st.recursive(
    atoms,
    lambda inner: st.builds(
        lambda left, sign, right, wrap: f"({left} {sign} {right})" if wrap else f"{left} {sign} {right}",
        inner,
        st.sampled_from(["&&", "&&", "||"]),
        inner,
        st.booleans(),
    ),
    max_leaves=6,
)


def verdict(expression, device):
    try:
        return compile_selector(expression).matches(device)
    except EvaluationError:
        return None


@given(trees)
def test_joining_the_parts_again_means_the_same_on_every_device(tree):
    seen = snapshot([resource_slice(devices=[gpu(0), gpu(1, product="L4", memory="1Gi")])])
    for device in seen.devices:
        parts = [verdict(part, device) for part in conjuncts(tree)]
        whole = verdict(tree, device)
        assert verdict(joined(conjuncts(tree)), device) == whole
        assert whole == (False if False in parts else None if None in parts else True)


@given(trees)
def test_every_dropped_device_is_dropped_by_one_step_with_its_reason(tree):
    slices = [resource_slice(devices=[gpu(0), gpu(1, product="L4"), gpu(2, product="L4", memory="1Gi")])]
    seen, claim_spec = snapshot(slices), spec(exactly(1, tree))
    steps = preview(seen, claim_spec).steps
    (ask,) = device_requests(claim_spec)
    gone = []
    for number, step in enumerate(steps):
        if step.kind == StepKind.SELECTOR:
            found = dropped(seen, claim_spec, number)
            assert found.total == step.dropped == len(found.drops)
            assert {one.condition.text for one in found.drops} <= {step.detail}
            gone += [one.place for one in found.drops]
    assert gone == list(dict.fromkeys(gone))
    for place in range(3):
        why = explain_drop(seen, ask, place)
        assert (why is None) == (place not in gone)


def test_each_step_shows_the_devices_it_drops_and_why():
    devices = [
        gpu(0, product="NVIDIA L4", memory="24Gi"),
        gpu(1, product="NVIDIA L4"),
        gpu(2, taints=[{"key": "example.com/broken", "value": "true", "effect": "NoSchedule"}]),
        gpu(3),
        gpu(4),
    ]
    del devices[4]["attributes"]["resource.kubernetes.io/pcieRoot"]
    slices = [resource_slice(devices=devices)]
    seen, claim_spec = (
        snapshot(slices, holds("gpu-3")),
        spec(exactly(2, f"{MEMORY} && {PRODUCT}"), constraints=[PCIE]),
    )
    found = preview(seen, claim_spec)
    kinds = [
        StepKind.TOTAL,
        StepKind.IN_CLASS,
        StepKind.SELECTOR,
        StepKind.SELECTOR,
        StepKind.UNTAINTED,
        StepKind.FREE,
        StepKind.NODES,
    ]
    assert [step.kind for step in found.steps] == kinds
    said = [
        [(one.device.name, one.sentence) for one in dropped(seen, claim_spec, at).drops] for at in range(7)
    ]
    assert said == [
        [],
        [],
        [("gpu-0", "memory 24 GiB < 40 GiB")],
        [("gpu-1", "productName NVIDIA L4, not NVIDIA H100…")],
        [("gpu-2", "tainted example.com/broken=true:NoSchedule, not tolerated")],
        [("gpu-3", "held by a claim")],
        [("gpu-4", "its node has no room for the claim; 1 free there")],
    ]
    assert dropped(seen, claim_spec, 5).drops[0].holder == "vision/theirs"
    assert (
        found.steps[-1].label == "nodes with room for 2 devices with the same resource.kubernetes.io/pcieRoot"
    )
    with pytest.raises(IndexError, match="Step 7 does not exist"):
        dropped(seen, claim_spec, 7)


def test_devices_dropped_before_an_unknown_class_is_reached_are_shown():
    seen = snapshot([resource_slice(devices=[gpu(0)])])
    unknown = exactly(1, name="other")
    unknown["exactly"]["deviceClassName"] = "nobody.example.com"
    claim_spec = spec(exactly(1, "false"), unknown)
    assert preview(seen, claim_spec).steps[2].dropped == 1
    assert dropped(seen, claim_spec, 2).total == 1


def test_devices_are_shown_a_page_at_a_time():
    seen, claim_spec = (
        snapshot([resource_slice(devices=[gpu(number) for number in range(9)])]),
        spec(exactly(1, "false")),
    )
    page = dropped(seen, claim_spec, 2, offset=4, limit=3)
    assert ([one.place for one in page.drops], page.total) == ([4, 5, 6], 9)


def test_a_condition_that_fails_is_told_apart_from_one_that_is_false():
    seen = snapshot([resource_slice(devices=[gpu(0), gpu(1, product="L4")])])
    claim_spec = spec(exactly(1, f"{LACKING} && {PRODUCT}"))
    (ask,) = device_requests(claim_spec)
    failing, false = explain_drop(seen, ask, 0), explain_drop(seen, ask, 1)
    assert (failing.cause, failing.condition.text) == (DropCause.ERROR, LACKING)
    assert "could not be evaluated" in failing.sentence
    assert (false.cause, false.condition.text) == (DropCause.SELECTOR, PRODUCT)


def test_a_class_and_a_used_up_partition_are_reasons_as_well(manifests):
    slices = [manifests["ResourceSlice/node-b-counters"], manifests["ResourceSlice/node-b-devices"]]
    taken = snapshot(slices, holds("gpu-0-mig-1g5gb-19-0", pool="node-b"))
    (whole,) = device_requests(spec(exactly()))
    reasons = {device.name: explain_drop(taken, whole, place) for place, device in enumerate(taken.devices)}
    assert reasons["gpu-0"].cause == DropCause.USED_UP
    assert reasons["gpu-0-mig-1g5gb-19-0"].cause == DropCause.CLASS
    assert reasons["gpu-0-mig-1g5gb-19-0"].difference.sentence == "type mig, not gpu"


def test_admin_access_may_have_what_another_claim_holds():
    seen = snapshot([resource_slice(devices=[gpu(0)])], holds("gpu-0"))
    (ask,), (admin,) = device_requests(spec(exactly(1))), device_requests(spec(exactly(1, adminAccess=True)))
    why = explain_drop(seen, ask, 0)
    assert why
    assert why.cause == DropCause.HELD
    assert explain_drop(seen, admin, 0) is None
