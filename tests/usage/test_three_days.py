"""
Three days through a real Prometheus, a real Celery worker and a PostgreSQL of their own, each of them killed.

What pages, API and files say afterwards is compared, figure by figure, with the sums of
`tests.usage.three_days.history`, which knows nothing of the portal, nor of anything that was killed.
"""

import csv
import io
import json
from collections import defaultdict
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow.parquet
import pytest
import time_machine
from django.db import connection
from django.db.models import Sum as Total

from claims.models import Budget
from teams.models import User
from tests import postgres
from tests.crawl.tree import parse
from tests.usage.three_days import history
from tests.usage.three_days.figures import figures_of, share
from tests.usage.three_days.history import (
    ALL,
    CLAIMS,
    FORGOTTEN,
    NOW,
    WORKS,
    Sum,
    half_up,
    of_claim,
    of_team,
    works_of,
)
from tests.usage.three_days.pages import (
    BUDGET,
    BUDGET_HOURS,
    GROUPS,
    IDLE_SINCE,
    budget_hours,
    budget_money,
    gib,
    idle_cost,
    pages,
)
from tests.usage.three_days.play import three_days
from usage.cost import CURRENCY_UNIT, DEVICE_HOUR, rounded
from usage.models import Collection, DailyActivity, DailyUse, Rollup


@pytest.fixture(scope="module")
def played(tmp_path_factory, django_db_setup, django_db_blocker):
    """The claims by name, after the three days; the tests read them, each in a transaction."""
    template = postgres.url(connection.settings_dict["NAME"])
    with ExitStack() as stack:
        with django_db_blocker.unblock():
            claims = stack.enter_context(three_days(tmp_path_factory.mktemp("days"), template))
        yield claims
        with django_db_blocker.unblock():
            stack.close()


@pytest.fixture
def days(played, db):
    """The claims by name, as of the minute in which everything is read."""
    with time_machine.travel(NOW, tick=False):
        yield played


@pytest.fixture
def reader(days, client):
    """Return a client of a person by name."""

    def of(name):
        client.force_login(User.objects.get(username=name))
        return client

    return of


def amounts(cost):
    return [Decimal(one["amount"]) for one in cost["amounts"]]


def test_each_bucket_has_what_prometheus_had_of_it(days):
    assert Collection.objects.get().error == ""
    for work in WORKS:
        expected = {bucket.start: bucket for bucket in history.buckets_of(work)}
        rows = Rollup.objects.filter(claim=days[work.claim.name], device=work.device)
        stored = {row.bucket: row for row in rows}
        assert sorted(stored) == sorted(expected)
        for start, bucket in expected.items():
            assert stored[start].activity == pytest.approx(bucket.activity, rel=0.005), (work, start)
            assert stored[start].memory_bytes == bucket.memory
            assert stored[start].samples == bucket.samples


def test_a_run_in_which_nothing_is_killed_has_the_same_money_and_the_same_measured_time(days):
    """Only live samples differ: a killed worker loses one of ten, and Prometheus gives all ten later."""
    held: defaultdict[Any, Fraction] = defaultdict(Fraction)
    money: defaultdict[Any, Decimal] = defaultdict(Decimal)
    for entry in history.entries():
        if entry.day < history.TODAY:
            held[entry.claim, entry.day] += entry.hours
            money[entry.claim, entry.day] += entry.amount
    assert len(held) == 10  # claims and days
    for claim, day in held:
        of = {"claim": days[claim.name], "day": day}
        stored = DailyUse.objects.filter(**of).aggregate(held=Total("held"), amount=Total("amount"))
        assert Fraction(int(stored["held"]), DEVICE_HOUR) == held[claim, day]
        assert rounded(int(stored["amount"]), CURRENCY_UNIT) == money[claim, day]
        seen = DailyActivity.objects.filter(**of).aggregate(
            held=Total("held"), measured=Total("measured"), used=Total("used")
        )
        if seen["held"] is None:
            assert not any(history.shares(claim, day, disturbed=False))
            continue
        measured, used = history.shares(claim, day, disturbed=False)
        assert Fraction(int(seen["measured"]), int(seen["held"])) == measured
        assert float(seen["used"] / seen["held"]) == pytest.approx(float(used), rel=0.005)


# The API and files.


