"""Every column of a request for quota and of a raise after each step, and every notice that goes out."""

from datetime import timedelta

import pytest
import time_machine
from django.conf import settings
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.urls import reverse
from django.utils import timezone

from claims.models import Quota, QuotaIncrease, QuotaRequest, RequestStatus
from claims.quotas import quota_requests, services
from claims.quotas.quota_requests import request_impact
from core.errors import Conflict, Forbidden, Invalid
from core.times import moment, utc_moment
from inventory.models import Device, DeviceClass, ResourceSlice
from notify.models import Notice
from tests.factories import (
    GPU_CLASS,
    make_profile,
    make_quota,
    make_quota_request,
    make_raise,
    make_team,
    make_user,
)

pytestmark = pytest.mark.django_db
HOUR, DAY, SECOND = timedelta(hours=1), timedelta(days=1), timedelta(seconds=1)


@pytest.fixture(autouse=True)
def now():
    """The clock stands still, so that every moment can be compared."""
    with time_machine.travel(timezone.now().replace(microsecond=0), tick=False):
        yield timezone.now()


@pytest.fixture
def ada(db):
    return make_user("ada", admin=True)


@pytest.fixture
def want(alice, vision, quota):
    def ask(**requested):
        values = {"by": alice, "team": vision, "device_class": GPU_CLASS, "devices": 10, "reason": "a paper"}
        return services.request_quota(**{"key": "k", **values, **requested})

    return ask


def row_of(asked):
    return QuotaRequest.objects.values().get(pk=asked.pk)


def raises():
    return list(QuotaIncrease.objects.values("quota", "devices", "starts_at", "ends_at", "request", "by"))


def notices():
    """Return every notice as (who, title, body, path, important), by name."""
    rows = Notice.objects.order_by("user__username", "created_at", "pk")
    return list(rows.values_list("user__username", "title", "body", "url", "important"))


def page_of(asked):
    return reverse("claims:quota_request_decision", args=[asked.pk])


# Asking.


def test_a_request_for_quota_keeps_all_that_was_said(want, alice, vision, now):
    asked = want(until=now + 3 * DAY, reason="  a paper \n", key="x" * 80)
    assert row_of(asked) == {
        "id": asked.pk,
        "key": "x" * 80,
        "requested_by_id": alice.pk,
        "requested_at": now,
        "reason": "a paper",
        "status": "waiting",
        "decide_by": now + settings.REQUEST_TTL,
        "decided_by_id": None,
        "decided_at": None,
        "decision_note": "",
        "team_id": vision.pk,
        "counts": "devices",
        "device_class": GPU_CLASS,
        "profile_id": None,
        "devices": 10,
        "until": now + 3 * DAY,
        "budget_id": None,
        "first": None,
        "amount": 0,
        "hours": 0,
    }


@pytest.mark.parametrize("what", ["profile", "claims"])
def test_a_request_names_the_profile_or_that_it_counts_claims(want, train, what):
    named = {"profile": train} if what == "profile" else {"counts": "claims"}
    asked = want(device_class="", devices=1, **named)
    row = row_of(asked)
    expected = ("devices", "", train.pk) if what == "profile" else ("claims", "", None)
    assert (row["counts"], row["device_class"], row["profile_id"]) == expected


def test_active_platform_admins_other_than_the_asker_hear_of_a_request(want, root, ada, vision, lena):
    make_user("former", admin=True, is_active=False)
    asked = want(by=ada)
    assert notices() == [
        ("root", "ada requests more quota for vision: gpu.nvidia.com", "a paper", page_of(asked), True)
    ]


def test_a_key_is_one_persons_own_and_has_80_characters_at_most(want, lena, alice):
    first = want(key="same")
    other = want(key="same", by=lena, device_class="mig.nvidia.com")
    assert (first.requested_by, other.requested_by) == (alice, lena)
    assert want(key="same", by=lena, device_class="mig.nvidia.com") == other
    with pytest.raises(Invalid, match="This Idempotency-Key was used for another request"):
        want(key="same", by=lena, device_class="mig.nvidia.com", devices=99)
    with pytest.raises(Invalid, match="needs a key of 1 to 80 characters"):
        want(key="x" * 81, devices=11)
    assert QuotaRequest.objects.count() == 2


