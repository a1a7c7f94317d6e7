"""Idle claims: owner and leads are notified, and the policy may release; each step once per idle time."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.test.utils import CaptureQueriesContext

from claims.delivery.tasks import remove
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, Invalid
from inventory.models import DeviceUtilization
from inventory.states import DeviceUse
from notify.models import Notice
from teams.models import AuditEntry
from tests.factories import make_claim
from tests.usage.conftest import H100, NOON, hold, measure
from usage.idle import escalation
from usage.idle.escalation import follow
from usage.idle.services import change_policy, snooze
from usage.models import IdlePeriod, IdlePolicy, Rate

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
RELEASES: dict[str, Any] = {
    "notify_owner_after": 2 * HOUR,
    "snoozes": 2,
    "snooze_for": 24 * HOUR,
    "notify_leads_after": 24 * HOUR,
    "release_after": 72 * HOUR,
}


def notices():
    return list(Notice.objects.order_by("pk").values_list("user__username", "title"))


def test_owner_is_notified_once_per_idle_time(idles, claim, alice):
    idles(claim, "gpu-0")
    idles(claim, "gpu-1", since=NOON - HOUR)
    follow(NOON + 2 * HOUR - MINUTE)
    assert not Notice.objects.exists()
    for minutes in (5, 20, 300):
        follow(NOON + 2 * HOUR + minutes * MINUTE)
    (notice,) = Notice.objects.all()
    assert (notice.user, notice.important, notice.url) == (
        *(alice, True),
        f"/claims/{claim.pk}/?range=own&since=2026-11-17&until=2026-11-17#claim-usage",
    )
    assert notice.title == f"{claim} has been idle for 2 h 5 min"
    assert "its 2 devices were below 10 % utilization. Nobody else can use what it holds" in notice.body
    assert "The leads of vision are notified after 1 d." in notice.body
    assert claim.history.last().reason == "Idle for 2 h 5 min: owner notified."
    DeviceUtilization.objects.update(since=NOON + 6 * HOUR)  # it worked, and stopped again
    follow(NOON + 8 * HOUR)
    assert Notice.objects.count() == 2
    assert IdlePeriod.objects.get(ended_at__isnull=False).was_freed is False


@pytest.mark.parametrize("use", [None, DeviceUse.NO_TELEMETRY])
def test_one_device_that_works_or_is_not_measured_is_enough(idles, claim, use):
    idles(claim, "gpu-0")
    idles(claim, "gpu-1", use=use)
    follow(NOON + 48 * HOUR)
    assert not Notice.objects.exists()
    assert not IdlePeriod.objects.exists()


def test_claim_that_is_released_is_not_idle_any_more_but_freed(idles, claim):
    idles(claim, "gpu-0")
    follow(NOON + 3 * HOUR)
    claim.advance(ClaimState.RELEASING, why="done")
    follow(NOON + 48 * HOUR)
    assert len(notices()) == 1
    period = IdlePeriod.objects.get()
    assert (period.ended_at, period.was_freed) == (NOON + 48 * HOUR, True)


def test_leads_are_notified_after_a_day_and_nothing_is_released_by_default(idles, claim, lena):
    idles(claim, "gpu-0")
    for hours in (3, 24, 25, 1000):
        follow(NOON + hours * HOUR)
    assert notices() == [
        ("alice", f"{claim} has been idle for 3 h"),
        ("lena", f"{claim} of alice has been idle for 1 d"),
    ]
    claim.refresh_from_db()
    assert claim.state == ClaimState.ALLOCATED
    assert claim.history.last().reason == "Idle for 1 d: leads notified."


def test_platform_admins_are_notified_where_the_owner_is_the_only_lead(idles, vision, lena, fra, root):
    own = make_claim(vision, by=lena, cluster=fra, state=ClaimState.ALLOCATED, held=False)
    idles(own, "gpu-0")
    follow(NOON + 25 * HOUR)
    assert [name for name, _title in notices()] == ["lena", "root"]


def test_without_any_lead_platform_admins_hear_of_it(idles, vision, claim, root, lena):
    vision.memberships.filter(user=lena).delete()
    idles(claim, "gpu-0")
    follow(NOON + 25 * HOUR)
    told = Notice.objects.order_by("pk").values_list("user__username", "team", "important")
    assert list(told) == [("alice", vision.pk, True), ("root", None, True)]


def test_network_interface_and_channel_do_not_keep_a_claim_from_being_idle(idles, claim):
    idles(claim, "gpu-0")
    for driver in ("dra.net", "compute-domain.nvidia.com"):
        hold(claim, NOON - HOUR, driver=driver, device=driver, memory_bytes=None)
    follow(NOON + 3 * HOUR)
    assert [name for name, _title in notices()] == ["alice"]
    assert IdlePeriod.objects.get().devices == 1


def test_a_snoozed_claim_is_left_alone_until_the_snooze_ends(idles, claim, alice, root):
    change_policy(by=root, **RELEASES)
    idles(claim, "gpu-0")
    follow(NOON + 3 * HOUR)
    assert snooze(claim=claim, by=alice, now=NOON + 20 * HOUR) == NOON + 44 * HOUR
    with pytest.raises(Conflict, match="cannot be snoozed: it is snoozed until Thu 19 Nov 2026, 08:00 UTC"):
        snooze(claim=claim, by=alice, now=NOON + 21 * HOUR)
    follow(NOON + 43 * HOUR)
    assert len(notices()) == 1
    follow(NOON + 45 * HOUR)
    assert len(notices()) == 2
    snooze(claim=claim, by=alice, now=NOON + 46 * HOUR)
    with pytest.raises(Conflict, match="it was snoozed 2 of 2 times"):
        snooze(claim=claim, by=alice, now=NOON + 71 * HOUR)
    assert claim.history.last().reason == "Idle; snoozed until Fri 20 Nov 2026, 10:00 UTC."


def test_only_who_may_release_a_claim_may_snooze_it(idles, claim, bob, lena):
    idles(claim, "gpu-0")
    follow(NOON + HOUR)
    with pytest.raises(PermissionDenied, match="viewer of vision"):
        snooze(claim=claim, by=bob, now=NOON + HOUR)
    snooze(claim=claim, by=lena, now=NOON + HOUR)


def test_a_claim_that_works_cannot_be_snoozed(claim, alice):
    with pytest.raises(Conflict, match="is not idle any more"):
        snooze(claim=claim, by=alice, now=NOON)


def test_the_policy_releases_when_leads_have_had_their_time(idles, claim, root, monkeypatch):
    queued = []
    monkeypatch.setattr(escalation, "after_commit", lambda task, *of: queued.append((task.name, *of)))
    change_policy(by=root, **RELEASES)
    idles(claim, "gpu-0")
    follow(NOON + 100 * HOUR)  # the first run, late: nobody was notified before
    follow(NOON + 147 * HOUR)
    claim.refresh_from_db()
    assert claim.state == ClaimState.ALLOCATED
    follow(NOON + 148 * HOUR)
    claim.refresh_from_db()
    assert claim.state == ClaimState.RELEASING
    assert claim.history.last().reason == "Idle for 6 d 4 h; released by the policy for idle claims."
    assert ("lena", f"{claim} was released: it was idle for 6 d 4 h") in notices()
    assert queued == [(remove.name, str(claim.pk))]


def test_a_snooze_keeps_a_claim_from_being_released(idles, claim, alice, root):
    change_policy(by=root, **RELEASES)
    idles(claim, "gpu-0")
    follow(NOON + 30 * HOUR)
    snooze(claim=claim, by=alice, now=NOON + 77 * HOUR)
    follow(NOON + 100 * HOUR)
    claim.refresh_from_db()
    assert claim.state == ClaimState.ALLOCATED
    follow(NOON + 102 * HOUR)
    claim.refresh_from_db()
    assert claim.state == ClaimState.RELEASING


def test_periods_have_the_price_of_what_is_held_now(idles, claim):
    idles(claim, "gpu-0")
    follow(NOON + HOUR)
    assert IdlePeriod.objects.get().per_hour is None
    Rate.objects.create(title="H100", product=H100, per_hour=Decimal("2.9"), valid_from=NOON)
    follow(NOON + 2 * HOUR)
    period = IdlePeriod.objects.get()
    assert (period.per_hour, period.currency, period.devices) == (Decimal("2.9"), "EUR", 1)
    claim.allocations.update(product="unknown")
    idles(claim, "gpu-1")  # an H100 beside it
    follow(NOON + 3 * HOUR)
    period = IdlePeriod.objects.lasting().get()
    assert (period.per_hour, period.currency, period.devices) == (None, "", 2)


def test_following_takes_the_same_queries_for_many_claims(idles, claim, vision, alice, fra):
    idles(claim, "gpu-0")
    follow(NOON + 3 * HOUR)
    with CaptureQueriesContext(connection) as for_one:
        follow(NOON + 3 * HOUR)
    for number in range(1, 5):
        another = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False)
        idles(another, f"gpu-{number}")
    follow(NOON + 3 * HOUR)
    assert Notice.objects.count() == 5
    with CaptureQueriesContext(connection) as for_many:
        follow(NOON + 4 * HOUR)
    assert len(for_many) == len(for_one)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"notify_owner_after": 20 * MINUTE}, "cannot be notified after 20 min"),
        ({"notify_leads_after": None}, "some time after its leads were notified"),
        ({"release_after": 24 * HOUR}, "some time after its leads were notified"),
        ({"snoozes": 11}, "0 to 10 times; 11 was sent"),
        ({"snooze_for": 15 * 24 * HOUR}, "at most 14 d"),
    ],
)
def test_policy_that_contradicts_itself_is_refused(root, change, why):
    with pytest.raises(Invalid, match=why):
        change_policy(by=root, **RELEASES | change)
    assert not IdlePolicy.objects.exists()


def test_policy_is_changed_by_platform_admins_and_recorded(root, lena):
    with pytest.raises(Forbidden):
        change_policy(by=lena, **RELEASES)
    change_policy(by=root, **RELEASES)
    change_policy(by=root, **RELEASES)
    entry = AuditEntry.objects.filter(in_activity=True).get()
    assert (entry.kind, entry.values) == ("idlepolicy", [["Release", "off", "after 3 d"]])


def test_notices_have_the_utilization_of_the_last_hours_and_open_its_graph(idles, claim, alice, lena):
    idles(claim, "gpu-0")
    alice.timezone = "Europe/Berlin"
    alice.save(update_fields=["timezone"])
    held = claim.allocations.get()
    for hour, activity in ((-3, 0.9), (-2, 0.85), (-1, 0.5), (0, 0.01), (2, 0.02)):  # a gap after noon
        measure(held, NOON + hour * HOUR, [activity] * 12)
    follow(NOON + 3 * HOUR)
    notice = Notice.objects.get(user=alice)
    text = "Utilization of the last 7 hours: mean 46 %, highest 90 %."
    assert f"\n\n{text}\n·▇▇▅▁·▁" in notice.body
    assert notice.url == (f"/claims/{claim.pk}/?range=own&since=2026-11-17&until=2026-11-17#claim-usage")
    follow(NOON + 25 * HOUR)
    notice = Notice.objects.get(user=lena)
    assert "Utilization of the last 24 hours: " in notice.body
    assert notice.url.endswith("?range=own&since=2026-11-17&until=2026-11-18#claim-usage")


def test_a_notice_without_telemetry_has_no_figures(idles, claim, alice):
    idles(claim, "gpu-0")
    follow(NOON + 3 * HOUR)
    assert "Utilization" not in Notice.objects.get(user=alice).body


def test_the_page_of_the_claim_opens_the_graph_of_the_notice(client, idles, claim, alice):
    idles(claim, "gpu-0")
    follow(NOON + 3 * HOUR)
    client.force_login(alice)
    page = client.get(Notice.objects.get(user=alice).url).text
    days = "range=own&amp;since=2026-11-17&amp;until=2026-11-17"
    assert f'hx-get="/claims/{claim.pk}/usage/?{days}" hx-trigger="load' in page
    graph = client.get(f"/claims/{claim.pk}/usage/?{days.replace('&amp;', '&')}").text
    assert "17 Nov 2026 – 17 Nov 2026" in graph
