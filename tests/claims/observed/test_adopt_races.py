"""Adopting while others count against the same quota; run without the guard too, which shows it can fail."""

from datetime import timedelta
from functools import partial

import pytest
from django.db import connections
from django.db.models import QuerySet

from claims import services
from claims.models import Claim
from claims.quota import quotas
from core.errors import QuotaExceeded
from inventory.models import ResourceClaim
from tests.claims.threads import Meeting, at_once
from tests.factories import make_quota, make_spec, make_user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def row(fra, gateway, quota, train, monkeypatch):
    monkeypatch.setattr("claims.tasks.deliver.delay", lambda _id: None)
    monkeypatch.setattr("claims.tasks.label.delay", lambda _id: None)
    monkeypatch.setattr("claims.tasks.reconcile_cluster.delay", lambda _cluster, _names: None)
    raw = {"metadata": {"name": "by-hand"}, "spec": make_spec(2)}
    return ResourceClaim.objects.create(
        cluster=fra, uid="u-1", name="by-hand", namespace="vision", raw=raw, origin="foreign"
    )


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """The threads' connections wait as long for a lock as a loaded machine needs."""
    options = connections.databases["default"]["OPTIONS"]
    monkeypatch.setitem(options, "options", "-c lock_timeout=60000 -c timezone=UTC")


def adopting(row, by, owner, profile):
    duration = timedelta(hours=24)
    return partial(services.adopt, row=row, by=by, owner=owner, profile=profile, duration=duration)


@pytest.mark.parametrize("locked", [True, False])
def test_a_request_and_an_adoption_cannot_share_the_last_devices(
    ask, row, vision, train, root, alice, monkeypatch, locked
):
    make_quota(vision, 2, profile=train)
    meeting, count = Meeting(guarded=locked), quotas.standing_of

    def count_and_wait(rows):
        counted = count(rows)
        meeting.wait()
        return counted

    monkeypatch.setattr(quotas, "standing_of", count_and_wait)
    if not locked:
        monkeypatch.setattr(QuerySet, "select_for_update", lambda self, **_: self)
    answers = at_once(adopting(row, root, alice, train), partial(ask, devices=2))
    granted = [answer for answer in answers if isinstance(answer, Claim)]
    assert len(granted) == (1 if locked else 2)
    assert len([answer for answer in answers if isinstance(answer, QuotaExceeded)]) == (1 if locked else 0)


def test_two_admins_at_once_adopt_one_claim(row, root, alice, train):
    other = make_user("ada", admin=True)
    answers = at_once(adopting(row, root, alice, train), adopting(row, other, alice, train))
    assert len({answer.pk for answer in answers if isinstance(answer, Claim)}) == 1
    assert Claim.objects.count() == 1
