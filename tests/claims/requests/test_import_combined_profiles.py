"""A manifest of a claim that takes several profiles fills the form with all of them."""

from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest
from django.urls import reverse

from claims.catalogue.presets import presets
from claims.models import Claim, Profile, ProfileVersion
from claims.plans.plan import claim_manifest
from claims.requests.manifest_import import import_claims
from dra.combination import combine_specs
from dra.manifests import resource_claim, to_yaml
from tests.claims.requests.test_import import at_least
from tests.factories import make_profile, make_quota, make_spec, make_team

pytestmark = pytest.mark.django_db

PAGE = reverse("claims:request_import")
PART = "mig.nvidia.com"


@pytest.fixture
def slice_10(vision):
    make_quota(vision, 40, device_class=PART)
    return make_profile("slice-10", spec=make_spec(device_class=PART))


@pytest.fixture
def sent(client, alice, fra, train, quota, slice_10):
    client.force_login(alice)

    def send(spec):
        return client.post(PAGE, {"text": to_yaml(resource_claim("mine", "default", spec))})

    return send


def fields_of(page):
    return parse_qs(urlsplit(page.context["claims"][0].combination_url).query)


def both(count=2, **part):
    return combine_specs([("a", make_spec(count)), ("b", make_spec(3, device_class=PART, **part))])


def test_what_the_portal_writes_fills_the_form_again(client, ask, alice, slice_10, quota):
    claim = ask(devices=2, parallel=2, delivery="template", together=[(slice_10, 3)], name="mine")
    client.force_login(alice)
    page = client.post(PAGE, {"text": to_yaml(claim_manifest(claim))})
    assert "2 profiles together match the file exactly." in page.text
    assert "No profile matches exactly." not in page.text
    assert fields_of(page) == {
        "profile": ["train-80"],
        "devices": ["2"],
        "together": ["slice-10"],
        "together_devices": ["3"],
        "delivery": ["template"],
        "name": ["mine"],
    }
    form = client.get(page.context["claims"][0].combination_url).text
    assert '<option value="slice-10" selected>' in form
    assert 'name="together_devices" min="1" max="1024" value="3"' in form


def test_names_of_requests_do_not_matter_and_what_is_asked_for_is_the_same(sent, client, alice):
    spec = both()
    page = sent(spec)
    assert page.context["claims"][0].claim.combination.exact
    answer = client.post(
        reverse("claims:request"),
        fields_of(page)
        | {"team": "vision", "cluster": "fra-1", "duration": "24h", "reason": "Why", "key": "k"},
    )
    assert answer.status_code == 302
    made = Claim.objects.get()
    asked = [one["exactly"]["count"] for one in made.spec["devices"]["requests"]]
    assert asked == [2, 3]


def test_what_differs_is_said_and_the_form_is_filled_with_what_is_near(sent):
    page = sent(both(selectors=[{"cel": {"expression": "true"}}]))
    text = unescape(page.text)
    assert "2 profiles together nearly match" in text
    assert "Slice 10: Only in the file: selector true" in text
    assert "No single profile matches exactly either." in text
    assert fields_of(page)["together"] == ["slice-10"]
    (found,) = page.context["claims"]
    assert (
        "expression: 'true'"
        in [line.text.strip() for line in found.claim.combination.lines if line.sign == "+"][-1]
    )


def test_no_profile_with_less_memory_than_its_part_asks_for_is_in_a_near_combination(sent, slice_10):
    spec = both(selectors=[{"cel": {"expression": at_least("40Gi")}}])
    assert sent(spec).context["claims"][0].claim.combination is not None  # the memory of slice-10 is unknown
    small = make_spec(device_class="mig.nvidia.com", selectors=[{"cel": {"expression": at_least("9Gi")}}])
    ProfileVersion.objects.filter(profile=slice_10).update(spec=small)
    assert sent(spec).context["claims"][0].claim.combination is None
    large = make_spec(device_class="mig.nvidia.com", selectors=[{"cel": {"expression": at_least("45Gi")}}])
    make_profile("slice-45", spec=large)
    combination = sent(spec).context["claims"][0].claim.combination
    assert [part.profile.slug for part in combination.parts] == ["train-80", "slice-45"]


def test_a_constraint_over_several_profiles_is_a_difference(sent):
    spec = both()
    spec["devices"]["constraints"] = [{"matchAttribute": "dra.net/numaNode", "requests": ["a", "b"]}]
    page = sent(spec)
    assert not page.context["claims"][0].claim.combination.exact
    assert "Only in the file: constraint" in page.text


def test_more_than_a_profile_allows_is_told_beside_it(sent):
    assert "Train 80: Number of devices: 9 in the file, 8 in the profile." in unescape(sent(both(9)).text)


def test_a_single_profile_that_asks_for_the_same_goes_before_several(sent):
    make_profile("bundle", spec=both())
    (found,) = sent(both()).context["claims"]
    assert [way.match.profile.slug for way in found.exact] == ["bundle"]
    assert found.claim.combination is None


def test_profiles_of_others_are_not_named(sent, slice_10):
    page = sent(both())
    assert page.context["claims"][0].claim.combination is not None
    assert "Slice 10" in page.text
    slice_10.teams.add(make_team("nlp"))
    page = sent(both())
    assert page.context["claims"][0].claim.combination is None
    assert "Slice 10" not in page.text


def test_presets_that_stand_together_are_found_again():
    names = ("gpu-with-nic", "mig-mix", "batch-inference")
    entries = {entry.slug: entry for entry in presets()}
    for entry in entries.values():
        limits = entry.limits
        make_profile(entry.slug, spec=entry.spec, scalable=limits.scalable, max_devices=limits.max_devices)
    spec = combine_specs([(name, entries[name].spec) for name in names])
    profiles = Profile.objects.select_related("current")
    (found,) = import_claims(to_yaml(resource_claim("mine", "default", spec)), "claim.yaml", profiles).claims
    assert found.combination.exact
    assert [part.profile.slug for part in found.combination.parts] == list(names)
