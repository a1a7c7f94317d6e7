"""The cache while Redis works, hangs, and is gone; against a real server."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from celery import Celery
from django.core.cache import caches
from redis.client import Pipeline

from core.cache import RedisCache
from portal import health
from tests.demo.running import ROOT
from tests.redis_server import running_redis


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setattr(RedisCache, "unavailable_until", 0.0)
    with running_redis(tmp_path) as (path, process):
        process.path = path
        yield process


@pytest.fixture
def cache(server, settings):
    settings.CACHES = {
        "default": {
            "BACKEND": "core.cache.RedisCache",
            "LOCATION": f"unix://{server.path}",
            "OPTIONS": {"socket_timeout": 0.2},
        }
    }
    return caches["default"]


def answers(cache):
    """Return what every operation answers."""
    return {
        "add": cache.add("new", 1),
        "add again": cache.add("new", 1),
        "get": cache.get("here", "default"),
        "touch": cache.touch("here"),
        "delete": cache.delete("here"),
        "get_many": cache.get_many(["new"]),
        "has_key": cache.has_key("new"),
        "incr": cache.incr("new", 2),
        "set_many": cache.set_many({"a": 1, "b": 2}),
        "delete_many": cache.delete_many(["a"]),
        "set": cache.set("here", "value"),
    }


WORKING = {
    "add": True, "add again": False, "get": "value", "touch": True, "delete": True, "get_many": {"new": 1},
    "has_key": True, "incr": 3, "set_many": [], "delete_many": None, "set": None,
}  # fmt: skip
AWAY = {
    "add": True, "add again": True, "get": "default", "touch": False, "delete": False, "get_many": {},
    "has_key": False, "incr": 2, "set_many": ["a", "b"], "delete_many": None, "set": None,
}  # fmt: skip


def test_cache_answers_as_an_empty_one_while_redis_is_gone(cache, server):
    cache.set("here", "value")
    assert answers(cache) == WORKING
    server.kill()
    server.wait()
    assert answers(cache) == AWAY


def test_only_one_operation_waits_for_redis_that_hangs(cache, server, monkeypatch):
    cache.set("here", "value")
    asked = []
    monkeypatch.setattr(
        "django.core.cache.backends.redis.RedisCacheClient.get",
        lambda self, key, default: asked.append(key) or self.get_client(key).get(key) or default,
    )
    os.kill(server.pid, signal.SIGSTOP)
    assert [cache.get(str(number)) for number in range(3)] == [None, None, None]
    assert len(asked) == 1
    os.kill(server.pid, signal.SIGCONT)
    monkeypatch.setattr(RedisCache, "unavailable_until", time.monotonic() - 1)
    cache.get("3")
    assert len(asked) == 2


def test_portal_that_waits_for_a_hanging_broker_is_unready_and_says_so(server, monkeypatch):
    monkeypatch.setattr(
        health, "current_app", Celery(broker=f"redis+socket://{server.path}", set_as_current=False)
    )
    monkeypatch.setattr(health, "BROKER_TIMEOUT", 0.2)
    assert health.broker() == ""
    os.kill(server.pid, signal.SIGSTOP)
    assert health.broker() == "The message broker does not respond."


def test_several_counts_are_one_round_trip_and_end_by_themselves(cache, monkeypatch):
    rounds = []
    execute = Pipeline.execute

    def counted(self, *args, **kwargs):
        rounds.append(len(self.command_stack))
        return execute(self, *args, **kwargs)

    monkeypatch.setattr(Pipeline, "execute", counted)
    assert [cache.increment({"a": 100, "b": 50}) for _ in range(2)] == [[1, 1], [2, 2]]
    assert rounds == [4, 4]
    client = cache._cache.get_client()
    assert [client.ttl(cache.make_key(key)) for key in ("a", "b")] == [100, 50]


def test_counts_begin_anew_while_redis_is_gone(cache, server):
    cache.increment({"a": 100})
    server.kill()
    server.wait()
    assert [cache.increment({"a": 100, "b": 100}) for _ in range(2)] == [[1, 1], [1, 1]]


QUEUE_AND_COUNT = """
import time, portal.wsgi
from django.core.cache import cache
from claims.delivery.tasks import deliver
from core.transactions import queue
began = time.monotonic()
for number in range(20):
    queue(deliver, str(number))
    cache.incr("count")
print(time.monotonic() - began)
"""


def test_web_process_is_fast_while_redis_accepts_and_never_answers():
    """As the process is deployed: 20 requests that queue a task and count wait a few seconds, together."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "portal.settings",
            "REDIS_URL": f"redis://127.0.0.1:{server.getsockname()[1]}/0",
            "SECRET_KEY": "only-for-this-test-0123456789-abcdefghijklmnopqrstuvwxyz",
            "DATABASE_URL": "postgres://nobody@127.0.0.1:1/none",
        }
        program = [sys.executable, "-c", QUEUE_AND_COUNT]
        done = subprocess.run(program, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.splitlines()[-1]) < 30  # 20 × 2 s if each waited
