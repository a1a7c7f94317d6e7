"""Durations as people write them, and conditions of devices as CEL, both ways."""

import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claims.forms.durations import parse, spell
from claims.forms.selectors import Conditions, from_spec, to_spec
from claims.views.words import condition_of
from dra.cel import compile_selector


@given(st.integers(min_value=1, max_value=10**6))
def test_a_spelled_duration_reads_back_as_itself(minutes):
    assert parse(spell(timedelta(minutes=minutes))) == timedelta(minutes=minutes)


@pytest.mark.parametrize("text", ["", "soon", "24", "h", "-3h", "3h!", "1e3h"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        parse(text)


CONDITIONS = st.builds(
    Conditions,
    device_class=st.just("gpu.nvidia.com"),
    count=st.integers(1, 8),
    product=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    memory_gib=st.integers(0, 1024),
    compute=st.sampled_from(["", "8.0", "12.1"]),
)


@given(CONDITIONS)
def test_conditions_survive_the_way_through_a_spec(conditions):
    assert from_spec(to_spec(conditions)) == conditions


@given(CONDITIONS)
def test_every_condition_is_cel_that_compiles(conditions):
    exactly = to_spec(conditions)["devices"]["requests"][0]["exactly"]
    for selector in exactly.get("selectors", []):
        compile_selector(selector["cel"]["expression"])


@pytest.mark.parametrize(
    "more",
    [
        {"constraints": [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]},
        {"config": []},
    ],
)
def test_a_spec_that_says_more_than_fields_is_left_to_yaml(more):
    spec = to_spec(Conditions("gpu.nvidia.com"))
    spec["devices"] |= more
    assert from_spec(spec) is None


@pytest.mark.parametrize("exactly", [{"tolerations": []}, {"adminAccess": True}, {"allocationMode": "All"}])
def test_a_request_that_says_more_than_fields_is_left_to_yaml(exactly):
    spec = to_spec(Conditions("gpu.nvidia.com"))
    spec["devices"]["requests"][0]["exactly"] |= exactly
    assert from_spec(spec) is None


@pytest.mark.parametrize(
    "expression",
    [
        'device.attributes["gpu.nvidia.com"].?cudaComputeCapability.orValue(semver("0.0.0"))'
        '.compareTo(semver("9.0")) >= 0',
        'device.attributes["gpu.nvidia.com"].productName.startsWith("NVIDIA")',
        'device.capacity["gpu.nvidia.com"].?memory.orValue(quantity("0")).compareTo(quantity("80G")) >= 0',
        'device.driver == "gpu.nvidia.com"',
        "device.driver ==",
    ],
)
def test_an_expression_that_fields_would_write_otherwise_is_left_to_yaml(expression):
    spec = to_spec(Conditions("gpu.nvidia.com"))
    spec["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": expression}}]
    assert from_spec(spec) is None


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (
            'device.capacity["gpu.nvidia.com"].?memory.orValue(quantity("0"))'
            '.compareTo(quantity("79Gi")) >= 0',
            "memory ≥ 79 GiB",
        ),
        ('device.attributes["gpu.nvidia.com"].?profile.orValue("") == "1g.10gb"', "slice 1g.10gb"),
        ('device.attributes["gpu.nvidia.com"].?productName.orValue("") == "NVIDIA L4"', "NVIDIA L4"),
        ('device.attributes["gpu.nvidia.com"].?brand.orValue("") == "Tesla"', "brand Tesla"),
        ('device.attributes["gpu.nvidia.com"].?brand.orValue("").size() == 2', ""),
    ],
)
def test_a_usual_selector_is_told_in_words(expression, words):
    assert condition_of(expression) == words
