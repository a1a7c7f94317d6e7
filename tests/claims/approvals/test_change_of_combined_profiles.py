"""Approval of less of a claim that combines profiles: fewer devices of each, or without one of them."""

from functools import partial

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from claims.approvals import decide
from claims.approvals.decide import approve, approve_with_changes
from claims.approvals.forms import ChangeForm
from claims.lifecycle.services import withdraw
from claims.models import Approval, ApprovalRule, Claim, Quota
from claims.plans.changes import WantedChange, plan_change
from claims.quotas import quota_usage
from claims.quotas.quota_usage import team_usage
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, IllegalTransition, Invalid
from core.times import spell_duration
from dra.manifests import spec_hash
from dra.validation import problems
from notify.models import Notice
from tests.factories import make_profile, make_quota, make_spec
from tests.threads import Race

pytestmark = pytest.mark.django_db

PART = "mig.nvidia.com"


@pytest.fixture
def slice_10(vision):
    make_quota(vision, 40, device_class=PART)
    return make_profile("slice-10", spec=make_spec(device_class=PART))


@pytest.fixture
def pair(slice_10):
    return make_profile("pair", spec=make_spec(2, device_class=PART), scalable="")


@pytest.fixture
def requested(ask, slice_10):
    return ask(name="sam2", devices=4, together=[(slice_10, 3)])


def change(requested, by, *parts, **wanted):
    return approve_with_changes(
        claim=requested, by=by, spec_hash=requested.spec_hash, wanted=WantedChange(parts=parts, **wanted)
    )


def rows_of(claim):
    return list(
        claim.alternatives.values_list("name", "profile_version__profile__slug", "devices", "together")
    )


def test_fewer_devices_of_each(requested, lena, vision):
    claim = change(requested, lena, ("train-80", 1), ("slice-10", 2))
    assert (claim.state, claim.devices) == (ClaimState.APPROVED, 3)
    counts = {one["name"]: one["exactly"]["count"] for one in claim.spec["devices"]["requests"]}
    assert counts == {"train-80": 1, "slice-10": 2}
    assert rows_of(claim) == [("train-80", "train-80", 1, True), ("slice-10", "slice-10", 2, True)]
    assert claim.spec_hash == claim.approved_hash == spec_hash(claim.spec)
    assert {row.label: row.reserved for row in team_usage([vision])} == {"gpu.nvidia.com": 1, PART: 2}


@pytest.mark.parametrize("left", ["train-80", "slice-10"])
def test_one_remaining_profile_becomes_a_plain_claim(requested, lena, vision, left):
    gone = {"train-80", "slice-10"}.difference([left]).pop()
    claim = change(requested, lena, (gone, 0))
    assert claim.profile_version.profile.slug == left
    assert claim.spec["devices"]["requests"][0]["name"] == "gpu"
    assert problems(claim.spec) == []
    assert rows_of(claim) == []
    assert claim.charges.count() == 1
    assert claim.slugs == left


def test_two_remaining_profiles_stay_combined(ask, lena, slice_10, pair):
    claim = ask(devices=2, together=[(slice_10, 1), (pair, 1)])
    claim = change(claim, lena, ("train-80", 0))
    assert rows_of(claim) == [("slice-10", "slice-10", 1, True), ("pair", "pair", 2, True)]
    assert claim.profile_version.profile.slug == "slice-10"
    assert claim.charges.get().devices == 3


def test_original_request_is_kept_and_the_requester_notified(client, requested, lena, alice):
    claim = change(requested, lena, ("train-80", 1), ("slice-10", 0))
    assert claim.original_request["size"] == "4 × Train 80 + 3 × Slice 10"
    body = Notice.objects.get(user=alice).body
    assert "lena changed it: train-80: 4 → 1 device; without slice-10." in body
    client.force_login(lena)
    card = client.get(reverse("claims:approval", args=[claim.pk])).text
    assert "Original request: 4 × Train 80 + 3 × Slice 10 for 1 d." in card


