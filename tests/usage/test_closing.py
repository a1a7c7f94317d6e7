"""A closed month keeps its figures; what becomes known later is a correction in the open month."""

import csv
import io
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
import time_machine
from django.db import DatabaseError, transaction
from django.urls import reverse

from claims.budgets.use import SpendingPeriod
from claims.models import Allocation
from claims.signals import allocations_changed
from core.errors import Conflict, Forbidden
from inventory.models import FleetSpan
from teams.models import AuditEntry
from tests.factories import make_allocation
from tests.recomputed import recompute
from tests.usage.conftest import H100, hold, measure, price
from usage import daily
from usage.closing import close_month
from usage.cost import total
from usage.fleet_report import GroupBy, fleet_report, month_of
from usage.focus import focus_lines
from usage.models import ClosedMonth, Correction, DailyActivity, DailySum, DailyUse, Rate, StoredDays
from usage.month_spend import month_spend
from usage.rates import RateCard
from usage.reports import Month, claim_cost, report
from usage.services import save_rate
from usage.spending import spending

pytestmark = pytest.mark.django_db(transaction=True)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
NOW = datetime(2026, 11, 5, 12, tzinfo=UTC)
OCTOBER, NOVEMBER = Month(date(2026, 10, 1)), Month(date(2026, 11, 1))


@pytest.fixture(autouse=True)
def _now():
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def october(claim, fra):
    """A claim that holds a GPU at €2 from 30 October on, of a fleet of two; its days are stored."""
    price("2")
    FleetSpan.objects.create(
        cluster=fra, driver="gpu.nvidia.com", product=H100, use=FleetSpan.Use.AVAILABLE, parts=2 * 10**6,
        started_at=datetime(2026, 10, 1, tzinfo=UTC),
    )  # fmt: skip
    held = hold(claim, datetime(2026, 10, 30, tzinfo=UTC))
    measure(held, datetime(2026, 10, 30, tzinfo=UTC), [0.5] * 12)
    daily.store_days(now=NOW)
    return held


def ended_late(held, end=datetime(2026, 10, 31, 12, tzinfo=UTC)):
    """The portal learns today that the claim ended in October, and stores what follows."""
    Allocation.objects.filter(pk=held.pk).update(ended_at=end)
    allocations_changed.send(sender=Allocation, since=end)
    daily.store_days(now=NOW)


def figures(team, month):
    found = fleet_report(month_of(month.first), GroupBy.TEAM, now=NOW)
    lines = "".join(line for line in focus_lines(found.period, now=NOW))
    of_team = report(team, month, now=NOW)
    return of_team.total, [line.cost for line in of_team.lines], found.parts, found.rows, lines


def test_closed_month_keeps_every_figure_and_the_change_is_in_the_open_month(october, vision, root):
    closed = close_month(by=root, month=OCTOBER)
    assert (closed.by, str(closed), StoredDays.objects.get().closed_until) == (
        root, "October 2026", NOVEMBER.first,
    )  # fmt: skip
    before, spent = figures(vision, OCTOBER), report(vision, NOVEMBER, now=NOW).total
    assert spent.amounts == {"EUR": Decimal(2 * 24 * 4 + 2 * 12)}
    ended_late(october)
    assert figures(vision, OCTOBER) == before
    now = report(vision, NOVEMBER, now=NOW)
    assert now.total.amounts == now.corrections.amounts == {"EUR": Decimal("-24.00")}
    assert now.total.hours == Decimal("-12.00")
    [line] = now.lines
    assert (line.corrects, line.product) == (OCTOBER.first, H100)
    assert [row.label for row in now.by_claim] == ["sam2-finetune, correction of October 2026"]


def test_both_months_together_are_what_allocations_and_rates_say(october, vision, root):
    close_month(by=root, month=OCTOBER)
    for end in (datetime(2026, 10, 31, 12, tzinfo=UTC), datetime(2026, 10, 31, 6, 7, 8, 9, tzinfo=UTC)):
        ended_late(october, end)
    months = [report(vision, month, now=NOW).total for month in (OCTOBER, NOVEMBER)]
    plain = claim_cost(october.claim, list(Allocation.objects.all()), RateCard.load(), now=NOW).so_far
    assert total(months) == plain


def test_correction_is_found_once(october, root):
    close_month(by=root, month=OCTOBER)
    ended_late(october)
    assert Correction.objects.count() == 1
    for number in range(3):
        assert daily.repair_chunk(number).total == 0
    assert "0 rows to repair" in recompute("spend", "--check")
    assert Correction.objects.count() == 1


def test_repair_finds_a_change_that_nobody_announced(october, root):
    close_month(by=root, month=OCTOBER)
    Allocation.objects.filter(pk=october.pk).update(ended_at=datetime(2026, 11, 1, tzinfo=UTC))
    assert sum(daily.repair_chunk(number).total for number in range(2)) > 0
    assert not Correction.objects.exists()
    Allocation.objects.filter(pk=october.pk).update(started_at=datetime(2026, 10, 30, 1, tzinfo=UTC))
    daily.repair_chunk(0)
    [found] = Correction.objects.all()
    assert (found.day, found.booked_on, int(found.held)) == (date(2026, 10, 30), NOW.date(), -3600 * 10**12)


