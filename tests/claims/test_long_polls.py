"""Long polls never occupy every thread of the web server."""

from threading import BoundedSemaphore

import pytest

from claims.claim_page import api
from tests.factories import make_claim

pytestmark = pytest.mark.django_db


@pytest.fixture
def one_slot(monkeypatch):
    slots = BoundedSemaphore(1)
    monkeypatch.setattr(api, "WAIT_SLOTS", slots)
    monkeypatch.setattr(api.time, "sleep", lambda seconds: pytest.fail("It waits."))
    return slots


def test_without_free_slot_wait_returns_at_once(one_slot):
    claim = make_claim()
    with one_slot:
        assert api.wait_for_change(claim, claim.version, 25) == api.WokenBy.BUSY
        assert api.wait_for_change(claim, claim.version - 1, 25) == api.WokenBy.EARLIER


def test_wait_returns_its_slot(one_slot):
    claim = make_claim()
    with pytest.raises(pytest.fail.Exception, match="It waits"):
        api.wait_for_change(claim, claim.version, 25)
    assert one_slot.acquire(blocking=False)
