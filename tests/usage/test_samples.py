import pytest

from usage.samples import Measurement, Series, measurements


def series(metric: str, value: float, **labels: str) -> Series:
    return Series(labels, {metric: value})


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
