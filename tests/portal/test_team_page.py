"""The page of a team: use per person, live claims, quota, cost of the month, who may change what."""

import csv
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import unescape
from typing import Any

import pytest
import time_machine
from django.test import Client

from claims.models import Claim
from claims.states import ClaimState
from teams.models import Membership
from tests.factories import make_claim, make_cluster, make_quota, make_team, make_user
from tests.usage.conftest import hold, measure, price
from usage.daily import store_days
from usage.people import team_use

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
MIDNIGHT = datetime(2026, 11, 16, tzinfo=UTC)  # the begin of the last stored day
TEAM = "/teams/vision/"


@pytest.fixture(autouse=True)
def _now():
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def people(db) -> dict[str, Any]:
    names = ("olga", "lena", "alice", "bob", "eve")
    return {name: make_user(name) for name in names} | {"root": make_user("root", admin=True)}


@pytest.fixture
def vision(people):
    return make_team(
        "vision",
        owners=(people["olga"],),
        leads=(people["lena"],),
        members=(people["alice"],),
        viewers=(people["bob"],),
    )


@pytest.fixture
def fra(vision):
    return make_cluster("fra-1", teams=(vision,))


@pytest.fixture
def make(vision, fra, people) -> Callable[..., Claim]:
    def make_one(by: str = "alice", state: ClaimState = ClaimState.ALLOCATED, **fields: Any) -> Claim:
        return make_claim(vision, by=people[by], cluster=fra, state=state, held=False, **fields)

    return make_one


def get(user: Any, address: str = TEAM) -> Any:
    client = Client()
    client.force_login(user)
    return client.get(address)


def used(claim: Claim, start: datetime, hours: int, activities: list[float | None], **fields: Any) -> None:
    """Let a claim have held one device, whose rollups have these activities in turn."""
    turns = hours * 12 // max(len(activities), 1)
    measure(hold(claim, start, start + hours * HOUR, **fields), start, activities * turns)


def test_use_is_summed_per_person_from_stored_days(make, vision, people):
    price("2.00")
    used(make(), MIDNIGHT, 10, [0.5, 0.7])  # mean 60 %
    used(make("lena"), MIDNIGHT - 2 * DAY, 24, [])  # no telemetry
    used(make("lena"), MIDNIGHT + DAY, 5, [0.1])  # today: not stored yet
    used(make("lena"), NOW - 40 * DAY, 5, [0.1])  # too long ago
    store_days(now=NOW)
    use = team_use(vision, today=NOW.date())
    alice, lena = use.people[people["alice"].pk], use.people[people["lena"].pk]
    assert (alice.cost.hours, alice.cost.amounts, alice.percent) == (Decimal(10), {"EUR": Decimal(20)}, 60)
    assert (alice.idle.hours, alice.idle.amounts) == (Decimal(4), {"EUR": Decimal(8)})
    assert (lena.cost.hours, lena.cost.amounts) == (Decimal(24), {"EUR": Decimal(48)})
    shown: list[object] = [lena.percent, lena.idle.held]
    assert shown == [None, 0]
    assert lena.devices[-3:] == [1, 0, 0]
    assert alice.devices[-1] == pytest.approx(10 / 24)
    assert (use.sum.cost.hours, use.sum.cost.amounts) == (Decimal(34), {"EUR": Decimal(68)})
    assert (use.sum.percent, use.sum.idle.amounts) == (60, {"EUR": Decimal(8)})
    assert (str(use.first), str(use.last)) == ("2026-10-18", "2026-11-16")


def test_utilization_weighs_claims_by_the_time_that_they_were_held(make, vision, people):
    used(make(), MIDNIGHT, 1, [1.0])
    used(make(), MIDNIGHT, 3, [0.0])
    store_days(now=NOW)
    alice = team_use(vision, today=NOW.date()).people[people["alice"].pk]
    assert alice.percent == 25
    assert alice.idle.is_unknown  # no rate


def test_cost_of_the_month_is_that_of_the_page_of_costs(make, people):
    price("1.00")
    used(make(), datetime(2026, 10, 31, tzinfo=UTC), 24, [])
    used(make(), datetime(2026, 11, 1, tzinfo=UTC), 12, [])
    store_days(now=NOW)
    hold(make(), NOW - HOUR)
    client = Client()
    client.force_login(people["alice"])
    of_costs = client.get("/teams/vision/cost/").context["cost"].amounts
    page = get(people["alice"]).context
    assert page["month"].total.amounts == of_costs == {"EUR": Decimal(13)}
    assert page["use"].sum.cost.amounts == {"EUR": Decimal(36)}


