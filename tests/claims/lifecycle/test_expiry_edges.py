"""What ends by the clock, to the instant: whose end, who hears of it, and what holds up nothing else."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from claims.delivery import tasks
from claims.lifecycle import expiry
from claims.lifecycle.expiry import end_overdue, remind
from claims.lifecycle.services import shorten
from claims.models import Claim, Extension, RequestStatus
from claims.states import ClaimState
from claims.tasks import expire
from inventory.models import Pod
from notify.models import Notice
from tests.claims.columns import columns
from tests.factories import make_claim, make_extension, make_profile, make_user

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture(autouse=True)
def clock():
    with time_machine.travel(NOON, tick=False) as clock:
        yield clock


@pytest.fixture
def removals(monkeypatch):
    """The claims whose objects are to be deleted."""
    removals: list[str] = []
    monkeypatch.setattr(tasks.remove, "delay", removals.append)
    return removals


@pytest.fixture
def begun(vision, fra, alice):
    """Return a function that makes a claim of alice that began so long before its end."""

    def begin(name, end, *, whole=4 * HOUR, state=ClaimState.ALLOCATED, pods=(), by=alice, **limits):
        claim = make_claim(
            vision,
            by=by,
            cluster=fra,
            profile=make_profile(f"p-{name}", max_duration=30 * DAY, **limits),
            name=name,
            state=state,
            decided_at=end - whole,
            duration=whole,
            expires_at=end,
        )
        for pod in pods:
            where = {"cluster": fra, "namespace": "vision", "name": pod}
            Pod.objects.create(**where, uid=pod, phase="Running", claims=[name])
        return claim

    return begin


def told(**where):
    rows = Notice.objects.filter(**where).order_by("user__username", "key")
    return list(rows.values_list("user__username", "key", "title", "body", "url", "important"))


def states():
    return dict(Claim.objects.values_list("name", "state"))


# Ends.


def test_what_is_overdue_at_this_instant_ends_and_what_is_due_a_moment_later_does_not(
    begun, vision, fra, alice
):
    for name, late in (("due", timedelta(0)), ("soon", MOMENT)):
        begun(f"run-{name}", NOON + late)
        begun(f"grace-{name}", NOON - 2 * HOUR + late, grace=2 * HOUR)
        make_claim(vision, by=alice, cluster=fra, name=f"ask-{name}", decide_by=NOON + late)
    ended = end_overdue(NOON)
    assert states() == {
        **{"run-due": "releasing", "run-soon": "allocated"},
        **{"grace-due": "releasing", "grace-soon": "allocated"},
        **{"ask-due": "expired", "ask-soon": "requested"},
    }
    assert {Claim.objects.get(pk=pk).name for pk in ended} == {"run-due", "grace-due"}


@pytest.mark.parametrize(
    ("state", "after"),
    [
        (ClaimState.APPROVED, "releasing"),
        (ClaimState.PROVISIONED, "releasing"),
        (ClaimState.ALLOCATED, "releasing"),
        (ClaimState.RELEASING, "releasing"),
        (ClaimState.RELEASED, "released"),
    ],
)
def test_the_end_of_the_time_is_the_end_in_every_state_in_which_it_runs(begun, removals, state, after):
    claim = begun("sam", NOON, state=state)
    lines = claim.history.count()
    expire()
    assert states() == {"sam": after}
    moved = state not in (ClaimState.RELEASING, ClaimState.RELEASED)
    assert removals == ([str(claim.pk)] if moved else [])
    assert claim.history.count() == lines + moved


def test_all_that_is_overdue_is_ended_and_removed_and_a_second_sweep_does_nothing(begun, removals):
    claims = [begun(name, NOON - HOUR) for name in ("a", "b", "c")]
    expire()
    assert sorted(removals) == sorted(str(claim.pk) for claim in claims)
    before = (states(), told(), [claim.history.count() for claim in claims])
    removals.clear()
    expire()
    assert (states(), told(), [claim.history.count() for claim in claims]) == before
    assert removals == []


def test_a_claim_that_ends_writes_its_state_alone_and_says_how_long_it_had(begun):
    claim = begun("sam", NOON - 30 * MINUTE, whole=4 * HOUR)
    before = columns(claim, "state", "state_since", "version")
    end_overdue(NOON)
    assert columns(claim, "state", "state_since", "version") == before
    line = claim.history.filter(new="releasing").get()
    assert (line.old, line.reason, line.by) == ("allocated", "Its time of 4 h is over.", None)


def test_who_hears_of_an_end_without_pods(begun, alice):
    claim = begun("sam", NOON)
    end_overdue(NOON)
    assert told() == [
        (
            "alice",
            f"ended:{claim.pk}:2026-11-01T12:00:00+00:00",
            "The time of sam is over",
            "Its time of 4 h is over. No pod uses it; its devices are free again.",
            f"/claims/{claim.pk}/",
            False,
        )
    ]


@pytest.mark.parametrize(
    ("pods", "said"),
    [
        (("b",), "The pod b keeps its devices until it ends, and they are billed until then."),
        (("b", "a"), "The pods a, b keep their devices until they end, and they are billed until then."),
    ],
)
def test_who_hears_of_an_end_while_pods_hold_devices(begun, pods, said):
    claim = begun("sam", NOON, pods=pods)
    end_overdue(NOON)
    notice = (
        f"ended:{claim.pk}:2026-11-01T12:00:00+00:00",
        "The time of sam is over",
        f"Its time of 4 h is over. {said}",
        f"/claims/{claim.pk}/",
        True,
    )
    assert told() == [(name, *notice) for name in ("alice", "lars", "lena")]


def test_who_hears_that_a_request_expired(vision, fra, alice):
    claim = make_claim(vision, by=alice, cluster=fra, name="sam", created_at=NOON - 7 * DAY)
    before = columns(claim, "state", "state_since", "version")
    assert end_overdue(NOON) == []
    assert columns(claim, "state", "state_since", "version") == before
    line = claim.history.last()
    assert (line.old, line.new, line.reason, line.by) == (
        "requested",
        "expired",
        "Nobody decided within 7 d.",
        None,
    )
    assert told() == [
        (
            "alice",
            f"expired:{claim.pk}",
            "sam expired undecided",
            "Nobody decided within 7 d; its quota is free again. You can ask again from its page.",
            f"/claims/{claim.pk}/",
            True,
        )
    ]


def test_wishes_end_with_their_claims_and_others_go_on(begun):
    over, running = begun("over", NOON, whole=DAY), begun("running", NOON + HOUR, whole=DAY)
    wishes = {claim.name: make_extension(claim) for claim in (over, running)}
    denied = make_extension(over, status=RequestStatus.DENIED, decision_note="No.")
    before = columns(wishes["over"])
    end_overdue(NOON)
    assert columns(wishes["over"]) == before | {
        "status": "expired",
        "decided_by_id": None,
        "decided_at": NOON,
        "decision_note": "The claim has ended.",
    }
    assert Extension.objects.get(pk=wishes["running"].pk).status == RequestStatus.WAITING
    assert Extension.objects.get(pk=denied.pk).decision_note == "No."


@pytest.mark.parametrize("kind", ["requests", "claims"])
def test_each_fault_is_raised_with_its_claim_after_all_others_have_ended(
    begun, vision, fra, alice, removals, monkeypatch, kind
):
    """Two of four cannot be ended, the first among them; over two sweeps."""
    if kind == "claims":
        claims = [begun(name, NOON) for name in "abcd"]
        after = "releasing"
    else:
        claims = [
            make_claim(vision, by=alice, cluster=fra, name=name, decide_by=NOON - MINUTE) for name in "abcd"
        ]
        after = "expired"
    requested = make_extension(begun("requested", NOON + HOUR))
    Claim.objects.filter(name="requested").update(state=ClaimState.RELEASED)
    faulty, advance = {claims[0].pk, claims[2].pk}, Claim.advance

    def fail(self, to, **fields):
        if self.pk in faulty:
            raise RuntimeError("A fault of ours.")
        return advance(self, to, **fields)

    monkeypatch.setattr(Claim, "advance", fail)
    for _sweep in range(2):
        with pytest.raises(ExceptionGroup) as failed:
            end_overdue(NOON)
        notes = {note for error in failed.value.exceptions for note in error.__notes__}
        assert notes == {f"claim {pk}" for pk in faulty}
    assert {name: state for name, state in states().items() if state == after} == {"b": after, "d": after}
    assert Extension.objects.get(pk=requested.pk).status == RequestStatus.EXPIRED
    faulty.clear()
    end_overdue(NOON)
    assert [states()[name] for name in "abcd"] == [after] * 4


def test_what_fails_after_the_step_takes_the_step_back(begun, monkeypatch):
    begun("sam", NOON)
    monkeypatch.setattr(expiry, "notify_of", lambda *_args, **_fields: 1 / 0)
    with pytest.raises(ExceptionGroup):
        end_overdue(NOON)
    assert states() == {"sam": "allocated"}


def test_ends_are_told_of_though_a_claim_cannot_be_ended(begun, monkeypatch):
    begun("near", NOON + HOUR)
    monkeypatch.setattr(expiry, "end_overdue", lambda _now: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        expire()
    assert len(told(key__startswith="ends:")) == 1


@pytest.mark.parametrize("column", ["state", "expires_at", "decide_by"])
def test_a_claim_that_was_changed_since_it_was_read_is_left_alone(
    begun, vision, fra, alice, monkeypatch, column
):
    if column == "decide_by":
        claim = make_claim(vision, by=alice, cluster=fra, name="sam", decide_by=NOON)
        changed: dict[str, object] = {"decide_by": NOON + DAY}
    else:
        claim = begun("sam", NOON)
        changed = {"expires_at": NOON + DAY} if column == "expires_at" else {"state": ClaimState.PROVISIONED}
    end = expiry._end

    def late(found, move):
        Claim.objects.filter(pk=claim.pk).update(**changed)
        return end(found, move)

    monkeypatch.setattr(expiry, "_end", late)
    assert end_overdue(NOON) == []
    assert (states()["sam"], told()) == (changed.get("state", claim.state), [])


# Reminders.


@pytest.mark.parametrize(
    ("left", "whole", "seconds"),
    [
        (HOUR, 2 * HOUR, 3600),
        (HOUR, 2 * HOUR - MOMENT, None),
        (HOUR + MOMENT, 30 * HOUR, None),
        (MOMENT, 4 * HOUR, 3600),
        (timedelta(0), 4 * HOUR, None),
        (HOUR + MOMENT, 2 * DAY, 86_400),
        (DAY, 2 * DAY, 86_400),
        (DAY, 2 * DAY - MOMENT, None),
        (DAY + MOMENT, 2 * DAY, None),
        (DAY + MOMENT, 14 * DAY, 604_800),
        (7 * DAY, 14 * DAY, 604_800),
        (7 * DAY, 14 * DAY - MOMENT, None),
        (7 * DAY + MOMENT, 20 * DAY, None),
    ],
)
def test_an_end_is_announced_from_the_instant_on_at_which_it_is_near(begun, left, whole, seconds):
    claim = begun("sam", NOON + left, whole=whole)
    remind(NOON)
    keys = [f"ends:{claim.pk}:{(NOON + left).isoformat()}:{seconds}"] if seconds else []
    assert [(row[0], row[1]) for row in told()] == [("alice", key) for key in keys]


@pytest.mark.parametrize(
    ("state", "count"),
    [
        (ClaimState.APPROVED, 1),
        (ClaimState.PROVISIONED, 1),
        (ClaimState.ALLOCATED, 1),
        (ClaimState.RELEASING, 0),
        (ClaimState.RELEASED, 0),
    ],
)
def test_ends_are_announced_while_time_runs(begun, state, count):
    begun("sam", NOON + HOUR, state=state)
    remind(NOON)
    assert len(told()) == count


def test_every_end_that_is_near_is_announced_to_its_owner_with_its_own_pods(begun, vision):
    mona = make_user("mona")
    vision.memberships.create(user=mona, role="member")
    begun("one", NOON + HOUR, pods=("p-1",))
    begun("two", NOON + HOUR, pods=("q-2", "q-1"), by=mona)
    begun("three", NOON + HOUR)
    for _again in range(2):
        remind(NOON)
    when = "On Sun 1 Nov 2026, 13:00 UTC the portal deletes the ResourceClaim"
    ask = "To keep it longer, request an extension."
    title = "ends on Sun 1 Nov 2026, 13:00 UTC"
    assert {(row[0], row[2], row[3]) for row in told()} == {
        ("alice", f"one {title}", f"{when} one in fra-1. The pod p-1 keeps its devices until it ends. {ask}"),
        (
            "mona",
            f"two {title}",
            f"{when} two in fra-1. The pods q-1, q-2 keep their devices until they end. {ask}",
        ),
        ("alice", f"three {title}", f"{when} three in fra-1. No pod uses it now. {ask}"),
    }
    assert len(told()) == 3


def test_an_announcement_leads_to_the_page_on_which_it_can_be_extended(begun):
    claim = begun("sam", NOON + HOUR)
    remind(NOON)
    ((_user, _key, _title, _body, url, important),) = told()
    assert (url, important) == (f"/claims/{claim.pk}/extend/", True)


def test_a_template_is_announced_as_one(begun):
    claim = begun("sam", NOON + HOUR)
    Claim.objects.filter(pk=claim.pk).update(delivery="template")
    remind(NOON)
    assert "deletes the ResourceClaimTemplate sam in fra-1." in told()[0][3]


def test_what_is_being_replaced_is_announced_without_an_offer_to_extend(begun, vision, fra, alice):
    claim = begun("sam", NOON + HOUR, extension=HOUR)
    make_claim(vision, by=alice, cluster=fra, name="new", replaces=claim)
    remind(NOON)
    assert told(key__startswith="ends:")[0][3].endswith(
        "sam is being replaced by new, so it may not be extended."
    )


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"extension": HOUR}, "You may extend it by up to 1 h without approval."),
        ({"extension": 40 * DAY}, "To keep it longer, request an extension."),  # beyond the longest duration
        ({}, "To keep it longer, request an extension."),
    ],
)
def test_an_announcement_says_how_it_can_be_kept(begun, limits, said):
    begun("sam", NOON + HOUR, **limits)
    remind(NOON)
    assert told()[0][3].endswith(said)


@pytest.mark.parametrize(("left", "count"), [(DAY, 3), (DAY + MOMENT, 0), (MOMENT, 3), (timedelta(0), 0)])
def test_a_wait_is_announced_in_the_last_day(vision, fra, alice, left, count):
    make_claim(vision, by=alice, cluster=fra, name="sam", decide_by=NOON + left)
    for _again in range(2):
        remind(NOON)
    assert len(told()) == count


def test_a_wait_is_announced_to_the_asker_and_to_each_who_decides_in_their_own_words(vision, fra, alice):
    claim = make_claim(vision, by=alice, cluster=fra, name="sam", decide_by=NOON + DAY)
    make_claim(vision, by=alice, cluster=fra, name="decided", decide_by=NOON + DAY, state=ClaimState.APPROVED)
    remind(NOON)
    key = f"undecided:{claim.pk}"
    for_lead = (
        key,
        "sam expires on Mon 2 Nov 2026, 12:00 UTC if nobody decides",
        "alice waits for your decision.",
        f"/approvals/{claim.pk}/",
        True,
    )
    assert told() == [
        (
            "alice",
            key,
            "sam expires on Mon 2 Nov 2026, 12:00 UTC if nobody decides",
            "Nobody has decided on it yet; ask lars or lena.",
            f"/claims/{claim.pk}/",
            True,
        ),
        ("lars", *for_lead),
        ("lena", *for_lead),
    ]


def test_a_wait_on_which_nobody_can_decide_names_a_platform_admin(vision, fra, alice):
    vision.memberships.filter(role="lead").delete()
    make_claim(vision, by=alice, cluster=fra, name="sam", decide_by=NOON + DAY)
    remind(NOON)
    assert [row[3] for row in told()] == ["Nobody has decided on it yet; ask a platform admin."]


def test_two_waits_are_both_announced_though_one_was_before(vision, fra, alice):
    make_claim(vision, by=alice, cluster=fra, name="one", decide_by=NOON + DAY)
    remind(NOON)
    make_claim(vision, by=alice, cluster=fra, name="two", decide_by=NOON + DAY)
    remind(NOON)
    assert len(told(user__username="alice")) == 2


def test_a_claim_that_was_shortened_is_announced_at_its_new_end(begun, alice):
    claim = begun("sam", NOON + 3 * HOUR, whole=8 * HOUR)
    remind(NOON)
    assert told() == []
    shorten(claim=claim, by=alice, until=NOON + HOUR)
    remind(NOON)
    assert [row[2] for row in told()] == ["sam ends on Sun 1 Nov 2026, 13:00 UTC"]


@pytest.mark.parametrize("kind", ["request", "claim"])
def test_what_somebody_else_moved_first_is_neither_told_nor_removed(
    begun, vision, fra, alice, monkeypatch, kind
):
    if kind == "claim":
        begun("sam", NOON)
    else:
        make_claim(vision, by=alice, cluster=fra, name="sam", decide_by=NOON)
    monkeypatch.setattr(Claim, "advance", lambda _self, _to, **_fields: False)
    assert (end_overdue(NOON), told()) == ([], [])
