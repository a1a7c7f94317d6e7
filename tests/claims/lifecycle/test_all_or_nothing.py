"""A fault at the end of a service takes back all that it had written, and no message is queued."""

from datetime import timedelta

import pytest
from django.db import models
from django.utils import timezone

from claims.approvals import notices
from claims.catalogue import services as catalogue
from claims.catalogue.definition import ProfileDefinition
from claims.delivery import tasks
from claims.lifecycle import services
from claims.models import (
    Alternative,
    Approval,
    Claim,
    ClaimCharge,
    Draft,
    Extension,
    Profile,
    ProfileVersion,
    Transition,
)
from claims.requests import services as requests_services
from claims.states import ClaimState
from notify.models import Notice
from tests.claims.columns import columns
from tests.claims.mirror import Mirror
from tests.factories import make_claim, make_extension, make_profile, make_spec, make_user, save_profile

pytestmark = pytest.mark.django_db
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
WRITTEN: tuple[type[models.Model], ...] = (
    *(Claim, ClaimCharge, Alternative, Transition, Extension, Draft, Notice, Profile, ProfileVersion),
)


class FaultError(Exception):
    """A fault of ours."""


def fail(*_args, **_fields):
    raise FaultError


def everything():
    return {
        model.__name__: sorted((columns(row) for row in model._base_manager.all()), key=str)
        for model in WRITTEN
    }


@pytest.fixture
def nothing_stays(monkeypatch, django_capture_on_commit_callbacks):
    """Return a function that does something whose last step fails, and looks at all that is there."""

    def check(owner, name, act):
        monkeypatch.setattr(tasks.deliver, "delay", lambda _id: pytest.fail("A message is queued."))
        monkeypatch.setattr(tasks.remove, "delay", lambda _id: pytest.fail("A message is queued."))
        before = everything()
        monkeypatch.setattr(owner, name, fail)
        with django_capture_on_commit_callbacks(execute=True), pytest.raises(FaultError):
            act()
        assert everything() == before

    return check


@pytest.fixture
def claim(vision, fra, alice, root, gateway):
    claim = make_claim(
        vision, by=alice, cluster=fra, profile=make_profile("steady", extension=DAY), name="sam",
        state=ClaimState.PROVISIONED, expires_at=timezone.now() + 4 * HOUR,
    )  # fmt: skip
    return Claim.objects.get(pk=claim.pk)


@pytest.mark.parametrize(
    ("approval", "owner", "name"),
    [
        (Approval.LEAD, notices, "notify_deciders"),
        (Approval.AUTOMATIC, requests_services, "after_commit"),
        (Approval.AUTOMATIC, Claim, "advance"),
    ],
)
def test_a_request_is_made_whole_or_not_at_all(ask, alice, claim, nothing_stays, approval, owner, name):
    first, second = (make_profile(slug, approval=approval) for slug in "pq")
    Draft.objects.create(by=alice, key="k", fields={})
    nothing_stays(owner, name, lambda: ask(profile=first, alternatives=[second], replaces=claim, key="k"))


@pytest.mark.parametrize("act", ["release", "withdraw"])
def test_a_claim_is_ended_with_its_line_or_not_at_all(claim, alice, nothing_stays, act):
    if act == "withdraw":
        claim.history.all().delete()
        Claim.objects.filter(pk=claim.pk).update(state=ClaimState.REQUESTED)
    nothing_stays(Transition, "save", lambda: getattr(services, act)(claim=claim, by=alice))


def test_a_claim_is_released_with_its_message_or_not_at_all(claim, alice, nothing_stays):
    nothing_stays(services, "after_commit", lambda: services.release(claim=claim, by=alice))


@pytest.mark.parametrize(
    ("span", "owner", "name"),
    [(HOUR, Claim, "remark"), (5 * DAY, services, "_notify_approvers"), (5 * DAY, Claim, "remark")],
)
def test_a_claim_is_extended_whole_or_not_at_all(claim, alice, nothing_stays, span, owner, name):
    until = claim.expires_at + span
    nothing_stays(owner, name, lambda: services.extend(claim=claim, by=alice, until=until, key="k"))


@pytest.mark.parametrize(("answer", "name"), [("approve", "_notify_requester"), ("approve", "_move_end"),
                                              ("deny", "_notify_requester")])  # fmt: skip
def test_a_wish_is_answered_whole_or_not_at_all(claim, lena, nothing_stays, answer, name):
    requested = make_extension(claim)
    acts = {
        "approve": lambda: services.approve_extension(extension=requested, by=lena),
        "deny": lambda: services.deny_extension(extension=requested, by=lena, reason="No."),
    }
    nothing_stays(services, name, acts[answer])


def test_a_wish_is_withdrawn_with_its_line_or_not_at_all(claim, alice, nothing_stays):
    requested = make_extension(claim)
    nothing_stays(Transition, "save", lambda: services.withdraw_extension(extension=requested, by=alice))


def test_a_claim_is_shortened_whole_or_not_at_all(claim, lena, nothing_stays):
    until = claim.expires_at - HOUR
    nothing_stays(services, "notify_of", lambda: services.shorten(claim=claim, by=lena, until=until))


def test_a_claim_is_handed_over_whole_or_not_at_all(claim, alice, vision, nothing_stays):
    mona = make_user("mona")
    vision.memberships.create(user=mona, role="member")
    nothing_stays(services, "_notify_transfer", lambda: services.transfer(claim=claim, by=alice, to=mona))


def test_an_object_is_accepted_whole_or_not_at_all(claim, root, fra, nothing_stays):
    mirror = Mirror(fra)
    mirror.claim("sam", claim, uid=claim.object_uid)
    mirror.gone(claim.object_uid, timezone.now())
    mirror.claim("sam", claim, uid="uid-2")
    nothing_stays(services, "_queue_reconcile", lambda: services.accept_object(claim=claim, by=root))


def test_a_profile_is_saved_whole_or_not_at_all(root, vision, nothing_stays):
    profile = make_profile("one")
    nothing_stays(
        catalogue,
        "_save_version",
        lambda: save_profile(
            by=root, profile=profile, slug="two", title="Two", spec=make_spec(), teams=[vision]
        ),
    )


def test_a_file_is_imported_whole_or_not_at_all(root, nothing_stays, monkeypatch):
    make_profile("gone")
    write, written = catalogue.write_profile, []

    def fail_at_the_second(**fields):
        written.append(fields["definition"].slug)
        return write(**fields) if len(written) == 1 else fail()

    definitions = [ProfileDefinition(slug=slug, title=slug, spec=make_spec()) for slug in ("a", "b")]
    monkeypatch.setattr(catalogue, "write_profile", fail_at_the_second)
    before = everything()
    with pytest.raises(FaultError):
        catalogue.import_profiles(by=root, definitions=definitions, prune=True)
    assert (written, everything()) == (["a", "b"], before)
