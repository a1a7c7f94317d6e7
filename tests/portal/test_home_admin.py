"""Home of a platform admin: the fleet, requests of all teams, clusters, idle devices and the last day."""

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from html import unescape
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from claims.catalogue.listing import DeviceKind
from claims.models import (
    Claim,
    ClusterAvailability,
    Extension,
    PendingDecision,
    ProfileAvailability,
    QuotaRequest,
    RequestStatus,
)
from claims.states import ClaimState
from inventory.counts import store_counts
from inventory.freshness import OF_DEVICES
from inventory.models import Cluster, Device, FleetCount, Freshness
from inventory.states import DeviceUse
from tests.factories import make_claim, make_cluster, make_profile, make_team, make_user
from tests.usage.conftest import hold, measure, price
from tests.usage.test_collect import mirrored
from usage.collect import idle_kinds, note_uses
from usage.cost import CURRENCY_UNIT, DEVICE_HOUR, UsageInterval, per_hour
from usage.daily import utc_day
from usage.models import Collection, DailySum, StoredDays
from usage.rates import RateCard
from usage.samples import BUCKET, bucket_start

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def root():
    return make_user("root", admin=True)


@pytest.fixture
def alice():
    return make_user("alice")


@pytest.fixture
def vision(alice):
    return make_team("vision", leads=(make_user("lena"),), members=(alice,))


@pytest.fixture
def fra(vision):
    cluster = make_cluster("fra-1", teams=(vision,))
    for resource in OF_DEVICES:
        Freshness.objects.create(cluster=cluster, resource=resource, seen_at=timezone.now())
    return cluster


@pytest.fixture
def home(client) -> Callable[[Any], str]:
    def get(user: Any) -> str:
        client.force_login(user)
        response = client.get("/")
        assert response.status_code == 200
        text: str = response.content.decode()
        return text

    return get


def words(text: str, start: str = "", end: str = "</section>") -> str:
    """Return the text of the part of a page from `start` on, without markup."""
    part = text[text.index(start) :].partition(end)[0]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", part)).split())


def test_admin_is_warned_of_credentials_that_expire_soon(home, root, alice, fra):
    now = timezone.now()
    Cluster.objects.filter(pk=fra.pk).update(credentials_expire_at=now + timedelta(days=15))
    assert "credentials of" not in home(root)
    Cluster.objects.filter(pk=fra.pk).update(credentials_expire_at=now + timedelta(days=6, minutes=1))
    text = home(root)
    assert "The credentials of fra-1 expire in 6 d" in text
    assert reverse("setup:cluster_credentials", args=["fra-1"]) in text
    assert "credentials of" not in home(alice)
    Cluster.objects.filter(pk=fra.pk).update(credentials_expire_at=now - timedelta(hours=2, minutes=1))
    assert "The credentials of fra-1 expired 2 h" in home(root)


def test_admin_sees_the_oldest_requests_and_who_decides(home, root, alice, vision, fra):
    for hours, name in ((1, "newest"), (9, "oldest"), (5, "second"), (3, "third"), (2, "fourth")):
        claim = make_claim(vision, by=alice, cluster=fra, name=name, devices=2, duration=24 * HOUR)
        PendingDecision.objects.filter(pk=claim.pk).update(requested_at=timezone.now() - hours * HOUR)
    PendingDecision.objects.filter(claim__name="second").update(for_leads=False, for_admins=True)
    text = home(root)
    shown = words(text, 'id="waiting-title"')
    assert "Waiting for approval 5 2 longer than 4 h · 1 for you All 5" in shown
    assert re.findall(r"(oldest|second|third|fourth|newest) 2 ×", shown) == [
        "oldest",
        "second",
        "third",
        "fourth",
    ]
    assert "alice vision — lena 9 h Remind those who decide on oldest" in shown
    assert "alice vision — You 5 h Decide second" in shown
    assert f'href="{reverse("claims:approvals")}?tab=all"' in text


def test_cost_is_the_most_that_a_request_may_cost(home, root, alice, vision, fra):
    mirrored(fra, "gpu-0", "", held=False)
    Device.objects.update(product="NVIDIA H100 80GB HBM3")
    claim = make_claim(vision, by=alice, cluster=fra, name="priced", devices=2, duration=24 * HOUR)
    version = claim.profile_version
    kind = DeviceKind(fra.pk, "gpu.nvidia.com", "NVIDIA H100 80GB HBM3", Fraction(1))
    computation = ClusterAvailability.objects.create(cluster=fra, revision=1, computed_at=timezone.now())
    ProfileAvailability.objects.create(version=version, computation=computation, kinds=[kind.as_json()])
    assert "alice vision — lena" in words(home(root), 'id="waiting-title"')
    price("2.90", product="H100")
    assert "alice vision €139.20 lena" in words(home(root), 'id="waiting-title"')


