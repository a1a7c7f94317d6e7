"""
The state changes that delivery and reconciliation make, each with its sentence. Both call these functions.

Each returns False if the claim had already moved; that is normal.
"""

from collections.abc import Iterable

from django.conf import settings
from django.utils import timezone

from claims.models import Claim
from claims.observation.observations import DeviceHolding
from claims.plans.plan import delivery_kind
from claims.signals import request_returned
from claims.states import ClaimState
from core.origin import Source
from core.text import counted

NAMED_DEVICES = 4  # in the sentence of an allocation


def mark_provisioned(claim: Claim, *, uid: str) -> bool:
    """Record the object with this uid as the claim's own."""
    why = f"{object_name(claim)} was created in namespace {claim.namespace} of {claim.cluster}."
    return claim.advance(ClaimState.PROVISIONED, why=why, object_uid=uid, problem="")


def mark_allocated(claim: Claim, devices: Iterable[DeviceHolding]) -> bool:
    names = sorted({f"{device.pool}/{device.device}" for device in devices})
    shown = ", ".join(names[:NAMED_DEVICES]) + (" …" if len(names) > NAMED_DEVICES else "")
    why = f"The scheduler allocated {counted(len(names), 'device')}: {shown}."
    return claim.advance(ClaimState.ALLOCATED, why=why, source=Source.CLUSTER)


def mark_deallocated(claim: Claim) -> bool:
    why = "Kubernetes took the devices back: no pod uses them."
    return claim.advance(ClaimState.PROVISIONED, why=why, source=Source.CLUSTER)


def mark_released(claim: Claim) -> bool:
    why = f"{object_name(claim)} was deleted from namespace {claim.namespace} of {claim.cluster}."
    return claim.advance(ClaimState.RELEASED, why=why, source=Source.CLUSTER, problem="")


def mark_failed(claim: Claim, problem: str) -> bool:
    return claim.advance(ClaimState.FAILED, why=problem, source=Source.CLUSTER, problem=problem)


def return_to_approvers(claim: Claim, problem: str) -> bool:
    """Void the approval and ask the approvers again. The quota stays reserved; the portal does not retry."""
    moved = claim.advance(
        ClaimState.REQUESTED,
        why=problem,
        source=Source.CLUSTER,
        problem=problem,
        decided_by=None,
        decided_at=None,
        approved_hash="",
        expires_at=None,
        decide_by=timezone.now() + settings.REQUEST_TTL,
    )
    if moved:
        request_returned.send(Claim, claim=claim)
    return moved


def object_name(claim: Claim) -> str:
    """Return "ResourceClaim train" or "ResourceClaimTemplate train"."""
    return f"{delivery_kind(claim.delivery).kind} {claim.name}"
