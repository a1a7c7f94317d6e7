"""The Prometheus rules of deploy/monitoring: they fire when they should, on metrics that exist."""

import re
from typing import Any

import pytest
import yaml
from django.conf import settings

from inventory.counts import store_counts
from inventory.dra_health import expressions
from inventory.models import Device, Freshness, ResourceSlice
from teams.audit.chain import verify_and_store
from tests.factories import make_cluster
from tests.prometheus import run_promtool

RULES = settings.BASE_DIR / "deploy/monitoring"
# Metrics of others that the rules read: Kubernetes 1.34 to 1.37, dcgm-exporter 4 with DRA labels, and
# kube-state-metrics.
OF_OTHERS = {
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "dra_grpc_operations_duration_seconds_count",
    "dra_operations_duration_seconds_bucket",
    "dra_operations_duration_seconds_count",
    "dynamic_resource_allocation_resource_claims",
    "dynamic_resource_allocation_resourceclaim_creates_total",
    "kube_resourcequota",
    "resourceclaim_controller_creates_total",
    "resourceclaim_controller_resource_claims",
    "scheduler_plugin_execution_duration_seconds_count",
    "scheduler_resourceclaim_creates_total",
    "scheduler_unschedulable_pods",
    "workqueue_depth",
}
LABELS = {"dra_claim_namespace", "dra_claim_name"}


def test_rules_are_valid_and_each_alert_fires_for_its_series_alone():
    for command in (["check", "rules", "rules.yaml"], ["test", "rules", "rules_test.yaml"]):
        run = run_promtool(command, RULES)
        assert run.returncode == 0, run.stdout + run.stderr


def rule_names(kind: str) -> set[str]:
    groups = yaml.safe_load((RULES / "rules.yaml").read_text())["groups"]
    return {rule[kind] for group in groups for rule in group["rules"] if kind in rule}


def test_each_rule_has_a_test():
    tests = (RULES / "rules_test.yaml").read_text()
    assert rule_names("alert") == set(re.findall(r"alertname: (\w+)", tests))
    recorded = set(re.findall(r"dragoman:[\w:]+", tests))
    tested_by_an_alert = {"dragoman:claim_activity:ratio", "dragoman:namespace_quota:used_ratio"}
    assert rule_names("record") == recorded | tested_by_an_alert


@pytest.mark.django_db
def test_rules_read_metrics_that_the_portal_exports(client, mirrored_counts):
    verify_and_store()
    exported = set(re.findall(r"^(dragoman_\w+)[{ ]", client.get("/metrics").text, re.M))
    text = (RULES / "rules.yaml").read_text()
    named = set(re.findall(r"(?<![\w:])dragoman_\w+", text))
    assert named
    assert named <= exported
    of_others = r"\b(?:DCGM|dra|dynamic|kube|resourceclaim|scheduler|workqueue)_\w+"
    assert set(re.findall(of_others, expressions_of(text))) - LABELS == OF_OTHERS


def expressions_of(rules: str) -> str:
    """Return the PromQL of all rules."""
    groups = yaml.safe_load(rules)["groups"]
    return "\n".join(rule["expr"] for group in groups for rule in group["rules"])


@pytest.mark.parametrize("matchers", ["", 'cluster="fra-1", region=~"eu-.*"'])
def test_figures_of_dra_health_are_promql(tmp_path, matchers):
    wanted = expressions(matchers)
    assert all(matchers in expression for expression in wanted.values())
    rules = [{"record": f"figure:{key}", "expr": expression} for key, expression in wanted.items()]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "health", "rules": rules}]}))
    run = run_promtool(["check", "rules", "rules.yaml"], tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_example_of_a_prometheus_is_valid_and_scrapes_what_pages_name(tmp_path):
    config: dict[str, Any] = yaml.safe_load((RULES / "prometheus.yaml").read_text())
    jobs = {job["job_name"] for job in config["scrape_configs"]}
    assert jobs == {"dragoman", "dcgm-exporter", "kube-scheduler", "kube-controller-manager", "kubelet"}
    assert config["rule_files"] == ["rules.yaml"]
    for job in config["scrape_configs"]:  # Debian's promtool does not know how to look for pods
        if job.pop("kubernetes_sd_configs", None):
            job["static_configs"] = [{"targets": ["127.0.0.1:1"]}]
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "rules.yaml").write_text((RULES / "rules.yaml").read_text())
    run = run_promtool(["check", "config", "--syntax-only", "prometheus.yaml"], tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.fixture
def mirrored_counts(db):
    """A cluster with a device in the mirror, and with a source of telemetry."""
    fra = make_cluster("fra-1", metrics_url="http://dcgm:9400/metrics")
    where = {"cluster": fra, "driver": "gpu.nvidia.com", "pool": "node"}
    piece = ResourceSlice.objects.create(uid="s", name="s", generation=1, pool_slices=1, **where)
    Device.objects.create(slice=piece, name="gpu-0", product="H100", **where)
    Freshness.objects.create(cluster=fra, resource="pods")
    store_counts()
