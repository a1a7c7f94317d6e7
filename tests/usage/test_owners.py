"""A day counts for who owned the claim at its end: on every page, in every file, however often computed."""

import csv
import json
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import StringIO
from random import Random

import pytest
import time_machine
from django.urls import reverse

from claims.lifecycle import services
from claims.models import Allocation, Claim
from claims.signals import allocations_changed
from claims.states import ClaimState
from tests.factories import make_claim, make_user
from tests.recomputed import failed_check, recompute
from tests.usage.conftest import NOON, hold, measure, price
from usage import daily
from usage.closing import close_month
from usage.cost import DEVICE_HOUR
from usage.daily import forget_from, store_days
from usage.fleet_report import GroupBy, fleet_report, month_of
from usage.models import Correction, DailyActivity, DailySum, DailyUse, StoredDays
from usage.reports import Month, report

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
MIDNIGHT = datetime(2026, 11, 17, tzinfo=UTC)  # the begin of today
TRANSFERRED = MIDNIGHT - DAY + 15 * HOUR  # on 16 November
PER_HOUR = 2
STORED_PAGES = ("report", "report of a lead", "report.csv", "api: report", "people", "people.csv", "opencost")
RUNNING_PAGES = ("cost page", "cost.csv", "api: costs", "focus", "home")


@pytest.fixture
def mona(vision):
    mona = make_user("mona")
    vision.memberships.create(user=mona, role="member")
    return mona


@pytest.fixture
def held(claim, mona, vision, fra):
    """Since 14 November the claim of alice holds a GPU; mona has had one of her own on the 15th."""
    price(str(PER_HOUR))
    with time_machine.travel(TRANSFERRED - HOUR, tick=False):
        mine = make_claim(vision, by=mona, cluster=fra, held=False, name="monas")
        hold(mine, MIDNIGHT - 2 * DAY, MIDNIGHT - 2 * DAY + 5 * HOUR)
    held = hold(claim, MIDNIGHT - 3 * DAY)
    measure(held, MIDNIGHT - 3 * DAY, [0.5] * 288 * 3)
    return held


def transfer(claim, *, by, to, at):
    with time_machine.travel(at, tick=False):
        services.transfer(claim=Claim.objects.get(pk=claim.pk), by=by, to=to)


def forget_all():
    for model in (StoredDays, DailyUse):
        model.objects.all().delete()


def euros(**hours):
    """Return what so many hours cost, by person, without those that held nothing."""
    return {person: Decimal(count * PER_HOUR) for person, count in hours.items() if count}


def of_lines(answer, person, amount, **only):
    """Return the sums by person of the lines of a CSV file."""
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for line in csv.DictReader(StringIO(answer.getvalue().decode())):
        if all(line[column] == value for column, value in only.items()):
            sums[person(line)] += Decimal(line[amount])
    return {name: amount for name, amount in sums.items() if amount}


def of_rows(rows):
    """Return the amounts by person of rows of an API answer."""
    costs = {row["label"]: row.get("cost") or row["parts"]["allocated"] for row in rows}
    return {name: Decimal(cost["amounts"][0]["amount"]) for name, cost in costs.items()}


def amounts(pairs):
    return {name: cost.amounts["EUR"] for name, cost in pairs if cost.amounts}


def stored_figures(client, root, lena, first, last):
    """Return what each page of stored days says of these days, by person."""
    days = f"since={first:%F}&until={last:%F}&by=person"
    client.force_login(root)
    found = {
        "report": amounts(
            (row.label, row.cost) for row in client.get(f"/report/?{days}").context["report"].rows
        ),
        "report.csv": of_lines(
            client.get(f"/report/?{days}&format=csv"), lambda line: line["name"], "amount", group="person"
        ),
        "api: report": of_rows(client.get(f"/api/v1/costs/report/?{days}").json()["rows"]),
    }
    window = f"{first:%F},{last + DAY:%F}"
    answer = client.get(f"/api/v1/costs/allocation/?window={window}&aggregate=label:owner").json()
    found["opencost"] = {
        name: Decimal(str(one["totalCost"])) for of_step in answer["data"] for name, one in of_step.items()
    }
    client.force_login(lena)
    rows = client.get(f"/report/?{days}").context["report"].rows
    found["report of a lead"] = amounts((row.label, row.cost) for row in rows)
    return found


