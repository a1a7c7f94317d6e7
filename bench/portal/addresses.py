"""The pages and lists of the API that are measured: a name, an address, and who reads it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.db.models import Model
from django.urls import reverse
from django.utils import timezone

from bench.portal.build import NAME
from bench.portal.population import ADMIN, CLASS, DIRECTOR, ENGINEER, LEAD, READERS
from bench.portal.size import team_slug
from claims.models import ApprovalRule, Claim, Extension, Quota, QuotaRequest
from claims.observation.unmanaged import unmanaged_objects
from claims.states import ClaimState
from inventory.models import Device, ResourceClaim
from teams.models import User

DECIDE = (LEAD, ADMIN)
TEAM = team_slug(0)
REQUEST = {"team": TEAM, "cluster": NAME, "profile": "profile-01", "devices": 2, "duration": "24h"}
TOO_LARGE = REQUEST | {"devices": 8}
DEEP = 0.9  # of a list of the API lies before the page that is measured


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of the CPU time in milliseconds, and of the number of queries."""

    p95: float
    median: float | None = None
    queries: int | None = None


PAGE = Budget(50, 25, 15)
FILTERED = Budget(25, 25, 15)  # claims by person, team, state or text; the inbox
COMPUTED = Budget(50, None, 15)  # pages that evaluate the whole fleet, or sum up a month
FRAME = Budget(8)
UNCHANGED = Budget(5, None, 2)
CSV_BEGINS = Budget(100)


@dataclass(frozen=True, slots=True)
class Address:
    """`fragment`: htmx requests it; `poll`: with the entity tag of the last response; `body`: JSON."""

    name: str
    url: str
    readers: tuple[str, ...] = READERS
    fragment: bool = False
    poll: bool = False
    body: dict[str, Any] | None = field(default=None)
    budget: Budget = PAGE


def addresses() -> Iterator[Address]:
    """Yield all addresses, for objects that exist in the measured portal."""
    yield from _home()
    yield from _request()
    yield from _claims()
    yield from _approvals()
    yield from _quota_and_cost()
    yield from _fleet()
    yield from _unmanaged()
    yield from _people()
    yield from _api()


def url_of(name: str, *args: object, **query: object) -> str:
    return reverse(name, args=args) + (f"?{urlencode(query)}" if query else "")


def _home() -> Iterator[Address]:
    yield Address("home", url_of("home"))
    yield Address("home, polled", url_of("home_live"), fragment=True)
    yield Address("home, unchanged", url_of("home_live"), fragment=True, poll=True, budget=UNCHANGED)
    yield Address("frame alone", url_of("bench_frame"), budget=FRAME)
    for word in ("train", "mi", f"{TEAM} run"):
        yield Address(f"search, {word!r}", f"{url_of('search')}?{urlencode({'q': word})}", fragment=True)
    yield Address("catalogue", url_of("claims:catalogue"))
    yield Address("catalogue, filtered", url_of("claims:catalogue", q="profile 1"))
    compared = url_of("claims:catalogue_compare") + "?profile=profile-01&profile=profile-02"
    yield Address("catalogue, two compared", compared)
    yield Address("profile", url_of("claims:profile", "profile-01"))
    yield Address("profiles to edit", url_of("claims:profiles"), (ADMIN,), budget=COMPUTED)
    yield Address("editor of a profile", url_of("claims:profile_edit", "profile-01"), (ADMIN,))
    yield Address("a new profile", url_of("claims:profile_new"), (ADMIN,))
    yield Address("included profiles", url_of("claims:presets"), (ADMIN,))
    yield Address("export of the catalogue", url_of("claims:catalogue_export"), (ADMIN,))
    yield Address("check of the catalogue", url_of("claims:lint"), (ADMIN,))


def _request() -> Iterator[Address]:
    yield Address("request form", url_of("claims:request", profile="profile-01"), budget=COMPUTED)
    yield Address(
        "request panel", url_of("claims:request_preview", **REQUEST), fragment=True, budget=COMPUTED
    )
    yield Address(
        "request panel, does not fit",
        url_of("claims:request_preview", **TOO_LARGE),
        fragment=True,
        budget=COMPUTED,
    )
    yield Address(
        "request, left out by a step",
        url_of("claims:request_dropped", 1, **REQUEST),
        fragment=True,
        budget=COMPUTED,
    )
    yield Address(
        "request, whose end helps",
        url_of("claims:request_blockers", **TOO_LARGE),
        fragment=True,
        budget=COMPUTED,
    )
    yield Address("request, import of a manifest", url_of("claims:request_import"), (ENGINEER,))
    yield Address("drafts", url_of("claims:drafts"), (ENGINEER,))


