"""What a load balancer and Prometheus are told."""

from datetime import timedelta
from socket import socket
from time import monotonic

import pytest
from celery import Celery
from django.db import connection
from django.utils import timezone

from inventory.models import Cluster, Freshness
from portal import health

pytestmark = pytest.mark.django_db


@pytest.fixture
def fra():
    cluster = Cluster.objects.create(name="fra-1", credentials=b"")
    for resource in ("resourceslices", "resourceclaims"):
        Freshness.objects.create(
            cluster=cluster, resource=resource, seen_at=timezone.now(), listed_at=timezone.now()
        )
    return cluster


@pytest.fixture
def _broker(monkeypatch):
    """The suite runs tasks where they are queued, so there is no broker to ask."""
    monkeypatch.setattr(health, "broker", lambda: "")


def test_healthz_returns_ok(client):
    assert client.get("/healthz").content == b"ok\n"
    assert client.post("/healthz").status_code == 405


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
@pytest.mark.usefixtures("_broker")
def test_probes_are_answered_under_any_host_name_and_over_plain_http(client, fra, settings, path):
    """A load balancer asks by the address of a pod; every other address redirects to HTTPS."""
    settings.SECURE_SSL_REDIRECT = True
    settings.ALLOWED_HOSTS = ["gpu.example.org"]
    assert client.get(path, headers={"host": "10.0.3.7:8000"}).status_code == 200
    assert client.get("/", headers={"host": "10.0.3.7:8000"}).status_code == 400
    assert client.get("/", headers={"host": "gpu.example.org"}).status_code == 301


@pytest.mark.usefixtures("_broker")
def test_portal_is_ready_with_synced_cluster(client, fra):
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["problems"] == {}
    assert answer.json()["clusters"][0] | {"seen_at": ""} == {"name": "fra-1", "seen_at": "", "stale": False}


@pytest.mark.usefixtures("_broker")
def test_portal_stays_ready_with_one_stale_cluster(client, fra):
    Cluster.objects.create(name="lab-2", credentials=b"")
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert [cluster["stale"] for cluster in answer.json()["clusters"]] == [False, True]


@pytest.mark.usefixtures("_broker")
def test_portal_is_not_ready_if_every_cluster_is_stale(client, fra):
    Freshness.objects.update(seen_at=timezone.now() - timedelta(hours=1))
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["problems"] == {"sync": "The mirror of the only cluster is stale."}


def test_unreachable_broker_makes_portal_unready(client, fra, monkeypatch):
    nobody = Celery("nobody", broker="redis://127.0.0.1:1/0", set_as_current=False)
    monkeypatch.setattr(health, "current_app", nobody)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["problems"]["broker"] == "The message broker does not respond."


@pytest.mark.usefixtures("_broker")
@pytest.mark.parametrize("backlog", [None, 5], ids=["nobody listens", "stopped, and its kernel accepts"])
def test_database_that_does_not_answer_makes_portal_unready(client, monkeypatch, socket_enabled, backlog):
    with socket() as server:
        server.bind(("127.0.0.1", 0))
        if backlog:
            server.listen(backlog)
        away = {"host": "127.0.0.1", "port": server.getsockname()[1]}
        options = connection.get_connection_params() | away
        monkeypatch.setattr(connection, "get_connection_params", lambda: options)
        began = monotonic()
        answer = client.get("/readyz")
    assert monotonic() - began < 5
    assert answer.status_code == 503
    assert answer.json()["problems"]["database"] == "The database does not respond."


def test_metrics_have_age_of_every_resource(client, fra):
    text = client.get("/metrics").content.decode()
    assert 'dragoman_sync_age_seconds{cluster="fra-1",resource="resourceclaims"}' in text
    assert 'dragoman_cluster_halted{cluster="fra-1"} 0.0' in text
    assert client.get("/metrics").headers["Content-Type"].startswith("text/plain")
