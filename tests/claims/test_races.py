"""Each race is run twice: as it is, and without its guard, which shows that the test is able to fail."""

from functools import partial
from threading import Event

import pytest
from django.db.models import QuerySet

from claims import delivery, reconcile, services
from claims.models import Claim, Quota, Transition
from claims.observed import settling, sightings
from claims.quota import quotas
from claims.states import ClaimState
from cluster.kinds import RESOURCE_CLAIM
from core.errors import Conflict, QuotaExceeded
from inventory.models import ResourceClaim
from tests.claims.mirror import Mirror, result
from tests.claims.threads import Meeting, at_once
from tests.factories import make_claim, make_profile, make_quota, make_spec

pytestmark = pytest.mark.django_db(transaction=True)


def without_row_locks(monkeypatch):
    monkeypatch.setattr(QuerySet, "select_for_update", lambda self, **_: self)


def without_compare_and_set(monkeypatch):
    """
    Advance as one would write it without thinking of others: set the state of the row, whatever it is now.
    """

    def advance(self, to, *, why, by=None, **fields):
        Claim.objects.filter(pk=self.pk).update(state=to, **fields)
        self.history.create(old=self.state, new=to, why=why, by=by)
        self.refresh_from_db()
        return True

    monkeypatch.setattr(Claim, "advance", advance)


@pytest.fixture
def quiet(monkeypatch):
    """Nothing is delivered: the race is between people."""
    monkeypatch.setattr("claims.tasks.deliver.delay", lambda _id: None)
    monkeypatch.setattr("claims.tasks.remove.delay", lambda _id: None)


@pytest.mark.parametrize("locked", [True, False])
def test_two_at_once_cannot_share_the_last_devices(ask, monkeypatch, locked):
    meeting, count = Meeting(guarded=locked), quotas.standing_of

    def count_and_wait(rows):
        counted = count(rows)
        meeting.wait()
        return counted

    monkeypatch.setattr(quotas, "standing_of", count_and_wait)
    if not locked:
        without_row_locks(monkeypatch)
    answers = at_once(partial(ask, devices=5), partial(ask, devices=5))
    granted = [answer for answer in answers if isinstance(answer, Claim)]
    assert len(granted) == (1 if locked else 2)
    assert len([answer for answer in answers if isinstance(answer, QuotaExceeded)]) == (1 if locked else 0)


@pytest.mark.parametrize("guarded", [True, False])
def test_of_two_approvers_one_is_first_and_the_other_hears_of_it(
    ask, lena, lars, quiet, monkeypatch, guarded
):
    claim = ask()
    if not guarded:
        without_compare_and_set(monkeypatch)
    _meet_before_advancing(monkeypatch, guarded=guarded)
    approve = partial(services.approve, claim=claim, spec_hash=claim.spec_hash)
    answers = at_once(partial(approve, by=lena), partial(approve, by=lars))
    approvals = Transition.objects.filter(claim=claim, new=ClaimState.APPROVED)
    if not guarded:
        assert approvals.count() == 2
        return
    first = approvals.get().by
    refusal = next(answer for answer in answers if isinstance(answer, Conflict))
    assert refusal.message.startswith(f"{first} was first and approved {claim}")


@pytest.mark.parametrize("guarded", [True, False])
def test_approve_against_withdraw_has_one_winner(ask, alice, lena, quiet, monkeypatch, guarded):
    claim = ask()
    if not guarded:
        without_compare_and_set(monkeypatch)
    _meet_before_advancing(monkeypatch, guarded=guarded)
    answers = at_once(
        partial(services.approve, claim=claim, by=lena, spec_hash=claim.spec_hash),
        partial(services.withdraw, claim=claim, by=alice),
    )
    steps = list(Transition.objects.filter(claim=claim, old=ClaimState.REQUESTED))
    assert len(steps) == (1 if guarded else 2)
    if guarded:
        claim.refresh_from_db()
        assert claim.state == steps[0].new
        assert len([answer for answer in answers if isinstance(answer, Conflict)]) == 1


@pytest.mark.parametrize("guarded", [True, False])
def test_two_deliveries_at_once_write_one_object_and_one_step(
    vision, fra, train, alice, gateway, monkeypatch, guarded
):
    claim = make_claim(vision, by=alice, cluster=fra, profile=train, state=ClaimState.APPROVED)
    meeting, get = Meeting(guarded=False), gateway.get

    def get_and_wait(*args, **kwargs):
        found = get(*args, **kwargs)
        if found is None:
            meeting.wait()
        return found

    monkeypatch.setattr(gateway, "get", get_and_wait)
    if not guarded:
        without_compare_and_set(monkeypatch)
        _meet_before_advancing(monkeypatch, guarded=False)
    deliver = partial(delivery.deliver, str(claim.pk))
    at_once(deliver, deliver)
    claim.refresh_from_db()
    assert claim.state == ClaimState.PROVISIONED
    assert claim.object_uid == get(RESOURCE_CLAIM, claim.name, namespace="vision")["metadata"]["uid"]
    assert claim.history.filter(new=ClaimState.PROVISIONED).count() == (1 if guarded else 2)