def _claims() -> Iterator[Address]:
    page = "claims:list"
    yield Address("claims", url_of(page))
    yield Address("claims, last page", url_of(page, page="last"))
    yield Address("claims, by end", url_of(page, sort="-ends"))
    yield Address("claims, by profile", url_of(page, sort="profile"))
    yield Address("claims, CSV begins", url_of(page, format="csv"), budget=CSV_BEGINS)
    for name, query in (
        ("not over", {"state": "live"}),
        ("held", {"state": ClaimState.ALLOCATED}),
        ("held, last page", {"state": ClaimState.ALLOCATED, "page": 10**6}),
        ("mine", {"who": "me"}),
        ("of a team", {"team": TEAM}),
        ("of a team, held", {"team": TEAM, "state": ClaimState.ALLOCATED}),
        ("searched", {"q": "person 1 profile"}),
        ("searched by name", {"q": "profile-01"}),
        ("nothing found", {"q": "nowhere to be found"}),
    ):
        yield Address(f"claims, {name}", url_of(page, **query), budget=FILTERED)
    engineer = User.objects.get(username=ENGINEER)
    own = Claim.objects.filter(requested_by=engineer).order_by("-created_at")
    held = own.filter(state=ClaimState.ALLOCATED).first() or own.first()
    # Of one shape at every size, so that its use is a graph of the same length.
    over = own.filter(state=ClaimState.RELEASED, devices=1).order_by("-duration", "pk").first()
    for name, claim in (("held", held), ("over", over)):
        if claim is not None:
            live = url_of("claims:detail_live", claim.pk)
            yield Address(f"claim, {name}", url_of("claims:detail", claim.pk))
            yield Address(f"claim, {name}, polled", live, fragment=True)
            yield Address(f"claim, {name}, use", url_of("usage:claim_fragment", claim.pk), fragment=True)
    if held is not None:
        live = url_of("claims:detail_live", held.pk)
        yield Address("claim, held, unchanged", live, fragment=True, poll=True, budget=UNCHANGED)
        for step in ("extend", "shorten", "transfer", "release"):
            yield Address(f"claim, {step}", url_of(f"claims:{step}", held.pk), (ENGINEER,))


def _approvals() -> Iterator[Address]:
    for tab in ("mine", "team", "all", "decided"):
        yield Address(f"approvals, {tab}", url_of("claims:approvals", tab=tab), DECIDE, budget=FILTERED)
    yield Address("approvals, last page", url_of("claims:approvals", tab="all", page=10**6), DECIDE)
    searched = url_of("claims:approvals", tab="all", q="profile")
    yield Address("approvals, searched", searched, DECIDE, budget=FILTERED)
    if User.objects.filter(username=DIRECTOR).exists():
        inbox = url_of("claims:approvals", tab="team")
        yield Address("approvals, 200 of ten teams", inbox, (DIRECTOR,), budget=FILTERED)
    waiting = Claim.objects.filter(team__slug=TEAM, state=ClaimState.REQUESTED).first()
    if waiting is not None:
        yield Address("approval card", url_of("claims:approval", waiting.pk), DECIDE)
        impact = url_of("claims:approval_impact", waiting.pk)
        yield Address("approval card, impact", impact, DECIDE, fragment=True)
        yield Address("approval, change", url_of("claims:change", waiting.pk), DECIDE)
    extension = Extension.objects.filter(status="waiting", claim__team__members__username=LEAD).first()
    if extension is not None:
        yield Address("extension card", url_of("claims:extension", extension.pk), DECIDE)
    yield Address("approval rules", url_of("claims:approval_rules"), (ADMIN,))
    rule = ApprovalRule.objects.first()
    if rule is not None:
        yield Address("approval rule", url_of("claims:approval_rule", rule.pk), (ADMIN,))
    yield Address("reasons of decisions", url_of("claims:reasons"), (ADMIN,))
    yield Address("approvals, away", url_of("claims:delegations"), (LEAD,))


