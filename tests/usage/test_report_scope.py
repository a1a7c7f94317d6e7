"""The report of some teams, one person or one profile, by claim in pages; for leads, of their teams alone."""

from datetime import timedelta

import pytest
import time_machine

from tests.factories import make_claim, make_profile, make_team, make_user
from tests.usage.conftest import NOON, hold, measure, price
from tests.usage.test_fleet_report import MIDNIGHT, WEEK, had
from usage.cost import Cost
from usage.daily import store_days
from usage.fleet_report import GroupBy, fleet_report
from usage.ledger_sums import LONGEST_OF_ALL, EntryScope
from usage.models import DailySum

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


@pytest.mark.parametrize("group_by", GroupBy)
def test_rows_of_one_team_add_up_to_what_it_held(used, vision, group_by):
    found = fleet_report(WEEK, group_by, now=NOON, most=1, scope=EntryScope([vision.pk]))
    whole = fleet_report(WEEK, group_by, now=NOON, scope=EntryScope([vision.pk]))
    assert found.parts == whole.parts
    assert found.parts.allocated.hours == found.parts.fleet.hours == 10
    assert sum(row.cost.held for row in whole.rows) == found.parts.allocated.held
    assert (found.row_count, found.adds_up, whole.adds_up) == (len(whole.rows), True, True)
    assert found.rows == whole.rows[:1]


def test_claims_of_the_fleet_come_in_pages_largest_first(used):
    pages = [fleet_report(WEEK, GroupBy.CLAIM, now=NOON, most=2, offset=offset) for offset in (0, 2)]
    assert [row.label for row in pages[0].rows] == ["secret-of-nlp (nlp)", "sam2-finetune (vision)"]
    assert [row.label for row in pages[1].rows] == ["lenas (vision)"]
    assert [page.row_count for page in pages] == [3, 3]
    assert all(page.adds_up for page in pages)


@pytest.mark.parametrize(
    ("order", "first"),
    [("cost", "secret-of-nlp (nlp)"), ("idle", "lenas (vision)"), ("hours", "secret-of-nlp (nlp)")],
)
def test_rows_are_sorted_before_they_are_paged(used, order, first):
    found = fleet_report(WEEK, GroupBy.CLAIM, now=NOON, most=1, order=order)
    assert [row.label for row in found.rows] == [first]
    by_person = fleet_report(WEEK, GroupBy.PERSON, now=NOON, most=1, order=order)
    assert [row.label for row in by_person.rows] == [{"idle": "lena"}.get(order, "olaf")]


def test_one_person_and_one_profile_narrow_the_report(used, lena, claim):
    of_lena = fleet_report(WEEK, GroupBy.CLAIM, now=NOON, scope=EntryScope(person=lena.pk))
    assert [row.label for row in of_lena.rows] == ["lenas (vision)"]
    profile = claim.profile_version.profile_id
    of_profile = fleet_report(WEEK, GroupBy.TEAM, now=NOON, scope=EntryScope(profile=profile))
    assert of_profile.parts.allocated != Cost()
    assert of_profile.parts.unallocated == Cost()


def test_a_wrong_sum_is_a_difference(used):
    DailySum.objects.filter(dimension="team").update(amount=0)
    found = fleet_report(WEEK, GroupBy.TEAM, now=NOON, most=100)
    assert not found.adds_up
    assert found.difference.held == 0
    assert sum(found.difference.exact.values()) < 0


def test_a_lead_sees_their_teams_and_nothing_else(client, used, lena):
    client.force_login(lena)
    for query in ("", "?by=claim", "?by=person", "?team=vision&by=model", "?by=cluster&sort=idle"):
        text = client.get(f"{URL}{query}").text
        assert "nlp" not in text, query
        assert "Unallocated" not in text
        assert "€20.00" in text, query
    csv = client.get(f"{URL}?by=claim&format=csv").getvalue().decode()
    assert ("sam2-finetune" in csv, "nlp" in csv) == (True, False)


@pytest.mark.parametrize("query", ["team=nlp", "person=olaf", "team=none-such", "sort=price", "page=0"])
def test_what_a_lead_may_not_know_of_cannot_be_chosen(client, used, lena, query):
    client.force_login(lena)
    answer = client.get(f"{URL}?{query}&by=claim")
    assert answer.status_code == 422
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
    assert "Choose at most 31 days, or a team, to group by claim." in refused.text
    assert client.get(f"{URL}?by=claim&team=vision&since={since}&until={NOON.date()}").status_code == 200


def test_the_goal_of_a_team_stands_beside_its_utilization(client, used, root, vision):
    vision.efficiency_goal = 70
    vision.save(update_fields=["efficiency_goal"])
    client.force_login(root)
    assert "goal 70 %" in client.get(f"{URL}?range=7d").text
    cost = client.get("/teams/vision/cost/").text
    assert "goal 70 %" in cost


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