@pytest.mark.parametrize(("time", "waiting"), [("17 12:00", 0), ("18 00:30", 1)])
def test_month_shows_parts_of_the_stored_days_that_add_up(home, root, fra, time, waiting, time_machine):
    time_machine.move_to(datetime.strptime(f"2026-11-{time} +0000", "%Y-%m-%d %H:%M %z"), tick=False)
    day = date(2026, 11, 16)
    assert utc_day(timezone.now()) - day == timedelta(days=1 + waiting)
    StoredDays.objects.create(pk=1, until=day + timedelta(days=1))
    sums = dict.fromkeys(("unpriced", "unpriced_measured", "unpriced_used"), 0)
    hour = DEVICE_HOUR
    DailySum.objects.create(
        day=day, dimension="kind", cluster=fra.pk, product="L4", currency="EUR", **sums,
        held=10 * hour, held_measured=8 * hour, held_used=6 * hour,
        amount=10 * CURRENCY_UNIT, amount_measured=8 * CURRENCY_UNIT, amount_used=6 * CURRENCY_UNIT,
    )  # fmt: skip
    for use, hours in (("available", 40), ("out-of-service", 50)):
        DailySum.objects.create(
            day=day, dimension="fleet", cluster=fra.pk, product="L4", partition=use, currency="EUR", **sums,
            held=hours * hour, held_measured=0, held_used=0,
            amount=hours * CURRENCY_UNIT, amount_measured=0, amount_used=0,
        )  # fmt: skip
    shown = words(home(root), 'id="month-title"')
    assert "whole days until 16 Nov (UTC)" in shown
    assert "Used €6 7 % Idle while held €2 2 % No telemetry €2 2 %" in shown
    assert "Out of service €50 56 % Unallocated €30 33 % Whole fleet €90 100 %" in shown


def test_each_kind_of_request_says_what_is_requested(home, root, alice, vision, fra):
    running = make_claim(
        vision,
        by=alice,
        cluster=fra,
        state=ClaimState.ALLOCATED,
        name="run",
        expires_at=timezone.now() + HOUR,
    )
    extension = Extension.objects.create(
        claim=running,
        previous_end=running.expires_at,
        until=running.expires_at + HOUR,
        requested_by=alice,
        key="longer",
    )
    wanted = QuotaRequest.objects.create(
        team=vision, device_class="gpu.nvidia.com", devices=9, requested_by=alice, key="more"
    )
    text = home(root)
    shown = words(text, 'id="waiting-title"')
    assert "Extension of run until" in shown
    assert "Quota request 9 × gpu.nvidia.com" in shown
    for name, row in (("claims:extension", extension), ("claims:quota_request_decision", wanted)):
        assert reverse(name, args=[row.pk]) in text


def test_admin_sees_a_stale_cluster_with_its_age_and_one_that_was_never_read(home, root, fra):
    lab = make_cluster("lab-2")
    make_cluster("new-3")
    for resource in OF_DEVICES:
        Freshness.objects.create(cluster=lab, resource=resource, seen_at=timezone.now() - HOUR)
    text = home(root)
    shown = words(text, 'id="needs-title"')
    assert "lab-2 was last synced 1 h ago Its devices and claims are shown as of then. Check cluster" in shown
    assert "new-3 has not been read yet Its devices are not counted." in shown
    assert "fra-1" not in shown
    assert reverse("inventory:cluster", args=["lab-2"]) in text
    assert "dg-banner" not in text


def test_a_cluster_that_becomes_stale_reaches_a_home_that_polls(client, root, fra):
    client.force_login(root)
    tag = client.get("/home/live/").headers["ETag"]
    assert client.get("/home/live/", headers={"If-None-Match": tag}).status_code == 304
    Freshness.objects.update(seen_at=timezone.now() - HOUR)
    response = client.get("/home/live/", headers={"If-None-Match": tag})
    assert response.status_code == 200
    assert "fra-1 was last synced" in response.text


def test_clusters_show_devices_that_add_up(home, root, fra):
    for name in ("a", "b", "c", "d"):
        mirrored(fra, name, "", held=name == "c")
    Device.objects.filter(name="d").update(condition="tainted")
    Device.objects.update(node_name="node-1")
    store_counts(changed_only=False)
    text = home(root)
    assert "1 held, 1 out of service, 2 free of 4" in words(text, 'id="clusters-title"')
    assert "No exporter or Prometheus is configured" in text
    assert "1 held , 2 + 1 = 3 not held , together 4 devices on 1 node" in words(text, 'aria-label="Fleet"')


