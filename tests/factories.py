"""
People and things for tests: each function makes one, fills in what the test does not care about, and is
typed.
"""

import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from datetime import datetime, timedelta
from decimal import Decimal
from math import ceil
from types import SimpleNamespace
from typing import Any

import psycopg
from allauth.account.internal.flows.login import record_authentication
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.utils import timezone

from claims.approvals import authority, pending
from claims.approvals.rules import Rules
from claims.budgets import use as budget_use
from claims.catalogue import services as catalogue
from claims.catalogue.definition import sent_definition
from claims.models import (
    Allocation,
    Approval,
    AtLimit,
    Budget,
    Claim,
    ClaimCharge,
    Delivery,
    Extension,
    Profile,
    ProfileVersion,
    Purpose,
    Quota,
    QuotaIncrease,
    QuotaRequest,
    RequestStatus,
    TeamNamespace,
)
from claims.states import RUNNING, ClaimState
from core.scopes import Scope
from core.times import utc_moment
from dra.manifests import spec_hash, with_count
from dra.quota import charge
from dra.quota import devices as devices_of
from inventory.models import Cluster
from notify.models import Mail, NoticeKind
from notify.preferences import Preference, store_preferences
from teams.models import ApiToken, Membership, Role, Team, User
from teams.tokens import create_token
from tests.lives import Life, admin_for
from usage.models import Alert

GPU_CLASS = "gpu.nvidia.com"
_numbers = itertools.count(1)


def want_all_mail(person: User) -> None:
    """Let the person get every notice by email too."""
    store_preferences(by=person, preferences=dict.fromkeys(NoticeKind, Preference(mail=Mail.ALL)))


def make_token(by: User, title: str = "Notebook", **fields: Any) -> tuple[ApiToken, str]:
    """Return a token with every scope, and its text."""
    return create_token(by=by, title=title, **{"scopes": Scope.values, **fields})


def sign_in_just_now(client: Client, user: User) -> None:
    """Give a client the session of somebody who has entered the password just now."""
    client.force_login(user)
    session = client.session
    request: Any = SimpleNamespace(session=session)
    record_authentication(request, user, method="password", reauthenticated=True)
    session.save()


