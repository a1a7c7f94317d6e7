"""DRA health of a cluster: read from a real Prometheus into a row, and shown with its age on its page."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_socket
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from inventory.dra_health import COMPONENTS, FIGURES, expressions, of_cluster
from inventory.models import Cluster, DraHealth, Pod, TelemetryAccess
from tests.factories import make_cluster, make_user
from tests.prometheus import Exposition, RealPrometheus, growing, running_prometheus
from usage import dra_health
from usage.tasks import read_dra_health

KUBELET = (Path(__file__).parent / "expositions/kubelet.prom").read_text()
# As kube-controller-manager of 1.36 names them; no claim could be created and none was retried yet.
OLD_CONTROLLER = """
resourceclaim_controller_resource_claims{admin_access="false",allocated="true",source="template"} 4
resourceclaim_controller_resource_claims{admin_access="false",allocated="true",source=""} 2
resourceclaim_controller_resource_claims{admin_access="false",allocated="false",source=""} 3
resourceclaim_controller_creates_total{admin_access="false",status="success"} 9
workqueue_depth{name="resource_claim"} 0
"""
ERRORS = """
dra_operations_duration_seconds_count{is_error="true",operation_name="UnprepareResources"} 5
"""


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory) -> Iterator[RealPrometheus]:
    """Prometheus with two kubelets, one of which fails, and an old controller manager; no scheduler."""
    pytest_socket.enable_socket()
    pages = {
        "/kubelet": growing(KUBELET),
        "/failing": growing(KUBELET + ERRORS),
        "/controller": growing(OLD_CONTROLLER),
    }
    folder = tmp_path_factory.mktemp("prometheus")
    with Exposition(pages) as exposition:
        jobs = [exposition.scrape(path[1:], path) for path in pages]
        with running_prometheus(folder, jobs) as running:
            running.wait_for_samples(len(pages))
            yield running


@pytest.fixture
def fra(db, prometheus) -> Cluster:
    return make_cluster("fra-1", prometheus_url=prometheus.url)


def figures(cluster):
    dra_health.read(cluster.pk)
    row = DraHealth.objects.get(cluster=cluster)
    assert row.error == ""
    return row.figures


def page_of(client, cluster, by="alice"):
    client.force_login(make_user(by))
    answer = client.get(f"/clusters/{cluster.name}/")
    assert answer.status_code == 200
    section = answer.text.partition('id="health-title"')[2].partition("</section>")[0]
    return " ".join(re.sub(r"<[^>]*>", " ", f"<{section}").split())


def test_figures_of_a_scraped_component_are_numbers_and_counters_without_a_series_are_0(fra):
    found = figures(fra)
    assert found.keys() == expressions().keys()
    assert (found["scraped_kubelet"], found["scraped_controller"], found["scraped_scheduler"]) == (2, 1, None)
    assert (found["allocated"], found["unallocated"]) == (6, 3)
    assert found["creates"] > 0
    assert (found["create_errors"], found["retries"]) == (0, 0)
    assert found["prepares"] > found["prepare_errors"] > 0
    assert found["driver_errors"] == 0
    assert found["in_use"] == 6
    assert 0 < found["prepare_latency"] < 1


def test_figures_of_a_component_that_is_not_scraped_are_unknown(fra):
    found = figures(fra)
    of_scheduler = [figure.key for figure in FIGURES if figure.component.key == "scheduler"]
    assert {found[key] for key in of_scheduler} == {None}


def test_the_page_shows_figures_errors_and_what_to_scrape(client, fra):
    dra_health.read(fra.pk)
    page = page_of(client, fra)
    assert "ResourceClaims with devices 6" in page
    assert re.search(r"Operations that failed [1-9]", page)
    assert "ResourceClaims that could not be created 0" in page
    assert "No telemetry from kube-scheduler (port 10259): let Prometheus scrape it." in page
    assert "Allocation attempts" not in page
    assert "Pods that wait for devices 0" in page


def test_pods_that_wait_are_those_of_the_mirror(client, fra):
    since = timezone.now() - timedelta(minutes=20)
    fields = {"cluster": fra, "namespace": "vision", "phase": "Pending"}
    Pod.objects.create(uid="a", name="a", claims=["train"], created_at=since, **fields)
    Pod.objects.create(uid="b", name="b", templates=["batch"], created_at=timezone.now(), **fields)
    Pod.objects.create(uid="c", name="c", created_at=since, **fields)  # without a claim
    Pod.objects.create(uid="d", name="d", claims=["x"], node_name="n", created_at=since, **fields)
    dra_health.read(fra.pk)
    assert "Pods that wait for devices 2 longest since 20 min ago" in page_of(client, fra)


def test_a_second_run_within_half_a_minute_reads_nothing(fra, monkeypatch):
    dra_health.read(fra.pk)
    asked = []
    monkeypatch.setattr(dra_health, "read_figures", lambda source, wanted: asked.append(source.url) or {})
    dra_health.read(fra.pk)
    assert asked == []
    with time_machine.travel(timezone.now() + timedelta(seconds=31)):
        dra_health.read(fra.pk)
    assert asked == [fra.prometheus_url]


def test_a_prometheus_that_is_away_keeps_the_last_figures_and_says_why(client, fra):
    found = figures(fra)
    Cluster.objects.update(prometheus_url="http://user:secret@127.0.0.1:1")
    later = timezone.now() + timedelta(minutes=10)
    with time_machine.travel(later):
        dra_health.read(fra.pk)
        page = page_of(client, fra)
    row = DraHealth.objects.get()
    assert row.figures == found
    assert row.read_at < later - timedelta(minutes=9)
    assert "cannot be reached" in page
    assert "Stale" in page
    assert "secret" not in row.error + page


def test_only_series_of_the_cluster_count_in_a_prometheus_of_several(fra):
    access = TelemetryAccess.objects.create(cluster=fra, matchers='job=~".+"')
    found = figures(fra)
    assert any(value is not None for value in found.values())
    TelemetryAccess.objects.filter(pk=access.pk).update(matchers='cluster="lab-2"')
    with time_machine.travel(timezone.now() + timedelta(minutes=1)):
        assert set(figures(fra).values()) == {None}


def test_an_address_that_is_no_prometheus_is_an_error_and_no_figure(client, fra):
    with Exposition({"/api/v1/query": "no JSON"}) as other:
        Cluster.objects.update(prometheus_url=f"http://{other.address}")
        dra_health.read(fra.pk)
    row = DraHealth.objects.get()
    assert (row.figures, row.read_at) == ({}, None)
    assert row.error
    assert row.error in page_of(client, fra)


def test_a_cluster_without_a_prometheus_is_not_read_and_its_page_says_how(client, fra):
    Cluster.objects.update(prometheus_url="")
    dra_health.read(fra.pk)
    read_dra_health()
    assert not DraHealth.objects.exists()
    assert "this cluster has no Prometheus. A platform admin can give its address." in page_of(client, fra)
    make_user("root", admin=True)
    assert "Give its address under Settings" in page_of(client, fra, "root")


def test_a_paused_cluster_is_not_read(fra):
    Cluster.objects.update(enabled=False)
    assert dra_health.sources() == []
    dra_health.read(fra.pk)
    assert not DraHealth.objects.exists()


def test_the_page_of_a_cluster_reads_one_row_and_asks_nobody(client, fra, monkeypatch):
    client.force_login(make_user("alice"))
    client.get("/clusters/fra-1/")
    with CaptureQueriesContext(connection) as before:
        client.get("/clusters/fra-1/")
    dra_health.read(fra.pk)
    monkeypatch.delattr("httpx.Client")
    monkeypatch.delattr("httpx.post")
    with CaptureQueriesContext(connection) as after:
        assert client.get("/clusters/fra-1/").status_code == 200
    assert len(after) == len(before) <= 15


def test_components_without_telemetry_are_named_in_one_sentence():
    row = DraHealth(read_at=timezone.now(), figures={})
    health = of_cluster(row)
    assert health is not None
    assert health.missing == (
        "No telemetry from kube-scheduler (port 10259), kube-controller-manager (port 10257) and "
        "the kubelets (port 10250, path /metrics): let Prometheus scrape them."
    )
    assert health.scraped == []
    row.figures = {f"scraped_{one.key}": 1.0 for one in COMPONENTS}
    scraped = of_cluster(row)
    assert scraped is not None
    assert (scraped.missing, len(scraped.scraped)) == ("", 3)
