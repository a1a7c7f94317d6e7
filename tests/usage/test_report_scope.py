"""The report of some teams, one person or one profile, by claim in pages; for leads, of their teams alone."""

import csv
import re
from datetime import timedelta
from decimal import Decimal
from html import unescape
from io import StringIO

import pytest
import time_machine

from tests.factories import make_claim, make_cluster, make_profile, make_team, make_user
from tests.usage.conftest import NOON, hold, measure, price
from tests.usage.test_fleet_report import MIDNIGHT, WEEK, had
from usage.cost import CENT, Cost, total
from usage.daily import forget_from, store_days
from usage.fleet_report import GroupBy, fleet_report, month_of
from usage.ledger_sums import LONGEST_OF_ALL, EntryScope
from usage.models import Correction, DailySum, DailyUse

HOUR = timedelta(hours=1)
URL = "/report/"


@pytest.fixture(autouse=True)
def _now():
    with time_machine.travel(NOON, tick=False):
        yield


@pytest.fixture
def used(claim, vision, lena, fra):
    """Claims of two people of vision, and one of another team with the highest cost."""
    price("2")
    had(fra, 8, MIDNIGHT)
    measure(hold(claim, MIDNIGHT, MIDNIGHT + 6 * HOUR), MIDNIGHT, [0.5] * 72)
    mine = make_claim(vision, by=lena, cluster=fra, held=False, name="lenas", profile=make_profile("l4"))
    measure(hold(mine, MIDNIGHT, MIDNIGHT + 4 * HOUR), MIDNIGHT, [0.0] * 48)
    nlp = make_team("nlp", leads=(make_user("nina"),))
    other = make_claim(nlp, by=make_user("olaf"), cluster=fra, held=False, name="secret-of-nlp")
    hold(other, MIDNIGHT, MIDNIGHT + 9 * HOUR)
    store_days(now=NOON)
    return nlp


def test_rows_of_one_team_add_up_to_what_it_held(used, vision):
    for group_by in GroupBy:
        found = fleet_report(WEEK, group_by, now=NOON, most=1, scope=EntryScope([vision.pk]))
        whole = fleet_report(WEEK, group_by, now=NOON, scope=EntryScope([vision.pk]))
        assert found.parts == whole.parts, group_by
        assert found.parts.allocated.hours == found.parts.fleet.hours == 10
        assert sum(row.cost.held for row in whole.rows) == found.parts.allocated.held, group_by
        assert (found.row_count, found.adds_up, whole.adds_up) == (len(whole.rows), True, True), group_by
        assert found.rows == whole.rows[:1], group_by


def test_a_choice_of_which_nothing_was_held_can_be_taken_back(used, client):
    client.force_login(make_user("root", admin=True))
    page = client.get(URL, {"model": "NVIDIA H9000"}).content.decode()
    assert "Nothing of this choice was held in this range" in page
    assert "Model: NVIDIA H9000" in page


def test_claims_of_the_fleet_come_in_pages_largest_first(used):
    pages = [fleet_report(WEEK, GroupBy.CLAIM, now=NOON, most=2, offset=offset) for offset in (0, 2)]
    assert [row.label for row in pages[0].rows] == ["secret-of-nlp (nlp)", "sam2-finetune (vision)"]
    assert [row.label for row in pages[1].rows] == ["lenas (vision)"]
    assert [page.row_count for page in pages] == [3, 3]
    assert all(page.adds_up for page in pages)


def test_rows_are_sorted_before_they_are_paged(used):
    secret, lenas = ("secret-of-nlp (nlp)", "olaf"), ("lenas (vision)", "lena")
    for order, first in {"cost": secret, "idle": lenas, "hours": secret}.items():
        found = [
            fleet_report(WEEK, group_by, now=NOON, most=1, order=order)
            for group_by in (GroupBy.CLAIM, GroupBy.PERSON)
        ]
        assert [[row.label for row in one.rows] for one in found] == [[label] for label in first], order


