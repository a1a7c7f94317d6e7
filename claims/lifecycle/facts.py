"""What moves on the page of one claim: what is held, how healthy it is, who uses it, and a tag of it all."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.urls import reverse

from claims.lifecycle.extensions import in_grace
from claims.models import Allocation, Claim
from claims.observation.observations import Observation, observe
from claims.plans.changes import CurrentPart, current_parts
from claims.states import NEVER_APPROVED, ClaimState
from inventory.freshness import OF_DEVICES, Age, ages
from inventory.models import Device, Pod
from teams.access import role_in
from teams.models import Role, User

AGE_STEP = 30  # seconds by which the mirror may grow newer before the page says so


@dataclass(frozen=True)
class HeldDevice:
    """An open allocation beside its device, which is None when the mirror no longer has it."""

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
    age: Age | None  # of the mirror it stands on, None once it is over

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
        """The claim that is to replace this one, or has; none that came to nothing."""
        if self.claim.state == ClaimState.REQUESTED:
            return None
        return self.claim.successors.exclude(state__in=NEVER_APPROVED).order_by("-created_at").first()

    @property
    def consumers(self) -> list[Pod]:
        return self.seen.users

    @cached_property
    def etag(self) -> str:
        """
        Return a strong tag (RFC 9110 §8.8.3) that changes when the page would, relative times aside.

        The page counts the age of the mirror on by itself, so it has to hear that the mirror is newer.
        """
        claim = self.claim
        parts = f"{claim.pk} {claim.version} {self.role} {claim.problem} {self.seen.digest(claim)}"
        parts += f" {in_grace(claim)} {self.successor and self.successor.state}"
        if self.age is not None:
            seen_at = self.age.seen_at
            parts += f" {seen_at and seen_at.timestamp() // AGE_STEP} {self.age.is_stale} {self.age.why}"
        return f'"{hashlib.sha256(parts.encode()).hexdigest()[:24]}"'


def claim_facts(claim: Claim, user: User) -> Facts:
    """Look a claim up in the mirror; the number of queries does not depend on how many devices it holds."""
    age = None if claim.is_final else ages((*OF_DEVICES, "pods"), cluster=claim.cluster)[0]
    return Facts(claim, role_in(user, claim.team), observe([claim])[claim.pk], age)
