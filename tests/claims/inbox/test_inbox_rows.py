"""Items of the inbox field by field, bulk decisions, comments, and the impact on the card."""

import csv
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
import time_machine
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from claims.approvals import decide as decisions
from claims.approvals import pending
from claims.inbox import bulk, comments
from claims.inbox.bulk import Decision, decide, preview_decisions, select_requests, total_effects
from claims.inbox.comments import open_question
from claims.inbox.impact import other_claims, past_claims, past_use, queue_sentence, share_of_free
from claims.inbox.inbox import Inbox, InboxSearch, Item, ItemKind
from claims.models import (
    Approval,
    ApprovalRule,
    Claim,
    Comment,
    Delegation,
    Extension,
    PendingDecision,
    Quota,
    ReasonTemplate,
)
from claims.states import ClaimState
from core.errors import Invalid
from core.times import moment
from notify.models import Notice
from tests.factories import (
    GPU_CLASS,
    make_allocation,
    make_claim,
    make_cluster,
    make_extension,
    make_profile,
    make_quota,
    make_quota_request,
    make_spec,
    make_team,
    make_user,
)

pytestmark = pytest.mark.django_db
HOUR, DAY, SECOND = timedelta(hours=1), timedelta(days=1), timedelta(seconds=1)
INBOX, BULK = reverse("claims:approvals"), reverse("claims:bulk_decisions")
LIST, DECIDE = "/api/v1/approvals/", "/api/v1/approvals/decide/"


@pytest.fixture(autouse=True)
def now():
    with time_machine.travel(timezone.now().replace(microsecond=0), tick=False):
        yield timezone.now()


@pytest.fixture
def held(vision, fra, train, alice, now):
    return make_claim(
        vision, by=alice, cluster=fra, profile=train, devices=2, name="held", state=ClaimState.PROVISIONED,
        expires_at=now + DAY, decided_at=now - DAY,
    )  # fmt: skip


@pytest.fixture
def waiting_claim(vision, fra, train, alice, quota, now):
    claim = make_claim(vision, by=alice, cluster=fra, profile=train, devices=3, name="sam2", reason="Tuning.")
    Claim.objects.filter(pk=claim.pk).update(created_at=now - 3 * HOUR)
    pending.refresh()
    claim.refresh_from_db()
    return claim


@pytest.fixture
def longer(held, alice, now):
    return make_extension(held, by=alice, until=held.expires_at + 2 * DAY, requested_at=now - 2 * HOUR)


@pytest.fixture
def more(vision, alice, quota, now):
    return make_quota_request(vision, 12, by=alice, requested_at=now - HOUR)


def api(user):
    made = APIClient()
    made.force_login(user)
    return made


def titles(items):
    return [(item.kind, item.title) for item in items]


def told():
    rows = Notice.objects.order_by("user__username", "created_at", "pk")
    return list(rows.values_list("user__username", "title", "body", "url", "important"))


# Items.


def test_each_kind_of_item_has_every_field(waiting_claim, longer, more, lena, alice, vision, now):
    inbox = Inbox(lena)
    claims, extensions, requests = inbox.pending()
    common = {"team": vision, "requester": alice}
    assert claims == Item(
        "claim", waiting_claim.pk, "sam2", "3 × Train 80, 1 d", requested_at=now - 3 * HOUR,
        url=reverse("claims:approval", args=[waiting_claim.pk]), mine=True, **common,
    )  # fmt: skip
    assert extensions == Item(
        "extension", longer.pk, "held", f"2 d longer, until {moment(longer.until)}",
        requested_at=now - 2 * HOUR,
        url=reverse("claims:extension", args=[longer.pk]), mine=True, **common,
    )  # fmt: skip
    assert requests == Item(
        "quota", more.pk, "vision", "limit of 12 × gpu.nvidia.com", requested_at=now - HOUR,
        url=reverse("claims:quota_request_decision", args=[more.pk]), mine=False, **common,
    )  # fmt: skip
    assert [item.label for item in (claims, extensions, requests)] == ["Claim", "Extension", "Quota"]


def test_decided_items_show_person_time_and_decision(waiting_claim, longer, more, lena, root, now):
    decisions.deny(claim=waiting_claim, by=lena, reason="No.")
    longer.decide("approved", by=root)
    more.decide("expired", by=None)
    found = {
        (item.kind, item.title): (item.decision, item.decided_by, item.decided_at, item.mine, item.remarks)
        for item in Inbox(lena).tab("decided")[:10]
    }
    assert found[("claim", "sam2")] == ("denied", lena, now, False, ())
    assert found[("extension", "held")] == ("approved", root, now, False, ())
    assert found[("quota", "vision")] == ("expired", None, now, False, ())
    assert found[("claim", "held")][0] == "approved"
    assert len(found) == 4


