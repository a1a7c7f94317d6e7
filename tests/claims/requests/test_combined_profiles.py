"""A claim that takes devices of several profiles: what it asks for, what it counts for, who decides."""

from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from claims.approvals.decide import approve
from claims.catalogue.services import retire_profile
from claims.delivery.tasks import reconcile_objects
from claims.models import Approval, Claim, Quota
from claims.quotas import quota_usage
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, Invalid, QuotaExceeded
from dra.validation import problems
from tests.claims.mirror import Mirror, result
from tests.factories import make_profile, make_quota, make_spec, make_team

pytestmark = pytest.mark.django_db

PART = "mig.nvidia.com"


@pytest.fixture
def slice_10(db):
    return make_profile("slice-10", spec=make_spec(device_class=PART), max_devices=4)


@pytest.fixture
def parts(vision):
    return make_quota(vision, 4, device_class=PART)


def used():
    return {row.label: (row.held, row.reserved) for row in quota_usage.quota_usage(Quota.objects.all())}


def test_it_asks_for_all_of_them(ask, train, slice_10, parts):
    claim = ask(devices=2, together=[(slice_10, 3)])
    named = {one["name"]: one["exactly"]["count"] for one in claim.spec["devices"]["requests"]}
    assert named == {"train-80": 2, "slice-10": 3}
    assert problems(claim.spec) == []
    assert claim.devices == 5
    rows = claim.alternatives.values_list("name", "profile_version__profile__slug", "devices", "together")
    assert list(rows) == [("train-80", "train-80", 2, True), ("slice-10", "slice-10", 3, True)]


def test_each_counts_against_its_own_quotas_for_all_claims_at_once(ask, vision, train, slice_10, parts):
    make_quota(vision, 6, profile=train)
    make_quota(vision, 4, profile=slice_10)
    ask(devices=1, parallel=2, delivery="template", together=[(slice_10, 2)])
    assert used() == {
        "gpu.nvidia.com": (0, 2),
        PART: (0, 4),
        str(train): (0, 2),
        str(slice_10): (0, 4),
    }


def test_the_quota_of_each_has_to_have_room(ask, vision, slice_10):
    with pytest.raises(QuotaExceeded, match=r"vision has no quota for mig\.nvidia\.com devices"):
        ask(together=[(slice_10, 1)])
    make_quota(vision, 4, device_class=PART)
    make_quota(vision, 1, profile=slice_10)
    with pytest.raises(QuotaExceeded, match="this request needs 2"):
        ask(together=[(slice_10, 2)])
    assert not Claim.objects.exists()


def test_what_it_counts_for_stays_while_it_holds_devices(ask, lena, vision, fra, train, slice_10, parts):
    make_quota(vision, 4, profile=slice_10)
    claim = ask(devices=1, together=[(slice_10, 1)], name="mine")
    approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    mirror = Mirror(fra)
    mirror.claim("mine", claim)
    given = [result("gpu-0", request="train-80"), result("gpu-1-mig-1", request="slice-10")]
    mirror.claim("mine", claim, *given)
    reconcile_objects(str(fra.pk), ["vision/mine"])
    claim.refresh_from_db()
    assert claim.state == ClaimState.ALLOCATED
    assert used() == {"gpu.nvidia.com": (1, 0), PART: (1, 0), str(slice_10): (1, 0)}
    assert not claim.alternatives.exclude(settled=None).exists()


def test_the_strictest_rule_of_all_decides(ask, lena, parts):
    automatic = make_profile("quick", approval=Approval.AUTOMATIC)
    also = make_profile("also", spec=make_spec(device_class=PART), approval=Approval.AUTOMATIC)
    strict = make_profile("strict", spec=make_spec(device_class=PART), approval=Approval.ADMIN)
    assert ask(profile=automatic, together=[(also, 1)]).state == ClaimState.APPROVED
    claim = ask(profile=automatic, together=[(strict, 1)])
    assert claim.state == ClaimState.REQUESTED
    with pytest.raises(Forbidden, match="platform admin"):
        approve(claim=claim, by=lena, spec_hash=claim.spec_hash)


@pytest.mark.parametrize(
    ("count", "limits", "said"),
    [
        (5, {"max_devices": 4}, "part allows 4 devices per claim; this request needs 5"),
        (1, {"deliveries": ["template"]}, "part is not available as a"),
        (0, {}, "at least 1 device"),
        (3, {"scalable": ""}, "part always has 1 device per claim"),
    ],
)
def test_each_obeys_its_own_limits(ask, parts, count, limits, said):
    part = make_profile("part", spec=make_spec(device_class=PART), **limits)
    with pytest.raises(Invalid, match=said):
        ask(together=[(part, count)])


