"""Selectors: what upstream accepts, refuses and fails on, and what this portal must not guess."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra.cel import CelError, CompileError, EvaluationError, NotPreviewable, compile_selector
from dra.cel.scan import scan
from tests.dra.clusters import NVIDIA, gpu


@dataclass
class Device:
    raw: dict[str, Any] = field(default_factory=lambda: gpu(3))
    driver: str = NVIDIA


DEVICE = Device()


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ('device.driver == "gpu.nvidia.com"', True),
        (
            'device.capacity["gpu.nvidia.com"].?memory.orValue(quantity("0"))'
            '.compareTo(quantity("40Gi")) >= 0',
            True,
        ),
        ('device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("80Gi")) >= 0', False),
        ('device.capacity["gpu.nvidia.com"].memory.asInteger() >= 40*1024*1024*1024', True),
        ('device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("79Gi"))', True),
        ('device.capacity["gpu.nvidia.com"].memory.isLessThan(quantity("79Gi"))', False),
        ('device.capacity["gpu.nvidia.com"].memory.sub(quantity("559Mi")) == quantity("81000Mi")', True),
        ('device.attributes["gpu.nvidia.com"].?productName.orValue("") == "NVIDIA H100 80GB HBM3"', True),
        ('device.attributes["gpu.nvidia.com"].?productName.orValue("").startsWith("NVIDIA H100")', True),
        (
            'device.attributes["gpu.nvidia.com"].?productName.orValue("") in ["NVIDIA L4","NVIDIA L40S"]',
            False,
        ),
        ('device.attributes["gpu.nvidia.com"].?profile.orValue("") == "3g.40gb"', False),
        (
            'device.attributes["gpu.nvidia.com"].?cudaComputeCapability.orValue(semver("0.0.0"))'
            '.compareTo(semver("8.0.0")) >= 0',
            True,
        ),
        (
            'device.attributes["gpu.nvidia.com"].?driverVersion.orValue(semver("0.0.0"))'
            '.isGreaterThan(semver("570.0.0"))',
            True,
        ),
        ('device.attributes["gpu.nvidia.com"].driverVersion.major() == 580', True),
        ('device.attributes["gpu.nvidia.com"].cudaComputeCapability == semver("9.0.0+x")', True),
        ('device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:01"', True),
        ('device.attributes["resource.kubernetes.io"]["pcieRoot"] == "pci0000:01"', True),
        ('device.attributes[?"gpu.nvidia.com"].?type.orValue("") == "gpu"', True),
        ("device.allowMultipleAllocations", False),
        ('cel.bind(a, device.attributes["gpu.nvidia.com"], a.type == "gpu" && a.productName != "")', True),
        ('device.attributes["gpu.nvidia.com"].exists(name, name == "uuid")', True),
        ('isQuantity("80Gi") && !isQuantity("80 Gi") && isSemver("v1", true) && !isSemver("v1")', True),
        ('semver("v1.2", true).minor() == 2 && semver("1.2.3").patch() == 3', True),
        ('quantity("1Gi") == quantity("1024Mi") && quantity("1").add(2).sub(1).sign() == 1', True),
        ('device.attributes["gpu.nvidia.com"].productName.lowerAscii().contains("h100")', True),
        ('device.attributes["gpu.nvidia.com"].productName.matches("^NVIDIA H[12]00")', True),
        ('device.attributes["gpu.nvidia.com"].productName == 7', False),
        ('"gpu.nvidia.com" in device.attributes // a "comment" with device.attributes["x"]', True),
    ],
)
def test_an_expression_selects_as_upstream(expression, selected):
    assert compile_selector(expression).matches(DEVICE) is selected


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ('device.attributes["nobody.example"].?x.orValue("none") == "none"', True),
        ('device.attributes["nobody.example"].size() == 0', True),
        ('has(device.capacity["gpu.amd.com"].memory)', False),
        (
            'has(device.capacity["gpu.amd.com"].memory) && device.capacity["gpu.amd.com"].memory.sign() > 0',
            False,
        ),
        ('"nobody.example" in device.attributes', False),
        ('device.attributes["nobody.example"].x == 1 || device.driver == "gpu.nvidia.com"', True),
        ("device.attributes['nobody.example'].exists(n, true)", False),
        ("device.attributes.nobody.?x.orValue(3) == 3", True),
    ],
)
def test_an_unknown_domain_reads_as_an_empty_map(expression, selected):
    assert compile_selector(expression).matches(DEVICE) is selected


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ('device.name == "gpu-0"', "device.name"),
        ('device.attributes["compute.major"] >= 8', "_>=_"),
        ('device.attributes["gpu.nvidia.com/model"] == "H100"', "_==_"),
        ('quantity("1") >= quantity("2")', "quantity or version"),
        ('device.capacity["gpu.nvidia.com"].memory > quantity("2")', "_>_"),
        ('semver("1.0.0") >= semver("2.0.0")', "_>=_"),
        ("device.driver ==", "Syntax error"),
        ("nothing.known()", "nothing"),
        ("1", "true or false"),
        ('device.driver == "' + "x" * 10_300 + '"', "10240 bytes"),
    ],
)
def test_what_the_api_server_refuses_does_not_compile(expression, said):
    with pytest.raises(CompileError) as refusal:
        compile_selector(expression)
    assert said in refusal.value.message
    assert "INVALID_ARGUMENT" not in refusal.value.message


def test_a_compile_error_says_where():
    with pytest.raises(CompileError, match=r"line 2, column 8: undeclared reference to 'device\.name'"):
        compile_selector('true &&\n device.name == "x"')


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ('device.attributes["gpu.nvidia.com"].nope == 1', "nope"),
        ('device.attributes["nobody.example"].x == 1', "x"),
        ('device.attributes["gpu.nvidia.com"].productName >= 1', "overload"),
        ('device.attributes["gpu.nvidia.com"].productName.compareTo(quantity("1")) == 0', "overload"),
        ('device.attributes["gpu.nvidia.com"].driverVersion.compareTo(quantity("1")) == 0', "version"),
        ('device.attributes["nvidia.com/gpu"].memory >= 16', "memory"),
        ('quantity("eighty").sign() == 1', "eighty"),
        ('quantity("1500m").asInteger() == 1', "1500m"),
        ('quantity("16E").asInteger() > 1', "16E"),
        ('semver("9.0").major() == 9', "9.0"),
        ('quantity("1").major() == 1', "version"),
        ('device.attributes["gpu.nvidia.com"].productName', "true or false"),
    ],
)
def test_what_fails_on_a_device_says_why(expression, said):
    with pytest.raises(EvaluationError, match=said):
        compile_selector(expression).matches(DEVICE)


@pytest.mark.parametrize(
    "expression",
    [
        "sets.contains([1, 2], [1])",
        "[1, 2].sum() == 3",
        "[1, 2].indexOf(1) == 0",
        'device.driver.find("[a-z]+") == "gpu"',
        'ip("10.0.0.1").family() == 4',
        'isURL("https://example.org")',
        "[1, 2].exists(i, v, v == 2)",
        'device.attributes["gpu.nvidia.com"].transformList(k, v, k).size() > 0',
        'cel.bind(d, device, d.driver == "gpu.nvidia.com")',
    ],
)
def test_what_only_a_cluster_can_run_is_never_guessed(expression):
    with pytest.raises(NotPreviewable):
        compile_selector(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 100 + "true" + ")" * 100,
        f"{[*range(150)]}.all(a, {[*range(150)]}.all(b, a + b >= 0))",
        f'"x".replace("x", "{"y" * 900}").replace("y", "{"z" * 900}").replace("z", "{"w" * 900}").size() > 0',
        'cel.bind(a, "x" + "x", cel.bind(b, a + a, cel.bind(c, b + b, cel.bind(d, c + c, cel.bind(e, d + d,'
        " cel.bind(f, e + e, cel.bind(g, f + f, cel.bind(h, g + g, h.size() > 0))))))))",
    ],
)
def test_what_would_take_too_much_is_left_to_the_cluster(expression):
    with pytest.raises(NotPreviewable, match="cluster decides"):
        compile_selector(expression).matches(DEVICE)


def test_ordinary_growth_is_allowed():
    assert compile_selector('device.driver.replace(".", "-") == "gpu-nvidia-com"').matches(DEVICE)
    assert compile_selector('cel.bind(a, "x" + "y", a + a == "xyxy") && [1, 2].exists(n, n == 2)').matches(
        DEVICE
    )


def test_a_domain_looked_up_in_a_roundabout_way_is_not_guessed_either():
    selector = compile_selector('cel.bind(a, device.attributes, a["nobody.example"].?x.orValue(1) == 1)')
    with pytest.raises(NotPreviewable):
        selector.matches(DEVICE)


def test_a_malformed_device_fails_instead_of_being_passed_over():
    broken = Device(gpu(0, memory="lots"))
    with pytest.raises(EvaluationError, match="lots"):
        compile_selector('device.capacity["gpu.nvidia.com"].memory.sign() == 1').matches(broken)


def test_own_names_are_seen_under_the_driver_whether_written_bare_or_in_full():
    full = Device({"attributes": {"gpu.nvidia.com/model": {"string": "x"}}})
    bare = Device({"attributes": {"model": {"string": "x"}}})
    other = Device({"attributes": {"model": {"string": "x"}}}, driver="gpu.amd.com")
    selector = compile_selector('device.attributes["gpu.nvidia.com"].?model.orValue("") == "x"')
    assert [selector.matches(one) for one in (full, bare, other)] == [True, True, False]


def test_shapes_tell_devices_apart_by_what_is_read_and_nothing_else():
    selector = compile_selector('device.attributes["gpu.nvidia.com"].?productName.orValue("") == "x"')
    same, also, other = Device(gpu(1)), Device(gpu(2)), Device(gpu(3, product="NVIDIA L4"))
    shapes = list(selector.shapes([same, also, other]))
    assert shapes[0] == shapes[1] != shapes[2]


def test_a_loop_over_attributes_reads_everything():
    assert scan('device.attributes["gpu.nvidia.com"].exists(n, true)').everything
    assert scan("device.attributes.size() > 0").everything
    assert not scan('has(device.attributes["a"].b) && device.capacity["c"].?d.hasValue()').everything


@pytest.mark.parametrize("literal", ['"a.b"', "'a.b'", '"""a.b"""', 'r"a.b"', '"a\\x2eb"'])
def test_domains_are_found_however_they_are_quoted(literal):
    assert scan(f"device.attributes[{literal}].c == 1").refs == {("attributes", "a.b", "c")}


def test_text_that_looks_like_an_expression_is_left_alone():
    expression = """device.driver == 'device.attributes["x"].y' // device.attributes["z"].w"""
    assert scan(expression).text == expression
    assert not scan(expression).refs


def test_a_field_of_something_else_is_not_taken_for_the_device():
    assert scan('other.device.attributes["x"].y == 1').refs == frozenset()


def test_threads_share_a_compiled_selector():
    selector = compile_selector('device.attributes["gpu.nvidia.com"].?uuid.orValue("") == "GPU-0001"')
    devices = [Device(gpu(number % 3)) for number in range(300)]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(selector.matches, devices)) == [number % 3 == 1 for number in range(300)]


def test_an_expression_is_compiled_once():
    assert compile_selector("device.driver == 'once'") is compile_selector("device.driver == 'once'")


@given(st.text(max_size=60))
@settings(max_examples=150)
def test_no_text_does_worse_than_being_refused(text):
    with suppress(CelError):
        assert compile_selector(text).matches(DEVICE) in (True, False)


@given(st.text(max_size=80))
def test_a_scan_loses_nothing_of_the_text(text):
    assert scan(text).text.replace("OrNone", "") == text.replace("OrNone", "")
