"""The length of each queue of Celery in /metrics, of a real Redis."""

import math

import pytest
from celery import Celery

from portal.queues import QueueCollector, lengths, queue_names
from tests.redis_server import running_redis


@pytest.fixture
def redis_at(tmp_path, settings):
    with running_redis(tmp_path) as (path, _process):
        settings.REDIS_URL = f"unix://{path}"
        yield path


def exported():
    (family,) = QueueCollector().collect()
    return {sample.labels["queue"]: sample.value for sample in family.samples}


def test_every_queue_that_a_task_is_sent_to_is_counted():
    assert queue_names() == ["default", "delivery", "sync", "webhooks"]


def test_waiting_tasks_are_counted_by_queue(redis_at):
    app = Celery(broker=f"redis+socket://{redis_at}", set_as_current=False)
    for _ in range(3):
        app.send_task("claims.delivery.tasks.deliver", queue="delivery")
    app.send_task("claims.tasks.expire", queue="default")
    assert exported() == {"default": 1, "delivery": 3, "sync": 0, "webhooks": 0}


def test_a_broker_that_does_not_answer_has_no_length(settings, tmp_path):
    settings.REDIS_URL = f"unix://{tmp_path / 'nothing.sock'}"
    assert all(math.isnan(length) for length in lengths(["default"]).values())
    assert set(exported()) == {"default", "delivery", "sync", "webhooks"}