def cost(hours, unpriced=0, amount=None):
    """Return what the API says of a cost; None is no amount."""
    return {
        "device_hours": f"{half_up(hours)}",
        "hours_without_rate": f"{half_up(unpriced)}",
        "amounts": [] if amount is None else [{"currency": "EUR", "amount": f"{amount:.2f}"}],
    }


def energy(kilowatt_hours):
    """Return what the API says of energy, an estimate since no counter is scraped, and of its CO₂."""
    if kilowatt_hours is None:
        return None
    exact, kilograms = (
        pytest.approx(float(value), rel=1e-9)
        for value in (kilowatt_hours, kilowatt_hours * history.GRAMS / 1000)
    )
    return {"kilowatt_hours": exact, "estimated_kilowatt_hours": exact, "kilograms_co2": kilograms}


def whole(of):
    return cost(of.hours, of.unpriced, None if of.is_unpriced else of.amount)


def parts(of):
    """Return what the report says of the parts of the stored days."""
    of = of.stored
    priced, free = of.where(lambda entry: entry.rate), of.where(lambda entry: not entry.rate)

    def part(hours, unpriced, amount):
        return cost(hours, unpriced, amount if priced.of else None)

    return {
        "allocated": part(of.hours, of.unpriced, of.amount),
        "used": part(of.used_hours, free.used_hours, priced.used),
        "idle": part(of.idle_hours, free.idle_hours, priced.idle),
        "no_telemetry": part(of.no_telemetry.hours, free.no_telemetry.hours, of.no_telemetry.amount),
    }


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_the_api_says_what_a_claim_has_cost_and_used(reader, days, claim):
    client, address = reader("root"), f"/api/v1/claims/{days[claim.name].pk}"
    of, open_now = of_claim(claim), any(work.end is None for work in works_of(claim))
    lives = [life.kilowatt_hours for work in works_of(claim) if (life := history.life_of(work))]
    assert client.get(f"{address}/cost/").json() == {
        "so_far": whole(of),
        "per_hour": cost(len(works_of(claim)), 0, half_up(Fraction(history.price_now(claim))))
        if open_now
        else cost(0),
        "projected": whole(Sum(history.entries(claim.expires_at)).where(lambda entry: entry.claim is claim))
        if open_now
        else None,
        "lines": [{"product": claim.product, "partition": claim.partition, "cost": whole(of)}],
        "energy": energy(sum(lives) if lives else None),
        "consumers": None,
    }
    used = client.get(f"{address}/usage/", {"range": "life"}).json()
    step = history.step_of_life(claim)
    expected = history.points_of(claim, step)
    assert used["step_seconds"] == step.total_seconds()
    points = {datetime.fromisoformat(point["at"]): point for point in used["points"]}
    assert [at for at, point in points.items() if point["presence"] == "measured"] == sorted(expected)
    for at, point in expected.items():
        assert points[at]["activity"] == pytest.approx(point.activity, rel=0.005)
        assert points[at]["by_device"] == pytest.approx(point.by_device, rel=0.005)
        assert (points[at]["samples"], points[at]["memory_bytes"]) == (point.samples, point.memory)
        assert points[at]["power_watts"] == history.POWER * len(point.by_device)
    gaps = [at for at in points if at not in expected and is_held(claim, at, at + step)]
    assert [at for at, point in points.items() if point["presence"] == "no-telemetry"] == gaps
    assert used["unmeasured_seconds"] == step.total_seconds() * len(gaps)
    samples = sum(point.samples for point in expected.values())
    mean = sum(point.activity * point.samples for point in expected.values()) / samples if samples else None
    assert used["mean_activity"] == pytest.approx(mean, rel=0.005)
    assert used["peak_memory_bytes"] == max((point.memory for point in expected.values()), default=None)


def is_held(claim, start, end):
    return any(work.overlaps(start, end) for work in works_of(claim))


@pytest.mark.parametrize("team", ["vision", "nlp"])
def test_the_api_says_what_a_team_has_cost(reader, days, team):
    body = reader("root").get(f"/api/v1/costs/?team={team}&month=2026-11").json()
    of = of_team(team)
    assert (body["total"], body["corrections"]) == (whole(of), cost(0))
    assert body["energy"] == energy(of.kilowatt_hours)
    for name, key in (
        ("by_claim", lambda entry: entry.claim.name),
        ("by_person", lambda entry: entry.claim.person),
        ("by_product", lambda entry: entry.claim.model),
    ):
        groups = of.groups(key)
        assert {row["label"]: row["cost"] for row in body[name]} == {
            label: whole(group) for label, group in groups.items()
        }


