"""More time for a claim, and less: what is done at once, who is asked otherwise, and what they hear."""

from datetime import timedelta

import pytest
import time_machine
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.http import Http404
from django.utils import timezone

from claims.lifecycle.extension_rules import ExtensionPolicy, pending_extension
from claims.lifecycle.services import approve_extension, deny_extension, extend, shorten, withdraw_extension
from claims.models import ApprovalRule, Claim, Extension, RequestStatus
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, Invalid
from notify.models import Notice
from tests.factories import make_claim, make_profile

pytestmark = pytest.mark.django_db
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def running(vision, fra, alice):
    """Return a function that makes a claim of alice with a day granted, of which six hours have passed."""

    def make(**limits):
        since = timezone.now() - 6 * HOUR
        profile = make_profile("steady", **{"max_duration": 14 * DAY, **limits})
        return make_claim(
            vision,
            by=alice,
            cluster=fra,
            profile=profile,
            name="sam",
            state=ClaimState.PROVISIONED,
            decided_at=since,
            duration=DAY,
            expires_at=since + DAY,
        )

    return make


def asked(claim, alice, span=2 * DAY, **fields):
    return extend(claim=claim, by=alice, until=claim.expires_at + span, **{"key": "k", **fields})


@pytest.mark.parametrize(
    ("limits", "span", "at_once", "why"),
    [
        ({"extension": DAY}, DAY, True, "may be extended by up to 1 d at a time without approval"),
        ({"extension": DAY}, DAY + HOUR, False, "by up to 1 d at a time without approval"),
        ({}, HOUR, False, "requires approval by a team lead"),
        ({"extension": 30 * DAY}, 13 * DAY, True, "up to 30 d"),
        ({"extension": 30 * DAY}, 13 * DAY + HOUR, False, "allows 14 d in all; it would be 14 d 1 h"),
        ({"approval": "automatic"}, 13 * DAY, True, "Approved automatically"),
        ({"approval": "automatic"}, 14 * DAY, False, "allows 14 d in all"),
        (
            {"automatic_devices": 1, "automatic_duration": 3 * DAY},
            2 * DAY,
            True,
            "up to 1 device and up to 3 d",
        ),
        ({"automatic_devices": 1, "automatic_duration": 3 * DAY}, 2 * DAY + HOUR, False, "more than 3 d"),
    ],
)
def test_what_is_extended_at_once_and_for_what_somebody_is_asked(running, alice, limits, span, at_once, why):
    claim = running(**limits)
    option = ExtensionPolicy(claim, by=alice).option(claim.expires_at + span)
    assert option.at_once is at_once
    assert why in option.why
    assert ("lars or lena" in option.summary) is not at_once
    before = claim.expires_at
    extension = asked(claim, alice, span)
    claim.refresh_from_db()
    assert extension.status == (RequestStatus.APPROVED if at_once else RequestStatus.WAITING)
    assert claim.expires_at == (before + span if at_once else before)


def test_a_rule_of_the_team_may_let_it_be_extended_at_once(running, vision, alice):
    ApprovalRule.objects.create(team=vision, approval="automatic")
    claim = running()
    assert asked(claim, alice).status == RequestStatus.APPROVED


def test_of_several_profiles_the_least_extension_holds(running, alice):
    claim = running(extension=DAY)
    other = make_profile("short", extension=4 * HOUR, max_duration=14 * DAY)
    for position, version in enumerate((claim.profile_version, other.current)):
        claim.alternatives.create(
            position=position, name=f"p{position}", profile_version=version, devices=1, together=True
        )
    assert ExtensionPolicy(claim, by=alice).at_a_time == 4 * HOUR
    assert ExtensionPolicy(claim, by=alice).option(claim.expires_at + 4 * HOUR).at_once
    assert not ExtensionPolicy(claim, by=alice).option(claim.expires_at + 5 * HOUR).at_once


