"""
From what the mirror shows to what the portal records. Never the other way round.

Messages only say where to look: the mirror is always read anew, under the lock of the claim's row, so their
order and number do not matter. A claim whose sighting has not changed since the last look costs nothing more.
"""

from collections.abc import Iterable, Iterator
from itertools import batched
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.manifests import kind_of
from claims.models import Allocation, Claim, Delivery
from claims.observed import holdings
from claims.observed.behind import Trouble, tell_of, trouble_of
from claims.observed.labels import ids
from claims.observed.settling import settle_charges
from claims.observed.sightings import Sighting, look, owners
from claims.states import RUNNING, ClaimState
from core.locking import lock_row
from inventory.models import ResourceClaim, ResourceClaimTemplate

FOLLOWED = (ClaimState.APPROVED, ClaimState.PROVISIONED, ClaimState.ALLOCATED, ClaimState.RELEASING)
BATCH = 200

type Move = tuple[ClaimState, str, dict[str, Any]]


def reconcile_all() -> None:
    """Look at every claim that is followed, and at every one with an open allocation."""
    followed = Claim.objects.filter(state__in=FOLLOWED).values_list("pk", flat=True)
    holding = Allocation.objects.filter(ended_at=None).values_list("claim", flat=True)
    reconcile(sorted({*followed, *holding}))


def reconcile_named(cluster_id: str, names: Iterable[str]) -> None:
    """Look at the claims that these objects of a cluster have to do with."""
    reconcile(ids(owners(cluster_id, names)))


def reconcile(claim_ids: Iterable[UUID]) -> None:
    """
    Bring these claims up to date with the mirror, however often it is done.

    One that cannot be settled holds up no other; what was wrong is raised in the end.
    """
    failed: list[Exception] = []
    for batch in batched(claim_ids, BATCH):
        claims = list(Claim.objects.filter(pk__in=batch))
        seen = look(claims)
        for claim in claims:
            if seen[claim.pk].digest(claim) != claim.sighting:
                try:
                    settle(claim.pk)
                except Exception as error:
                    error.add_note(f"claim {claim.pk}")
                    failed.append(error)
    if failed:
        raise ExceptionGroup("Claims could not be settled", failed)


@transaction.atomic
def settle(claim_id: UUID) -> None:
    """Settle one claim under its lock, so that two sightings cannot overtake each other."""
    claim = lock_row(Claim.objects.select_related("cluster", "requested_by"), claim_id)
    seen = look([claim])[claim.pk]
    holdings.follow(claim, seen)
    settle_charges(claim, seen)
    for to, why, fields in moves(claim, seen):
        claim.advance(to, why=why, **fields)
    trouble = trouble_of(claim, seen)
    if trouble is not None and trouble.is_told:
        tell_of(claim, trouble)
    problem = problem_of(claim, seen, trouble)
    # Of what was looked at, not of what the mirror shows by now: that is for the next look.
    seen.open = list(claim.allocations.filter(ended_at=None))
    digest = seen.digest(claim)
    Claim.objects.filter(pk=claim.pk).update(sighting=digest, problem=problem, version=F("version") + 1)


def moves(claim: Claim, seen: Sighting) -> Iterator[Move]:
    """Yield the steps that the sighting calls for, each from the state that the one before it led to."""
    if claim.state == ClaimState.APPROVED and seen.there() and seen.written is not None:
        yield (
            ClaimState.PROVISIONED,
            _("It is in the cluster."),
            {"object_uid": seen.written.uid, "problem": ""},
        )
    if claim.state == ClaimState.PROVISIONED and seen.held:
        yield ClaimState.ALLOCATED, _allocated(seen), {}
    if claim.state == ClaimState.ALLOCATED and not seen.held and not seen.vanished():
        yield ClaimState.PROVISIONED, _("Kubernetes took the devices back: no pod uses them."), {}
    if not seen.vanished() or seen.holders:
        return
    if claim.state in (ClaimState.PROVISIONED, ClaimState.ALLOCATED) and seen.given_up():
        yield ClaimState.FAILED, _deleted(claim), {}
    elif claim.state == ClaimState.RELEASING:
        yield ClaimState.RELEASED, _("%(kind)s %(name)s is gone from %(cluster)s.") % _named(claim), {}


def problem_of(claim: Claim, seen: Sighting, trouble: Trouble | None) -> str:
    """Return what somebody should know who looks at the claim, "" if all is well."""
    if trouble is not None:
        return trouble.text
    if claim.state == ClaimState.FAILED:
        last = claim.history.order_by("-at", "-pk").values_list("why", flat=True).first()
        return last or claim.problem
    delivered = claim.state in (ClaimState.PROVISIONED, ClaimState.ALLOCATED) and seen.written is not None
    return "" if delivered or claim.state == ClaimState.RELEASED else claim.problem


def _deleted(claim: Claim) -> str:
    why = _("%(kind)s %(name)s was deleted in %(cluster)s by somebody other than the portal.")
    there = (ResourceClaimTemplate if claim.delivery == Delivery.TEMPLATE else ResourceClaim)._default_manager
    where = {"cluster": claim.cluster_id, "namespace": claim.namespace, "name": claim.name}
    if there.filter(**where, gone_at=None).exists():
        why += " " + _("Another one of that name stands there now, which is not of this claim.")
    return why % _named(claim)


def _allocated(seen: Sighting) -> str:
    names = sorted({f"{held.pool}/{held.device}" for held in seen.held})
    shown = ", ".join(names[:4]) + (" …" if len(names) > 4 else "")
    return ngettext(
        "The scheduler allocated %(count)d device: %(names)s.",
        "The scheduler allocated %(count)d devices: %(names)s.",
        len(names),
    ) % {"count": len(names), "names": shown}


def _named(claim: Claim) -> dict[str, object]:
    return {"kind": kind_of(claim.delivery).kind, "name": claim.name, "cluster": claim.cluster}


def release_predecessors() -> list[UUID]:
    """
    Release every claim whose successor holds devices; return the ids of those whose objects are now to be
    deleted. Safe to repeat; nothing is locked but the one row that moves.
    """
    holding = Claim.objects.filter(state=ClaimState.ALLOCATED, replaces__state__in=RUNNING)
    released = []
    for successor in holding.select_related("replaces"):
        old = successor.replaces
        why = _("Replaced by %(successor)s, which holds its devices.") % {"successor": successor}
        with transaction.atomic():
            if old is not None and old.advance(ClaimState.RELEASING, why=why):
                released.append(old.pk)
    return released
