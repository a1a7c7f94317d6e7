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

from claims import holdings
from claims.manifests import kind_of
from claims.models import Allocation, Claim, Delivery
from claims.settling import settle_charges
from claims.sightings import Sighting, look, owners
from claims.states import ClaimState
from dra.canonical import spec_hash

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


def ids(texts: Iterable[str]) -> list[UUID]:
    """Return the ids among the values of a label that anybody can write."""
    found = []
    for text in texts:
        try:
            found.append(UUID(text))
        except ValueError:
            continue
    return found


def reconcile(claim_ids: Iterable[UUID]) -> None:
    """Bring these claims up to date with the mirror, however often it is done."""
    for batch in batched(claim_ids, BATCH):
        claims = list(Claim.objects.filter(pk__in=batch))
        seen = look(claims)
        for claim in claims:
            if seen[claim.pk].digest(claim) != claim.sighting:
                settle(claim.pk)


@transaction.atomic
def settle(claim_id: UUID) -> None:
    """Settle one claim under its lock, so that two sightings cannot overtake each other."""
    claim = (
        Claim.objects.select_for_update(no_key=True, of=("self",)).select_related("cluster").get(pk=claim_id)
    )
    seen = look([claim])[claim.pk]
    holdings.follow(claim, seen)
    settle_charges(claim, seen)
    for to, why, fields in moves(claim, seen):
        claim.advance(to, why=why, **fields)
    problem = problem_of(claim, seen)
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
    if claim.state in (ClaimState.PROVISIONED, ClaimState.ALLOCATED):
        why = _("%(kind)s %(name)s was deleted in %(cluster)s by somebody other than the portal.") % _named(
            claim
        )
        yield ClaimState.FAILED, why, {}
    elif claim.state == ClaimState.RELEASING:
        yield ClaimState.RELEASED, _("%(kind)s %(name)s is gone from %(cluster)s.") % _named(claim), {}


def problem_of(claim: Claim, seen: Sighting) -> str:
    """Return what somebody should know who looks at the claim, "" if all is well."""
    if claim.state == ClaimState.FAILED:
        last = claim.history.order_by("-at", "-pk").values_list("why", flat=True).first()
        return last or claim.problem
    if claim.state not in (ClaimState.PROVISIONED, ClaimState.ALLOCATED) or seen.written is None:
        return "" if claim.state == ClaimState.RELEASED else claim.problem
    return _behind_the_back(claim, seen) or _over_use(claim, seen)


def _behind_the_back(claim: Claim, seen: Sighting) -> str:
    row, named = seen.written, _named(claim)
    if row is None:
        return ""
    if row.gone_at is not None:
        return (
            _(
                "%(kind)s %(name)s was deleted in %(cluster)s by somebody other than the portal; "
                "its pods go on."
            )
            % named
        )
    if "deletionTimestamp" in row.raw.get("metadata", {}):
        return (
            _(
                "Somebody other than the portal is deleting %(kind)s %(name)s; "
                "it goes when its pods have ended."
            )
            % named
        )
    spec = row.raw.get("spec") or {}
    seen_hash = spec_hash(spec.get("spec") or {} if claim.delivery == Delivery.TEMPLATE else spec)
    if seen_hash != claim.spec_hash:
        return _(
            "%(kind)s %(name)s asks for something else than was approved: its spec is %(seen)s, "
            "approved was %(mine)s. Release this claim and ask again."
        ) % {**named, "seen": seen_hash[:8], "mine": claim.spec_hash[:8]}
    if claim.object_uid and row.uid != claim.object_uid:
        return (
            _(
                "%(kind)s %(name)s was deleted and made again by somebody other than the portal. "
                "Release this claim and ask again."
            )
            % named
        )
    return ""


def _over_use(claim: Claim, seen: Sighting) -> str:
    count = len(seen.holders)
    if claim.delivery != Delivery.TEMPLATE or count <= claim.parallel:
        return ""
    return ngettext(
        "%(count)d claims exist at once; %(most)d was asked for and counts against the quota.",
        "%(count)d claims exist at once; %(most)d were asked for and count against the quota.",
        claim.parallel,
    ) % {"count": count, "most": claim.parallel}


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
