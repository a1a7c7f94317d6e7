"""A spec in words: "and" between requests, "or" between alternatives."""

import pytest
from django.urls import reverse

from claims.catalogue.presets import presets
from claims.match_page import spec_text
from dra.combination import combine_specs, first_available
from tests.factories import make_profile, make_spec

SPECS = {entry.slug: entry.spec for entry in presets()}
LARGE, SMALL = (f"mig.nvidia.com, slice begins with {part}." for part in ("3g", "1g"))


def test_requests_are_joined_by_and():
    assert spec_text(SPECS["mig-mix"]) == f"{LARGE}, and {SMALL}"


def test_alternatives_are_joined_by_or():
    either = first_available([("a", make_spec()), ("b", make_spec(2, device_class="mig.nvidia.com"))])
    assert spec_text(either) == "either gpu.nvidia.com, or 2 × mig.nvidia.com"
    both = combine_specs([("a", either), ("b", make_spec(device_class="dranet"))])
    assert spec_text(both) == "either gpu.nvidia.com, or 2 × mig.nvidia.com, and dranet"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (make_spec(), "gpu.nvidia.com"),
        (make_spec(4), "4 × gpu.nvidia.com"),
        (
            make_spec(selectors=[{"cel": {"expression": "device.driver.size() > 3"}}]),
            "gpu.nvidia.com, a CEL selector",
        ),
        (combine_specs([("a", make_spec()), ("b", make_spec())]), "2 × (gpu.nvidia.com)"),
        (SPECS["whole-node"], "every gpu.nvidia.com of a node"),
        ({}, ""),
    ],
)
def test_counts_other_than_1_are_shown(spec, text):
    assert spec_text(spec) == text


def test_presets_have_or_only_between_alternatives():
    for entry in presets():
        text = spec_text(entry.spec)
        assert (", or " in text) == ("firstAvailable" in str(entry.spec)), entry.slug
        assert (", and " in text) == (len(entry.spec["devices"]["requests"]) > 1), entry.slug


@pytest.mark.django_db
def test_page_comparison_and_csv_show_the_same_text(client, alice, vision, fra):
    make_profile("mig-mix", spec=SPECS["mig-mix"])
    make_profile("other", spec=make_spec())
    client.force_login(alice)
    text = f"{LARGE}, and {SMALL}"
    for address in (
        reverse("claims:profile", args=["mig-mix"]),
        reverse("claims:catalogue_compare") + "?profile=mig-mix&profile=other",
        reverse("claims:catalogue") + "?format=csv",
    ):
        page = client.get(address).text.replace("<wbr>", "")  # where a name may break
        assert text in page
        assert f"{LARGE}, or" not in page
