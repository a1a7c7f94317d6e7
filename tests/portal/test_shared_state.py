"""The guard of what tests share names what a module left behind, and puts back what it can."""

import os

import pytest
import structlog
from celery import Celery, current_app
from django.core.signals import request_finished
from django.utils import timezone

from portal.celery import app
from tests.shared_state import left_as_found


def listen(**_):
    """Listen."""


def another_app():
    Celery("another")


LEFT = {
    "the current Celery app": another_app,
    "the environment": lambda: os.environ.update(HTTP_PROXY="http://127.0.0.1:1"),
    "the working directory": lambda: os.chdir("/"),
    "the receivers of signals": lambda: request_finished.connect(listen),
    "the time zone": lambda: timezone.activate("Asia/Tokyo"),
    "the context of the log": lambda: structlog.contextvars.bind_contextvars(request_id="x"),
}


@pytest.mark.parametrize("what", LEFT)
def test_state_left_to_later_tests_is_named_and_put_back(what):
    try:
        with pytest.raises(AssertionError, match=f"come after this module:\n{what}"), left_as_found():
            LEFT[what]()
    finally:
        request_finished.disconnect(listen)
    assert current_app._get_current_object() is app
    with left_as_found():
        request_finished.connect(listen)
        request_finished.disconnect(listen)
