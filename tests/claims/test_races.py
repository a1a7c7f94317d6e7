"""
Two at once at the same claim or quota. Each race runs twice: as it is, and without the one guard that decides
it, which must go wrong.
"""

from functools import partial

import pytest

from claims.approvals import decide as approvals_decide
from claims.delivery import deliver as delivery
from claims.delivery import reconcile
from claims.lifecycle.services import withdraw
from claims.models import Claim, Quota, Transition
from claims.quotas import quota_usage
from claims.quotas import services as quotas_services
from claims.quotas.services import set_quota
from claims.states import ClaimState
from cluster.protocol import RESOURCE_CLAIM
from core.errors import Conflict, QuotaExceeded
from inventory.models import ResourceClaim
from tests.claims.mirror import Mirror, result
from tests.factories import make_claim, make_profile, make_quota, make_spec
from tests.threads import Race, without_lock

pytestmark = pytest.mark.django_db(transaction=True)


def without_compare_and_set(monkeypatch):
    """
    Advance as one would write it without thinking of others: set the state of the row, whatever it is now.
    """

    def advance(self, to, *, why, by=None, **fields):
        Claim.objects.filter(pk=self.pk).update(state=to, **fields)
        self.history.create(old=self.state, new=to, reason=why, by=by)
        self.refresh_from_db()
        return True

    monkeypatch.setattr(Claim, "advance", advance)


@pytest.fixture
def quiet(monkeypatch):
    """Nothing is delivered: the race is between people."""
    monkeypatch.setattr("claims.delivery.tasks.deliver.delay", lambda _id: None)
    monkeypatch.setattr("claims.delivery.tasks.remove.delay", lambda _id: None)


@pytest.mark.parametrize("locked", [True, False])
def test_two_requests_at_once_cannot_share_the_last_devices(ask, monkeypatch, locked):
    race = Race(monkeypatch)
    race.hold_after(quota_usage, "quota_usage")
    if not locked:
        without_lock(monkeypatch, "claims.requests.services._reserve")
    first, second = race.run(partial(ask, devices=5), partial(ask, devices=5))
    assert race.waited is locked
    assert isinstance(first, Claim)
    assert isinstance(second, QuotaExceeded if locked else Claim)


def test_the_same_key_twice_at_once_is_one_claim(ask, monkeypatch):
    """Both ask for the last devices: the second is told of the claim, not that nothing is left."""
    race = Race(monkeypatch)
    race.hold_after(quota_usage, "quota_usage")
    first, second = race.run(partial(ask, devices=8, key="same"), partial(ask, devices=8, key="same"))
    assert race.waited
    assert isinstance(first, Claim)
    assert first == second


@pytest.mark.parametrize("guarded", [True, False])
def test_of_two_approvers_one_is_first_and_the_other_hears_of_it(
    ask, lena, lars, quiet, monkeypatch, guarded
):
    claim = ask()
    if not guarded:
        without_compare_and_set(monkeypatch)
    race = Race(monkeypatch)
    race.hold_before(Claim, "advance")
    approve = partial(approvals_decide.approve, claim=claim, spec_hash=claim.spec_hash)
    late, _approved = race.run(partial(approve, by=lena), partial(approve, by=lars))
    approvals = Transition.objects.filter(claim=claim, new=ClaimState.APPROVED)
    assert [step.by for step in approvals.order_by("pk")] == ([lars] if guarded else [lars, lena])
    if guarded:
        assert isinstance(late, Conflict)
        assert late.message.startswith(f"lars already approved {claim}")


@pytest.mark.parametrize("guarded", [True, False])
def test_approve_against_withdraw_has_one_winner(ask, alice, lena, quiet, monkeypatch, guarded):
    claim = ask()
    if not guarded:
        without_compare_and_set(monkeypatch)
    race = Race(monkeypatch)
    race.hold_before(Claim, "advance")
    late, _withdrawn = race.run(
        partial(approvals_decide.approve, claim=claim, by=lena, spec_hash=claim.spec_hash),
        partial(withdraw, claim=claim, by=alice),
    )
    assert claim.history.filter(old=ClaimState.REQUESTED).count() == (1 if guarded else 2)
    assert isinstance(late, Conflict) is guarded
    claim.refresh_from_db()
    assert claim.state == (ClaimState.WITHDRAWN if guarded else ClaimState.APPROVED)


