"""Dates and durations at the ends of the calendar are refused before anything keeps them."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from claims.catalogue.selectors import parse_spec
from claims.models import Extension, QuotaRequest
from claims.states import ClaimState
from core.errors import Invalid
from core.times import MAX_DURATION, parse_duration, require_date
from teams.models import ApiToken
from tests.factories import make_claim, make_cluster, make_quota, make_team, make_user, sign_in_just_now

pytestmark = pytest.mark.django_db
LAST, FIRST = "9999-12-31T23:59", "0001-01-01T00:00"
CENTURIES = " ".join(["99999w"] * 6)


@pytest.fixture
def alice():
    """A member east of Greenwich, where the last day of the calendar is no day any more."""
    return make_user("alice", timezone="Asia/Tokyo")


@pytest.fixture
def vision(alice):
    return make_team("vision", members=(alice,), leads=(make_user("lena", timezone="Asia/Tokyo"),))


@pytest.fixture
def claim(alice, vision):
    end = timezone.now() + timedelta(days=1)
    fra = make_cluster("fra-1", teams=(vision,))
    return make_claim(vision, by=alice, cluster=fra, state=ClaimState.PROVISIONED, expires_at=end)


@pytest.fixture
def browser(alice):
    browser = Client()
    sign_in_just_now(browser, alice)
    return browser


@pytest.mark.parametrize("year", [1, 1969, 2201, 9999])
def test_year_out_of_range_is_refused(year):
    with pytest.raises(Invalid, match=f"between 1970 and 2200; the year {year} was sent"):
        require_date(datetime(year, 6, 1, tzinfo=UTC))


def test_year_in_range_is_accepted():
    require_date(datetime(1970, 1, 1, tzinfo=UTC))
    require_date(datetime(2200, 12, 31, tzinfo=UTC))
    require_date(None)


@pytest.mark.parametrize("until", [LAST, FIRST])
def test_extension_to_a_year_out_of_range_is_refused(browser, claim, until):
    for name in ("extend", "shorten"):
        page = browser.post(f"/claims/{claim.pk}/{name}/", {"until": until, "span": "other"})
        assert page.status_code == 422, name
    api = browser.post(f"/api/v1/claims/{claim.pk}/extend/", {"until": f"{LAST}Z"}, "application/json")
    assert (api.status_code, Extension.objects.count()) == (422, 0)


def test_quota_request_until_a_year_out_of_range_is_refused(browser, vision):
    make_quota(vision, 8)
    asked = {"team": "vision", "device_class": "gpu.nvidia.com", "reason": "r", "key": "k"}
    page = browser.post("/quotas/requests/new/", {**asked, "more": 1, "until": LAST})
    api = browser.post(
        "/api/v1/quotas/requests/", {**asked, "devices": 9, "until": f"{LAST}Z"}, "application/json"
    )
    assert (page.status_code, api.status_code, QuotaRequest.objects.count()) == (422, 422, 0)


def test_token_until_a_year_out_of_range_is_refused(browser):
    answer = browser.post("/api/v1/tokens/", {"title": "t", "expires_at": f"{LAST}Z"}, "application/json")
    assert (answer.status_code, ApiToken.objects.count()) == (422, 0)


def test_a_duration_of_centuries_is_no_duration(browser, claim):
    assert parse_duration("36500d") == MAX_DURATION
    with pytest.raises(ValueError, match="99999w"):
        parse_duration(CENTURIES)
    page = browser.post(f"/claims/{claim.pk}/extend/", {"span": CENTURIES})
    assert page.status_code == 422
    body = {"action": "extend", "claims": [str(claim.pk)]}
    for by in (CENTURIES, "99999999999", "P99999999D"):
        api = browser.post("/api/v1/claims/bulk/", {**body, "by": by}, "application/json")
        assert api.status_code == 422, by
    assert browser.get("/claims/bulk/", {**body, "claim": claim.pk, "by": CENTURIES}).status_code == 200


def test_a_deep_specification_is_refused():
    with pytest.raises(Invalid, match=r"The spec, line 1: the limit is 50 levels\."):
        parse_spec("[" * 20_000)