SCOPES = {"root": ALL.stored, "lena": of_team("vision").stored}


@pytest.mark.parametrize("by", GROUPS)
@pytest.mark.parametrize("person", SCOPES)
def test_the_report_of_the_api_and_its_file_add_up(reader, person, by):
    client, of = reader(person), SCOPES[person]
    body = client.get(f"/api/v1/costs/report/?month=2026-11&by={by}").json()
    groups = of.groups(GROUPS[by])
    assert body["parts"] == reported(of)
    assert {row["label"]: row["parts"] for row in body["rows"]} == {
        label: reported(group) for label, group in groups.items()
    }
    file = client.get(f"/report/?month=2026-11&by={by}&format=csv").getvalue().decode("utf-8-sig")
    lines = [line for line in csv.DictReader(io.StringIO(file)) if line["group"] == by]
    for label, group in groups.items():
        mine = [line for line in lines if line["name"] == label]
        for column, hours in (
            ("hours", group.hours),
            ("hours_used", group.used_hours),
            ("hours_idle", group.idle_hours),
            ("hours_no_telemetry", group.no_telemetry.hours),
            ("hours_without_rate", group.unpriced),
        ):
            assert float(added(mine, column)) == pytest.approx(float(hours), abs=2e-6)
        known = group.kilowatt_hours is not None
        for column, per_kwh in (("kwh", 1), ("kwh_estimated", 1), ("co2_kg", history.GRAMS / 1000)):
            exact = float(group.kilowatt_hours or 0) * per_kwh
            assert [line[column] != "" for line in mine] == [known]
            assert float(added(mine, column)) == pytest.approx(exact, abs=2e-6)
        assert added(mine, "amount") == group.amount
        assert added(mine, "amount_used") == group.used
        assert added(mine, "amount_idle") == group.idle
        assert added(mine, "amount_no_telemetry") == group.no_telemetry.amount
    assert added(lines, "amount") == of.amount


def reported(of):
    """Return what the report of the API says of a group."""
    return parts(of) | {
        "corrections": cost(0),
        "utilization": close(of.utilization),
        "energy": energy(of.kilowatt_hours),
    }


def close(value):
    return None if value is None else pytest.approx(value, rel=1e-6)


def added(lines, column):
    return sum((Decimal(line[column]) for line in lines if line[column]), Decimal(0))


def test_the_reconciliation_has_the_whole_fleet(reader):
    body = reader("root").get("/api/v1/costs/reconciliation/?month=2026-11").json()
    mine = parts(ALL)
    rest = {
        name: cost(history.fleet_hours(use), history.fleet_unpriced(use), history.fleet_money(use))
        for name, use in (
            ("unmanaged", "unmanaged"),
            ("out_of_service", "out"),
            ("unallocated", "unallocated"),
        )
    }
    assert body == {
        "first": "2026-11-01",
        "last": "2026-11-18",
        "recorded_since": "2026-11-16T00:00:00Z",
        "allocated": mine.pop("allocated"),
        "parts": mine | rest,
        "fleet": cost(
            ALL.stored.hours + sum(map(history.fleet_hours, USES)),
            ALL.stored.unpriced + sum(map(history.fleet_unpriced, USES)),
            ALL.stored.amount + sum(map(history.fleet_money, USES)),
        ),
        "corrections": cost(0),
    }


USES = ("unallocated", "out", "unmanaged")


def focus_row(entry):
    """Return what FOCUS says of an entry, by column."""
    price = entry.rate.per_hour if entry.rate else Decimal(0)
    hours = half_up(entry.hours, 10)
    return {
        "BilledCost": entry.amount,
        "EffectiveCost": entry.amount,
        "PricingCurrencyEffectiveCost": entry.amount,
        "ListCost": hours * price,
        "ContractedCost": hours * price,
        "ListUnitPrice": price,
        "ContractedUnitPrice": price,
        "PricingCurrencyListUnitPrice": price,
        "PricingCurrencyContractedUnitPrice": price,
        "ConsumedQuantity": hours,
        "PricingQuantity": hours,
    }


def focus_key(row):
    return (
        row["ResourceName"],
        str(row["ChargePeriodStart"])[:10],
        row["SkuMeter"],
        Decimal(row["ListUnitPrice"]),
    )


