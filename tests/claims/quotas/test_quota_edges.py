"""Bounds of raises, messages that come twice, counters of several pools, and what pages of quotas offer."""

from datetime import timedelta

import pytest
import time_machine
from django.db import IntegrityError
from django.urls import reverse
from django.utils import timezone

from claims.models import Quota, QuotaRequest, RequestStatus, TeamNamespace, WrittenQuota
from claims.quotas import resource_quota_rounds, services
from claims.quotas.forms import QuotaForm, QuotaRequestForm
from claims.quotas.quota_usage import device_capacity, quota_breakdown, quota_usage
from claims.states import ClaimState
from cluster.protocol import Refused
from core.errors import Invalid
from inventory.models import Cluster, Device, DeviceClass, ResourceSlice
from tests.claims.quotas.test_quota_api_and_forms import posted
from tests.factories import (
    GPU_CLASS,
    make_claim,
    make_cluster,
    make_profile,
    make_quota,
    make_quota_request,
    make_raise,
    make_team,
)

pytestmark = pytest.mark.django_db
ASK, PAGE = reverse("claims:quota_request_new"), reverse("claims:quotas")
HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)


@pytest.fixture(autouse=True)
def now():
    with time_machine.travel(timezone.now().replace(microsecond=0), tick=False):
        yield timezone.now()


@pytest.mark.parametrize(
    ("begins", "ends", "runs"),
    [
        (timedelta(0), SECOND, True),
        (SECOND, HOUR, False),
        (-HOUR, timedelta(0), False),
        (-HOUR, SECOND, True),
    ],
)
def test_a_raise_runs_from_its_first_instant_to_before_its_last(vision, quota, now, begins, ends, runs):
    make_raise(quota, 2, starts_at=now + begins, ends_at=now + ends)
    other = make_quota(vision, 1, device_class="mig.nvidia.com")
    assert [row.limit for row in quota_usage([quota, other])] == [10 if runs else 8, 1]
    assert ([len(quota_breakdown(row).raises) for row in (quota, other)]) == [int(runs), 0]


def test_several_raises_of_several_quotas_add_up_each_to_its_own(vision, quota, now):
    other = make_quota(make_team("nlp"), 5)
    for row, devices in ((quota, 1), (quota, 2), (other, 4)):
        make_raise(row, devices, ends_at=now + HOUR)
    assert [(row.limit, row.raised) for row in quota_usage([quota, other])] == [(11, 3), (9, 4)]
    assert sorted(one.devices for one in quota_breakdown(quota).raises) == [1, 2]


def test_a_key_that_came_twice_at_once_for_two_teams_is_refused(alice, vision, quota, monkeypatch):
    """Neither sees the other's request before it writes its own: the database tells the second."""
    nlp = make_team("nlp", members=(alice,))
    requested = {"by": alice, "device_class": GPU_CLASS, "devices": 10, "reason": "A paper.", "key": "k"}
    first = services.request_quota(team=nlp, **requested)
    looked, earlier = [], services.earlier_request

    def too_early(by, key, sent):
        looked.append(key)
        return earlier(by, key, sent) if len(looked) > 2 else None

    monkeypatch.setattr(services, "earlier_request", too_early)
    with pytest.raises(Invalid, match="Use a new key"):
        services.request_quota(team=vision, **requested)
    assert QuotaRequest.objects.get() == first
    assert QuotaRequest.objects.count() == 1


def test_another_fault_of_the_database_is_not_hidden(alice, vision, quota, monkeypatch):
    def fault(**_values):
        raise IntegrityError("another constraint")

    monkeypatch.setattr(QuotaRequest.objects, "create", fault)
    with pytest.raises(IntegrityError, match="another constraint"):
        services.request_quota(
            by=alice, team=vision, device_class=GPU_CLASS, devices=10, reason="A paper.", key="k"
        )