def _quota_and_cost() -> Iterator[Address]:
    yield Address("quotas", url_of("claims:quotas"))
    quota = Quota.objects.filter(team__slug=TEAM, device_class=CLASS).get()
    yield Address("quota", url_of("claims:quota", quota.pk))
    yield Address("what counts against a quota", url_of("claims:quota_parts", quota.pk))
    yield Address("quota requests", url_of("claims:quota_requests"))
    requested = QuotaRequest.objects.filter(team__members__username=LEAD).first()
    if requested is not None:
        address = url_of("claims:quota_request_decision", requested.pk)
        yield Address("quota request", address, (ADMIN,))
    yield Address("quota to set", url_of("claims:quota_set"), (ADMIN,))
    yield Address("quota to ask for", url_of("claims:quota_request_new"), (LEAD,))
    yield Address("month of a team, CSV begins", url_of("usage:team_csv", TEAM), (LEAD,), budget=CSV_BEGINS)
    yield Address("month of a team", url_of("usage:team", TEAM), budget=COMPUTED)
    yield Address("report of the fleet", url_of("usage:report", range="30d"), (ADMIN,), budget=COMPUTED)
    by_person = url_of("usage:report", range="30d", by="person")
    yield Address("report of the fleet, by person", by_person, (ADMIN,), budget=COMPUTED)
    by_claim = url_of("usage:report", range="30d", by="claim")
    yield Address("report of the fleet, by claim", by_claim, (ADMIN,), budget=COMPUTED)
    of_team = url_of("usage:report", range="30d", by="claim", team=TEAM)
    yield Address("report of a team, by claim", of_team, (LEAD, ADMIN), budget=COMPUTED)
    yield Address("waste", url_of("usage:waste"))
    yield Address("alerts", url_of("usage:alerts"))
    yield Address("waste, oversized", url_of("usage:oversized"))
    yield Address("waste, ended claims", url_of("usage:overstay"))
    yield Address("rates", url_of("usage:rates"), (ADMIN,))
    yield Address("webhooks", url_of("notify:webhooks"), (ADMIN,))
    yield Address("tracking servers", url_of("usage:tracking"), (ADMIN,))
    yield Address("identity providers", url_of("teams:identity"), (ADMIN,))
    yield Address("group rules", url_of("teams:group_rules"), (ADMIN,))
    yield Address("budgets", url_of("claims:budgets"), (ADMIN,))


def _fleet() -> Iterator[Address]:
    device = Device.objects.filter(held_by__isnull=False).select_related("node").first()
    assert device is not None  # noqa: S101, some are held
    yield Address("fleet", url_of("inventory:fleet"), budget=COMPUTED)
    yield Address("fleet by node pool", url_of("inventory:fleet", group="node-pool"), budget=COMPUTED)
    yield Address("fleet by team", url_of("inventory:fleet", group="team"), budget=COMPUTED)
    yield Address("devices", url_of("inventory:devices"))
    yield Address("devices, free", url_of("inventory:devices", state="free"))
    yield Address("devices, searched", url_of("inventory:devices", q="node-0004"))
    yield Address("devices, by product", url_of("inventory:devices", sort="product"))
    yield Address("devices, last page", url_of("inventory:devices", page="last"))
    yield Address("devices, CSV begins", url_of("inventory:devices", format="csv"), budget=CSV_BEGINS)
    yield Address("device", url_of("inventory:device", device.pk))
    yield Address("device, utilization of a week", url_of("usage:device", device.pk, range="7d"))
    yield Address("nodes", url_of("inventory:nodes"))
    yield Address("nodes, by free", url_of("inventory:nodes", sort="-free"))
    yield Address("nodes, last page", url_of("inventory:nodes", page="last"))
    yield Address("node", url_of("inventory:node", NAME, device.node_name))
    yield Address("clusters", url_of("inventory:clusters"))
    yield Address("cluster", url_of("inventory:cluster", NAME))
    yield Address("quotas in a cluster", url_of("claims:cluster_quotas", NAME), (ADMIN,))
    yield Address("policies of a cluster", url_of("claims:policies", NAME), (ADMIN,))


def _unmanaged() -> Iterator[Address]:
    yield Address("unmanaged claims", url_of("claims:unmanaged_claims"))
    yield Address("unmanaged claims, last page", url_of("claims:unmanaged_claims", page="last"))
    yield Address("unmanaged templates", url_of("claims:unmanaged_templates"))
    row = unmanaged_objects(ResourceClaim, User.objects.get(username=ENGINEER)).first()
    if row is not None:
        yield Address("an unmanaged claim", url_of("claims:unmanaged_claim", row.uid))


