import json
from urllib.parse import parse_qs

import pytest
from django.core.exceptions import ValidationError
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from inventory.models import Device
from inventory.models.cluster import validate_matchers
from tests.usage.test_collect import mirrored
from usage import amd, sources
from usage.samples import METRICS, MOST, Series
from usage.sources import TelemetrySource, TelemetryUnavailable

# As dcgm-exporter 4.6 writes it: two pods share the device, so every value stands there twice.
SHARED = """\
# HELP DCGM_FI_PROF_GR_ENGINE_ACTIVE Ratio of time the graphics engine is active.
# TYPE DCGM_FI_PROF_GR_ENGINE_ACTIVE gauge
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="2",UUID="GPU-a",pci_bus_id="00000000:3A:00.0",device="nvidia2",\
modelName="NVIDIA H100 80GB HBM3",hostname="fra1-h100-03",pod="train-0",namespace="vision",container="main",\
dra_claim_name="sam2",dra_claim_namespace="vision",dra_driver_name="gpu.nvidia.com",\
dra_pool_name="fra1-h100-03",dra_device_name="gpu-2"} 0.78
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="2",UUID="GPU-a",pci_bus_id="00000000:3A:00.0",device="nvidia2",\
modelName="NVIDIA H100 80GB HBM3",hostname="fra1-h100-03",pod="board-0",namespace="vision",container="main",\
dra_claim_name="sam2",dra_claim_namespace="vision",dra_driver_name="gpu.nvidia.com",\
dra_pool_name="fra1-h100-03",dra_device_name="gpu-2"} 0.80
# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{UUID="GPU-a",Hostname="fra1-h100-03",dra_claim_name="sam2",dra_claim_namespace="vision",\
dra_driver_name="gpu.nvidia.com",dra_pool_name="fra1-h100-03",dra_device_name="gpu-2"} 59494
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{UUID="GPU-a"} 1980
"""


label_values = st.text(st.sampled_from('ab0 \\"\n{},=#é'), max_size=12)


written = st.tuples(
    st.sampled_from(METRICS),
    st.dictionaries(st.sampled_from(["UUID", "dra_claim_name", "pod", "GPU_I_ID"]), label_values, max_size=4),
    st.sampled_from(["0", "1", "0.25", "1e3", "+Inf", "NaN", "9223372036854775792"]),
    st.sampled_from(["", " 1763380800123"]),
    st.sampled_from([("", "", " "), (" ", "", "  "), (" \t", " ", "\t")]),  # blanks between tokens
    st.booleans(),  # names in quotes, as Prometheus 3 may write them
)


def as_text(
    metric: str, labels: dict[str, str], value: str, at: str, blanks: tuple[str, str, str], quoted: bool
) -> str:
    def escape(text: str) -> str:
        return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")

    any_, inner, before = blanks
    mark = '"' if quoted else ""
    pairs = [
        f'{inner}{mark}{name}{mark}{inner}={inner}"{escape(text)}"{inner}' for name, text in labels.items()
    ]
    if quoted:
        return f"{{{','.join([f'{inner}{mark}{metric}{mark}{inner}', *pairs])}}}{before}{value}{at}"
    inside = ",".join(pairs)
    return f"{metric}{any_}{{{inside}}}{before}{value}{at}" if inside else f"{metric}{before}{value}{at}"


def samples_in(lines: list[str]) -> list[tuple[str, dict[str, str], str]]:
    return [
        (metric, dict(one.labels), str(value))
        for one in sources.parse_exposition(lines).series
        for metric, value in one.values.items()
    ]


# A series stands once in a text of the format.
@given(st.lists(written, max_size=5, unique_by=lambda one: (one[0], frozenset(one[1].items()))))
def test_parser_agrees_with_prometheus_client(series_of_text):
    lines = [as_text(*one) for one in series_of_text]
    mine = samples_in(lines)
    families = text_string_to_metric_families("\n".join(lines) + "\n")
    theirs = [(one.name, one.labels, str(float(one.value))) for family in families for one in family.samples]
    assert sorted(mine, key=repr) == sorted(theirs, key=repr)


WRONG = (
    "",
    " ",
    " N/A",
    " 1,5",
    " 0x10",
    " many",
    " 5 later",
    " 5 1 2",
    "{UUID=} 1",
    '{UUID="a" 1',
    '{UUID="a"}',
    '{"a"} 1',
)


