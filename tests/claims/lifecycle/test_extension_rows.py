"""More time, less time, another owner: every column, every line of history, every notice, to the second."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from claims.lifecycle.extension_rules import (
    ExtensionPolicy,
    duration_start,
    pending_extension,
)
from claims.lifecycle.services import (
    approve_extension,
    deny_extension,
    eligible_owners,
    extend,
    shorten,
    transfer,
    withdraw_extension,
)
from claims.models import Claim, Extension
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, Invalid
from notify.models import Notice
from tests.claims.columns import columns
from tests.factories import make_claim, make_extension, make_profile, make_user

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)
END = NOON + 18 * HOUR  # of the claim: Mon 2 Nov 2026, 06:00 UTC


@pytest.fixture(autouse=True)
def clock():
    with time_machine.travel(NOON, tick=False) as clock:
        yield clock


@pytest.fixture
def running(vision, fra, alice):
    """Return a function that makes a claim of alice with a day granted, of which six hours have passed."""

    def make(name="sam", **limits):
        limits = {"max_duration": 14 * DAY, **limits}
        return make_claim(
            vision,
            by=alice,
            cluster=fra,
            profile=make_profile(f"steady-{name}", **limits),
            name=name,
            state=ClaimState.PROVISIONED,
            decided_at=END - DAY,
            duration=DAY,
            expires_at=END,
        )

    return make


@pytest.fixture
def mona(vision):
    mona = make_user("mona")
    vision.memberships.create(user=mona, role="member")
    return mona


def told():
    rows = Notice.objects.order_by("created_at", "user__username")
    return list(rows.values_list("user__username", "key", "title", "body", "url", "important"))


def lines(claim):
    """The lines of history after those that made the claim."""
    return list(claim.history.order_by("pk").values_list("old", "new", "reason", "by__username"))[3:]


def remark(claim, why, by):
    return (claim.state, claim.state, why, by)


@pytest.mark.parametrize("at_once", [True, False])
def test_extending_writes_every_column(running, alice, at_once):
    claim = running(grace=2 * HOUR, extension=DAY if at_once else timedelta(0))
    before = columns(claim)
    extension = extend(claim=claim, by=alice, until=END + DAY, reason=" One more epoch. ", key="k")
    rule = "Steady Sam v1 may be extended by up to 1 d at a time without approval."
    assert columns(extension) == {
        "id": extension.pk,
        "key": "k",
        "claim_id": claim.pk,
        "requested_by_id": alice.pk,
        "requested_at": NOON,
        "reason": "One more epoch.",
        "previous_end": END,
        "until": END + DAY,
        "status": "approved" if at_once else "waiting",
        "decide_by": END + 2 * HOUR,
        "decided_by_id": None,
        "decided_at": NOON if at_once else None,
        "decision_note": rule if at_once else "",
    }
    changed = {"version": before["version"] + 1}
    if at_once:
        changed["expires_at"] = END + DAY
        why = f"Extended by 1 d, until Tue 3 Nov 2026, 06:00 UTC. {rule}"
    else:
        why = "Extension until Tue 3 Nov 2026, 06:00 UTC requested."
    assert columns(claim) == before | changed
    assert lines(claim) == [remark(claim, why, "alice")]


def test_a_wish_is_told_to_those_who_decide_and_an_extension_at_once_to_nobody(running, alice):
    extend(claim=running("quick", extension=DAY), by=alice, until=END + DAY, key="a")
    assert told() == []
    requested = extend(claim=running(), by=alice, until=END + DAY, reason="One more epoch.", key="b")
    said = (
        f"extension:{requested.pk}:asked",
        "alice requests an extension of sam",
        "Until Tue 3 Nov 2026, 06:00 UTC; it ends on Mon 2 Nov 2026, 06:00 UTC if nobody decides before. "
        "One more epoch.",
        f"/approvals/extensions/{requested.pk}/",
        True,
    )
    assert told() == [("lars", *said), ("lena", *said)]


def test_a_lead_who_asks_is_not_asked_and_admins_are_where_nobody_else_is(running, lena, lars, root, vision):
    requested = extend(claim=running(), by=lena, until=END + DAY, key="a")
    assert [row[0] for row in told()] == ["lars"]
    vision.memberships.filter(user=lars).delete()
    withdraw_extension(extension=requested, by=lena)
    Notice.objects.all().delete()
    extend(claim=requested.claim, by=lena, until=END + DAY, key="b")
    assert [row[0] for row in told()] == ["root"]


def test_an_approval_moves_the_end_and_tells_the_asker_and_the_owner(running, alice, lena, lars):
    claim = running()
    requested = make_extension(claim, by=lena, until=END + DAY)
    before, wished = columns(claim), columns(requested)
    approve_extension(extension=requested, by=lars, note=" Fine. ")
    assert columns(requested) == wished | {
        "status": "approved",
        "decided_by_id": lars.pk,
        "decided_at": NOON,
        "decision_note": "Fine.",
    }
    assert columns(claim) == before | {"expires_at": END + DAY, "version": before["version"] + 1}
    why = "Extended by 1 d, until Tue 3 Nov 2026, 06:00 UTC. Fine."
    assert lines(claim)[-1] == remark(claim, why, "lars")
    said = (
        f"extension:{requested.pk}:answer",
        "sam is extended",
        "lars approved: it ends on Tue 3 Nov 2026, 06:00 UTC. Fine.",
        f"/claims/{claim.pk}/",
        False,
    )
    assert told() == [("alice", *said), ("lena", *said)]


def test_a_denial_leaves_the_end_and_tells_the_asker_and_the_owner(running, alice, lena, lars):
    claim = running()
    requested = make_extension(claim, by=lena, until=END + DAY)
    before, wished = columns(claim), columns(requested)
    deny_extension(extension=requested, by=lars, reason=" Others wait. ")
    assert columns(requested) == wished | {
        "status": "denied",
        "decided_by_id": lars.pk,
        "decided_at": NOON,
        "decision_note": "Others wait.",
    }
    assert columns(claim) == before | {"version": before["version"] + 1}
    why = "Not extended until Tue 3 Nov 2026, 06:00 UTC: Others wait."
    assert lines(claim)[-1] == remark(claim, why, "lars")
    said = (
        f"extension:{requested.pk}:answer",
        "sam is not extended",
        "lars denied the extension. It ends on Mon 2 Nov 2026, 06:00 UTC. Others wait.",
        f"/claims/{claim.pk}/",
        False,
    )
    assert told() == [("alice", *said), ("lena", *said)]


def test_an_owner_who_decides_on_what_a_lead_asked_for_is_not_told_what_they_did(running, lena, lars):
    claim = running()
    Claim.objects.filter(pk=claim.pk).update(requested_by=lars)
    requested = make_extension(claim, by=lena, until=END + DAY)
    approve_extension(extension=requested, by=lars)
    assert [row[0] for row in told()] == ["lena"]


def test_a_wish_is_withdrawn_by_its_owner_or_a_lead_with_a_line_and_no_notice(running, alice, lena):
    for name, by in (("one", alice), ("two", lena)):
        claim = running(name)
        requested = make_extension(claim)
        wished = columns(requested)
        withdraw_extension(extension=requested, by=by)
        assert columns(requested) == wished | {
            "status": "withdrawn",
            "decided_by_id": by.pk,
            "decided_at": NOON,
        }
        assert lines(claim)[-1] == remark(claim, "Extension request withdrawn.", by.username)
        assert Claim.objects.get(pk=claim.pk).expires_at == END
    assert told() == []


@pytest.mark.parametrize("answer", ["approve", "deny", "withdraw"])
def test_an_answer_given_twice_is_given_once(running, alice, lena, answer):
    claim = running()
    requested = make_extension(claim, until=END + DAY)

    def do():
        if answer == "approve":
            return approve_extension(extension=requested, by=lena, note="Fine.")
        if answer == "deny":
            return deny_extension(extension=requested, by=lena, reason="No.")
        return withdraw_extension(extension=requested, by=alice)

    do()
    before = (columns(claim), columns(requested), lines(claim), told())
    assert do() == requested
    assert (columns(claim), columns(requested), lines(claim), told()) == before


def test_whoever_answers_second_hears_who_was_first_when_and_how(running, alice, lena, lars):
    requested = make_extension(running())
    approve_extension(extension=requested, by=lena)
    acts = (
        lambda: approve_extension(extension=requested, by=lars),
        lambda: deny_extension(extension=requested, by=lars, reason="No."),
        lambda: deny_extension(extension=requested, by=lena, reason="No."),
        lambda: withdraw_extension(extension=requested, by=alice),
    )
    for act in acts:
        with pytest.raises(Conflict) as refusal:
            act()
        assert refusal.value.message == "This request was already approved by lena on Sun 1 Nov 2026, 12:00."
    assert Extension.objects.get().decided_by == lena


def test_a_wish_that_the_portal_ended_says_so(running, alice):
    claim = running()
    extension = extend(claim=claim, by=alice, until=END + DAY, key="k")
    Extension.objects.filter(pk=extension.pk).update(status="expired", decided_at=NOON)
    with pytest.raises(Conflict, match=r"already expired by the portal on Sun 1 Nov 2026, 12:00\."):
        withdraw_extension(extension=extension, by=alice)


@pytest.mark.parametrize("key", ["", "k" * 81])
def test_an_extension_needs_a_key_of_up_to_80_characters(running, alice, key):
    claim = running(extension=DAY)
    with pytest.raises(Invalid) as refusal:
        extend(claim=claim, by=alice, until=END + HOUR, key=key)
    assert refusal.value.message == (
        "An extension needs a key of 1 to 80 characters: sent twice, it asks once."
    )
    assert extend(claim=claim, by=alice, until=END + HOUR, key="k" * 80).key == "k" * 80


def test_a_key_extends_one_claim_and_answers_though_that_is_over(running, alice, lena):
    one, two = running("one", extension=DAY), running("two", extension=DAY)
    first = extend(claim=one, by=alice, until=END + HOUR, key="k")
    with pytest.raises(Invalid, match="was used for an extension of one until Mon 2 Nov 2026, 07:00 UTC"):
        extend(claim=one, by=alice, until=END + 5 * HOUR, key="k")
    assert extend(claim=one, by=alice, until=END + HOUR, key="k") == first
    with pytest.raises(Invalid, match="was used for an extension of one until"):
        extend(claim=two, by=alice, until=END + HOUR, key="k")
    assert extend(claim=two, by=lena, until=END + HOUR, key="k") != first
    Claim.objects.filter(pk=one.pk).update(state=ClaimState.RELEASED)
    assert extend(claim=one, by=alice, until=END + HOUR, key="k") == first


@pytest.mark.parametrize(
    ("until", "sentence"),
    [
        (END, "sam ends on Mon 2 Nov 2026, 06:00. Choose a later time."),
        (END - SECOND, "sam ends on Mon 2 Nov 2026, 06:00. Choose a later time."),
        (
            datetime(2201, 1, 1, tzinfo=UTC),
            "A date lies between 1970 and 2200; the year 2201 was sent.",
        ),
    ],
)
def test_an_end_that_extends_nothing_is_refused(running, alice, until, sentence):
    with pytest.raises(Invalid) as refusal:
        extend(claim=running(), by=alice, until=until, key="k")
    assert refusal.value.message == sentence
    assert not Extension.objects.exists()


def test_in_the_grace_only_an_end_after_now_extends(running, alice, clock):
    claim = running(grace=10 * HOUR, extension=DAY)
    clock.move_to(END + 2 * HOUR)
    for until in (END + HOUR, END + 2 * HOUR):
        with pytest.raises(Invalid, match="is in the past"):
            extend(claim=claim, by=alice, until=until, key="k")
    assert extend(claim=claim, by=alice, until=END + 2 * HOUR + SECOND, key="k").status == "approved"


def test_a_wish_cannot_be_granted_from_the_instant_on_until_which_it_asked(running, alice, lena, clock):
    claim = running(grace=10 * DAY)
    requested = make_extension(claim, until=END + HOUR)
    clock.move_to(END + HOUR)
    with pytest.raises(Conflict) as refusal:
        approve_extension(extension=requested, by=lena)
    assert refusal.value.message == "sam has ended; there is nothing left to extend."
    clock.move_to(END + HOUR - SECOND)
    assert approve_extension(extension=requested, by=lena).status == "approved"


def test_a_wish_says_whose_is_decided_first(running, alice, lena):
    claim = running()
    extend(claim=claim, by=lena, until=END + DAY, key="k")
    with pytest.raises(Conflict) as refusal:
        extend(claim=claim, by=alice, until=END + 2 * DAY, key="k")
    assert refusal.value.message == (
        "lena has already requested an extension of sam until Tue 3 Nov 2026, 06:00. "
        "Wait for the decision, or withdraw that request first."
    )
    make_extension(running("other"))  # a wish for one claim holds up none for another


def test_only_the_wish_that_waits_is_found(running, alice, lena):
    claim = running()
    first = extend(claim=claim, by=alice, until=END + DAY, key="a")
    deny_extension(extension=first, by=lena, reason="No.")
    assert pending_extension(claim) is None
    second = extend(claim=claim, by=alice, until=END + DAY, key="b")
    assert pending_extension(claim) == second


def test_a_wish_that_was_overtaken_is_granted_without_a_line(running, alice, lena):
    """The end is later already; to approve moves nothing."""
    claim = running()
    requested = make_extension(claim, until=END + DAY)
    Claim.objects.filter(pk=claim.pk).update(expires_at=END + DAY)
    before = (columns(claim), lines(claim))
    assert approve_extension(extension=requested, by=lena).status == "approved"
    assert (columns(claim), lines(claim)) == before


@pytest.mark.parametrize("state", [ClaimState.APPROVED, ClaimState.PROVISIONED, ClaimState.ALLOCATED])
def test_the_end_is_moved_in_every_state_in_which_time_runs(running, alice, state):
    claim = running(extension=DAY)
    Claim.objects.filter(pk=claim.pk).update(state=state)
    shorten(claim=claim, by=alice, until=END - HOUR)
    assert extend(claim=claim, by=alice, until=END + HOUR, key="k").status == "approved"


def test_a_claim_without_an_end_has_none_to_move(running, alice):
    claim = running()
    Claim.objects.filter(pk=claim.pk).update(expires_at=None)
    for act in (
        lambda: extend(claim=claim, by=alice, until=END, key="k"),
        lambda: shorten(claim=claim, by=alice, until=END),
    ):
        with pytest.raises(Conflict) as refusal:
            act()
        assert refusal.value.message == "sam has no end date."


# How far it may be extended.


def test_the_steps_are_the_usual_ones_and_that_of_the_profile_from_now_on(running, alice, clock):
    claim = running(grace=30 * DAY, extension=2 * DAY)
    spans = [4 * HOUR, 24 * HOUR, 2 * DAY, 3 * DAY, 7 * DAY]
    options = ExtensionPolicy(claim, by=alice).options()
    assert [(span, option.until, option.at_once) for span, option in options] == [
        (span, END + span, span <= 2 * DAY) for span in spans
    ]
    clock.move_to(END + 24 * HOUR)
    assert [span for span, _option in ExtensionPolicy(claim, by=alice).options()] == spans[2:]
    plain = running("plain")
    assert [span for span, _option in ExtensionPolicy(plain, by=alice).options()] == [3 * DAY, 7 * DAY]


@pytest.mark.parametrize(
    ("limits", "span", "sentence"),
    [
        (
            {"extension": DAY},
            DAY,
            "no approval. Steady Sam v1 may be extended by up to 1 d at a time without approval.",
        ),
        (
            {"extension": DAY},
            DAY + HOUR,
            "needs lars or lena. Steady Sam v1 may be extended by up to 1 d at a time without approval.",
        ),
        (
            {"max_duration": 2 * DAY, "extension": 9 * DAY},
            DAY + HOUR,
            "needs lars or lena. Steady Sam v1 allows 2 d in all; it would be 2 d 1 h.",
        ),
        (
            {},
            HOUR,
            "needs lars or lena. Steady Sam v1 requires approval by a team lead.",
        ),
    ],
)
def test_the_way_is_said_before_anything_is_sent(running, alice, limits, span, sentence):
    option = ExtensionPolicy(running(**limits), by=alice).option(END + span)
    assert f"{option.summary}. {option.why}" == sentence


def test_a_claim_on_which_nobody_can_decide_says_so(running, alice, vision):
    vision.memberships.filter(role="lead").delete()
    option = ExtensionPolicy(running(), by=alice).option(END + HOUR)
    assert option.summary == "nobody can decide on this"
    assert option.why == "Steady Sam v1 requires approval by a team lead."


def test_a_claim_was_granted_until_its_first_end_or_the_last_that_was_approved(running, alice, lena):
    claim = running()
    make_extension(claim, until=END + 9 * DAY, status="denied")
    make_extension(claim, until=END + 8 * DAY, status="withdrawn")
    assert ExtensionPolicy(claim, by=alice).granted_until == END
    make_extension(claim, until=END + 2 * DAY, status="approved")
    make_extension(claim, until=END + DAY, status="approved")
    make_extension(claim, until=END + 5 * DAY)
    policy = ExtensionPolicy(claim, by=alice)
    assert policy.granted_until == END + 2 * DAY
    at_the_edge, beyond = policy.option(END + 2 * DAY), policy.option(END + 2 * DAY + SECOND)
    assert (at_the_edge.at_once, beyond.at_once) == (True, False)
    assert at_the_edge.why == "It was granted until Wed 4 Nov 2026, 06:00 UTC before."


def test_of_several_profiles_the_shortest_longest_duration_holds(running, alice):
    claim = running(extension=9 * DAY)
    other = make_profile("short", extension=9 * DAY, max_duration=3 * DAY)
    for position, version in enumerate((claim.profile_version, other.current)):
        claim.alternatives.create(
            position=position, name=f"p{position}", profile_version=version, devices=1, together=True
        )
    policy = ExtensionPolicy(claim, by=alice)
    assert policy.option(END + 2 * DAY).at_once
    assert policy.option(END + 2 * DAY + HOUR).why == "Short v1 allows 3 d in all; it would be 3 d 1 h."


def test_when_the_time_of_a_claim_began_ends_and_is_deleted(running, vision, clock):
    claim = running(grace=2 * HOUR)
    assert (duration_start(claim), claim.deleted_at, claim.is_in_grace) == (END - DAY, END + 2 * HOUR, False)
    clock.move_to(END - SECOND)
    assert not claim.is_in_grace
    clock.move_to(END)
    assert claim.is_in_grace
    claim.state = ClaimState.RELEASING
    assert not claim.is_in_grace
    waiting = make_claim(vision)
    assert (duration_start(waiting), waiting.deleted_at, waiting.is_in_grace) == (
        waiting.created_at,
        None,
        False,
    )


# Less time.


def test_shortening_by_a_lead_writes_the_end_and_tells_the_owner(running, lena):
    claim = running()
    before = columns(claim)
    shorten(claim=claim, by=lena, until=END - 2 * HOUR)
    assert columns(claim) == before | {"expires_at": END - 2 * HOUR, "version": before["version"] + 1}
    why = "Shortened by 2 h, until Mon 2 Nov 2026, 04:00 UTC."
    assert lines(claim) == [remark(claim, why, "lena")]
    assert told() == [
        (
            "alice",
            f"shortened:{claim.pk}:2026-11-02T04:00:00+00:00",
            "sam ends earlier",
            "lena has moved its end to Mon 2 Nov 2026, 04:00 UTC.",
            f"/claims/{claim.pk}/",
            False,
        )
    ]


def test_an_owner_who_shortens_is_told_nothing_and_twice_is_once(running, alice):
    claim = running()
    for _again in range(2):
        shorten(claim=claim, by=alice, until=END - HOUR)
    assert (len(lines(claim)), told()) == (1, [])


@pytest.mark.parametrize(
    ("until", "sentence"),
    [
        (NOON, "Sun 1 Nov 2026, 12:00 is in the past; to end sam now, release it."),
        (END + SECOND, "sam ends on Mon 2 Nov 2026, 06:00 already; to keep it longer, extend it."),
        (datetime(1969, 1, 1, tzinfo=UTC), "A date lies between 1970 and 2200; the year 1969 was sent."),
    ],
)
def test_an_end_that_shortens_nothing_is_refused(running, alice, until, sentence):
    claim = running()
    with pytest.raises(Invalid) as refusal:
        shorten(claim=claim, by=alice, until=until)
    assert refusal.value.message == sentence
    assert shorten(claim=claim, by=alice, until=NOON + SECOND).expires_at == NOON + SECOND


def test_in_its_grace_a_claim_keeps_the_end_that_it_has(running, alice, clock):
    """To send the end that it has is no step into the past."""
    claim = running(grace=DAY)
    clock.move_to(END + HOUR)
    assert shorten(claim=claim, by=alice, until=END).expires_at == END
    assert lines(claim) == []


# Another owner.


def test_handing_over_changes_the_owner_alone(running, alice, mona):
    claim = running()
    before = columns(claim)
    transfer(claim=claim, by=alice, to=mona)
    changed = {"requested_by_id": mona.pk, "version": before["version"] + 1}
    assert columns(claim) == before | changed
    assert lines(claim) == [remark(claim, "Transferred from alice to mona.", "alice")]
    line = claim.history.last().pk
    body = "alice transferred sam to mona."
    address = f"/claims/{claim.pk}/"
    assert told() == [("mona", f"handed-over:{line}", "sam is yours now", body, address, False)]


def test_a_lead_who_hands_over_tells_both_and_one_who_takes_it_the_old_owner_alone(
    running, alice, lena, mona
):
    one, two = running("one"), running("two")
    transfer(claim=one, by=lena, to=mona)
    assert [(row[0], row[2]) for row in told()] == [
        ("alice", "one is mona's now"),
        ("mona", "one is yours now"),
    ]
    Notice.objects.all().delete()
    transfer(claim=two, by=lena, to=lena)
    assert [(row[0], row[2], row[3]) for row in told()] == [
        ("alice", "two is lena's now", "lena transferred two from alice to lena.")
    ]


def test_handing_over_to_who_has_it_writes_nothing_whatever_its_state(running, alice):
    claim = running()
    Claim.objects.filter(pk=claim.pk).update(state=ClaimState.RELEASED)
    before = columns(claim)
    assert transfer(claim=claim, by=alice, to=alice).requested_by == alice
    assert (columns(claim), lines(claim), told()) == (before, [], [])


def test_the_key_of_a_claim_stays_where_another_person_than_its_new_owner_has_used_it(
    running, alice, mona, lena, vision, fra
):
    claim = running()
    make_claim(vision, by=lena, cluster=fra, key=claim.key)
    key = claim.key
    transfer(claim=claim, by=alice, to=mona)
    assert Claim.objects.get(pk=claim.pk).key == key


def test_it_is_taken_back_until_ten_minutes_have_passed(running, alice, mona, clock):
    one, two = running("one"), running("two")
    for claim in (one, two):
        transfer(claim=claim, by=alice, to=mona)
    clock.move_to(NOON + timedelta(minutes=10) - SECOND)
    assert transfer(claim=one, by=alice, to=alice).requested_by == alice
    clock.move_to(NOON + timedelta(minutes=10))
    with pytest.raises(Forbidden, match="two belongs to mona; only the owner or a lead of vision"):
        transfer(claim=two, by=alice, to=alice)


def test_what_somebody_else_wrote_since_is_not_taken_back(running, alice, lena, mona):
    claim = running()
    transfer(claim=claim, by=alice, to=mona)
    shorten(claim=claim, by=lena, until=END - HOUR)
    with pytest.raises(Forbidden):
        transfer(claim=claim, by=alice, to=alice)


def test_heirs_are_the_active_members_of_a_team_from_the_rank_of_a_member_on(
    vision, alice, bob, lena, lars, mona
):
    gone = make_user("gone", is_active=False)
    vision.memberships.create(user=gone, role="member")
    assert {person.username for person in eligible_owners(vision)} == {"alice", "lars", "lena", "mona"}
