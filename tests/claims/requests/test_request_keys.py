"""The Idempotency-Key of a request: what a repeated request gets, by what has become of its claim."""

from datetime import timedelta

import pytest
from django.utils import timezone

from claims.api_types import RequestIn
from claims.models import Claim
from claims.states import ClaimState
from tests.factories import make_cluster, make_profile, make_quota, make_team, make_user

pytestmark = pytest.mark.django_db
BODY = {"team": "vision", "cluster": "fra-1", "profile": "slice", "devices": 1, "duration": "1h"}
OTHERS = {
    "devices": 2,
    "duration": "9h",
    "name": "another",
    "parallel": 2,
    "delivery": "template",
    "reason": "Another.",
    "profile": "other",
    "alternatives": ["other"],
    "keep_alive": "15m",
}
ENDED = (
    ClaimState.RELEASING,
    ClaimState.RELEASED,
    ClaimState.WITHDRAWN,
    ClaimState.EXPIRED,
    ClaimState.FAILED,
)


@pytest.fixture
def send(client):
    alice = make_user("alice")
    vision = make_team("vision", members=(alice,))
    make_cluster("fra-1", teams=(vision,))
    for slug in ("slice", "other"):
        make_profile(slug)
    make_quota(vision, 32)
    client.force_login(alice)

    def sent(status=201, **changes):
        answer = client.post(
            "/api/v1/claims/",
            {**BODY, **changes},
            content_type="application/json",
            headers={"Idempotency-Key": "run-17"},
        )
        assert answer.status_code == status, answer.text
        return answer.json()

    return sent


def end(claim, state, **columns):
    Claim.objects.filter(pk=claim["id"]).update(state=state, **columns)


def a_day_passes():
    Claim.objects.update(created_at=timezone.now() - timedelta(days=1, minutes=1))


@pytest.mark.parametrize("member", OTHERS)
def test_another_body_with_the_key_is_refused(send, member):
    first = send()
    assert "Use a new key" in send(422, **{member: OTHERS[member]})["detail"]
    assert send()["id"] == first["id"]
    assert Claim.objects.count() == 1


@pytest.mark.parametrize("state", ENDED)
def test_the_request_of_a_claim_that_has_ended_makes_a_new_one(send, state):
    first = send()
    end(first, state)
    second = send()
    assert (second["id"] != first["id"], second["state"]) == (True, "requested")
    assert send()["id"] == second["id"]
    send(422, devices=2)


def test_a_denied_request_is_not_asked_again_with_its_key(send):
    first = send()
    end(first, ClaimState.DENIED, decision_note="Not this week.")
    assert "was denied: Not this week. To request it again, use a new key." in send(409)["detail"]
    a_day_passes()
    assert send()["id"] != first["id"]


def test_a_key_is_forgotten_a_day_later_if_its_claim_has_ended(send):
    first = send()
    a_day_passes()
    send(422, devices=2)
    assert send()["id"] == first["id"]
    end(first, ClaimState.RELEASED)
    assert send(devices=2)["id"] != first["id"]


def test_unknown_member_of_a_part_is_refused_with_the_nearest_name():
    wrong = RequestIn(data={"together": [{"devcies": 1}]})
    assert not wrong.is_valid()
    assert wrong.errors["together"][0]["devcies"] == ["Unknown member “devcies”. Did you mean “devices”?"]
