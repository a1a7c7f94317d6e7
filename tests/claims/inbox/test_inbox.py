"""The inbox of all kinds of requests: whose they are, their age, and search."""

import csv
from datetime import timedelta
from random import Random

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from claims.approvals import decide, pending
from claims.inbox import inbox
from claims.inbox.comments import open_question
from claims.inbox.inbox import PENDING_TABS, Inbox, InboxSearch
from claims.models import Claim, Comment
from claims.states import ClaimState
from tests.factories import make_claim, make_extension, make_profile, make_quota_request

pytestmark = pytest.mark.django_db

INBOX = reverse("claims:approvals")
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def held(vision, fra, train, alice):
    return make_claim(
        vision,
        by=alice,
        cluster=fra,
        profile=train,
        state=ClaimState.PROVISIONED,
        name="held",
        expires_at=timezone.now() + DAY,
    )


@pytest.fixture
def every_kind(ask, held, vision, alice):
    """A claim, more time and more quota, in this order of age."""
    requested = ask(name="sam2", devices=2)
    Claim.objects.filter(pk=requested.pk).update(created_at=timezone.now() - 30 * HOUR)
    pending.refresh()
    extension = make_extension(held, by=alice, requested_at=timezone.now() - 6 * HOUR)
    quota = make_quota_request(vision, 12, by=alice)
    return requested, extension, quota


def names(items):
    return [(item.kind, item.title) for item in items]


def test_each_kind_waits_for_its_approvers(every_kind, lena, root, alice, bob):
    assert names(Inbox(lena).pending(for_reader=True)) == [("claim", "sam2"), ("extension", "held")]
    assert names(Inbox(root).pending(for_reader=True)) == [("quota", "vision")]
    assert names(Inbox(alice).pending(for_reader=True)) == []
    assert names(Inbox(bob).pending()) == [("claim", "sam2"), ("extension", "held"), ("quota", "vision")]


def test_inbox_ages(every_kind, lena):
    assert [item.age for item in Inbox(lena).pending()] == ["late", "aging", "fresh"]


def test_requester_cannot_decide_on_their_extension(held, lena, lars):
    make_extension(held, by=lena)
    assert not Inbox(lena).pending(for_reader=True)
    assert names(Inbox(lars).pending(for_reader=True)) == [("extension", "held")]


def test_decided_tab_lists_all_kinds_newest_first(every_kind, lena, root):
    requested, extension, quota = every_kind
    quota.decide("approved", by=root)
    decide.deny(claim=requested, by=lena, reason="No.")
    extension.decide("denied", by=lena, note="No.")
    decided = Inbox(lena).tab("decided")
    assert len(decided) == 4
    assert names(decided[:4]) == [
        ("extension", "held"),
        ("claim", "sam2"),
        ("quota", "vision"),
        ("claim", "held"),
    ]
    assert [item.decision for item in decided[:4]] == ["denied", "denied", "approved", "approved"]
    assert names(decided[1:2]) == [("claim", "sam2")]


def test_approved_claim_stays_approved_after_release(vision, lena):
    make_claim(vision, name="over", state=ClaimState.RELEASED, decided_by=lena)
    assert [(item.decision, item.decided_by) for item in Inbox(lena).tab("decided")] == [("approved", lena)]


@pytest.mark.parametrize(
    ("search", "found"),
    [
        (InboxSearch("sam"), ["sam2"]),
        (InboxSearch("alice gpu.nvidia"), ["vision"]),
        (InboxSearch(profile="train-80"), ["sam2", "held"]),
        (InboxSearch(team="vision"), ["sam2", "held", "vision"]),
        (InboxSearch(team="nlp"), []),
        (InboxSearch("a", team="vision", profile="train-80"), ["sam2", "held"]),
        (InboxSearch("sam", profile="vision"), []),
        (InboxSearch("s_m"), []),
        (InboxSearch("nothing such"), []),
    ],
)
def test_inbox_search(every_kind, lena, search, found):
    assert [item.title for item in Inbox(lena, search).pending()] == found


def test_profile_filter_finds_an_alternative_once(ask, lena):
    slice_ = make_profile("slice-20")
    ask(name="either", alternatives=[slice_])
    assert [item.title for item in Inbox(lena, InboxSearch(profile="slice-20")).pending()] == ["either"]


