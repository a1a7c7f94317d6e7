"""
What changes on the page of one claim while it is open: held devices, health, users, and an entity tag of it
all. The actions of this package show it too, so it is below `claims.claim_page`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import Http404
from django.urls import reverse
from django.utils import timezone

from claims.models import Allocation, Claim
from claims.observation.observations import Observation, observe
from claims.plans.changes import CurrentPart, current_parts
from claims.states import NEVER_APPROVED, ClaimState
from core.prepared import Prepared
from inventory.freshness import OF_DEVICES, Age, ages, is_stale
from inventory.models import Device, Freshness, Pod
from teams.access import role_in, role_subquery
from teams.models import Role, User

RESOURCES = (*OF_DEVICES, "pods")  # of the mirror, whose age the page shows
AGE_STEP = 30  # seconds; the page shows a newer mirror after this time


@dataclass(frozen=True)
class HeldDevice:
    """An open allocation and its device, which is None when the mirror no longer has it."""

    allocation: Allocation
    device: Device | None

    @property
    def taints(self) -> list[dict[str, Any]]:
        return self.device.taints if self.device else []

    @property
    def url(self) -> str:
        return reverse("inventory:device", args=[self.device.pk]) if self.device else ""


@dataclass(frozen=True)
class Facts:
    claim: Claim
    role: Role | None  # of the reader
    seen: Observation
    age: Age | None  # of the mirror that it was read from, None once the claim is over
    stamp: str = ""  # of `claim_stamp`, read before the rest

    @cached_property
    def held(self) -> list[HeldDevice]:
        devices = {(device.driver, device.pool, device.name): device for device in self.seen.devices}
        return [
            HeldDevice(row, devices.get((row.driver, row.pool, row.device)))
            for row in sorted(self.seen.open, key=lambda row: (row.node_name, row.device))
        ]

    @cached_property
    def alternatives(self) -> list[CurrentPart]:
        return current_parts(self.claim, self.seen.open)

    @cached_property
    def successor(self) -> Claim | None:
        """The claim that replaces this one or will replace it; None if that request failed."""
        if self.claim.state == ClaimState.REQUESTED or not self.has("successors"):
            return None
        return self.claim.successors.exclude(state__in=NEVER_APPROVED).order_by("-created_at").first()

    def has(self, related: str) -> bool:
        """Return whether the claim may have such rows; `visible_claim` has asked for some of them."""
        return bool(getattr(self.claim, f"has_{related}", True))

    @property
    def consumers(self) -> list[Pod]:
        return self.seen.users

    @property
    def etag(self) -> str:
        """Return a strong tag (RFC 9110 §8.8.3): what the page shows, and the current stamp."""
        return f'"{self.digest}-{self.stamp}"'

    @cached_property
    def digest(self) -> str:
        """
        Return a text that changes when the page would, relative times aside.

        The page advances the age of the mirror by itself, so a newer mirror must change the text.
        """
        claim = self.claim
        parts = f"{claim.pk} {claim.version} {self.role} {claim.problem} {self.seen.digest(claim)}"
        parts += f" {claim.is_in_grace} {self.successor and self.successor.state}"
        parts += f" {claim.end_policy} {claim.evict_at} {claim.ends_unless_renewed_at}"
        if self.age is not None:
            seen_at = self.age.seen_at
            parts += f" {seen_at and seen_at.timestamp() // AGE_STEP} {self.age.is_stale} {self.age.why}"
        return hashlib.sha256(parts.encode()).hexdigest()[:24]


def claim_facts(claim: Claim, user: User, *, stamp: str = "") -> Facts:
    """Observe a claim in the mirror; the number of queries does not depend on the number of its devices."""
    age = None if claim.is_final else ages(RESOURCES, cluster=claim.cluster)[0]
    return Facts(claim, role_in(user, claim.team), observe([claim])[claim.pk], age, stamp)


def claim_stamp(claim_id: UUID, user: User) -> str:
    """
    Return a text that changes whenever the page of the claim may change, from one query; 404 for an outsider.

    It contains the revision of the cluster's mirror, so it changes more often than the page.
    """
    rows = _stamps(is_admin=user.is_superuser).rows(claim_id, user.pk)
    if not rows:
        raise Http404
    state, expires_at, *values, seen = rows[0]
    overdue = expires_at is not None and expires_at <= timezone.now()
    steps = [at and (at.timestamp() // AGE_STEP, is_stale(at)) for at in seen]
    text = repr((state, overdue, expires_at, *values, steps))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@cache
def _stamps(*, is_admin: bool) -> Prepared:
    """Return the query of `claim_stamp` for a claim and its reader."""

    def rows(claim_id: UUID, person: UUID) -> QuerySet[Claim, Any]:
        user = User(pk=person, is_superuser=is_admin)
        successors = Claim.objects.filter(replaces=OuterRef("pk")).exclude(state__in=NEVER_APPROVED)
        freshness = Freshness.objects.filter(cluster=OuterRef("cluster"), resource__in=RESOURCES)
        return (
            Claim.objects.visible_to(user)
            .filter(pk=claim_id)
            .values_list(
                *("state", "expires_at", "version", "problem", "observation_hash", "cluster__revision"),
                *("ends_unless_renewed_at", "cluster__halt_reason", "cluster__end_policy"),
                role_subquery(user, team=OuterRef("team")),
                Subquery(successors.order_by("-created_at").values("state")[:1]),
                ArraySubquery(freshness.order_by("pk").values("error")),
                ArraySubquery(freshness.order_by("pk").values("seen_at")),
            )
        )

    return Prepared(rows, UUID, UUID)
