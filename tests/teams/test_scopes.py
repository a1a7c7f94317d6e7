"""What a token may do: its scopes and its team, of what its owner may."""

from datetime import timedelta

import pytest
from django.utils import timezone

from core.scopes import Scope
from teams.access import role_in, teams_where
from teams.models import Membership, Role, Team
from teams.tokens import create_token, find_token
from tests.factories import make_team, make_token

TOKENS = "/api/v1/tokens/"


def test_reading_needs_no_other_scope(api, alice, vision):
    _row, text = make_token(alice, scopes=[Scope.READ])
    assert api(token=text).get("/api/v1/teams/").status_code == 200


def test_a_missing_scope_is_403_with_its_name_and_the_challenge_of_rfc_6750(api, alice):
    _row, text = make_token(alice, scopes=[Scope.READ])
    answer = api(token=text).post(TOKENS, {"title": "More"}, format="json")
    assert answer.status_code == 403
    body = answer.json()
    assert (body["code"], body["scope"]) == ("scope_missing", "request")
    assert body["detail"] == "This needs a token with the scope “request”. Create one under API tokens."
    challenge = 'Bearer realm="Dragoman", error="insufficient_scope", scope="request"'
    assert answer.headers["WWW-Authenticate"] == challenge


def test_a_session_is_not_limited_by_scopes(api, alice):
    assert api(alice).post(TOKENS, {"title": "More"}, format="json").status_code == 201


@pytest.mark.parametrize(
    ("scopes", "stored"),
    [((), ["read"]), (("admin", "request"), ["read", "request", "admin"]), (("read",), ["read"])],
)
def test_every_token_may_read_and_scopes_have_their_order(alice, scopes, stored):
    assert create_token(by=alice, title="t", scopes=scopes)[0].scopes == stored


@pytest.mark.parametrize(("scopes", "is_admin"), [(["request", "approve"], False), (["admin"], True)])
def test_a_platform_admin_is_one_only_with_the_scope_admin(api, root, vision, scopes, is_admin):
    _row, text = make_token(root, scopes=scopes)
    person = api(token=text)
    me = person.get("/api/v1/me/").json()
    assert (me["platform_admin"], me["token"]["scopes"][-1]) == (is_admin, scopes[-1])
    assert len(person.get("/api/v1/teams/").json()["results"]) == (1 if is_admin else 0)
    refused = person.get("/api/v1/approval-rules/")
    assert refused.status_code == (200 if is_admin else 403)
    if not is_admin:
        assert refused.json()["code"] == "scope_missing"
    root.refresh_from_db()
    assert root.is_superuser


def test_an_unknown_scope_is_malformed(api, alice):
    answer = api(alice).post(TOKENS, {"title": "t", "scopes": ["everything"]}, format="json")
    assert answer.status_code == 422


# A token of one team.


@pytest.fixture
def speech(alice):
    return make_team("speech", owners=(alice,))


def test_a_token_of_one_team_sees_only_that_team(api, alice, vision, speech):
    _row, text = make_token(alice, team=vision)
    person = api(token=text)
    assert [row["slug"] for row in person.get("/api/v1/teams/").json()["results"]] == ["vision"]
    assert person.get("/api/v1/teams/speech/").status_code == 404
    me = person.get("/api/v1/me/").json()
    assert ([row["team"] for row in me["teams"]], me["token"]["team"]) == (["vision"], "vision")


def test_the_limit_ends_with_the_request(api, alice, vision, speech):
    _row, text = make_token(alice, team=vision)
    api(token=text).get("/api/v1/teams/")
    assert {team.slug for team in Team.objects.visible_to(alice)} == {"vision", "speech"}
    assert len(api(alice).get("/api/v1/teams/").json()["results"]) == 2


def test_access_answers_with_the_role_in_that_team_only(alice, vision, speech):
    _row, text = make_token(alice, team=vision)
    token = find_token(text)
    assert token is not None
    assert role_in(token.user, vision) == Role.MEMBER
    assert role_in(token.user, speech) is None
    assert teams_where(token.user, at_least=Role.VIEWER) == [vision]


def test_a_platform_admin_with_a_token_of_one_team_is_a_member_of_it(api, root, speech):
    vision = make_team("vision", members=(root,))
    _row, text = make_token(root, team=vision)
    me = api(token=text).get("/api/v1/me/").json()
    assert (me["platform_admin"], [row["role"] for row in me["teams"]]) == (False, ["member"])


@pytest.mark.security("scopes", "uses a token of a team after leaving it")
def test_who_leaves_the_team_has_a_token_no_longer(api, alice, vision, speech):
    _row, text = make_token(alice, team=vision)
    Membership.objects.filter(user=alice, team=vision).delete()
    assert api(token=text).get("/api/v1/me/").status_code == 401


def test_a_token_is_limited_to_a_team_of_its_owner(api, alice, root, speech):
    make_team("nlp")
    answer = api(alice).post(TOKENS, {"title": "t", "team": "nlp"}, format="json")
    assert answer.status_code == 404
    answer = api(root).post(TOKENS, {"title": "t", "team": "speech"}, format="json")
    assert (answer.status_code, answer.json()["detail"]) == (422, "root is not a member of speech.")


# A token made with a token.


def made_with(api, text, **body):
    return api(token=text).post(TOKENS, {"title": "child", **body}, format="json")


@pytest.mark.security("scopes", "makes a token that may more than the one that makes it")
def test_a_token_makes_none_with_more_scopes(api, alice):
    _row, text = make_token(alice, scopes=["request"])
    refused = made_with(api, text, scopes=["approve"])
    assert (refused.status_code, refused.json()["code"]) == (403, "scope_missing")
    assert made_with(api, text, scopes=["read"]).json()["scopes"] == ["read"]


def test_a_token_of_one_team_makes_tokens_of_that_team_only(api, alice, vision, speech):
    _row, text = make_token(alice, team=vision)
    assert made_with(api, text).json()["team"] == "vision"
    assert made_with(api, text, team="vision").json()["team"] == "vision"
    assert made_with(api, text, team="speech").status_code == 404
    make_token(alice, "of all teams")
    shown = [row["title"] for row in api(token=text).get(TOKENS).json()["results"]]
    assert "of all teams" not in shown
    assert "child" in shown


@pytest.mark.security("scopes", "makes a token that outlives the one that makes it")
def test_a_token_makes_none_that_lasts_longer(api, alice):
    soon = timezone.now() + timedelta(hours=1)
    row, text = make_token(alice, expires_at=soon)
    later = (soon + timedelta(seconds=1)).isoformat()
    assert made_with(api, text, expires_at=later).status_code == 422
    assert made_with(api, text).json()["expires_at"][:19] == row.expires_at.isoformat()[:19]
