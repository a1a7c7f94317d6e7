"""Acting on several idle claims: what is said before, what is done, and what is refused."""

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from claims.models import Claim
from claims.states import ClaimState
from notify.models import Notice
from tests.factories import make_claim, make_team
from tests.usage.conftest import NOON
from tests.usage.idle.test_escalation import HOUR
from usage.idle.escalation import follow
from usage.models import IdlePeriod, Rate

BULK, WASTE = "/waste/bulk/", "/waste/"


@pytest.fixture(autouse=True)
def _now():
    with time_machine.travel(NOON + 5 * HOUR, tick=False):
        yield


@pytest.fixture
def make_idle(idles, vision, fra, alice):
    Rate.objects.create(title="All", per_hour=3, valid_from=NOON - 9 * HOUR)

    def make(name, by=alice):
        claim = make_claim(vision, by=by, cluster=fra, name=name, state=ClaimState.ALLOCATED, held=False)
        idles(claim, f"gpu-of-{name}")
        follow(NOON + 5 * HOUR)
        return claim

    return make


@pytest.fixture
def two(make_idle, lena):
    return [make_idle("first"), make_idle("of-lena", by=lena)]


def ask(client, person, action, claims, **more):
    client.force_login(person)
    return client.get(BULK, {"action": action, "claim": [claim.pk for claim in claims], **more})


def send(client, person, action, claims, **more):
    client.force_login(person)
    return client.post(BULK, {"action": action, "claim": [claim.pk for claim in claims], **more})


def words(page):
    return " ".join(page.text.split())


def test_snoozing_says_until_when_and_how_many_are_left_and_changes_nothing(client, lena, two):
    page = words(ask(client, lena, "snooze", two))
    assert "Snooze 2 idle claims?" in page
    assert "Snoozed for 1 d, until" in page
    assert "That is snooze 1 of 2." in page
    assert "Possible for all 2 claims." in page
    assert "They hold 2 idle devices, which cost €6.00 per hour." in page
    assert not IdlePeriod.objects.exclude(snoozes=0)


def test_each_claim_is_snoozed_once_and_the_second_time_says_why_not(client, lena, two):
    page = words(send(client, lena, "snooze", two))
    assert "Snooze: done for 2 of 2 claims." in page
    again = send(client, lena, "snooze", two)
    assert again.status_code == 409
    assert "Snooze: done for 0 of 2 claims." in words(again)
    assert "cannot be snoozed: it is snoozed until" in words(again)
    assert set(IdlePeriod.objects.values_list("snoozes", flat=True)) == {1}
    assert "It is snoozed until" in words(ask(client, lena, "snooze", two))


def test_a_refusal_of_one_stops_none_of_the_others(client, alice, two):
    preview = words(ask(client, alice, "snooze", two))
    assert "Possible for 1 of 2 claims; the rest stays as it is." in preview
    assert "€3.00 per hour" in preview
    assert "€6.00" not in preview
    assert "of-lena belongs to lena; only the owner or a lead of vision may do this." in preview
    page = send(client, alice, "snooze", two)
    assert page.status_code == 409
    assert "Snooze: done for 1 of 2 claims." in words(page)
    assert IdlePeriod.objects.get(claim=two[0]).snoozes == 1
    assert IdlePeriod.objects.get(claim=two[1]).snoozes == 0


def test_owners_are_asked_once_a_day_and_nobody_asks_themselves(client, lena, alice, two):
    preview = words(ask(client, lena, "ask", two))
    assert "alice is notified that you ask whether it is still needed. It keeps its devices." in preview
    assert "of-lena is yours." in preview
    assert "Ask about 1 claim</button>" in preview
    assert "alice is notified." in words(send(client, lena, "ask", two))
    assert Notice.objects.filter(user=alice, key__startswith="remind:").count() == 1
    assert "alice was already asked today." in words(ask(client, lena, "ask", two))
    assert "alice was already reminded of first today" in words(send(client, lena, "ask", two))


def test_releasing_says_what_becomes_of_devices_and_keeps_the_reason(client, lena, two):
    preview = words(ask(client, lena, "release", two))
    assert "Released: 1 device is freed." in preview
    assert "btn-danger solid" in preview
    assert set(Claim.objects.values_list("state", flat=True)) == {ClaimState.ALLOCATED}
    page = words(send(client, lena, "release", two, reason="Idle since noon."))
    assert "Release: done for 2 of 2 claims." in page
    assert set(Claim.objects.values_list("state", flat=True)) == {ClaimState.RELEASING}
    assert two[0].history.get(new=ClaimState.RELEASING).reason == "Idle since noon."


def test_a_claim_that_works_again_is_not_snoozed(client, lena, two):
    IdlePeriod.objects.filter(claim=two[0]).update(ended_at=NOON + 5 * HOUR)
    assert "It is not idle any more." in words(ask(client, lena, "snooze", two))
    assert "first is not idle any more, so there is nothing to snooze." in words(
        send(client, lena, "snooze", two)
    )


def test_other_teams_select_nothing_and_viewers_change_nothing(client, bob, eve, two):
    make_team("nlp", leads=(eve,))
    assert "No claims selected" in ask(client, eve, "release", two).text
    assert send(client, eve, "release", two).status_code == 422
    assert send(client, bob, "release", two).status_code == 409
    assert "Only members of vision may do this." in words(ask(client, bob, "snooze", two))
    assert send(client, bob, "snooze", two).status_code == 409
    assert not IdlePeriod.objects.exclude(snoozes=0)
    assert set(Claim.objects.values_list("state", flat=True)) == {ClaimState.ALLOCATED}


def test_bad_input_is_refused(client, lena, two):
    assert ask(client, lena, "", two).status_code == 422
    assert send(client, lena, "destroy", two).status_code == 422
    assert send(client, lena, "snooze", []).status_code == 422
    assert set(IdlePeriod.objects.values_list("snoozes", flat=True)) == {0}


def test_all_that_match_are_those_of_the_filters(client, root, two, make_idle, eve, idles, fra):
    nlp = make_team("nlp", members=(eve,))
    other = make_claim(nlp, by=eve, cluster=fra, state=ClaimState.ALLOCATED, held=False, name="of-nlp")
    idles(other, "gpu-of-nlp")
    follow(NOON + 5 * HOUR)
    client.force_login(root)
    page = words(client.get(BULK, {"action": "snooze", "all": 1, "team": "vision"}))
    assert "Snooze 2 idle claims?" in page
    assert "of-nlp" not in page


def test_the_preview_of_many_needs_no_more_queries_than_of_one(client, lena, make_idle):
    one = [make_idle("claim-0")]
    ask(client, lena, "snooze", one)  # what is read once in a process
    counts = {}
    many = [*one, *(make_idle(f"claim-{number}") for number in range(1, 6))]
    for action in ("snooze", "ask", "release"):
        for claims in (one, many):
            with CaptureQueriesContext(connection) as seen:
                ask(client, lena, action, claims)
            counts[action, len(claims)] = len(seen)
        assert counts[action, 6] == counts[action, 1]
        assert counts[action, 6] <= 15


def test_the_list_offers_it_to_those_who_may_act(client, alice, bob, two):
    for person, boxes in ((alice, 1), (bob, 0)):
        client.force_login(person)
        page = client.get(WASTE).text
        assert page.count("data-tick") == boxes
        assert (f'action="{BULK}"' in page) is bool(boxes)
