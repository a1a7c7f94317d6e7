"""These tests send thousands of refused requests: the log of requests says nothing to anybody."""

import logging

import pytest


@pytest.fixture(autouse=True)
def _quiet_requests():
    names = ("django.request", "django_structlog", "django.security")
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)