@pytest.mark.parametrize("order", [(3,), (3, 20), (20, 3), (20, 3, 25)])
def test_claims_that_become_known_later_are_corrections_in_any_order(october, claim, vision, root, order):
    close_month(by=root, month=OCTOBER)
    for day in order:
        start = datetime(2026, 10, day, tzinfo=UTC)
        make_allocation(
            claim, start, start + HOUR, device=f"gpu-{day}", product=H100, object_uid=f"late-{day}", pool="p"
        )
        allocations_changed.send(sender=Allocation, since=start)
    daily.store_days(now=NOW)
    assert sorted(row.day.day for row in Correction.objects.all()) == sorted(order)
    assert report(vision, NOVEMBER, now=NOW).corrections.amounts == {"EUR": 2 * Decimal(len(order))}
    assert report(vision, OCTOBER, now=NOW).corrections.amounts == {}


def test_page_csv_api_report_focus_and_home_agree_on_corrections(client, october, vision, alice, root):
    close_month(by=root, month=OCTOBER)
    ended_late(october)
    found = fleet_report(month_of(NOVEMBER.first), GroupBy.TEAM, now=NOW)
    [row] = found.rows
    minus = {"EUR": Decimal("-24.00")}
    assert (
        row.parts.billed.amounts == row.parts.corrections.amounts == found.parts.corrections.amounts == minus
    )
    assert found.parts.fleet.amounts == {"EUR": Decimal(2 * 2 * 24 * 4)}  # all unallocated
    month = month_spend(vision, alice, RateCard.load(), now=NOW)
    assert month.total.amounts == total(cost for _day, cost in month.days).amounts == minus
    client.force_login(root)
    file = client.get("/api/v1/costs/focus/?month=2026-11").getvalue().decode()
    [exported] = csv.DictReader(io.StringIO(file))
    assert (exported["ChargeClass"], exported["BilledCost"]) == ("Correction", "-24.0")
    assert exported["ChargePeriodStart"] == "2026-10-31T00:00:00Z"
    assert exported["BillingPeriodStart"] == "2026-11-01T00:00:00Z"
    lines = client.get(reverse("usage:team_csv", args=["vision"])).getvalue().decode()
    [of_csv] = csv.DictReader(io.StringIO(lines))
    assert (of_csv["amount"], of_csv["corrects"]) == ("-24.00", "2026-10")
    body = client.get("/api/v1/costs/?team=vision&month=2026-11").json()
    assert (
        body["corrections"]["amounts"]
        == body["total"]["amounts"]
        == [{"currency": "EUR", "amount": "-24.00"}]
    )
    assert (body["by_claim"][0]["corrects"], body["closed_at"]) == ("2026-10", None)
    whole = client.get("/api/v1/costs/reconciliation/?month=2026-11").json()
    assert whole["corrections"]["amounts"] == [{"currency": "EUR", "amount": "-24.00"}]
    page = client.get("/report/?month=2026-11").content.decode()
    assert "corrections of closed months, booked here, −12.00 GPU-hours and −€24.00" in page
    assert "correction of October 2026" in client.get(reverse("usage:team", args=["vision"])).content.decode()
    rows = csv.reader(client.get("/report/?month=2026-11&format=csv").getvalue().decode().splitlines())
    assert ["correction", vision.title] in [one[:2] for one in rows]
    assert client.get(reverse("team", args=["vision"])).context["month"].total.amounts == minus


@pytest.mark.parametrize("later", [timedelta(0), 2 * DAY])  # booked on a day that is not stored yet, or is
def test_budget_counts_a_correction_once(october, vision, root, later):
    close_month(by=root, month=OCTOBER)
    ended_late(october)
    daily.store_days(now=NOW + later)
    period = SpendingPeriod(vision.pk, NOVEMBER.first, date(2026, 11, 30))
    [spent] = spending([period], now=NOW + later)
    assert spent.amounts == {"EUR": Decimal("-24.00")}


def test_forecast_does_not_repeat_a_correction(october, vision, alice, root):
    close_month(by=root, month=OCTOBER)
    ended_late(october)
    hold(october.claim, NOVEMBER.start, NOVEMBER.start + 90 * HOUR, device="gpu-y")
    daily.refresh_all()
    later = NOVEMBER.start + 10 * DAY
    spent = month_spend(vision, alice, RateCard.load(), now=later)
    assert spent.total.amounts == {"EUR": Decimal("156.00")}
    # 180 in the four stored days, and what is spent until now with its correction once.
    assert spent.forecast.amount == 156 + Decimal(180) / (4 * 24) * (20 * 24)


