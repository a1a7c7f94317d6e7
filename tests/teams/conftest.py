"""The people of team vision, an outsider, a platform admin, and what they look through."""

from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from rest_framework.test import APIClient

from teams.models import Team, User
from tests.factories import make_team, make_user, sign_in_just_now


@pytest.fixture(autouse=True)
def _no_counts_of_others():
    """Rate limits count in the cache."""
    cache.clear()


@pytest.fixture
def olga(db) -> User:
    return make_user("olga")


@pytest.fixture
def alice(db) -> User:
    return make_user("alice", first_name="Alice", last_name="Ames")


@pytest.fixture
def bob(db) -> User:
    return make_user("bob")


@pytest.fixture
def eve(db) -> User:
    return make_user("eve")


@pytest.fixture
def root(db) -> User:
    return make_user("root", admin=True)


@pytest.fixture
def vision(olga: User, alice: User, bob: User) -> Team:
    return make_team("vision", owners=(olga,), members=(alice,), viewers=(bob,))


@pytest.fixture
def browse():
    def as_(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return as_


def confirm(client: Client, password: str) -> Any:
    """Answer the question for the password that a change asked; return what follows."""
    return client.post("/accounts/reauthenticate/", {"password": password, "next": "/me/"})


def confirmed(client: Client, password: str) -> Client:
    """Return a browser whose person has entered the password just now."""
    assert confirm(client, password).status_code == 302
    return client


@pytest.fixture
def api():
    """An API client with the session of a person who has just signed in, or with a bearer token."""

    def as_(user: User | None = None, token: str = "") -> APIClient:
        client = APIClient(enforce_csrf_checks=False)
        if user:
            sign_in_just_now(client, user)
        if token:
            client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
        return client

    return as_
