"""These tests send thousands of refused requests: the log of requests says nothing to anybody."""

import logging

import pytest
from django.test import Client

from tests.factories import make_user
from tests.portal.every_address import one_of_everything


@pytest.fixture(autouse=True)
def _quiet_requests():
    names = ("django.request", "django_structlog", "django.security")
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


@pytest.fixture
def known(db):
    """A row for each parameter of an address, by its name."""
    return one_of_everything()


@pytest.fixture
def root(known):
    """A platform admin, whom no page turns away."""
    client = Client(raise_request_exception=False)
    client.force_login(make_user("root"))
    return client