def test_what_waits_for_another_thing_of_the_team_stands_in_no_way(want, train):
    other = make_profile("other")
    things = [
        {"device_class": GPU_CLASS},
        {"device_class": "mig.nvidia.com"},
        {"device_class": "", "profile": train},
        {"device_class": "", "profile": other},
        {"device_class": "", "counts": "claims"},
    ]
    for number, thing in enumerate(things):
        want(key=f"k{number}", **thing)
    for number, thing in enumerate(things):
        with pytest.raises(Conflict, match="You have already requested 10"):
            want(key=f"again-{number}", **thing)
    assert QuotaRequest.objects.count() == len(things)


def test_a_limit_to_ask_for_is_above_the_present_one_with_its_raises(want, quota, vision, now):
    make_raise(quota, 2, ends_at=now + DAY)
    make_quota(make_team("nlp"), 50)
    make_quota(vision, 40, profile=make_profile("other"))
    with pytest.raises(Invalid, match=r"^vision may have 10 already; request more than that\.$"):
        want(devices=10)
    assert want(devices=11).devices == 11


@pytest.mark.parametrize(("seconds", "valid"), [(-1, False), (0, False), (1, True)])
def test_the_end_of_a_raise_lies_in_the_future(want, now, seconds, valid):
    until = now + seconds * SECOND
    if valid:
        assert want(until=until).until == until
    else:
        with pytest.raises(Invalid) as refused:
            want(until=until)
        assert refused.value.message == f"{moment(until)} is in the past."


@pytest.mark.parametrize(("person", "error"), [("bob", PermissionDenied), ("eve", Http404)])
def test_viewers_and_outsiders_ask_for_nothing(request, want, person, error):
    with pytest.raises(error):
        want(by=request.getfixturevalue(person))
    assert not QuotaRequest.objects.exists()


# Approving.


def test_of_an_approval_for_a_time_request_and_raise_keep_everything(want, quota, alice, root, now):
    asked = want(until=now + 3 * DAY)
    Quota.objects.update(guaranteed=4)
    before = row_of(asked)
    Notice.objects.all().delete()
    with time_machine.travel(now + HOUR, tick=False):
        services.approve_quota_request(
            quota_request=asked, by=root, devices=9, until=now + 2 * DAY, note=" for now "
        )
    assert row_of(asked) == before | {
        "devices": 9,
        "until": now + 2 * DAY,
        "status": "approved",
        "decided_by_id": root.pk,
        "decided_at": now + HOUR,
        "decision_note": "for now",
    }
    assert raises() == [
        {
            "quota": quota.pk,
            "devices": 1,
            "starts_at": now + HOUR,
            "ends_at": now + 2 * DAY,
            "request": asked.pk,
            "by": root.pk,
        }
    ]
    assert list(Quota.objects.values_list("devices", "guaranteed")) == [(8, 4)]
    title = f"vision may have 9 × gpu.nvidia.com until {utc_moment(now + 2 * DAY)}"
    assert notices() == [("alice", title, "for now", page_of(asked), False)]


def test_an_approval_for_good_leaves_the_guarantee_and_tells_the_asker(want, quota, root, now):
    asked = want()
    Quota.objects.update(guaranteed=4)
    Notice.objects.all().delete()
    services.approve_quota_request(quota_request=asked, by=root)
    assert list(Quota.objects.values_list("devices", "guaranteed")) == [(10, 4)]
    assert raises() == []
    assert notices() == [("alice", "vision may have 10 × gpu.nvidia.com for good", "", page_of(asked), False)]


def test_a_new_limit_takes_up_running_raises_and_leaves_ended_ones_and_those_of_others(
    want, quota, root, vision, now
):
    others = make_quota(make_team("nlp"), 5)
    own_other = make_quota(vision, 5, device_class="mig.nvidia.com")
    make_raise(quota, 1, starts_at=now - 2 * DAY, ends_at=now)
    make_raise(quota, 2, ends_at=now + SECOND)
    make_raise(quota, 3, starts_at=now + DAY, ends_at=now + 2 * DAY)
    make_raise(others, 4, ends_at=now + DAY)
    make_raise(own_other, 5, ends_at=now + DAY)
    services.approve_quota_request(quota_request=want(devices=12), by=root)
    assert {(row["quota"], row["devices"]) for row in raises()} == {
        (quota.pk, 1),
        (others.pk, 4),
        (own_other.pk, 5),
    }


def test_a_raise_of_a_class_without_a_quota_gives_all_of_it_and_a_limit_of_none_after_it(want, root, now):
    asked = want(device_class="mig.nvidia.com", devices=4, until=now + DAY)
    services.approve_quota_request(quota_request=asked, by=root)
    made = Quota.objects.get(device_class="mig.nvidia.com")
    assert (made.devices, made.guaranteed) == (0, 0)
    assert [(row["quota"], row["devices"]) for row in raises()] == [(made.pk, 4)]


