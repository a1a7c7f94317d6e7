"""How many tasks wait in each queue of Celery, for Prometheus; read from Redis when it scrapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import nan

from django.conf import settings
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from redis import Redis
from redis.exceptions import RedisError

TIMEOUT = 1.0  # seconds, for a connection and for an answer


def queue_names() -> list[str]:
    routed = {route["queue"] for route in settings.CELERY_TASK_ROUTES.values()}
    return sorted({settings.CELERY_TASK_DEFAULT_QUEUE, *routed})


def lengths(queues: Iterable[str]) -> dict[str, float]:
    """
    Return how many messages wait in each queue, not a number while Redis does not answer. A queue is a list
    in Redis (https://docs.celeryq.dev/en/stable/userguide/monitoring.html#redis); an empty one is gone.
    """
    names = list(queues)
    try:
        with (
            Redis.from_url(
                settings.REDIS_URL, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT
            ) as redis,
            redis.pipeline(transaction=False) as pipeline,
        ):
            for name in names:
                pipeline.llen(name)
            return dict(zip(names, map(float, pipeline.execute()), strict=True))
    except (RedisError, OSError):
        return dict.fromkeys(names, nan)


class QueueCollector(Collector):
    """The length of every queue, 0 as well: an alert cannot use a series that comes and goes."""

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering a collector must not ask Redis."""
        return ()

    def collect(self) -> Iterator[Metric]:
        waiting = GaugeMetricFamily(
            "dragoman_task_queue_messages",
            "Tasks that wait for a worker, by queue; NaN while the broker does not answer.",
            labels=("queue",),
        )
        for queue, length in lengths(queue_names()).items():
            waiting.add_metric([queue], length)
        yield waiting
