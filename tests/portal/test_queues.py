"""The length of each queue of Celery in /metrics, of a real Redis."""

import math
import subprocess
import time

import pytest
from celery import Celery

from demo.services import redis_server
from portal.queues import QueueCollector, lengths, queue_names


@pytest.fixture
def redis_at(tmp_path, settings):
    path = tmp_path / "redis.sock"
    process = subprocess.Popen(
        [redis_server()[0], "--port", "0", "--unixsocket", str(path), "--save", ""],
        cwd=tmp_path, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    for _attempt in range(200):
        if path.exists():
            break
        time.sleep(0.05)
    settings.REDIS_URL = f"unix://{path}"
    yield path
    process.kill()
    process.wait()


def exported():
    (family,) = QueueCollector().collect()
    return {sample.labels["queue"]: sample.value for sample in family.samples}


def test_every_queue_that_a_task_is_sent_to_is_counted():
    assert queue_names() == ["default", "delivery", "sync", "webhooks"]


def test_waiting_tasks_are_counted_by_queue(redis_at):
    app = Celery(broker=f"redis+socket://{redis_at}")
    for _ in range(3):
        app.send_task("claims.delivery.tasks.deliver", queue="delivery")
    app.send_task("claims.tasks.expire", queue="default")
    assert exported() == {"default": 1, "delivery": 3, "sync": 0, "webhooks": 0}


def test_a_broker_that_does_not_answer_has_no_length(settings, tmp_path):
    settings.REDIS_URL = f"unix://{tmp_path / 'nothing.sock'}"
    assert all(math.isnan(length) for length in lengths(["default"]).values())
    assert set(exported()) == {"default", "delivery", "sync", "webhooks"}
