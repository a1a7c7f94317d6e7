"""Two at once in the life of a claim: each race as it is, and without its guard, which must go wrong."""

from datetime import timedelta
from functools import partial

import pytest
from django.utils import timezone

from claims.approvals import decide
from claims.lifecycle import expiry
from claims.lifecycle.services import approve_extension, deny_extension, extend
from claims.models import Claim, Extension, PendingRequest, ProfileVersion, Quota, RequestStatus
from claims.quotas import quota_usage
from claims.requests import services as requests_services
from claims.states import ClaimState
from core.errors import Conflict, Invalid
from tests.factories import make_profile, make_quota, make_spec
from tests.threads import Race, without_lock

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    """Nothing is delivered: the race is between people."""
    monkeypatch.setattr("claims.delivery.tasks.deliver.delay", lambda _id: None)
    monkeypatch.setattr("claims.delivery.tasks.remove.delay", lambda _id: None)


@pytest.fixture
def held(ask, lena):
    """Return a function that makes an approved claim of so many devices."""

    def make(devices, name):
        claim = ask(devices=devices, name=name)
        decide.approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
        claim.refresh_from_db()
        return claim

    return make


def used():
    (usage,) = quota_usage.quota_usage(Quota.objects.all())
    return usage.used


@pytest.mark.parametrize("locked", [True, False])
def test_of_two_replacements_at_once_one_is_made(ask, held, vision, monkeypatch, locked):
    """The second is for another device class, so no quota row keeps the two apart."""
    make_quota(vision, 4, device_class="mig.nvidia.com")
    small = make_profile("slice-10", spec=make_spec(device_class="mig.nvidia.com"))
    old = held(4, "old")
    race = Race(monkeypatch)
    race.hold_after(requests_services, "reason_not_to_replace")
    if not locked:
        without_lock(monkeypatch, "claims.access.lock_claim")
    first, second = race.run(
        partial(ask, devices=8, name="one", replaces=old),
        partial(ask, devices=4, name="two", replaces=old, profile=small),
    )
    assert race.waited is locked
    assert isinstance(first, Claim)
    assert isinstance(second, Conflict if locked else Claim)
    assert old.successors.count() == (1 if locked else 2)


@pytest.mark.parametrize("locked", [True, False])
def test_what_is_carried_is_given_up_however_late_the_old_claim_was_read(ask, held, monkeypatch, locked):
    """The old claim ends between being read and being replaced: nothing of it may be carried on."""
    old = held(4, "old")
    race = Race(monkeypatch)
    race.hold_after(requests_services, "reason_not_to_replace")
    if not locked:
        without_lock(monkeypatch, "claims.access.lock_claim")
    made, _nothing = race.run(
        partial(ask, devices=8, name="new", replaces=old),
        lambda: Claim.objects.get(pk=old.pk).advance(ClaimState.FAILED, why="Gone."),
    )
    assert race.waited is locked
    assert isinstance(made, Claim)
    assert used() == (8 if locked else 4)


@pytest.mark.security("races", "two extensions at once")
@pytest.mark.parametrize("locked", [True, False])
def test_two_extensions_at_once_are_not_two(held, alice, monkeypatch, locked):
    ProfileVersion.objects.update(extension=timedelta(days=1))
    claim = held(1, "sam")
    race = Race(monkeypatch)
    race.hold_before(Extension.objects, "create")
    if not locked:
        without_lock(monkeypatch, "claims.access.lock_claim")
    until = claim.expires_at + timedelta(days=1)
    race.run(*(partial(extend, claim=claim, by=alice, until=until, key=key) for key in "ab"))
    assert race.waited is locked
    assert Extension.objects.filter(status=RequestStatus.APPROVED).count() == (1 if locked else 2)


@pytest.mark.parametrize("locked", [True, False])
def test_of_two_wishes_at_once_one_waits_and_the_other_hears_of_it(held, alice, monkeypatch, locked):
    """Where both get past the lock, the database keeps the second out, and the sentence is the same."""
    claim = held(1, "sam")
    race = Race(monkeypatch)
    race.hold_before(Extension.objects, "create")
    if not locked:
        without_lock(monkeypatch, "claims.access.lock_claim")
    until = claim.expires_at + timedelta(days=3)
    answers = race.run(*(partial(extend, claim=claim, by=alice, until=until, key=key) for key in "ab"))
    assert race.waited is locked
    made, refused = answers if locked else reversed(answers)
    assert made == Extension.objects.get()
    assert made.status == RequestStatus.WAITING
    assert isinstance(refused, Conflict)
    assert refused.message.split(" until ")[0] == "You have already requested an extension of sam"


def test_one_key_for_two_claims_at_once_extends_one(held, alice, monkeypatch):
    ProfileVersion.objects.update(extension=timedelta(days=1))
    race = Race(monkeypatch)
    race.hold_before(Extension.objects, "create")
    refused, made = race.run(
        *(
            partial(extend, claim=one, by=alice, until=one.expires_at + timedelta(hours=1), key="k")
            for one in (held(1, "sam"), held(1, "tom"))
        )
    )
    assert made == Extension.objects.get()
    assert isinstance(refused, Invalid)
    assert refused.message.startswith("This Idempotency-Key was used for an extension of ")


@pytest.mark.parametrize("guarded", [True, False])
def test_of_two_who_decide_on_an_extension_one_is_first(held, alice, lena, lars, monkeypatch, guarded):
    """The guard is the compare-and-set of `PendingRequest.decide`: under the lock the second is late."""
    claim = held(1, "sam")
    until = claim.expires_at + timedelta(days=3)
    extension = extend(claim=claim, by=alice, until=until, key="k")

    def decide_whatever_it_is(self, status, *, by, note=""):
        Extension.objects.filter(pk=self.pk).update(status=status, decided_by=by)
        self.refresh_from_db()
        return True

    if not guarded:
        monkeypatch.setattr(PendingRequest, "decide", decide_whatever_it_is)
    race = Race(monkeypatch)
    race.hold_before(PendingRequest, "decide")
    _approved, late = race.run(
        partial(approve_extension, extension=extension, by=lena),
        partial(deny_extension, extension=extension, by=lars, reason="No."),
    )
    assert race.waited
    claim.refresh_from_db()
    extension.refresh_from_db()
    assert claim.expires_at == until
    assert extension.status == (RequestStatus.APPROVED if guarded else RequestStatus.DENIED)
    assert isinstance(late, Conflict) is guarded
    if guarded:
        assert late.message.startswith("This request was already approved by lena")


@pytest.mark.parametrize("locked", [True, False])
def test_a_claim_is_not_ended_that_is_extended_at_this_moment(held, alice, monkeypatch, locked):
    """Its time is over and the portal is about to end it: the extension comes too late, or it holds."""
    ProfileVersion.objects.update(extension=timedelta(days=1))
    claim = held(1, "sam")
    now = timezone.now()
    Claim.objects.filter(pk=claim.pk).update(decided_at=now - claim.duration, expires_at=now)
    race = Race(monkeypatch)
    race.hold_before(expiry, "_release")
    if not locked:
        without_lock(monkeypatch, "claims.lifecycle.expiry._end")
    until = now + timedelta(hours=2)
    ended, extended = race.run(
        partial(expiry.end_overdue, now), partial(extend, claim=claim, by=alice, until=until, key="k")
    )
    assert race.waited is locked
    assert ended == [claim.pk]
    assert isinstance(extended, Conflict if locked else Extension)
    claim.refresh_from_db()
    assert (claim.state, claim.expires_at) == (ClaimState.RELEASING, now if locked else until)