def _people() -> Iterator[Address]:
    yield Address("notices", url_of("notify:list"))
    yield Address("bell", url_of("notify:bell"), fragment=True)
    yield Address("bell, unchanged", url_of("notify:bell"), fragment=True, poll=True, budget=UNCHANGED)
    yield Address("teams", url_of("setup:teams"), (ADMIN,))
    yield Address("settings of a team", url_of("setup:team", TEAM), (ADMIN,))
    yield Address("add a cluster", url_of("setup:cluster_add"), (ADMIN,))
    yield Address("page of a team", url_of("team", TEAM), budget=COMPUTED)
    yield Address("people of a team", url_of("teams:people", TEAM))
    activity = url_of("activity:team", TEAM)
    yield Address("activity of a team", activity)
    yield Address("activity of a team, decisions", f"{activity}?action=decision&range=30d")
    yield Address("activity of a team, searched", f"{activity}?q=run&range=30d")
    yield Address("activity", url_of("activity:platform"), (ADMIN,))
    long_ago = (timezone.localdate() - timedelta(days=300)).isoformat()
    yield Address("audit log", url_of("audit:log", range="30d"), (ADMIN,))
    yield Address("activity, 300 days ago", url_of("activity:platform", until=long_ago), (ADMIN,))
    yield Address("saved filters", url_of("saved_filters"))
    yield Address("own page", url_of("teams:profile"))
    yield Address("API tokens", url_of("teams:tokens"))
    yield Address("connect a program", url_of("teams:device"))
    yield Address("help", url_of("help"), (ENGINEER,))
    yield Address("help on claims", url_of("help_page", "claims"), (ENGINEER,))
    yield Address("API reference of claims", url_of("help_resource", "claims"), (ENGINEER,))


def _api() -> Iterator[Address]:
    for name in (
        *("claims", "extensions", "approvals", "delegations", "profiles", "quotas"),
        *("claims/unmanaged", "quotas/requests", "devices", "nodes", "clusters", "device-classes"),
        *("notices", "teams", "tokens", "rates", "budgets"),
    ):
        yield Address(f"API {name}", f"/api/v1/{name}/")
    yield Address("API activity", f"/api/v1/activity/?team={TEAM}")
    yield Address("API approval-rules", "/api/v1/approval-rules/", (ADMIN,))
    yield Address("API claims, deep", f"/api/v1/claims/?cursor={_cursor(Claim, '-pk')}")
    yield Address("API devices, deep", f"/api/v1/devices/?cursor={_cursor(Device, '-pk')}")
    yield Address("API claims, held", "/api/v1/claims/?state=allocated", budget=FILTERED)
    yield Address("API claims, mine", "/api/v1/claims/?mine=true", budget=FILTERED)
    yield Address("API claims, of a team", f"/api/v1/claims/?team={TEAM}", budget=FILTERED)
    yield Address("API claims, of a profile", "/api/v1/claims/?profile=profile-01&limit=500")
    yield Address("API approvals, decided", "/api/v1/approvals/?tab=decided")
    yield Address("API devices, free", "/api/v1/devices/?state=free")
    yield Address("API costs", f"/api/v1/costs/?team={TEAM}")
    yield Address(
        "API allocation of OpenCost",
        "/api/v1/costs/allocation/?window=7d&aggregate=namespace",
        (ADMIN,),
        budget=COMPUTED,
    )
    claim = Claim.objects.filter(requested_by__username=ENGINEER, state=ClaimState.ALLOCATED).first()
    if claim is not None:
        for name in ("", "history/", "explain/", "manifest/", "usage/", "cost/", "consumers/", "runs/"):
            yield Address(f"API claim {name.strip('/')}".strip(), f"/api/v1/claims/{claim.pk}/{name}")
    yield Address("API match", "/api/v1/match/", body=REQUEST, budget=COMPUTED)


def _cursor(model: type[Model], order: str) -> str:
    """Return the cursor of a deep page, as `core.inputs.Cursor` writes it."""
    rows = model._default_manager.order_by(order)
    position = rows.values_list("pk", flat=True)[int(DEEP * rows.count())]
    return b64encode(urlencode({"p": position}).encode()).decode()