@given(st.lists(written, max_size=5, unique_by=lambda one: (one[0], frozenset(one[1].items()))), st.data())
def test_malformed_line_costs_itself_alone(series_of_text, data):
    lines = [as_text(*one) for one in series_of_text]
    one = st.tuples(st.sampled_from(METRICS), st.sampled_from(WRONG))
    wrong = data.draw(st.lists(one, min_size=1, unique=True))
    mixed = data.draw(st.permutations(lines + ["".join(one) for one in wrong]))
    found = sources.parse_exposition(mixed)
    assert sorted(samples_in(mixed), key=repr) == sorted(samples_in(lines), key=repr)
    assert len(found.malformed) == len(wrong)
    assert sorted(found.malformed) == sorted(f"line “{metric}{text}”" for metric, text in wrong)


def test_times_and_exemplars_of_openmetrics_are_read():
    text = """\
# TYPE DCGM_FI_PROF_GR_ENGINE_ACTIVE gauge
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-f"} 0.5 1766918400.123
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-f"} 100 1766918400.123 # {trace_id="x"} 1.0
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU # f"} 50 # {trace_id="x"} 1.0 1766918400.5
# EOF
"""
    found = sources.parse_exposition(text.splitlines())
    assert found.malformed == []
    assert sorted(value for one in found.series for value in one.values.values()) == [0.5, 50, 100]
    assert {one.labels["UUID"] for one in found.series} == {"GPU-f", "GPU # f"}


def test_a_malformed_line_with_its_name_in_quotes_is_named():
    lines = ['{"DCGM_FI_DEV_GPU_UTIL", UUID=} 1', '{"DCGM_FI_DEV_GPU_UTIL"', '{"up", job="x"} 1']
    found = sources.parse_exposition(lines)
    assert (found.series, len(found.malformed)) == ([], 2)


def test_other_metrics_are_not_parsed():
    assert {
        metric for one in sources.parse_exposition(SHARED.splitlines()).series for metric in one.values
    } == {
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "DCGM_FI_DEV_FB_USED",
    }


def test_unreachable_exporter_is_reported_without_its_url(serve):
    with pytest.raises(TelemetryUnavailable, match=r"cannot be reached \(ConnectError\)\.$"):
        sources.read_exporters(TelemetrySource("http://someone:secret@127.0.0.1:1/metrics"))
    with pytest.raises(TelemetryUnavailable, match="returned status 503"):
        sources.read_exporters(TelemetrySource(serve(lambda path, body: (503, ""))))
    with pytest.raises(TelemetryUnavailable, match="returned data in an unknown format"):
        sources.read_exporters(
            TelemetrySource(serve(lambda path, body: (200, "DCGM_FI_DEV_FB_USED{UUID=} many\n")))
        )


def test_an_exporter_is_read_over_http(serve):
    address = serve(lambda path, body: (200, SHARED))
    assert len(sources.read_exporters(TelemetrySource(f"{address}/metrics")).series) == 3


def test_prometheus_gets_one_query_per_metric(serve):
    asked: list[str] = []

    def answer(path: str, body: str) -> tuple[int, str]:
        asked.append(body)
        metric = {"dra_claim_name": "sam2", "dra_claim_namespace": "vision", "UUID": "GPU-a"}
        result = [{"metric": metric, "value": [1763380800.1, "0.5"]}]
        return 200, json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})

    found = sources.read_prometheus(TelemetrySource(serve(answer)))
    assert len(asked) == len(METRICS)
    assert [one.values for one in found] == [{metric: 0.5} for metric in METRICS]
    assert all("max+by" in query for query in asked)


def test_a_histogram_among_the_series_costs_no_other():
    histogram = {"count": "3", "sum": "1.5", "buckets": [[0, "0", "1", "3"]]}
    rows = [
        {"metric": {"UUID": "GPU-a"}, "histogram": [1763380800.1, histogram]},
        {"metric": {"UUID": "GPU-b"}, "value": [1763380800.1, "0.5"]},
    ]
    found = sources.parse_response(METRICS[0], {"data": {"resultType": "vector", "result": rows}})
    assert list(found) == [Series({"UUID": "GPU-b"}, {METRICS[0]: 0.5})]


def test_rejected_query_has_the_message_of_prometheus(serve):
    refusal = '{"status": "error", "errorType": "execution", "error": "query timed out"}'
    with pytest.raises(TelemetryUnavailable, match="rejected the query: query timed out"):
        sources.read_prometheus(TelemetrySource(serve(lambda path, body: (422, refusal))))
    with pytest.raises(TelemetryUnavailable, match="returned data in an unknown format"):
        sources.read_prometheus(TelemetrySource(serve(lambda path, body: (200, "[]"))))
    with pytest.raises(TelemetryUnavailable, match="status 502"):
        sources.read_prometheus(TelemetrySource(serve(lambda path, body: (502, ""))))


def test_metric_with_a_longer_name_is_left_out():
    lines = ['DCGM_FI_DEV_FB_USED_PERCENT{UUID="GPU-a"} 0.5', "DCGM_FI_DEV_FB_USED 7", ""]
    assert sources.parse_exposition(lines).series == [Series({}, {"DCGM_FI_DEV_FB_USED": 7.0})]


