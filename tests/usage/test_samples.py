import json
from urllib.parse import parse_qs
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from usage import collect
from usage.samples import (
    METRICS,
    MIB,
    Measurement,
    OpenAllocation,
    Sample,
    TelemetryUnavailable,
    attribute,
    measurements,
)

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


def held(**fields: str) -> OpenAllocation:
    values = {
        "namespace": "vision",
        "object_name": "sam2",
        "driver": "gpu.nvidia.com",
        "pool": "fra1-h100-03",
        "device": "gpu-2",
        "uuid": "GPU-a",
        "partition": "",
        "parent_uuid": "",
        **fields,
    }
    return OpenAllocation(claim_id=uuid4(), **values)


def series(metric: str, value: float, **labels: str) -> Sample:
    return Sample(metric, labels, value)


def test_pods_on_one_device_count_as_the_largest_value():
    found = measurements(collect.parse_exposition(SHARED.splitlines()))
    sam2 = held()
    assert attribute([sam2], found) == [(sam2, Measurement(activity=0.80, memory_bytes=59494 * MIB))]


label_values = st.text(st.sampled_from('ab0 \\"\n{},=#é'), max_size=12)
written = st.tuples(
    st.sampled_from(METRICS),
    st.dictionaries(st.sampled_from(["UUID", "dra_claim_name", "pod", "GPU_I_ID"]), label_values, max_size=4),
    st.sampled_from(["0", "1", "0.25", "1e3", "+Inf", "NaN", "9223372036854775792"]),
    st.sampled_from(["", " 1763380800123"]),
)


def as_text(metric: str, labels: dict[str, str], value: str, at: str) -> str:
    def escape(text: str) -> str:
        return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")

    inside = ",".join(f'{name}="{escape(text)}"' for name, text in labels.items())
    return f"{metric}{{{inside}}} {value}{at}" if inside else f"{metric} {value}{at}"


@given(st.lists(written, max_size=5))
def test_parser_agrees_with_prometheus_client(series_of_text):
    lines = [as_text(*one) for one in series_of_text]
    mine = [(one.metric, dict(one.labels), str(one.value)) for one in collect.parse_exposition(lines)]
    families = text_string_to_metric_families("\n".join(lines) + "\n")
    theirs = [(one.name, one.labels, str(float(one.value))) for family in families for one in family.samples]
    assert sorted(mine, key=repr) == sorted(theirs, key=repr)


@pytest.mark.parametrize(
    "line", ["DCGM_FI_DEV_FB_USED{UUID=} 1", 'DCGM_FI_DEV_FB_USED{UUID="a" 1', "DCGM_FI_DEV_FB_USED many"]
)
def test_malformed_line_is_refused(line):
    with pytest.raises(ValueError, match=r"line|float"):
        list(collect.parse_exposition([line]))


def test_other_metrics_are_not_parsed():
    assert {one.metric for one in collect.parse_exposition(SHARED.splitlines())} == {
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "DCGM_FI_DEV_FB_USED",
    }


@pytest.mark.parametrize("blank", [9223372036854775792, 1.40737488355328e14, 2147483632, -1, float("nan")])
def test_blanks_of_dcgm_are_no_measurement(blank):
    def of_power(watts):
        return measurements([series("DCGM_FI_DEV_POWER_USAGE", watts, UUID="GPU-a")])

    assert of_power(blank) == {}
    assert len(of_power(250.0)) == 1


def test_gpu_util_replaces_activity_only_on_a_physical_gpu():
    busy = series("DCGM_FI_DEV_GPU_UTIL", 90, UUID="GPU-a")
    engine = series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.5, UUID="GPU-a")
    slice_ = series("DCGM_FI_DEV_GPU_UTIL", 90, UUID="GPU-a", GPU_I_ID="1", GPU_I_PROFILE="1g.10gb")
    assert [reading.activity for reading in measurements([busy]).values()] == [0.9]
    assert [reading.activity for reading in measurements([busy, engine]).values()] == [0.5]
    assert [reading.activity for reading in measurements([slice_]).values()] == [None]


