"""Owners are reminded of claims whose devices have all been idle for two hours, once per idle time."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from claims.states import ClaimState
from inventory.models import Device, DeviceUtilization
from inventory.states import DeviceUse
from notify.models import Notice
from tests.factories import make_claim
from tests.usage.conftest import NOON, hold
from tests.usage.test_collect import mirrored
from usage.idle_notices import remind_of_idle_claims

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture
def idles(fra):
    """Return a function that lets a claim hold a device that has been idle since noon, or is `use`."""

    def idle(claim, name, *, since=NOON, use=DeviceUse.IDLE):
        hold(claim, NOON - HOUR, device=name)
        mirrored(fra, name, "")
        device = Device.objects.get(name=name)
        if use:
            DeviceUtilization.objects.create(device=device, held_by=device.held_by, use=use, since=since)

    return idle


def test_owner_is_reminded_once_of_an_idle_claim(idles, claim, alice):
    idles(claim, "gpu-0")
    idles(claim, "gpu-1", since=NOON - HOUR)
    remind_of_idle_claims(NOON + 2 * HOUR - MINUTE)
    assert not Notice.objects.exists()
    for minutes in (5, 20, 300):
        remind_of_idle_claims(NOON + 2 * HOUR + minutes * MINUTE)
    (notice,) = Notice.objects.all()
    assert (notice.user, notice.important, notice.url) == (alice, True, f"/claims/{claim.pk}/")
    assert notice.title == f"{claim} has been idle for 2 h 5 min"
    assert "its 2 devices were below 10 % utilization. Nobody else can use what it holds" in notice.body
    DeviceUtilization.objects.update(since=NOON + 6 * HOUR)  # it worked, and stopped again
    remind_of_idle_claims(NOON + 8 * HOUR)
    assert Notice.objects.count() == 2


@pytest.mark.parametrize("use", [None, DeviceUse.NO_TELEMETRY])
def test_one_device_that_works_or_is_not_measured_is_enough(idles, claim, use):
    idles(claim, "gpu-0")
    idles(claim, "gpu-1", use=use)
    remind_of_idle_claims(NOON + 12 * HOUR)
    assert not Notice.objects.exists()


def test_claim_that_is_released_is_not_meant(idles, claim):
    idles(claim, "gpu-0")
    claim.advance(ClaimState.RELEASING, why="done")
    remind_of_idle_claims(NOON + 12 * HOUR)
    assert not Notice.objects.exists()


def test_reminders_take_the_same_queries_for_many_claims_that_were_told(idles, claim, vision, alice, fra):
    idles(claim, "gpu-0")
    remind_of_idle_claims(NOON + 3 * HOUR)
    with CaptureQueriesContext(connection) as for_one:
        remind_of_idle_claims(NOON + 3 * HOUR)
    for number in range(1, 5):
        another = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False)
        idles(another, f"gpu-{number}")
    remind_of_idle_claims(NOON + 3 * HOUR)
    assert Notice.objects.count() == 5
    with CaptureQueriesContext(connection) as for_many:
        remind_of_idle_claims(NOON + 4 * HOUR)
    assert len(for_many) == len(for_one) == 3