@pytest.mark.parametrize(
    ("age", "word", "label"),
    [
        (timedelta(0), "fresh", "new"),
        (4 * HOUR - SECOND, "fresh", "new"),
        (4 * HOUR, "aging", "due soon"),
        (DAY - SECOND, "aging", "due soon"),
        (DAY, "late", "overdue"),
    ],
)
def test_item_is_due_soon_after_4_hours_and_overdue_after_24(more, now, age, word, label):
    type(more).objects.update(requested_at=now - age)
    (item,) = Inbox(more.requested_by).pending()
    assert (item.age, item.age_label) == (word, label)


def test_quota_item_names_profile_or_claims(vision, train, alice):
    make_quota_request(vision, 3, by=alice, profile=train)
    make_quota_request(vision, 4, by=alice, counts="claims")
    assert {item.summary for item in Inbox(alice).pending()} == {
        "limit of 3 × train-80",
        "limit of 4 × claims",
    }


def test_item_remarks(waiting_claim, vision, lena, root, now):
    ApprovalRule.objects.create(team=vision, approval=Approval.BOTH)
    decisions.approve(claim=waiting_claim, by=lena, spec_hash=waiting_claim.spec_hash)
    Claim.objects.update(escalated_at=now)
    comments.comment_on_claim(claim=waiting_claim, by=root, text="Why?", key="k")
    (item,) = Inbox(root).pending(for_reader=True)
    assert item.remarks == (
        "escalated to platform admins",
        "first approval by lena",
        "waits for alice's answer",
    )


@pytest.mark.parametrize("person", ["alice", "bob", "lena", "root", "eve", "mira", "ada", "olaf"])
def test_pending_count_equals_the_inbox(
    request, vision, waiting_claim, longer, more, lena, root, fra, train, now, person
):
    """For a member, a viewer, a lead, admins, an outsider, a stand-in, and a lead of another team."""
    ada, mira, olaf = make_user("ada", admin=True), make_user("mira"), make_user("olaf")
    vision.memberships.create(user=mira, role="member")
    Delegation.objects.create(team=vision, lead=lena, to=mira, starts_at=now - HOUR, ends_at=now + HOUR)
    nlp = make_team("nlp", leads=(olaf,))
    of_nlp = make_claim(nlp, by=make_user("noor"), cluster=fra, profile=train, name="of-nlp")
    make_claim(make_team("empty"), by=make_user("noor"), cluster=fra, profile=train, name="of-empty")
    make_claim(vision, by=lena, cluster=fra, profile=train, name="of-lead")
    make_claim(vision, by=mira, cluster=fra, profile=train, name="of-mira")
    make_claim(
        vision, by=root, cluster=fra, profile=make_profile("big", approval=Approval.ADMIN), name="of-admin"
    )
    Claim.objects.filter(pk=of_nlp.pk).update(escalated_at=now)
    pending.refresh()
    make_quota_request(vision, 5, by=ada, counts="claims")
    user = {"mira": mira, "ada": ada, "olaf": olaf}.get(person) or request.getfixturevalue(person)
    waiting = Inbox(user).pending(for_reader=True)
    expected = {
        "alice": set(),
        "bob": set(),
        "eve": set(),
        "lena": {"sam2", "held", "of-mira"},
        "mira": {"sam2", "held"},
        "olaf": {"of-nlp"},
        "root": {"of-nlp", "of-empty", "vision"},
        "ada": {"of-nlp", "of-empty", "of-admin", "vision"},
    }[person]
    assert {item.title for item in waiting} == expected
    assert len([item for item in waiting if item.kind == "quota"]) == {"root": 2, "ada": 1}.get(person, 0)
    assert (
        [row.requested_at for row in pending.waiting_for(user)]
        == [item.requested_at for item in waiting]
        == sorted(item.requested_at for item in waiting)
    )
    assert PendingDecision.objects.count() == 9


def test_tabs_filter_by_reader_and_team(waiting_claim, more, lena, root, fra, train, vision):
    nlp = make_team("nlp", leads=(make_user("olaf"),))
    vision.memberships.create(user=root, role="viewer")
    make_claim(nlp, by=make_user("noor"), cluster=fra, profile=train, name="of-nlp")
    inbox = Inbox(root)
    assert {item.title for item in inbox.tab("all")} == {"sam2", "vision", "of-nlp"}
    assert {item.title for item in inbox.tab("team")} == {"sam2", "vision"}
    assert {item.title for item in inbox.tab("mine")} == {"vision"}
    assert {item.title for item in Inbox(lena).tab("all")} == {"sam2", "vision"}


