"""What is sent to the API has the type that is described: anything else is 422 and changes nothing."""

from datetime import timedelta

import pytest
from django.utils import timezone

from teams.models import ApiToken
from tests.factories import make_claim, make_team, make_user, sign_in_just_now

pytestmark = pytest.mark.django_db
PROBLEM = "application/problem+json"


@pytest.fixture
def root(client):
    user = make_user("root", admin=True)
    sign_in_just_now(client, user)
    client.user = user
    return client


@pytest.mark.parametrize(
    "address",
    [
        *(f"tokens/?limit={limit}" for limit in ("", "0", "-1", "0.5", "null", "²", "many")),
        *(f"tokens/?cursor={cursor}" for cursor in ("x", "%C3%BC", "cD0w")),
        "claims/unmanaged/?cursor=cD1sYXN0",  # of another list: its ids are numbers
        *(f"profiles/?order=title&{query}" for query in ("limit=0", "limit=-1")),
        *(f"approvals/?{query}" for query in ("limit=0", "limit=501", "page=1", "cursor=x", "tab=theirs")),
        *(f"claims/?mine={word}" for word in ("2", "maybe", "null")),
        *("clusters/?enabled=2", "nodes/?ready=so", "nodes/?unschedulable=so"),
    ],
)
def test_a_query_of_another_type_is_malformed(root, address):
    answer = root.get(f"/api/v1/{address}")
    assert (answer.status_code, answer["Content-Type"]) == (422, PROBLEM)


def test_a_page_has_as_many_rows_as_were_asked_for(root):
    for number in range(3):
        ApiToken.objects.create(
            user=root.user,
            title=str(number),
            scopes=["read"],
            digest=str(number),
            start="drg_",
            expires_at=timezone.now() + timedelta(days=1),
        )
    found = root.get("/api/v1/tokens/?limit=2").json()
    assert len(found["results"]) == 2
    assert len(root.get(found["next"]).json()["results"]) == 1


@pytest.mark.parametrize(
    ("word", "count"), [("true", 1), ("1", 1), ("YES", 1), ("false", 2), ("off", 2), ("", 2)]
)
def test_a_switch_of_a_query_is_true_or_false(root, word, count):
    team = make_team(members=(root.user,))
    for by in (root.user, make_user()):
        make_claim(team, by=by)
    assert len(root.get(f"/api/v1/claims/?mine={word}").json()["results"]) == count


@pytest.mark.parametrize("word", ["2", "perhaps", "null"])
def test_what_is_no_switch_does_not_save_a_profile(root, word):
    answer = root.post(f"/api/v1/profiles/?dry_run={word}", {}, content_type="application/json")
    assert answer.status_code == 422
    assert "title" in answer.json()["detail"] or "dry_run" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("address", "body", "field"),
    [
        ("tokens/", {"title": 1}, "title"),
        ("tokens/", {"title": True}, "title"),
        ("tokens/", {"title": "t", "expires_at": 1}, "expires_at"),
        ("notices/read/", {"ids": [7]}, "ids.0"),
        ("approval-rules/", {"team": "vision", "self_approval": 1}, "self_approval"),
        ("approval-rules/", {"team": "vision", "self_approval": "true"}, "self_approval"),
        ("approval-rules/", {"team": "vision", "automatic_devices": "1"}, "automatic_devices"),
        ("approval-rules/", {"team": "vision", "automatic_devices": True}, "automatic_devices"),
        ("approval-rules/", {"team": "vision", "automatic_devices": 1.5}, "automatic_devices"),
        ("approval-rules/", {"team": "vision", "approval": 0}, "approval"),
        (
            "approvals/decide/",
            {"decision": "approve", "requests": [{"kind": "claim", "id": 3}]},
            "requests.0.id",
        ),
        ("claims/bulk/", {"action": "release", "claims": [3]}, "claims.0"),
        ("claims/bulk/", {"action": "extend", "claims": [], "by": -1}, "by"),
        ("claims/bulk/", {"action": "extend", "claims": [], "by": "-PT1H"}, "by"),
        ("rates/", {"title": "t", "per_hour": 2.5, "valid_from": "2100-01-01T00:00:00Z"}, "per_hour"),
    ],
)
def test_a_body_of_other_types_is_malformed(root, address, body, field):
    make_team("vision")
    answer = root.post(f"/api/v1/{address}", body, content_type="application/json")
    assert (answer.status_code, [one["field"] for one in answer.json()["errors"]]) == (422, [field])


def test_a_whole_number_may_be_written_with_a_point(root):
    make_team("vision")
    body = {"team": "vision", "device_class": "gpu.nvidia.com", "devices": 8.0}
    answer = root.post("/api/v1/quotas/", body, content_type="application/json")
    assert (answer.status_code, answer.json()["limit"]) == (201, 8)


def test_more_claims_than_are_done_at_once_are_malformed(root):
    ids = ["01a1fd0e-cd81-741b-ad1f-8943d5325f9e"] * 201
    body = {"action": "release", "claims": ids}
    answer = root.post("/api/v1/claims/bulk/", body, content_type="application/json")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "claims")


@pytest.mark.parametrize("collection", ["tokens", "rates"])
def test_what_is_no_id_is_404(root, collection):
    assert root.delete(f"/api/v1/{collection}/none/").status_code == 404
