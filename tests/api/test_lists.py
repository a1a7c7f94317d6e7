"""Every list of the API has the same form, and following `next` gives each row exactly once."""

from datetime import timedelta

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from claims.inbox.comments import comment_on_claim
from claims.models import Claim
from claims.states import ClaimState
from core.saved_filters import save_filter
from portal.openapi import description
from teams import service_accounts
from teams.audit.chain import seal
from tests.factories import (
    make_claim,
    make_cluster,
    make_profile,
    make_quota,
    make_team,
    make_token,
    make_user,
)

pytestmark = pytest.mark.django_db
MOST = 500
NAMES = ("id", "uid", "number", "claim", "kind", "username", "slug", "cluster", "name", "title")


@pytest.fixture(scope="module")
def described():
    return description()


def lists(described):
    """Yield the address and the operation of every list, with the schema of its answer."""
    for path, item in described["paths"].items():
        answer = item.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        schema = answer.get("application/json", {}).get("schema", {})
        schema = described["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], schema)
        if schema.get("type") == "array" or "results" in schema.get("properties", {}):
            yield path, item["get"], schema


def test_every_list_has_the_same_form(described):
    other = {}
    for path, operation, schema in lists(described):
        query = {one["name"]: one["schema"] for one in operation["parameters"] if one["in"] == "query"}
        form = (list(schema.get("properties", ())), query.get("limit", {}).get("maximum"), "cursor" in query)
        if form != (["next", "results"], MOST, True):
            other[path] = form
    assert other == {}


@pytest.fixture
def places():
    """Make some rows for many lists; return what stands in the place of each parameter."""
    root, lena = make_user("root", admin=True), make_user("lena")
    team = make_team("vision", members=(root, lena))
    cluster = make_cluster("fra-1")
    make_cluster("lab-2")
    profile = make_profile("train-80")
    make_profile("small")
    claims = [make_claim(team, by=lena, cluster=cluster, profile=profile) for _number in range(5)]
    make_quota(team)
    for number in range(3):
        make_token(root, f"Token {number}")
        comment_on_claim(claim=claims[0], by=lena, key=str(number), text=f"Line {number}")
        service_accounts.create_service_account(by=root, team=team, name=f"ci-{number}")
        save_filter(
            by=root, path="/claims/", title="Claims", name=f"{number}", query=f"q={number}", is_default=False
        )
    seal()
    return {"claim_id": claims[0].pk, "id": claims[0].pk, "slug": "vision", "name": "ci-1"}


def named(row):
    """Return what names a row, whose figures may change by themselves."""
    return next((row[name] for name in NAMES if name in row), str(row))


def test_following_next_reads_every_row_exactly_once(described, places):
    api = APIClient()
    api.force_login(make_user("root", admin=True))
    wrong: dict[object, object] = {}
    walked = set()
    found: list[object]
    for path, _operation, _schema in lists(described):
        required = {"budgets/past/": f"month={timezone.now() - timedelta(days=31):%Y-%m}&"}
        query = next((text for end, text in required.items() if path.endswith(end)), "")
        of = places | ({"slug": "train-80"} if "/profiles/" in path else {})
        address = "/".join(
            str(of.get(part[1:-1], of["id"])) if "{" in part else part for part in path.split("/")
        )
        whole = api.get(f"{address}?{query}limit={MOST}")
        if whole.status_code == 404:
            continue
        rows, found, onward = whole.json()["results"], [], f"{address}?{query}limit=1"
        while onward is not None and len(found) <= len(rows):
            answer = api.get(onward).json()
            found, onward = found + answer["results"], answer["next"]
        if [named(row) for row in found] != [named(row) for row in rows]:
            wrong[path] = (len(rows), len(found))
        if len(rows) > 1:
            walked.add(path)
        refused = api.get(f"{address}?{query}limit={MOST + 1}")
        if refused.status_code != 422 or f"at most {MOST}" not in refused.json()["detail"]:
            wrong[path, "limit"] = refused.content
    assert wrong == {}
    assert len(walked) > 14, walked


NAMES_OF_OBJECTS = {"team", "cluster", "state", "who", "profile", "condition", "origin", "tab"}
OF_WORDS = {("/api/v1/activity/", "who"), ("/api/v1/audit/", "who")}  # of a name: nobody may have them


@pytest.mark.security(
    "access", "unknown values of every filter: the names that are listed are those that the reader sees"
)
def test_an_unknown_value_of_a_filter_is_refused_with_those_that_exist(described, places):
    make_team("secret")
    api, wrong, asked = APIClient(), {}, 0
    for who in ("root", "lena"):
        api.force_login(make_user(who))
        for path, operation, _schema in lists(described):
            names = {one["name"] for one in operation["parameters"] if one["in"] == "query"}
            for name in () if "{" in path else sorted(names & NAMES_OF_OBJECTS):
                if (path, name) in OF_WORDS:
                    continue
                answer = api.get(f"{path}?{name}=no-such")
                text, asked = str(answer.json()), asked + 1
                if who == "lena" and answer.status_code == 403:
                    continue
                if (
                    answer.status_code != 422
                    or (who == "lena" and "secret" in text)
                    or (name == "team" and "vision" not in text)
                ):
                    wrong[who, path, name] = text[:300]
    assert wrong == {}
    assert asked > 20


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=other", ["other"]),
        ("q=lena", ["claim-0", "claim-1"]),
        ("who=omar", ["other"]),
        ("who=me", ["claim-0", "claim-1"]),
        ("state=live", ["claim-0", "claim-1"]),
        ("state=over&state=requested", ["claim-0", "claim-1", "other"]),
        ("name=claim-1", ["claim-1"]),
        ("since=2026-11-02T00:00:00Z", ["claim-0", "claim-1"]),
        ("until=2026-11-02T00:00:00Z", ["other"]),
    ],
)
def test_claims_are_found_as_on_the_page(query, found):
    lena, omar = make_user("lena"), make_user("omar")
    team = make_team("vision", members=(lena, omar))
    for number in range(2):
        make_claim(team, by=lena, name=f"claim-{number}")
    old = make_claim(team, by=omar, name="other", state=ClaimState.RELEASED)
    Claim.objects.filter(pk=old.pk).update(created_at="2026-11-01T00:00:00Z")
    api = APIClient()
    api.force_login(lena)
    rows = api.get(f"/api/v1/claims/?{query}").json()["results"]
    assert sorted(row["name"] for row in rows) == found


