"""Two at once in the life of a claim: each race as it is, and without its guard, which must go wrong."""

from datetime import timedelta
from functools import partial
from threading import Event

import pytest
from django.db.models import QuerySet

from claims import services
from claims.life import succession
from claims.models import Answer, Ask, Claim, Extension, ProfileVersion, Quota
from claims.quota import quotas
from claims.services.extend import approve_extension, deny_extension, extend
from claims.states import ClaimState
from core.errors import Conflict
from tests.claims.threads import Meeting, at_once

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    """Nothing is delivered: the race is between people."""
    monkeypatch.setattr("claims.tasks.deliver.delay", lambda _id: None)
    monkeypatch.setattr("claims.tasks.remove.delay", lambda _id: None)


@pytest.fixture
def held(ask, lena):
    """Return a function that makes an approved claim of so many devices."""

    def make(devices, name):
        claim = ask(devices=devices, name=name)
        services.approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
        claim.refresh_from_db()
        return claim

    return make


def without_row_locks(monkeypatch):
    monkeypatch.setattr(QuerySet, "select_for_update", lambda self, **_: self)


def used():
    (standing,) = quotas.standing_of(Quota.objects.all())
    return standing.used


@pytest.mark.parametrize("locked", [True, False])
def test_of_two_replacements_at_once_one_is_made(ask, held, monkeypatch, locked):
    """Both would carry what the old claim counts for, and the quota would be exceeded when it ends."""
    old = held(4, "old")
    meeting, judge = Meeting(guarded=locked), succession.reason_not_to_replace

    def judge_and_wait(claim):
        said = judge(claim)
        meeting.wait()
        return said

    monkeypatch.setattr(succession, "reason_not_to_replace", judge_and_wait)
    if not locked:
        without_row_locks(monkeypatch)
    replace = [partial(ask, devices=8, name=name, replaces=old) for name in ("one", "two")]
    answers = at_once(*replace)
    made = [answer for answer in answers if isinstance(answer, Claim)]
    assert len(made) == (1 if locked else 2)
    assert used() == (8 if locked else 12)
    Claim.objects.get(pk=old.pk).advance(ClaimState.RELEASING, why="Over.")
    Claim.objects.get(pk=old.pk).advance(ClaimState.RELEASED, why="Over.")
    assert used() == (8 if locked else 16)


@pytest.mark.parametrize("locked", [True, False])
def test_what_is_carried_is_given_up_however_late_the_old_claim_was_read(ask, held, monkeypatch, locked):
    """The old claim ends between being read and being replaced: nothing of it may be carried on."""
    old = held(4, "old")
    meeting, judge, judged = Meeting(guarded=locked), succession.reason_not_to_replace, Event()

    def judge_and_wait(claim):
        said = judge(claim)
        judged.set()
        meeting.wait()
        return said

    def end():
        assert judged.wait(60)
        Claim.objects.get(pk=old.pk).advance(ClaimState.FAILED, why="Gone.")
        meeting.wait()

    monkeypatch.setattr(succession, "reason_not_to_replace", judge_and_wait)
    if not locked:
        without_row_locks(monkeypatch)
    made, _nothing = at_once(partial(ask, devices=8, name="new", replaces=old), end)
    assert isinstance(made, Claim)
    assert used() == (8 if locked else 4)


@pytest.mark.parametrize("locked", [True, False])
def test_two_extensions_at_once_are_not_two(held, alice, monkeypatch, locked):
    ProfileVersion.objects.update(extension=timedelta(days=1))
    claim = held(1, "sam")
    wait_before_creating(monkeypatch, guarded=locked)
    if not locked:
        without_row_locks(monkeypatch)
    until = claim.expires_at + timedelta(days=1)
    longer = [partial(extend, claim=claim, by=alice, until=until, key=key) for key in "ab"]
    at_once(*longer)
    assert Extension.objects.filter(answer=Answer.APPROVED).count() == (1 if locked else 2)


@pytest.mark.parametrize("locked", [True, False])
def test_of_two_wishes_at_once_one_waits_and_the_other_hears_of_it(held, alice, monkeypatch, locked):
    """Where both get past the lock, the database keeps the second out, and the sentence is the same."""
    claim = held(1, "sam")
    wait_before_creating(monkeypatch, guarded=locked)
    if not locked:
        without_row_locks(monkeypatch)
    until = claim.expires_at + timedelta(days=3)
    wishes = [partial(extend, claim=claim, by=alice, until=until, key=key) for key in "ab"]
    refused = [answer for answer in at_once(*wishes) if isinstance(answer, Conflict)]
    assert [one.message.split(" until ")[0] for one in refused] == ["alice has asked to keep sam"]
    assert Extension.objects.get().answer == Answer.WAITING


def test_one_key_for_two_claims_at_once_extends_one(held, alice, monkeypatch):
    ProfileVersion.objects.update(extension=timedelta(days=1))
    claims = [held(1, "sam"), held(1, "tom")]
    wait_before_creating(monkeypatch, guarded=False)
    longer = [
        partial(extend, claim=one, by=alice, until=one.expires_at + timedelta(hours=1), key="k")
        for one in claims
    ]
    refused = [answer for answer in at_once(*longer) if isinstance(answer, Conflict)]
    assert [one.message for one in refused] == ["This key was already used to extend another claim."]
    assert Extension.objects.count() == 1


def wait_before_creating(monkeypatch, *, guarded):
    """Whoever is about to write an extension waits for the other, who is about to as well."""
    meeting, create = Meeting(guarded=guarded), Extension.objects.create

    def wait_and_create(**fields):
        meeting.wait()
        return create(**fields)

    monkeypatch.setattr(Extension.objects, "create", wait_and_create)


@pytest.mark.parametrize("guarded", [True, False])
def test_of_two_who_decide_on_an_extension_one_is_first(held, alice, lena, lars, monkeypatch, guarded):
    claim = held(1, "sam")
    before = claim.expires_at
    extension = extend(claim=claim, by=alice, until=before + timedelta(days=3), key="k")
    meeting, decide = Meeting(guarded=guarded), Ask.decide

    def wait_and_decide(self, answer, *, by, note=""):
        meeting.wait()
        if guarded:
            return decide(self, answer, by=by, note=note)
        Extension.objects.filter(pk=self.pk).update(answer=answer, decided_by=by)
        self.refresh_from_db()
        return True

    monkeypatch.setattr(Ask, "decide", wait_and_decide)
    if not guarded:
        without_row_locks(monkeypatch)
    answers = at_once(
        partial(approve_extension, extension=extension, by=lena),
        partial(deny_extension, extension=extension, by=lars, reason="No."),
    )
    refused = [answer for answer in answers if isinstance(answer, Conflict)]
    assert len(refused) == (1 if guarded else 0)
    if guarded:
        claim.refresh_from_db()
        extension.refresh_from_db()
        assert (claim.expires_at == extension.until) is (extension.answer == Answer.APPROVED)
        assert "was first" in refused[0].message