def test_use_of_other_teams_is_not_counted(make, vision, people):
    other = make_team("nlp", members=(people["alice"],))
    claim = make_claim(other, by=people["alice"], state=ClaimState.ALLOCATED, held=False)
    used(claim, MIDNIGHT, 10, [])
    store_days(now=NOW)
    assert team_use(vision, today=NOW.date()).people == {}


def test_page_lists_people_by_cost_with_sums(make, people):
    price("2.00")
    used(make("lena"), MIDNIGHT, 24, [0.5])
    used(make("alice"), MIDNIGHT, 10, [0.6])
    hold(make("alice", name="running"), NOW - HOUR)
    make("alice", ClaimState.REQUESTED, name="asked")
    gone = make("olga", name="of-olga")
    used(gone, MIDNIGHT, 1, [])
    Membership.objects.filter(user=people["olga"]).delete()
    store_days(now=NOW)
    page = get(people["bob"])
    rows = [(one.user.username, one.role_name, one.held, one.claims) for one in page.context["people"]]
    assert rows == [
        ("lena", "lead", 0, 1), ("alice", "member", 1, 3), ("olga", "not a member", 0, 1),
        ("bob", "viewer", 0, 0),
    ]  # fmt: skip
    assert page.context["counts"] == [5, 1, 1]
    links = re.findall(r'href="(/claims/\?[^"]*who=(\w+))">(\d)', page.text)
    assert [(name, number) for _url, name, number in links] == [
        (name, number) for name, number in (("lena", "1"), ("alice", "3"), ("olga", "1")) for _cell in "dp"
    ]
    for url, _name, number in links:
        assert f">{number} claim" in get(people["bob"], unescape(url)).text
    for text in ("3 members, 5 live claims, 1 device held", "€70.00", "may read, not request devices"):
        assert text in page.text


def test_page_without_use_has_no_hole(people, vision):
    text = get(people["alice"]).text
    for words in (
        "No live claim",
        "no telemetry",
        "No device was held from",
        "vision has no quota",
    ):
        assert words.lower() in text.lower()
    assert "€0" not in text


def test_members_and_admins_see_it_and_outsiders_do_not(people, vision):
    for name in ("olga", "lena", "alice", "bob", "root"):
        assert get(people[name]).status_code == 200
    assert get(people["eve"]).status_code == 404
    assert get(people["root"], "/teams/nobody/").status_code == 404
    assert Client().get(TEAM).headers["Location"] == f"/accounts/login/?next={TEAM}"
    client = Client()
    client.force_login(people["olga"])


@pytest.mark.parametrize(
    ("name", "offered", "refused"),
    [
        ("bob", ("become a member", "A member can request more"), ("Request more quota", "Manage members")),
        ("alice", ("A lead can ask", "Request more quota"), ("Ask for a member", "Delegate")),
        ("lena", ("Ask for a member", "Delegate"), ("Manage members",)),
        ("olga", ("Manage members", "Request more quota", "Delegate"), ("Ask for a member",)),
        ("root", ("Manage members", "See the rules"), ("Ask for a member",)),
    ],
)
def test_who_can_change_this_names_people_and_the_next_step(people, vision, name, offered, refused):
    text = get(people[name]).text
    assert "olga (owner of the team) or a platform admin: root." in text
    assert "lena or olga, or a platform admin." in text
    assert [words for words in offered if words not in text] == []
    assert [words for words in refused if words in text] == []


def test_csv_has_a_line_per_person(make, people):
    price("2.00")
    used(make("alice"), MIDNIGHT, 10, [0.6])
    store_days(now=NOW)
    lines = list(csv.DictReader(get(people["bob"], f"{TEAM}?format=csv").text.splitlines()))
    alice = next(line for line in lines if line["User name"] == "alice")
    assert (alice["GPU-hours"], alice["Cost"]) == ("10.00", "20.00")
    assert (alice["Utilization"], alice["Idle cost"], alice["Currency"]) == ("60", "8.00", "EUR")
    assert next(line for line in lines if line["User name"] == "bob")["Cost"] == ""


@pytest.mark.parametrize("name", ["alice", "root"])
def test_page_needs_at_most_16_queries_for_any_size(
    make, people, vision, name, django_assert_max_num_queries
):
    def one_more(number: int) -> None:
        person = make_user(f"person-{number}")
        people[person.username] = person
        Membership.objects.create(user=person, team=vision)
        used(make(person.username), MIDNIGHT, 3, [0.5])
        hold(make(person.username), NOW - HOUR)

    make_quota(vision, 8)
    one_more(0)
    store_days(now=NOW)
    client = Client()
    client.force_login(people[name])
    client.get(TEAM)
    with django_assert_max_num_queries(16) as one:
        client.get(TEAM)
    for number in range(1, 60):
        one_more(number)
    store_days(now=NOW)
    with django_assert_max_num_queries(len(one)):
        text = client.get(TEAM).text
    assert "14 more people with a lower cost" in text
