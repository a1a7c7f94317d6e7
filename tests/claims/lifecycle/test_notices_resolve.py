"""Notices that ask for something are read by themselves when it is done: every kind of them."""

import ast
import re
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from claims.approvals.escalation import escalate_overdue
from claims.budgets.notices import notify_of_use
from claims.delivery.credential_expiry import warn_of_expiry
from claims.delivery.reconcile import reconcile_claim
from claims.inbox.comments import comment_on_claim
from claims.lifecycle.keep_alive import keep, renew
from claims.lifecycle.services import deny_extension, extend, transfer
from claims.models import Claim, Delegation, ProfileVersion, QuotaIncrease, RequestStatus
from claims.notices import UNTIL_DECIDED, UNTIL_ENDED, UNTIL_OVER, UNTIL_USED, WHILE_IDLE
from claims.quotas.quota_requests import notify_ends
from claims.states import ClaimState
from inventory.models import Cluster
from notify.models import Notice, NoticeKind
from notify.services import notify, resolve
from notify.webhooks.models import Webhook
from notify.webhooks.services import set_webhook_enabled
from portal.setup.member_requests import ask_for_member
from portal.tasks import remind_of_expiry
from teams.models import ApiToken, Membership, Role, User
from teams.services import change_role
from tests.factories import (
    make_alert,
    make_budget,
    make_claim,
    make_extension,
    make_quota_request,
    make_raise,
    make_token,
)
from usage.alerts import services as alerts
from usage.idle import periods
from usage.idle.services import snooze
from usage.models import Alert, IdlePeriod

pytestmark = pytest.mark.django_db
S = ClaimState
DAY = timedelta(days=1)

# Kinds of notices that need somebody until they are read: nothing that the portal knows of ends them.
READ = {
    "decided": "a denial, or changes that were made: the requester decides what follows",
    "expired": "nobody decided; the requester may ask again",
    "idle-released": "the portal has released it; the owner may ask again",
    "audit-log": "a change of the log never goes away",
}
# Kinds that need nobody.
TELL = {
    *("adopt", "adopted", "handed-over", "pod-deleted", "quota-drift", "quota-raise-ended"),
    *("quota-request-decided", "shortened"),
}


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


def ended_idle(claim):
    now = timezone.now()
    IdlePeriod.objects.create(claim=claim, team=claim.team, since=now, noticed_at=now, devices=1)
    periods.refresh(now)  # nothing is measured, so it is not idle any more


def snoozed(claim):
    now = timezone.now()
    IdlePeriod.objects.create(claim=claim, team=claim.team, since=now, noticed_at=now, devices=1)
    snooze(claim=claim, by=claim.requested_by, now=now)


def kept_alive(claim, **fields):
    end = timezone.now() + DAY
    Claim.objects.filter(pk=claim.pk).update(keep_alive=DAY, ends_unless_renewed_at=end, **fields)


def renewed(claim):
    kept_alive(claim, silence_noticed_at=timezone.now())
    renew(claim=Claim.objects.get(pk=claim.pk), by=claim.requested_by)


def kept(claim):
    kept_alive(claim)
    keep(claim=Claim.objects.get(pk=claim.pk), by=claim.requested_by)


def mended(claim):
    Claim.objects.filter(pk=claim.pk).update(problem="Somebody changed its object.")
    reconcile_claim(claim.pk)


@pytest.mark.parametrize(
    ("done", "kinds"),
    [
        (ended_idle, WHILE_IDLE),
        (snoozed, WHILE_IDLE),
        (renewed, ["silent"]),
        (kept, ["silent"]),
        (mended, ["drift"]),
    ],
)
def test_what_is_done_about_a_claim_is_read(vision, alice, lena, fra, train, done, kinds):
    claim = make_claim(vision, by=alice, cluster=fra, profile=train, state=S.ALLOCATED)
    for kind in {*UNTIL_USED, *UNTIL_OVER}:
        tell(lena, f"{kind}:{claim.pk}:1")
    done(claim)
    assert {kind for kind in {*UNTIL_USED, *UNTIL_OVER} if not unread(f"{kind}:{claim.pk}:1")} == set(kinds)