def focus_energy(row):
    """Return kilowatt-hours, kilograms of CO₂, and whether they are an estimate."""
    return float(row["x_EnergyKWh"]), float(row["x_Co2Kg"]), str(row["x_EnergyIsEstimated"]).lower()


def test_focus_has_each_entry_as_csv_and_as_parquet(reader):
    client = reader("root")
    expected = {
        (entry.claim.name, str(entry.day), "GPU-hours", focus_row(entry)["ListUnitPrice"]): focus_row(entry)
        for entry in ALL.of
    }
    energies = {
        (entry.claim.name, str(entry.day), "GPU-hours", focus_row(entry)["ListUnitPrice"]): (
            pytest.approx(float(entry.kilowatt_hours), abs=1e-6),
            pytest.approx(float(entry.kilowatt_hours * history.GRAMS / 1000), abs=1e-6),
            "true",
        )
        for entry in ALL.stored.of
        if entry.kilowatt_hours is not None
    }
    file = client.get("/api/v1/costs/focus/?month=2026-11").getvalue().decode()
    rows = list(csv.DictReader(io.StringIO(file)))
    table = pyarrow.parquet.read_table(
        io.BytesIO(client.get("/api/v1/costs/focus/?month=2026-11&format=parquet").getvalue())
    ).to_pylist()
    numbers = {name for name in rows[0] if name.endswith(("Cost", "UnitPrice", "Quantity"))}
    for found in (rows, table):
        assert len(found) == len(expected)
        assert {focus_key(row): {name: Decimal(row[name]) for name in numbers} for row in found} == expected
        assert {focus_key(row): focus_energy(row) for row in found if row["x_EnergyKWh"]} == energies


@pytest.mark.parametrize(
    ("aggregate", "key"),
    [
        ("cluster", lambda entry: entry.claim.cluster),
        ("namespace", lambda entry: entry.claim.team),
        ("controller", lambda entry: f"resourceclaim:{entry.claim.name}"),
        ("label:team", lambda entry: entry.claim.team),
        ("label:owner", lambda entry: entry.claim.person),
        ("label:profile", lambda entry: entry.claim.profile),
        ("label:product", lambda entry: entry.claim.product),
        ("label:capacity_type", lambda entry: entry.claim.capacity),
    ],
)
def test_opencost_has_each_day(reader, aggregate, key):
    window = "2026-11-16T00:00:00Z,2026-11-19T00:00:00Z"
    body = (
        reader("root")
        .get(
            "/api/v1/costs/allocation/",
            {"window": window, "aggregate": aggregate, "step": "1d", "includeIdle": "true"},
        )
        .json()
    )
    for day, found in zip(history.DAYS, body["data"], strict=True):
        groups = Sum([entry for entry in ALL.of if entry.day == day]).groups(key)
        idle, unmanaged = found.pop("__idle__"), found.pop("__unallocated__")
        assert found.keys() == groups.keys()
        for name, of in groups.items():
            one = found[name]
            assert one["gpuHours"] == float(half_up(of.hours, 6))
            assert one["gpuCost"] == one["totalCost"] == (None if of.is_unpriced else float(of.amount))
            assert one["gpuEfficiency"] == one["totalEfficiency"] == close_to(of.utilization)
            assert one["gpuCount"] == one["gpuAllocation"]["gpuRequestAverage"] == close_to(of.hours / 24)
            assert one["x_hoursWithoutRate"] == float(half_up(of.unpriced, 6))
            assert one["x_amounts"] == ({} if of.is_unpriced else {"EUR": f"{of.amount:.2f}"})
        fleet = history.fleet_day(day)
        assert idle["gpuHours"] == float(half_up(fleet.hours["unallocated"] + fleet.hours["out"], 6))
        assert idle["gpuCost"] == float(fleet.amounts["unallocated"] + fleet.amounts["out"])
        assert unmanaged["gpuHours"] == float(fleet.hours["unmanaged"])
        assert unmanaged["gpuCost"] == float(fleet.amounts["unmanaged"])


def close_to(value):
    """Return what equals a value that is sent with five digits."""
    return None if value is None else pytest.approx(float(value), abs=1e-5)


