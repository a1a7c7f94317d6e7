"""The Prometheus rules of deploy/monitoring: they fire when they should, on metrics that exist."""

import os
import re
import shutil
import subprocess

import pytest
from django.conf import settings

from inventory.counts import store_counts
from inventory.models import Device, Freshness, ResourceSlice
from tests.factories import make_cluster

RULES = settings.BASE_DIR / "deploy/monitoring"
# Metrics of others that the rules read: Kubernetes 1.34 to 1.37 and dcgm-exporter 4 with DRA labels.
OF_OTHERS = {
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "dra_operations_duration_seconds_count",
    "dynamic_resource_allocation_resourceclaim_creates_total",
    "resourceclaim_controller_creates_total",
    "scheduler_unschedulable_pods",
}


@pytest.fixture(scope="module")
def promtool() -> str:
    path = shutil.which("promtool")
    if path is None:
        reason = "promtool is not installed; it comes with Debian's package prometheus"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return path


def test_rules_are_valid_and_each_alert_fires_for_its_series_alone(promtool):
    for command in (["check", "rules", "rules.yaml"], ["test", "rules", "rules_test.yaml"]):
        run = subprocess.run([promtool, *command], cwd=RULES, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout + run.stderr


def test_each_alert_has_a_test():
    alerts = set(re.findall(r"- alert: (\w+)", (RULES / "rules.yaml").read_text()))
    tested = set(re.findall(r"alertname: (\w+)", (RULES / "rules_test.yaml").read_text()))
    assert alerts == tested


@pytest.mark.django_db
def test_rules_read_metrics_that_the_portal_exports(client, mirrored_counts):
    exported = set(re.findall(r"^(dragoman_\w+)[{ ]", client.get("/metrics").text, re.M))
    text = (RULES / "rules.yaml").read_text()
    named = set(re.findall(r"(?<![\w:])dragoman_\w+", text))
    assert named
    assert named <= exported
    assert (
        set(re.findall(r"\b(?:DCGM|dra|dynamic|resourceclaim|scheduler)_\w+", text))
        - {
            "dra_claim_namespace",
            "dra_claim_name",
        }
        == OF_OTHERS
    )


@pytest.fixture
def mirrored_counts(db):
    """A cluster with a device in the mirror."""
    fra = make_cluster("fra-1")
    where = {"cluster": fra, "driver": "gpu.nvidia.com", "pool": "node"}
    piece = ResourceSlice.objects.create(uid="s", name="s", generation=1, pool_slices=1, **where)
    Device.objects.create(slice=piece, name="gpu-0", product="H100", **where)
    Freshness.objects.create(cluster=fra, resource="pods")
    store_counts()