def test_oversized_response_is_refused(monkeypatch, serve):
    monkeypatch.setattr(sources, "MAX_CHARACTERS", 10)
    assert list(sources.limited(["12345", "67890"])) == ["12345", "67890"]
    with pytest.raises(ValueError, match="more than 10 characters"):
        list(sources.limited(["12345", "67890", "1"]))
    with pytest.raises(TelemetryUnavailable, match="in an unknown format: more than 10 characters"):
        sources.read_exporters(TelemetrySource(serve(lambda path, body: (200, "# a comment that is long\n"))))


def test_prometheus_query_is_sent_to_its_base_path(serve):
    asked: list[tuple[str, str]] = []

    def answer(path: str, body: str) -> tuple[int, str]:
        asked.append((path, parse_qs(body)["query"][0]))
        return 200, '{"data": {"result": []}}'

    assert sources.read_prometheus(TelemetrySource(f"{serve(answer)}/prom/")) == []
    labels = (
        "dra_claim_namespace, dra_claim_name, dra_driver_name, dra_pool_name, dra_device_name, "
        "dra_mig_device_uuid, UUID, GPU_I_ID, GPU_I_PROFILE"
    )
    assert asked == [
        ("/prom/api/v1/query", f"max by ({labels}) ({metric} <= {MOST[metric]:.16g})") for metric in METRICS
    ]


def test_unreachable_or_rejecting_prometheus_is_reported(serve):
    with pytest.raises(TelemetryUnavailable, match="rejected the query: bad_data"):
        sources.read_prometheus(TelemetrySource(serve(lambda path, body: (400, '{"error": "bad_data"}'))))
    with pytest.raises(TelemetryUnavailable, match=r"cannot be reached \(ConnectError\)\.$"):
        sources.read_prometheus(TelemetrySource("http://someone:secret@127.0.0.1:1"))
    with pytest.raises(TelemetryUnavailable, match="returned data in an unknown format"):
        sources.read_prometheus(TelemetrySource(serve(lambda path, body: (200, '{"data": {}}'))))


def test_every_series_of_an_answer_is_read(serve):
    rows = [
        {"metric": {"UUID": f"GPU-{name}"}, "value": [0, f"{number}"]} for number, name in enumerate("abc")
    ]
    body = json.dumps({"data": {"result": rows}})
    found = sources.read_prometheus(TelemetrySource(serve(lambda path, query: (200, body))))
    assert found == [
        Series({"UUID": f"GPU-{name}"}, {metric: float(number)})
        for metric in METRICS
        for number, name in enumerate("abc")
    ]


def test_unknown_escape_is_kept():
    texts = {r"a\qb": r"a\qb", r"a\nb": "a\nb", r"a\\b": r"a\b", r"a\"b": 'a"b', r"a\\nb": r"a\nb", "a": "a"}
    assert {text: sources.unescaped(text) for text in texts} == texts


def test_matchers_select_the_series_of_the_cluster(serve):
    asked: list[str] = []

    def answer(path: str, body: str) -> tuple[int, str]:
        asked.append(parse_qs(body)["query"][0])
        return 200, '{"data": {"result": []}}'

    sources.read_prometheus(TelemetrySource(serve(answer), matchers='cluster="fra-1"', with_amd=True))
    assert len(asked) == len(METRICS) + len(amd.METRICS)
    assert all(query.count('cluster="fra-1"') == 1 for query in asked)
    assert asked[0].endswith('(DCGM_FI_PROF_GR_ENGINE_ACTIVE{cluster="fra-1"} <= 1)')
    assert asked[len(METRICS)].endswith('({__name__=~"(amd_)?gpu_gfx_activity", cluster="fra-1"} <= 100)')


@pytest.mark.parametrize(
    ("matchers", "is_valid"),
    [
        ("", True),
        ('cluster="fra-1"', True),
        ('cluster="fra-1", region=~"eu-.+"', True),
        (r'cluster="a\"b"', True),
        ("cluster=fra", False),
        ('cluster="fra"}) or vector(1', False),
        ('cluster="fra",', False),
    ],
)
def test_matchers_are_label_matchers_of_promql(matchers, is_valid):
    refused = False
    try:
        validate_matchers(matchers)
    except ValidationError:
        refused = True
    assert refused is not is_valid


def test_series_of_amd_are_asked_for_if_somebody_holds_a_device_of_amd(fra):
    assert not sources.source_of(fra).with_amd
    mirrored(fra, "gpu-0", "")
    assert not sources.source_of(fra).with_amd
    Device.objects.update(driver="gpu.amd.com")
    assert sources.source_of(fra).with_amd
    Device.objects.update(held_by=None)
    assert not sources.source_of(fra).with_amd
