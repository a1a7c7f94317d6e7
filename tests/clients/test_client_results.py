"""Answers as typed objects: what a newer or an older portal sends never breaks them."""

from dataclasses import fields
from datetime import timedelta
from decimal import Decimal

import dragoman
import pytest
from dragoman import results
from dragoman._async.claim import visible_devices
from dragoman.results import ClaimInfo, Match, Usage
from dragoman.text import duration_value, span

CLAIM = {"id": "1", "state": "allocated", "version": 3}


def test_values_have_their_types():
    claim = ClaimInfo.of(
        CLAIM | {"expires_at": "2026-11-27T10:00:00Z", "allocations": [{"device": "gpu-0", "node_name": "n"}]}
    )
    assert claim.expires_at.isoformat() == "2026-11-27T10:00:00+00:00"
    assert claim.allocations[0].device == "gpu-0"
    cost = results.Cost.of({"amounts": [{"currency": "EUR", "amount": "0.10"}], "device_hours": "1.50"})
    assert cost.amounts[0].amount + Decimal("0.2") == Decimal("0.3")
    assert str(cost) == "0.10 EUR (1.50 GPU-hours)"


def test_an_unknown_field_is_kept_in_raw():
    claim = ClaimInfo.of(CLAIM | {"field_of_2030": {"a": 1}})
    assert claim.raw["field_of_2030"] == {"a": 1}


def test_a_state_of_a_newer_portal_is_kept():
    assert ClaimInfo.of(CLAIM | {"state": "hibernating"}).state == "hibernating"


def test_a_field_that_an_older_portal_does_not_send_has_its_default():
    assert ClaimInfo.of(CLAIM).allocations == ()
    assert ClaimInfo.of(CLAIM | {"decided_by": None}).decided_by == ""


def test_not_measured_is_none_and_never_0():
    usage = Usage.of({"points": [{"at": "2026-11-27T10:00:00Z", "activity": None}]})
    assert usage.points[0].activity is None
    assert usage.mean_activity is None


def test_two_answers_with_the_same_content_are_equal():
    assert ClaimInfo.of(CLAIM) == ClaimInfo.of(CLAIM | {"new": 1})


def test_a_match_says_in_words_what_speaks_against_it():
    match = Match.of(
        {
            "match": {"fits": True, "free": 2, "matching": 8},
            "quota": [{"label": "GPU", "fits": False, "sentence": "vision has 8 of 8."}],
            "fits_quota": False,
            "verdict": {"outcome": "refused", "fits": False, "sentence": "Over quota by 1 device."},
            "approval": {"sentence": "Aylin approves."},
        }
    )
    assert not match.fits
    assert str(match) == (
        "Over quota by 1 device. 2 of 8 matching devices are free now. vision has 8 of 8. Aylin approves."
    )


@pytest.mark.parametrize("cls", [one for one in vars(results).values() if isinstance(one, type)])
def test_every_type_can_be_read(cls):
    if issubclass(cls, results.Result):
        assert set(results.field_types(cls)) == {one.name for one in fields(cls)} - {"raw"}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (61, "1 min"), (3_700, "1 h 1 min"), (90_000, "1 d 1 h"), (86_460, "1 d")],
)
def test_spans_are_short(seconds, text):
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("hours", "duration", "sent"),
    [
        (4, None, 14_400),
        (0.5, None, 1_800),
        (None, "1d 12h", "1d 12h"),
        (None, timedelta(hours=2), 7_200),
        (None, timedelta(days=1, hours=2), 93_600),
        (None, None, None),
    ],
)
def test_a_duration_is_sent_as_seconds_or_as_text(hours, duration, sent):
    assert duration_value(hours, duration) == sent


def test_hours_and_a_duration_are_one_too_many():
    with pytest.raises(ValueError, match="not both"):
        duration_value(1, "1h")


def test_a_claim_without_telemetry_is_a_table_of_numbers():
    pytest.importorskip("pandas")
    usage = Usage.of({"points": [{"at": "2026-11-28T10:00:00Z", "samples": 0, "expected": 30}]})
    frame = usage.frame()
    assert {str(kind) for name, kind in frame.dtypes.items() if name != "presence"} == {"float64", "int64"}
    assert frame["activity"].isna().all()
    assert frame["activity"].mean() != 0


def test_every_type_of_a_method_is_found_where_the_package_says():
    assert "dragoman.results" in dragoman.__doc__
    assert set(dragoman.__all__) >= {"Client", "UnknownName"}
    assert all(hasattr(dragoman, name) for name in dragoman.__all__)


def test_programs_see_each_device_once_and_only_those_with_an_id():
    held = [
        *(("gpu.nvidia.com", uuid) for uuid in ("GPU-1", "GPU-2", "GPU-1", "")),
        *(("gpu.amd.com", "7"), ("other.example", "x")),
    ]
    devices = tuple(results.Device(device="d", driver=driver, uuid=uuid) for driver, uuid in held)
    assert visible_devices(devices) == {"CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2", "ROCR_VISIBLE_DEVICES": "7"}
    assert visible_devices(()) == {}
