"""One action on several claims: what it would do to each, doing it, and what became of each."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from claims.claim_list import bulk
from claims.models import Claim, Extension
from claims.states import ClaimState
from tests.claims.mirror import Mirror, result
from tests.factories import make_claim, make_team

pytestmark = pytest.mark.django_db
PAGE = "/claims/bulk/"


@pytest.fixture
def held(vision, fra, train, alice, gateway):
    """A claim of alice with two devices, used by a pod."""
    claim = make_claim(
        vision, by=alice, cluster=fra, name="sam", devices=2, state=ClaimState.PROVISIONED,
        object_uid="uid-1", expires_at=timezone.now() + timedelta(hours=4),
    )  # fmt: skip
    mirror = Mirror(fra)
    mirror.claim("sam", claim, result("gpu-0"), result("gpu-1"))
    mirror.pod("train-0", claims=["sam"])
    return claim


@pytest.fixture
def waiting(vision, fra, train, alice, gateway):
    return make_claim(vision, by=alice, cluster=fra, name="asked")


@pytest.fixture
def of_lena(vision, fra, train, lena, gateway):
    ends = timezone.now() + timedelta(hours=4)
    return make_claim(
        vision, by=lena, cluster=fra, name="hers", state=ClaimState.PROVISIONED, expires_at=ends
    )


def states():
    return dict(Claim.objects.values_list("name", "state"))


def ask(client, person, action, *claims, **more):
    client.force_login(person)
    return client.get(PAGE, {"action": action, "claim": [claim.pk for claim in claims], **more})


def test_the_preview_says_for_each_what_will_happen_or_why_not(client, alice, held, waiting, of_lena):
    text = ask(client, alice, "release", held, waiting, of_lena).text
    assert "Released: 1 pod keeps its devices until it ends." in text
    assert "It is “Waiting for approval”. There is nothing to release." in text
    assert "hers belongs to lena; only the owner or a lead of vision may do this." in text
    assert "Release is possible for 1 of 3 claims." in text
    assert "It holds 2 devices now, and 1 pod uses them." in text
    assert states() == {"sam": "allocated", "asked": "requested", "hers": "provisioned"}


def test_one_button_releases_what_can_be_and_says_what_became_of_each(client, lena, held, waiting, of_lena):
    client.force_login(lena)
    sent = {"action": "release", "claim": [held.pk, waiting.pk, of_lena.pk], "reason": "The week is over."}
    text = client.post(PAGE, sent).text
    assert "Release: done for 2 of 3 claims." in text
    assert "asked holds nothing that could be released" in text
    assert states()["asked"] == "requested"
    assert states()["sam"] == "releasing"
    assert held.history.last().reason == "The week is over."
    assert "Release: done for 2 of 3 claims." in client.post(PAGE, sent).text  # twice is once
    assert held.history.filter(new=ClaimState.RELEASING).count() == 1


def test_several_requests_are_withdrawn(client, alice, waiting, vision, fra, train):
    other = make_claim(vision, by=alice, cluster=fra, name="other", devices=2)
    text = ask(client, alice, "withdraw", waiting, other).text
    assert "Withdrawn: 2 devices are returned to the quota of vision." in text
    client.post(PAGE, {"action": "withdraw", "claim": [waiting.pk, other.pk]})
    assert set(states().values()) == {"withdrawn"}


def test_extending_asks_how_long_first_and_happens_once(client, alice, held):
    page = ask(client, alice, "extend", held)
    assert page.status_code == 200
    assert "Enter the length of the extension" in page.text
    assert "Extended from" in ask(client, alice, "extend", held, by="2h").text
    sent = {"action": "extend", "claim": [held.pk], "by": "2h", "key": "k1"}
    for _ in range(2):
        assert "Extend: done for 1 of 1 claim." in client.post(PAGE, sent).text
    assert Extension.objects.count() == 1


def test_several_claims_are_handed_over(client, lena, alice, lars, held, of_lena):
    assert (
        "Transferred from alice to lars; its pods keep running."
        in ask(client, lena, "transfer", held, of_lena, to="lars").text
    )
    client.post(PAGE, {"action": "transfer", "claim": [held.pk, of_lena.pk], "to": "lars"})
    assert set(Claim.objects.values_list("requested_by__username", flat=True)) == {"lars"}


def test_nobody_gets_claims_of_a_team_that_is_not_theirs(client, root, held, eve, fra):
    other = make_claim(make_team("nlp", members=(eve,)), by=eve, cluster=fra, state=ClaimState.PROVISIONED)
    assert "eve is not a member of vision." in ask(client, root, "transfer", held, other, to="eve").text


def test_all_that_match_are_those_of_the_lists_own_address(client, alice, held, waiting):
    client.force_login(alice)
    text = client.get(PAGE, {"action": "release", "all": "1", "state": "requested"}).text
    assert "asked" in text
    assert ">sam<" not in text


def test_more_than_can_be_done_at_once_is_said_with_the_number(client, alice, held, waiting, monkeypatch):
    monkeypatch.setattr(bulk, "MAX_CLAIMS", 1)
    refused = ask(client, alice, "release", held, waiting)
    assert refused.status_code == 422
    assert "2 claims are selected. At most 1 can be changed at once." in refused.text


def test_claims_of_others_are_not_there(client, eve, held):
    assert "No claims selected" in ask(client, eve, "release", held).text
    client.post(PAGE, {"action": "release", "claim": [held.pk]})
    assert states()["sam"] == "allocated"


def test_a_viewer_hears_why_not_and_has_no_boxes(client, bob, held):
    assert "Only members of vision may do this." in ask(client, bob, "release", held).text
    text = client.post(PAGE, {"action": "release", "claim": [held.pk]}).text
    assert "Release: done for 0 of 1 claim." in text
    assert states()["sam"] == "allocated"
    assert "data-tick" not in client.get("/claims/").text


def test_the_list_offers_the_boxes_and_the_actions(client, alice, held):
    client.force_login(alice)
    text = client.get("/claims/?state=live").text
    assert f'name="claim" value="{held.pk}" form="bulk"' in text
    assert '<input type="hidden" name="state" value="live" data-query>' in text


def test_nonsense_changes_nothing(client, alice, held):
    client.force_login(alice)
    assert client.post(PAGE, {"action": "explode", "claim": [held.pk]}).status_code == 422
    assert "No claims selected" in client.get(PAGE, {"action": "release", "claim": "x"}).text
    assert states()["sam"] == "allocated"


def test_the_preview_costs_the_same_for_one_and_for_many(client, alice, held, vision, fra, train):
    ask(client, alice, "release", held)
    with CaptureQueriesContext(connection) as one:
        ask(client, alice, "release", held)
    more = [
        make_claim(vision, by=alice, cluster=fra, name=f"more-{number}", state=ClaimState.PROVISIONED)
        for number in range(10)
    ]
    for one_more in more:
        Mirror(fra).claim(one_more.name, one_more, uid=one_more.object_uid)
    with CaptureQueriesContext(connection) as several:
        ask(client, alice, "release", held, *more)
    assert len(several) == len(one)
