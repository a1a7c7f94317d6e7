"""Profiles, match, quotas and approvals over the API."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from claims.approvals import pending
from claims.approvals.decide import deny
from claims.approvals.pending import waiting_for
from claims.models import Approval, ApprovalRule, Quota
from claims.states import ClaimState
from tests.factories import make_claim, make_profile, make_quota, make_team

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_availability")]


def client(user) -> APIClient:
    made = APIClient()
    made.force_authenticate(user)
    return made


@pytest.fixture
def body(vision, fra, train, quota):
    return {"team": "vision", "cluster": "fra-1", "profile": "train-80", "devices": 2}


@pytest.mark.parametrize("path", ["profiles/", "match/", "quotas/", "approvals/"])
def test_anonymous_request_is_401(path):
    assert APIClient().get(f"/api/v1/{path}").status_code == 401


def test_profile_has_its_spec_and_whether_the_reader_may_request_it(alice, bob, vision, fra, train, quota):
    entry = client(alice).get("/api/v1/profiles/").json()["results"][0]
    assert (entry["slug"], entry["may_request"], entry["reason"]) == ("train-80", True, "")
    assert (entry["free"], entry["total"], entry["max_duration"]) == (0, 0, 14 * 86_400)
    single = client(alice).get("/api/v1/profiles/train-80/").json()
    assert entry.pop("computed_at") < single.pop("computed_at")  # these tests count before each page
    assert entry == single
    entry = client(bob).get("/api/v1/profiles/train-80/").json()
    assert (entry["may_request"], entry["reason"].split(".")[0]) == (
        False,
        "You need the role “member” in a team to request devices",
    )


def test_profile_of_other_teams_is_404(alice, vision):
    make_profile("theirs", teams=(make_team("nlp"),))
    assert client(alice).get("/api/v1/profiles/").json()["results"] == []
    assert client(alice).get("/api/v1/profiles/theirs/").status_code == 404


def test_query_count_is_the_same_for_one_and_many_profiles(
    alice, vision, fra, train, quota, django_assert_num_queries
):
    api = client(alice)
    api.get("/api/v1/profiles/")
    with CaptureQueriesContext(connection) as one:
        api.get("/api/v1/profiles/")
    for number in range(10):
        make_profile(f"more-{number}", teams=(vision,))
    with django_assert_num_queries(len(one)):
        api.get("/api/v1/profiles/")


def test_match_has_quota_approval_manifest_and_problems(alice, body):
    answer = client(alice).post("/api/v1/match/", body | {"name": "sam"}, format="json")
    assert answer.status_code == 200, answer.json()
    shown = answer.json()
    assert shown["quota"][0] | {"sentence": ""} == {
        "label": "gpu.nvidia.com", "before": 0, "needs": 2, "after": 2, "limit": 8, "fits": True,
        "sentence": "",
    }  # fmt: skip
    assert shown["approval"] == {
        "automatic": False, "sentence": "A lead of vision decides: lars or lena.", "who": ["lars", "lena"],
        "rule": "Train 80 v1 requires approval by a team lead.",
    }  # fmt: skip
    assert "kind: ResourceClaim" in shown["manifest"]
    assert (shown["problems"], shown["match"]["fits"]) == ([], False)


def test_match_has_every_problem(alice, body):
    shown = (
        client(alice)
        .post("/api/v1/match/", body | {"devices": 9, "parallel": 2, "name": "Upper"}, format="json")
        .json()
    )
    assert len(shown["problems"]) == 3
    assert shown["fits_quota"] is False


def test_match_writes_nothing(alice, body):
    with CaptureQueriesContext(connection) as queries:
        assert client(alice).post("/api/v1/match/", body, format="json").status_code == 200
    assert len(queries) > 0
    assert not [query for query in queries if query["sql"].startswith(("INSERT", "UPDATE", "DELETE"))]


def test_match_is_refused_to_viewers_and_outsiders(alice, bob, eve, body):
    assert client(bob).post("/api/v1/match/", body, format="json").status_code == 403
    assert client(eve).post("/api/v1/match/", body, format="json").status_code == 404
    assert client(alice).post("/api/v1/match/", {"team": "vision"}, format="json").status_code == 422


def test_quotas_have_usage_and_its_parts(alice, eve, vision, fra, train, quota):
    held = make_claim(vision, cluster=fra, profile=train, devices=6, state=ClaimState.ALLOCATED)
    make_claim(vision, cluster=fra, profile=train, devices=3)
    row = client(alice).get("/api/v1/quotas/").json()["results"][0]
    assert (row["limit"], row["held"], row["reserved"], row["free"], row["over"]) == (8, 6, 3, 0, 1)
    shown = client(alice).get(f"/api/v1/quotas/{quota.pk}/").json()
    parts = [(part["claim"]["id"], part["devices"], part["reserved"]) for part in shown["contributions"]]
    assert parts[0] == (str(held.pk), 6, False)
    assert sum(devices for _id, devices, _reserved in parts) == row["held"] + row["reserved"]
    assert client(eve).get("/api/v1/quotas/").json()["results"] == []
    assert client(eve).get(f"/api/v1/quotas/{quota.pk}/").status_code == 404


def test_only_platform_admin_sets_a_quota(alice, lena, eve, root, vision):
    limit = {"team": "vision", "device_class": "gpu.nvidia.com", "devices": 4}
    for user, status in ((alice, 403), (lena, 403), (eve, 404), (root, 201)):
        assert client(user).post("/api/v1/quotas/", limit, format="json").status_code == status
    assert Quota.objects.get().devices == 4
    for wrong in ({"devices": -1}, {"device_class": ""}, {"profile": "nothing"}):
        assert client(root).post("/api/v1/quotas/", limit | wrong, format="json").status_code == 422


def test_query_count_is_the_same_for_one_and_many_quotas(
    root, vision, train, quota, django_assert_num_queries
):
    make_quota(vision, 4, profile=train)
    api = client(root)
    with CaptureQueriesContext(connection) as one:
        api.get("/api/v1/quotas/")
    for number in range(10):
        make_quota(make_team(f"team-{number}"), 4)
    with django_assert_num_queries(len(one)):
        api.get("/api/v1/quotas/")


@pytest.fixture
def waiting(vision, fra, train, alice, lena, quota):
    """One request that leads decide, one by a lead herself, one for platform admins, one that is decided."""
    big = make_profile("big", approval=Approval.ADMIN)
    named = {"cluster": fra, "profile": train}
    plain = make_claim(vision, by=alice, **named)
    own = make_claim(vision, by=lena, **named)
    admins = make_claim(vision, by=alice, cluster=fra, profile=big)
    decided = deny(claim=make_claim(vision, by=alice, **named), by=lena, reason="no")
    return {"plain": plain, "own": own, "admins": admins, "decided": decided}


@pytest.mark.parametrize(
    ("person", "tab", "found"),
    [
        ("lena", "mine", ["plain"]),
        ("lars", "mine", ["plain", "own"]),
        ("root", "mine", ["admins"]),
        ("root", "all", ["plain", "own", "admins"]),
        ("alice", "mine", []),
        ("alice", "team", ["plain", "own", "admins"]),
        ("lena", "decided", ["decided"]),
        ("eve", "team", []),
        ("eve", "decided", []),
    ],
)
def test_inbox_has_pending_requests_of_the_reader_oldest_first(waiting, request, person, tab, found):
    user = request.getfixturevalue(person)
    rows = client(user).get(f"/api/v1/approvals/?tab={tab}").json()["results"]
    assert [row["id"] for row in rows] == [str(waiting[name].pk) for name in found]


def test_own_requests_are_in_the_inbox_with_self_approval(waiting, lena, vision):
    ApprovalRule.objects.create(team=vision, approval="", self_approval=True)
    pending.refresh()
    rows = client(lena).get("/api/v1/approvals/").json()["results"]
    assert {row["id"] for row in rows} == {str(waiting["plain"].pk), str(waiting["own"].pk)}


def test_query_count_is_the_same_for_one_and_many_inbox_rows(
    waiting, lars, alice, vision, django_assert_num_queries
):
    api = client(lars)
    with CaptureQueriesContext(connection) as one:
        api.get("/api/v1/approvals/")
    for _ in range(10):
        make_claim(vision, by=alice)
    with django_assert_num_queries(len(one)):
        api.get("/api/v1/approvals/")


@pytest.mark.parametrize("person", ["lena", "lars", "root", "alice", "eve"])
def test_approvals_badge_is_the_number_of_inbox_rows(waiting, request, person):
    user = request.getfixturevalue(person)
    rows = client(user).get("/api/v1/approvals/").json()["results"]
    assert waiting_for(user).count() == len(rows)
