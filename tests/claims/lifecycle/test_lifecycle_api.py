"""Extending, shortening, handing over and replacing by API."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from claims.models import Claim
from claims.states import ClaimState
from tests.factories import make_claim, make_extension, make_profile, make_user

pytestmark = pytest.mark.django_db
CLAIMS, EXTENSIONS = "/api/v1/claims/", "/api/v1/extensions/"
ACTIONS = ("extend", "shorten", "transfer", "resize")
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def client(user) -> APIClient:
    made = APIClient()
    made.force_authenticate(user)
    return made


@pytest.fixture
def claim(vision, fra, alice, quota, gateway):
    since = timezone.now() - 6 * HOUR
    return make_claim(
        vision,
        by=alice,
        cluster=fra,
        profile=make_profile("steady", extension=DAY),
        name="sam",
        devices=2,
        reason="Fine-tune",
        state=ClaimState.PROVISIONED,
        decided_at=since,
        expires_at=since + DAY,
    )


def post(user, claim, action, body, key=""):
    headers = {"Idempotency-Key": key} if key else {}
    return client(user).post(f"{CLAIMS}{claim.pk}/{action}/", body, format="json", headers=headers)


def bodies(claim):
    return {
        "extend": {"until": (claim.expires_at + HOUR).isoformat()},
        "shorten": {"until": (claim.expires_at - HOUR).isoformat()},
        "transfer": {"to": "lena"},
        "resize": {"devices": 3},
    }


def test_extending_at_once_and_asking_for_more(alice, lena, claim):
    answer = post(alice, claim, "extend", {"until": claim.expires_at + DAY}, key="k")
    assert answer.status_code == 201, answer.json()
    assert answer.json()["status"] == "approved"
    assert post(alice, claim, "extend", {"until": claim.expires_at + DAY}, key="k").json() == answer.json()
    waits = post(alice, claim, "extend", {"until": claim.expires_at + 5 * DAY, "reason": "More."}).json()
    assert (waits["status"], waits["reason"]) == ("waiting", "More.")
    listed = client(lena).get(EXTENSIONS).json()["results"]
    assert [one["id"] for one in listed] == [waits["id"]]
    decided = client(lena).post(f"{EXTENSIONS}{waits['id']}/approve/", {"note": "Fine."}, format="json")
    assert (decided.status_code, decided.json()["status"]) == (200, "approved")
    assert client(lena).get(EXTENSIONS).json()["results"] == []
    history = client(alice).get(f"{CLAIMS}{claim.pk}/extensions/").json()["results"]
    assert [one["status"] for one in history] == ["approved", "approved"]


def test_a_wish_is_denied_with_a_reason_or_withdrawn(alice, lena, lars, claim):
    body = {"until": claim.expires_at + 5 * DAY}
    one = post(alice, claim, "extend", body).json()["id"]
    assert client(lena).post(f"{EXTENSIONS}{one}/deny/", {"reason": ""}, format="json").status_code == 422
    denied = client(lena).post(f"{EXTENSIONS}{one}/deny/", {"reason": "No."}, format="json").json()
    assert (denied["status"], denied["decision_note"]) == ("denied", "No.")
    second = client(lars).post(f"{EXTENSIONS}{one}/approve/", {}, format="json")
    assert (second.status_code, second.json()["code"]) == (409, "conflict")
    other = post(alice, claim, "extend", body).json()["id"]
    assert client(alice).post(f"{EXTENSIONS}{other}/withdraw/").json()["status"] == "withdrawn"


def test_who_may_not_decide_hears_why_and_an_outsider_finds_nothing(alice, bob, eve, claim):
    one = post(alice, claim, "extend", {"until": claim.expires_at + 5 * DAY}).json()["id"]
    for person, status in ((alice, 403), (bob, 403), (eve, 404)):
        answer = client(person).post(f"{EXTENSIONS}{one}/approve/", {}, format="json")
        assert answer.status_code == status
    assert client(eve).get(EXTENSIONS).json()["results"] == []
    assert client(eve).get(f"{EXTENSIONS}{one}/").status_code == 404
    assert client(bob).get(f"{EXTENSIONS}{one}/").status_code == 200


def test_shortening_moves_the_end(alice, claim):
    until = claim.expires_at - HOUR
    answer = post(alice, claim, "shorten", {"until": until})
    assert answer.status_code == 200
    claim.refresh_from_db()
    assert claim.expires_at == until


def test_handing_over_to_a_member(alice, claim, vision):
    vision.memberships.create(user=make_user("mona"), role="member")
    assert post(alice, claim, "transfer", {"to": "nobody"}).status_code == 422
    assert post(alice, claim, "transfer", {"to": "mona"}).json()["requested_by"] == "mona"


def test_a_replacement_keeps_what_is_not_said(alice, claim):
    answer = post(alice, claim, "resize", {"devices": 3, "duration": "2d"}, key="k")
    assert answer.status_code == 201, answer.json()
    made = answer.json()
    assert made["replaces"] == str(claim.pk)
    assert (made["profile"], made["devices"], made["duration"], made["reason"]) == (
        "steady",
        3,
        172_800,
        "Fine-tune",
    )
    assert made["name"] != claim.name
    assert Claim.objects.get(pk=made["id"]).carried == 2
    assert post(alice, claim, "resize", {"devices": 3, "duration": "2d"}, key="k").json() == made


@pytest.mark.parametrize("action", ACTIONS)
def test_outsiders_and_viewers_change_nothing(bob, eve, claim, action):
    body = bodies(claim)[action]
    assert post(eve, claim, action, body).status_code == 404
    assert post(bob, claim, action, body).status_code == 403
    assert Claim.objects.get().expires_at == claim.expires_at


@pytest.mark.parametrize("action", ACTIONS)
def test_what_is_malformed_is_422(alice, claim, action):
    wrong = {"until": "soon", "to": "", "devices": 0}
    assert post(alice, claim, action, wrong).status_code == 422


@pytest.mark.parametrize("action", ACTIONS)
def test_what_is_over_is_409(alice, claim, action):
    body = bodies(claim)[action]
    Claim.objects.update(state=ClaimState.RELEASED)
    assert post(alice, claim, action, body).status_code == 409


def test_the_number_of_queries_does_not_grow_with_the_wishes(alice, claim, fra, vision):
    def count():
        with CaptureQueriesContext(connection) as seen:
            assert client(alice).get(EXTENSIONS).status_code == 200
        return len(seen)

    make_extension(claim)
    few = count()
    for _ in range(4):
        make_extension(make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED))
    assert count() == few