def test_the_list_counts_each_tab_and_offers_all_to_admins(client, waiting_claim, longer, more, lena, root):
    client.force_login(lena)
    context = client.get(INBOX).context
    assert context["tabs"] == [("mine", "Mine", 2), ("team", "My teams", 3), ("decided", "Decided", None)]
    assert (context["edits_reasons"], context["on_list"], context["current"]) == (
        True,
        True,
        waiting_claim.pk,
    )
    client.force_login(root)
    context = client.get(INBOX, {"tab": "all", "q": "", "other": "x", "page": "9"}).context
    assert context["tabs"] == [
        ("mine", "Mine", 1),
        ("team", "My teams", 0),
        ("all", "All", 3),
        ("decided", "Decided", None),
    ]
    assert context["query"] == "tab=all&q=&page=9"
    assert (context["is_filtered"], context["page"].number) == (False, 1)
    assert client.get(INBOX, {"team": "vision"}).context["is_filtered"]


@pytest.mark.parametrize(("rows", "pages"), [(25, 1), (26, 2)])
def test_a_page_of_the_inbox_has_25_rows(client, lena, vision, fra, train, alice, rows, pages):
    for _ in range(rows):
        make_claim(vision, by=alice, cluster=fra, profile=train)
    client.force_login(lena)
    page = client.get(INBOX).context["page"]
    assert (page.paginator.num_pages, len(page)) == (pages, 25)


def test_csv_has_every_column_of_pending_and_decided_rows(client, waiting_claim, longer, lena, now):
    decisions.deny(claim=waiting_claim, by=lena, reason="No.")
    client.force_login(lena)

    def rows(tab):
        answer = client.get(INBOX, {"tab": tab, "format": "csv"})
        assert answer["Content-Disposition"] == f'attachment; filename="approvals-{tab}.csv"'
        return list(csv.reader(answer.getvalue().decode().splitlines()))[1:]

    asked = (now - 2 * HOUR).isoformat()
    span = f"2 d longer, until {moment(longer.until)}"
    assert rows("mine") == [["Extension", "held", span, "vision", "alice", asked, "new", "", "", ""]]
    assert rows("decided")[0] == [
        "Claim", "sam2", "3 × Train 80, 1 d", "vision", "alice", (now - 3 * HOUR).isoformat(), "", "denied",
        "lena", now.isoformat(),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("search", "found"),
    [
        (InboxSearch("SAM"), {"sam2"}),
        (InboxSearch("tuning"), {"sam2"}),
        (InboxSearch("alice"), {"sam2", "held", "vision"}),
        (InboxSearch("alice sam"), {"sam2"}),
        (InboxSearch("train 80"), {"sam2"}),
        (InboxSearch("keep"), {"held"}),
        (InboxSearch("paper gpu"), {"vision"}),
        (InboxSearch("sam", team="nlp"), set()),
        (InboxSearch(team="nlp"), {"of-nlp"}),
        (InboxSearch("sam", profile="train-80"), {"sam2"}),
        (InboxSearch(profile="other"), {"nlp"}),
    ],
)
def test_search_filters_every_kind(waiting_claim, longer, more, root, fra, search, found):
    Extension.objects.update(reason="Keep it.")
    nlp, other = make_team("nlp"), make_profile("other")
    noor = make_user("noor")
    make_claim(nlp, by=noor, cluster=fra, profile=make_profile("third"), name="of-nlp")
    make_quota_request(nlp, 3, by=noor, profile=other)
    if search == InboxSearch(team="nlp"):
        found = {"of-nlp", "nlp"}
    assert {item.title for item in Inbox(root, search).pending()} == found


def test_api_has_every_field_and_refuses_an_unknown_tab(waiting_claim, lena, root, now):
    (row,) = api(lena).get(LIST).json()["results"]
    assert row.pop("claim")["name"] == "sam2"
    assert row == {
        "id": str(waiting_claim.pk),
        "kind": "claim",
        "title": "sam2",
        "summary": "3 × Train 80, 1 d",
        "team": "vision",
        "requested_by": "alice",
        "requested_at": (now - 3 * HOUR).isoformat().replace("+00:00", "Z"),
        "age": "fresh",
        "mine": True,
        "remarks": [],
        "decision": "",
        "decided_by": None,
        "decided_at": None,
        "url": reverse("claims:approval", args=[waiting_claim.pk]),
    }
    assert api(lena).get(LIST, {"tab": "some"}).status_code == 422
    assert api(root).get(LIST).json()["results"] == []
    assert len(api(root).get(LIST, {"tab": "all", "q": "sam", "team": "vision"}).json()["results"]) == 1
    assert api(root).get(LIST, {"tab": "all", "profile": "other"}).json()["field"] == "profile"


# Questions.


def line(by, question=False):
    return SimpleNamespace(by_id=by, question=question)


@pytest.mark.parametrize(
    ("thread", "waits"),
    [
        ([], None),
        ([line(1)], None),
        ([line(1, True)], 0),
        ([line(1, True), line(1)], 0),  # who asked goes on writing
        ([line(1, True), line(2)], None),
        ([line(1, True), line(2), line(3, True)], 2),
        ([line(1, True), line(3, True), line(1)], None),
        ([line(1, True), line(3, True), line(3)], 1),
        ([line(2), line(1, True)], 1),
    ],
)
def test_question_is_open_until_somebody_else_comments(thread, waits):
    assert open_question(thread) is (None if waits is None else thread[waits])


