"""The pages and lists of the API that are measured: a name, an address, and who reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from bench.portal.build import NAME
from bench.portal.people import ADMIN, CLASS, ENGINEER, LEAD, READERS
from bench.portal.size import team_slug
from claims.models import Claim, Extension, Quota
from claims.observation.unmanaged import unmanaged_objects
from claims.states import ClaimState
from inventory.models import Device, ResourceClaim
from teams.models import User

DECIDE = (LEAD, ADMIN)
TEAM = team_slug(0)
WISH = {"team": TEAM, "cluster": NAME, "profile": "profile-01", "devices": 2, "duration": "24h"}
TOO_MUCH = WISH | {"devices": 8}


@dataclass(frozen=True, slots=True)
class Address:
    """`part` tells that htmx asks for it; `body` is posted as JSON."""

    name: str
    url: str
    who: tuple[str, ...] = READERS
    part: bool = False
    body: dict[str, Any] | None = field(default=None)


def addresses() -> Iterator[Address]:
    """Yield all of them, with things to look at that the measured portal has."""
    yield from _home()
    yield from _request()
    yield from _claims()
    yield from _approvals()
    yield from _quota_and_cost()
    yield from _fleet()
    yield from _outside()
    yield from _people()
    yield from _api()


def of(name: str, *args: object, **query: object) -> str:
    return reverse(name, args=args) + (f"?{urlencode(query)}" if query else "")


def _home() -> Iterator[Address]:
    yield Address("home", of("home"))
    yield Address("home, polled", of("home_live"), part=True)
    yield Address("catalogue", of("claims:catalogue"))
    yield Address("catalogue, filtered", of("claims:catalogue", q="profile 1"))
    yield Address("catalogue, two compared", f"{of('claims:catalogue_compare')}?p=profile-01&p=profile-02")
    yield Address("profile", of("claims:profile", "profile-01"))
    yield Address("profiles to edit", of("claims:profiles"), (ADMIN,))
    yield Address("editor of a profile", of("claims:profile_edit", "profile-01"), (ADMIN,))
    yield Address("check of the catalogue", of("claims:lint"), (ADMIN,))


def _request() -> Iterator[Address]:
    yield Address("request form", of("claims:request", profile="profile-01"))
    yield Address("request panel", of("claims:request_preview", **WISH), part=True)
    yield Address("request panel, does not fit", of("claims:request_preview", **TOO_MUCH), part=True)
    yield Address("request, left out by a step", of("claims:request_dropped", 1, **WISH), part=True)
    yield Address("request, whose end helps", of("claims:request_blockers", **TOO_MUCH), part=True)
    yield Address("drafts", of("claims:drafts"), (ENGINEER,))


def _claims() -> Iterator[Address]:
    page = "claims:list"
    yield Address("claims", of(page))
    yield Address("claims, not over", of(page, state="live"))
    yield Address("claims, mine", of(page, who="me"))
    yield Address("claims, searched", of(page, q="person 1 profile"))
    yield Address("claims, nothing found", of(page, q="nowhere to be found"))
    yield Address("claims, by end", of(page, sort="-ends"))
    yield Address("claims, by profile", of(page, sort="profile"))
    yield Address("claims, last page", of(page, page=10**6))
    yield Address("claims, CSV begins", of(page, format="csv"))
    engineer = User.objects.get(username=ENGINEER)
    own = Claim.objects.filter(requested_by=engineer).order_by("-created_at")
    held = own.filter(state=ClaimState.ALLOCATED).first() or own.first()
    over = own.filter(state=ClaimState.RELEASED).first()
    for name, claim in (("held", held), ("over", over)):
        if claim is not None:
            yield Address(f"claim, {name}", of("claims:detail", claim.pk))
            yield Address(f"claim, {name}, polled", of("claims:detail_live", claim.pk), part=True)
            yield Address(f"claim, {name}, use", of("usage:claim_fragment", claim.pk), part=True)
    if held is not None:
        for step in ("extend", "shorten", "transfer", "release"):
            yield Address(f"claim, {step}", of(f"claims:{step}", held.pk), (ENGINEER,))


def _approvals() -> Iterator[Address]:
    for tab in ("mine", "team", "all", "decided"):
        yield Address(f"approvals, {tab}", of("claims:approvals", tab=tab), DECIDE)
    yield Address("approvals, searched", of("claims:approvals", tab="all", q="profile"), DECIDE)
    waiting = Claim.objects.filter(team__slug=TEAM, state=ClaimState.REQUESTED).first()
    if waiting is not None:
        yield Address("approval card", of("claims:approval", waiting.pk), DECIDE)
    extension = Extension.objects.filter(answer="waiting", claim__team__members__username=LEAD).first()
    if extension is not None:
        yield Address("extension card", of("claims:extension", extension.pk), DECIDE)
    yield Address("approval rules", of("claims:approval_rules"), DECIDE)
    yield Address("approvals, away", of("claims:delegations"), (LEAD,))


def _quota_and_cost() -> Iterator[Address]:
    yield Address("quotas", of("claims:quotas"))
    quota = Quota.objects.filter(team__slug=TEAM, device_class=CLASS).get()
    yield Address("quota", of("claims:quota", quota.pk))
    yield Address("what counts against a quota", of("claims:quota_parts", quota.pk))
    yield Address("quota requests", of("claims:quota_requests"))
    yield Address("month of a team", of("usage:team", TEAM))
    yield Address("rates", of("usage:rates"), (ADMIN,))


def _fleet() -> Iterator[Address]:
    device = Device.objects.filter(held_by__isnull=False).select_related("node").first()
    assert device is not None  # noqa: S101, some are held
    yield Address("fleet", of("inventory:fleet"))
    yield Address("devices", of("inventory:devices"))
    yield Address("devices, free", of("inventory:devices", state="free"))
    yield Address("devices, searched", of("inventory:devices", q="node-0004"))
    yield Address("devices, by product", of("inventory:devices", sort="product"))
    yield Address("devices, last page", of("inventory:devices", page=10**6))
    yield Address("devices, CSV begins", of("inventory:devices", format="csv"))
    yield Address("device", of("inventory:device", device.pk))
    yield Address("nodes", of("inventory:nodes"))
    yield Address("nodes, by free", of("inventory:nodes", sort="-free"))
    yield Address("nodes, last page", of("inventory:nodes", page=10**6))
    yield Address("node", of("inventory:node", NAME, device.node_name))
    yield Address("clusters", of("inventory:clusters"))
    yield Address("cluster", of("inventory:cluster", NAME))


def _outside() -> Iterator[Address]:
    yield Address("outside the portal", of("claims:outside"))
    yield Address("outside the portal, last page", of("claims:outside", page=10**6))
    yield Address("templates outside the portal", of("claims:outside_templates"))
    row = unmanaged_objects(ResourceClaim, User.objects.get(username=ENGINEER)).first()
    if row is not None:
        yield Address("a claim outside the portal", of("claims:outside_claim", row.uid))


def _people() -> Iterator[Address]:
    yield Address("notices", of("notify:list"))
    yield Address("bell", of("notify:bell"), part=True)
    yield Address("teams", of("teams:list"))
    yield Address("people of a team", of("teams:people", TEAM))
    yield Address("own page", of("teams:profile"))
    yield Address("API tokens", of("teams:tokens"))


def _api() -> Iterator[Address]:
    for name in (
        *("claims", "extensions", "approvals", "approval-rules", "delegations", "profiles", "quotas"),
        *("claims/outside", "quotas/requests", "devices", "nodes", "clusters", "device-classes"),
        *("notices", "teams", "tokens", "rates"),
    ):
        yield Address(f"API {name}", f"/api/v1/{name}/")
    yield Address("API claims, held", "/api/v1/claims/?state=allocated")
    yield Address("API claims, of a profile", "/api/v1/claims/?profile=profile-01&limit=500")
    yield Address("API approvals, decided", "/api/v1/approvals/?tab=decided")
    yield Address("API devices, free", "/api/v1/devices/?state=free")
    yield Address("API costs", f"/api/v1/costs/?team={TEAM}")
    claim = Claim.objects.filter(requested_by__username=ENGINEER, state=ClaimState.ALLOCATED).first()
    if claim is not None:
        for name in ("", "history/", "explain/", "manifest/", "usage/", "cost/", "consumers/"):
            yield Address(f"API claim {name.strip('/')}".strip(), f"/api/v1/claims/{claim.pk}/{name}")
    yield Address("API match", "/api/v1/match/", body=WISH)
