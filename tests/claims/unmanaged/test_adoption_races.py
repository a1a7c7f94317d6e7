"""Adopting while others count against the same quota; run without the guard too, which shows it can fail."""

from datetime import timedelta
from functools import partial

import pytest
from django.utils import timezone

from claims.lifecycle.services import accept_object, release
from claims.models import Claim
from claims.quotas import quota_usage
from claims.states import ClaimState
from claims.unmanaged.services import adopt
from core.errors import QuotaExceeded
from inventory.models import ResourceClaim
from tests.claims.mirror import Mirror, result
from tests.factories import make_claim, make_quota, make_spec, make_user
from tests.threads import Race, without_lock

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def row(fra, gateway, quota, train, monkeypatch):
    monkeypatch.setattr("claims.delivery.tasks.deliver.delay", lambda _id: None)
    monkeypatch.setattr("claims.delivery.tasks.label.delay", lambda _id: None)
    monkeypatch.setattr("claims.delivery.tasks.reconcile_objects.delay", lambda _cluster, _names: None)
    raw = {"metadata": {"name": "by-hand"}, "spec": make_spec(2)}
    return ResourceClaim.objects.create(
        cluster=fra, uid="u-1", name="by-hand", namespace="vision", raw=raw, origin="foreign"
    )


def adopting(row, by, owner, profile):
    duration = timedelta(hours=24)
    return partial(adopt, row=row, by=by, owner=owner, profile=profile, duration=duration)


@pytest.mark.parametrize("locked", [True, False])
def test_a_request_and_an_adoption_cannot_share_the_last_devices(
    ask, row, vision, train, root, alice, monkeypatch, locked
):
    make_quota(vision, 2, profile=train)
    race = Race(monkeypatch)
    race.hold_after(quota_usage, "quota_usage")
    if not locked:
        without_lock(monkeypatch, "claims.unmanaged.services._adopt")
    adopted, asked = race.run(adopting(row, root, alice, train), partial(ask, devices=2))
    assert race.waited is locked
    assert isinstance(adopted, Claim)
    assert isinstance(asked, QuotaExceeded if locked else Claim)


def test_two_admins_at_once_adopt_one_claim(row, root, alice, train, monkeypatch):
    """The second has found the object to be nobody's before the first has made a claim of it."""
    other = make_user("ada", admin=True)
    race = Race(monkeypatch)
    race.hold_before(Claim.objects, "create")
    first, second = race.run(adopting(row, root, alice, train), adopting(row, other, alice, train))
    assert race.waited
    assert isinstance(first, Claim)
    assert first == second == Claim.objects.get()


@pytest.mark.parametrize("locked", [True, False])
def test_who_accepts_an_object_does_not_write_of_a_state_that_is_over(
    fra, vision, train, alice, root, gateway, monkeypatch, locked
):
    """Its owner gives the claim back at the moment at which an admin accepts its new object."""
    monkeypatch.setattr("claims.delivery.tasks.remove.delay", lambda _id: None)
    monkeypatch.setattr("claims.delivery.tasks.reconcile_objects.delay", lambda _cluster, _names: None)
    claim = make_claim(
        vision, by=alice, cluster=fra, profile=train, state=ClaimState.PROVISIONED, name="sam", object_uid="u"
    )
    mirror = Mirror(fra)
    mirror.claim("sam", claim, uid="u")
    mirror.gone("u", timezone.now())
    mirror.claim("sam", claim, result("gpu-0"), uid="v")
    race = Race(monkeypatch)
    race.hold_before(Claim, "remark")
    if not locked:
        without_lock(monkeypatch, "claims.access.lock_claim")
    accepted, released = race.run(
        partial(accept_object, claim=claim, by=root),
        partial(release, claim=claim, by=alice),
    )
    assert race.waited is locked
    assert isinstance(accepted, Claim)
    assert isinstance(released, Claim)
    steps = list(claim.history.order_by("pk"))
    assert steps[-1].new == (ClaimState.RELEASING if locked else steps[-2].old)
    assert (steps[-1].old == steps[-2].new) is locked
