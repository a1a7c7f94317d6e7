"""Notices that ask for something are read by themselves when it is done."""

from datetime import timedelta

import pytest

from claims.inbox.comments import comment_on_claim
from claims.lifecycle.services import deny_extension, extend
from claims.models import Claim, ProfileVersion, RequestStatus
from claims.receivers import UNTIL_DECIDED, UNTIL_ENDED, UNTIL_OVER, UNTIL_USED
from claims.states import ClaimState
from notify.models import Notice, NoticeKind
from notify.services import notify, resolve
from tests.factories import make_claim, make_extension, make_quota_request

pytestmark = pytest.mark.django_db
S = ClaimState


def tell(person, key, *, important=True):
    notify([person], kind=NoticeKind.CHANGE, key=key, title=key, important=important)


def unread(key):
    return Notice.objects.filter(key=key, read_at=None).exists()


@pytest.mark.parametrize(
    ("begin", "end", "kinds"),
    [
        (S.REQUESTED, S.APPROVED, UNTIL_DECIDED),
        (S.REQUESTED, S.WITHDRAWN, (*UNTIL_DECIDED, *UNTIL_OVER)),
        (S.PROVISIONED, S.ALLOCATED, UNTIL_USED),
        (S.ALLOCATED, S.RELEASING, UNTIL_ENDED),
        (S.RELEASING, S.RELEASED, UNTIL_OVER),
    ],
)
def test_step_of_claim_reads_what_it_makes_needless(vision, alice, fra, train, begin, end, kinds):
    claim, other = (make_claim(team=vision, by=alice, cluster=fra, profile=train, state=begin) for _ in "ab")
    every = {*UNTIL_DECIDED, *UNTIL_USED, *UNTIL_OVER}
    for one in (claim, other):
        for kind in every:
            tell(alice, f"{kind}:{one.pk}:1")
    claim.advance(end, why="Test.")
    assert {kind for kind in every if not unread(f"{kind}:{claim.pk}:1")} == set(kinds)
    assert all(unread(f"{kind}:{other.pk}:1") for kind in every)


def test_only_what_needs_somebody_is_read_and_only_of_that_id(alice):
    tell(alice, "ask:1")
    tell(alice, "ask:12")
    tell(alice, "ask:1:again", important=False)
    resolve("ask:1")
    assert set(Notice.objects.filter(read_at=None).values_list("key", flat=True)) == {"ask:12", "ask:1:again"}


def test_answer_of_owner_reads_the_question(vision, alice, lena, fra, train):
    claim = make_claim(team=vision, by=alice, cluster=fra, profile=train)
    question = comment_on_claim(claim=claim, by=lena, text="Why?", key="1")
    assert unread(f"comment:{question.pk}")
    comment_on_claim(claim=claim, by=alice, text="Because.", key="2")
    assert not unread(f"comment:{question.pk}")


def test_extension_reads_the_notice_of_the_end(vision, alice, fra, train):
    claim = make_claim(team=vision, by=alice, cluster=fra, profile=train, state=S.ALLOCATED)
    tell(alice, f"ends:{claim.pk}:2026:3600")
    ProfileVersion.objects.update(extension=timedelta(hours=1))
    claim = Claim.objects.get(pk=claim.pk)
    extend(claim=claim, by=alice, until=claim.expires_at + timedelta(minutes=5), key="1")
    assert not unread(f"ends:{claim.pk}:2026:3600")


def test_decision_on_extension_and_quota_reads_the_request(vision, alice, lena, fra, train):
    claim = make_claim(team=vision, by=alice, cluster=fra, profile=train, state=S.ALLOCATED)
    extension = make_extension(claim)
    request = make_quota_request(vision, by=alice)
    keys = [f"extension:{extension.pk}:asked", f"remind:{extension.pk}:5", f"quota-request-{request.pk}"]
    for key in keys:
        tell(lena, key)
    deny_extension(extension=extension, by=lena, reason="No.")
    request.decide(RequestStatus.DENIED, by=lena)
    assert not any(unread(key) for key in keys)