def test_one_person_and_one_profile_narrow_the_report(used, lena, claim):
    of_lena = fleet_report(WEEK, GroupBy.CLAIM, now=NOON, scope=EntryScope(person=lena.pk))
    assert [row.label for row in of_lena.rows] == ["lenas (vision)"]
    profile = claim.profile_version.profile_id
    of_profile = fleet_report(WEEK, GroupBy.TEAM, now=NOON, scope=EntryScope(profile=profile))
    assert of_profile.parts.allocated != Cost()
    assert of_profile.parts.unallocated == Cost()


def test_a_wrong_sum_is_a_difference(client, used, root):
    DailySum.objects.filter(dimension="team").update(amount=0)
    found = fleet_report(WEEK, GroupBy.TEAM, now=NOON, most=100)
    assert not found.adds_up
    assert found.difference.held == 0
    assert sum(found.difference.exact.values()) < 0
    client.force_login(root)
    text = client.get(f"{URL}?range=7d").text
    assert ("Does not add up" in text, "Adds up" in text) == (True, False)


def test_a_lead_sees_their_teams_and_nothing_else(client, used, lena):
    client.force_login(lena)
    for query in ("", "?by=claim", "?by=person", "?team=vision&by=model", "?by=cluster&sort=idle"):
        text = client.get(f"{URL}{query}").text
        assert "nlp" not in text, query
        assert "Unallocated" not in text
        assert "€20.00" in text, query
    csv = client.get(f"{URL}?by=claim&format=csv").getvalue().decode()
    assert ("sam2-finetune" in csv, "nlp" in csv) == (True, False)


def test_what_a_lead_may_not_know_of_cannot_be_chosen(client, used, lena):
    client.force_login(lena)
    for query in ("team=nlp", "person=olaf", "team=none-such", "sort=price", "page=0"):
        answer = client.get(f"{URL}?{query}&by=claim")
        assert answer.status_code == 422, query
        assert "secret-of-nlp" not in answer.text
        assert "olaf" not in answer.text.replace("person=olaf", "")


def test_rows_lead_to_their_claims_and_the_address_keeps_the_choice(client, used, root):
    client.force_login(root)
    page = client.get(f"{URL}?by=team&range=7d").text
    assert 'href="?by=claim&amp;range=7d&amp;team=vision#rows"' in page
    claims = client.get(f"{URL}?by=claim&range=7d&team=vision")
    assert [row.label for row in claims.context["report"].rows] == [
        "sam2-finetune (vision)",
        "lenas (vision)",
    ]
    assert "Team: vision" in claims.text


@pytest.fixture
def kinds(used, claim, vision, alice, fra):
    """More kinds of devices: partitions, spot, a product that is not known, another cluster; a correction."""
    osl = make_cluster("osl-1", teams=(vision,))
    more = make_claim(vision, by=alice, cluster=osl, held=False, name="more")
    spot = hold(more, MIDNIGHT, MIDNIGHT + 7 * HOUR, partition="1g.10gb", capacity_type="spot")
    measure(spot, MIDNIGHT, [0.25] * 30)
    hold(more, MIDNIGHT, MIDNIGHT + 2 * HOUR, product="")
    hold(claim, MIDNIGHT, MIDNIGHT + HOUR, product="NVIDIA L4", capacity_type="on-demand")
    forget_from(MIDNIGHT, now=NOON)
    store_days(now=NOON)
    row = DailyUse.objects.get(claim=more, product="")
    columns = (
        *("team_id", "owner_id", "claim_id", "day", "driver", "product", "partition", "capacity_type"),
        *("rate_id", "currency"),
    )
    same = {name: getattr(row, name) for name in columns}
    Correction.objects.create(booked_on=MIDNIGHT.date(), held=-(10**15), amount=-CENT, **same)


LINK = re.compile(r'<a class="dg-s dg-2" href="([^"]+)" aria-label="Claims of ([^"]+)">claims</a>')


