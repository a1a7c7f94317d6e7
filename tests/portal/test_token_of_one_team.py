"""A token of one team names nothing of its owner's other teams, whatever it reads."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from claims.approvals import services as approvals
from claims.approvals.services import delegate
from claims.models import Comment
from claims.states import ClaimState
from notify.models import Notice
from portal.api_root import RESOURCES
from teams.models import Team, User, record_change
from tests.factories import (
    make_alert,
    make_budget,
    make_claim,
    make_cluster,
    make_extension,
    make_profile,
    make_quota,
    make_quota_request,
    make_team,
    make_token,
    make_user,
)
from usage.models import IdlePeriod

HIDDEN = "hidden-team"
DAY = timedelta(days=1)
QUERIES = {
    "match": {"team": "vision", "cluster": "fra-1", "profile": "train-80"},
    "costs": {"team": "vision"},
    "budgets/past": {"month": f"{timezone.now().replace(day=1) - timedelta(days=1):%Y-%m}"},
}


@pytest.fixture
def alice(db) -> User:
    return make_user("alice")


@pytest.fixture
def world(alice):
    """Everything in two teams that alice leads; return the ids of what is the hidden one's, by resource."""
    teams = [make_team(slug, leads=(alice,), members=(make_user("mia"),)) for slug in ("vision", HIDDEN)]
    cluster = make_cluster("fra-1", teams=tuple(teams))
    train = make_profile("train-80")
    make_profile("of-the-hidden-team", teams=(teams[1],))
    ids = {}
    for team in teams:
        ids = fill(team, alice, cluster, train)
    return ids


def fill(team: Team, alice: User, cluster, train) -> dict[str, str]:
    mia, now = make_user("mia"), timezone.now()
    asked = make_claim(team, by=mia, cluster=cluster, profile=train, name=f"asked-{team}")
    held = make_claim(
        team, by=alice, cluster=cluster, profile=train, state=ClaimState.ALLOCATED, name=f"held-{team}"
    )
    extension = make_extension(held)
    quota = make_quota(team, 8)
    wanted = make_quota_request(team, by=mia)
    budget = make_budget(team, Decimal(100))
    before = now - 90 * DAY  # so it was there last month
    budget.terms.create(since=before, first=before.date(), amount=100, at_limit=budget.at_limit)
    delegation = delegate(by=alice, team=team, to=mia, starts_at=now + DAY, ends_at=now + 2 * DAY)
    approvals.save_reason(by=alice, reason=None, title=f"Reason of {team}", text="No.", team=team)
    alert = make_alert(team, claim=held, cluster=cluster)
    Notice.objects.create(user=alice, team=team, key=f"n-{team}", title=f"Notice of {team}")
    Comment.objects.create(claim=asked, by=mia, key=f"k-{team}", text=f"Comment in {team}")
    IdlePeriod.objects.create(claim=held, team=team, since=now - DAY, noticed_at=now - DAY, devices=1)
    record_change(by=alice, of=team, change="title changed")
    make_token(alice, f"Token of {team}", team=team)
    rows = {
        "claims": held, "quotas": quota, "quotas/requests": wanted, "extensions": extension,
        "budgets": budget, "alerts": alert, "delegations": delegation,
    }  # fmt: skip
    return {"teams": team.slug, **{name: str(row.pk) for name, row in rows.items()}}


