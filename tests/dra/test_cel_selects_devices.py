"""Selectors: what upstream accepts, refuses and fails on, and what this portal must not guess."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra.cel import CelError, CompileError, EvaluationError, NotPreviewable, compile_selector
from dra.cel.selector import checked, environment, reading
from dra.features import Features
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
        (
            'device.capacity["gpu.nvidia.com"].memory.sub(quantity("559Mi")).asInteger() == 84934656000',
            True,
        ),
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
        ('quantity("1Gi") == quantity("1024Mi") && sign(quantity("1").add(2).sub(1)) == 1', True),
        ('device.attributes["gpu.nvidia.com"].productName.lowerAscii().contains("h100")', True),
        ('device.attributes["gpu.nvidia.com"].productName.matches("^NVIDIA H[12]00")', True),
        ('"abc".charAt(2) == "c" && "abc".charAt(3) == ""', True),
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
            'has(device.capacity["gpu.amd.com"].memory) && sign(device.capacity["gpu.amd.com"].memory) > 0',
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
        ('device.attributes["gpu.nvidia.com"].nope == 1', "nope"),
        ('device.attributes["nobody.example"].x == 1', "x"),
        ('device.attributes["gpu.nvidia.com"].productName >= 1', "overload"),
        ('device.attributes["gpu.nvidia.com"].productName.compareTo(quantity("1")) == 0', "overload"),
        ('device.attributes["gpu.nvidia.com"].driverVersion.compareTo(quantity("1")) == 0', "overload"),
        ('device.attributes["nvidia.com/gpu"].memory >= 16', "memory"),
        ('sign(quantity("eighty")) == 1', "eighty"),
        ('quantity("1500m").asInteger() == 1', "cannot convert value to integer"),
        ('quantity("16E").asInteger() > 1', "cannot convert value to integer"),
        ('quantity("100Ti").asInteger() > 1', "cannot convert value to integer"),  # kept as a decimal
        ('semver("9.0").major() == 9', "9.0"),
        ('device.attributes["gpu.nvidia.com"].productName', "true or false"),
    ],
)
def test_what_fails_on_a_device_says_why(expression, said):
    with pytest.raises(EvaluationError, match=said):
        compile_selector(expression).matches(DEVICE)


@pytest.mark.parametrize(
    "expression",
    [
        'isURL("https://example.org")',
        'timestamp("2026-01-01T00:00:00Z").getFullYear() == 2026',
        'duration("1h") > duration("1m")',
        '"%d".format([1]) == "1"',
        "google.protobuf.Int32Value{value: 1} == 1",
        "(" * 100 + "true" + ")" * 100,
        "1" + " + 1" * 150 + " > 0",
    ],
)
def test_what_only_a_cluster_can_run_is_never_guessed(expression):
    with pytest.raises(NotPreviewable):
        compile_selector(expression)


def test_message_of_go_that_is_not_reproduced_is_never_guessed():
    selector = compile_selector('format.uri().validate("http://[::g]/").hasValue()')
    with pytest.raises(NotPreviewable, match=r"format\.uri of this host"):
        selector.matches(DEVICE)


def test_lists_of_values_need_their_switch():
    device = Device({"attributes": {"tags": {"strings": ["a", "b"]}, "one": {"string": "a"}}})
    switched = Features(list_type_attributes=True)
    own = 'device.attributes["gpu.nvidia.com"]'
    assert compile_selector(f'{own}.tags.includes("b") && {own}.one.includes("a")', switched).matches(device)
    assert compile_selector(f'{own}.tags.exists(t, t == "b")', switched).matches(device)
    with pytest.raises(CompileError, match="undeclared reference to 'includes'"):
        compile_selector(f'{own}.tags.includes("b")')


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ('cel.bind(a, device.attributes, a["nobody.example"].?x.orValue(1) == 1)', True),
        ("cel.bind(never, 1 / 0, true)", True),
        ("[1, 0].exists(n, 1 / n == 1)", True),
        ("[0, 1].exists(n, 1 / n == 1)", True),
        ('device.attributes["gpu.nvidia.com"].driverVersion != "580"', True),
        ('"580" == device.attributes["gpu.nvidia.com"].driverVersion', False),
        ('device.attributes["gpu.nvidia.com"].?nope.optMap(n, n == 1).orValue(true)', True),
        ('device.attributes["gpu.nvidia.com"].transformList(k, v, k).size() > 2', True),
        ('sets.contains(["a", "b"], ["a"]) && [1, 2].sum() == 3 && [3, 1].sort() == [1, 3]', True),
        (
            '"a.b".split(".")[1] == "b" && "H100".find("[0-9]+") == "100"',
            True,
        ),
        ('cidr("10.0.0.0/8").containsIP("10.1.2.3") && ip("::1").isLoopback()', True),
        ("dyn(1) == 1.0 && 1u < 2.5 && !(dyn(true) == 1) && -7 / 2 == -3 && -7 % 2 == -1", True),
        ("has(device.attributes.anything)", True),
        ('quantity("1000m").isInteger()', False),
        ('isQuantity("k") && !isQuantity("") && quantity(".5").compareTo(quantity("500m")) == 0', True),
        ("18446744073709551615u > 1u && int(7u) == 7", True),
    ],
)
def test_the_finer_points_are_those_of_upstream(expression, selected):
    assert compile_selector(expression).matches(DEVICE) is selected


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ('device.attributes["gpu.nvidia.com"].driverVersion == "580"', "no such overload"),
        ('quantity("2") == quantity("1").add(1)', "no such overload"),
        ('device.attributes["gpu.nvidia.com"].driverVersion in ["580"] || true', "unhashable"),
        ("[1][2] == 1", "index out of bounds: 2"),
        ("9223372036854775807 + 1 == 0", "integer overflow"),
        ("1 / 0 == 1 || false", "division by zero"),
        ("0u - 1u == 0u", "unsigned integer overflow"),
        ("optional.none().value() == 1", "dereference"),
        ('{"a": 1, "b": 2}.transformMapEntry(k, v, {"x": v}).size() == 1', "key x already exists"),
    ],
)
def test_the_finer_failures_are_those_of_upstream(expression, said):
    with pytest.raises(EvaluationError, match=said):
        compile_selector(expression).matches(DEVICE)


def test_a_malformed_device_fails_instead_of_being_passed_over():
    broken = Device(gpu(0, memory="lots"))
    with pytest.raises(EvaluationError, match="lots"):
        compile_selector('sign(device.capacity["gpu.nvidia.com"].memory) == 1').matches(broken)


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


def read(expression):
    return reading(checked(expression, environment()))


OWN = 'device.attributes["gpu.nvidia.com"]'


@pytest.mark.parametrize(
    ("expression", "names", "whole"),
    [
        (f"{OWN}.exists(n, n == 'uuid')", {"attributes"}, set()),
        (f"'uuid' in {OWN} || size(device.capacity) > 1", {"attributes", "capacity"}, set()),
        (f"{OWN}.exists(n, v, v == 'x')", set(), {"attributes"}),
        (f"{OWN}.exists(n, {OWN}[n] == 'x')", {"attributes"}, {"attributes"}),
        (f"cel.bind(a, {OWN}, a.type == 'gpu')", set(), {"attributes"}),
        (f"has({OWN}.b) && device.capacity['c'].?d.hasValue() && {OWN}['e'] == 1", set(), set()),
    ],
)
def test_what_is_read_beside_single_values_is_told(expression, names, whole):
    found = read(expression)
    assert (found.names, found.whole) == (names, whole)


def test_devices_that_differ_in_a_value_have_one_shape_where_only_names_are_read():
    devices = [Device(gpu(number)) for number in range(3)]
    assert len(set(compile_selector(f"{OWN}.exists(n, n == 'uuid')").shapes(devices))) == 1
    assert len(set(compile_selector(f"{OWN}.exists(n, v, v == 'x')").shapes(devices))) == 3


@pytest.mark.parametrize("literal", ['"a.b"', "'a.b'", '"""a.b"""', 'r"a.b"', '"a\\x2eb"'])
def test_domains_are_found_however_they_are_quoted(literal):
    assert read(f"device.attributes[{literal}].c == 1").refs == {("attributes", "a.b", "c")}


def test_text_that_looks_like_an_expression_is_left_alone():
    assert not read("""device.driver == 'device.attributes["x"].y' // device.attributes["z"].w""").refs


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