def test_comment_writes_every_column_and_bumps_the_version_once(waiting_claim, lena, lars, now):
    before = waiting_claim.version
    for _ in range(2):
        made = comments.comment_on_claim(claim=waiting_claim, by=lena, text="  Why three? ", key="x" * 80)
    assert list(Comment.objects.values()) == [
        {
            "id": made.pk,
            "claim_id": waiting_claim.pk,
            "quota_request_id": None,
            "by_id": lena.pk,
            "at": now,
            "text": "Why three?",
            "question": True,
            "key": "x" * 80,
        }
    ]
    waiting_claim.refresh_from_db()
    assert waiting_claim.version == before + 1
    url = reverse("claims:detail", args=[waiting_claim.pk]) + "#thread"
    assert told() == [("alice", "lena has a question about sam2", "Why three?", url, True)]
    comments.comment_on_claim(
        claim=waiting_claim, by=lars, text="Same key.", key="x" * 80
    )  # of another person
    assert Comment.objects.count() == 2


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("x", "", "A comment needs a key of 1 to 80 characters"),
        ("x", "x" * 81, "A comment needs a key of 1 to 80 characters"),
        (" ", "k", "Write 1 to 2000 characters; this text has 0."),
        ("x" * 2001, "k", "Write 1 to 2000 characters; this text has 2001."),
        ("x" * 2000, "k", ""),
    ],
)
def test_comment_has_1_to_2000_characters_and_a_key(waiting_claim, lena, text, key, said):
    if not said:
        assert comments.comment_on_claim(claim=waiting_claim, by=lena, text=text, key=key).text == text
        return
    with pytest.raises(Invalid) as refused:
        comments.comment_on_claim(claim=waiting_claim, by=lena, text=text, key=key)
    assert refused.value.message.startswith(said)
    assert not Comment.objects.exists()


def test_comments_notify_the_other_side_only(waiting_claim, vision, alice, lena, lars, root):
    carol = make_user("carol")
    vision.memberships.create(user=carol, role="member")

    def say(by, text):
        Notice.objects.all().delete()
        made = comments.comment_on_claim(claim=waiting_claim, by=by, text=text, key=text)
        return made.question, [(who, title, important) for who, title, _body, _url, important in told()]

    wrote = "commented on sam2"
    assert say(alice, "More.") == (
        False,
        [("lars", f"alice {wrote}", False), ("lena", f"alice {wrote}", False)],
    )
    assert say(carol, "Hm.") == (False, [("alice", f"carol {wrote}", False)])
    assert say(lena, "Why?") == (True, [("alice", "lena has a question about sam2", True)])
    assert say(carol, "So.") == (
        False,
        [("alice", f"carol {wrote}", False), ("lena", f"carol {wrote}", False)],
    )
    assert say(alice, "Thus.") == (False, [("lena", f"alice {wrote}", False)])
    assert say(lars, "And?") == (True, [("alice", "lars has a question about sam2", True)])
    assert say(alice, "Also.") == (
        False,
        [("lars", f"alice {wrote}", False), ("lena", f"alice {wrote}", False)],
    )
    decisions.deny(claim=waiting_claim, by=lena, reason="No.")
    assert say(lena, "Sorry.")[0] is False  # nothing waits for an answer


def test_comment_after_the_decision_notifies_nobody(waiting_claim, alice, lena):
    decisions.approve(claim=waiting_claim, by=lena, spec_hash=waiting_claim.spec_hash)
    Notice.objects.all().delete()
    comments.comment_on_claim(claim=waiting_claim, by=alice, text="Thanks.", key="k")
    assert told() == []


def test_quota_request_has_its_own_thread(more, waiting_claim, root, alice, lena, bob, eve, vision):
    other = make_quota_request(vision, 5, by=alice, counts="claims")
    url = reverse("claims:quota_request_decision", args=[more.pk])

    def say(by, text, about=more):
        Notice.objects.all().delete()
        made = comments.comment_on_quota_request(quota_request=about, by=by, text=text, key=text)
        return made.question, [(who, title, body, where, asks) for who, title, body, where, asks in told()]

    assert say(root, "Until when?", other)[0]
    assert say(alice, "More.") == (False, [])
    assert say(root, "Why?") == (
        True,
        [("alice", "root has a question about vision: 12 × gpu.nvidia.com", "Why?", url, True)],
    )
    title = "commented on vision: 12 × gpu.nvidia.com"
    assert say(lena, "So.") == (
        False,
        [("alice", f"lena {title}", "So.", url, False), ("root", f"lena {title}", "So.", url, False)],
    )
    assert say(alice, "Thus.") == (False, [("root", f"alice {title}", "Thus.", url, False)])
    for person, error in ((bob, PermissionDenied), (eve, Http404)):
        with pytest.raises(error):
            say(person, "Hm.")
    assert set(more.comments.values_list("text", flat=True)) == {"More.", "Why?", "So.", "Thus."}
    more.decide("denied", by=root)
    more.refresh_from_db()
    assert say(root, "Sorry.")[0] is False


