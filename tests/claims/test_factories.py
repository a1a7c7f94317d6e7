"""A claim of `make_claim` is one that the services could have made: column by column, line by line."""

from contextlib import contextmanager
from datetime import timedelta
from operator import attrgetter
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from claims.approvals import decide as approvals_decide
from claims.delivery import deliver
from claims.lifecycle.services import extend, release, withdraw
from claims.models import Approval, Claim
from claims.quotas.services import approve_quota_request, request_quota
from claims.requests.services import resize
from claims.states import NEXT, ClaimState
from claims.tasks import expire
from claims.unmanaged.services import adopt
from cluster.protocol import ClusterInvalid
from inventory.models import ResourceClaim, ResourceClaimTemplate
from teams.access import role_in
from teams.models import Role
from tests.claims.mirror import Mirror, result
from tests.factories import (
    make_claim,
    make_extension,
    make_profile,
    make_quota_request,
    make_raise,
    make_spec,
)
from tests.lives import REASON_TO_DENY, REFUSAL, WAYS

pytestmark = pytest.mark.django_db

S = ClaimState
# What differs from claim to claim: only whether there is anything is held to each other.
OWN = {
    "id", "name", "key", "object_uid", "observation_hash", "replaces_id",
    "created_at", "state_since", "decide_by", "decided_at", "expires_at",
}  # fmt: skip
FIRST_OF_TWO = {
    "devices": {
        "requests": [
            {
                "name": "gpu",
                "firstAvailable": [
                    {"name": "one", "deviceClassName": "gpu.nvidia.com", "count": 1},
                    {"name": "two", "deviceClassName": "gpu.nvidia.com", "count": 2},
                ],
            }
        ]
    }
}
PROFILES: dict[str, dict[str, Any]] = {
    "lead": {},
    "automatic": {"approval": Approval.AUTOMATIC},
    "admin": {"approval": Approval.ADMIN},
    "both": {"approval": Approval.BOTH},
    "first": {"spec": FIRST_OF_TWO},
}
SIZES: dict[str, dict[str, Any]] = {
    "claim": {"devices": 2},
    "template": {"devices": 1, "parallel": 3, "delivery": "template"},
}
CASES = [
    *[("lead", "claim", state) for state in S],
    *[("lead", "template", state) for state in S],
    *[("automatic", "claim", state) for state in (S.APPROVED, S.PROVISIONED, S.FAILED)],
    *[("admin", "claim", state) for state in (S.REQUESTED, S.APPROVED, S.DENIED)],
    *[("both", "claim", state) for state in (S.REQUESTED, S.APPROVED, S.ALLOCATED)],
    *[("first", "claim", state) for state in (S.REQUESTED, S.PROVISIONED, S.ALLOCATED)],
    *[("first", "template", state) for state in (S.REQUESTED, S.ALLOCATED)],
]


