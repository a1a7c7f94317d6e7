"""The page of waste: idle claims that the reader may see, most idle money first, and what may be done."""

from decimal import Decimal

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from claims.states import ClaimState
from tests.factories import make_claim, make_profile, make_team
from tests.usage.conftest import NOON
from tests.usage.idle.test_escalation import HOUR
from usage import waste
from usage.idle.escalation import follow
from usage.models import IdlePeriod, IdlePolicy, Rate

WASTE = "/waste/"


@pytest.fixture(autouse=True)
def _now():
    with time_machine.travel(NOON + 5 * HOUR, tick=False):
        yield


@pytest.fixture
def idle(idles, claim):
    Rate.objects.create(title="All", per_hour=Decimal(3), valid_from=NOON - 9 * HOUR)
    idles(claim, "gpu-0")
    follow(NOON + 5 * HOUR)
    return claim


def page_of(client, person, address=WASTE):
    client.force_login(person)
    return " ".join(client.get(address).text.split())


def test_an_idle_claim_shows_since_when_what_it_cost_and_what_was_done(client, idle, alice):
    page = page_of(client, alice)
    assert '€15.00</b><span class="sub">€3.00 / h</span>' in page
    assert "Owner notified" in page
    assert f'action="{reverse("usage:snooze", args=[idle.pk])}"' in page
    assert "1 claim, 1 device" in page
    assert "2 × 1 d" in page  # the policy


def test_idle_hours_cost_the_whole_price_not_one_in_cents(client, idles, claim, alice):
    Rate.objects.create(title="All", per_hour=Decimal("0.0142"), valid_from=NOON - 9 * HOUR)
    idles(claim, "gpu-0")
    follow(NOON + 5 * HOUR)
    assert IdlePeriod.objects.get().per_hour == Decimal("0.0142")
    assert "€0.07</b>" in page_of(client, alice)


def test_other_teams_see_nothing_of_it(client, idle, eve):
    make_team("nlp", leads=(eve,))
    page = page_of(client, eve)
    assert idle.name not in page
    assert "0 claims, 0 devices" in page
    assert client.post(reverse("usage:snooze", args=[idle.pk])).status_code == 404
    assert client.get(reverse("usage:right_size", args=[idle.pk])).status_code == 404


def test_a_viewer_sees_the_claim_and_may_not_act(client, idle, bob):
    page = page_of(client, bob)
    assert idle.name in page
    assert "Release…" not in page
    assert client.post(reverse("usage:snooze", args=[idle.pk])).status_code == 403


def test_most_idle_money_comes_first_and_claims_without_a_rate_last(client, idle, idles, vision, alice, fra):
    for number, hours in enumerate((4, 9), 1):
        longer = make_claim(
            vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False, name=f"for-{hours}"
        )
        idles(longer, f"gpu-{number}", since=NOON - hours * HOUR)
    follow(NOON + 5 * HOUR)
    IdlePeriod.objects.filter(claim=idle).update(per_hour=None, currency="")
    client.force_login(alice)
    rows = client.get(WASTE).context["listing"].page.object_list
    assert [row.claim.name for row in rows] == ["for-9", "for-4", idle.name]
    assert client.get(f"{WASTE}?format=csv").getvalue().decode().count("\r\n") == 4


def test_a_snooze_is_shown_with_its_end(client, idle, alice):
    client.force_login(alice)
    answer = client.post(reverse("usage:snooze", args=[idle.pk]), follow=True)
    assert "is snoozed until Wed 18 Nov 2026, 17:00" in answer.text
    page = " ".join(answer.text.split())
    assert "1 of 2 used" in page
    assert f'action="{reverse("usage:snooze", args=[idle.pk])}"' not in page


def test_the_policy_is_changed_by_platform_admins(client, root, lena):
    client.force_login(lena)
    assert client.get("/waste/policy/").status_code == 403
    client.force_login(root)
    refused = client.post("/waste/policy/", {"snoozes": 2, "snooze_for": "24h", "release_after": "72h"})
    assert refused.status_code == 422
    assert "released only some time after its leads were notified" in refused.text
    sent = {"notify_leads_after": "24h", "snoozes": 1, "snooze_for": "12h", "release_after": "72h"}
    assert client.post("/waste/policy/", sent).status_code == 302
    policy = IdlePolicy.load()
    assert (policy.notify_owner_after, policy.snoozes, policy.release_after) == (None, 1, 72 * HOUR)