@pytest.mark.parametrize("guarded", [True, False])
def test_two_deliveries_at_once_write_one_object_and_one_step(
    vision, fra, train, alice, gateway, monkeypatch, guarded
):
    """The first has found no object and sleeps while the second writes it."""
    claim = make_claim(vision, by=alice, cluster=fra, profile=train, state=ClaimState.APPROVED)
    if not guarded:
        without_compare_and_set(monkeypatch)
    get, race = gateway.get, Race(monkeypatch)
    race.hold_after(gateway, "get")
    deliver = partial(delivery.deliver, str(claim.pk))
    race.run(deliver, deliver)
    claim.refresh_from_db()
    assert claim.state == ClaimState.PROVISIONED
    assert claim.object_uid == get(RESOURCE_CLAIM, claim.name, namespace="vision")["metadata"]["uid"]
    assert claim.history.filter(new=ClaimState.PROVISIONED).count() == (1 if guarded else 2)


@pytest.mark.parametrize("locked", [True, False])
def test_an_older_sighting_cannot_overtake_a_newer_one(vision, fra, train, alice, monkeypatch, locked):
    """
    One reconciler has looked while a device was held, then sleeps; the device is given back, and another
    reconciler looks.
    """
    claim = make_claim(
        vision, by=alice, cluster=fra, profile=train, state=ClaimState.PROVISIONED, name="sam", object_uid="u"
    )
    raw = {"metadata": {}, "spec": claim.spec, "status": {}}
    held = {**raw, "status": {"allocation": {"devices": {"results": [result("gpu-0")]}}}}
    row = ResourceClaim.objects.create(
        cluster=fra, uid="u", namespace="vision", name="sam", owner=str(claim.pk), origin="portal", raw=held
    )

    def settle_after_it_was_given_back():
        ResourceClaim.objects.filter(pk=row.pk).update(raw=raw, resource_version="2")
        reconcile.reconcile_claim(claim.pk)

    race = Race(monkeypatch)
    race.hold_after(reconcile, "observe")
    if not locked:
        without_lock(monkeypatch, "claims.delivery.reconcile.reconcile_claim")
    race.run(partial(reconcile.reconcile_claim, claim.pk), settle_after_it_was_given_back)
    assert race.waited is locked
    claim.refresh_from_db()
    assert claim.state == (ClaimState.PROVISIONED if locked else ClaimState.ALLOCATED)
    assert claim.allocations.filter(ended_at=None).exists() is not locked


@pytest.mark.parametrize("locked", [True, False])
def test_what_a_request_has_counted_stays_true_while_a_claim_counts_for_its_worst_again(
    ask, lena, vision, fra, quota, quiet, monkeypatch, locked
):
    """All GPUs are free while a claim holds its small alternative. It gives that back as others ask."""
    make_quota(vision, 1, device_class="mig.nvidia.com")
    small = make_profile("slice-10", spec=make_spec(device_class="mig.nvidia.com"), scalable="")
    claim = ask(devices=8, alternatives=[small], name="mine")
    approvals_decide.approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    row = Mirror(fra).claim("mine", claim, result("gpu-0-mig-1", request="gpu/slice-10"))
    reconcile.reconcile_claim(claim.pk)
    ResourceClaim.objects.filter(pk=row.pk).update(raw={**row.raw, "status": {}}, resource_version="back")
    race, count, seen = Race(monkeypatch), quota_usage.quota_usage, []

    def count_twice(rows):
        seen.append(count(rows))
        race.hold()
        seen.append(count(rows))
        return seen[0]

    monkeypatch.setattr(quota_usage, "quota_usage", count_twice)
    if not locked:
        without_lock(monkeypatch, "claims.delivery.reconcile._lock_quotas")
    asked, _nothing = race.run(partial(ask, devices=8), partial(reconcile.reconcile_claim, claim.pk))
    assert race.waited is locked
    assert isinstance(asked, Claim)
    assert [usage.held + usage.reserved for (usage,) in seen] == ([0, 0] if locked else [0, 8])
    assert claim.charges.get(device_class=quota.device_class).settled is None
    assert count([quota])[0].over == 8  # it came second: nothing is taken back


def test_a_quota_set_while_a_request_is_counted_does_not_deadlock(ask, vision, root, quota, monkeypatch):
    race = Race(monkeypatch)
    race.hold_after(quota_usage, "quota_usage")
    asked, saved = race.run(
        partial(ask, devices=7),
        partial(set_quota, by=root, team=vision, device_class=quota.device_class, devices=6),
    )
    assert race.waited
    assert isinstance(asked, Claim)
    assert saved == Quota.objects.get(devices=6)


def test_a_request_that_waits_for_a_lower_quota_is_held_to_it(ask, vision, root, quota, monkeypatch):
    race = Race(monkeypatch)
    race.hold_after(quotas_services, "save_quota")
    saved, asked = race.run(
        partial(set_quota, by=root, team=vision, device_class=quota.device_class, devices=6),
        partial(ask, devices=7),
    )
    assert race.waited
    assert saved.devices == 6
    assert isinstance(asked, QuotaExceeded)