def test_a_lead_decides_and_both_sides_hear_of_it(running, alice, lena, lars):
    claim = running()
    extension = asked(claim, alice, reason="One more epoch.")
    assert pending_extension(claim) == extension
    told = Notice.objects.filter(key=f"extension:{extension.pk}:asked")
    assert {notice.user for notice in told} == {lena, lars}
    assert "One more epoch." in told[0].body
    assert told[0].important
    approve_extension(extension=extension, by=lena)
    claim.refresh_from_db()
    assert claim.expires_at == extension.until
    assert claim.history.last().reason.startswith("Extended by 2 d, until ")
    assert claim.history.last().by == lena
    heard = Notice.objects.get(user=alice, key=f"extension:{extension.pk}:answer")
    assert heard.title == "sam is extended"
    assert approve_extension(extension=extension, by=lena).status == RequestStatus.APPROVED
    with pytest.raises(Conflict, match="already approved by lena"):
        deny_extension(extension=extension, by=lars, reason="No.")


def test_a_denial_needs_a_reason_and_leaves_the_end(running, alice, lena):
    claim = running()
    extension, before = asked(claim, alice), claim.expires_at
    with pytest.raises(Invalid, match="give a reason"):
        deny_extension(extension=extension, by=lena, reason=" ")
    deny_extension(extension=extension, by=lena, reason="Others wait.")
    claim.refresh_from_db()
    assert claim.expires_at == before
    assert "Others wait." in Notice.objects.get(user=alice).body


def test_who_asks_does_not_decide_and_a_member_decides_nothing(running, vision, alice, lena):
    claim = running()
    Claim.objects.filter(pk=claim.pk).update(requested_by=lena)
    extension = asked(claim, lena)
    with pytest.raises(Forbidden, match="your own request"):
        approve_extension(extension=extension, by=lena)
    with pytest.raises(Forbidden, match="Only leads of vision decide"):
        approve_extension(extension=extension, by=alice)


def test_a_lead_who_asks_for_somebody_else_does_not_decide_either(running, lena, lars):
    extension = asked(running(), lena)
    with pytest.raises(Forbidden):
        approve_extension(extension=extension, by=lena)
    assert approve_extension(extension=extension, by=lars).status == RequestStatus.APPROVED


def test_the_owner_hears_of_the_answer_to_what_a_lead_asked_for(running, alice, lena, lars):
    extension = asked(running(), lena)
    approve_extension(extension=extension, by=lars)
    told = Notice.objects.filter(key=f"extension:{extension.pk}:answer")
    assert {notice.user for notice in told} == {alice, lena}


def test_one_waits_at_a_time_but_what_needs_nobody_goes_on(running, alice):
    claim = running(extension=HOUR)
    asked(claim, alice)
    with pytest.raises(Conflict, match="You have already requested an extension of sam until"):
        asked(claim, alice, 3 * DAY, key="other")
    assert asked(claim, alice, HOUR, key="short").status == RequestStatus.APPROVED


def test_the_database_holds_one_that_waits_for_each_claim(running, alice):
    claim = running()
    first = asked(claim, alice)
    fields = {"claim": claim, "requested_by": alice, "previous_end": first.previous_end, "until": first.until}
    with pytest.raises(IntegrityError, match="extension_one_waits"), transaction.atomic():
        Extension.objects.create(key="second", **fields)
    withdraw_extension(extension=first, by=alice)
    assert Extension.objects.create(key="second", **fields).status == RequestStatus.WAITING


def test_the_same_key_asks_once(running, alice):
    claim = running()
    assert asked(claim, alice) == asked(claim, alice)
    assert Extension.objects.count() == 1


def test_an_approval_that_comes_late_never_moves_the_end_back(running, alice, lena):
    claim = running(extension=7 * DAY)
    extension = asked(claim, alice, 8 * DAY)
    later = extend(claim=claim, by=alice, until=claim.expires_at + 7 * DAY, key="a")
    extend(claim=claim, by=alice, until=later.until + 3 * DAY, key="b")
    approve_extension(extension=extension, by=lena)
    claim.refresh_from_db()
    assert claim.expires_at == later.until + 3 * DAY


