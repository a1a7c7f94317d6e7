"""What is told before and at the end of a claim's time, by the clock: each thing once."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from claims.lifecycle import expiry
from claims.lifecycle.expiry import remind
from claims.lifecycle.services import approve_extension, extend, transfer
from claims.models import Claim, Extension, RequestStatus
from claims.states import ClaimState
from claims.tasks import expire
from core.errors import Conflict
from inventory.models import Pod
from notify.models import Notice
from tests.factories import make_claim, make_profile, make_user

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def clock():
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


@pytest.fixture
def begun(clock, vision, fra, alice, gateway):
    """Return a function that makes a claim of alice which begins at noon and has the mirrored pods."""

    def begin(duration, *pods, **limits):
        profile = make_profile("steady", max_duration=30 * DAY, **limits)
        claim = make_claim(
            vision,
            by=alice,
            cluster=fra,
            profile=profile,
            name="sam",
            state=ClaimState.ALLOCATED,
            decided_at=NOON,
            duration=duration,
            expires_at=NOON + duration,
        )
        for name in pods:
            where = {"cluster": fra, "namespace": "vision", "name": name}
            Pod.objects.create(**where, uid=name, phase="Running", claims=["sam"])
        return claim

    return begin


def titles(person):
    return [notice.title for notice in Notice.objects.filter(user=person).order_by("created_at", "id")]


@pytest.mark.parametrize(
    ("duration", "told"),
    [
        (timedelta(minutes=90), []),
        (4 * HOUR, [HOUR]),
        (3 * DAY, [DAY, HOUR]),
        (14 * DAY, [7 * DAY, DAY, HOUR]),
    ],
)
def test_ends_are_announced_once_each_where_it_makes_sense(begun, clock, alice, duration, told):
    claim = begun(duration)
    seen = []
    for before in (8 * DAY, 7 * DAY, 6 * DAY, DAY, HOUR * 23, HOUR, HOUR / 2):
        if before >= duration:
            continue
        clock.move_to(claim.expires_at - before)
        known = Notice.objects.count()
        for _again in range(3):
            remind(claim.expires_at - before)
        seen += [before] * (Notice.objects.count() - known)
    assert seen == told


def test_who_missed_the_early_ones_hears_only_the_latest(begun, clock, alice):
    claim = begun(14 * DAY)
    clock.move_to(claim.expires_at - HOUR / 2)
    expire()
    expire()
    assert Notice.objects.filter(user=alice).count() == 1


def test_the_announcement_says_exactly_what_will_happen(begun, clock, alice):
    claim = begun(4 * HOUR, "train-0", "train-1", extension=2 * HOUR)
    clock.move_to(claim.expires_at - HOUR / 2)
    expire()
    notice = Notice.objects.get(user=alice)
    assert notice.important
    assert notice.url == f"/claims/{claim.pk}/extend/"
    assert notice.body == (
        "On Sun 1 Nov 2026, 16:00 UTC the portal deletes the ResourceClaim sam in fra-1. "
        "The pods train-0, train-1 keep their devices until they end. "
        "You may extend it by up to 2 h without approval."
    )


def test_a_grace_period_is_announced_too(begun, clock, alice):
    claim = begun(4 * HOUR, grace=HOUR)
    clock.move_to(claim.expires_at - HOUR / 2)
    expire()
    assert Notice.objects.get(user=alice).body == (
        "On Sun 1 Nov 2026, 16:00 UTC it expires; after a grace period of 1 h, on Sun 1 Nov 2026, 17:00 UTC, "
        "the portal deletes the ResourceClaim sam in fra-1. No pod uses it now. "
        "To keep it longer, request an extension."
    )


def test_an_extension_is_announced_anew_and_a_new_owner_hears_what_the_old_one_heard(
    begun, clock, alice, vision
):
    claim = begun(4 * HOUR, extension=2 * HOUR)
    clock.move_to(claim.expires_at - HOUR / 2)
    expire()
    extend(claim=claim, by=alice, until=claim.expires_at + 2 * HOUR, key="k")
    expire()
    assert Notice.objects.filter(user=alice).count() == 1
    claim.refresh_from_db()
    clock.move_to(claim.expires_at - HOUR / 2)
    expire()
    assert Notice.objects.filter(user=alice).count() == 2
    mona = make_user("mona")
    vision.memberships.create(user=mona, role="member")
    transfer(claim=claim, by=alice, to=mona)
    expire()
    assert sorted(titles(mona)) == ["sam ends on Sun 1 Nov 2026, 18:00 UTC", "sam is yours now"]


def test_it_is_released_after_its_grace_and_who_still_holds_is_told(begun, clock, alice, lena, lars, bob):
    claim = begun(4 * HOUR, "train-0", grace=2 * HOUR)
    clock.move_to(claim.expires_at + HOUR)
    expire()
    claim.refresh_from_db()
    assert claim.state == ClaimState.ALLOCATED
    clock.move_to(claim.expires_at + 2 * HOUR)
    expire()
    expire()
    claim.refresh_from_db()
    assert claim.state in (ClaimState.RELEASING, ClaimState.RELEASED)
    assert "Its time of 4 h is over." in claim.history.values_list("reason", flat=True)
    for person in (alice, lena, lars):
        notice = Notice.objects.get(user=person, key__startswith="ended:")
        assert notice.title == "The time of sam is over"
        assert "The pod train-0 keeps its devices until it ends" in notice.body
    assert not Notice.objects.filter(user=bob).exists()


def test_without_pods_only_the_owner_hears_of_the_end(begun, clock, alice, lena):
    claim = begun(4 * HOUR)
    clock.move_to(claim.expires_at)
    expire()
    assert "its devices are free again" in Notice.objects.get(user=alice, key__startswith="ended:").body
    assert not Notice.objects.filter(user=lena).exists()


def test_in_its_grace_a_claim_can_still_be_extended(begun, clock, alice, lena):
    claim = begun(4 * HOUR, grace=2 * HOUR)
    clock.move_to(claim.expires_at + HOUR)
    extension = extend(claim=claim, by=alice, until=claim.expires_at + DAY, key="k")
    assert extension.decide_by == claim.expires_at + 2 * HOUR
    approve_extension(extension=extension, by=lena)
    clock.move_to(NOON + 7 * HOUR)
    expire()
    claim.refresh_from_db()
    assert claim.state == ClaimState.ALLOCATED


def test_a_wish_that_nobody_answers_ends_with_the_claim(begun, clock, alice, lena):
    claim = begun(4 * HOUR)
    extension = extend(claim=claim, by=alice, until=claim.expires_at + DAY, key="k")
    clock.move_to(claim.expires_at)
    expire()
    expire()
    assert Extension.objects.get().status == RequestStatus.EXPIRED
    with pytest.raises(Conflict):
        approve_extension(extension=extension, by=lena)


def test_an_end_put_off_at_the_last_moment_is_left_alone(begun, clock, alice, monkeypatch):
    """Beat has read the claim; before it moves it, somebody extends it."""
    claim = begun(4 * HOUR, extension=DAY)
    clock.move_to(claim.expires_at)
    move = expiry._end

    def extend_and_end(found, how):
        extend(claim=claim, by=alice, until=claim.expires_at + DAY, key="k")
        return move(found, how)

    monkeypatch.setattr(expiry, "_end", extend_and_end)
    expire()
    claim.refresh_from_db()
    assert claim.state == ClaimState.ALLOCATED


def test_an_undecided_request_is_told_a_day_before_and_when_it_expires(clock, vision, fra, alice, lena, lars):
    claim = make_claim(vision, by=alice, cluster=fra, name="sam", decide_by=NOON + 7 * DAY, state_since=NOON)
    clock.move_to(NOON + 5 * DAY)
    expire()
    assert not Notice.objects.exists()
    clock.move_to(NOON + 6 * DAY + HOUR)
    expire()
    expire()
    assert titles(alice) == ["sam expires on Sun 8 Nov 2026, 12:00 UTC if nobody decides"]
    assert "ask lars or lena" in Notice.objects.get(user=alice).body
    for person in (lena, lars):
        assert titles(person) == ["sam expires on Sun 8 Nov 2026, 12:00 UTC if nobody decides"]
    clock.move_to(NOON + 7 * DAY)
    expire()
    expire()
    claim.refresh_from_db()
    assert claim.state == ClaimState.EXPIRED
    assert titles(alice)[1] == "sam expired undecided"


def test_looking_costs_the_same_however_many_ends_are_far(
    begun, clock, vision, fra, alice, django_assert_num_queries
):
    claim = begun(14 * DAY)
    for _number in range(3):
        make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, expires_at=NOON + 20 * DAY)
    assert Claim.objects.count() == 4
    with django_assert_num_queries(2):
        remind(claim.expires_at - 10 * DAY)
