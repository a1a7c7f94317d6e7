"""
Every address of the portal, from its URL conf, with one row of everything for what stands in them.

A new page or endpoint is found by itself; a parameter of a new kind needs its row in `one_of_everything`.
"""

import re
from datetime import timedelta
from decimal import Decimal

from django.test import Client
from django.urls import URLResolver, get_resolver
from django.utils import timezone

from claims.budgets.extra import request_extra
from claims.budgets.services import set_budget
from claims.models import ApprovalRule, Comment, Delegation, Draft, ReasonTemplate, WorkloadIdentity
from claims.states import ClaimState
from core.models import SavedFilter
from inventory.models import Device, DeviceClass, Node, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from notify.models import Notice
from notify.webhooks.services import create_webhook, send_test
from teams.identity.models import GroupRule, IdentityProvider
from teams.invitations import invite
from teams.models import Session
from teams.service_accounts import create_service_account
from teams.tokens import create_token
from tests.factories import (
    make_alert,
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
from usage.models import Rate, SavedReport, TrackingServer

PLACE = re.compile(r"<(?:\w+:)?(\w+)>|\(\?P<(\w+)>[^)]*\)")
SOME = "01a1fd0e-cd81-741b-ad1f-8943d5325f9e"


def routes(resolver=None, before="", *, skipped=()):
    """Yield every address of the URL conf, as "claims/<uuid:claim_id>/"."""
    for entry in (resolver or get_resolver()).url_patterns:
        path = before + str(entry.pattern).removeprefix("^").removesuffix("$")
        if path.startswith(skipped):
            continue
        if isinstance(entry, URLResolver):
            yield from routes(entry, path, skipped=skipped)
        else:
            yield path


def one_of_everything():
    """One row of everything; the values of places in addresses, by the place or the word before it."""
    root, alice = make_user("root", admin=True), make_user("alice")
    vision = make_team("vision", members=(alice,), leads=(root,))
    fra = make_cluster("fra-1", teams=(vision,))
    make_profile("train-80")
    claim = make_claim(vision, by=alice, cluster=fra)
    soon = timezone.now() + timedelta(days=1)
    running = make_claim(vision, by=alice, cluster=fra, state=ClaimState.PROVISIONED, expires_at=soon)
    span = {"starts_at": timezone.now(), "ends_at": soon}
    raw = {"metadata": {"name": "mine", "namespace": "vision"}, "spec": make_spec(1)}
    mirrored = {"cluster": fra, "name": "mine", "namespace": "vision", "raw": raw}
    ResourceClaim.objects.create(uid="uid-c", **mirrored)
    ResourceClaimTemplate.objects.create(uid="uid-t", **mirrored)
    Node.objects.create(cluster=fra, uid="uid-n", name="node-1")
    DeviceClass.objects.create(cluster=fra, uid="uid-d", name="gpu.nvidia.com")
    reason = ReasonTemplate.objects.create(title="Full", text="There is no room this week.")
    piece = ResourceSlice.objects.create(
        cluster=fra,
        uid="uid-s",
        name="s",
        driver="gpu.nvidia.com",
        pool="node-1",
        generation=1,
        pool_slices=1,
    )
    device = Device.objects.create(
        cluster=fra, slice=piece, driver="gpu.nvidia.com", pool="node-1", name="gpu-0", node_name="node-1"
    )
    extension = make_extension(running)
    asked = make_quota_request(vision, by=alice)
    Comment.objects.create(claim=claim, by=root, key="k", text="Why?", question=True)
    token, _text = create_token(by=alice, title="t", expires_at=soon)
    account = create_service_account(by=root, team=vision, name="fra-1")
    identity = WorkloadIdentity.objects.create(
        place=vision.namespaces.get(), service_account="default", account=account
    )
    quota, rule = make_quota(vision, 8), ApprovalRule.objects.create(team=vision)
    row = Delegation.objects.create(team=vision, lead=root, to=alice, **span)
    rate = Rate.objects.create(title="r", per_hour=1, valid_from=soon)
    alert = make_alert(vision, claim=running, cluster=fra)
    budget = set_budget(by=root, team=vision, amount=Decimal(100))
    extra = request_extra(budget=budget, by=alice, amount=Decimal(5), reason="A paper.", key="b")
    notice, draft = Notice.objects.create(user=root, key="n"), Draft.objects.create(by=root, key="d")
    server = TrackingServer.objects.create(url="http://mlflow.example")
    hook, _secret = create_webhook(
        by=root, team=vision, url="https://hooks.example.org/", kinds=["claim.denied"]
    )
    delivery = send_test(by=root, webhook=hook)
    sso = IdentityProvider.objects.create(
        slug="sso", title="SSO", issuer="http://127.0.0.1:9", client_id="x", enabled=True
    )
    group_rule = GroupRule.objects.create(provider=sso, pattern="gpu", team=vision, role="member")
    Client().force_login(root)
    session = Session.objects.filter(user=root).latest("created_at")
    kept = SavedFilter.objects.create(user=root, path="/claims/", title="Claims", name="Held", query="q=x")
    saved = SavedReport.objects.create(user=root, name="Mine", query="by=person")
    return {
        "claim_id": running.pk, "claims": running.pk, "draft_id": draft.pk, "notice_id": notice.pk,
        "extension_id": extension.pk, "extensions": extension.pk, "request_id": asked.pk,
        "requests": asked.pk, "v1/approvals": asked.pk, "quota_id": quota.pk, "quotas": quota.pk,
        "rule_id": rule.pk,
        "approval-rules": rule.pk, "delegation_id": row.pk, "delegations": row.pk, "rate_id": rate.pk,
        "rates": rate.pk, "alerts": alert.pk, "token_id": token.pk, "tokens": token.pk, "user_id": alice.pk,
        "reason_id": reason.pk, "approval-reasons": reason.pk, "devices": device.pk, "uid": "uid-c",
        "templates": "uid-t", "nodes": "node-1", "v1/nodes": "uid-n", "budget_id": budget.pk,
        "budgets": budget.pk, "budgets/requests": extra.pk, "device-classes": "uid-d",
        "person_id": alice.pk, "invitation_id": invite(by=root, email="ana@x.example", team=vision).pk,
        "name": "fra-1", "cluster": "fra-1", "slug": "train-80", "teams": "vision", "key": "pod",
        "server_id": server.pk, "webhook_id": hook.pk, "webhooks": hook.pk, "delivery_id": delivery.pk,
        "deliveries": delivery.pk, "tracking-servers": server.pk, "people": alice.pk, "filters": kept.pk,
        "invitations": invite(by=root, email="ben@x.example").pk, "saved-reports": saved.pk,
        "account_id": account.pk, "identity_id": identity.pk, "settings/sign-in/providers": "sso",
        "sign-in/providers": "sso", "identity-providers": "sso", "me/providers": "sso",
        "group-rules": group_rule.pk, "sign-in/rules": group_rule.pk,
        "workloads": identity.pk, "members": "alice", "saved_id": saved.pk,
        "session_id": session.id, "sessions": session.id,
    }  # fmt: skip


def address(route, known, **places):
    """Return the address with what its places stand for, `places` first; what nobody knows is made up."""
    path, rest = "", route
    while found := PLACE.search(rest):
        name = found[1] or found[2]
        before = (path + rest[: found.start()]).rstrip("/")
        two = "/".join(before.split("/")[-2:])
        word = two if two in known else before.rpartition("/")[2]
        made_up = 1 if "<int:" in found[0] else SOME
        value = places.get(name) or known.get(word) or known.get(name) or made_up
        path += rest[: found.start()] + str(value)
        rest = rest[found.end() :]
    return f"/{path}{rest}"