@pytest.fixture
def by_services(ask, fra, gateway, lars, alice, root, monkeypatch):
    """Ask for a claim and let the services bring it to a state, by the way that `make_claim` says it took."""

    def approve(claim):
        if claim.profile_version.approval == Approval.BOTH:
            approvals_decide.approve(claim=claim, by=lars, spec_hash=claim.spec_hash)
        admin = claim.profile_version.approval in (Approval.ADMIN, Approval.BOTH)
        if claim.state == S.REQUESTED:
            approvals_decide.approve(claim=claim, by=root if admin else lars, spec_hash=claim.spec_hash)

    def deny(claim):
        admin = claim.profile_version.approval == Approval.ADMIN
        approvals_decide.deny(claim=claim, by=root if admin else lars, reason=REASON_TO_DENY)

    def let_expire(claim):
        week = settings.REQUEST_TTL
        begun = {name: getattr(claim, name) - week for name in ("created_at", "state_since", "decide_by")}
        Claim.objects.filter(pk=claim.pk).update(**begun)
        claim.history.update(at=begun["created_at"])
        expire()

    def allocate(claim):
        template = claim.delivery == "template"
        mirror, name = Mirror(fra), f"{claim.name}-pod" if template else claim.name
        if template:
            ResourceClaimTemplate.objects.create(
                cluster=fra, uid=claim.object_uid, namespace="vision", name=claim.name, owner=str(claim.pk),
                raw={"metadata": {"name": claim.name}, "spec": {"spec": claim.spec}},
            )  # fmt: skip
        request = claim.spec["devices"]["requests"][0]
        count = request["exactly"]["count"] if "exactly" in request else 1
        asked = "gpu" if "exactly" in request else "gpu/one"
        devices = [result(f"{claim.name}-{number}", request=asked) for number in range(count)]
        known = {"uid": f"uid-of-{name}", "origin": "template"} if template else {"uid": claim.object_uid}
        mirror.claim(name, claim, *devices, at=timezone.now(), **known)

    def fail(claim):
        def refuse(*_args, **_more):
            raise ClusterInvalid(REFUSAL)

        with monkeypatch.context() as patched:
            patched.setattr(gateway, "create", refuse)
            deliver.deliver(str(claim.pk))

    steps = {
        S.APPROVED: approve,
        S.DENIED: deny,
        S.WITHDRAWN: lambda claim: withdraw(claim=claim, by=alice),
        S.EXPIRED: let_expire,
        S.PROVISIONED: lambda claim: deliver.deliver(str(claim.pk)),
        S.ALLOCATED: allocate,
        S.RELEASING: lambda claim: release(claim=claim, by=alice),
        S.RELEASED: lambda claim: deliver.remove(str(claim.pk)),
        S.FAILED: fail,
    }

    def bring(state, **request_fields):
        claim = ask(**request_fields)
        for step in WAYS[state]:
            steps[step](fresh(claim))
            assert fresh(claim).state == step
        return fresh(claim)

    return bring


def fresh(claim):
    return Claim.objects.get(pk=claim.pk)


def who(person, team):
    """Return what a person is to a claim: names do not matter."""
    if person is None or person.is_superuser:
        return person and "admin"
    role = role_in(person, team)
    return role and ("lead" if role.rank >= Role.LEAD.rank else role.value)


def facts(claim):
    """Return all that is kept of a claim, without what is of this one alone."""
    claim = fresh(claim)
    values = {field.attname: getattr(claim, field.attname) for field in Claim._meta.concrete_fields}
    values.pop("key_digest")  # no request made the claim of a factory
    columns = {name: bool(value) if name in OWN else value for name, value in values.items()}
    del columns["reconcile_at"]  # of the sweep
    columns["decided_by_id"] = who(claim.decided_by, claim.team)
    told = [
        (line.old, line.new, line.reason.replace(claim.name, "NAME"), who(line.by, claim.team))
        for line in claim.history.all()
    ]
    held = [
        (row.object_name.replace(claim.name, "NAME"), row.object_uid == claim.object_uid, row.request,
         row.driver, row.pool, row.device.replace(claim.name, "NAME"), row.fraction, row.ended_at is None)
        for row in claim.allocations.order_by("device")
    ]  # fmt: skip
    return {
        "columns": columns,
        "history": told,
        "charges": list(claim.charges.values_list("device_class", "devices", "settled", "carried")),
        "consents": [
            (step.role, who(step.by, claim.team), step.note, step.spec_hash == claim.spec_hash)
            for step in claim.steps.all()
        ],
        "devices": held,
    }


def assert_times_ascend(claim):
    """One step after the other, the columns as the lines of the history, the ends by the terms."""
    claim = fresh(claim)
    lines = list(claim.history.all())
    times = [line.at for line in lines]
    same = timedelta(seconds=5)  # columns and lines are written one after the other
    assert [claim.created_at, *times] == sorted([claim.created_at, *times])
    assert abs(times[0] - claim.created_at) < same
    moved = [line for line in lines if line.old != line.new]
    assert abs(moved[-1].at - claim.state_since) < same
    assert times[-1] <= timezone.now()
    for row in claim.allocations.all():
        assert abs(row.started_at - claim.state_since) < same
    if claim.origin == Claim.Origin.PORTAL:
        assert abs(claim.decide_by - claim.created_at - settings.REQUEST_TTL) < same
    if claim.state == S.EXPIRED:
        assert claim.state_since >= claim.decide_by
    if claim.decided_at:
        decided = next(line for line in lines if line.new in (S.APPROVED, S.DENIED, S.PROVISIONED))
        assert abs(decided.at - claim.decided_at) < same
    if claim.expires_at:
        assert claim.expires_at == claim.decided_at + claim.duration