# Several at once.


def lines_of(user, **ids: Any):
    inbox = Inbox(user)
    named: Any = ids
    return preview_decisions(inbox, select_requests(inbox, named))


def said(lines):
    return [(one.item.title, one.effects, one.warning, one.blocked_reason) for one in lines]


def test_preview_shows_the_effect_of_each_kind(waiting_claim, longer, more, held, root, lena):
    ids = {"claim": [waiting_claim.pk], "extension": [longer.pk], "quota": [more.pk]}
    end, until = moment(held.expires_at), moment(longer.until)
    of_claim = ("sam2", ("gpu.nvidia.com: 2 → 5 of 8 used",), "", "")
    of_extension = ("held", (f"Expires on {until} instead of {end}: 2 d longer.",), "", "")
    of_quota = ("vision", ("Limit of gpu.nvidia.com: 8 → 12, for good.",), "", "")
    assert said(lines_of(root, **ids)) == [of_claim, of_extension, of_quota]
    lines = lines_of(lena, **ids)
    assert said(lines)[:2] == [of_claim, of_extension]
    assert said(lines)[2] == ("vision", (), "", "Only platform admins decide on quota.")
    assert total_effects(lines) == [
        "vision would use 5 of 8 gpu.nvidia.com devices, 3 of them for these requests.",
        "vision would keep 2 × gpu.nvidia.com longer: 96 device-hours in total.",
    ]
    assert total_effects(lines_of(root, quota=[more.pk])) == ["vision: limit of gpu.nvidia.com 8 → 12."]
    more.decide("denied", by=root)
    assert said(lines_of(root, quota=[more.pk])) == [("vision", (), "", "Already decided: denied.")]


def test_total_effects_add_up_per_team(waiting_claim, held, quota, vision, fra, train, root, now):
    nlp, noor = make_team("nlp"), make_user("noor")
    make_quota(nlp, 9)
    second = make_claim(vision, by=noor, cluster=fra, profile=train, devices=1)
    third = make_claim(nlp, by=noor, cluster=fra, profile=train, devices=4)
    also = make_claim(
        nlp, by=noor, cluster=fra, profile=train, devices=1, state=ClaimState.PROVISIONED,
        expires_at=now + DAY, decided_at=now - DAY,
    )  # fmt: skip
    extensions = [make_extension(held), make_extension(also, until=also.expires_at + 3 * HOUR)]
    ids = {
        "claim": [waiting_claim.pk, second.pk, third.pk],
        "extension": [one.pk for one in extensions],
    }
    found = total_effects(lines_of(root, **ids))
    assert set(found[:2]) == {
        "nlp would use 5 of 9 gpu.nvidia.com devices, 4 of them for these requests.",
        "vision would use 6 of 8 gpu.nvidia.com devices, 4 of them for these requests.",
    }
    assert found[2:] == [
        "nlp would keep 1 × gpu.nvidia.com longer: 3 device-hours in total.",
        "vision would keep 2 × gpu.nvidia.com longer: 48 device-hours in total.",
    ]


@pytest.mark.parametrize(
    ("spoilt", "warning"),
    [
        ("ended", "It has ended; there is nothing left to extend."),
        ("passed", "It has ended; there is nothing left to extend."),
        ("ends then", "It already runs until {end}."),
        ("later by now", "It already runs until {end}."),
        ("replaced", "held is being replaced by next, so it may not be extended."),
        ("too long", "Total duration 4 d; train-80 allows 3 d 23 h."),
        ("just as long", ""),
    ],
)
def test_extension_preview_warnings(longer, held, vision, fra, train, root, now, spoilt, warning):
    own = Claim.objects.filter(pk=held.pk)
    if spoilt == "ended":
        own.update(state=ClaimState.RELEASED)
    elif spoilt == "passed":
        Extension.objects.update(until=now)
    elif spoilt == "ends then":
        own.update(expires_at=longer.until)
    elif spoilt == "later by now":
        own.update(expires_at=longer.until + SECOND)
    elif spoilt == "replaced":
        make_claim(vision, cluster=fra, profile=train, name="next", replaces=held)
    else:
        most = 4 * DAY - (HOUR if spoilt == "too long" else timedelta(0))
        type(train.current).objects.update(max_duration=most)
    held.refresh_from_db()
    ((_title, _will, warned, _why),) = said(lines_of(root, extension=[longer.pk]))
    assert warned == warning.format(end=moment(held.expires_at))


