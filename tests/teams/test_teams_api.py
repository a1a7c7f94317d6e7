import uuid
from datetime import timedelta

from django.utils import timezone

from teams.models import ApiToken, Membership
from tests.factories import make_team, make_token, make_user


def test_me_lists_the_user_and_roles(api, vision, alice):
    me = api(alice).get("/api/v1/me/").json()
    assert me == {
        "id": str(alice.pk),
        "username": "alice",
        "name": "Alice Ames",
        "email": "",
        "platform_admin": False,
        "service_account": False,
        "timezone": "",
        "teams": [{"team": "vision", "title": "Vision", "role": "member"}],
        "token": None,
    }


def test_me_query_count_is_constant(api, vision, alice, django_assert_max_num_queries):
    client = api(alice)
    with django_assert_max_num_queries(10) as one:
        client.get("/api/v1/me/")
    for number in range(20):
        Membership.objects.create(user=alice, team=make_team(f"team-{number}"))
    with django_assert_max_num_queries(len(one)):
        assert len(client.get("/api/v1/me/").json()["teams"]) == 21


def test_team_list_has_role_and_headcount(api, vision, bob):
    make_team("nlp")
    listed = api(bob).get("/api/v1/teams/").json()["results"]
    assert [(team["slug"], team["role"], team["members"]) for team in listed] == [("vision", "viewer", 3)]


def test_outsider_sees_no_team(api, vision, eve):
    assert api(eve).get("/api/v1/teams/").json()["results"] == []
    answer = api(eve).get("/api/v1/teams/vision")
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


def test_platform_admin_sees_all_teams(api, vision, root):
    team = api(root).get("/api/v1/teams/vision").json()
    assert team["role"] is None
    assert {person["username"]: person["role"] for person in team["people"]} == {
        "olga": "owner",
        "alice": "member",
        "bob": "viewer",
    }


def test_only_platform_admins_write_teams_and_nobody_deletes_them(api, vision, olga):
    assert api(olga).post("/api/v1/teams/", {"slug": "x", "title": "X"}, format="json").status_code == 403


def test_team_pages_do_not_overlap(api, root):
    for number in range(5):
        make_team(f"team-{number}")
    client = api(root)
    first = client.get("/api/v1/teams/", {"limit": 3}).json()
    second = client.get(first["next"]).json()
    assert [team["slug"] for team in first["results"] + second["results"]] == [f"team-{n}" for n in range(5)]
    assert second["next"] is None


def test_team_list_query_count_is_constant(api, vision, alice, django_assert_max_num_queries):
    client = api(alice)
    with django_assert_max_num_queries(10) as one:
        client.get("/api/v1/teams/")
    for number in range(20):
        Membership.objects.create(user=alice, team=make_team(f"team-{number}"))
        Membership.objects.create(user=make_user(f"person-{number}"), team=vision)
    with django_assert_max_num_queries(len(one)):
        assert len(client.get("/api/v1/teams/").json()["results"]) == 21


def test_api_token_is_returned_once_and_works(api, alice):
    made = api(alice).post("/api/v1/tokens/", {"title": "Pipeline"}, format="json")
    assert made.status_code == 201
    token = made.json()["token"]
    listed = api(token=token).get("/api/v1/tokens/").json()["results"]
    assert [row["title"] for row in listed] == ["Pipeline"]
    assert "token" not in listed[0]


def test_invalid_token_request_names_the_fields(api, alice):
    answer = api(alice).post("/api/v1/tokens/", {"expires_at": "tomorrow"}, format="json")
    assert answer.status_code == 422
    problem = answer.json()
    assert {error["field"] for error in problem["errors"]} == {"title", "expires_at"}
    past = api(alice).post(
        "/api/v1/tokens/", {"title": "x", "expires_at": timezone.now() - timedelta(days=1)}, format="json"
    )
    assert (past.status_code, past.json()["field"]) == (422, "expires_at")


def test_token_of_a_request_bounds_the_tokens_that_it_creates(api, alice):
    maker, text = make_token(alice, expires_at=timezone.now() + timedelta(minutes=1))
    client, path = api(token=text), "/api/v1/tokens/"
    child = client.post(path, {"title": "child"}, format="json").json()
    assert ApiToken.objects.get(pk=child["id"]).expires_at == maker.expires_at
    for expires_at, status in ((None, 422), (timezone.now() + timedelta(hours=1), 422)):
        refused = client.post(path, {"title": "x", "expires_at": expires_at}, format="json")
        assert refused.status_code == status
    assert api(alice).delete(f"{path}{maker.pk}/").status_code == 204
    assert api(token=child["token"]).get("/api/v1/me/").status_code == 401


def test_only_the_owner_revokes_a_token(api, alice, root):
    row, text = make_token(alice, "Pipeline")
    assert api(root).delete(f"/api/v1/tokens/{row.pk}").status_code == 404
    assert api(alice).delete(f"/api/v1/tokens/{uuid.uuid4()}").status_code == 404
    assert api(token=text).delete(f"/api/v1/tokens/{row.pk}").status_code == 204
    assert api(token=text).get("/api/v1/me/").status_code == 401
    assert ApiToken.objects.get().revoked_at is not None


def test_anonymous_client_gets_401(api, vision):
    for path in ("/api/v1/me/", "/api/v1/teams/", "/api/v1/teams/vision", "/api/v1/tokens/"):
        assert api().get(path).status_code == 401


def test_token_list_query_count_is_constant(api, alice, django_assert_max_num_queries):
    client = api(alice)
    make_token(alice, "First")
    with django_assert_max_num_queries(10) as one:
        client.get("/api/v1/tokens/")
    for number in range(20):
        make_token(alice, f"Token {number}")
    with django_assert_max_num_queries(len(one)):
        assert len(client.get("/api/v1/tokens/").json()["results"]) == 21
