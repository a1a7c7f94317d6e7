"""Asking for more quota: who may, what it becomes, when it ends, and what page and API say of it."""

from datetime import timedelta

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from claims.models import Quota, QuotaIncrease, QuotaRequest, RequestStatus
from claims.quotas import quota_requests, services
from claims.quotas.quota_requests import request_impact
from claims.quotas.quota_usage import quota_usage
from claims.states import ClaimState
from claims.tasks import maintain_quotas
from core.errors import Conflict, Forbidden, Invalid
from core.times import local_times, utc_moment
from notify.models import Notice
from teams.models import recorded_changes
from tests.factories import GPU_CLASS, make_claim, make_quota, make_raise, make_team

ASK, LIST = reverse("claims:quota_request_new"), reverse("claims:quota_requests")
API = "/api/v1/quotas/requests/"


@pytest.fixture
def want(alice, vision, quota):
    asked = iter(range(1000))

    def ask(**requested):
        values = {"by": alice, "team": vision, "device_class": GPU_CLASS, "devices": 10, "reason": "a paper"}
        return services.request_quota(**values | {"key": f"q{next(asked)}"} | requested)

    return ask


def limit_of(quota):
    return quota_usage([Quota.objects.select_related("team").get(pk=quota.pk)])[0].limit


def test_for_good_is_a_new_limit(want, root, quota):
    asked = services.approve_quota_request(quota_request=want(), by=root)
    assert asked.status == RequestStatus.APPROVED
    assert Quota.objects.get(pk=quota.pk).devices == 10
    services.approve_quota_request(quota_request=asked, by=root)  # twice is once
    assert limit_of(quota) == 10


def test_changes_of_a_limit_are_recorded_and_shown_on_its_page(want, root, alice, quota, client):
    until = timezone.now() + timedelta(days=3)
    services.approve_quota_request(quota_request=want(), by=root)
    services.approve_quota_request(quota_request=want(devices=12, until=until), by=root)
    for _ in range(2):
        services.set_quota(by=root, team=quota.team, device_class=GPU_CLASS, devices=6, guaranteed=2)
    services.set_quota(by=root, team=quota.team, counts=Quota.Counts.CLAIMS, devices=3)
    recorded = [
        "limit 10 → 6, guaranteed 0 → 2",
        f"2 more until {utc_moment(until)}, requested by alice",
        "limit 8 → 10, requested by alice",
    ]
    client.force_login(alice)
    page = client.get(reverse("claims:quota", args=[quota.pk]))
    assert [entry.text for entry in page.context["changes"]] == recorded
    assert {entry.by for entry in page.context["changes"]} == {root}
    assert all(str(local_times(change)) in page.text for change in recorded)
    of_claims = Quota.objects.get(counts=Quota.Counts.CLAIMS)
    assert [entry.text for entry in recorded_changes(of_claims)] == ["limit 0 → 3"]


def test_for_a_time_is_a_raise_that_ends_by_itself_and_kills_nothing(want, root, quota, alice, lena, vision):
    until = timezone.now() + timedelta(days=3)
    asked = want(until=until)
    services.approve_quota_request(quota_request=asked, by=root)
    assert (Quota.objects.get().devices, limit_of(quota)) == (8, 10)
    claim = make_claim(vision, devices=8, state=ClaimState.ALLOCATED)
    other = make_claim(vision, devices=2, state=ClaimState.ALLOCATED)
    with time_machine.travel(until - timedelta(hours=12), tick=False):
        for _ in range(2):
            maintain_quotas()
        assert [one.title.split(" on ")[0] for one in Notice.objects.filter(user=lena)] == [
            "The 2 more gpu.nvidia.com of vision end"
        ]
    with time_machine.travel(until + timedelta(seconds=1), tick=False):
        for _ in range(2):
            maintain_quotas()
        (row,) = quota_usage(Quota.objects.select_related("team"))
        assert (row.limit, row.over) == (8, 2)
        titles = set(Notice.objects.filter(user=alice).values_list("title", flat=True))
        assert "The 2 more gpu.nvidia.com of vision have ended" in titles
    for one in (claim, other):
        one.refresh_from_db()
        assert one.state == ClaimState.ALLOCATED


