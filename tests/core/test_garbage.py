"""Web processes and workers exempt what they have imported; only web processes collect the rest rarely."""

import gc
from types import SimpleNamespace
from unittest import mock

import pytest
from celery.signals import worker_ready

import portal.celery  # noqa: F401, what it does when a worker starts
from core.garbage import THRESHOLDS, exempt_permanent_objects
from portal.serving import when_ready


@pytest.fixture
def _restored():
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.mark.usefixtures("_restored")
def test_what_is_there_for_good_is_not_visited():
    permanent: list[object] = [[]]
    exempt_permanent_objects()
    assert not any(item is permanent for item in gc.get_objects())


@pytest.mark.usefixtures("_restored")
def test_a_web_process_collects_garbage_rarely():
    when_ready(SimpleNamespace(LISTENERS=[]))
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == THRESHOLDS


@pytest.mark.usefixtures("_restored")
def test_a_worker_that_starts_exempts_what_it_has_imported():
    before = gc.get_threshold()
    consumer = mock.Mock()
    consumer.app.amqp.queues.consume_from = {"default": None}
    worker_ready.send(sender=consumer)
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
