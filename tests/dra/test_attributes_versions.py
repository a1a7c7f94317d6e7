"""Semantic versions: the order of the standard, and what Kubernetes normalizes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.attributes import Version, VersionError

parts = st.integers(0, 1000)
versions = st.builds(
    Version,
    parts,
    parts,
    parts,
    st.lists(st.sampled_from(["alpha", "beta", "1", "11", "rc-1"]), max_size=3).map(tuple),
)


def test_the_order_is_that_of_the_standard():
    ascending = (
        "1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc.1 1.0.0"
    )
    read = [Version.parse(text) for text in ascending.split()]
    assert all(one < other for one, other in pairwise(read))


@pytest.mark.parametrize(
    "wrong", ["9.0", "v1.2.3", "1.02.3", "1.2.3-", "1.2.3-01", "1.2.3+", "1.2.3-a..b", "", "1.2.x"]
)
def test_what_is_no_version_is_refused(wrong):
    with pytest.raises(VersionError, match="not a semantic version"):
        Version.parse(wrong)


def test_endless_numbers_are_refused_and_ordered():
    with pytest.raises(VersionError):
        Version.parse("1." + "9" * 10_000 + ".0")
    assert Version.parse("1.0.0-" + "9" * 10_000) > Version.parse("1.0.0-" + "8" * 10_000)


@pytest.mark.parametrize(
    ("loose", "strict"),
    [("v1.2", "1.2.0"), ("1", "1.0.0"), ("01.02.03", "1.2.3"), ("v570.86.15-rc.1+x", "570.86.15-rc.1+x")],
)
def test_a_loose_version_is_normalized_when_asked_for(loose, strict):
    assert str(Version.parse(loose, normalize=True)) == strict


def test_normalizing_does_not_make_sense_of_nonsense():
    with pytest.raises(VersionError):
        Version.parse("latest", normalize=True)


def test_build_metadata_takes_no_part_in_equality():
    assert Version.parse("1.0.0+a") == Version.parse("1.0.0+b")
    assert hash(Version.parse("1.0.0+a")) == hash(Version.parse("1.0.0+b"))


@given(versions)
def test_a_version_reads_back_as_it_was_written(version):
    assert Version.parse(str(version)) == version


@given(versions, versions)
def test_any_two_versions_can_be_ordered(one, other):
    assert (one < other) + (one == other) + (one > other) == 1


def test_a_version_is_not_a_text():
    assert Version.parse("1.0.0") != "1.0.0"
