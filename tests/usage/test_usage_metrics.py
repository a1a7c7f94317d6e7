"""What Prometheus is told of the ledger and of telemetry."""

from datetime import date, timedelta

import pytest
import time_machine

from inventory.models import Cluster
from tests.factories import make_cluster
from tests.prometheus import run_promtool
from tests.usage.conftest import NOON, hold
from usage.metrics import CollectionCollector, LedgerCollector
from usage.models import Collection, StoredDays

pytestmark = pytest.mark.django_db
DAY = 24 * 3600


@pytest.fixture(autouse=True)
def _now():
    """Stop the clock on 17 November 2026, 12:00 UTC."""
    with time_machine.travel(NOON, tick=False):
        yield


def exported(collector):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for metric in collector.collect()
        for sample in metric.samples
    }


def ledger():
    return {
        name.removeprefix("dragoman_ledger_"): value for (name,), value in exported(LedgerCollector()).items()
    }


def test_without_anything_to_store_the_ledger_has_no_age(db):
    assert ledger() == {"stored_age_seconds": 0, "closed_age_seconds": 0, "changed": 0}


def test_age_of_the_last_stored_day_and_closed_month(django_assert_num_queries):
    StoredDays.objects.create(pk=1, until=date(2026, 11, 17), closed_until=date(2026, 11, 1))
    with django_assert_num_queries(1):
        assert ledger() == {
            "stored_age_seconds": DAY / 2,
            "closed_age_seconds": 16.5 * DAY,
            "changed": 0,
        }


def test_days_that_were_never_stored_have_the_age_of_the_first(claim):
    hold(claim, NOON - timedelta(days=3))
    assert ledger()["stored_age_seconds"] == 3.5 * DAY


def test_closed_days_from_the_first_that_changed_wait_to_be_compared():
    StoredDays.objects.create(
        pk=1, until=date(2026, 11, 17), closed_until=date(2026, 11, 1), check_from=date(2026, 10, 28)
    )
    assert ledger()["changed"] == 4


def test_age_of_the_last_collection_by_cluster_and_source(fra, django_assert_num_queries):
    Cluster.objects.update(metrics_url="http://dcgm:9400/metrics", prometheus_url="http://prometheus:9090")
    Collection.objects.create(
        cluster=fra, succeeded_at=NOON - timedelta(minutes=7), failed_at=NOON, sampled_at=NOON, error="Late."
    )
    make_cluster("lab", metrics_url="http://dcgm:9400/metrics")
    make_cluster("paused", metrics_url="http://dcgm:9400/metrics", enabled=False)
    make_cluster("without")
    with django_assert_num_queries(1):
        found = exported(CollectionCollector())
    name = "dragoman_telemetry_collection_age_seconds"
    assert found == {(name, "fra-1", "prometheus"): 420, (name, "lab", "exporters"): float("inf")}


def test_metrics_have_both_and_name_no_team(client, fra, claim):
    Cluster.objects.update(prometheus_url="http://prometheus:9090")
    text = client.get("/metrics").text
    assert 'dragoman_telemetry_collection_age_seconds{cluster="fra-1",source="prometheus"} +Inf' in text
    assert "dragoman_ledger_stored_age_seconds" in text
    assert '"vision"' not in text


def test_metrics_are_as_promtool_wants_them(client, fra, claim, tmp_path):
    Cluster.objects.update(prometheus_url="http://prometheus:9090")
    checked = run_promtool(["check", "metrics"], tmp_path, client.get("/metrics").text)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