def test_uuid_identifies_a_gpu_without_dra_labels():
    mine, other = held(), held(uuid="GPU-b", device="gpu-3")
    found = measurements([series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.4, UUID="GPU-a", Hostname="fra1")])
    assert attribute([mine, other], found) == [(mine, Measurement(activity=0.4))]


def test_two_claims_on_one_device_each_get_the_series_with_their_name():
    first, second = held(object_name="one"), held(object_name="two")
    place = {"dra_driver_name": "gpu.nvidia.com", "dra_pool_name": "fra1-h100-03", "dra_device_name": "gpu-2"}
    found = measurements(
        series(
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
            value,
            dra_claim_name=name,
            dra_claim_namespace="vision",
            **place,
        )
        for name, value in (("one", 0.1), ("two", 0.6))
    )
    assert [reading.activity for _, reading in attribute([first, second], found)] == [0.1, 0.6]


def test_a_claim_of_another_namespace_with_the_same_name_gets_nothing():
    found = measurements(collect.parse_exposition(SHARED.splitlines()))
    assert attribute([held(namespace="vision", uuid="")], found) != []
    assert attribute([held(namespace="nlp", uuid="")], found) == []


def test_partition_is_identified_by_gpu_and_profile_only_if_unique():
    def instance(number: str) -> Sample:
        labels = {"UUID": "GPU-a", "GPU_I_ID": number, "GPU_I_PROFILE": "1g.10gb"}
        return series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.3, **labels)

    mine = held(uuid="MIG-1", parent_uuid="GPU-a", partition="1g.10gb")
    twin = held(uuid="MIG-2", parent_uuid="GPU-a", partition="1g.10gb", device="gpu-2-mig-2")
    assert attribute([mine], measurements([instance("7")])) == [(mine, Measurement(activity=0.3))]
    assert attribute([mine], measurements([instance("7"), instance("8")])) == []
    assert attribute([mine, twin], measurements([instance("7")])) == []


def test_unreachable_exporter_is_reported_without_its_url(serve):
    with pytest.raises(TelemetryUnavailable, match=r"cannot be reached \(ConnectError\)\.$"):
        collect.read_exporter("http://someone:secret@127.0.0.1:1/metrics")
    with pytest.raises(TelemetryUnavailable, match="returned status 503"):
        collect.read_exporter(serve(lambda path, body: (503, "")))
    with pytest.raises(TelemetryUnavailable, match="returned data in an unknown format"):
        collect.read_exporter(serve(lambda path, body: (200, "DCGM_FI_DEV_FB_USED{UUID=} many\n")))


def test_an_exporter_is_read_over_http(serve):
    address = serve(lambda path, body: (200, SHARED))
    assert len(collect.read_exporter(f"{address}/metrics")) == 3


def test_prometheus_gets_one_query_per_metric(serve):
    asked: list[str] = []

    def answer(path: str, body: str) -> tuple[int, str]:
        asked.append(body)
        metric = {"dra_claim_name": "sam2", "dra_claim_namespace": "vision", "UUID": "GPU-a"}
        result = [{"metric": metric, "value": [1763380800.1, "0.5"]}]
        return 200, json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})

    found = collect.read_prometheus(serve(answer))
    assert len(asked) == len(METRICS)
    assert [one.metric for one in found if one.value == 0.5] == list(METRICS)
    assert all("max+by" in query for query in asked)


def test_rejected_query_has_the_message_of_prometheus(serve):
    refusal = '{"status": "error", "errorType": "execution", "error": "query timed out"}'
    with pytest.raises(TelemetryUnavailable, match="rejected the query: query timed out"):
        collect.read_prometheus(serve(lambda path, body: (422, refusal)))
    with pytest.raises(TelemetryUnavailable, match="returned data in an unknown format"):
        collect.read_prometheus(serve(lambda path, body: (200, "[]")))
    with pytest.raises(TelemetryUnavailable, match="status 502"):
        collect.read_prometheus(serve(lambda path, body: (502, "")))