def figures_of_month(client, root, lena, people):
    """Return what each page with today says of this month, by person."""
    client.force_login(root)
    found = {
        "focus": of_lines(
            client.get("/api/v1/costs/focus/?month=2026-11"),
            lambda line: json.loads(line["Tags"])["owner"],
            "BilledCost",
        ),
    }
    client.force_login(lena)
    _name, _head, rows, _count = client.get("/teams/vision/cost/?month=2026-11").context["people"]
    found["cost page"] = amounts((row.label, row.cost) for row in rows)
    lines = client.get("/teams/vision/cost.csv?month=2026-11")
    found["cost.csv"] = of_lines(lines, lambda line: line["person"], "amount")
    answer = client.get("/api/v1/costs/?team=vision&month=2026-11").json()
    found["api: costs"] = of_rows(answer["by_person"])
    found["home"] = {}
    for person in people:
        client.force_login(person)
        own = client.get(f"{reverse('home')}?team=vision").context["spend"].own
        if own is not None:
            found["home"][person.username] = own.amounts["EUR"]
    return found


def people_figures(client, lena):
    """Return what the page of the team and its CSV say of the last 30 stored days, by person."""
    client.force_login(lena)
    people = client.get("/teams/vision/").context["people"]
    lines = client.get("/teams/vision/?format=csv")
    return {
        "people": amounts((one.user.username, one.use.cost) for one in people),
        "people.csv": of_lines(lines, lambda line: line["User name"], "Cost", Currency="EUR"),
    }


def all_figures(client, root, lena, people):
    return (
        stored_figures(client, root, lena, date(2026, 11, 1), date(2026, 11, 16))
        | people_figures(client, lena)
        | figures_of_month(client, root, lena, people)
    )


def test_every_page_and_file_counts_a_day_for_the_owner_at_its_end(
    client, claim, held, root, lena, alice, mona
):
    store_days(now=NOON)
    before = all_figures(client, root, lena, (alice, mona))
    assert before == {
        **dict.fromkeys(STORED_PAGES, euros(alice=3 * 24, mona=5)),
        **dict.fromkeys(RUNNING_PAGES, euros(alice=3 * 24 + 12, mona=5)),
    }
    forget_all()
    transfer(claim, by=alice, to=mona, at=TRANSFERRED)
    store_days(now=NOON)
    after = all_figures(client, root, lena, (alice, mona))
    assert after == {
        **dict.fromkeys(STORED_PAGES, euros(alice=2 * 24, mona=24 + 5)),
        **dict.fromkeys(RUNNING_PAGES, euros(alice=2 * 24, mona=24 + 5 + 12)),
    }


def test_a_transfer_of_today_moves_today_and_no_day_before(client, claim, held, root, lena, alice, mona):
    store_days(now=NOON)
    transfer(claim, by=alice, to=mona, at=NOON - HOUR)
    assert all_figures(client, root, lena, (alice, mona)) == {
        **dict.fromkeys(STORED_PAGES, euros(alice=3 * 24, mona=5)),
        **dict.fromkeys(RUNNING_PAGES, euros(alice=3 * 24, mona=5 + 12)),
    }


@pytest.mark.parametrize("days", [1, 3, None])
def test_days_that_are_not_stored_count_for_the_same_people(
    client, claim, held, root, lena, alice, mona, days
):
    transfer(claim, by=alice, to=mona, at=TRANSFERRED)
    store_days(now=NOON)
    if days is None:
        forget_all()
    else:
        forget_from(MIDNIGHT - days * DAY, now=NOON)
    expected = euros(alice=2 * 24, mona=24 + 5 + 12)
    assert figures_of_month(client, root, lena, (alice, mona)) == dict.fromkeys(RUNNING_PAGES, expected)
    if days == 1:
        window = "/api/v1/costs/allocation/?window=today&aggregate=label:owner"
        client.force_login(root)
        [of_today] = client.get(window).json()["data"]
        assert {name: one["totalCost"] for name, one in of_today.items()} == {"mona": 12.0 * PER_HOUR}


