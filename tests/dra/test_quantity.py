"""Quantities: the examples of apimachinery's own documentation, and laws that hold for all."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.quantity import MAX_BINARY, Format, Quantity, QuantityError

SUFFIXES = [
    "",
    "n",
    "u",
    "m",
    "k",
    "M",
    "G",
    "T",
    "P",
    "E",
    "Ki",
    "Mi",
    "Gi",
    "Ti",
    "Pi",
    "e3",
    "E6",
    "e-3",
    "E+2",
]
texts = st.builds(
    lambda sign, whole, fraction, suffix: f"{sign}{whole}{fraction}{suffix}",
    st.sampled_from(["", "+", "-"]),
    st.integers(0, 10**7),
    st.one_of(st.just(""), st.integers(0, 10**6).map(lambda n: f".{n}")),
    st.sampled_from(SUFFIXES),
)
quantities = st.builds(Quantity, st.integers(-(10**30), 10**30), st.sampled_from(list(Format)))


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("1000Mi", "1000Mi"),
        ("1023", "1023"),
        ("0", "0"),
        ("-0", "0"),
        ("0Gi", "0"),
        ("100000", "100k"),
        ("1e3", "1e3"),
        ("1500e-3", "1500e-3"),
        ("12e6", "12e6"),
        ("1E", "1E"),
        ("1E3", "1e3"),
        (".5", "500m"),
        ("5.", "5"),
        ("+3", "3"),
        ("-2Ki", "-2Ki"),
        ("0.5Ki", "512"),
        ("0.1Ki", "102400m"),
        ("0.0001Ki", "102400u"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("81559Mi", "81559Mi"),
        (80, "80"),
        (0.5, "500m"),
    ],
)
def test_the_canonical_form_is_that_of_kubernetes(written, canonical):
    assert str(Quantity.parse(written)) == canonical


@pytest.mark.parametrize(
    "wrong",
    ["", ".", "Gi", "1 Gi", "1gi", "1K", "1,5", "--1", "1e", "0x10", "1Gi ", "१", "1e1001", True, None],
)
def test_anything_else_is_refused(wrong):
    with pytest.raises(QuantityError, match=r"\.$"):
        Quantity.parse(wrong)


@pytest.mark.parametrize("endless", ["1e" + "9" * 100_000, "9" * 100_000, "0." + "0" * 100_000])
def test_an_endless_number_is_refused_at_once(endless):
    with pytest.raises(QuantityError) as refusal:
        Quantity.parse(endless)
    assert len(str(refusal.value)) < 200


@given(texts)
def test_a_canonical_form_reads_back_as_the_same_amount(text):
    quantity = Quantity.parse(text)
    again = Quantity.parse(str(quantity))
    assert again == quantity
    assert str(again) == str(quantity)


@given(quantities)
def test_every_amount_can_be_written_and_read(quantity):
    again = Quantity.parse(str(quantity))
    if abs(quantity.nano) <= MAX_BINARY:
        assert again == quantity


@given(st.integers(0, 10**12), st.integers(0, 9), st.sampled_from(["", "k", "M", "Ki", "Mi"]))
def test_the_amount_is_exact(digits, places, suffix):
    factor = {"": 1, "k": 10**3, "M": 10**6, "Ki": 2**10, "Mi": 2**20}[suffix]
    text = f"{Decimal(digits).scaleb(-places):f}"
    assert Quantity.parse(text + suffix).nano == -(-digits * factor * 10**9 // 10**places)


@given(quantities, quantities)
def test_order_equality_and_hash_go_by_the_amount(one, other):
    assert (one < other) == (one.nano < other.nano)
    assert (one == other) == (one.nano == other.nano)
    if one == other:
        assert hash(one) == hash(other)


@given(quantities, quantities)
def test_what_is_added_can_be_taken_away(one, other):
    assert one + other - other == one
    assert Quantity.of(0) - one == -one


def test_a_sum_keeps_the_way_in_which_the_first_is_written():
    assert str(Quantity.parse("1Gi") + Quantity.parse("1024M")) == "2048576Ki"
    assert str(Quantity.parse("512Mi") + Quantity.parse("536870912")) == "1Gi"
    assert str(Quantity.parse("0") + Quantity.parse("1Gi")) == "1Gi"


def test_binary_amounts_end_where_64_bits_end():
    assert Quantity.parse("8Ei").nano == MAX_BINARY
    assert Quantity.parse("16E").bytes == 16 * 10**18


def test_whole_units_are_rounded_away_from_zero():
    assert Quantity.parse("1500m").bytes == 2
    assert Quantity.parse("-1500m").bytes == -2
    assert Quantity.parse("40Gi").bytes == 40 * 1024**3


def test_an_amount_is_not_a_number():
    assert Quantity.parse("1") != 1
    assert not Quantity.parse("0")