def test_a_request_that_cannot_be_told_is_not_kept(alice, vision, quota, root, monkeypatch):
    monkeypatch.setattr(services, "notify", lambda *_a, **_k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        services.request_quota(
            by=alice, team=vision, device_class=GPU_CLASS, devices=10, reason="A paper.", key="k"
        )
    assert not QuotaRequest.objects.exists()


def test_an_approval_that_cannot_be_told_gives_nothing(alice, vision, quota, root, monkeypatch):
    asked = make_quota_request(vision, 10, by=alice)
    monkeypatch.setattr(services, "notify", lambda *_a, **_k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        services.approve_quota_request(quota_request=asked, by=root)
    asked.refresh_from_db()
    assert (asked.status, Quota.objects.get().devices) == ("waiting", 8)


def test_the_counters_of_each_pool_hold_its_own_partitions(fra):
    """Of two halves of a GPU both fit, of two wholes one; in two pools, and in those of another cluster."""
    osl = make_cluster("osl-1")
    for cluster in (fra, osl):
        DeviceClass.objects.create(cluster=cluster, uid=f"c-{cluster}", name=GPU_CLASS)
    for cluster, pool, takes in ((fra, "halves", "1"), (fra, "wholes", "2"), (osl, "halves", "1")):
        fields = {"cluster": cluster, "driver": "d", "pool": pool, "pool_slices": 2, "generation": 1}
        counters = [{"name": "gpu-0", "counters": {"a": {"value": "2"}}}]
        names = {"uid": f"{cluster}-{pool}", "name": f"{pool}-counters"}
        ResourceSlice.objects.create(**names, raw={"spec": {"sharedCounters": counters}}, **fields)
        piece = ResourceSlice.objects.create(uid=f"{cluster}-{pool}-s", name=pool, raw={"spec": {}}, **fields)
        for number in range(2):
            taken = [{"counterSet": "gpu-0", "counters": {"a": {"value": takes}}}]
            own = {"driver": "d", "pool": pool, "name": f"part-{number}", "classes": [GPU_CLASS]}
            Device.objects.create(cluster=cluster, slice=piece, counters=taken, **own)
    assert device_capacity([GPU_CLASS]) == {GPU_CLASS: 2 + 1 + 2}


def test_whether_a_refusal_is_believed_depends_on_the_claims_own_place(gateway, fra, vision, now):
    """Another team's quota in the cluster was written just now; this one's was not."""
    Cluster.objects.update(write_quotas=True)
    nlp = TeamNamespace.objects.create(team=make_team("nlp"), cluster=fra, namespace="nlp")
    WrittenQuota.objects.create(team_namespace=nlp, written_at=now)
    own = TeamNamespace.objects.get(team=vision)
    WrittenQuota.objects.create(team_namespace=own, written_at=now - HOUR)
    claim = make_claim(vision, cluster=Cluster.objects.get(), state=ClaimState.APPROVED)
    claim.state_since = now - HOUR
    refusal = Refused("exceeded quota: dragoman, requested: 1")
    assert resource_quota_rounds.may_count_old_limit(claim, gateway, refusal) is False


# Forms and pages.


def test_a_wrong_class_or_profile_is_said_once(vision, train):
    teams, profiles = type(vision).objects.all(), type(train).objects.all()
    sent = {"team": "vision", "more": "1", "reason": "x", "key": "k", "devices": "1"}
    for wrong in ({"device_class": "limits.nvidia.com/gpu"}, {"profile": "none"}):
        asking = QuotaRequestForm(sent | wrong, teams=teams, profiles=profiles)
        assert {name: len(said) for name, said in asking.errors.items()} == dict.fromkeys(wrong, 1)
    assert list(QuotaForm(posted(sent | {"profile": "none"})).errors) == ["profile"]
    nothing = ["Name either a device class or a profile, or count claims."]
    assert QuotaForm(posted(sent)).errors == {"device_class": nothing}
    assert QuotaRequestForm(sent, teams=teams, profiles=profiles).errors == {"device_class": nothing}


@pytest.mark.parametrize(
    ("wrong", "valid"),
    [
        ({}, True),
        ({"more": "1000000"}, True),
        ({"more": "1000001"}, False),
        ({"reason": "x" * 2000}, True),
        ({"reason": "x" * 2001}, False),
        ({"key": "x" * 81}, False),
        ({"key": ""}, False),
        ({"device_class": "x" * 254}, False),
    ],
)
def test_the_form_to_ask_takes_so_much_and_no_more(vision, train, wrong, valid):
    sent = {"team": "vision", "device_class": GPU_CLASS, "more": "1", "reason": "x", "key": "k"}
    querysets = {"teams": type(vision).objects.all(), "profiles": type(train).objects.all()}
    assert QuotaRequestForm(sent | wrong, **querysets).is_valid() is valid


@pytest.mark.parametrize(("shift", "valid"), [(timedelta(0), False), (timedelta(minutes=1), True)])
def test_a_raise_is_asked_for_until_a_moment_to_come(vision, train, now, shift, valid):
    with time_machine.travel(now.replace(second=0), tick=False):
        until = (timezone.localtime() + shift).strftime("%Y-%m-%dT%H:%M")
        sent = {"team": "vision", "device_class": GPU_CLASS, "more": "1", "reason": "x", "key": "k"}
        querysets = {"teams": type(vision).objects.all(), "profiles": type(train).objects.all()}
        form = QuotaRequestForm(sent | {"until": until}, **querysets)
        assert form.is_valid() is valid
        assert form.errors.get("until") == (None if valid else ["This is in the past."])


@pytest.mark.parametrize(
    ("person", "may_request", "admin"), [("bob", False, False), ("alice", True, False), ("root", True, True)]
)
def test_the_page_of_a_quota_offers_what_its_reader_may_do(
    request, client, quota, person, may_request, admin
):
    Quota.objects.update(guaranteed=3)
    client.force_login(request.getfixturevalue(person))
    answer = client.get(reverse("claims:quota", args=[quota.pk]))
    context = answer.context
    assert (context["may_request"], context["is_admin"]) == (may_request, admin)
    assert context["form"].initial == {"devices": 8, "guaranteed": 3, "counts": "devices"}
    assert (f'href="{ASK}?quota={quota.pk}"' in answer.text) is may_request


def may_request_for(context):
    return {group.team.pk for group in context["groups"] if group.may_request}


def test_the_page_of_quotas_offers_present_classes_and_profiles_and_counts_what_waits(
    client, vision, train, quota, alice, bob, root, fra, now
):
    osl, nlp = make_cluster("osl-1"), make_team("nlp")
    retired = make_profile("retired")
    retired.retired_at = now
    retired.save(update_fields=["retired_at"])
    for cluster, name, gone in (
        (fra, "b.example.com", None),
        (osl, "b.example.com", None),
        (fra, "a.example.com", None),
        (fra, "gone.example.com", now),
    ):
        DeviceClass.objects.create(cluster=cluster, uid=f"{cluster}{name}", name=name, gone_at=gone)
    make_quota_request(vision, 9, by=alice)
    make_quota_request(vision, 9, by=alice, status="denied")
    make_quota_request(nlp, 9, by=root)
    client.force_login(root)
    context = client.get(PAGE).context
    assert list(context["classes"]) == ["a.example.com", "b.example.com"]
    assert list(context["form"].fields["profile"].queryset) == [train]
    assert (context["waiting"], may_request_for(context)) == (2, {vision.pk, nlp.pk})
    assert list(client.get(ASK).context["classes"]) == ["a.example.com", "b.example.com"]
    for person, asking in ((alice, {vision.pk}), (bob, set())):
        client.force_login(person)
        context = client.get(PAGE).context
        assert (context["waiting"], may_request_for(context), context["is_admin"]) == (1, asking, False)


def test_what_is_asked_for_twice_on_the_page_is_409_with_the_reason(client, alice, vision, quota, now):
    make_quota_request(vision, 9, by=alice)
    client.force_login(alice)
    sent = {"team": "vision", "device_class": GPU_CLASS, "more": "2", "reason": "a paper", "key": "k"}
    answer = client.post(ASK, sent)
    assert answer.status_code == 409
    assert (
        answer.context["refusal"].message
        == "You have already requested 9. Wait for the decision, or withdraw that request first."
    )
    assert answer.context["row"].quota == quota
    assert QuotaRequest.objects.count() == 1


def test_what_is_decided_cannot_be_taken_back_on_the_page(client, alice, vision, root):
    asked = make_quota_request(vision, 9, by=alice)
    asked.decide(RequestStatus.DENIED, by=root)
    client.force_login(alice)
    page = client.post(reverse("claims:quota_request_withdraw", args=[asked.pk]), follow=True)
    assert page.status_code == 200
    assert "This request was already denied by root" in page.text
    asked.refresh_from_db()
    assert asked.status == "denied"