def client_with(text: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    return client


def lists(client: APIClient) -> dict[str, str]:
    """Return the text of every list that the token may read, by name."""
    answers = {
        one.name: client.get(f"/api/v1/{one.name}/", QUERIES.get(one.name, {}))
        for one in RESOURCES
        if one.name not in ("schema", "match") and not one.for_admins
    }
    assert {name: one.status_code for name, one in answers.items() if one.status_code != 200} == {}
    return {name: one.content.decode() for name, one in answers.items()}


@pytest.mark.security("scopes", "a token of one team in every list of the API")
def test_what_is_hidden_is_in_no_list_and_was_there_to_be_seen(world, alice):
    _row, limited = make_token(alice, "limited", team=Team.objects.get(slug="vision"))
    _row, whole = make_token(alice, "whole")
    hidden = {HIDDEN, *world.values()}

    def naming(text: str) -> set[str]:
        client = client_with(text)
        return {name for name, body in lists(client).items() if any(one in body for one in hidden)}

    seen = naming(whole)
    assert naming(limited) == set()
    assert seen >= {
        *("me", "teams", "tokens", "notices", "profiles", "claims", "extensions", "approvals", "activity"),
        *("approval-reasons", "delegations", "quotas", "quotas/requests", "budgets", "budgets/past"),
        *("alerts", "waste/idle"),
    }


@pytest.mark.security("scopes", "a token of one team with the ids of another team of its person")
@pytest.mark.parametrize(
    "resource",
    ["claims", "quotas", "quotas/requests", "extensions", "budgets", "alerts", "delegations", "teams"],
)
def test_an_object_of_the_hidden_team_is_404(world, alice, resource):
    _row, limited = make_token(alice, team=Team.objects.get(slug="vision"))
    _row, whole = make_token(alice, "whole")
    path = f"/api/v1/{resource}/{world[resource]}/"
    assert client_with(limited).get(path).status_code in (404, 405)
    if resource != "delegations":
        assert client_with(whole).get(path).status_code == 200
    else:
        assert client_with(limited).delete(path).status_code == 404


@pytest.mark.security("scopes", "a token of one team that writes in another team of its person")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("claims/", {"team": HIDDEN, "cluster": "fra-1", "profile": "train-80"}),
        ("match/", {"team": HIDDEN, "cluster": "fra-1", "profile": "train-80"}),
        ("claims/{claims}/release/", {}),
        ("claims/{claims}/comments/", {"text": "Why?"}),
        ("extensions/{extensions}/approve/", {}),
        ("quotas/requests/", {"team": HIDDEN, "device_class": "gpu.nvidia.com", "devices": 9, "reason": "x"}),
    ],
)
def test_nothing_is_written_in_the_hidden_team(world, alice, path, body):
    _row, limited = make_token(alice, team=Team.objects.get(slug="vision"))
    answer = client_with(limited).post(f"/api/v1/{path.format(**world)}", body, format="json")
    assert answer.status_code == 404


@pytest.mark.security("scopes", "a token of one team with an Idempotency-Key that its person has used")
def test_an_answer_about_the_hidden_team_is_not_given_again(world, alice):
    _row, whole = make_token(alice, "whole")
    _row, limited = make_token(alice, team=Team.objects.get(slug="vision"))
    path, headers = f"/api/v1/claims/{world['claims']}/release/", {"Idempotency-Key": "run-17"}
    assert client_with(whole).post(path, {}, format="json", headers=headers).status_code == 200
    answer = client_with(limited).post(path, {}, format="json", headers=headers)
    assert answer.status_code == 422
    assert HIDDEN not in answer.content.decode()
    assert client_with(whole).post(path, {}, format="json", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "path", ["costs/?team={teams}", "match/?team={teams}&cluster=fra-1&profile=train-80"]
)
def test_figures_of_the_hidden_team_are_404(world, alice, path):
    _row, limited = make_token(alice, team=Team.objects.get(slug="vision"))
    assert client_with(limited).get(f"/api/v1/{path.format(**world)}").status_code == 404


def test_decisions_on_the_hidden_team_are_refused_one_by_one(world, alice):
    _row, limited = make_token(alice, team=Team.objects.get(slug="vision"))
    body = {"decision": "approve", "requests": [{"kind": "extension", "id": world["extensions"]}]}
    answer = client_with(limited).post("/api/v1/approvals/decide/", body, format="json")
    assert answer.status_code in (200, 404)
    assert HIDDEN not in answer.content.decode()
