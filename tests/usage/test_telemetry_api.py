"""Telemetry settings by the API: as on the page, without ever returning a secret."""

import json

import pytest

from inventory.models import Cluster, TelemetryAccess
from inventory.telemetry_access import TelemetrySecret, change_telemetry, open_secret
from tests.usage.test_sources import SHARED

URL = "/api/v1/clusters/fra-1/telemetry/"
TEST = f"{URL}test/"
AT = "http://prometheus.example.org:9090"
TOKEN = "t0p-secret"


@pytest.fixture
def as_admin(client, root, fra):
    client.force_login(root)
    return client


def patch(client, **body):
    return client.patch(URL, body, "application/json")


def test_settings_are_read_and_changed_in_part(as_admin, fra):
    first = as_admin.get(URL).json()
    assert (first["prometheus_url"], first["kind"], first["timeout_seconds"]) == ("", "", 10)
    changed = patch(as_admin, prometheus_url=AT, tenant="gpu", secret={"token": TOKEN})
    assert changed.status_code == 200
    assert TOKEN not in changed.text
    assert (changed.json()["kind"], changed.json()["server"]) == ("token", AT)
    later = patch(as_admin, timeout_seconds=20).json()
    assert (later["tenant"], later["timeout_seconds"], later["kind"]) == ("gpu", 20, "token")
    cluster = Cluster.objects.get()
    access = TelemetryAccess.objects.get()
    assert open_secret(cluster, access) == TelemetrySecret(token=TOKEN)
    assert patch(as_admin, secret=None).json()["kind"] == ""
    assert as_admin.get(URL).json() == later | {"kind": "", "server": ""}


@pytest.mark.security("secrets", "sends the secret of a Prometheus to another server")
def test_secret_is_not_sent_to_another_server(as_admin):
    change_telemetry(name="fra-1", addresses={"prometheus_url": AT}, secret=TelemetrySecret(token=TOKEN))
    refused = patch(as_admin, prometheus_url="http://elsewhere.example.org")
    assert refused.status_code == 422
    assert TOKEN not in refused.text
    assert Cluster.objects.get().prometheus_url == AT
    tested = as_admin.post(TEST, {"prometheus_url": "http://elsewhere.example.org"}, "application/json")
    assert tested.status_code == 422


@pytest.mark.parametrize(
    "body",
    [
        {"prometheus_url": "ftp://x"},
        {"prometheus_url": "http://user:pw@x"},
        {"authority": "no PEM"},
        {"tenant": "two words"},
        {"matchers": "no matcher"},
        {"timeout_seconds": 0},
        {"prometheus_url": AT, "secret": {"token": TOKEN, "user": "x"}},
        {"prometheus_url": AT, "secret": {"password": "x"}},
        {"secret": {"token": TOKEN}},
    ],
)
def test_what_cannot_be_a_source_is_refused(as_admin, body):
    refused = patch(as_admin, **body)
    assert refused.status_code == 422
    assert TOKEN not in refused.text
    assert not TelemetryAccess.objects.exists()


def test_source_is_tested_as_sent_and_nothing_is_saved(as_admin, serve):
    address = f"{serve(lambda path, body: (200, SHARED))}/metrics"
    found = as_admin.post(TEST, {"metrics_url": address}, "application/json").json()
    assert (found["problem"], found["held"]) == ("", 0)
    assert found["questions"][0]["series"] > 0
    assert {"verdict", "subject", "detail", "remedy"} == set(found["findings"][0])
    assert Cluster.objects.get().metrics_url == ""
    broken = as_admin.post(TEST, {"metrics_url": "http://127.0.0.1:1/"}, "application/json").json()
    assert "cannot be reached" in broken["problem"]
    assert as_admin.post(TEST, {}, "application/json").status_code == 422


def test_it_is_for_platform_admins(client, alice, lena, fra):
    for person in (alice, lena):
        client.force_login(person)
        assert client.get(URL).status_code == 403
        assert patch(client, timeout_seconds=5).status_code == 403
        assert client.post(TEST, json.dumps({}), "application/json").status_code == 403


def test_unknown_cluster_is_404(as_admin):
    assert as_admin.get(URL.replace("fra-1", "nowhere")).status_code == 404
    assert as_admin.post(TEST.replace("fra-1", "nowhere"), {}, "application/json").status_code == 404
