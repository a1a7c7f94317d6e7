"""The usual forms of selectors are found wherever they stand, with their places in the text."""

import pytest

from dra.cel.idioms import comparison, comparisons, conjuncts, quoted, reads, replaced

DEVICE = 'device.attributes["gpu.nvidia.com"]'


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (f"{DEVICE}.slot == 1", [(False, False)]),
        (f"({DEVICE} . slot) == 1", [(False, False)]),
        ("device.attributes['gpu.nvidia.com']['slot'] == 1", [(False, False)]),
        (f"has({DEVICE}.slot) && {DEVICE}.slot > 1", [(True, False), (False, False)]),
        (f"{DEVICE}.?slot.orValue(0) == 1", [(False, True)]),
        (f"{DEVICE}[?'slot'].optMap(n, n > 1).orValue(false)", [(False, True)]),
        (f"[1, 2].exists(n, n == {DEVICE}.slot)", [(False, False)]),
        (f"{DEVICE}.exists(name, name == 'slot')", []),
        (f"{DEVICE}.slot ==", []),
    ],
)
def test_every_read_is_found_once_however_it_is_written(text, kinds):
    found = reads(text)
    assert [(read.has, read.optional) for read in found] == kinds
    assert {read.ref for read in found} <= {("attributes", "gpu.nvidia.com", "slot")}
    renamed = replaced(text, {read.span: "x" for read in found})
    assert "slot" not in renamed or not found


@pytest.mark.parametrize(
    ("text", "signs"),
    [
        (f"!({DEVICE}.slot == 1) || {DEVICE}.?model.orValue('').startsWith(\"H\")", ["==", "begins"]),
        (f"{DEVICE}.slot == -1 // or 2\n", ["=="]),
        (f"{DEVICE}.slot == {DEVICE}.other", []),
        (f"{DEVICE}.slot.compareTo(semver('1.0.0')) >= 1", []),
        (f"{DEVICE}.slot in [1, {DEVICE}.other]", []),
        (f"{DEVICE}.slot in []", []),
        (f"has({DEVICE}.slot) == true", []),
        ("'H100' == device.driver", []),
    ],
)
def test_a_comparison_is_one_of_what_is_read_with_a_literal(text, signs):
    assert [one.sign for one in comparisons(text)] == signs


@pytest.mark.parametrize("text", ['a "quoted" \\ name', "ein Gerät 🖥", "two\nlines\t", ""])
def test_a_literal_is_read_as_it_was_written_and_takes_the_place_of_another(text):
    before = f"( {DEVICE}.?model.orValue(r'x\\') == 'H100' )"
    (found,) = comparisons(before)
    after = replaced(before, {found.literal: quoted(text)})
    assert after == before.replace("'H100'", quoted(text))
    assert comparison(after).expected == text


def test_many_conditions_are_taken_apart_in_one_go():
    text = " && ".join(f"{DEVICE}.slot != {number}" for number in range(2000))
    assert len(conjuncts(text)) == 2000
