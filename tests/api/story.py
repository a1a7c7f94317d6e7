"""What stands in the demo's database, for tests of the API: ids for addresses, words for bodies."""

import base64
import json
import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any

from django.test import Client
from django.utils import timezone

from claims.approvals import services
from claims.models import (
    ApprovalRule,
    Budget,
    Claim,
    Delegation,
    Extension,
    PendingDecision,
    Profile,
    Quota,
    QuotaRequest,
    ReasonTemplate,
    WorkloadIdentity,
)
from claims.observation.unmanaged import UnmanagedClaim, unmanaged_objects
from claims.states import ClaimState
from cluster.protocol import ReviewedToken
from core.models import SavedFilter
from core.saved_filters import save_filter
from inventory.models import Cluster, Device, DeviceClass, Node, ResourceClaim
from notify.webhooks.models import Webhook, WebhookDelivery
from notify.webhooks.services import create_webhook, send_test
from teams import device_login, service_accounts
from teams.identity.models import GroupRule
from teams.identity.services import add_provider, save_rule
from teams.invitations import invite
from teams.models import ApiToken, Invitation, Membership, Role, Session, Team, User
from teams.services import add_member, create_team
from tests.factories import make_cluster, make_token
from usage.models import Alert, Rate, SavedReport, TrackingServer
from usage.saved_reports import save_report
from usage.services import save_rate
from usage.tracking.servers import save_server

MAX_WORD_LENGTH = 40  # what is longer was made to be too long
SOON = (timezone.now() + timedelta(days=2)).isoformat()
LATER = (timezone.now() + timedelta(days=3)).isoformat()
# What stands for a text that only some values of are understood, wherever it has this name.
WORDS: dict[str, tuple[str, ...]] = {
    "team": ("vision", "nlp"),
    "cluster": ("fra-1", "lab-2"),
    "duration": ("24h", "PT36H"),
    "by": ("24h",),
    "to": ("jonas", "engineer"),
    "owner": ("jonas", "engineer"),
    "until": (SOON,),
    "starts_at": (SOON,),
    "ends_at": (LATER,),
    "expires_at": (SOON,),
    "valid_from": (SOON,),
    "device_class": ("gpu.nvidia.com", "mig.nvidia.com"),
    "month": ("2026-11", "2026-10"),
    "per_hour": ("2.5",),
    "price": ("2.5",),
    "max_duration": ("14d",),
    "default_duration": ("24h",),
    "grace": ("5m",),
    "extension": ("1d",),
    "automatic_duration": ("2h",),
    "escalate_after": ("4h",),
    "name": ("made-by-a-test",),
    "slug": ("made-by-a-test",),
    "cuda": ("12.9", ""),
    "image": ("pytorch/pytorch:2.7.0", ""),
    "capacity": ("karpenter.sh/capacity-type=spot", ""),
    "priority": ("high", ""),
    "weights_claim": ("models", ""),
    "weights_image": ("",),
    "cursor": ("bz0x",),
    "request": ("",),
    "kind": ("pod",),
}  # fmt: skip
QUIET = "quiet"  # a team, and a cluster, of which nothing depends
LISTS: dict[str, tuple[str, ...]] = {"tolerate": ("spot=true:NoSchedule",), "teams": ("vision", "nlp")}


@dataclass(frozen=True)
class Story:
    """Everybody's objects by the collection that they stand in; `words` for what bodies and queries name."""

    ids: dict[str, list[str]]
    words: dict[str, tuple[str, ...]]
    lists: dict[str, tuple[str, ...]]
    pairs: dict[str, list[dict[str, str]]]  # of addresses with two places, by the part before the second

    def places(self, path: str) -> list[dict[str, str]]:
        """Return what may stand in the place of an address: every object that the operation is about."""
        collection, name = collection_of(path)
        if not name:
            return [{}]
        if collection in self.pairs:
            return self.pairs[collection]
        action = path.rstrip("/").rpartition("/")[2]
        return [{name: one} for one in self.ids.get(f"{collection}/{action}") or self.ids[collection]]

    def place(self, path: str, random: Random) -> dict[str, str]:
        return random.choice(self.places(path))

    def told(self, value: Any, random: Random, name: str = "") -> Any:
        """Return a body or query with words of the demo in the place of made-up texts of their length."""
        if isinstance(value, dict):
            return {key: self.told(one, random, key) for key, one in value.items()}
        if isinstance(value, list):
            words = self.lists.get(name)
            if words and all(is_word(one) for one in value):
                return [random.choice(words) for _one in value]
            return [self.told(one, random) for one in value]
        if is_word(value) and name in self.words:
            return random.choice(self.words[name])
        return value


