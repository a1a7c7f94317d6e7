"""
One world with a thing in every state that changes what a page offers, and one person for each role.

It is built once for the tests of a module, in a transaction that is rolled back after them: `made` yields it.
Each of its tests works in a savepoint of its own (`undone`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.core.cache import cache
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from claims.catalogue import availability
from claims.catalogue.lint import catalogue_report
from claims.catalogue.yaml_export import catalogue_file, exported
from claims.models import (
    Allocation,
    ApprovalRule,
    Claim,
    Comment,
    Delegation,
    Draft,
    Extension,
    Quota,
    QuotaRequest,
    ReasonTemplate,
    TeamNamespace,
    WorkloadIdentity,
)
from claims.states import ClaimState
from core.models import SavedFilter
from inventory.models import Device, Node, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from notify.models import Notice
from teams import device_login
from teams.identity.models import IdentityProvider
from teams.invitations import invite
from teams.models import User
from teams.service_accounts import create_account_token, create_service_account
from teams.tokens import create_token
from tests.claims.catalogue.test_lint import MEMORY, publish
from tests.claims.mirror import Mirror
from tests.dra.clusters import gpu
from tests.factories import (
    make_budget,
    make_claim,
    make_cluster,
    make_profile,
    make_quota,
    make_spec,
    make_team,
    make_user,
)
from usage.models import IdlePeriod, Rate, SavedReport, SizeCheck, StoredDays

# Role → user name. `asker` is the member whose claims these are; `member` another one of the team; `outsider`
# a member of another team.
PEOPLE = {
    "viewer": "bob",
    "asker": "alice",
    "member": "mia",
    "lead": "lena",
    "owner": "owen",
    "admin": "root",
    "outsider": "eve",
}
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


class World:
    """`sessions` by role; `names` says what a word in the address of a page stands for."""

    def __init__(self) -> None:
        self.sessions: dict[str, str] = {}
        self.names: dict[str, Any] = {}

    def client(self, role: str) -> Client:
        """Return a browser in which somebody of this role has signed in, and done nothing else."""
        client = Client(raise_request_exception=False)
        client.cookies[settings.SESSION_COOKIE_NAME] = self.sessions[role]
        return client

    def address(self, page: str) -> str:
        """Return the path of a page: the name of its address, and what stands in it. "?…" is a query."""
        words, _mark, query = page.partition("?")
        name, *args = words.split()
        path = reverse(name, args=[self.names.get(arg, arg) for arg in args])
        return f"{path}?{query.format(**self.names)}" if query else path


@contextmanager
def made() -> Iterator[World]:
    """Yield the world, in a transaction in which services may open those of their own."""
    cache.clear()
    outer = transaction.atomic()
    outer._from_testcase = True
    with outer:
        try:
            world = World()
            people = {role: make_user(name, admin=role == "admin") for role, name in PEOPLE.items()}
            fill(world.names, **people)
            for role, person in people.items():
                client = Client()
                client.force_login(person)
                client.post("/accounts/reauthenticate/", {"password": PEOPLE[role]})  # just now
                world.sessions[role] = client.cookies[settings.SESSION_COOKIE_NAME].value
            yield world
        finally:
            transaction.set_rollback(True)


@contextmanager
def undone() -> Iterator[None]:
    """Take back what is written within."""
    inner = transaction.atomic()
    inner._from_testcase = True
    with inner:
        yield
        transaction.set_rollback(True)
    cache.clear()


def fill(names: dict[str, Any], **people: User) -> None:
    user_of, lead, member = people["asker"], people["lead"], people["member"]
    team = make_team(
        "vision",
        owners=(people["owner"],),
        leads=(lead,),
        members=(user_of, member, make_user("zoe")),
        viewers=(people["viewer"],),
    )
    nlp = make_team("nlp", members=(people["outsider"],))
    cluster = make_cluster("fra-1", teams=(team, nlp))
    publish(cluster, *(gpu(number) for number in range(4)))
    train = make_profile("train-80", extension=DAY, max_duration=30 * DAY, max_devices=4)
    old = make_profile("old", teams=(nlp,))
    old.retired_at = timezone.now()
    old.save()
    make_profile("rounded", spec=make_spec(selectors=[{"cel": {"expression": MEMORY.format("80Gi")}}]))
    names |= {"vision": "vision", "zoe": User.objects.get(username="zoe").pk}
    names["quota"] = make_quota(team, 100).pk
    names["budget"] = make_budget(team).pk
    make_quota(nlp, 8)
    make_cluster("ham-1", teams=(team,), write_quotas=True)
    make_cluster("old-1", enabled=False)
    make_team("gone", archived_at=timezone.now())
    make_team("quiet")
    names["left"] = make_user("left", is_active=False).pk
    invite(by=people["admin"], email="ana@helix.example", team=team)
    make_user("noah")
    fill_claims(names, team, cluster, train, people)
    fill_asks(names, team, people)
    fill_unmanaged(names, cluster)
    fill_own(names, team, lead, member, user_of)
    now = timezone.now()
    for name, since in (("old_rate", now - DAY), ("coming_rate", now + DAY)):
        names[name] = Rate.objects.create(title=name, product="H100", per_hour=1, valid_from=since).pk
    StoredDays.objects.create(pk=1, until=now.date())
    availability.recompute()
    (rounded,) = (one for one in catalogue_report().due if one.fix)
    names["finding"] = rounded.key
    names["catalogue_file"] = catalogue_file(exported()).replace("maxDevices: 4", "maxDevices: 2")


def fill_claims(names: dict[str, Any], team: Any, cluster: Any, train: Any, people: dict[str, User]) -> None:
    now = timezone.now()
    user_of = people["asker"]

    def claim(name: str, state: ClaimState = ClaimState.PROVISIONED, **fields: Any) -> Claim:
        values: dict[str, Any] = {"by": user_of, "cluster": cluster, "profile": train, **fields}
        if state in (ClaimState.PROVISIONED, ClaimState.ALLOCATED):
            values = {"expires_at": now + 2 * DAY, "decided_at": now - HOUR, **values}
        values |= {"state": state, "name": name.replace("_", "-")}
        names[name] = (one := make_claim(team, **values)).pk
        return one

    claim("asked", ClaimState.REQUESTED)
    claim("asked_by_lead", ClaimState.REQUESTED, by=people["lead"])
    questioned = claim("questioned", ClaimState.REQUESTED)
    Comment.objects.create(claim=questioned, by=people["lead"], key="q", text="What for?", question=True)
    claim("approved", ClaimState.APPROVED, expires_at=now + 2 * DAY)
    claim("written")
    held = claim("held", ClaimState.ALLOCATED)
    IdlePeriod.objects.create(claim=held, team=held.team, since=now - 3 * HOUR, noticed_at=now, devices=1)
    SizeCheck.objects.create(
        **{"claim": held, "team": held.team, "checked_at": now, "verdict": "oversized", "devices": 1},
        **{"per_hour": 2, "saves": 1, "currency": "EUR", "profile": make_profile("smaller")},
    )
    SavedReport.objects.create(user=user_of, name="Mine", query="by=team")
    graceful = make_profile("graceful", grace=DAY, extension=DAY, max_duration=30 * DAY)
    claim("in_grace", ClaimState.ALLOCATED, profile=graceful, expires_at=now - HOUR)
    claim("kept_alive", keep_alive=HOUR, ends_unless_renewed_at=now + HOUR)
    wishing = claim("wishing", ClaimState.ALLOCATED)
    names["extension"] = Extension.objects.create(
        claim=wishing,
        previous_end=wishing.expires_at,
        until=wishing.expires_at + 3 * DAY,
        requested_by=user_of,
        key="e",
    ).pk
    claim("replacement", ClaimState.REQUESTED, replaces=claim("replaced", ClaimState.ALLOCATED))
    claim("crowded", replaces=claim("crowding", ClaimState.ALLOCATED))
    for state in (ClaimState.RELEASING, ClaimState.RELEASED, ClaimState.DENIED, ClaimState.WITHDRAWN):
        claim(state.value, state)
    asking = make_profile("asking", end_policy="ask")
    mirror = Mirror(cluster)
    overstaying = claim("overstaying", ClaimState.RELEASING, profile=asking, object_uid="uid-overstaying")
    row = mirror.claim("overstaying", overstaying, uid="uid-overstaying")
    row.raw["status"]["reservedFor"] = [{"resource": "pods", "name": "late-0", "uid": "uid-late-0"}]
    row.save(update_fields=["raw"])
    mirror.pod("late-0", claims=["overstaying"])
    remade = claim("remade", object_uid="uid-before")
    mirror.claim("remade", remade, uid="uid-after")
    unlabeled = claim("unlabeled", object_uid="uid-unlabeled")
    mirror.claim("unlabeled", unlabeled, uid="uid-unlabeled")
    stripped = {"owner": "", "origin": "foreign", "resource_version": "stripped"}
    revision = mirror.next_revision()
    ResourceClaim.objects.filter(uid="uid-unlabeled").update(revision=revision, **stripped)
    mirror.tell("unlabeled")


def fill_asks(names: dict[str, Any], team: Any, people: dict[str, User]) -> None:
    asked = {"team": team, "requested_by": people["asker"], "reason": "More of it."}
    waiting = QuotaRequest.objects.create(device_class="gpu.nvidia.com", devices=120, key="w", **asked)
    answered = QuotaRequest.objects.create(
        device_class="gpu.nvidia.com",
        devices=110,
        key="d",
        status="denied",
        decided_by=people["admin"],
        decided_at=timezone.now(),
        **asked,
    )
    today = timezone.now().date()
    fixed = make_budget(team, title="cvpr", first=today, last=today + timedelta(days=30))
    extra = QuotaRequest.objects.create(
        budget=fixed, first=today, devices=0, amount=Decimal(50), key="b", **asked
    )
    names["budget_request"] = extra.pk
    names |= {"quota_request": waiting.pk, "answered_quota_request": answered.pk}
    names["quota_of_claims"] = Quota.objects.create(team=team, counts="claims", devices=100).pk
    names["rule"] = ApprovalRule.objects.create(team=team).pk
    IdentityProvider.objects.create(slug="sso", title="SSO", issuer="http://127.0.0.1:9", client_id="x")
    of_team = ReasonTemplate.objects.create(title="Too large", text="Too large.", team=team)
    names["reason_of_team"] = of_team.pk
    names["reason_of_all"] = ReasonTemplate.objects.create(title="No", text="No.").pk


def fill_unmanaged(names: dict[str, Any], cluster: Any) -> None:
    stands = {"cluster": cluster, "namespace": "vision", "origin": "foreign"}
    raw = {"metadata": {"name": "by-hand"}, "spec": make_spec(1)}
    ResourceClaim.objects.create(uid="uid-by-hand", name="by-hand", raw=raw, **stands)
    template = {"metadata": {"name": "template"}, "spec": {"spec": make_spec(1)}}
    ResourceClaimTemplate.objects.create(
        cluster=cluster, namespace="vision", uid="uid-template", name="template", raw=template
    )
    Node.objects.create(cluster=cluster, uid="uid-node", name="node-a")
    piece = ResourceSlice.objects.get()
    names["device"] = Device.objects.create(
        cluster=cluster, slice=piece, driver="gpu.nvidia.com", pool="node-a", name="gpu-0", node_name="node-a"
    ).pk
    held = Allocation.objects.filter(claim=names["held"])
    held.update(driver="gpu.nvidia.com", pool="node-a", device="gpu-0")


def fill_own(names: dict[str, Any], team: Any, lead: User, member: User, user_of: User) -> None:
    now = timezone.now()
    names["delegation"] = Delegation.objects.create(
        team=team, lead=lead, to=member, starts_at=now + 8 * DAY, ends_at=now + 9 * DAY
    ).pk
    SavedFilter.objects.create(user=user_of, path="/claims/", title="Claims", name="Mine", query="q=held")
    token, _text = create_token(by=user_of, title="Notebook", expires_at=now + DAY)
    names["token"] = token.pk
    account = create_service_account(by=lead, team=team, name="ci")
    create_account_token(by=lead, account=account, title="Nightly")
    place = TeamNamespace.objects.filter(team=team).first()
    WorkloadIdentity.objects.create(place=place, service_account="default", account=account)
    names["account"] = account.pk
    names["code"] = device_login.start(client="CLI", scopes=["request"], address=None).user_code
    names["draft"] = Draft.objects.create(by=user_of, key="draft", fields={"profile": ["train-80"]}).pk
    for person in User.objects.all():
        Notice.objects.create(user=person, key="notice", title="Something happened")
