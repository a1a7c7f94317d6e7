"""The words for what a specification asks for: "and" between what is taken, "or" between what may be."""

import pytest
from django.urls import reverse

from claims.catalogue.presets import presets
from claims.match_page import spec_text
from dra.fallback import combine_specs, first_available
from tests.factories import make_profile, make_spec

SPECS = {entry.slug: entry.spec for entry in presets()}
LARGE, SMALL = (f"mig.nvidia.com, slice begins with {part}." for part in ("3g", "1g"))


def test_requests_are_all_taken():
    assert spec_text(SPECS["mig-mix"]) == f"{LARGE}, and {SMALL}"


def test_of_alternatives_one_is_taken():
    either = first_available([("a", make_spec()), ("b", make_spec(2, device_class="mig.nvidia.com"))])
    assert spec_text(either) == "either gpu.nvidia.com, or 2 × mig.nvidia.com"
    both = combine_specs([("a", either), ("b", make_spec(device_class="dranet"))])
    assert spec_text(both) == "either gpu.nvidia.com, or 2 × mig.nvidia.com, and dranet"


@pytest.mark.parametrize(
    ("spec", "said"),
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
def test_numbers_are_said_where_they_are_not_one(spec, said):
    assert spec_text(spec) == said


@pytest.mark.parametrize("entry", presets(), ids=lambda entry: entry.slug)
def test_every_preset_says_or_only_where_it_has_alternatives(entry):
    said = spec_text(entry.spec)
    assert (", or " in said) == ("firstAvailable" in str(entry.spec))
    assert (", and " in said) == (len(entry.spec["devices"]["requests"]) > 1)


@pytest.mark.django_db
def test_page_comparison_and_csv_say_the_same(client, alice, vision, fra):
    make_profile("mig-mix", spec=SPECS["mig-mix"])
    make_profile("other", spec=make_spec())
    client.force_login(alice)
    said = f"{LARGE}, and {SMALL}"
    for address in (
        reverse("claims:profile", args=["mig-mix"]),
        reverse("claims:catalogue_compare") + "?profile=mig-mix&profile=other",
        reverse("claims:catalogue") + "?format=csv",
    ):
        page = client.get(address).text
        assert said in page
        assert f"{LARGE}, or" not in page