@pytest.mark.parametrize("locked", [True, False])
def test_an_older_sighting_cannot_overtake_a_newer_one(vision, fra, train, alice, monkeypatch, locked):
    """
    One reconciler has looked while the device was held, then sleeps; the device is given back meanwhile.
    """
    claim = make_claim(
        vision, by=alice, cluster=fra, profile=train, state=ClaimState.PROVISIONED, name="sam", object_uid="u"
    )
    result = {"request": "gpu", "driver": "d", "pool": "p", "device": "gpu-0"}
    raw = {"metadata": {}, "spec": claim.spec, "status": {"allocation": {"devices": {"results": [result]}}}}
    row = ResourceClaim.objects.create(
        cluster=fra, uid="u", namespace="vision", name="sam", owner=str(claim.pk), origin="portal", raw=raw
    )
    meeting, look, looks = Meeting(guarded=locked), sightings.look, []

    def look_and_sleep(claims):
        seen = look(claims)
        looks.append(seen)
        if len(looks) == 1:
            meeting.wait()  # the device is given back, and another reconciler may run
            meeting.wait()
        return seen

    def give_back():
        meeting.wait()
        free = {**raw, "status": {}}
        ResourceClaim.objects.filter(pk=row.pk).update(raw=free, resource_version="2")
        if not locked:
            reconcile.settle(claim.pk)
            meeting.wait()

    monkeypatch.setattr(reconcile, "look", look_and_sleep)
    if not locked:
        without_row_locks(monkeypatch)
    at_once(partial(reconcile.settle, claim.pk), give_back)
    monkeypatch.setattr(reconcile, "look", look)
    if locked:
        reconcile.reconcile([claim.pk])
    claim.refresh_from_db()
    assert claim.state == (ClaimState.PROVISIONED if locked else ClaimState.ALLOCATED)


@pytest.mark.parametrize("locked", [True, False])
def test_what_a_request_has_counted_stays_true_while_a_claim_counts_for_its_worst_again(
    ask, lena, vision, fra, quota, quiet, monkeypatch, locked
):
    """All GPUs are free while a claim holds its small alternative. It gives that back as others ask."""
    make_quota(vision, 1, device_class="mig.nvidia.com")
    small = make_profile("slice-10", spec=make_spec(device_class="mig.nvidia.com"), scalable="")
    claim = ask(devices=8, alternatives=[small], name="mine")
    services.approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    row = Mirror(fra).claim("mine", claim, result("gpu-0-mig-1", request="gpu/slice-10"))
    reconcile.settle(claim.pk)
    ResourceClaim.objects.filter(pk=row.pk).update(raw={**row.raw, "status": {}}, resource_version="back")
    counted, meeting, count, seen = Event(), Meeting(guarded=locked), quotas.standing_of, []

    def count_twice(rows):
        seen.append(count(rows))
        counted.set()
        meeting.wait()
        seen.append(count(rows))
        return seen[0]

    def give_back():
        assert counted.wait(60)
        reconcile.settle(claim.pk)
        meeting.wait()

    monkeypatch.setattr(quotas, "standing_of", count_twice)
    if not locked:
        monkeypatch.setattr(settling, "_lock", lambda *_: None)
    asked, _nothing = at_once(partial(ask, devices=8), give_back)
    assert isinstance(asked, Claim)
    assert [standing.held for (standing,) in seen] == ([0, 0] if locked else [0, 8])
    assert claim.charges.get(device_class=quota.device_class).settled is None
    assert count([quota])[0].over == 8  # it came second: nothing is taken back


def test_the_same_key_twice_at_once_is_one_claim(ask):
    first, second = at_once(partial(ask, key="same"), partial(ask, key="same"))
    assert isinstance(first, Claim)
    assert first == second


def test_a_quota_set_while_a_request_is_counted_does_not_deadlock(ask, vision, root, quota):
    answers = at_once(
        partial(ask, devices=4),
        partial(services.set_quota, by=root, team=vision, device_class=quota.device_class, devices=6),
    )
    assert not [answer for answer in answers if isinstance(answer, Exception)]
    assert Quota.objects.get().devices == 6


def _meet_before_advancing(monkeypatch, *, guarded):
    meeting, advance = Meeting(guarded=guarded), Claim.advance

    def wait_and_advance(self, to, **fields):
        meeting.wait()
        return advance(self, to, **fields)

    monkeypatch.setattr(Claim, "advance", wait_and_advance)
