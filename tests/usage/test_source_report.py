"""The test of a telemetry source: each finding with its remedy."""

import json
from urllib.parse import parse_qs

import pytest
import time_machine

from inventory.models import Cluster
from tests.usage.conftest import NOON, hold
from tests.usage.test_collect import mirrored
from usage.attribution import JoinKey, NotJoined
from usage.samples import ACTIVITY, METRICS, UTILIZATION
from usage.source_report import check_source
from usage.sources import TelemetrySecret, TelemetrySource

DRA = {
    "dra_claim_name": "sam2-finetune",
    "dra_claim_namespace": "vision",
    "dra_driver_name": "gpu.nvidia.com",
    "dra_pool_name": "fra1-h100-03",
    "dra_device_name": "gpu-2",
}
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _clock():
    with time_machine.travel(NOON):
        yield


def line(metric, value=0.5, **labels):
    inside = ",".join(f'{name}="{text}"' for name, text in labels.items())
    return f"{metric}{{{inside}}} {value}"


@pytest.fixture
def report(fra, serve):
    """Return a function that tests an exporter with these lines."""

    def of(*lines, **fields):
        address = serve(lambda path, body: (200, "\n".join([*lines, ""])))
        return check_source(fra, TelemetrySource(f"{address}/metrics", **fields))

    return of


def findings(report):
    return {finding.subject: (finding.verdict, finding.detail, finding.remedy) for finding in report.findings}


def test_complete_source_has_nothing_to_remedy(report, claim):
    hold(claim, NOON, device="gpu-2")
    told = report(*(line(metric, UUID="GPU-2", hostname="n", **DRA) for metric in METRICS))
    assert {finding.verdict for finding in told.findings} == {"good"}
    assert (told.measured, told.held, told.keys) == (1, 1, {JoinKey.DEVICE: 1})
    assert findings(told)["Host label"][1] == "hostname: dcgm-exporter 4.6.0 or later"
    assert [question.series for question in told.questions] == [len(METRICS)]


def test_source_without_a_series_fails_with_a_remedy(report, claim):
    hold(claim, NOON, device="gpu-2")
    told = report("up 1")
    assert findings(told)["Series"][0] == "bad"
    assert "ServiceMonitor" in findings(told)["Series"][2]
    assert findings(told)["Held devices"][:2] == ("bad", "0 of 1 measured")


def test_missing_labels_and_metrics_are_notes_with_a_remedy(report, claim):
    hold(claim, NOON, device="gpu-2", uuid="GPU-2")
    told = report(
        line(UTILIZATION, 50, UUID="GPU-2", Hostname="n"), line(ACTIVITY, 0.5, UUID="GPU-9", hostname="n")
    )
    by_subject = findings(told)
    assert by_subject["DRA labels"][0] == "note"
    assert "KUBERNETES_ENABLE_DRA=true" in by_subject["DRA labels"][2]
    assert by_subject["Host label"][1] == "Hostname and hostname: two versions of dcgm-exporter"
    assert by_subject["DCGM_FI_DEV_FB_USED"][:2] == ("note", "no series")
    assert told.keys == {JoinKey.UUID: 1}


def test_utilization_without_engine_activity_says_what_partitions_lack(report):
    told = findings(report(line(UTILIZATION, 50, UUID="GPU-2")))
    assert "MIG partitions have no utilization" in told[ACTIVITY][1]
    told = findings(report(line("DCGM_FI_DEV_FB_USED", 50, UUID="GPU-2")))
    assert told["Utilization"][0] == "bad"


def test_what_is_approximate_and_what_cannot_be_told_apart_is_said(report, claim, fra):
    for number, gpu in enumerate(("GPU-a", "GPU-a", "GPU-b")):
        device = f"part-{number}"
        hold(claim, NOON, device=device, uuid="", partition="1g.10gb")
        mirrored(fra, device, gpu)
    told = report(
        *(
            line(ACTIVITY, UUID=gpu, GPU_I_ID=instance, GPU_I_PROFILE="1g.10gb")
            for gpu, instance in (("GPU-a", "7"), ("GPU-a", "8"), ("GPU-b", "7"))
        )
    )
    assert told.keys == {JoinKey.INSTANCE: 1}
    assert told.reasons == {NotJoined.TWINS: 2}
    (twins,) = [finding for finding in told.findings if finding.subject == "No telemetry"]
    assert twins.detail == "2 devices: equal MIG profiles on one GPU"
    assert "static MIG" in twins.remedy
    approximate = [finding.detail for finding in told.findings if finding.subject == "Approximate"]
    assert len(approximate) == 2
    assert "power of a partition is that of its whole GPU" in approximate


def test_amd_devices_say_why_they_are_not_measured(report, claim, fra):
    for number in range(2):
        hold(claim, NOON, driver="gpu.amd.com", device=f"gpu-{number}", uuid="")
    told = report(line("gpu_gfx_activity", 40, hostname="n", gpu_id="0", pod="train-0", namespace="vision"))
    assert told.reasons == {NotJoined.NO_POD: 2}


def test_secret_over_http_is_a_note(report):
    told = findings(report(line(ACTIVITY, UUID="GPU-2"), secret=TelemetrySecret(token="abc")))
    assert told["Encryption"][:2] == ("note", "The bearer token is sent unencrypted")


def test_source_that_does_not_respond_is_the_problem_and_nothing_else(fra):
    told = check_source(fra, TelemetrySource("http://127.0.0.1:1"))
    assert "cannot be reached" in told.problem
    assert (told.findings, told.questions, told.failed) == ([], [], 1)


def test_prometheus_is_asked_per_metric_and_for_both_host_labels(fra, serve):
    asked = []

    def answer(path, body):
        asked.append(parse_qs(body)["query"][0])
        result = [{"metric": {"UUID": "GPU-2"}, "value": [0, "0.5"]}] if "hostname" not in asked[-1] else []
        return 200, json.dumps({"data": {"result": result}, "warnings": ["store-1 is away"]})

    Cluster.objects.update(prometheus_url=serve(answer))
    fra.refresh_from_db()
    told = check_source(fra, TelemetrySource(fra.prometheus_url, is_prometheus=True))
    assert [question.text for question in told.questions] == asked
    assert len(asked) == len(METRICS) + 2
    assert findings(told)["Warning of Prometheus"][1] == "store-1 is away"
    assert findings(told)["Host label"][1] == "Hostname: dcgm-exporter before 4.6.0"


def test_number_of_queries_does_not_grow_with_the_devices(
    report, claim, django_assert_num_queries, django_assert_max_num_queries
):
    hold(claim, NOON, device="gpu-2")
    with django_assert_max_num_queries(10) as one:
        report(line(ACTIVITY, UUID="GPU-2"))
    for number in range(20):
        hold(claim, NOON, device=f"gpu-x{number}")
    with django_assert_num_queries(len(one)):
        report(line(ACTIVITY, UUID="GPU-2"))