def test_an_empty_time_is_refused():
    api = APIClient()
    api.force_login(make_user("lena"))
    for name in ("since", "until"):
        assert api.get(f"/api/v1/claims/?{name}=").json()["field"] == name


def test_what_a_post_creates_is_found_at_its_location(places):
    api = APIClient()
    _row, token = make_token(make_user("root"))
    api.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    bodies = {
        "tokens/": {"title": "T", "scopes": ["read"]},
        "teams/": {"slug": "new", "title": "New"},
        "teams/vision/members/": {"username": make_user("newcomer").username, "role": "member"},
        "teams/vision/service-accounts/": {"name": "bot"},
        "teams/vision/service-accounts/ci-1/tokens/": {"title": "T"},
        "approval-reasons/": {"title": "Later", "text": "Later.", "team": "vision"},
        "me/filters/": {"list": "/claims/", "name": "New", "query": "q=new"},
        f"claims/{places['id']}/comments/": {"text": "Fine."},
    }
    for path, body in bodies.items():
        made = api.post(f"/api/v1/{path}", body, format="json")
        assert made.status_code == 201, (path, made.content)
        found = api.get(made.headers["Location"])
        key = named(made.json())
        assert key in (named(found.json()), *map(named, found.json().get("results", ()))), path


def test_every_object_that_is_written_can_be_read_and_takes_if_match(described):
    """Each PUT, PATCH and DELETE of an object, or of a part of one that can be read."""
    without = {
        f"{method} {path}"
        for path, item in described["paths"].items()
        for method in ("put", "patch", "delete")
        if method in item and "If-Match" not in {one["name"] for one in item[method]["parameters"]}
    }
    assert without == set()