def test_what_cannot_stand_together_is_said(ask, train, slice_10, parts):
    with pytest.raises(Invalid, match="either alternatives or further profiles"):
        ask(alternatives=[slice_10], together=[(slice_10, 1)])
    with pytest.raises(Invalid, match="train-80 is listed twice"):
        ask(together=[(train, 1)])
    wide = make_profile("wide", max_devices=32)
    with pytest.raises(Invalid, match="The profiles have 33 devices in total"):
        ask(devices=8, together=[(wide, 25)])


def test_a_profile_that_is_closed_or_retired_is_refused(ask, root, slice_10, parts):
    slice_10.teams.add(make_team("nlp"))
    with pytest.raises(Forbidden, match="is not open to vision"):
        ask(together=[(slice_10, 1)])
    slice_10.teams.clear()
    retire_profile(by=root, profile=slice_10)
    with pytest.raises(Conflict, match="slice-10 is retired"):
        ask(together=[(slice_10, 1)])


def test_page_and_api_tell_all_profiles_and_what_is_held_of_each(
    client, ask, alice, lena, fra, slice_10, parts
):
    claim = ask(devices=2, together=[(slice_10, 1)], name="mine")
    approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    given = [result(name, request="train-80") for name in ("gpu-0", "gpu-1")]
    mirror = Mirror(fra)
    mirror.claim("mine", claim, *given, result("gpu-2-mig-0", request="slice-10"))
    reconcile_objects(str(fra.pk), ["vision/mine"])
    client.force_login(alice)
    listed = client.get(f"/api/v1/claims/{claim.pk}/").json()["alternatives"]
    assert [(one["profile"], one["devices"], one["held"], one["together"]) for one in listed] == [
        ("train-80", 2, 2, True),
        ("slice-10", 1, 1, True),
    ]
    page = client.get(reverse("claims:detail", args=[claim.pk])).text
    asked = page.partition("Requested:")[2].partition("</div>")[0]
    assert "2 × " in asked
    assert " and " in asked


def test_asking_again_fills_in_the_same(client, ask, alice, slice_10, parts):
    claim = ask(devices=2, parallel=2, delivery="template", together=[(slice_10, 2)], reason="Again & again")
    client.force_login(alice)
    page = client.get(reverse("claims:detail", args=[claim.pk])).context["again_url"]
    fields = parse_qs(urlsplit(page).query)
    assert fields == {
        "profile": ["train-80"],
        "together": ["slice-10"],
        "together_devices": ["2"],
        "devices": ["2"],
        "delivery": ["template"],
        "parallel": ["2"],
        "duration": ["24h"],
        "reason": ["Again & again"],
        "team": ["vision"],
        "cluster": ["fra-1"],
    }


def test_asking_again_types_what_was_typed_not_what_it_comes_to(client, ask, alice, train, parts):
    pair = make_profile("pair", spec=make_spec(2), scalable="")
    client.force_login(alice)
    for claim, typed in (
        (ask(profile=pair, devices=1), "1"),
        (ask(profile=train, devices=3, alternatives=[pair]), "3"),
        (ask(profile=train, devices=1, alternatives=[pair]), "1"),
    ):
        address = client.get(reverse("claims:detail", args=[claim.pk])).context["again_url"]
        assert parse_qs(urlsplit(address).query)["devices"] == [typed]
        claim.delete()


@pytest.mark.parametrize("address", ["/api/v1/claims/{}/", "/claims/{}/"])
def test_a_claim_costs_the_same_for_two_profiles_and_for_many(client, ask, alice, parts, address):
    def part(name):
        return make_profile(name, spec=make_spec(device_class=PART)), 1

    few, many = ask(together=[part("a")]), ask(together=[part(name) for name in ("b", "c", "d")])
    client.force_login(alice)
    costs = []
    for claim in (few, many):
        client.get(address.format(claim.pk))
        with CaptureQueriesContext(connection) as seen:
            assert client.get(address.format(claim.pk)).status_code == 200
        costs.append(len(seen))
    assert costs[0] == costs[1]


def test_the_api_takes_and_previews_profiles_together(
    client, alice, vision, fra, train, quota, slice_10, parts
):
    client.force_login(alice)
    request_fields = {"team": "vision", "cluster": "fra-1", "profile": "train-80", "devices": 2}
    request_fields["together"] = [{"profile": "slice-10", "devices": 3}]
    seen = client.post("/api/v1/match/", request_fields, content_type="application/json").json()
    assert seen["charge"] == {"gpu.nvidia.com": 2, PART: 3}
    headers = {"Idempotency-Key": "k-1"}
    made = client.post("/api/v1/claims/", request_fields, content_type="application/json", headers=headers)
    assert made.status_code == 201
    assert made.json()["devices"] == 5
    request_fields["together"] = [{"profile": "nothing", "devices": 1}]
    answer = client.post(
        "/api/v1/claims/", request_fields, content_type="application/json", headers={"Idempotency-Key": "k-2"}
    )
    assert answer.status_code == 422
    assert "There is no profile nothing." in answer.text