def collection_of(path: str) -> tuple[str, str]:
    """Return where an object of the address stands, and the name of its place: "claims", "id"."""
    found = re.match(r"/api/v1/(.+)/\{(\w+)\}/", path)
    return (found[1], found[2]) if found else ("", "")


def is_word(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_WORD_LENGTH


def read(admin: User) -> Story:
    """Read the story; what it does not tell of is added."""
    vision = Team.objects.get(slug="vision")
    make_token(admin, "Old")
    Client().force_login(admin)
    services.save_reason(by=admin, reason=None, title="Weekend", text="Request again on Monday.", team=vision)
    lead, deputy = (User.objects.get(username=name) for name in ("lead", "jonas"))
    start = timezone.now() + timedelta(days=20)
    services.delegate(by=lead, team=vision, to=deputy, starts_at=start, ends_at=start + timedelta(days=1))
    coming = timezone.now() + timedelta(days=9)
    save_rate(by=admin, title="Coming", per_hour=Decimal(3), currency="EUR", valid_from=coming)
    save_report(by=admin, name="Old", query="by=claim", monthly=False, now=timezone.now())
    quiet = create_team(by=admin, slug=QUIET, title="Quiet")
    add_member(by=admin, team=quiet, username="jonas", role=Role.MEMBER)
    make_cluster(QUIET, uid="")
    invite(by=admin, email="invited@example.org")
    save_server(by=admin, url="http://mlflow.example", page_url="", authority="")
    sso = add_provider(
        by=admin, slug="company", title="Company account", issuer="http://127.0.0.1:9/company",
        client_id="dragoman", secret="of-the-client",
    )  # fmt: skip
    save_rule(by=admin, provider=sso, pattern="gpu-vision", team=vision, role="member")
    hook, _secret = create_webhook(
        by=admin, team=vision, url="https://hooks.example.org/", kinds=["claim.denied"]
    )
    send_test(by=admin, webhook=hook)
    save_filter(by=admin, path="/claims/", title="Claims", name="Old", query="q=old", is_default=False)
    claims = Claim.objects.order_by("pk")
    live = claims.filter(state__in=(ClaimState.PROVISIONED, ClaimState.ALLOCATED))
    asked = claims.filter(state=ClaimState.REQUESTED)
    retired = Profile.objects.filter(retired_at__isnull=False)
    foreign = unmanaged_objects(ResourceClaim, admin).order_by("pk")
    of_claims = {
        **dict.fromkeys(("approve", "deny", "withdraw"), asked),
        **dict.fromkeys(
            ("release", "extend", "shorten", "transfer", "resize", "label", "remind", "snooze", "keep-alive"),
            live,
        ),
        "accept": claims.filter(state=ClaimState.ALLOCATED),
    }
    slugs = [*Profile.objects.filter(retired_at=None).order_by("slug").values_list("slug", flat=True)]
    ids = {
        "claims": keys(claims),
        **{f"claims/{action}": keys(rows) for action, rows in of_claims.items()},
        "claims/unmanaged": [row.uid for row in foreign],
        "claims/unmanaged/adopt": [row.uid for row in foreign if UnmanagedClaim(row).is_adoptable],
        "alerts": keys(Alert.objects.all()),
        "approval-reasons": keys(ReasonTemplate.objects.all()),
        "approvals": keys(PendingDecision.objects.all()),
        "approval-rules": keys(ApprovalRule.objects.all()),
        "clusters": [*Cluster.objects.order_by("pk").values_list("name", flat=True)],
        "clusters/credentials": [QUIET],
        "webhooks": keys(Webhook.objects.all()),
        "people": keys(User.objects.all()),
        "invitations": keys(Invitation.objects.open()),
        "me/sessions": [str(pk) for pk in Session.objects.filter(user=admin).values_list("id", flat=True)],
        "me/filters": keys(SavedFilter.objects.all()),
        "tracking-servers": keys(TrackingServer.objects.all()),
        "identity-providers": [sso.slug],
        "group-rules": keys(GroupRule.objects.all()),
        "delegations": keys(Delegation.objects.all()),
        "device-classes": [*DeviceClass.objects.filter(gone_at=None).values_list("uid", flat=True)],
        "devices": keys(Device.objects.present())[:5],
        "extensions": keys(Extension.objects.all()),
        "nodes": [*Node.objects.order_by("uid").values_list("uid", flat=True)[:5]],
        "profiles": slugs,
        "profiles/restore": [one.slug for one in retired],
        "budgets": keys(Budget.objects.open()),
        "budgets/requests": keys(QuotaRequest.objects.filter(budget__isnull=False)),
        "quotas": keys(Quota.objects.all()),
        "quotas/requests": keys(QuotaRequest.objects.of_quota()),
        "costs/saved-reports": keys(SavedReport.objects.all()),
        "rates": keys(Rate.objects.all()),
        "teams": ["vision", "nlp"],
        "teams/archive": [QUIET],
        "tokens": keys(ApiToken.objects.all()),
    }
    words = {
        **WORDS,
        "profile": tuple(slugs),
        "spec_hash": tuple(asked.values_list("spec_hash", flat=True)),
    }
    lists = {
        **LISTS,
        "alternatives": tuple(slugs),
        "claims": tuple(ids["claims"]),
    }
    pairs = {
        "webhooks/{id}/deliveries": [
            {"id": str(row.webhook_id), "delivery": str(row.pk)} for row in WebhookDelivery.objects.all()
        ],
        "teams/{slug}/members": [
            {"slug": row.team.slug, "username": row.user.username}
            for row in Membership.objects.select_related("team", "user").order_by("pk")
        ],
        "teams/{slug}/namespaces": [
            {"slug": QUIET, "cluster": "fra-1"},
            {"slug": "vision", "cluster": QUIET},
            {"slug": "vision", "cluster": "fra-1"},
        ],
        **accounts(lead, vision),
    }
    return Story({name: found for name, found in ids.items() if found}, words, lists, pairs)


def accounts(lead: User, vision: Team) -> dict[str, list[dict[str, str]]]:
    """Make a service account with a token, as which pods may act; return where it stands in the API."""
    account = service_accounts.create_service_account(by=lead, team=vision, name="ci")
    token, _text = service_accounts.create_account_token(by=lead, account=account, title="Nightly")
    place = vision.namespaces.order_by("cluster__name").first()
    row = WorkloadIdentity.objects.create(place=place, service_account="trainer", account=account)
    base, of = "teams/{slug}/service-accounts", {"slug": "vision", "name": "ci"}
    return {
        base: [of],
        f"{base}/{{name}}/tokens": [of | {"id": str(token.pk)}],
        f"{base}/{{name}}/workloads": [of | {"id": str(row.pk)}],
    }


POD_TOKENS: dict[str, tuple[str, ReviewedToken | None]] = {}  # of the cluster in memory


def pod_login() -> dict[str, str]:
    """Return the body with which a pod gets a token."""
    place = WorkloadIdentity.objects.select_related("place__cluster").get().place
    claims = {"sub": f"system:serviceaccount:{place.namespace}:trainer"}
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    text, ends = f"head.{payload}.signature", timezone.now() + timedelta(minutes=30)
    POD_TOKENS[text] = ("dragoman", ReviewedToken(place.namespace, "trainer", ends))
    return {"cluster": place.cluster.name, "token": text}


def allowed_login() -> dict[str, str]:
    """Return the body with which a program gets the token that somebody has allowed."""
    started = device_login.start(client="CLI", scopes=["read"], address=None)
    device_login.decide(by=User.objects.get(username="engineer"), login=started.row, allow=True)
    return {"device_code": started.device_code}


def keys(rows: Any) -> list[str]:
    return [str(key) for key in rows.order_by("pk").values_list("pk", flat=True)]


def of_others(team: str, outsider: User) -> dict[str, list[str]]:
    """Return what only those of a team may know of, and what only its owner may."""
    return {
        "approval-reasons": keys(ReasonTemplate.objects.filter(team__slug=team)),
        "claims": keys(Claim.objects.filter(team__slug=team)),
        "delegations": keys(Delegation.objects.filter(team__slug=team)),
        "extensions": keys(Extension.objects.filter(claim__team__slug=team)),
        "budgets": keys(Budget.objects.open().filter(team__slug=team)),
        "quotas": keys(Quota.objects.filter(team__slug=team)),
        "budgets/requests": keys(QuotaRequest.objects.filter(team__slug=team, budget__isnull=False)),
        "quotas/requests": keys(QuotaRequest.objects.of_quota().filter(team__slug=team)),
        "teams": [team],
        "webhooks": keys(Webhook.objects.filter(team__slug=team)),
        "tokens": keys(ApiToken.objects.exclude(user=outsider)),
    }