@pytest.mark.parametrize(
    ("value", "measured"),
    [
        (0, True),
        (-0.001, False),
        (2147483631, True),
        (2147483632, False),
        (2147483640, False),
        (2147483647, False),
        (2147483648, True),
        (140737488355327, True),
        (140737488355328, False),
        (float("inf"), False),
        (float("-inf"), False),
    ],
)
def test_values_beside_the_blanks_of_dcgm_are_measurements(value, measured):
    found = measurements([series("DCGM_FI_DEV_POWER_USAGE", value, UUID="GPU-a")])
    assert [reading.power_watts for reading in found.values()] == ([value] if measured else [])


def test_metrics_of_a_device_become_one_measurement():
    found = measurements(
        [
            series("DCGM_FI_DEV_FB_USED", 1.5, UUID="GPU-a"),
            series("DCGM_FI_DEV_FB_USED", 3, UUID="GPU-a"),
            series("DCGM_FI_DEV_FB_USED", 2, UUID="GPU-a"),
            series("DCGM_FI_DEV_POWER_USAGE", 250.5, UUID="GPU-a"),
            series("DCGM_FI_DEV_GPU_UTIL", 101, UUID="GPU-a"),
            series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1.02, UUID="GPU-b"),
            series("DCGM_FI_DEV_FB_USED", 0.5, UUID="GPU-b"),
            series("DCGM_FI_DEV_SM_CLOCK", 1980, UUID="GPU-c"),
        ]
    )
    assert {key.uuid: reading for key, reading in found.items()} == {
        "GPU-a": Measurement(activity=1.0, memory_bytes=3 * 2**20, power_watts=250.5),
        "GPU-b": Measurement(activity=1.0, memory_bytes=2**19, power_watts=None),
    }


def test_largest_measurement_is_per_value_and_unknown_is_not_zero():
    one, other = Measurement(0.2, None, 300.0), Measurement(0.5, 7, None)
    assert one.largest(other) == other.largest(one) == Measurement(0.5, 7, 300.0)
    assert Measurement().largest(Measurement()) == Measurement(None, None, None)
    assert Measurement(0.0, 0, 0.0).largest(Measurement()) == Measurement(0.0, 0, 0.0)


LABELS = {
    "dra_claim_namespace": "vision",
    "dra_claim_name": "sam2",
    "dra_driver_name": "gpu.nvidia.com",
    "dra_pool_name": "fra1-h100-03",
    "dra_device_name": "gpu-2",
}


@pytest.mark.parametrize("label", LABELS)
def test_all_dra_labels_must_match_the_allocation(label):
    found = measurements([series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.4, **LABELS | {label: "other"})])
    assert attribute([held(uuid="")], found) == []
    found = measurements([series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.4, **LABELS)])
    assert [reading.activity for _, reading in attribute([held(uuid="")], found)] == [0.4]


def test_labels_of_dra_count_before_the_uuid():
    mine = held()
    found = measurements(
        [
            series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.9, UUID="GPU-a"),
            series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.4, UUID="GPU-b", **LABELS),
        ]
    )
    assert attribute([mine], found) == [(mine, Measurement(activity=0.4))]


def test_claim_without_labels_gets_the_largest_value_of_its_gpu():
    """Another claim on the board has labels; its series says what the board does."""
    mine = held(object_name="mine")
    found = measurements(
        [
            series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.4, UUID="GPU-a"),
            series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.6, UUID="GPU-a", **LABELS),
            series("DCGM_FI_DEV_FB_USED", 1, UUID="GPU-a"),
            series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1, UUID="GPU-a", GPU_I_ID="3", GPU_I_PROFILE="1g.10gb"),
        ]
    )
    assert attribute([mine], found) == [(mine, Measurement(activity=0.6, memory_bytes=MIB))]


def test_device_reported_twice_has_its_largest_value():
    found = measurements(
        [
            series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.4, UUID="GPU-a", **LABELS),
            series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.7, UUID="GPU-old", **LABELS),
            series("DCGM_FI_DEV_FB_USED", 5, UUID="GPU-a", **LABELS),
        ]
    )
    mine = held(uuid="")
    assert attribute([mine], found) == [(mine, Measurement(activity=0.7, memory_bytes=5 * MIB))]


def test_mig_uuid_identifies_a_partition():
    mine = held(uuid="MIG-1", parent_uuid="GPU-a", partition="1g.10gb")
    told = {"UUID": "GPU-a", "dra_mig_device_uuid": "MIG-1"}
    found = measurements([series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.4, **told)])
    assert attribute([mine], found) == [(mine, Measurement(activity=0.4))]


