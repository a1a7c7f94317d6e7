"""Claims whose devices are idle."""

from datetime import timedelta

import pytest

from inventory.models import Device, DeviceUtilization
from inventory.states import DeviceUse
from tests.usage.conftest import NOON, hold
from tests.usage.test_collect import mirrored

HOUR = timedelta(hours=1)


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