@contextmanager
def nothing_sees_it():
    """Leave what the services did beside the claim out of the way of the next one."""
    yield
    ResourceClaim.objects.all().delete()
    ResourceClaimTemplate.objects.all().delete()


@pytest.mark.parametrize(("profile", "size", "state"), CASES)
def test_a_claim_is_as_the_services_would_have_made_it(
    by_services, vision, fra, alice, root, train, profile, size, state
):
    asked: dict[str, Any] = {
        "profile": make_profile("asked", **PROFILES[profile]) if PROFILES[profile] else train
    }
    asked |= SIZES[size]
    if profile == "first":
        asked["devices"] = 1
    with nothing_sees_it():
        theirs = by_services(state, **asked)
    ours = make_claim(vision, by=alice, cluster=fra, state=state, **asked)
    assert facts(ours) == facts(theirs)
    for claim in (theirs, ours):
        assert_times_ascend(claim)


def test_an_adopted_claim_is_as_the_service_would_have_made_it(vision, fra, train, alice, root, quota):
    rows = [
        ResourceClaim.objects.create(
            cluster=fra, uid=f"uid-{name}", name=name, namespace="vision", origin="foreign",
            raw={"metadata": {"name": name}, "spec": make_spec(2)},
        )
        for name in ("one", "two")
    ]  # fmt: skip
    theirs = adopt(row=rows[0], by=root, owner=alice, profile=train, duration=timedelta(hours=24))
    ours = make_claim(
        vision, by=alice, cluster=fra, profile=train, devices=2, state=S.PROVISIONED, origin="adopted",
        name="two", object_uid=rows[1].uid,
    )  # fmt: skip
    assert facts(ours) == facts(theirs)
    assert fresh(ours).key == "adopt:uid-two"
    for claim in (theirs, ours):
        assert_times_ascend(claim)


def test_a_claim_that_replaces_another_carries_what_the_service_would(by_services, vision, fra, train, alice):
    theirs, ours = [
        (old, renew(old))
        for old, renew in (
            (
                by_services(S.PROVISIONED, devices=2),
                lambda old: resize(claim=old, by=alice, devices=3, key="more"),
            ),
            (
                make_claim(vision, by=alice, cluster=fra, profile=train, devices=2, state=S.PROVISIONED),
                lambda old: make_claim(vision, by=alice, cluster=fra, profile=train, devices=3, replaces=old),
            ),
        )
    ]
    assert facts(ours[1]) == facts(theirs[1])
    assert facts(ours[1])["charges"] == [("gpu.nvidia.com", 3, None, 2)]
    for old, new in (theirs, ours):
        last = old.history.last()
        assert (last.reason, last.by) == (f"{new} was requested as a replacement.", alice)
    assert facts(ours[0])["columns"] == facts(theirs[0])["columns"]


def test_every_way_is_one_of_the_table():
    for state, way in WAYS.items():
        walked = [S.REQUESTED, *way]
        assert walked[-1] == state
        assert all(to in NEXT[old] for old, to in zip(walked, way, strict=False))


@pytest.mark.parametrize("state", [state for state in S if S.PROVISIONED not in WAYS[state]])
def test_an_adopted_claim_is_never_what_no_service_makes_of_it(state):
    with pytest.raises(ValueError, match="No service makes an adopted claim that is"):
        make_claim(state=state, origin="adopted")


def test_a_column_that_is_given_stays_and_the_others_follow(vision, fra, alice, lena):
    end = timezone.now() + timedelta(days=3)
    claim = make_claim(vision, by=alice, cluster=fra, state=S.PROVISIONED, expires_at=end, decided_by=lena)
    claim.refresh_from_db()
    assert (claim.expires_at, claim.decided_by) == (end, lena)
    assert claim.duration == timedelta(days=3)
    assert [line.by for line in claim.history.all()] == [alice, lena, None]
    assert_times_ascend(claim)


@pytest.mark.parametrize("state", [S.REQUESTED, S.ALLOCATED, S.RELEASED, S.EXPIRED])
@pytest.mark.parametrize("column", ["created_at", "state_since"])
def test_a_past_that_is_given_is_the_past_of_the_whole_claim(vision, fra, alice, state, column):
    past = timezone.now() - timedelta(days=40)
    given: dict[str, Any] = {column: past}
    claim = fresh(make_claim(vision, by=alice, cluster=fra, state=state, **given))
    assert attrgetter(column)(claim) == past
    assert_times_ascend(claim)


