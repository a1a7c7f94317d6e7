"""Who looks at the pages."""

import pytest
from django.test import Client

from teams.models import Team, User
from tests.factories import make_team, make_user


@pytest.fixture
def alice(db) -> User:
    return make_user("alice")


@pytest.fixture
def root(db) -> User:
    return make_user("root", admin=True)


@pytest.fixture
def vision(alice: User) -> Team:
    return make_team("vision", members=(alice,))


@pytest.fixture
def browse():
    def as_(user: User) -> Client:
        client = Client(raise_request_exception=False)
        client.force_login(user)
        return client

    return as_


@pytest.fixture
def look(settings):
    """The pages of look_urls beside those of the portal."""
    settings.ROOT_URLCONF = "tests.core.look_urls"
    folder = settings.BASE_DIR / "tests" / "core" / "templates"
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [*settings.TEMPLATES[0]["DIRS"], folder]}]