def test_bulk_results_are_independent_and_name_the_refusal(
    waiting_claim, longer, more, held, vision, root, lena
):
    second = make_quota_request(vision, 8, by=root, counts="claims")
    inbox = Inbox(lena)
    ids: dict[ItemKind, Any] = {
        "claim": [waiting_claim.pk],
        "extension": [longer.pk],
        "quota": [more.pk, second.pk],
    }
    waiting_items = select_requests(inbox, ids)
    assert [waiting_items.items[one.pk].kind for one in waiting_items] == [
        "claim",
        "extension",
        "quota",
        "quota",
    ]
    outcomes = decide(
        inbox, waiting_items, Decision.APPROVE, note="Fine.", spec_hashes={waiting_claim.pk: "0" * 64}
    )
    refused = "Only platform admins may do this."
    assert [(one.item.kind, one.done, one.code) for one in outcomes] == [
        ("claim", "", "conflict"),
        ("extension", f"Approved: it expires on {moment(longer.until)}.", ""),
        ("quota", "", "forbidden"),
        ("quota", "", "forbidden"),
    ]
    assert outcomes[0].refusal.startswith("sam2 has changed since you read it")
    assert outcomes[2].refusal == refused
    held.refresh_from_db()
    assert held.expires_at == longer.until
    inbox = Inbox(root)
    outcomes = decide(inbox, select_requests(inbox, ids), Decision.DENY, note="No.", spec_hashes={})
    assert [(one.item.kind, one.done, one.code) for one in outcomes] == [
        ("claim", "Denied", ""),
        ("extension", "", "conflict"),
        ("quota", "Denied: the quota stays as it is.", ""),
        ("quota", "Denied: the quota stays as it is.", ""),
    ]
    waiting_claim.refresh_from_db()
    assert (waiting_claim.state, waiting_claim.decision_note) == ("denied", "No.")


def test_bulk_approval_of_quota_names_limit_and_period(more, vision, root, alice, now):
    until = now + DAY
    short = make_quota_request(vision, 3, by=alice, counts="claims", until=until)
    inbox = Inbox(root)
    outcomes = decide(
        inbox,
        select_requests(inbox, {"quota": [more.pk, short.pk]}),
        Decision.APPROVE,
        note="Fine.",
        spec_hashes={},
    )
    assert [one.done for one in outcomes] == [
        "Approved: a limit of 12, for good.",
        f"Approved: a limit of 3, until {moment(until)}.",
    ]
    more.refresh_from_db()
    assert more.decision_note == "Fine."


def test_50_are_decided_at_once_and_51_refused(root):
    inbox = Inbox(root)
    assert (
        list(
            select_requests(
                inbox, {"claim": [uuid4() for _ in range(25)], "quota": [uuid4() for _ in range(25)]}
            )
        )
        == []
    )
    with pytest.raises(Invalid, match="You selected 51 requests; you can decide on up to 50 at once"):
        select_requests(
            inbox, {"claim": [uuid4() for _ in range(25)], "extension": [uuid4() for _ in range(26)]}
        )
    assert bulk.MAX_REQUESTS == 50


def test_quota_preview_warns_of_overcommitment(more, root, monkeypatch):
    for capacity, warning in (
        (12, ""),
        (11, "Limits of all teams exceed capacity by 1 device."),
        (9, "Limits of all teams exceed capacity by 3 devices."),
    ):
        monkeypatch.setattr(
            "claims.quotas.quota_requests.device_capacity", lambda _names, most=capacity: {GPU_CLASS: most}
        )
        assert said(lines_of(root, quota=[more.pk]))[0][2] == warning


def test_claim_preview_shows_every_quota(vision, fra, train, quota, alice, lena):
    make_quota(vision, 9, profile=train)
    Quota.objects.create(team=vision, counts="claims", devices=5)
    claim = make_claim(
        vision, by=alice, cluster=fra, profile=train, devices=2, parallel=2, delivery="template"
    )
    make_claim(vision, by=alice, cluster=fra, profile=train, devices=1, state=ClaimState.ALLOCATED)
    ((_title, will, *_),) = said(lines_of(lena, claim=[claim.pk]))
    assert set(will) == {
        "gpu.nvidia.com: 1 → 5 of 8 used",
        "train-80: 1 → 5 of 9 used",
        "claims: 1 → 3 of 5 used",
    }