@pytest.mark.parametrize("state", [ClaimState.RELEASING, ClaimState.RELEASED, ClaimState.REQUESTED])
def test_what_has_no_time_is_not_extended_nor_shortened(running, alice, state):
    claim = running()
    Claim.objects.filter(pk=claim.pk).update(state=state)
    with pytest.raises(Conflict, match="only a running claim has an end date"):
        asked(claim, alice)
    with pytest.raises(Conflict, match="only a running claim has an end date"):
        shorten(claim=claim, by=alice, until=claim.expires_at - HOUR)


def test_an_approval_after_the_end_is_too_late(running, alice, lena):
    claim = running()
    extension = asked(claim, alice)
    Claim.objects.filter(pk=claim.pk).update(state=ClaimState.RELEASING)
    with pytest.raises(Conflict, match="has ended"):
        approve_extension(extension=extension, by=lena)


def test_an_approval_after_the_end_that_was_asked_for_is_too_late(running, alice, lena):
    claim = running(grace=7 * DAY)
    extension = asked(claim, alice)
    with (
        time_machine.travel(extension.until + HOUR, tick=False),
        pytest.raises(Conflict, match="nothing left to extend"),
    ):
        approve_extension(extension=extension, by=lena)
    extension.refresh_from_db()
    assert extension.status == RequestStatus.WAITING


def test_an_end_that_is_none_is_refused(running, alice):
    claim = running()
    with pytest.raises(Invalid, match="Choose a later time"):
        asked(claim, alice, timedelta(0))


def test_only_the_owner_and_leads_may_change_the_end(running, alice, bob, eve, vision):
    claim = running()
    with pytest.raises(PermissionDenied):
        asked(claim, bob)
    with pytest.raises(Http404):
        asked(claim, eve)
    vision.memberships.create(user=eve, role="member")
    with pytest.raises(Forbidden, match="belongs to alice"):
        shorten(claim=claim, by=eve, until=timezone.now() + HOUR)


def test_what_is_shortened_can_be_had_back_without_asking(running, alice):
    claim = running()
    granted = claim.expires_at
    shorten(claim=claim, by=alice, until=granted - 4 * HOUR)
    claim.refresh_from_db()
    assert claim.expires_at == granted - 4 * HOUR
    assert claim.history.last().reason.startswith("Shortened by 4 h")
    assert extend(claim=claim, by=alice, until=granted, key="back").status == RequestStatus.APPROVED
    claim.refresh_from_db()
    assert claim.expires_at == granted


def test_an_end_in_the_past_is_a_release_and_a_later_one_an_extension(running, alice):
    claim = running()
    with pytest.raises(Invalid, match="release it"):
        shorten(claim=claim, by=alice, until=timezone.now() - HOUR)
    with pytest.raises(Invalid, match="extend it"):
        shorten(claim=claim, by=alice, until=claim.expires_at + HOUR)
    assert shorten(claim=claim, by=alice, until=claim.expires_at).expires_at == claim.expires_at


def test_a_lead_who_shortens_tells_the_owner(running, alice, lena):
    claim = running()
    shorten(claim=claim, by=lena, until=timezone.now() + HOUR)
    assert Notice.objects.get(user=alice).title == "sam ends earlier"


def test_a_wish_can_be_taken_back_until_it_is_decided(running, alice, lena):
    claim = running()
    extension = asked(claim, alice)
    assert withdraw_extension(extension=extension, by=alice).status == RequestStatus.WITHDRAWN
    assert claim.history.last().reason == "Extension request withdrawn."
    with pytest.raises(Conflict, match="already withdrawn by alice"):
        approve_extension(extension=extension, by=lena)