def test_idle_devices_show_what_the_rates_say_they_cost(home, root, alice, vision, fra):
    price("2.50", product="H100")
    now = timezone.now()
    claim = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False)
    idle, busy = hold(claim, now - 3 * HOUR, device="gpu-0"), hold(claim, now - 3 * HOUR, device="gpu-1")
    half = hold(claim, now - 3 * HOUR, device="gpu-2", fraction=Decimal("0.5"))
    for held, activity in ((idle, 0.01), (busy, 0.9), (half, 0.0)):
        measure(held, bucket_start(now) - 24 * BUCKET, [activity] * 24)
    for held in (idle, busy, half):
        mirrored(fra, held.device, "", pool=held.pool)
    store_counts(changed_only=False)
    Collection.objects.create(cluster=fra, sampled_at=now)
    note_uses(fra, bucket_start(now))
    assert FleetCount.objects.get().uses == {DeviceUse.IDLE: 2, DeviceUse.NO_TELEMETRY: 0}
    plain = per_hour(
        [UsageInterval.from_allocation(held, fra.pk) for held in (idle, half)], RateCard.load(), at=now
    )
    assert plain.amounts == {"EUR": Decimal("3.75")}
    text = home(root)
    shown = words(text, 'id="needs-title"')
    assert "2 devices are idle and cost €3.75 per hour" in shown
    assert f"{reverse('inventory:devices')}?state=idle" in text
    Claim.objects.update(state=ClaimState.RELEASED)
    claim.allocations.update(ended_at=now)
    assert idle_kinds(fra) == []


def test_the_last_day_names_what_changed_and_counts_claims(home, root, alice, vision, fra):
    make_profile("train-80")
    failed = make_claim(vision, by=alice, cluster=fra, state=ClaimState.FAILED, name="sweep")
    Claim.objects.filter(pk=failed.pk).update(problem="ResourceQuota is full.")
    old = make_claim(vision, by=alice, cluster=fra, state=ClaimState.FAILED, name="long-ago")
    Claim.objects.filter(pk=old.pk).update(state_since=timezone.now() - 25 * HOUR)
    QuotaRequest.objects.create(
        team=vision,
        device_class="gpu.nvidia.com",
        devices=9,
        requested_by=alice,
        key="more",
        status=RequestStatus.DENIED,
        decided_at=timezone.now(),
        decided_by=root,
    )
    shown = words(home(root), 'id="last-day-title"')
    for sentence in (
        "sweep failed ResourceQuota is full.",
        "Profile train-80 v1 published",
        "Quota request of vision denied by root",
        "Cluster fra-1 added",
    ):
        assert sentence in shown
    assert "long-ago" not in shown
    assert re.search(r"Claims: .*2 failed", shown)


def test_an_empty_platform_says_so_once_its_setup_is_hidden(home, root):
    root.hides_setup = True
    root.save()
    text = home(root)
    assert "No request waits in any team." in text
    assert "Clusters, profiles and devices need nothing." in text
    assert "No clusters yet" in text
    assert "No claim failed. No profile, quota or cluster changed." in text
    assert "No claim was allocated or released" in text
    assert "My claims" not in text


@pytest.mark.parametrize("name", ["alice", "lena", "outsider"])
def test_only_platform_admins_see_the_platform(home, alice, vision, fra, root, name):
    make_claim(vision, by=alice, cluster=fra, name="secret-run")
    make_user("outsider")
    text = home(type(alice).objects.get(username=name))
    for part in (
        "Waiting for approval</h2>",
        "Last 24 hours",
        "Needs attention",
        "not held",
        'id="clusters-title"',
    ):
        assert part not in text
    assert ("secret-run" in text) == (name == "alice")


def test_queries_of_the_admin_do_not_grow(
    client, home, root, alice, vision, fra, django_assert_max_num_queries
):
    store_counts(changed_only=False)
    home(root)
    with django_assert_max_num_queries(16) as before:
        client.get("/")
    for number in range(20):
        make_claim(vision, by=alice, cluster=fra, name=f"more-{number}")
        make_claim(vision, by=alice, cluster=fra, state=ClaimState.FAILED, name=f"failed-{number}")
    with django_assert_max_num_queries(len(before)):
        client.get("/")


def test_versions_that_one_person_published_are_one_change(home, root, fra):
    for slug in ("one", "two", "three"):
        make_profile(slug)
    assert "Profiles published: 3" in words(home(root), 'id="last-day-title"')