@contextmanager
def changing_the_log() -> Iterator[None]:
    """Change entries of the audit log, as an intruder who may do everything in the database could."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        yield
        cursor.execute("SET LOCAL session_replication_role = origin")


def make_violation(constraint: str) -> IntegrityError:
    """Return the error that Django raises for a write that violates `constraint`."""
    field = psycopg.pq.DiagnosticField.CONSTRAINT_NAME
    error = IntegrityError(f'duplicate key value violates unique constraint "{constraint}"')
    error.__cause__ = psycopg.errors.UniqueViolation(info={field: constraint.encode()})
    return error


def make_user(
    username: str = "alice", *, admin: bool = False, password: str | None = None, **fields: Any
) -> User:
    """Make a person, or return the one of that name. The audit log has no entry of it."""
    if (known := User.objects.filter(username=username).first()) is not None:
        return known
    values = {"is_superuser": admin, "is_staff": admin, **fields}
    user = User(username=username, password=make_password(password or username), **values)
    return User.objects.bulk_create([user])[0]


def make_team(
    slug: str = "vision",
    *,
    owners: tuple[User, ...] = (),
    leads: tuple[User, ...] = (),
    members: tuple[User, ...] = (),
    viewers: tuple[User, ...] = (),
    **fields: Any,
) -> Team:
    known = Team.objects.filter(slug=slug).first()
    team = known or Team.objects.create(**{"slug": slug, "title": slug.title(), **fields})
    by_role = {Role.OWNER: owners, Role.LEAD: leads, Role.MEMBER: members, Role.VIEWER: viewers}
    memberships = [
        Membership(user=person, team=team, role=role) for role, people in by_role.items() for person in people
    ]
    if known is None:  # nothing waits for anybody's decision yet
        Membership.objects.bulk_create(memberships)
    for membership in memberships if known else ():
        membership.save()
    return team


def make_cluster(name: str = "fra-1", *, teams: tuple[Team, ...] = (), **fields: Any) -> Cluster:
    """Make a cluster in which each of `teams` has a namespace of its own name."""
    defaults = {"credentials": b"", "uid": f"uid-of-{name}", "version": "v1.37.1", **fields}
    known = Cluster.objects.filter(name=name).first()
    cluster = known or Cluster.objects.create(name=name, **defaults)
    for team in teams:
        TeamNamespace.objects.create(team=team, cluster=cluster, namespace=team.slug)
    return cluster


def make_spec(count: int = 1, device_class: str = GPU_CLASS, **exactly: Any) -> dict[str, Any]:
    """Return a ResourceClaim spec with one request, `gpu`."""
    request = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count, **exactly}
    return {"devices": {"requests": [{"name": "gpu", "exactly": request}]}}


def make_profile(
    slug: str = "train-80",
    *,
    spec: dict[str, Any] | None = None,
    teams: tuple[Team, ...] = (),
    approval: Approval = Approval.LEAD,
    max_devices: int = 8,
    **limits: Any,
) -> Profile:
    """Make a profile with one version, scalable if its spec has a request named `gpu` with a count."""
    spec = spec or make_spec()
    profile = Profile.objects.create(slug=slug, title=slug.replace("-", " ").title(), use="Tests")
    profile.teams.set(teams)
    names = {
        request["name"] for request in spec["devices"]["requests"] if "count" in request.get("exactly", {})
    }
    fields = {
        "scalable": "gpu" if "gpu" in names else "",
        "deliveries": list(Delivery.values),
        "approval": approval,
        "max_devices": max_devices,
        **limits,
    }
    profile.current = ProfileVersion.objects.create(
        profile=profile, number=1, spec=spec, spec_hash=spec_hash(spec), **fields
    )
    profile.save(update_fields=["current"])
    return profile


def save_profile(
    *,
    by: User,
    profile: Profile | None = None,
    teams: Iterable[Team] = (),
    base: int | None = None,
    dry_run: bool = False,
    **definition: Any,
) -> ProfileVersion:
    """Save a profile as the editor does; `definition` has limits beside slug, title, use and spec."""
    fields = {"use": "", "purpose": Purpose.OTHER, "teams": teams, **definition}
    return catalogue.save_profile(
        by=by, profile=profile, definition=sent_definition(fields), base=base, dry_run=dry_run
    )


def make_quota(
    team: Team,
    devices: int = 8,
    *,
    device_class: str = GPU_CLASS,
    profile: Profile | None = None,
) -> Quota:
    return Quota.objects.create(
        team=team,
        device_class="" if profile else device_class,
        profile=profile,
        devices=devices,
    )


def make_budget(
    team: Team, amount: Decimal | None = Decimal(1000), *, at_limit: str = AtLimit.NOTIFY, **fields: Any
) -> Budget:
    """Make a budget, of each month unless `fields` say otherwise, and compute its use."""
    now = timezone.now()
    values = {"first": budget_use.utc_day(now).replace(day=1), "amount": amount, **fields}
    budget = Budget.objects.create(team=team, at_limit=at_limit, **values)
    budget_use.refresh([budget], now=now)
    return budget


def make_claim(
    team: Team | None = None,
    *,
    by: User | None = None,
    cluster: Cluster | None = None,
    profile: Profile | None = None,
    devices: int = 1,
    parallel: int = 1,
    state: ClaimState = ClaimState.REQUESTED,
    held: bool = True,
    **fields: Any,
) -> Claim:
    """
    Make a claim in any state, with the decision, history, charges and devices of a claim that the services
    brought there by a usual way; `fields` are columns that a test wants otherwise.

    Where the team has nobody who may decide, somebody did who is gone since. A claim that is allocated holds
    devices of its own; without them (`held=False`) a test opens the allocations itself. Nobody is told.
    """
    number = next(_numbers)
    team = team or make_team()
    by = by or make_user()
    cluster = cluster or make_cluster()
    profile = profile or Profile.objects.filter(slug="train-80").first() or make_profile()
    version = profile.current
    assert version is not None
    scaled = with_count(version.spec, version.scalable, devices) if version.scalable else version.spec
    spec = fields.pop("spec", scaled)
    values = {
        "name": f"{profile.slug}-{number}",
        "key": f"key-{number}",
        "namespace": team.slug,
        "delivery": Delivery.CLAIM if parallel == 1 else Delivery.TEMPLATE,
        "duration": _duration(version, fields),
        "spec": spec,
        "spec_hash": spec_hash(spec),
        "devices": devices_of(spec),
        "parallel": parallel,
        **fields,
    }
    lent: dict[str, int] = {}
    if (old := fields.get("replaces")) and not old.is_final:
        lent = dict(old.charges.values_list("device_class", "devices"))
        same = old.profile_version.profile_id == profile.pk
        carried = min(old.devices * old.parallel, values["devices"] * parallel) if same else 0
        fields.setdefault("carried", carried)
    claim = Claim(team=team, cluster=cluster, profile_version=version, requested_by=by, **values)
    life = Life(claim, fields)
    life.lead_to(state)
    if not held:
        life.held, life.settled = [], {}
    life.save()
    if lent:
        old.remark(f"{claim} was requested as a replacement.", by=by)
    ClaimCharge.objects.bulk_create(
        ClaimCharge(
            claim=claim,
            device_class=name,
            devices=count * parallel,
            settled=life.settled.get(name),
            carried=min(count * parallel, lent.get(name, 0)),
        )
        for name, count in charge(spec).items()
        if count
    )
    if state == ClaimState.REQUESTED:
        leads = User.objects.filter(
            memberships__team=team, memberships__role__in=authority.LEADS, is_active=True
        )
        pending.add(copy(claim), Rules([team.pk]).for_claim(copy(claim)), leads)
    return claim


def _duration(version: ProfileVersion, fields: dict[str, Any]) -> timedelta:
    """Return for how long it is asked, so that it was approved by now if it ends when `fields` say."""
    end, decided_at = fields.get("expires_at"), fields.get("decided_at")
    if end is None:
        return version.default_duration
    if decided_at is not None:
        return end - decided_at
    left = end - timezone.now()
    return max(version.default_duration, timedelta(minutes=ceil(left / timedelta(minutes=1))))


def make_allocation(
    claim: Claim, started_at: datetime, ended_at: datetime | None = None, **fields: Any
) -> Allocation:
    """Let `claim` hold a device of its own, from an instant to an instant, or until now."""
    device = f"gpu-{next(_numbers)}"
    values = {
        "object_uid": claim.object_uid or f"uid-of-{claim.pk}",
        "object_name": claim.name,
        "request": "gpu",
        "driver": GPU_CLASS,
        "pool": "node-1",
        "device": device,
        "node_name": "node-1",
        **fields,
    }
    return Allocation.objects.create(claim=claim, started_at=started_at, ended_at=ended_at, **values)


def make_alert(team: Team | None = None, **fields: Any) -> Alert:
    """Make an open alert of a claim that waits, unless `fields` say otherwise; nobody is told."""
    values = {
        "condition": Alert.Condition.CLAIM_PENDING,
        "key": f"key-{next(_numbers)}",
        "text": "It waits.",
        "url": "/",
        "since": timezone.now(),
        "opened_at": timezone.now(),
        **fields,
    }
    return Alert.objects.create(team=team, **values)


def make_extension(
    claim: Claim, *, by: User | None = None, until: datetime | None = None, **fields: Any
) -> Extension:
    """Ask to keep a claim that runs until `until`, or for a day longer; it waits for a decision."""
    end, requested_by = claim.expires_at, by or claim.requested_by
    if claim.state not in RUNNING or end is None:
        raise ValueError(f"No service extends a claim that is {claim.state}.")
    until = until or end + timedelta(days=1)
    values = {"key": f"key-{next(_numbers)}", "decide_by": claim.deleted_at, **fields}
    extension = Extension.objects.create(
        claim=claim, requested_by=requested_by, previous_end=end, until=until, **values
    )
    claim.remark(f"Extension until {utc_moment(until)} requested.", by=requested_by)
    return extension


def make_quota_request(
    team: Team,
    devices: int = 9,
    *,
    by: User,
    device_class: str = GPU_CLASS,
    profile: Profile | None = None,
    counts: str = Quota.Counts.DEVICES,
    **fields: Any,
) -> QuotaRequest:
    """Ask for a limit of `devices` for a team, for good unless `until` is given; it waits for a decision."""
    values = {
        "key": f"key-{next(_numbers)}",
        "reason": "A paper is due.",
        "decide_by": timezone.now() + settings.REQUEST_TTL,
        **fields,
    }
    of_class = profile is None and counts == Quota.Counts.DEVICES
    return QuotaRequest.objects.create(
        team=team,
        requested_by=by,
        devices=devices,
        device_class=device_class if of_class else "",
        profile=profile,
        counts=counts,
        **values,
    )


def make_raise(
    quota: Quota,
    devices: int,
    *,
    ends_at: datetime,
    starts_at: datetime | None = None,
    by: User | None = None,
) -> QuotaIncrease:
    """Give so many devices more than the quota says for a time, as a platform admin does who is asked."""
    since, admin = starts_at or timezone.now(), by or admin_for(None)
    request = make_quota_request(
        quota.team,
        quota.devices + devices,
        by=make_user(),
        device_class=quota.device_class,
        profile=quota.profile,
        counts=quota.counts,
        until=ends_at,
        requested_at=since,
        decide_by=since + settings.REQUEST_TTL,
        status=RequestStatus.APPROVED,
        decided_by=admin,
        decided_at=since,
    )
    return QuotaIncrease.objects.create(
        quota=quota, devices=devices, starts_at=since, ends_at=ends_at, request=request, by=admin
    )