@pytest.mark.parametrize(
    ("since", "until", "told"),
    [
        (-5, -3, []),  # so long ago that nobody needs to hear of it
        (-5, -1, ["have ended"]),
        (-1, 0, ["have ended"]),
        (-1, 1, ["end on"]),
        (-1, 2, []),  # not yet
        (0.2, 0.8, []),  # it has not begun
    ],
)
def test_leads_hear_of_the_end_of_a_raise_a_day_before_it_and_when_it_has_ended(
    lena, quota, since, until, told
):
    now = timezone.now()
    make_raise(quota, 2, starts_at=now + timedelta(days=since), ends_at=now + timedelta(days=until))
    quota_requests.notify_ends(now)
    titles = Notice.objects.filter(user=lena).values_list("title", flat=True)
    assert [" ".join(title.partition(" of vision ")[2].split()[:2]) for title in titles] == told


def test_a_new_limit_for_good_holds_what_a_raise_gave(want, root, quota):
    services.approve_quota_request(quota_request=want(until=timezone.now() + timedelta(days=3)), by=root)
    services.approve_quota_request(quota_request=want(devices=12), by=root)
    assert limit_of(quota) == 12
    assert not QuotaIncrease.objects.exists()


def test_an_admin_gives_less_and_shorter(want, root, quota):
    until = timezone.now() + timedelta(days=1)
    services.approve_quota_request(quota_request=want(devices=20), by=root, devices=9, until=until)
    assert limit_of(quota) == 9
    assert QuotaIncrease.objects.get().ends_at == until


def test_an_admin_gives_it_for_a_shorter_time_than_was_asked_for(want, root, quota):
    now = timezone.now()
    asked = want(until=now + timedelta(days=3))
    services.approve_quota_request(quota_request=asked, by=root, until=now + timedelta(days=1))
    assert QuotaIncrease.objects.get().ends_at == now + timedelta(days=1)


def test_a_class_without_a_quota_and_a_number_of_claims_can_be_asked_for(want, root, vision):
    services.approve_quota_request(quota_request=want(device_class="mig.nvidia.com", devices=4), by=root)
    services.approve_quota_request(quota_request=want(device_class="", counts="claims", devices=5), by=root)
    assert {(one.device_class, one.counts, one.devices) for one in vision.quotas.all()} == {
        (GPU_CLASS, "devices", 8), ("mig.nvidia.com", "devices", 4), ("", "claims", 5),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("requested", "said"),
    [
        ({"devices": 8}, "may have 8 already"),
        ({"reason": "  "}, "Say what it is for"),
        ({"device_class": "limits.nvidia.com/gpu"}, "counts nothing"),
        ({"device_class": ""}, "for one device class, for one profile, or"),
        ({"until": timezone.now() - timedelta(hours=1)}, "is in the past"),
        ({"key": ""}, "needs a key"),
    ],
)
def test_what_cannot_be_asked_for(want, requested, said):
    with pytest.raises(Invalid, match=said):
        want(**requested)
    assert not QuotaRequest.objects.exists()


def test_the_same_thing_is_asked_for_once_at_a_time_and_a_key_asks_once(want, alice):
    first = want(key="same")
    assert want(key="same") == first
    with pytest.raises(Conflict, match="You have already requested 10"):
        want()
    services.withdraw_quota_request(quota_request=first, by=alice)
    assert want(devices=11) != first


def test_only_platform_admins_decide_and_a_no_needs_a_reason(want, lena, root, alice):
    asked = want()
    with pytest.raises(Forbidden):
        services.approve_quota_request(quota_request=asked, by=lena)
    with pytest.raises(Invalid, match="alice needs to know why"):
        services.deny_quota_request(quota_request=asked, by=root, reason=" ")
    services.deny_quota_request(quota_request=asked, by=root, reason="the fleet is full")
    assert Notice.objects.get(user=alice).body == "the fleet is full"
    with pytest.raises(Conflict, match="This request was already denied by root"):
        services.withdraw_quota_request(quota_request=asked, by=alice)


def test_admins_are_told_and_what_nobody_decides_on_expires(want, root, alice):
    asked = want()
    assert Notice.objects.get(user=root).important
    with time_machine.travel(asked.decide_by + timedelta(seconds=1), tick=False):
        maintain_quotas()
    asked.refresh_from_db()
    assert asked.status == RequestStatus.EXPIRED
    assert "expired" in Notice.objects.get(user=alice).title


@pytest.mark.django_db
def test_the_impact_adds_up_what_all_teams_may_hold(vision, quota, alice):
    make_quota(make_team("nlp"), 5)
    asked = QuotaRequest(team=vision, requested_by=alice, device_class=GPU_CLASS, devices=12)
    impact = request_impact(asked)
    assert (impact.before, impact.after, impact.more, impact.granted) == (8, 12, 4, 17)
    assert (impact.capacity, impact.overcommitted) == (None, 0)


