"""What the browser draws: lines per device, memory beside its limit, and gaps."""

from datetime import UTC, datetime, timedelta

import pytest

from claims.models import Allocation
from usage.charts import chart_data, memory_limit
from usage.series import Point, Presence, Range, UsageSeries

START = datetime(2026, 11, 17, 12, tzinfo=UTC)
STEP = timedelta(minutes=5)
GIB = 2**30


def series(points, devices):
    cut = [
        Point(
            START + number * STEP,
            Presence.MEASURED,
            activity=activity,
            memory_bytes=memory,
            by_device=by_device,
        )
        for number, (activity, memory, by_device) in enumerate(points)
    ]
    return UsageSeries(Range.HOUR, START, START + len(cut) * STEP, STEP, cut, devices)


def held(device, memory=80 * GIB, *, ended=None, pool="p", driver="d"):
    return Allocation(
        driver=driver, pool=pool, device=device, memory_bytes=memory, started_at=START, ended_at=ended
    )


def test_chart_data_has_instants_and_values():
    points = [
        (0.12345, GIB, {"a": 0.12345}),
        (None, None, {}),
        (0.0, 0, {"a": 0.0}),
        (1.0, 1540 * 2**20, {"a": 1.0}),
    ]
    began = int(START.timestamp())
    assert chart_data(series(points, ["a"]), [held("a")]) == {
        "x": [began, began + 300, began + 600, began + 900],
        "step": 300,
        "activity": [{"label": "utilization", "values": [12.3, None, 0.0, 100.0]}],
        "memory": [1.0, None, 0.0, 1.5],
        "lines": {"memory": [{"label": "allocated: 80 GiB", "value": 80.0}]},
    }


@pytest.mark.parametrize(("devices", "lines"), [(0, 1), (1, 1), (2, 2), (5, 5), (6, 1)])
def test_up_to_five_devices_have_a_line_each(devices, lines):
    names = [f"gpu-{number}" for number in range(devices)]
    points = [(0.5, None, {name: number / 10 for number, name in enumerate(names) if number != 1})]
    drawn = chart_data(series(points, names), [])["activity"]
    if lines == 1:
        assert drawn == [{"label": "utilization", "values": [50.0]}]
    else:
        assert drawn == [
            {"label": name, "values": [None if number == 1 else number * 10.0]}
            for number, name in enumerate(names)
        ]


ENDED = START + STEP


@pytest.mark.parametrize(
    ("devices", "limit"),
    [
        ([], None),
        ([held("a"), held("b", 40 * GIB + GIB // 3)], 120.33),
        ([held("a"), held("a")], 80.0),
        ([held("a"), held("a", pool="q"), held("a", driver="e")], 240.0),
        ([held("a"), held("b", None)], None),
        ([held("a", None)], None),
        ([held("a", 40 * GIB), held("b", ended=ENDED)], 40.0),
        ([held("a", ended=ENDED), held("b", 40 * GIB, ended=ENDED), held("c", ended=START)], 120.0),
        ([held("c", None, ended=START), held("a", ended=ENDED)], 80.0),
    ],
)
def test_memory_limit_is_of_devices_held_now_or_last(devices, limit):
    assert memory_limit(devices) == limit