def test_a_transfer_changes_no_amount_but_its_person(claim, held, vision, alice, mona):
    def costs(found):
        return [(line.claim.pk, line.product, line.cost) for line in found.lines]

    store_days(now=NOON)
    before, closed = report(vision, Month.current(NOON), now=NOON), month_of(NOON.date())
    parts = fleet_report(closed, GroupBy.TEAM, now=NOON).parts
    transfer(claim, by=alice, to=mona, at=NOON - HOUR)
    after = report(vision, Month.current(NOON), now=NOON)
    assert (after.total, [(row.label, row.cost) for row in after.by_claim]) == (
        before.total,
        [(row.label, row.cost) for row in before.by_claim],
    )
    assert len(costs(after)) == len(costs(before)) + 1  # a line for each owner
    assert fleet_report(closed, GroupBy.TEAM, now=NOON).parts == parts


def test_who_owned_a_claim_is_still_found_by_their_lead(client, claim, held, lena, alice, mona):
    transfer(claim, by=alice, to=mona, at=TRANSFERRED)
    store_days(now=NOON)
    client.force_login(lena)
    rows = client.get("/report/?range=7d&by=claim&person=alice").context["report"].rows
    assert amounts((row.label, row.cost) for row in rows) == {
        "sam2-finetune (vision)": Decimal(2 * 24 * PER_HOUR)
    }
    client.force_login(mona)
    make_user("olaf")
    client.force_login(lena)
    assert client.get("/report/?by=claim&person=olaf").status_code == 422


def test_people_of_the_cost_page_count_the_claims_of_which_they_pay_a_day(
    client, claim, held, lena, alice, mona
):
    store_days(now=NOON)
    transfer(claim, by=alice, to=mona, at=NOON - HOUR)
    client.force_login(lena)
    page = client.get("/teams/vision/cost/")
    _name, _head, rows, _count = page.context["people"]
    assert {row.label: row.claims for row in rows} == {"alice": 1, "mona": 2}
    assert page.context["month"].whole.claims == 2


@pytest.mark.parametrize(
    ("at", "owner"),
    [
        (MIDNIGHT - timedelta(microseconds=1), "mona"),
        (MIDNIGHT, "alice"),
        (MIDNIGHT - DAY, "mona"),
        (MIDNIGHT - DAY - timedelta(microseconds=1), "mona"),
    ],
)
def test_the_day_of_a_transfer_counts_for_the_new_owner(claim, held, alice, mona, at, owner):
    transfer(claim, by=alice, to=mona, at=at)
    store_days(now=NOON)
    assert DailyUse.objects.get(day=MIDNIGHT - DAY, claim=claim).owner.username == owner


def test_who_had_it_for_hours_of_one_day_pays_nothing(claim, held, vision, lena, alice, mona):
    transfer(claim, by=alice, to=mona, at=TRANSFERRED)
    transfer(claim, by=lena, to=lena, at=TRANSFERRED + HOUR)
    store_days(now=NOON)
    owners = DailyUse.objects.filter(claim=claim).order_by("day").values_list("owner__username", flat=True)
    assert list(owners) == ["alice", "alice", "lena"]
    transfer(claim, by=lena, to=mona, at=NOON - 2 * HOUR)
    transfer(claim, by=lena, to=lena, at=NOON - HOUR)
    assert [row.label for row in report(vision, Month.current(NOON), now=NOON).by_person] == [
        "alice",
        "lena",
        "mona",
    ]
    assert "0 rows to repair" in recompute("spend", "--check")


def test_a_second_message_of_the_same_transfer_changes_nothing(claim, held, alice, mona):
    transfer(claim, by=alice, to=mona, at=TRANSFERRED)
    transfer(claim, by=mona, to=mona, at=NOON - HOUR)
    assert claim.history.exclude(previous_owner=None).count() == 1


# The past stays as it is.


def everything_stored():
    return [
        list(model.objects.order_by("pk").values())
        for model in (DailyUse, DailyActivity, DailySum, Correction)
    ]


def test_recompute_finds_nothing_after_transfers(claim, held, alice, mona, lena):
    store_days(now=NOON)
    before = everything_stored()
    transfer(claim, by=alice, to=mona, at=NOON - 2 * HOUR)
    transfer(claim, by=lena, to=lena, at=NOON - HOUR)
    assert "0 rows to repair" in recompute("spend", "--check")
    recompute("spend")
    for number in range(3):
        daily.repair_chunk(number)
    assert everything_stored() == before


def test_a_wrong_owner_is_found_and_repaired(claim, held, alice, mona):
    store_days(now=NOON)
    before = everything_stored()
    DailyUse.objects.filter(claim=claim, day=MIDNIGHT - DAY).update(owner=mona)
    assert "1 altered" in failed_check("spend")
    recompute("spend")
    assert everything_stored() == before