@pytest.mark.parametrize("reader", ["root", "lena"])
def test_every_row_leads_to_the_claims_that_made_it_up(client, kinds, request, reader):
    client.force_login(request.getfixturevalue(reader))
    for group_by in set(GroupBy) - {GroupBy.CLAIM}:
        assert_rows_lead_to_their_claims(client, group_by)


def assert_rows_lead_to_their_claims(client, group_by):
    page = client.get(f"{URL}?by={group_by}&range=7d")
    links = {unescape(label): unescape(address) for address, label in LINK.findall(page.text)}
    rows = page.context["report"].rows
    assert [row.label for row in rows] == list(links), group_by
    assert len(rows) > 1 or group_by == GroupBy.TEAM
    for row in rows:
        drilled = client.get(f"{URL}{links[row.label]}").context["report"]
        assert drilled.adds_up
        assert (drilled.parts.allocated, drilled.parts.used) == (row.cost, row.parts.used), row.label
        assert drilled.parts.corrections == row.parts.corrections
        assert total(one.cost for one in drilled.rows) == row.cost
        assert all("claims/" in one.url for one in drilled.rows)
        lines = client.get(f"{URL}{links[row.label].partition('#')[0]}&format=csv").getvalue().decode()
        assert sum(
            Decimal(line["amount"]) for line in csv.DictReader(StringIO(lines)) if line["group"] == "claim"
        ) == row.cost.amounts.get("EUR", 0)


CHOSEN = {
    "model=NVIDIA+H100+80GB+HBM3+1g.10gb": {"more (vision)"},
    "model=unknown+product": {"more (vision)"},
    "model=NVIDIA+L4&capacity=on-demand": {"sam2-finetune (vision)"},
    "model=NVIDIA+L4&capacity=spot": set(),
    "capacity=spot&cluster=osl-1": {"more (vision)"},
    "capacity=unknown&cluster=osl-1": {"more (vision)"},
    "cluster=osl-1&person=lena": set(),
    "cluster=fra-1&team=nlp": {"secret-of-nlp (nlp)"},
}


def test_kinds_of_devices_and_other_choices_narrow_together(client, kinds, root):
    client.force_login(root)
    for query, labels in CHOSEN.items():
        page = client.get(f"{URL}?by=claim&range=7d&{query}")
        assert {row.label for row in page.context["report"].rows} == labels, query
        assert page.context["report"].adds_up, query
        api = client.get(f"/api/v1/costs/report/?by=claim&range=7d&{query}").json()
        assert {row["label"] for row in api["rows"]} == labels, query


def test_what_was_chosen_is_named_and_can_be_removed(client, kinds, root):
    client.force_login(root)
    text = client.get(f"{URL}?by=claim&range=7d&capacity=spot&cluster=osl-1&page=1").text
    assert "Capacity: Spot" in text
    assert 'href="?by=claim&amp;range=7d&amp;cluster=osl-1" aria-label="Remove capacity Spot"' in text
    assert 'href="?by=claim&amp;range=7d&amp;capacity=spot" aria-label="Remove cluster osl-1"' in text


def test_a_lead_chooses_among_the_clusters_of_their_teams(client, kinds, lena):
    secret = make_cluster("secret-1")
    hold(make_claim(make_team("other"), cluster=secret, held=False), MIDNIGHT, MIDNIGHT + HOUR)
    forget_from(MIDNIGHT, now=NOON)
    store_days(now=NOON)
    client.force_login(lena)
    assert client.get(f"{URL}?by=claim&range=7d&cluster=osl-1").status_code == 200
    assert client.get(f"{URL}?by=claim&range=7d&cluster=secret-1").status_code == 422


def test_a_kind_that_cannot_be_is_refused(client, used, root):
    client.force_login(root)
    for query in ("cluster=none-such", "capacity=gold", "model=%00", f"model={'x' * 200}"):
        for address in (URL, "/api/v1/costs/report/"):
            assert client.get(f"{address}?by=claim&{query}").status_code == 422, (address, query)


