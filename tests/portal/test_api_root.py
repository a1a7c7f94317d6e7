"""GET /api/v1/ lists what its reader may use."""

import pytest

from portal.api_root import RESOURCES
from portal.api_urls import urlpatterns
from teams.models import Role
from tests.factories import make_team, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def people():
    everybody = {role: make_user(role) for role in Role.values}
    make_team(
        "vision",
        viewers=(everybody[Role.VIEWER],),
        members=(everybody[Role.MEMBER],),
        leads=(everybody[Role.LEAD],),
        owners=(everybody[Role.OWNER],),
    )
    return everybody | {"outsider": make_user("outsider"), "admin": make_user("admin", is_superuser=True)}


def listed(client, person):
    client.force_login(person)
    return {row["name"]: row for row in client.get("/api/v1/").json()["results"]}


@pytest.mark.parametrize("role", [*Role.values, "outsider", "admin"])
def test_each_listed_resource_may_be_read_and_no_other(client, people, role):
    """422 is of costs, match and past budgets, which need parameters."""
    shown = listed(client, people[role])
    for resource in RESOURCES:
        status = client.get(f"/api/v1/{resource.name}/").status_code
        wanted = {200} if resource.name in shown else {403}
        if resource.name in ("costs", "match", "budgets/past"):
            wanted = {422}
        assert {status} == wanted, resource.name


def test_resources_have_their_address_and_one_sentence(client, people):
    for name, row in listed(client, people["admin"]).items():
        assert row["url"] == f"http://testserver/api/v1/{name}/"
        assert row["description"].endswith(".")
        assert ". " not in row["description"]


def test_every_address_that_can_be_read_without_an_id_is_listed():
    def reads(view):
        actions = getattr(view, "actions", None)
        return "get" in actions if actions is not None else hasattr(view.cls, "get")

    patterns = [
        entry for entry in urlpatterns if "<" not in str(entry.pattern) and "(?P" not in str(entry.pattern)
    ]
    there = {str(entry.pattern).strip("^$/") for entry in patterns if reads(entry.callback)}
    assert there - {""} == {resource.name for resource in RESOURCES} - {"schema"}


def test_strangers_are_told_to_sign_in(client):
    response = client.get("/api/v1/")
    assert (response.status_code, response["Content-Type"]) == (401, "application/problem+json")