@pytest.mark.parametrize("model", [DailyUse, DailySum, DailyActivity])
def test_database_refuses_to_change_a_closed_day(october, root, model):
    close_month(by=root, month=OCTOBER)
    rows = model.objects.filter(day=date(2026, 10, 30))
    assert rows.exists()
    for change in (lambda: rows.update(day=date(2026, 10, 30)), rows.delete):
        with pytest.raises(DatabaseError, match="in a closed month"), transaction.atomic():
            change()


def test_database_refuses_to_change_a_correction(october, root):
    close_month(by=root, month=OCTOBER)
    ended_late(october)
    for change in (lambda: Correction.objects.update(held=0), Correction.objects.all().delete):
        with pytest.raises(DatabaseError, match="does not change"), transaction.atomic():
            change()


def rate_from(start, by):
    return save_rate(by=by, title="H100", per_hour=Decimal(3), currency="EUR", valid_from=start)


def test_rate_cannot_begin_in_a_closed_month(october, root):
    close_month(by=root, month=OCTOBER)
    with pytest.raises(Conflict, match="October 2026 and the months before are closed"):
        rate_from(NOVEMBER.start - timedelta(seconds=1), root)
    with pytest.raises(Conflict):
        rate_from(datetime(2026, 3, 1, tzinfo=UTC), root)
    rate_from(NOVEMBER.start, root)
    assert Rate.objects.count() == 2


def test_month_is_closed_once_in_order_and_when_it_is_over(october, alice, root):
    with pytest.raises(Forbidden):
        close_month(by=alice, month=OCTOBER)
    with pytest.raises(Conflict, match="November 2026 can be closed from"):
        close_month(by=root, month=NOVEMBER)
    close_month(by=root, month=OCTOBER)
    for month in (OCTOBER, OCTOBER.previous):
        with pytest.raises(Conflict, match=f"{month.title} was closed on .* by root"):
            close_month(by=root, month=month)
    with time_machine.travel(datetime(2027, 1, 2, tzinfo=UTC), tick=False):
        with pytest.raises(Conflict, match="Close November 2026 first"):
            close_month(by=root, month=NOVEMBER.next)
        with pytest.raises(Conflict, match="The days from 5 Nov 2026 on are being computed again"):
            close_month(by=root, month=NOVEMBER)
        daily.store_days(now=datetime(2027, 1, 2, tzinfo=UTC))
        close_month(by=root, month=NOVEMBER)
    assert ClosedMonth.objects.count() == 2


def test_month_with_nothing_stored_cannot_be_closed(root, db):
    with pytest.raises(Conflict, match="no month to close"):
        close_month(by=root, month=OCTOBER)


def test_admin_closes_a_month_on_its_page(client, october, root, alice):
    client.force_login(alice)
    assert client.get("/report/close/").status_code == client.post("/report/close/").status_code == 403
    client.force_login(root)
    assert "Close October…" in client.get("/report/?month=2026-10").content.decode()
    page = client.get("/report/close/?month=2026-10").content.decode()
    assert "1 team held 48.00 GPU-hours for <b>€96.00</b>" in page
    assert client.post("/report/close/", {"month": "2026-12"}).status_code == 409
    response = client.post("/report/close/", {"month": "2026-10"})
    assert (response.status_code, response["Location"]) == (302, "/report/?month=2026-10")
    assert "October 2026 is closed: on <time" in client.get("/report/?month=2026-10").content.decode()
    again = client.post("/report/close/", {"month": "2026-10"})
    assert again.status_code == 409
    assert "was closed on" in again.content.decode()
    [change] = AuditEntry.objects.filter(kind="closedmonth")
    assert (change.by, change.name, change.text) == (root, "October 2026", "closed")
    assert "October 2026" in client.get("/activity/").content.decode()


def test_hours_without_a_rate_are_named_before_a_month_is_closed(client, claim, root):
    hold(claim, datetime(2026, 10, 30, tzinfo=UTC), datetime(2026, 10, 31, tzinfo=UTC))
    daily.store_days(now=NOW)
    client.force_login(root)
    assert "24.00 GPU-hours have no rate" in client.get("/report/close/").content.decode()


def test_closed_months_in_the_api(client, october, root, alice):
    url = "/api/v1/costs/closed-months/"
    client.force_login(alice)
    assert client.get(url).status_code == 403
    assert client.post(url, {"month": "2026-10"}, content_type="application/json").status_code == 403
    client.force_login(root)
    made = client.post(url, {"month": "2026-10"}, content_type="application/json")
    assert (made.status_code, made.json()["month"], made.json()["by"]) == (201, "2026-10", "root")
    assert client.post(url, {"month": "2026-10"}, content_type="application/json").status_code == 409
    assert client.post(url, {"month": "2026-13"}, content_type="application/json").status_code == 422
    assert [row["month"] for row in client.get(url).json()["results"]] == ["2026-10"]