def test_a_raise_adds_only_what_the_running_ones_do_not_give(want, quota, root, now):
    make_raise(quota, 3, ends_at=now + DAY)
    services.approve_quota_request(quota_request=want(devices=12, until=now + 2 * DAY), by=root)
    assert sorted(row["devices"] for row in raises()) == [1, 3]


def test_what_the_team_has_by_now_cannot_be_approved(want, quota, root):
    asked = want()
    before = row_of(asked)
    Quota.objects.update(devices=10)
    with pytest.raises(Invalid, match="vision may have 10 already; there is nothing left to approve"):
        services.approve_quota_request(quota_request=asked, by=root)
    assert row_of(asked) == before
    services.approve_quota_request(quota_request=asked, by=root, devices=11)
    assert Quota.objects.get().devices == 11


def test_a_request_whose_end_has_passed_can_be_approved_only_for_longer(want, root, now):
    asked = want(until=now + HOUR)
    with time_machine.travel(now + HOUR, tick=False):
        with pytest.raises(Invalid, match="is in the past"):
            services.approve_quota_request(quota_request=asked, by=root)
        assert row_of(asked)["status"] == "waiting"
        services.approve_quota_request(quota_request=asked, by=root, until=now + DAY)
    assert [row["ends_at"] for row in raises()] == [now + DAY]


def test_approving_twice_is_approving_once_and_another_admin_hears_who_was_first(want, quota, root, ada, now):
    asked = want(until=now + DAY)
    services.approve_quota_request(quota_request=asked, by=root)
    row = row_of(asked)
    again = services.approve_quota_request(quota_request=asked, by=root, devices=20, note="more")
    assert (again, row_of(asked)) == (asked, row)
    assert [one["devices"] for one in raises()] == [2]
    said = f"This request was already approved by root on {moment(now)}."
    with pytest.raises(Conflict) as refused:
        services.approve_quota_request(quota_request=asked, by=ada)
    assert refused.value.message == said
    for admin in (root, ada):
        with pytest.raises(Conflict) as refused:
            services.deny_quota_request(quota_request=asked, by=admin, reason="no")
        assert refused.value.message == said
    assert row_of(asked) == row


# Saying no, taking back, and time that passes.


def test_a_denial_keeps_the_reason_changes_nothing_and_tells_the_asker(want, quota, root, ada, now):
    asked = want()
    before = row_of(asked)
    Notice.objects.all().delete()
    for _ in range(2):
        services.deny_quota_request(quota_request=asked, by=root, reason=" the fleet is full ")
    assert row_of(asked) == before | {
        "status": "denied",
        "decided_by_id": root.pk,
        "decided_at": now,
        "decision_note": "the fleet is full",
    }
    assert Quota.objects.get().devices == 8
    assert notices() == [
        (
            "alice",
            "vision: request for more gpu.nvidia.com denied",
            "the fleet is full",
            page_of(asked),
            False,
        )
    ]
    with pytest.raises(Conflict, match="This request was already denied by root"):
        services.deny_quota_request(quota_request=asked, by=ada, reason="no")
    with pytest.raises(Conflict, match="This request was already denied by root"):
        services.approve_quota_request(quota_request=asked, by=root)
    assert Quota.objects.get().devices == 8


@pytest.mark.parametrize("person", ["alice", "lena"])
def test_the_asker_and_leads_take_a_request_back_and_nobody_is_told(request, want, root, person, now):
    asked, who = want(), request.getfixturevalue(person)
    before = row_of(asked)
    Notice.objects.all().delete()
    for _ in range(2):
        services.withdraw_quota_request(quota_request=asked, by=who)
    assert row_of(asked) == before | {
        "status": "withdrawn",
        "decided_by_id": who.pk,
        "decided_at": now,
    }
    assert notices() == []
    with pytest.raises(Conflict, match=f"This request was already withdrawn by {person}"):
        services.approve_quota_request(quota_request=asked, by=root)


def test_another_member_does_not_take_a_request_back(want, vision, bob, eve):
    asked, carol = want(), make_user("carol")
    vision.memberships.create(user=carol, role="member")
    with pytest.raises(Forbidden) as refused:
        services.withdraw_quota_request(quota_request=asked, by=carol)
    assert (
        refused.value.message
        == "alice sent this request; only the requester or a lead of vision may withdraw it."
    )
    for person, error in ((bob, PermissionDenied), (eve, Http404)):
        with pytest.raises(error):
            services.withdraw_quota_request(quota_request=asked, by=person)
    assert row_of(asked)["status"] == "waiting"


