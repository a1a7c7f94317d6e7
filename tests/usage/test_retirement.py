"""A rate that ends: what then has its price, what keeps it, and who may end it when."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import time_machine
from django.utils.dateparse import parse_datetime

from core.errors import Conflict, Forbidden, Invalid
from teams.models import AuditEntry
from tests.usage.conftest import H100, NOON, hold, price
from usage import daily
from usage.models import Rate
from usage.rates import PriceGroup, RateCard
from usage.reports import Month, report
from usage.services import retire_rate, save_rate

pytestmark = pytest.mark.django_db(transaction=True)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture(autouse=True)
def clock():
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


def group_of(cluster):
    return PriceGroup(cluster.pk, "gpu.nvidia.com", H100)


def test_next_rate_that_matches_applies_from_its_end_on(fra):
    whole = price("1")
    special = price("3", product="H100", valid_until=NOON + HOUR)
    card = RateCard.load()
    assert card.at(group_of(fra), NOON + HOUR - timedelta(microseconds=1)) == special
    assert card.at(group_of(fra), NOON + HOUR) == whole
    segments = list(card.segments(group_of(fra), NOON, NOON + 3 * HOUR))
    assert [(one.rate, one.end) for one in segments] == [(special, NOON + HOUR), (whole, NOON + 3 * HOUR)]


def test_without_another_rate_hours_after_its_end_have_none(claim, root, clock):
    rate = price("2")
    hold(claim, NOON - 2 * HOUR)
    retire_rate(by=root, rate=rate)
    found = report(claim.team, Month(NOON.date().replace(day=1)), now=NOON + 3 * HOUR)
    assert (found.total.amounts, found.total.unpriced) == ({"EUR": Decimal("4.00")}, Decimal("3.00"))


def test_hours_before_its_end_keep_their_price_and_their_rows(claim, root):
    rate = price("2")
    hold(claim, NOON - 40 * DAY)
    daily.store_days(now=NOON)
    assert retire_rate(by=root, rate=rate, until=NOON + DAY).valid_until == NOON + DAY
    assert daily.stored_until() == NOON.date()
    assert daily.refresh_all(check=True).total == 0
    [change] = AuditEntry.objects.filter(kind="rate")
    assert change.text.startswith("retired, from Wed 18 Nov 2026")


def test_rate_is_ended_once_not_in_the_past_and_not_before_it_begins(root, alice):
    rate, pending = price("2"), price("3", since=NOON + DAY)
    with pytest.raises(Forbidden):
        retire_rate(by=alice, rate=rate)
    with pytest.raises(Invalid, match="the past has been billed"):
        retire_rate(by=root, rate=rate, until=NOON - HOUR)
    with pytest.raises(Conflict, match="does not apply yet"):
        retire_rate(by=root, rate=pending)
    retire_rate(by=root, rate=rate, until=NOON + HOUR)
    retire_rate(by=root, rate=rate)  # earlier than announced
    with pytest.raises(Conflict, match="has ended already"):
        retire_rate(by=root, rate=rate)


def test_new_rate_may_have_an_end_after_its_begin(root):
    fields: dict[str, Any] = {
        "title": "spot",
        "per_hour": Decimal(1),
        "currency": "EUR",
        "valid_from": NOON,
    }
    with pytest.raises(Invalid, match="ends after it begins"):
        save_rate(by=root, **fields, valid_until=NOON)
    assert save_rate(by=root, **fields, valid_until=NOON + HOUR).valid_until == NOON + HOUR


def test_page_retires_a_rate(client, root, alice):
    rate = price("2", title="H100 list")
    url = f"/rates/{rate.pk}/retire/"
    client.force_login(alice)
    assert client.post(url).status_code == 403
    client.force_login(root)
    assert "Retire…" in client.get("/rates/").content.decode()
    refused = client.post(url, {"until": "2026-11-01T00:00"})
    assert (refused.status_code, "the past has been billed" in refused.content.decode()) == (422, True)
    assert client.post(url, {"until": "someday"}).status_code == 422
    assert client.post(url, {"until": ""}).status_code == 302
    page = client.get("/rates/").content.decode()
    assert "ended <time" in page
    assert "Retire…" not in page
    assert "Retire" not in client.get(f"/rates/{rate.pk}/").content.decode()
    assert client.post(url).status_code == 409
    lines = client.get("/rates/?format=csv").getvalue().decode().splitlines()
    assert "Applies until" in lines[0]
    assert "2026-11-17" in lines[1]


def test_form_refuses_an_end_before_the_begin(client, root):
    client.force_login(root)
    fields = {"title": "x", "per_hour": "1", "currency": "EUR", "valid_from": "2026-12-01T00:00"}
    response = client.post("/rates/new/", fields | {"valid_until": "2026-11-30T00:00"})
    assert response.status_code == 422
    assert "A rate ends after it begins." in response.content.decode()
    assert client.post("/rates/new/", fields | {"valid_until": "2026-12-24T00:00"}).status_code == 302
    assert Rate.objects.get().valid_until == datetime(2026, 12, 24, tzinfo=UTC)


def test_api_retires_a_rate(client, root, alice):
    rate = price("2")
    url = f"/api/v1/rates/{rate.pk}/retire/"
    client.force_login(alice)
    assert client.post(url, {}, content_type="application/json").status_code == 403
    client.force_login(root)
    until = (NOON + DAY).isoformat()
    made = client.post(url, {"until": until}, content_type="application/json")
    assert (made.status_code, parse_datetime(made.json()["valid_until"])) == (200, NOON + DAY)
    assert client.post(url, {}, content_type="application/json").status_code == 200
    assert client.post(url, {}, content_type="application/json").status_code == 409