def test_api_previews_and_decides_independently(waiting_claim, longer, more, root, lena, eve):
    waiting_items = [
        {"kind": "claim", "id": str(waiting_claim.pk), "spec_hash": waiting_claim.spec_hash},
        {"kind": "extension", "id": str(longer.pk)},
        {"kind": "quota", "id": str(more.pk)},
    ]
    sent = {"decision": "approve", "requests": waiting_items}
    shown = api(lena).post(DECIDE, sent | {"preview": True}, format="json").json()
    assert [(row["id"], row["done"], row["code"]) for row in shown["results"]] == [
        (str(waiting_claim.pk), False, ""),
        (str(longer.pk), False, ""),
        (str(more.pk), False, "refused"),
    ]
    assert shown["results"][0]["message"] == "gpu.nvidia.com: 2 → 5 of 8 used"
    assert shown["results"][2]["message"] == "Only platform admins decide on quota."
    assert len(shown["together"]) == 2
    assert PendingDecision.objects.count() == 3
    assert api(eve).post(DECIDE, sent, format="json").json() == {"results": [], "together": []}
    assert PendingDecision.objects.count() == 3
    for wrong in (
        {"decision": "some"},
        {"decision": "deny", "note": " "},
        {"requests": waiting_items[:1] * 51},
    ):
        assert api(lena).post(DECIDE, sent | wrong, format="json").status_code == 422
    done = api(lena).post(DECIDE, sent | {"note": "Fine."}, format="json").json()
    assert done["together"] == []
    assert [
        (row["kind"], row["title"], row["done"], row["warning"], row["code"]) for row in done["results"]
    ] == [
        ("claim", "sam2", True, "", ""),
        ("extension", "held", True, "", ""),
        ("quota", "vision", False, "", "forbidden"),
    ]
    assert done["results"][2]["message"] == "Only platform admins may do this."
    assert PendingDecision.objects.count() == 1
    for row in (waiting_claim, longer):
        row.refresh_from_db()
        assert row.decision_note == "Fine."


def test_bulk_page_needs_a_decision_and_offers_reasons(client, waiting_claim, lena, root, fra, train):
    client.force_login(root)
    sent = {"claim": [waiting_claim.pk], f"spec_hash_{waiting_claim.pk}": waiting_claim.spec_hash}
    for wrong in ({}, {"decision": "some"}):
        answer = client.post(BULK, sent | wrong)
        assert (answer.status_code, answer.context["note_errors"]) == (
            422,
            ["Choose approve or deny."],
        )
    ReasonTemplate.objects.create(title="Own", text="x", team=waiting_claim.team)
    context = client.get(BULK, {"claim": [waiting_claim.pk]}).context
    assert (context["ready"], context["devices"], len(context["reasons"])) == (1, 3, 5)
    nlp = make_team("nlp")
    other = make_claim(nlp, by=make_user("noor"), cluster=fra, profile=train, devices=1, parallel=2)
    context = client.get(BULK, {"claim": [waiting_claim.pk, other.pk]}).context
    assert (context["ready"], context["devices"], len(context["reasons"])) == (2, 5, 4)


# What a card tells.


@pytest.fixture
def sentence_of(waiting_claim):
    """Return a sentence on the other claims, as they are now."""
    return lambda sentence: sentence(waiting_claim, other_claims(waiting_claim))


def test_queue_counts_the_same_class_and_cluster(sentence_of, vision, fra, train, alice):
    assert sentence_of(queue_sentence) == "No other claim waits for these devices."
    nlp, osl = make_team("nlp"), make_cluster("osl-1")
    mig = make_profile("mig", spec=make_spec(device_class="mig.nvidia.com"))
    make_claim(nlp, cluster=fra, profile=train)
    assert sentence_of(queue_sentence) == "1 other request waits for a decision, 0 of vision."
    make_claim(vision, cluster=fra, profile=train)
    make_claim(vision, cluster=fra, profile=train, state=ClaimState.PROVISIONED)
    make_claim(vision, cluster=osl, profile=train)
    make_claim(vision, cluster=fra, profile=mig)
    make_claim(vision, cluster=fra, profile=train, state=ClaimState.ALLOCATED)
    said = "2 other requests wait for a decision, 1 of vision. 1 approved claim waits for a pod."
    assert sentence_of(queue_sentence) == said
    make_claim(nlp, cluster=fra, profile=train, state=ClaimState.PROVISIONED)
    assert sentence_of(queue_sentence).endswith("2 approved claims wait for a pod.")


def test_past_claims_counts_the_last_five_by_state(sentence_of, vision, fra, train, alice, lena, now):
    assert sentence_of(past_claims) == "alice has no earlier claim in vision."
    ends = [
        ClaimState.RELEASED,
        ClaimState.DENIED,
        ClaimState.RELEASED,
        ClaimState.EXPIRED,
        ClaimState.DENIED,
    ]

    def over(state, days, **fields):
        made = make_claim(by=alice, cluster=fra, profile=train, state=state, **{"team": vision} | fields)
        Claim.objects.filter(pk=made.pk).update(state_since=now - timedelta(days=days))

    over(ends[0], 1)
    assert sentence_of(past_claims) == "Last claim of alice: 1 released."
    for days, state in enumerate(ends[1:], start=2):
        over(state, days)
    over(ClaimState.FAILED, 9)
    over(ClaimState.FAILED, 0.5, team=make_team("nlp"))
    over(ClaimState.PROVISIONED, 0.1)
    words = [ClaimState(state).label.lower() for state in (ends[0], ends[1], ends[3])]
    assert sentence_of(past_claims) == f"Last 5 claims of alice: 2 {words[0]}, 2 {words[1]}, 1 {words[2]}."