def test_transfer_reads_what_the_former_owner_was_asked(vision, alice, lars, lena, fra, train):
    claim = make_claim(vision, by=alice, cluster=fra, profile=train, state=S.ALLOCATED)
    keys = [f"{kind}:{claim.pk}" for kind in ("ends", "idle", "unused")]
    for key in (*keys, f"idle-leads:{claim.pk}"):
        tell(alice, key)
        tell(lena, key)
    transfer(claim=claim, by=lena, to=lars)
    needed = Notice.objects.filter(read_at=None, important=True).values_list("user__username", "key")
    assert {key for name, key in needed if name == "alice"} == {f"idle-leads:{claim.pk}"}
    assert {key for name, key in needed if name == "lena"} == {*keys, f"idle-leads:{claim.pk}"}


@pytest.mark.parametrize("how", ["ended", "transferred"])
@pytest.mark.parametrize("kind", ["account-ended", "access-lost"])
def test_last_claim_of_who_has_left_reads_the_notice(vision, alice, lars, lena, fra, train, kind, how):
    state = S.RELEASING if how == "ended" else S.ALLOCATED
    first, last = (make_claim(vision, by=alice, cluster=fra, profile=train, state=state) for _ in "ab")
    key = f"{kind}:{vision.pk}:{alice.pk}:202611281200"
    tell(lena, key)
    for claim in (first, last):
        assert unread(key)
        if how == "ended":
            claim.advance(S.RELEASED, why="Test.")
        else:
            transfer(claim=claim, by=lena, to=lars)
    assert not unread(key)


def test_decision_on_quota_reads_the_question(vision, alice, lena):
    request = make_quota_request(vision, by=alice)
    comment = request.comments.create(by=lena, text="Why?", key="1", question=True)
    tell(alice, f"comment:{comment.pk}")
    request.decide(RequestStatus.DENIED, by=lena)
    assert not unread(f"comment:{comment.pk}")


def test_alert_that_is_resolved_is_read_and_asks_again_when_it_returns(vision, alice, lena, fra, train):
    claim = make_claim(vision, by=alice, cluster=fra, profile=train, state=S.PROVISIONED)
    now = timezone.now()
    for _time in range(2):
        alert = make_alert(vision, key=f"claim-pending:{claim.pk}", claim=claim, cluster=fra)
        alerts.notify_of(Alert.objects.select_related(*alerts.RELATED).get(pk=alert.pk), now)
        key = f"alert:{alert.key}:{alert.opened_at:%Y-%m-%d}"
        assert Notice.objects.filter(key=key, read_at=None).count() == 3  # alice, and who leads
        alerts.resolve([alert], now)
        assert not unread(key)


def test_new_credentials_read_the_notice(root, fra):
    now = timezone.now()
    for end, needed in ((now + DAY, 1), (now - DAY, 1), (now + 99 * DAY, 0)):
        Cluster.objects.filter(pk=fra.pk).update(credentials_expire_at=end)
        warn_of_expiry(now)
        assert Notice.objects.filter(key__startswith="credentials-", read_at=None).count() == needed


@pytest.mark.parametrize(
    "change", [{"expires_at": timezone.now() + 99 * DAY}, {"revoked_at": timezone.now()}]
)
def test_rotated_and_revoked_token_read_the_notice(alice, change):
    token, _text = make_token(alice)
    now = timezone.now()
    ApiToken.objects.filter(pk=token.pk).update(created_at=now - 99 * DAY, expires_at=now + 6 * DAY)
    for later in (timedelta(0), 5 * DAY + timedelta(hours=1)):  # the second notice replaces the first
        remind_of_expiry(now + later)
        assert Notice.objects.filter(key__startswith="token-", read_at=None).count() == 1
    ApiToken.objects.filter(pk=token.pk).update(**change)
    remind_of_expiry(now + 5 * DAY)
    assert not Notice.objects.filter(read_at=None).exists()


def test_budget_that_is_raised_or_begins_anew_reads_the_notice(vision, lena):
    budget = make_budget(vision, at_limit="notify")
    use, now = budget.use, timezone.now()
    for share, needed in ((1.2, True), (1.1, True), (0.9, False)):
        use.share = share
        notify_of_use([use], now=now)
        keys = Notice.objects.filter(key__startswith="budget:", important=True, user=lena)
        assert keys.filter(read_at=None).exists() is needed
    assert keys.exists()


