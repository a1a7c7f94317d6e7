"""What is measured: values by metric, within what a GPU can have."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from usage import amd
from usage.samples import (
    MEMORY,
    MEMORY_FREE,
    MEMORY_RESERVED,
    MEMORY_TOTAL,
    MOST,
    Measurement,
    Series,
    measurements,
)
from usage.sources import TelemetrySource, parse_exposition, queries


def series(metric: str, value: float, **labels: str) -> Series:
    return Series(labels, {metric: value})


BLANKS = (9223372036854775792, 1.40737488355328e14, -1, -0.001, float("nan"), float("inf"), float("-inf"))
READ = (
    *((metric, {"UUID": "GPU-a"}, metric, 1.0) for metric in MOST),
    *(
        (prefix + name, {"hostname": "n", "gpu_id": "0"}, metric, amd.FACTORS.get(name, 1.0))
        for name, metric in amd.METRICS.items()
        for prefix in ("", "amd_")
    ),
)


@pytest.mark.parametrize("name_of_exporter", [name for name, *_ in READ])
@given(data=st.data())
def test_value_that_no_gpu_has_is_not_measured(name_of_exporter, data):
    """Each metric by each name: of an exporter, and in the query of Prometheus."""
    name, labels, metric, factor = next(one for one in READ if one[0] == name_of_exporter)
    most = MOST[metric] / factor
    above = st.floats(most * 1.0001, allow_infinity=True)
    value = data.draw(st.sampled_from(BLANKS) | above | st.integers(2147483632, 2147483647))
    assume(factor == 1 or not 0 <= value <= most)  # a blank of DCGM may be a value of AMD
    text = f"{name}{{{','.join(f'{key}="{of}"' for key, of in labels.items())}}} {value!r}"
    assert measurements(parse_exposition([text]).series) == {}
    asked = {**queries(TelemetrySource("http://a", with_amd=True)), MEMORY_TOTAL: f"(x <= {most:.16g})"}
    bound = float(asked[name.removeprefix("amd_")].rpartition("<= ")[2].rstrip(")"))
    assert bound == pytest.approx(most)


@given(st.sampled_from(sorted(MOST)), st.floats(0, 1))
def test_value_that_a_gpu_has_is_measured(metric, part):
    value = min(MOST[metric], 2147483631.0) * part
    ((key, found),) = measurements([series(metric, value, UUID="GPU-a")]).items()
    assert key.uuid == "GPU-a"
    # Without its counterpart, traffic and what is free are only a part of a measurement.
    alone = {one for one in MOST if one.endswith("X_BYTES")} | {MEMORY_FREE, MEMORY_RESERVED}
    assert metric in alone or found != Measurement()


def test_implausible_value_of_a_pod_does_not_hide_that_of_another():
    found = measurements(
        [
            series("DCGM_FI_DEV_GPU_UTIL", 127622, UUID="GPU-a", pod="a"),
            series("DCGM_FI_DEV_GPU_UTIL", 3, UUID="GPU-a", pod="b"),
        ]
    )
    assert [reading.activity for reading in found.values()] == [0.03]


def test_memory_over_that_of_the_device_is_not_measured():
    reading = Measurement(activity=0.5, memory_bytes=90 * 2**30, memory_total=100 * 2**30)
    assert reading.within(80 * 2**30) == Measurement(activity=0.5)
    assert reading.within(90 * 2**30) == Measurement(activity=0.5, memory_bytes=90 * 2**30)
    assert reading.within(100 * 2**30) == reading.within(None) == reading
    used, total = series(MEMORY, 90_000, UUID="GPU-a"), series(MEMORY_TOTAL, 80_000, UUID="GPU-a")
    (found,) = measurements([used, total]).values()
    assert (found.memory_bytes, found.memory_total) == (None, 80_000 * 2**20)


def test_gpu_util_replaces_activity_only_on_a_physical_gpu():
    busy = series("DCGM_FI_DEV_GPU_UTIL", 90, UUID="GPU-a")
    engine = series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.5, UUID="GPU-a")
    slice_ = series("DCGM_FI_DEV_GPU_UTIL", 90, UUID="GPU-a", GPU_I_ID="1", GPU_I_PROFILE="1g.10gb")
    assert [reading.activity for reading in measurements([busy]).values()] == [0.9]
    assert [reading.activity for reading in measurements([busy, engine]).values()] == [0.5]
    assert [reading.activity for reading in measurements([slice_]).values()] == [None]


def test_metrics_of_a_device_become_one_measurement():
    found = measurements(
        [
            series("DCGM_FI_DEV_FB_USED", 1.5, UUID="GPU-a"),
            series("DCGM_FI_DEV_FB_USED", 3, UUID="GPU-a"),
            series("DCGM_FI_DEV_FB_USED", 2, UUID="GPU-a"),
            series("DCGM_FI_DEV_POWER_USAGE", 250.5, UUID="GPU-a"),
            series("DCGM_FI_DEV_GPU_UTIL", 100, UUID="GPU-a"),
            series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1.0, UUID="GPU-b"),
            series("DCGM_FI_DEV_FB_USED", 0.5, UUID="GPU-b"),
            series("DCGM_FI_DEV_SM_CLOCK", 1980, UUID="GPU-c"),
        ]
    )
    assert {key.uuid: reading for key, reading in found.items()} == {
        "GPU-a": Measurement(activity=1.0, memory_bytes=3 * 2**20, power_watts=250.5),
        "GPU-b": Measurement(activity=1.0, memory_bytes=2**19, power_watts=None),
    }


@pytest.mark.parametrize("link", ["pcie", "nvlink"])
def test_traffic_is_that_of_both_directions_and_unknown_without_one(link):
    sent, received = (f"DCGM_FI_PROF_{link.upper()}_{way}_BYTES" for way in ("TX", "RX"))

    def traffic(values):
        (reading,) = measurements([Series({"UUID": "GPU-a"}, values)]).values()
        return getattr(reading, f"{link}_bytes")

    assert traffic({sent: 3e9, received: 1e9}) == 4e9
    assert traffic({sent: 3e9}) is None
    assert traffic({received: 1e9}) is None


def test_largest_measurement_is_per_value_and_unknown_is_not_zero():
    one, other = Measurement(0.2, None, 300.0), Measurement(0.5, 7, None)
    assert one.largest(other) == other.largest(one) == Measurement(0.5, 7, 300.0)
    assert Measurement().largest(Measurement()) == Measurement(None, None, None)
    assert Measurement(0.0, 0, 0.0).largest(Measurement()) == Measurement(0.0, 0, 0.0)