def test_change_of_a_template_counts_all_pods(ask, lena, vision, slice_10):
    make_quota(vision, 12, profile=slice_10)
    claim = ask(devices=1, parallel=4, delivery="template", together=[(slice_10, 3)])
    change(claim, lena, ("slice-10", 1))
    reserved = {row.label: row.reserved for row in quota_usage.quota_usage(Quota.objects.filter(team=vision))}
    assert reserved == {"gpu.nvidia.com": 4, PART: 4, "slice-10": 4}


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([("train-80", 5)], "4 × train-80 are requested; approve from 0 to 4, not 5"),
        ([("slice-10", -1)], "3 × slice-10 are requested; approve from 0 to 3, not -1"),
        ([("train-80", 0), ("slice-10", 0)], "No devices of sam2 would be left; deny it instead."),
        ([("other", 1)], "sam2 has no combined profile other."),
        ([("train-80", 4)], "Nothing has changed"),
    ],
)
def test_larger_empty_or_unknown_part_is_refused(requested, lena, parts, said):
    with pytest.raises(Invalid, match=said):
        change(requested, lena, *parts)
    requested.refresh_from_db()
    assert (requested.state, requested.devices, requested.original_request, len(rows_of(requested))) == (
        ClaimState.REQUESTED,
        7,
        None,
        2,
    )


def test_fixed_profile_is_kept_whole_or_left_out(ask, lena, pair):
    claim = ask(devices=2, together=[(pair, 1)])
    with pytest.raises(
        Invalid, match="pair has a fixed number of devices: approve it in full or set 0, not 2"
    ):
        change(claim, lena, ("pair", 2))
    assert change(claim, lena, ("pair", 0)).slugs == "train-80"


def test_parts_and_profile_cannot_change_together(requested, lena, slice_10):
    with pytest.raises(Invalid, match="not both"):
        change(requested, lena, ("train-80", 1), profile=slice_10)
    with pytest.raises(Invalid, match="set the number of devices per profile"):
        change(requested, lena, devices=2)


def test_alternatives_have_no_parts(ask, lena, slice_10):
    claim = ask(alternatives=[slice_10], name="either")
    with pytest.raises(Invalid, match="either has no combined profile slice-10"):
        change(claim, lena, ("slice-10", 0))


def test_lead_cannot_decide_by_leaving_out_a_strict_profile(ask, lena, root, vision):
    make_quota(vision, 4, device_class=PART)
    strict = make_profile("strict", spec=make_spec(device_class=PART), approval=Approval.ADMIN)
    claim = ask(together=[(strict, 1)])
    with pytest.raises(Forbidden, match="Only platform admins"):
        change(claim, lena, ("strict", 0))
    assert change(claim, root, ("strict", 0)).state == ClaimState.APPROVED


def test_change_by_a_lead_is_the_first_approval(requested, lena, root, train):
    ApprovalRule.objects.create(profile=train, approval=Approval.BOTH)
    claim = change(requested, lena, ("slice-10", 1))
    assert (claim.state, claim.devices) == (ClaimState.REQUESTED, 5)
    assert approve(claim=claim, by=root, spec_hash=claim.spec_hash).state == ClaimState.APPROVED


def test_planning_a_change_writes_nothing(requested):
    found = plan_change(requested, WantedChange(parts=(("slice-10", 1),)))
    assert found.differences == ("slice-10: 3 → 1 device",)
    assert (found.devices, found.charge) == (5, {"gpu.nvidia.com": 4, PART: 1})
    requested.refresh_from_db()
    assert (requested.devices, len(rows_of(requested))) == (7, 2)


def test_change_page_shows_the_differences_first(client, requested, lena, pair):
    client.force_login(lena)
    address = reverse("claims:change", args=[requested.pk])
    page = client.get(address).text
    assert 'name="part_train-80"' in page
    assert "Requested: 3 devices. 0 leaves the profile out." in page
    typed = {"part_train-80": "2", "part_slice-10": "0"}
    seen = client.get(address, typed, headers={"HX-Request": "true", "HX-Target": "preview"}).text
    assert "train-80: 4 → 2 devices" in seen
    assert "without slice-10" in seen
    assert "No additional quota needed." in seen
    answer = client.post(address, typed | {"spec_hash": requested.spec_hash, "note": "One is enough."})
    assert answer.status_code == 302
    requested.refresh_from_db()
    assert (requested.state, requested.devices, requested.slugs) == (ClaimState.APPROVED, 2, "train-80")


def test_change_form_has_the_requested_values_and_they_change_nothing(client, ask, requested, lena):
    client.force_login(lena)
    single = ask(devices=2, name="single")
    for claim, field in ((single, 'name="devices" value="2"'), (requested, 'name="part_train-80" value="4"')):
        address = reverse("claims:change", args=[claim.pk])
        page = client.get(address).text
        assert field in page
        assert f'name="duration" value="{spell_duration(claim.duration)}"' in page
        assert "Change a field to see the effect." in page
        values = ChangeForm.requested_values(claim).dict()
        answer = client.post(address, values | {"spec_hash": claim.spec_hash})
        assert answer.status_code == 422
        assert "Nothing has changed" in answer.text