def test_switched_on_webhook_reads_the_notice(vision, lena):
    hook = Webhook.objects.create(
        team=vision,
        url="https://x.example/",
        kinds=[],
        disabled_at=timezone.now(),
        sealed=b"",
        created_by=lena,
    )
    tell(lena, f"webhook:{hook.pk}:1")
    set_webhook_enabled(by=lena, webhook=hook, enabled=True)
    assert not unread(f"webhook:{hook.pk}:1")


@pytest.mark.parametrize("by_mail", [False, True])
def test_member_who_was_asked_for_reads_the_notice(vision, lars, eve, lena, by_mail):
    Membership.objects.filter(team=vision, user=lars).update(role=Role.OWNER)
    User.objects.filter(pk=eve.pk).update(email="eve@x.example")
    ask_for_member(by=lena, team=vision, person="Eve@x.example" if by_mail else "EVE", role=Role.LEAD)
    needed = Notice.objects.filter(user=lars, read_at=None, important=True)
    assert needed.count() == 1
    member = Membership.objects.create(team=vision, user=eve, role=Role.MEMBER)
    assert needed.count() == 1  # not yet as was asked
    change_role(by=lars, team=vision, member=member, role=Role.LEAD)
    assert needed.count() == 0


def test_delegation_that_is_over_reads_the_notice(vision, lena, bob):
    now = timezone.now()
    rows = [
        Delegation.objects.create(team=vision, lead=lena, to=bob, starts_at=now - DAY, ends_at=end)
        for end in (now, now + DAY)
    ]
    for row in rows:
        tell(bob, f"delegated:{row.pk}")
    escalate_overdue(now)
    assert [unread(f"delegated:{row.pk}") for row in rows] == [False, True]


def test_increase_that_has_ended_reads_the_notice(vision, quota, lena):
    now = timezone.now()
    increase = make_raise(quota, 2, starts_at=now - DAY, ends_at=now + timedelta(hours=2))
    key = f"quota-raise-ends-{increase.pk}"
    notify_ends(now)
    assert unread(key)
    QuotaIncrease.objects.filter(pk=increase.pk).update(ends_at=now + timedelta(hours=1))
    notify_ends(now + timedelta(hours=1))
    assert not unread(key)


KEY = re.compile(r"([a-z]+(?:-[a-z]+)*)[:-]")
NOTIFIES = re.compile(r"import .*\b(notify|notify_of|eviction)\b")


def kinds_of_notices():
    """Yield the first part of every key that the code gives to notices, and to `resolve`."""
    for app in ("claims", "notify", "portal", "usage"):
        for path in (settings.BASE_DIR / app).rglob("*.py"):
            if NOTIFIES.search(text := path.read_text()):
                for node in ast.walk(ast.parse(text)):
                    if isinstance(node, ast.JoinedStr):
                        node = node.values[0]
                    if isinstance(node, ast.Constant) and (found := KEY.fullmatch(str(node.value))):
                        yield found[1]


def test_each_kind_of_notice_has_an_end_or_a_reason():
    """A new kind gets a row in a table above and what resolves it, or the reason why nothing does."""
    resolved = {
        *(*UNTIL_DECIDED, *UNTIL_USED, *UNTIL_OVER, "account-ended", "access-lost", "alert", "budget"),
        *("comment", "credentials", "delegated", "extension", "member", "quota-raise-ends", "quota-request"),
        *("token", "webhook"),
    }
    assert set(kinds_of_notices()) - {"many"} == resolved | set(READ) | TELL


def test_beginnings_of_keys_are_looked_up_in_the_index(alice):
    rows = (
        Notice(user=alice, kind=NoticeKind.CHANGE, key=f"key:{row}", important=True) for row in range(3000)
    )
    Notice.objects.bulk_create(rows)
    with connection.cursor() as cursor, CaptureQueriesContext(connection) as found:
        resolve("ask:1", "remind:1")
        cursor.execute("ANALYZE notify_notice")
        cursor.execute(f"EXPLAIN {found.captured_queries[0]['sql']}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert plan.count("Bitmap Index Scan on notice_needed") == 3