def test_every_request_that_nobody_decided_in_time_expires_and_no_other(vision, alice, lena, root, now):
    def ask(by, decide_by, **more):
        return make_quota_request(vision, by=by, decide_by=decide_by, **more)

    due, long_due = ask(alice, now), ask(lena, now - DAY, counts="claims")
    early = ask(alice, now + SECOND)
    done = ask(alice, now - DAY, status=RequestStatus.DENIED, decided_by=root, decided_at=now - 2 * DAY)
    kept = {one.pk: row_of(one) for one in (due, long_due, early, done)}
    for _ in range(2):
        quota_requests.end_overdue(now)
    expired = {
        "status": "expired",
        "decided_by_id": None,
        "decided_at": now,
        "decision_note": "Nobody decided in time.",
    }
    for one in (due, long_due):
        assert row_of(one) == kept[one.pk] | expired
    for one in (early, done):
        assert row_of(one) == kept[one.pk]
    said = ("Quota request of vision expired", "Request again if it is still needed.")
    assert notices() == [
        ("alice", *said, page_of(due), False),
        ("lena", *said, page_of(long_due), False),
    ]
    with pytest.raises(Conflict, match=r"^This request was already expired by the portal on "):
        services.approve_quota_request(quota_request=due, by=root)


@pytest.mark.parametrize(
    ("begins", "ends", "told"),
    [
        (-DAY, DAY + SECOND, None),
        (-DAY, DAY, "ends"),
        (-DAY, SECOND, "ends"),
        (-DAY, timedelta(0), "ended"),
        (-5 * DAY, -2 * DAY + SECOND, "ended"),
        (-5 * DAY, -2 * DAY, None),
        (timedelta(0), HOUR, "ends"),
        (SECOND, HOUR, None),
    ],
)
def test_the_end_of_a_raise_is_told_to_leads_and_the_asker_within_its_bounds(
    quota, alice, bob, now, begins, ends, told
):
    one = make_raise(quota, 2, starts_at=now + begins, ends_at=now + ends)
    for _ in range(2):
        quota_requests.notify_ends(now)
    titles = {
        "ends": f"The 2 more gpu.nvidia.com of vision end on {utc_moment(one.ends_at)}",
        "ended": "The 2 more gpu.nvidia.com of vision have ended",
    }
    body = "The limit is then 8. What is held beyond it stays, and is shown as over."
    url = reverse("claims:quota", args=[quota.pk])
    people = ("alice", "lars", "lena") if told else ()
    assert notices() == [(name, titles[told], body, url, told == "ends") for name in people]


def test_each_raise_is_told_of_and_one_without_a_request_to_leads_alone(quota, vision, now):
    for devices in (2, 3):
        make_raise(quota, devices, starts_at=now - DAY, ends_at=now + HOUR)
    QuotaIncrease.objects.filter(devices=3).update(request=None)
    quota_requests.notify_ends(now)
    assert sorted((who, title[:7]) for who, title, *_ in notices()) == [
        ("alice", "The 2 m"),
        ("lars", "The 2 m"),
        ("lars", "The 3 m"),
        ("lena", "The 2 m"),
        ("lena", "The 3 m"),
    ]


# What it would change.


def publish(cluster, count):
    DeviceClass.objects.create(cluster=cluster, uid="c", name=GPU_CLASS)
    fields = {"name": "s", "driver": "d", "pool": "p", "generation": 1, "pool_slices": 1}
    piece = ResourceSlice.objects.create(cluster=cluster, uid="s", **fields)
    for number in range(count):
        names = {"driver": "d", "pool": "p", "name": f"gpu-{number}"}
        Device.objects.create(cluster=cluster, slice=piece, classes=[GPU_CLASS], **names)


@pytest.mark.parametrize(("devices", "over"), [(9, 0), (10, 0), (11, 1), (13, 3)])
def test_the_impact_counts_limits_and_raises_of_all_teams_against_the_devices(
    vision, quota, alice, fra, now, devices, over
):
    publish(fra, 18)
    others = make_quota(make_team("nlp"), 5)
    make_quota(make_team("nlp"), 70, device_class="mig.nvidia.com")
    make_raise(quota, 1, ends_at=now + DAY)
    make_raise(others, 3, ends_at=now + DAY)
    make_raise(others, 30, starts_at=now - 2 * DAY, ends_at=now - DAY)
    impact = request_impact(make_quota_request(vision, devices, by=alice))
    assert impact.label == GPU_CLASS
    assert (impact.before, impact.after, impact.more) == (9, devices, devices - 9)
    assert (impact.granted, impact.capacity, impact.overcommitted) == (devices + 5 + 3, 18, over)
    assert impact.usage.quota == quota