@pytest.mark.parametrize(
    ("uuid", "profile"), [("GPU-b", "1g.10gb"), ("GPU-a", "2g.20gb")], ids=["board", "profile"]
)
def test_partition_of_another_gpu_or_profile_does_not_match(uuid, profile):
    mine = held(uuid="MIG-1", parent_uuid="GPU-a", partition="1g.10gb")
    labels = {"UUID": uuid, "GPU_I_ID": "7", "GPU_I_PROFILE": profile}
    assert attribute([mine], measurements([series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.3, **labels)])) == []


def test_sample_without_uuid_and_labels_matches_nothing():
    found = measurements([series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.4)])
    assert attribute([held(uuid=""), held()], found) == []


def test_metric_with_a_longer_name_is_left_out():
    lines = ['DCGM_FI_DEV_FB_USED_PERCENT{UUID="GPU-a"} 0.5', "DCGM_FI_DEV_FB_USED 7", ""]
    assert list(collect.parse_exposition(lines)) == [Sample("DCGM_FI_DEV_FB_USED", {}, 7.0)]


def test_oversized_response_is_refused(monkeypatch, serve):
    monkeypatch.setattr(collect, "MAX_CHARACTERS", 10)
    assert list(collect.limited(["12345", "67890"])) == ["12345", "67890"]
    with pytest.raises(ValueError, match="more than 10 characters"):
        list(collect.limited(["12345", "67890", "1"]))
    with pytest.raises(TelemetryUnavailable, match="in an unknown format: more than 10 characters"):
        collect.read_exporter(serve(lambda path, body: (200, "# a comment that is long\n")))


def test_prometheus_query_is_sent_to_its_base_path(serve):
    asked: list[tuple[str, str]] = []

    def answer(path: str, body: str) -> tuple[int, str]:
        asked.append((path, parse_qs(body)["query"][0]))
        return 200, '{"data": {"result": []}}'

    assert collect.read_prometheus(f"{serve(answer)}/prom/") == []
    labels = (
        "dra_claim_namespace, dra_claim_name, dra_driver_name, dra_pool_name, dra_device_name, "
        "dra_mig_device_uuid, UUID, GPU_I_ID, GPU_I_PROFILE"
    )
    assert asked == [("/prom/api/v1/query", f"max by ({labels}) ({metric})") for metric in METRICS]


def test_unreachable_or_rejecting_prometheus_is_reported(serve):
    with pytest.raises(TelemetryUnavailable, match="rejected the query: bad_data"):
        collect.read_prometheus(serve(lambda path, body: (400, '{"error": "bad_data"}')))
    with pytest.raises(TelemetryUnavailable, match=r"cannot be reached \(ConnectError\)\.$"):
        collect.read_prometheus("http://someone:secret@127.0.0.1:1")
    with pytest.raises(TelemetryUnavailable, match="returned data in an unknown format"):
        collect.read_prometheus(serve(lambda path, body: (200, '{"data": {}}')))


def test_every_series_of_an_answer_is_read(serve):
    rows = [
        {"metric": {"UUID": f"GPU-{name}"}, "value": [0, f"{number}"]} for number, name in enumerate("abc")
    ]
    body = json.dumps({"data": {"result": rows}})
    found = collect.read_prometheus(serve(lambda path, query: (200, body)))
    assert found == [
        Sample(metric, {"UUID": f"GPU-{name}"}, float(number))
        for metric in METRICS
        for number, name in enumerate("abc")
    ]


def test_unknown_escape_is_kept():
    texts = {r"a\qb": r"a\qb", r"a\nb": "a\nb", r"a\\b": r"a\b", r"a\"b": 'a"b', r"a\\nb": r"a\nb", "a": "a"}
    assert {text: collect.unescaped(text) for text in texts} == texts


def test_sample_without_uuid_is_no_physical_gpu():
    found = measurements([series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.4, GPU_I_PROFILE="1g.10gb")])
    assert attribute([held(uuid="", parent_uuid="GPU-a", partition="1g.10gb")], found) == []