def test_the_file_of_a_team_adds_up(reader):
    for team in ("vision", "nlp"):
        file = reader("root").get(f"/teams/{team}/cost.csv?month=2026-11").getvalue().decode()
        lines = list(csv.DictReader(io.StringIO(file)))
        found = {
            (line["claim"], line["person"], line["product"], line["partition"], line["cluster"]): (
                Decimal(line["device_hours"]), Decimal(line["hours_without_rate"]), line["amount"]
            )
            for line in lines
        }  # fmt: skip
        assert len(lines) == len(found)
        assert found == {
            (claim.name, claim.person, claim.product, claim.partition, claim.cluster): (
                half_up(of.hours, 6), half_up(of.unpriced, 6), "" if of.is_unpriced else f"{of.amount:.2f}"
            )
            for claim in CLAIMS
            if claim.team == team
            for of in [of_claim(claim)]
        }  # fmt: skip


# What is idle now, and budgets.


def test_what_is_idle_has_its_price_and_what_it_has_cost(reader):
    client = reader("lena")
    (row,) = client.get("/api/v1/waste/idle/").json()["results"]
    assert (row["name"], row["devices"], row["currency"]) == ("forgotten", 1, "EUR")
    assert datetime.fromisoformat(row["since"]) == IDLE_SINCE
    assert Decimal(row["per_hour"]) == history.price_now(FORGOTTEN)
    assert Decimal(row["idle_cost"]) == idle_cost()
    file = client.get("/waste/?format=csv&col=cost&col=price").getvalue().decode("utf-8-sig")
    (line,) = csv.DictReader(io.StringIO(file))
    assert Decimal(line["Per hour"]) == history.price_now(FORGOTTEN)
    assert Decimal(line["Idle cost"]) == idle_cost()


def test_the_budget_has_what_was_spent_and_where_that_leads(reader):
    money, hours = budget_money(), budget_hours()
    (budget,) = reader("lena").get("/api/v1/budgets/").json()["results"]
    use = budget["use"]
    assert [Decimal(use[name]) for name in ("used_amount", "amount_rate", "forecast_amount")] == list(money)
    assert [Decimal(use[name]) for name in ("used_hours", "hours_rate", "forecast_hours")] == list(hours)
    assert Decimal(use["unpriced_hours"]) == 0
    assert use["share"] == pytest.approx(max(float(money[0] / BUDGET), float(hours[0] / BUDGET_HOURS)))
    lasts = min((BUDGET - money[0]) / money[1], (BUDGET_HOURS - hours[0]) / hours[1])
    runs_out = NOW + timedelta(hours=float(lasts))
    assert abs(datetime.fromisoformat(use["runs_out_at"]) - runs_out) < timedelta(seconds=10)
    file = (
        reader("root")
        .get("/budgets/?format=csv&col=used&col=used_hours&col=forecast&col=rate")
        .getvalue()
        .decode("utf-8-sig")
    )
    (line,) = csv.DictReader(io.StringIO(file))
    assert (line["Used"], line["Forecast"], line["Run rate, 7 d"]) == tuple(
        map(str, (money[0], money[2], money[1]))
    )
    assert Decimal(line["GPU-hours used"]) == hours[0]


@pytest.mark.parametrize("page", list(pages()), ids=str)
def test_every_figure_of_a_page_is_as_expected_and_no_other_stands_there(reader, days, page):
    ids = {name: claim.pk for name, claim in days.items()} | {"budget": Budget.objects.get().pk}
    response = reader(page.reader).get(page.address.format(**ids))
    assert response.status_code == 200
    found = figures_of(response.text, without=page.without)
    if page.only:
        found = {figure for figure in found if set(figure[1]) & set(page.only)}
    expected = page.figures()
    assert sorted(found - expected) == sorted(expected - found) == []