@pytest.mark.parametrize(
    ("free", "said"),
    [
        (None, "Unknown: free devices cannot be counted for this spec."),
        (1, "3 of 1 free matching device; 0 left."),
        (3, "3 of 3 free matching devices; 0 left."),
        (5, "3 of 5 free matching devices; 2 left."),
    ],
)
def test_share_of_free_devices(waiting_claim, free, said):
    assert share_of_free(waiting_claim, free) == said


def test_past_use_counts_the_hours_of_the_last_90_days(vision, fra, train, alice, lena, now):
    def used(begun, ended, **fields):
        claim = make_claim(
            vision, by=alice, cluster=fra, profile=train, state=ClaimState.ALLOCATED, held=False,
            created_at=now - begun,
        )  # fmt: skip
        make_allocation(claim, now - begun, None if ended is None else now - ended, **fields)

    used(3 * HOUR, HOUR)
    used(4 * HOUR, None, fraction="0.25")
    used(100 * DAY, 90 * DAY - HOUR)
    used(100 * DAY, 90 * DAY)
    make_allocation(Claim.objects.latest("created_at"), now - 3 * HOUR, driver="dra.net")
    found = past_use(alice, vision)
    assert (found.claims, found.utilization) == (3, None)
    assert found.gpu_hours == pytest.approx(2 + 1 + 1)
    assert past_use(lena, vision).sentence == "No claim in the last 90 days."
    assert past_use(alice, make_team("nlp")).claims == 0


def test_comment_of_one_character_is_valid(waiting_claim, lena):
    assert comments.comment_on_claim(claim=waiting_claim, by=lena, text=" ? ", key="k").text == "?"


def test_invalid_comment_is_explained_and_can_be_sent_again(client, waiting_claim, lena):
    client.force_login(lena)
    sent = {"text": "x" * 2001, "key": "k", "next": reverse("claims:approval", args=[waiting_claim.pk])}
    page = client.post(reverse("claims:comment", args=[waiting_claim.pk]), sent)
    assert (page.status_code, Comment.objects.exists()) == (422, False)
    assert "Write 1 to 2000 characters; this text has 2001." in page.text
    assert f'aria-describedby="sent_error">{sent["text"]}<' in page.text
    assert all(f'name="{name}" value="{sent[name]}"' in page.text for name in ("key", "next"))


def test_each_card_is_shown_beside_the_list(client, waiting_claim, longer, more, root):
    client.force_login(root)
    for name, row in (("approval", waiting_claim), ("extension", longer), ("quota_request_decision", more)):
        context = client.get(reverse(f"claims:{name}", args=[row.pk]), {"tab": "all"}).context
        assert [item.title for item in context["rows"]] == ["sam2", "held", "vision"]
        assert (context["tab"], context["current"]) == ("all", row.pk)


def test_first_approval_message_names_the_next_step(client, waiting_claim, vision, lena):
    ApprovalRule.objects.create(team=vision, approval=Approval.BOTH)
    client.force_login(lena)
    sent = {"spec_hash": waiting_claim.spec_hash, "note": "Fine."}
    page = client.post(reverse("claims:approve", args=[waiting_claim.pk]), sent, follow=True)
    assert "First approval of sam2 recorded. A platform admin decides next." in page.text
    assert waiting_claim.steps.get().note == "Fine."


def test_preview_counts_alternatives_per_profile(vision, fra, train, quota, lena, ask):
    small = make_profile("small")
    make_quota(vision, 9, profile=small)
    claim = ask(name="either", devices=2, alternatives=[small])
    ((_title, will, *_),) = said(lines_of(lena, claim=[claim.pk]))
    assert set(will) == {"gpu.nvidia.com: 0 → 2 of 8 used", "small: 0 → 2 of 9 used"}


def test_api_finds_requests_by_kind_and_accepts_50(waiting_claim, longer, lena):
    def answer(*waiting_items):
        sent = {"decision": "approve", "requests": list(waiting_items), "preview": True}
        return api(lena).post(DECIDE, sent, format="json")

    assert answer({"kind": "extension", "id": str(waiting_claim.pk)}).json()["results"] == []
    unknown = [{"kind": "claim", "id": str(uuid4())} for _ in range(49)]
    found = answer({"kind": "claim", "id": str(waiting_claim.pk)}, *unknown)
    assert (found.status_code, [row["title"] for row in found.json()["results"]]) == (200, ["sam2"])
