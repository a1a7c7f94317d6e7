"""Providers send several requests at once."""

from functools import partial
from typing import Any

import pytest

from core.errors import Conflict
from teams.identity.models import ExternalGroup
from teams.models import User
from teams.scim import groups, people, tokens
from teams.scim.models import ScimToken, ScimUser
from tests.teams.scim.conftest import PATCH, USER, Provider
from tests.threads import Race, at_once, without_lock

pytestmark = pytest.mark.django_db(transaction=True)


def patch(okta, path, **operation):
    """Return what sends a PATCH with a client of its own."""
    return lambda: Provider(okta.row, okta.text).send(
        "PATCH", path, {"schemas": [PATCH], "Operations": [operation]}
    )


@pytest.mark.parametrize("locked", [True, False])
def test_two_changes_of_a_user_at_once_are_both_kept(okta, monkeypatch, locked):
    path = f"Users/{okta.add_user('mia')['id']}"
    race = Race(monkeypatch)
    race.hold_after(people, "locked")
    if not locked:
        without_lock(monkeypatch, "teams.scim.people.locked")
    race.run(
        patch(okta, path, op="replace", value={"name": {"givenName": "Mia"}}),
        patch(okta, path, op="replace", value={"externalId": "1"}),
    )
    assert race.waited is locked
    row = ScimUser.objects.select_related("user").get()
    assert ((row.user.first_name, row.external_id) == ("Mia", "1")) is locked


@pytest.mark.parametrize("locked", [True, False])
def test_two_members_that_are_added_at_once_are_both_added(okta, monkeypatch, locked):
    mia, noah = (okta.add_user(name)["id"] for name in ("mia", "noah"))
    path = f"Groups/{okta.add_group('gpu')['id']}"
    race = Race(monkeypatch)
    race.hold_after(groups, "members_of")
    if not locked:
        without_lock(monkeypatch, "teams.scim.groups.locked")
    race.run(*(patch(okta, path, op="add", value={"members": [{"value": member}]}) for member in (mia, noah)))
    assert race.waited is locked
    names = set(ExternalGroup.objects.get().members.values_list("username", flat=True))
    assert (names == {"mia", "noah"}) is locked


def test_of_two_that_create_a_user_at_once_one_is_told_so(okta):
    def create() -> Any:
        return Provider(okta.row, okta.text).send("POST", "Users", {"schemas": [USER], "userName": "mia"})

    answers: list[Any] = at_once(*[create] * 4)
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == [201, 409, 409, 409]
    assert User.objects.filter(username="mia").count() == ScimUser.objects.count() == 1


def test_of_two_that_rotate_the_token_at_once_one_is_refused(okta, root, monkeypatch):
    race = Race(monkeypatch)
    race.hold_before(tokens, "digest")  # the first has read the token before
    rotate = partial(tokens.create_scim_token, by=root, provider=okta.row)
    first, second = race.run(rotate, rotate)
    assert isinstance(first, Conflict)
    assert tokens.digest(second[1]) == ScimToken.objects.get().digest
