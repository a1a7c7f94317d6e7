"""Two of a team ask for more of the same at once: with the lock, and without."""

from functools import partial

import pytest
from django.db.models import QuerySet

from claims import services
from claims.models import QuotaRequest
from core.errors import Conflict
from tests.claims.threads import Meeting, at_once
from tests.factories import GPU_CLASS

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("locked", [True, False])
def test_the_second_hears_of_the_first(alice, lena, vision, quota, monkeypatch, locked):
    meeting, create = Meeting(guarded=locked), QuotaRequest.objects.create

    def wait_and_create(**fields):
        meeting.wait()
        return create(**fields)

    monkeypatch.setattr(QuotaRequest.objects, "create", wait_and_create)
    if not locked:
        monkeypatch.setattr(QuerySet, "select_for_update", lambda self, **_: self)
    ask = partial(services.ask_for_quota, team=vision, device_class=GPU_CLASS, devices=10, reason="A paper.")
    answers = at_once(partial(ask, by=alice, key="a"), partial(ask, by=lena, key="b"))
    refused = [answer for answer in answers if isinstance(answer, Conflict)]
    assert QuotaRequest.objects.count() == (1 if locked else 2)
    assert len(refused) == (1 if locked else 0)