def drawn(page, name):
    """Return what a graph of a page draws."""
    data = parse(page.text).first("script", id=name)
    return json.loads("".join(map(str, data.children)))


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_the_graphs_of_a_claim_and_their_table_show_what_was_measured(reader, days, claim):
    page = reader("root").get(f"/claims/{days[claim.name].pk}/usage/?range=life")
    step = history.step_of_life(claim)
    points = history.points_of(claim, step)
    if not points:
        assert "No measurements of its devices" in page.text or "No exporter or Prometheus" in page.text
        return
    data = drawn(page, "usage-data")
    starts = [datetime.fromtimestamp(x, UTC) for x in data["x"]]
    shown = [points.get(start) for start in starts]
    assert points.keys() <= set(starts)
    devices = sorted({device for point in points.values() for device in point.by_device})
    for line in data["activity"]:
        device = line["label"] if line["label"] in devices else ""
        values = [
            point.by_device.get(device, 0 if device else point.activity) if point else None for point in shown
        ]
        expected = [None if not value else 100 * value for value in values]
        assert line["values"] == pytest.approx(expected, abs=0.051)
    assert data["memory"] == pytest.approx([point and point.memory / 2**30 for point in shown], abs=0.0051)
    assert data["power"] == [point and history.POWER * len(point.by_device) for point in shown]
    if claim.product != history.L4:
        allocated = [history.price_of(claim, start, start + step) for start in starts]
        measured = [
            cost * min(point.samples / expected_in(claim, start, start + step), 1) if point else 0
            for point, cost, start in zip(shown, allocated, starts, strict=True)
        ]
        used = [cost * point.activity if point else 0 for point, cost in zip(shown, measured, strict=True)]
        lines = {line["label"]: line["values"] for line in data["cost"]}
        assert lines == {
            "allocated": pytest.approx(allocated, abs=1e-4),
            "used": pytest.approx(used, abs=1e-4),
            "idle": pytest.approx([all_ - busy for all_, busy in zip(measured, used, strict=True)], abs=2e-4),
            "no telemetry": pytest.approx(
                [cost - known for cost, known in zip(allocated, measured, strict=True)], abs=2e-4
            ),
        }

    table = parse(page.text).first(**{"aria-label": "Measurements as a table"})
    rows = reversed(list(zip(starts, shown, strict=True)))
    for row, (start, point) in zip(table.all("tr")[1:], rows, strict=True):
        cells = [cell.text for cell in row.all("td")]
        if point is None:
            assert cells[1:] == ["no telemetry" if is_held(claim, start, start + step) else "no device held"]
            continue
        columns = [share(point.by_device.get(device)) for device in devices] if len(devices) > 1 else []
        power = f"{history.POWER * len(point.by_device)} W"
        assert cells[1:] == [share(point.activity), *columns, gib(point.memory), power]


def expected_in(claim, start, end):
    """Return how many samples of all its devices a span can have."""
    held = sum(
        (
            max(min(work.end or NOW, end) - max(work.start, start), timedelta())
            for work in history.works_of(claim)
        ),
        timedelta(),
    )
    return max(held // history.EVERY, 1)


@pytest.mark.parametrize("unit", ["money", "hours"])
@pytest.mark.parametrize("team", ["vision", "nlp"])
def test_the_graphs_of_a_team_show_each_day(reader, team, unit):
    of, is_hours = of_team(team), unit == "hours"
    page = reader("root").get(f"/teams/{team}/cost/?month=2026-11{'&unit=hours' if is_hours else ''}")
    by_day = of.groups(lambda entry: str(entry.day))
    bars = {line["label"]: line["values"] for line in drawn(page, "day-data")["bars"]}
    expected = {
        "used": [day.used_hours if is_hours else day.used for day in by_day.values()],
        "idle": [day.idle_hours if is_hours else day.idle for day in by_day.values()],
        "no telemetry": [both(day.no_telemetry, is_hours) for day in by_day.values()],
        "not yet split": [both(day.today, is_hours) for day in by_day.values()],
    }
    assert bars == {
        label: pytest.approx(list(map(float, values)), abs=1e-5)
        for label, values in expected.items()
        if any(values)
    }
    graphs = [page] if is_hours else [page, reader("lena" if team == "vision" else "dan").get("/")]
    for graph in graphs:
        spend = drawn(graph, "spend-data")
        spent, *ahead = spend["spend"]
        sums, added_up = {}, 0.0
        for day in [*history.DAYS, history.TODAY]:
            added_up += float(both(by_day.get(str(day), Sum()), is_hours))
            sums[min(history.midnight(day) + history.DAY, NOW).timestamp()] = added_up
        seen = dict(zip(spend["x"], spent["values"], strict=True))
        assert {x: seen[x] for x in sums} == pytest.approx(sums, abs=1e-6)
        if team == "vision":
            limit, end = (BUDGET_HOURS, budget_hours()[2]) if is_hours else (BUDGET, budget_money()[2])
            assert spend["level"]["value"] == float(limit)
            assert ahead[0]["values"][-1] == float(end)


def both(of, is_hours):
    return of.hours if is_hours else of.amount