def test_no_closed_month_changes_by_a_transfer(client, claim, mona, root, lena, alice):
    price(str(PER_HOUR))
    october = datetime(2026, 10, 28, tzinfo=UTC)
    held = hold(claim, october)
    store_days(now=NOON)
    days = october.date(), date(2026, 10, 31)
    before = stored_figures(client, root, lena, *days)
    assert before == dict.fromkeys(before, euros(alice=4 * 24))
    focus = client_lines(client, root, "/api/v1/costs/focus/?month=2026-10")
    close_month(by=root, month=Month(date(2026, 10, 1)))
    closed = everything_stored()
    transfer(claim, by=alice, to=mona, at=NOON - HOUR)
    recompute("spend")
    assert everything_stored() == closed
    assert stored_figures(client, root, lena, *days) == before
    assert client_lines(client, root, "/api/v1/costs/focus/?month=2026-10") == focus
    ended = datetime(2026, 10, 31, 14, tzinfo=UTC)
    Allocation.objects.filter(pk=held.pk).update(ended_at=ended)
    allocations_changed.send(sender=Allocation, since=ended)
    store_days(now=NOON)
    assert [row.owner for row in Correction.objects.all()] == [alice]
    client.force_login(root)
    rows = client.get("/report/?by=person").context["report"].rows
    assert {row.label: row.parts.corrections.amounts for row in rows if row.parts.corrections.exact} == {
        "alice": {"EUR": Decimal(-10 * PER_HOUR)}
    }
    corrected = {"alice": Decimal(-10 * PER_HOUR)}
    assert figures_of_month(client, root, lena, (alice, mona)) == dict.fromkeys(RUNNING_PAGES, corrected)


def client_lines(client, person, address):
    client.force_login(person)
    return client.get(address).getvalue()


@pytest.mark.parametrize("is_before", [True, False])
def test_a_transfer_while_the_writer_reads_moves_no_day(claim, held, alice, mona, monkeypatch, is_before):
    """Usage is read before transfers, so that the owner of now is never given a day of the one before."""
    read = daily.PreviousOwners

    def read_beside_a_transfer(since):
        found = None if is_before else read(since)
        Claim.objects.get(pk=claim.pk).remark("Transferred.", by=alice, requested_by=mona)
        return found or read(since)

    monkeypatch.setattr(daily, "PreviousOwners", read_beside_a_transfer)
    store_days(now=NOON)
    assert set(DailyUse.objects.filter(claim=claim).values_list("owner__username", flat=True)) == {"alice"}


@pytest.mark.parametrize("seed", range(4))
def test_owners_are_those_of_a_plain_replay_of_the_transfers(vision, fra, alice, mona, lena, seed):
    chance = Random(seed)
    price("2.4999")
    people, start = [alice, mona, lena], MIDNIGHT - 12 * DAY
    expected = {}
    for number in range(3):
        owner = chance.choice(people)
        claim = make_claim(
            vision, by=owner, cluster=fra, state=ClaimState.ALLOCATED, held=False, name=f"one-{number}"
        )
        for _ in range(3):
            begin = start + timedelta(minutes=chance.randrange(9 * 1440))
            hold(claim, begin, begin + timedelta(minutes=chance.randrange(1, 5000)))
        moments = sorted(start + timedelta(minutes=chance.randrange(12 * 1440)) for _ in range(6))
        owners = [(start, owner)]
        for at in moments:
            owners.append((at, chance.choice(people)))
            transfer(claim, by=lena, to=owners[-1][1], at=at)
        for day in range(12):
            end = start + (day + 1) * DAY
            expected[claim.pk, (start + day * DAY).date()] = [who for at, who in owners if at < end][-1].pk
    store_days(now=NOON)
    rows = list(DailyUse.objects.values_list("claim_id", "day", "owner_id"))
    held = sum((min(row.ended_at, MIDNIGHT) - row.started_at) / HOUR for row in Allocation.objects.all())
    assert float(sum(DailyUse.objects.values_list("held", flat=True))) / DEVICE_HOUR == pytest.approx(held)
    assert {(claim, day): owner for claim, day, owner in rows} == {
        (claim, day): expected[claim, day] for claim, day, _owner in rows
    }
    stored = report(vision, Month.current(NOON), now=NOON)
    forget_all()
    assert report(vision, Month.current(NOON), now=NOON).by_person == stored.by_person
