"""Every list of the API has the same form, and following `next` gives each row exactly once."""

from datetime import timedelta

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from claims.inbox.comments import comment_on_claim
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
