"""A platform admin reminds those who decide on a request, at most every four hours."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from claims.approvals import pending
from claims.approvals.authority import names_of_deciders
from claims.approvals.reminders import AGAIN_AFTER, deciders_of, remind_deciders
from claims.models import Claim, PendingDecision
from claims.states import ClaimState
from core.errors import Conflict, Forbidden
from notify.models import Notice
from teams.models import User
from tests.factories import make_claim

pytestmark = pytest.mark.django_db


@pytest.fixture
def request_(vision, alice, fra, train):
    claim = make_claim(vision, by=alice, cluster=fra, profile=train, name="occ-pretrain")
    pending.refresh(claims=[claim.pk])
    Notice.objects.all().delete()
    return PendingDecision.objects.select_related("team", "claim", "requester").get()


def reminded():
    return set(Notice.objects.values_list("user__username", flat=True))


def test_deciders_are_notified_and_the_history_says_so(request_, root):
    now = timezone.now() + timedelta(hours=5)
    people = remind_deciders(request=request_, by=root, now=now)
    assert reminded() == {person.username for person in people} == {"lars", "lena"}
    notice = Notice.objects.first()
    assert notice.title == "occ-pretrain has waited for your decision for 5 h"
    assert notice.url == reverse("claims:approval", args=[request_.pk])
    last = Claim.objects.get().history.last()
    assert (last.by, last.reason) == (root, "Reminded lars or lena to decide.")


@pytest.mark.parametrize(
    ("first", "self_approval", "people"),
    [
        ("", False, {"lars", "root"}),  # lena asks herself
        ("", True, {"lars", "lena", "root"}),
        ("root", False, {"lars"}),
        ("lars", True, {"lena", "root"}),
    ],
)
def test_nobody_is_asked_about_an_own_request_or_for_a_second_approval(
    request_, lena, root, first, self_approval, people
):
    request_.requester, request_.self_approval = lena, self_approval
    request_.for_leads = request_.for_admins = True
    request_.first_approver = User.objects.filter(username=first).first()
    assert {person.username for person in deciders_of(request_)} == people


def test_names_of_those_who_decide_leave_out_the_requester(request_, lena):
    def names():
        rows = PendingDecision.objects.annotate(names=names_of_deciders(timezone.now()))
        return rows.get().names

    assert len(names()) == 2
    PendingDecision.objects.update(requester=lena)
    assert names() == [User.objects.get(username="lars").label]


def test_next_reminder_is_possible_after_four_hours_and_survives_a_recomputation(request_, root):
    now = timezone.now()
    remind_deciders(request=request_, by=root, now=now)
    PendingDecision.objects.update(for_admins=True)
    pending.refresh(claims=[request_.pk])
    assert PendingDecision.objects.get().reminded_at == now
    with pytest.raises(Conflict, match="lars or lena got a reminder of occ-pretrain"):
        remind_deciders(request=request_, by=root, now=now + AGAIN_AFTER - timedelta(seconds=1))
    remind_deciders(request=request_, by=root, now=now + AGAIN_AFTER)
    assert Notice.objects.count() == 4


def test_request_that_was_decided_meanwhile_is_refused(request_, root):
    PendingDecision.objects.all().delete()
    with pytest.raises(Conflict, match="was decided in the meantime"):
        remind_deciders(request=request_, by=root, now=timezone.now())
    assert not Notice.objects.exists()


def test_only_platform_admins_remind(request_, alice, bob, lena):
    for person in (alice, bob, lena):
        with pytest.raises(Forbidden):
            remind_deciders(request=request_, by=person, now=timezone.now())


def test_who_alone_decides_cannot_remind_anybody(request_, root):
    PendingDecision.objects.update(for_leads=False, for_admins=True)
    request_.refresh_from_db()
    with pytest.raises(Conflict, match="Nobody but you"):
        remind_deciders(request=request_, by=root, now=timezone.now())


def test_button_of_home_is_replaced_by_what_was_done(client, request_, root):
    client.force_login(root)
    address = reverse("claims:remind", args=[request_.pk])
    assert address in client.get("/").text
    answer = client.post(address, headers={"HX-Request": "true"})
    assert (answer.status_code, "2 people reminded" in answer.text) == (200, True)
    assert client.post(address, headers={"HX-Request": "true"}).status_code == 409
    home = client.get("/").text
    assert address not in home
    assert "reminded" in home


def test_an_outsider_and_a_member_remind_nobody(client, request_, eve, bob, root):
    address = reverse("claims:remind", args=[request_.pk])
    for person, status in ((eve, 404), (bob, 403)):
        client.force_login(person)
        assert client.post(address).status_code == status
    client.force_login(root)
    without = client.post(address, {"next": "https://example.com/"})
    assert without.url == reverse("claims:approval", args=[request_.pk])
    assert Claim.objects.get().state == ClaimState.REQUESTED