def test_inbox_queries_do_not_grow_with_rows(every_kind, lena, vision, fra, train, alice):
    with CaptureQueriesContext(connection) as one:
        assert len(list(Inbox(lena).pending())) == 3
    for number in range(10):
        make_claim(vision, by=alice, cluster=fra, profile=train)
        later = make_claim(
            vision,
            by=alice,
            cluster=fra,
            profile=train,
            state=ClaimState.PROVISIONED,
            expires_at=timezone.now() + DAY,
        )
        make_extension(later, by=alice)
        make_quota_request(vision, by=alice, profile=make_profile(f"more-{number}"))
    with CaptureQueriesContext(connection) as many:
        assert len(list(Inbox(lena).pending())) == 33
    assert len(many) == len(one)


def test_number_of_requests_in_the_inbox_needs_one_query(every_kind, lena, alice, django_assert_num_queries):
    for user, number in ((lena, 2), (alice, 0)):
        with django_assert_num_queries(1):
            assert len(Inbox(user).pending(for_reader=True)) == number


def test_inbox_page_needs_no_more_queries_for_300_rows_than_for_3(
    client, every_kind, vision, fra, train, alice, lena
):
    claim, *_others = every_kind
    client.force_login(lena)
    client.get(INBOX)  # warm

    def queries():
        with CaptureQueriesContext(connection) as captured:
            assert client.get(INBOX, {"tab": "team", "page": 2}).status_code == 200
        return len(captured)

    few = queries()
    columns = {field.attname: getattr(claim, field.attname) for field in Claim._meta.concrete_fields}
    del columns["id"]
    Claim.objects.bulk_create(
        Claim(**columns | {"name": f"copy-{number}", "key": f"copy-{number}"}) for number in range(300)
    )
    pending.refresh()
    assert queries() <= few


def test_the_page_shows_tabs_ages_and_every_kind(client, every_kind, lena, root):
    client.force_login(lena)
    page = client.get(INBOX).text
    assert page.index("sam2") < page.index("held")
    assert "30 h" not in page  # ages have two units at most, the larger first
    assert "1 d 6 h</time>, overdue" in page
    assert "6 h</time>, due soon" in page
    assert "tab=all" not in page
    client.force_login(root)
    page = client.get(INBOX + "?tab=all").text
    assert "tab=all" in page
    assert "Quota:" in page


def test_the_csv_has_every_row_of_the_tab(client, every_kind, lena):
    client.force_login(lena)
    answer = client.get(INBOX + "?tab=team&format=csv")
    rows = list(csv.DictReader(answer.getvalue().decode().splitlines()))
    assert [(row["Kind"], row["Name"], row["Age"]) for row in rows] == [
        ("Claim", "sam2", "overdue"),
        ("Extension", "held", "due soon"),
        ("Quota", "vision", "new"),
    ]


def test_inbox_is_paginated(client, lena, vision, fra, train, alice):
    for _ in range(30):
        make_claim(vision, by=alice, cluster=fra, profile=train)
    client.force_login(lena)
    first = client.get(INBOX).text
    assert "Page 1 of 2" in first
    assert "Page 2 of 2" in client.get(INBOX + "?tab=mine&page=2").text


def test_extension_is_decided_from_the_inbox(client, every_kind, lena, lars, alice, bob, eve):
    _wish, extension, _quota = every_kind
    card = reverse("claims:extension", args=[extension.pk])
    approve, deny = (reverse(f"claims:extension_{what}", args=[extension.pk]) for what in ("approve", "deny"))
    for person, status in ((alice, 403), (bob, 403), (eve, 404)):
        client.force_login(person)
        assert client.post(approve).status_code == status
        assert client.get(card).status_code == (404 if person == eve else 200)
    client.force_login(lena)
    assert "data-approve" in client.get(card).text
    assert client.post(deny, {"note": ""}).status_code == 422
    assert client.post(approve, {"note": "Fine."}).status_code == 302
    extension.refresh_from_db()
    assert (extension.status, extension.decided_by) == ("approved", lena)
    client.force_login(lars)
    refused = client.post(deny, {"note": "No."})
    assert refused.status_code == 409
    assert "already approved by lena" in refused.text