def test_without_anybody_who_may_decide_somebody_did_who_is_gone(vision, fra, alice):
    vision.memberships.filter(role=Role.LEAD).delete()
    claim = make_claim(vision, by=alice, cluster=fra, state=S.APPROVED)
    assert claim.decided_by is not None
    assert who(claim.decided_by, vision) is None


def test_nobody_decides_on_a_claim_of_their_own(vision, fra, lars, lena):
    assert make_claim(vision, by=lars, cluster=fra, state=S.APPROVED).decided_by == lena


def test_an_allocated_claim_without_devices_is_for_tests_that_hold_their_own(vision, fra, alice):
    claim = make_claim(vision, by=alice, cluster=fra, state=S.ALLOCATED, held=False)
    assert not claim.allocations.exists()


def test_a_claim_costs_a_handful_of_queries(vision, fra, train, alice):
    make_claim(vision, by=alice, cluster=fra, profile=train, state=S.ALLOCATED)
    with CaptureQueriesContext(connection) as seen:
        make_claim(vision, by=alice, cluster=fra, profile=train, state=S.ALLOCATED)
    writes = [one for one in seen if "INSERT" in one["sql"]]
    assert (len(writes), len(seen)) == (4, 6)


def facts_of_ask(row):
    """Return the columns of a wish that waits, without what is of this one alone."""
    values = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    own = ("id", "key", "requested_at", "decide_by", "claim_id")
    return {name: bool(value) if name in own else value for name, value in values.items()}


def test_a_wish_for_more_time_is_as_the_service_would_have_made_it(vision, fra, train, alice):
    end = timezone.now() + timedelta(hours=20)
    of_team = {"by": alice, "cluster": fra, "state": S.PROVISIONED, "expires_at": end}
    grace = make_profile("kept", grace=timedelta(hours=2))
    first, second = [make_claim(vision, profile=grace, **of_team) for _ in range(2)]
    until = end + timedelta(days=1)
    theirs = extend(claim=first, by=alice, until=until, key="k")
    ours = make_extension(second)
    assert facts_of_ask(ours) == facts_of_ask(theirs)
    assert ours.decide_by == theirs.decide_by
    assert facts(second)["history"] == facts(first)["history"]
    assert facts(second)["columns"] == facts(first)["columns"]


@pytest.mark.parametrize("state", [S.REQUESTED, S.RELEASING, S.FAILED])
def test_no_wish_for_more_time_is_made_that_the_service_refuses(vision, fra, alice, state):
    with pytest.raises(ValueError, match="No service extends a claim that is"):
        make_extension(make_claim(vision, by=alice, cluster=fra, state=state))


@pytest.mark.parametrize("what", ["class", "profile", "claims"])
def test_a_wish_for_more_quota_is_as_the_service_would_have_made_it(vision, alice, train, quota, what):
    named = {
        "class": {"device_class": "gpu.nvidia.com"},
        "profile": {"profile": train},
        "claims": {"counts": "claims"},
    }[what]
    theirs = request_quota(by=alice, team=vision, devices=12, reason="A paper is due.", key="k", **named)
    known = facts_of_ask(theirs)
    theirs.delete()
    ours = make_quota_request(vision, 12, by=alice, **named)
    assert facts_of_ask(ours) == known


def test_a_raise_is_as_the_service_would_have_made_it(vision, alice, root, quota):
    until = timezone.now() + timedelta(days=1)
    asked = request_quota(
        by=alice, team=vision, device_class="gpu.nvidia.com", devices=12, until=until,
        reason="A paper is due.", key="k",
    )  # fmt: skip
    approve_quota_request(quota_request=asked, by=root)
    theirs = quota.increases.get()
    ours = make_raise(quota, 4, ends_at=until)
    columns = ("quota_id", "devices", "ends_at", "by_id")
    assert [getattr(ours, name) for name in columns] == [getattr(theirs, name) for name in columns]
    made, known = facts_of_ask(ours.request), facts_of_ask(theirs.request)
    for own in (made, known):
        assert own.pop("decided_at") <= timezone.now()
    assert made == known
