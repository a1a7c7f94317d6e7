"""Withdrawing and releasing: what is written, what is queued, and what is sent twice."""

import pytest

from claims.delivery import tasks
from claims.lifecycle import services
from claims.lifecycle.services import release, withdraw
from claims.models import Claim
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, IllegalTransition
from tests.claims.columns import columns
from tests.factories import make_claim, make_user

pytestmark = pytest.mark.django_db
MOVED = ("state", "state_since", "version")


@pytest.fixture
def removals(monkeypatch):
    """The claims whose objects are to be deleted."""
    removals: list[str] = []
    monkeypatch.setattr(tasks.remove, "delay", removals.append)
    return removals


@pytest.fixture
def make(vision, fra, train, alice):
    def make(state, **fields):
        return make_claim(vision, by=alice, cluster=fra, profile=train, name="sam", state=state, **fields)

    return make


@pytest.mark.parametrize(("reason", "why"), [(" Not needed. ", "Not needed."), (" ", "Withdrawn.")])
def test_withdrawing_writes_who_and_why_and_takes_the_problem_away(make, alice, reason, why):
    claim = make(ClaimState.REQUESTED, problem="fra-1 refused it.")
    before = columns(claim, *MOVED)
    withdraw(claim=claim, by=alice, reason=reason)
    assert columns(claim, *MOVED) == before | {"problem": ""}
    row = Claim.objects.get(pk=claim.pk)
    assert (row.state, row.version) == ("withdrawn", 2)
    line = row.history.last()
    assert (line.old, line.new, line.reason, line.by) == ("requested", "withdrawn", why, alice)


def test_withdrawing_twice_is_withdrawing_once(make, alice):
    claim = make(ClaimState.REQUESTED)
    withdraw(claim=claim, by=alice)
    assert withdraw(claim=claim, by=alice, reason="Again.").state == ClaimState.WITHDRAWN
    assert claim.history.count() == 2


@pytest.mark.parametrize(("reason", "why"), [(" Done. ", "Done."), ("", "Released by its team.")])
def test_releasing_writes_who_and_why_and_queues_the_removal_once_committed(
    make, alice, removals, django_capture_on_commit_callbacks, reason, why
):
    claim = make(ClaimState.ALLOCATED)
    before = columns(claim, *MOVED)
    with django_capture_on_commit_callbacks() as callbacks:
        release(claim=claim, by=alice, reason=reason)
    assert columns(claim, *MOVED) == before
    line = claim.history.last()
    assert (line.old, line.new, line.reason, line.by) == ("allocated", "releasing", why, alice)
    assert removals == []
    for callback in callbacks:
        callback()
    assert removals == [str(claim.pk)]


@pytest.mark.parametrize("state", [ClaimState.RELEASING, ClaimState.RELEASED])
def test_what_is_released_already_is_neither_moved_nor_removed_again(
    make, alice, removals, django_capture_on_commit_callbacks, state
):
    claim = make(state)
    before, lines = columns(claim), claim.history.count()
    with django_capture_on_commit_callbacks(execute=True):
        assert release(claim=claim, by=alice).state == state
    assert (columns(claim), claim.history.count(), removals) == (before, lines, [])


@pytest.mark.parametrize("act", [withdraw, release])
def test_whoever_was_overtaken_hears_what_the_claim_is_now(
    make, alice, removals, monkeypatch, django_capture_on_commit_callbacks, act
):
    claim = make(ClaimState.REQUESTED if act is withdraw else ClaimState.PROVISIONED)

    def overtaken(self, *_args, **_fields):
        Claim.objects.filter(pk=self.pk).update(state=ClaimState.FAILED)
        return False

    monkeypatch.setattr(Claim, "advance", overtaken)
    with django_capture_on_commit_callbacks(execute=True), pytest.raises(Conflict) as refusal:
        act(claim=claim, by=alice)
    assert refusal.value.message == "sam has changed in the meantime and is now “Failed”."
    assert removals == []


@pytest.mark.parametrize(
    ("act", "state", "sentence"),
    [
        (
            withdraw,
            ClaimState.APPROVED,
            "sam is not waiting for a decision any more, so it cannot be withdrawn; it is “Approved”.",
        ),
        (
            withdraw,
            ClaimState.DENIED,
            "sam is not waiting for a decision any more, so it cannot be withdrawn; it is “Denied”.",
        ),
        (
            release,
            ClaimState.REQUESTED,
            "sam holds nothing that could be released; it is “Waiting for approval”.",
        ),
    ],
)
def test_what_cannot_be_ended_says_its_state(make, alice, act, state, sentence):
    claim = make(state)
    with pytest.raises(IllegalTransition) as refusal:
        act(claim=claim, by=alice)
    assert refusal.value.message == sentence
    assert Claim.objects.get().state == state


@pytest.mark.parametrize("act", [withdraw, release])
def test_a_member_ends_nothing_of_somebody_else_and_a_lead_does(make, vision, lena, act):
    claim = make(ClaimState.REQUESTED if act is withdraw else ClaimState.PROVISIONED)
    carol = make_user("carol")
    vision.memberships.create(user=carol, role="member")
    with pytest.raises(Forbidden) as refusal:
        act(claim=claim, by=carol)
    assert refusal.value.message == "sam belongs to alice; only the owner or a lead of vision may do this."
    act(claim=claim, by=lena)
    assert claim.history.last().by == lena


def test_a_claim_that_was_handed_over_is_ended_by_its_new_owner_alone(make, vision, alice):
    """The owner is read again, not believed from the row that a page had loaded."""
    claim = make(ClaimState.PROVISIONED)
    mona = make_user("mona")
    vision.memberships.create(user=mona, role="member")
    stale = Claim.objects.get(pk=claim.pk)
    services.transfer(claim=claim, by=alice, to=mona)
    with pytest.raises(Forbidden, match="belongs to mona"):
        release(claim=stale, by=alice)
    assert release(claim=stale, by=mona).state == ClaimState.RELEASING