@pytest.mark.parametrize("what", ["profile", "claims"])
def test_the_impact_on_a_profile_or_on_claims_is_of_no_capacity(vision, quota, train, alice, what):
    make_quota(vision, 30, profile=make_profile("other"))
    named = {"profile": train} if what == "profile" else {"counts": "claims"}
    own = Quota.objects.create(team=vision, devices=3, **named)
    Quota.objects.create(team=make_team("nlp"), devices=50, **named)
    impact = request_impact(make_quota_request(vision, 5, by=alice, **named))
    assert impact.label == ("train-80" if what == "profile" else "claims")
    assert (impact.before, impact.after, impact.granted, impact.capacity) == (3, 5, None, None)
    assert (impact.overcommitted, impact.usage.quota) == (0, own)


def test_the_impact_on_what_the_team_has_no_quota_of_starts_from_none(vision, quota, alice):
    make_quota(make_team("nlp"), 50, device_class="mig.nvidia.com")
    impact = request_impact(make_quota_request(vision, 5, by=alice, device_class="mig.nvidia.com"))
    assert (impact.usage, impact.before, impact.more, impact.granted) == (None, 0, 5, 55)


# Clusters are told once it stands.


def test_clusters_are_told_of_a_new_limit_once_it_is_saved(
    want, root, vision, monkeypatch, django_capture_on_commit_callbacks
):
    told: list[str] = []
    monkeypatch.setattr("claims.quotas.tasks.write_team.delay", told.append)
    asked = want()
    with django_capture_on_commit_callbacks() as later:
        services.approve_quota_request(quota_request=asked, by=root)
    assert told == []
    for call in later:
        call()
    assert told == [str(vision.pk)]
    told.clear()
    cache.clear()  # the message is being worked on
    with django_capture_on_commit_callbacks(execute=True):
        services.set_quota(by=root, team=vision, device_class=GPU_CLASS, devices=3)
    assert told == [str(vision.pk)]


def test_setting_a_quota_writes_every_column_of_that_row_alone(root, vision, quota, train):
    nlp = make_team("nlp")
    theirs = make_quota(nlp, 5)
    set_quota = services.set_quota
    set_quota(by=root, team=vision, device_class=GPU_CLASS, devices=6, guaranteed=2)
    set_quota(by=root, team=vision, profile=train, devices=7)
    set_quota(by=root, team=vision, counts="claims", devices=9)
    set_quota(by=root, team=vision, device_class="mig.nvidia.com", devices=4, guaranteed=4)
    columns = ("team", "device_class", "profile", "counts", "devices", "guaranteed")
    assert set(Quota.objects.values_list(*columns)) == {
        (vision.pk, GPU_CLASS, None, "devices", 6, 2),
        (vision.pk, "", train.pk, "devices", 7, 0),
        (vision.pk, "", None, "claims", 9, 0),
        (vision.pk, "mig.nvidia.com", None, "devices", 4, 4),
        (nlp.pk, GPU_CLASS, None, "devices", 5, 0),
    }
    assert Quota.objects.get(devices=6).pk == quota.pk
    set_quota(by=root, team=vision, device_class=GPU_CLASS, devices=5)  # a guarantee left out stays
    assert Quota.objects.get(pk=quota.pk).guaranteed == 2
    set_quota(by=root, team=vision, device_class=GPU_CLASS, devices=5, guaranteed=0)
    assert Quota.objects.get(pk=quota.pk).guaranteed == 0
    assert Quota.objects.get(pk=theirs.pk).devices == 5


@pytest.mark.parametrize(
    ("requested", "said"),
    [
        ({"counts": "claims", "guaranteed": 1}, "Only devices of a device class can be guaranteed."),
        ({"device_class": GPU_CLASS, "guaranteed": -1}, "A guarantee of -1 is more than the limit of 4."),
        ({"device_class": GPU_CLASS, "guaranteed": 5}, "A guarantee of 5 is more than the limit of 4."),
    ],
)
def test_a_guarantee_that_cannot_be_is_refused(root, vision, requested, said):
    with pytest.raises(Invalid) as refused:
        services.set_quota(by=root, team=vision, devices=4, **requested)
    assert refused.value.message == said
    assert not Quota.objects.exists()
