"""A claim of several profiles asked for again: by its link, as a draft, and by what replaces it."""

from urllib.parse import parse_qs, urlsplit

import pytest
from django.urls import reverse

from claims.approvals import decide
from claims.models import Claim, Draft
from claims.quotas.quota_usage import quota_usage, team_usage
from claims.requests.services import resize
from claims.states import ClaimState
from core.errors import Invalid, QuotaExceeded
from tests.factories import make_profile, make_quota, make_spec

pytestmark = pytest.mark.django_db

PART = "mig.nvidia.com"
ALIKE = ("name", "profile_version__profile__slug", "devices", "together")


@pytest.fixture
def slice_10(vision):
    make_quota(vision, 40, device_class=PART)
    return make_profile("slice-10", spec=make_spec(device_class=PART))


@pytest.fixture
def held(ask, slice_10, lena):
    """A claim that runs."""
    claim = ask(devices=2, together=[(slice_10, 3)], name="old")
    return decide.approve(claim=claim, by=lena, spec_hash=claim.spec_hash)


def rows_of(claim):
    return list(claim.alternatives.values_list(*ALIKE))


def fields_of(url):
    return parse_qs(urlsplit(url).query)


def test_a_request_that_was_denied_is_asked_for_again_whole_from_its_card(client, ask, alice, lena, slice_10):
    claim = ask(devices=2, together=[(slice_10, 3)])
    decide.deny(claim=claim, by=lena, reason="Too many.")
    client.force_login(alice)
    card = client.get(reverse("claims:approval", args=[claim.pk]))
    said = fields_of(card.context["again_url"])
    assert (said["devices"], said["together"], said["together_devices"]) == (["2"], ["slice-10"], ["3"])
    assert client.post(reverse("claims:request"), said | {"key": "again"}).status_code == 302
    again = Claim.objects.get(key="again")
    assert rows_of(again) == rows_of(claim)
    assert again.spec == claim.spec


def test_alternatives_are_asked_for_again_from_the_card_too(client, ask, alice, lena, slice_10):
    claim = ask(devices=2, alternatives=[slice_10])
    decide.deny(claim=claim, by=lena, reason="Too many.")
    client.force_login(alice)
    said = fields_of(client.get(reverse("claims:approval", args=[claim.pk])).context["again_url"])
    assert (said["devices"], said["alternatives"]) == (["2"], ["slice-10"])


def test_a_draft_keeps_all_of_it_until_it_is_sent(
    client, alice, vision, fra, train, quota, slice_10, gateway
):
    client.force_login(alice)
    typed = {
        **{"profile": "train-80", "devices": "2", "together": ["slice-10"], "together_devices": ["3"]},
        **{"team": "vision", "cluster": "fra-1", "duration": "24h", "delivery": "claim", "key": "d-1"},
    }
    client.post(reverse("claims:draft_save"), typed)
    draft = Draft.objects.get()
    page = client.get(f"{reverse('claims:request')}?draft={draft.pk}").text
    assert '<option value="slice-10" selected>' in page
    assert 'name="together_devices" min="1" max="1024" value="3"' in page
    client.post(reverse("claims:request"), typed)
    assert [row[1:3] for row in rows_of(Claim.objects.get())] == [("train-80", 2), ("slice-10", 3)]
    assert not Draft.objects.exists()


def test_what_replaces_it_takes_the_same_profiles(held, alice, vision):
    new = resize(claim=held, by=alice, parallel=1, key="r-1")
    assert rows_of(new) == rows_of(held)
    assert (new.spec, new.replaces) == (held.spec, held)


def test_of_a_device_class_only_what_is_more_counts_and_of_a_profile_both(
    held, alice, lena, vision, slice_10
):
    profile_quota = make_quota(vision, 20, profile=slice_10)
    new = resize(claim=held, by=alice, parts={"slice-10": 5}, key="r-1")
    assert new.carried == 0
    counted = {row.label: (row.held, row.reserved) for row in team_usage([vision])}
    assert counted["gpu.nvidia.com"] == (0, 2)
    assert counted[PART] == (0, 5)
    assert [(row.held, row.reserved) for row in quota_usage([profile_quota])] == [(0, 8)]
    held.advance(ClaimState.RELEASING, why="Replaced.")
    held.advance(ClaimState.RELEASED, why="Gone.")
    assert {row.label: row.reserved for row in team_usage([vision])}[PART] == 5


def test_nothing_is_carried_to_or_from_alternatives(ask, alice, held, slice_10, quota):
    quota.devices = 3
    quota.save(update_fields=["devices"])
    with pytest.raises(QuotaExceeded):
        ask(devices=2, alternatives=[slice_10], replaces=held)
    assert ask(devices=3, replaces=held).charges.get().carried == 2


@pytest.mark.parametrize(
    ("parts", "left"),
    [
        ({"slice-10": 5}, [("train-80", 2), ("slice-10", 5)]),
        ({"train-80": 1, "slice-10": 1}, [("train-80", 1), ("slice-10", 1)]),
    ],
)
def test_it_is_replaced_with_other_numbers_of_each(held, alice, parts, left):
    new = resize(claim=held, by=alice, parts=parts, key="r-1")
    assert [row[1:3] for row in rows_of(new)] == left


@pytest.mark.parametrize("gone", ["train-80", "slice-10"])
def test_it_is_replaced_without_one_of_them(held, alice, gone):
    new = resize(claim=held, by=alice, parts={gone: 0}, key="r-1")
    assert rows_of(new) == []
    assert new.slugs == {"train-80": "slice-10", "slice-10": "train-80"}[gone]
    assert new.devices == {"train-80": 3, "slice-10": 2}[gone]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"other": 1}, "old has no combined profile other"),
        ({"train-80": 0, "slice-10": 0}, "No devices of old would be left; release it instead"),
    ],
)
def test_what_cannot_be_is_said(held, alice, parts, said):
    with pytest.raises(Invalid, match=said):
        resize(claim=held, by=alice, parts=parts, key="r-1")


def test_the_api_replaces_it_with_other_numbers(client, held, alice):
    client.force_login(alice)
    answer = client.post(
        f"/api/v1/claims/{held.pk}/resize/",
        {"together": [{"profile": "slice-10", "devices": 1}]},
        content_type="application/json",
        headers={"Idempotency-Key": "r-1"},
    )
    assert answer.status_code == 201
    assert answer.json()["profiles"] == ["train-80", "slice-10"]
    assert [one["devices"] for one in answer.json()["alternatives"]] == [2, 1]


def test_the_form_that_replaces_it_is_filled_with_all_and_says_that_both_count(client, held, alice):
    client.force_login(alice)
    address = client.get(reverse("claims:detail", args=[held.pk])).context["again_url"]
    page = client.get(f"{address}&replaces={held.pk}").text
    assert '<option value="slice-10" selected>' in page
    assert "quotas of profiles count both" in page
    client.post(reverse("claims:request"), fields_of(address) | {"replaces": str(held.pk), "key": "k"})
    new = Claim.objects.get(key="k")
    assert (rows_of(new), new.replaces) == (rows_of(held), held)
    page = client.get(reverse("claims:detail", args=[new.pk])).text
    assert "both count against" in page