def test_card_fetches_the_form_alone_and_the_page_has_no_request_of_its_own(client, requested, lena):
    client.force_login(lena)
    address = reverse("claims:change", args=[requested.pk])
    part = client.get(address, headers={"HX-Request": "true", "HX-Target": "decide"}).text
    assert part.lstrip().startswith('<form class="dg-change" id="decide"')
    assert 'hx-select="#decide"' in part
    assert 'hx-select="#decide"' not in client.get(address).text
    preview = client.get(
        address, {"part_train-80": "2"}, headers={"HX-Request": "true", "HX-Target": "preview"}
    ).text
    assert preview.lstrip().startswith('<div id="preview"')


def test_fixed_profile_is_a_choice_on_the_change_page(client, ask, lena, pair):
    claim = ask(together=[(pair, 1)])
    client.force_login(lena)
    page = client.get(reverse("claims:change", args=[claim.pk])).text
    assert '<option value="0">Leave out</option>' in page


@pytest.mark.parametrize(
    ("typed", "status", "said"),
    [
        ({"part_train-80": "5"}, 422, "less than or equal to 4"),
        ({"part_train-80": "many"}, 422, "whole number"),
        ({"part_train-80": "0", "part_slice-10": "0"}, 422, "No devices of sam2 would be left"),
        ({"part_train-80": "4", "part_slice-10": ""}, 422, "Nothing has changed"),
    ],
)
def test_invalid_change_is_explained_on_the_page(client, requested, lena, typed, status, said):
    client.force_login(lena)
    answer = client.post(
        reverse("claims:change", args=[requested.pk]), typed | {"spec_hash": requested.spec_hash}
    )
    assert answer.status_code == status
    assert said in answer.text
    requested.refresh_from_db()
    assert requested.state == ClaimState.REQUESTED


def test_reader_without_authority_cannot_change(client, requested, bob, eve):
    address = reverse("claims:change", args=[requested.pk])
    for person, status in ((bob, 403), (eve, 404)):
        client.force_login(person)
        assert client.get(address).status_code == status
        assert (
            client.post(address, {"part_train-80": "1", "spec_hash": requested.spec_hash}).status_code
            == status
        )


def test_the_api_approves_fewer_of_each(client, requested, lena):
    client.force_login(lena)
    said = {"spec_hash": requested.spec_hash, "together": [{"profile": "slice-10", "devices": 0}]}
    address = f"/api/v1/claims/{requested.pk}/approve/"
    answer = client.post(address, said, content_type="application/json")
    assert answer.status_code == 200
    assert answer.json()["profiles"] == ["train-80"]
    late = client.post(address, said, content_type="application/json")
    assert late.status_code in (200, 409)
    said["together"] = [{"profile": "slice-10", "devices": -1}]
    assert client.post(address, said, content_type="application/json").status_code == 422


def test_change_page_queries_do_not_grow_with_profiles(client, ask, lena, slice_10):
    def part(name):
        return make_profile(name, spec=make_spec(device_class=PART)), 1

    few, many = (ask(devices=2, together=[part(name) for name in names]) for names in ("a", "bcd"))
    client.force_login(lena)
    costs = []
    for claim in (few, many):
        address = reverse("claims:change", args=[claim.pk])
        client.get(address, {"part_train-80": "1"})
        with CaptureQueriesContext(connection) as seen:
            assert client.get(address, {"part_train-80": "1"}).status_code == 200
        costs.append(len(seen))
    assert costs[0] == costs[1]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("other", ["leads", "asker"])
def test_concurrent_decisions_leave_charges_that_match_the_spec(
    ask, lena, lars, alice, vision, slice_10, monkeypatch, other
):
    monkeypatch.setattr("claims.delivery.tasks.deliver.delay", lambda _id: None)
    claim = ask(devices=4, together=[(slice_10, 3)])
    second = (
        partial(change, claim, lars, ("train-80", 0))
        if other == "leads"
        else partial(withdraw, claim=claim, by=alice)
    )
    race = Race(monkeypatch)
    race.hold_before(decide, "_replace_charges")
    changed, late = race.run(partial(change, claim, lena, ("slice-10", 0)), second)
    assert race.waited
    assert isinstance(changed, Claim)
    assert isinstance(late, Conflict if other == "leads" else IllegalTransition)
    claim.refresh_from_db()
    assert {row.device_class: row.devices for row in claim.charges.all()} == {"gpu.nvidia.com": 4}
    assert claim.approved_hash == claim.spec_hash