def test_quota_request_is_decided_from_the_inbox(client, every_kind, quota, lena, root, eve):
    *_others, asked = every_kind
    card = reverse("claims:quota_request_decision", args=[asked.pk])
    approve = reverse("claims:quota_request_approve", args=[asked.pk])
    client.force_login(eve)
    assert client.get(card).status_code == client.post(approve).status_code == 404
    client.force_login(lena)
    assert "Only platform admins decide on quota." in client.get(card).text
    assert client.post(approve).status_code == 403
    client.force_login(root)
    assert client.post(approve).status_code == 302
    asked.refresh_from_db()
    quota.refresh_from_db()
    assert (asked.status, quota.devices) == ("approved", 12)


def test_the_api_lists_every_kind(every_kind, lena):
    api = APIClient()
    api.force_login(lena)
    rows = api.get("/api/v1/approvals/?tab=team").json()["results"]
    assert [(row["kind"], row["mine"]) for row in rows] == [
        ("claim", True),
        ("extension", True),
        ("quota", False),
    ]
    (listed,) = api.get("/api/v1/claims/?state=requested").json()["results"]
    assert listed["name"] == "sam2"
    assert [row["claim"] for row in rows] == [listed, None, None]


def test_every_page_of_decided_requests_is_in_order_from_the_nearer_end(vision, fra, lena, alice):
    now = timezone.now()
    for number in range(23):
        claim = make_claim(vision, by=alice, cluster=fra, state=ClaimState.DENIED, name=f"denied-{number}")
        # Two at each time, so that ids decide on their order.
        Claim.objects.filter(pk=claim.pk).update(
            decided_at=now - timedelta(hours=number // 2), decided_by=lena
        )
    decided = Inbox(lena).tab("decided")
    everything = [item.pk for item in decided[:]]
    assert everything == [
        claim.pk for claim in Claim.objects.exclude(decided_at=None).order_by("-decided_at", "pk")
    ]
    for start in range(24):
        assert [item.pk for item in decided[start : start + 5]] == everything[start : start + 5]


def test_row_has_the_open_question_that_its_thread_has(every_kind, alice, lena, bob):
    claim, random = every_kind[0], Random(7)
    start = timezone.now()
    for _ in range(60):
        claim.comments.all().delete()
        for number in range(random.randrange(6)):
            Comment.objects.create(
                claim=claim, by=random.choice([alice, lena, bob]), at=start + random.randrange(3) * HOUR,
                text="?", question=random.random() < 0.5, key=str(number),
            )  # fmt: skip
        (item,) = (item for item in Inbox(lena).pending() if item.pk == claim.pk)
        is_open = open_question(claim.comments.all()) is not None
        assert any("answer" in remark for remark in item.remarks) == is_open


def test_a_search_that_matches_everything_lists_and_counts_what_no_search_does(every_kind, lena, root):
    for person in (lena, root):
        plain, searched = Inbox(person), Inbox(person, InboxSearch(team="vision"))
        assert plain.counts() == searched.counts()
        for tab in PENDING_TABS:
            assert plain.tab(tab)[0:2] == searched.tab(tab)[0:2]
            assert list(plain.tab(tab)) == list(searched.tab(tab))
            assert len(plain.tab(tab)) == len(searched.tab(tab)) == len(list(plain.tab(tab)))


def test_decided_tab_counts_up_to_a_bound(client, vision, lena, monkeypatch):
    for number in range(60):
        made = make_claim(vision, name=f"d-{number}", state=ClaimState.RELEASED, decided_by=lena)
        Claim.objects.filter(pk=made.pk).update(decided_at=timezone.now() - number * HOUR)
    monkeypatch.setattr(inbox, "MAX_COUNT", 50)
    client.force_login(lena)
    first = client.get(INBOX, {"tab": "decided"}).text
    assert "Page 1<" in first
    assert "Page 3 of 3" in client.get(INBOX, {"tab": "decided", "page": 3}).text
    assert "Page 3 of 3" in client.get(INBOX, {"tab": "decided", "page": 10**6}).text
    pages = [client.get(INBOX, {"tab": "decided", "page": page}).context["rows"] for page in (1, 2, 3)]
    titles = [item.title for rows in pages for item in rows]
    assert titles == [f"d-{number}" for number in range(60)]
