"""Two change one limit at once, or write it: with the lock that decides it, and without."""

from datetime import timedelta
from functools import partial

import pytest
from django.utils import timezone

from claims.models import Quota, QuotaRequest, TeamNamespace
from claims.quotas import quota_usage, resource_quota, services
from claims.quotas import services as quota_requests
from cluster.protocol import RESOURCE_QUOTA
from core.errors import Conflict, Invalid
from tests.factories import GPU_CLASS, make_user
from tests.threads import Race, without_lock

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def want(alice, vision, quota):
    """Ask for ten devices instead of eight."""
    requested = {"team": vision, "device_class": GPU_CLASS, "devices": 10, "reason": "A paper."}
    return lambda **fields: services.request_quota(**{"by": alice, "key": "a", **requested, **fields})


def limit_of(quota):
    (usage,) = quota_usage.quota_usage([Quota.objects.select_related("team").get(pk=quota.pk)])
    return usage.limit


@pytest.mark.parametrize("locked", [True, False])
def test_of_two_who_ask_for_the_same_at_once_the_second_hears_of_the_first(want, lena, monkeypatch, locked):
    race = Race(monkeypatch)
    race.hold_before(QuotaRequest.objects, "create")
    if not locked:
        without_lock(monkeypatch, "claims.quotas.services.lock_team")
    first, second = race.run(want, partial(want, by=lena, key="b"))
    assert race.waited is locked
    assert isinstance(first, QuotaRequest)
    assert isinstance(second, Conflict if locked else QuotaRequest)


@pytest.mark.parametrize("locked", [True, False])
def test_of_two_admins_at_once_the_second_hears_who_was_first(want, root, quota, monkeypatch, locked):
    """And whoever sends it twice is answered twice."""
    asked = want(until=timezone.now() + timedelta(days=1))
    other = make_user("ada", admin=True)
    race = Race(monkeypatch)
    race.hold_after(quota_requests, "request_impact")
    if not locked:
        without_lock(monkeypatch, "claims.quotas.services.to_decide")
    approve = partial(services.approve_quota_request, quota_request=asked)
    first, second = race.run(partial(approve, by=root), partial(approve, by=other))
    assert race.waited  # without the lock of the request for that of the quota
    assert limit_of(quota) == 10
    assert approve(by=root) == first
    if locked:
        assert isinstance(second, Conflict)
        assert second.message.startswith("This request was already approved by root")
    else:
        assert isinstance(second, Invalid)
        assert second.message.endswith("there is nothing left to approve.")


@pytest.mark.parametrize("locked", [True, False])
def test_a_limit_that_an_admin_sets_meanwhile_is_not_moved_by_an_approval(
    want, root, vision, quota, monkeypatch, locked
):
    """Ten are approved where eight were allowed; another admin sets twelve after that was worked out."""
    asked = want()
    other = make_user("ada", admin=True)
    race = Race(monkeypatch)
    race.hold_after(quota_requests, "request_impact")
    if not locked:
        without_lock(monkeypatch, "claims.quotas.services.lock_team")
    _approved, saved = race.run(
        partial(services.approve_quota_request, quota_request=asked, by=root),
        partial(services.set_quota, by=other, team=vision, device_class=GPU_CLASS, devices=12),
    )
    assert race.waited is locked
    assert saved.devices == 12
    assert limit_of(quota) == (12 if locked else 10)  # else root lowers a limit that root has not seen


@pytest.mark.parametrize("locked", [True, False])
def test_a_first_limit_that_an_admin_sets_meanwhile_is_not_moved_by_an_approval(
    want, root, vision, monkeypatch, locked
):
    """As above, of a class for which the team has no quota yet."""
    asked = want(device_class="mig.nvidia.com")
    other = make_user("ada", admin=True)
    race = Race(monkeypatch)
    race.hold_after(quota_requests, "request_impact")
    if not locked:
        without_lock(monkeypatch, "claims.quotas.services.lock_team")
    _approved, saved = race.run(
        partial(services.approve_quota_request, quota_request=asked, by=root),
        partial(services.set_quota, by=other, team=vision, device_class="mig.nvidia.com", devices=12),
    )
    assert race.waited is locked
    assert saved.devices == 12
    assert Quota.objects.get(team=vision, device_class="mig.nvidia.com").devices == (12 if locked else 10)


@pytest.mark.parametrize("locked", [True, False])
def test_who_notes_last_what_a_namespace_may_hold_has_counted_last(
    vision, fra, quota, root, gateway, monkeypatch, locked
):
    """One has counted eight devices; the limit becomes two, and another counts those."""
    monkeypatch.setattr("claims.quotas.tasks.write_team.delay", lambda _team: None)
    place = TeamNamespace.objects.select_related("team", "cluster").get()
    resource_quota.ensure(place, gateway)
    race = Race(monkeypatch)
    race.hold_after(resource_quota, "hard_limits")
    if not locked:
        without_lock(monkeypatch, "claims.quotas.resource_quota._note_limits")

    def keep_what_is_less_now():
        services.set_quota(by=root, team=vision, device_class=GPU_CLASS, devices=2)
        return resource_quota.ensure(place, gateway)

    race.run(partial(resource_quota.ensure, place, gateway), keep_what_is_less_now)
    assert race.waited is locked
    hard = gateway.get(RESOURCE_QUOTA, resource_quota.NAME, namespace="vision")["spec"]["hard"]
    assert set(hard.values()) == {"2" if locked else "8"}