def test_entries_of_a_kind_of_device_are_added_up_over_a_month_at_most(client, kinds, root):
    client.force_login(root)
    days = f"since={(NOON - LONGEST_OF_ALL - 2 * HOUR * 24).date()}&until={NOON.date()}"
    for chosen in ("cluster=fra-1", "model=NVIDIA+L4", "capacity=spot"):
        for query in (f"{days}&by=team&{chosen}", f"{days}&by=claim&{chosen}"):
            refused = client.get(f"{URL}?{query}")
            assert refused.status_code == 422, query
            assert "Choose at most 31 days, or a team" in refused.text
            assert "The current month is shown." in refused.text
            assert refused.context["chosen"] == month_of(NOON.date())
            assert client.get(f"/api/v1/costs/report/?{query}").status_code == 422, query
            assert client.get(f"{URL}?{query}&team=vision").status_code == 200, query


def test_pages_are_linked(client, used, root, monkeypatch):
    monkeypatch.setattr("usage.fleet_views.SHOWN", 2)
    client.force_login(root)
    first = client.get(f"{URL}?by=claim&range=7d").text
    assert "page=2" in first
    second = client.get(f"{URL}?by=claim&range=7d&page=2")
    assert [row.label for row in second.context["report"].rows] == ["lenas (vision)"]
    assert 'rel="next"' not in second.text


def test_claims_of_all_teams_are_added_up_over_a_month_at_most(client, used, root):
    client.force_login(root)
    since = (NOON - LONGEST_OF_ALL - 2 * HOUR * 24).date()
    refused = client.get(f"{URL}?by=claim&since={since}&until={NOON.date()}")
    assert refused.status_code == 422
    assert (
        "Choose at most 31 days, or a team, to group by claim or to choose a cluster, model" in refused.text
    )
    assert client.get(f"{URL}?by=claim&team=vision&since={since}&until={NOON.date()}").status_code == 200


def test_the_goal_of_a_team_stands_beside_its_utilization(client, used, root, vision):
    vision.efficiency_goal = 70
    vision.save(update_fields=["efficiency_goal"])
    client.force_login(root)
    assert "goal 70 %" in client.get(f"{URL}?range=7d").text
    cost = client.get("/teams/vision/cost/").text
    assert "goal 70 %" in cost


def test_a_goal_that_is_missed_is_marked(client, used, root, vision):
    client.force_login(root)
    for goal, is_missed in ((30, False), (31, True)):
        vision.efficiency_goal = goal
        vision.save(update_fields=["efficiency_goal"])
        rows = client.get(f"{URL}?range=7d").context["report"].rows
        row = next(row for row in rows if row.drill == "vision")
        assert (row.parts.utilization, row.misses_goal) == (0.3, is_missed)
        for page in (f"{URL}?range=7d", "/teams/vision/cost/"):
            text = client.get(page).text
            assert f"goal {goal} %" in text
            assert (f'dg-warn">goal {goal} %' in text) is is_missed


def test_the_api_has_the_rows_of_the_page_and_is_for_those_who_may_read_it(client, used, root, lena, alice):
    client.force_login(root)
    body = client.get("/api/v1/costs/report/?by=claim&range=7d&sort=idle").json()
    assert (body["first"], body["last"], body["row_count"]) == ("2026-11-10", "2026-11-16", 3)
    first = body["rows"][0]
    assert (first["label"], first["parts"]["utilization"]) == ("lenas (vision)", 0.0)
    assert first["parts"]["idle"]["amounts"] == [{"currency": "EUR", "amount": "8.00"}]
    client.force_login(lena)
    body = client.get("/api/v1/costs/report/?by=team&range=7d").json()
    assert [row["label"] for row in body["rows"]] == ["Vision"]
    assert client.get("/api/v1/costs/report/?team=nlp").status_code == 422
    assert client.get("/api/v1/costs/report/?page=0").status_code == 422
    client.force_login(alice)
    assert client.get("/api/v1/costs/report/").status_code == 403