def test_the_page_asks_for_what_did_not_fit(client, alice, quota):
    client.force_login(alice)
    page = client.get(ASK, {"team": "vision", "device_class": GPU_CLASS, "more": "2"}).text
    assert "vision: <code>gpu.nvidia.com</code>" in page
    assert 'value="2"' in page
    sent = {"team": "vision", "device_class": GPU_CLASS, "more": "2", "reason": "a paper", "key": "k"}
    answer = client.post(ASK, sent)
    asked = QuotaRequest.objects.get()
    assert answer.headers["Location"] == reverse("claims:quota_request_decision", args=[asked.pk])
    assert asked.devices == 10


def test_who_may_ask_and_how(client, alice, bob, eve, quota):
    sent = {"team": "vision", "device_class": GPU_CLASS, "more": "2", "reason": "a paper", "key": "k"}
    for stranger in (bob, eve):  # a viewer, and somebody of no team
        client.force_login(stranger)
        assert (client.get(ASK).status_code, client.post(ASK, sent).status_code) == (403, 403)
    make_team("nlp", members=(eve,))
    assert client.post(ASK, sent).status_code == 422  # vision is none of the teams that eve may choose
    client.force_login(alice)
    for wrong in ({"more": "0"}, {"reason": ""}, {"device_class": ""}, {"until": "2020-01-01T10:00"}):
        assert client.post(ASK, sent | wrong).status_code == 422
    assert not QuotaRequest.objects.exists()
    client.force_login(eve)
    assert "vision" not in client.get(ASK, {"quota": str(quota.pk)}).text


def test_the_inbox_shows_and_decides_it(client, root, alice, want, quota):
    asked = want()
    client.force_login(root)
    page = client.get(reverse("claims:quota_request_decision", args=[asked.pk])).text
    assert "limit 8 → <b>10</b>" in page
    url = reverse("claims:quota_request_approve", args=[asked.pk])
    assert client.post(url, {"devices": "9", "note": "for now"}).status_code == 302
    assert limit_of(quota) == 9
    client.force_login(alice)
    assert "Approved" in client.get(reverse("claims:quota_request_decision", args=[asked.pk])).text


def test_a_member_withdraws_on_the_page_and_strangers_may_not(client, alice, bob, eve, want):
    asked = want()
    url = reverse("claims:quota_request_withdraw", args=[asked.pk])
    for who, status in ((eve, 404), (bob, 403)):
        client.force_login(who)
        assert client.post(url).status_code == status
    client.force_login(alice)
    assert client.post(url).status_code == 302
    asked.refresh_from_db()
    assert asked.status == RequestStatus.WITHDRAWN


def test_the_list_is_the_teams_own_has_a_csv_and_costs_the_same_for_many(client, alice, eve, want, vision):
    want()
    client.force_login(alice)
    client.get(LIST)
    with CaptureQueriesContext(connection) as one:
        assert "a paper" in client.get(LIST).text
    for number in range(12):
        want(device_class=f"class-{number}.example.com")
    with CaptureQueriesContext(connection) as many:
        client.get(LIST)
    assert len(many) == len(one)
    lines = b"".join(client.get(LIST, {"format": "csv"})).decode().splitlines()
    assert len(lines) == 14
    client.force_login(eve)
    assert "a paper" not in client.get(LIST).text


def test_the_api_asks_decides_and_shows(client, alice, root, eve, vision, quota):
    client.force_login(alice)
    body = {"team": "vision", "device_class": GPU_CLASS, "devices": 12, "reason": "a paper"}
    headers = {"Idempotency-Key": "one"}
    made = client.post(API, body, content_type="application/json", headers=headers)
    assert made.status_code == 201, made.text
    again = client.post(API, body, content_type="application/json", headers=headers)
    assert again.json()["id"] == made.json()["id"]
    url = f"{API}{made.json()['id']}/"
    assert client.post(f"{url}approve/", {}, content_type="application/json").status_code == 403
    client.force_login(eve)
    assert client.get(url).status_code == 404
    client.force_login(root)
    given = client.post(f"{url}approve/", {"devices": 10}, content_type="application/json").json()
    assert (given["status"], given["devices"], given["decided_by"]) == ("approved", 10, "root")
    shown = client.get(f"/api/v1/quotas/{quota.pk}/").json()
    assert (shown["limit"], shown["raised"], shown["unmanaged"], shown["raises"]) == (10, 0, 0, [])
    assert client.post(f"{url}deny/", {"reason": "x"}, content_type="application/json").status_code == 409


def test_what_waits_of_another_team_stands_in_nobodys_way(want, alice):
    want(team=make_team("nlp", members=(alice,)))
    assert want().status == RequestStatus.WAITING