def test_the_page_has_the_same_queries_for_many_claims(client, idle, idles, vision, root, alice, fra):
    client.force_login(root)
    client.get(WASTE)
    with CaptureQueriesContext(connection) as for_one:
        client.get(WASTE)
    for number in range(1, 6):
        more = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False)
        idles(more, f"gpu-{number}")
    follow(NOON + 5 * HOUR)
    with CaptureQueriesContext(connection) as for_many:
        client.get(WASTE)
    assert len(for_many) == len(for_one) <= 16


def test_idle_money_is_added_up_by_team_and_by_profile(client, idle, root):
    client.force_login(root)
    waste = client.get(WASTE).context["waste"]
    waste = waste() if callable(waste) else waste
    assert [(grouping.name, grouping.count) for grouping in waste.groupings] == [("team", 1), ("profile", 1)]
    assert [group.amount for group in waste.groupings[0].groups] == ["€3.00"]
    assert (waste.amount, waste.per_hour) == ("€15.00", "€3.00")


def test_teams_and_profiles_with_most_idle_money_come_first(client, idle, idles, alice, fra, root):
    nlp = make_team("nlp", members=(alice,))
    other = make_claim(
        nlp, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False, profile=make_profile("other")
    )
    idles(other, "gpu-1")
    idles(other, "gpu-2")
    follow(NOON + 5 * HOUR)
    client.force_login(root)
    groupings = client.get(WASTE).context["waste"]().groupings
    assert [[group.amount for group in grouping.groups] for grouping in groupings] == [["€6.00", "€3.00"]] * 2
    assert [group.label for group in groupings[0].groups] == [nlp.title, idle.team.title]


def test_groups_that_are_not_shown_count(client, idle, idles, alice, fra, root, monkeypatch):
    monkeypatch.setattr(waste, "SHOWN", 1)
    nlp = make_team("nlp", members=(alice,))
    other = make_claim(
        nlp, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False, profile=make_profile("other")
    )
    idles(other, "gpu-1")
    follow(NOON + 5 * HOUR)
    client.force_login(root)
    groupings = client.get(WASTE).context["waste"]().groupings
    assert [(len(grouping.groups), grouping.count) for grouping in groupings] == [(1, 2), (1, 2)]


def test_the_api_lists_idle_claims_of_the_readers_teams(client, idle, alice, eve):
    client.force_login(alice)
    (row,) = client.get("/api/v1/waste/idle/").json()["results"]
    assert (row["name"], row["idle_cost"], row["per_hour"]) == (idle.name, "15.00", "3.0000")
    client.force_login(eve)
    assert client.get("/api/v1/waste/idle/").json()["results"] == []
    assert client.get("/api/v1/waste/idle/?team=vision").status_code == 422


def test_the_sum_of_all_matching_claims_is_the_last_row(client, idle, idles, vision, alice, fra):
    longer = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False, name="longer")
    idles(longer, "gpu-1", since=NOON - 5 * HOUR)
    follow(NOON + 5 * HOUR)
    row = page_of(client, alice).partition('<tr class="sumrow">')[2].partition("</tr>")[0]
    for part in ("2 claims, 2 devices", "€45.00", "€6.00 / h"):
        assert part in row
    assert "sumrow" not in page_of(client, alice, f"{WASTE}?q=longer")


def test_the_median_time_to_a_release_is_that_of_released_claims(client, idle, vision, alice):
    period = IdlePeriod.objects.get()
    values = {name: getattr(period, name) for name in ("claim", "team", "since", "noticed_at", "devices")}
    for hours, was_freed in ((1, True), (3, True), (4, True), (9, False)):
        IdlePeriod.objects.create(
            owner_notified_at=NOON - 9 * HOUR,
            ended_at=NOON - (9 - hours) * HOUR,
            was_freed=was_freed,
            **values,
        )
    page = page_of(client, alice)
    assert "3 of 4</div>" in page
    assert "median 3 h later, of idle periods that ended in November" in page
