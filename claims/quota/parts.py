"""Every contribution to the figure of a quota, so that anybody can add it up again."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.db.models import F, Q
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce, Greatest
from django.urls import reverse
from django.utils import timezone

from claims.models import Claim, Quota, QuotaRaise
from claims.observed.outside import outside
from claims.quota.counts import NUMBER, outside_count
from claims.quota.outside_use import OutsideUse, outside_use
from claims.states import HOLDING, ClaimState
from inventory.models import ResourceClaim
from teams.models import User


@dataclass(frozen=True, slots=True)
class Contribution:
    """One claim in the figure of a quota; `carried` of it is counted with the claim that it replaces."""

    claim: Claim
    devices: int
    reserved: bool
    carried: int = 0


@dataclass(frozen=True, slots=True)
class OutsidePart:
    """
    One object past the portal in the figure of a quota. `url` leads to its page, for a pod to that of its
    node; "" if the reader may not see it or there is none.
    """

    use: OutsideUse
    devices: int
    url: str = ""


@dataclass(frozen=True, slots=True)
class Parts:
    claims: list[Contribution]
    outside: list[OutsidePart]
    raises: list[QuotaRaise]  # what the limit is more than the quota says


def parts_of(quota: Quota, reader: User | AnonymousUser | None = None) -> Parts:
    """Return all that adds up to the figure of `quota`, with links that `reader` may follow."""
    parts = outside_parts(quota)
    return Parts(contributions(quota), linked(parts, reader) if reader else parts, running_raises(quota))


def contributions(quota: Quota) -> list[Contribution]:
    """Return every claim that adds up to the figure of `quota`, oldest first, in two queries."""
    claims = Claim.objects.select_related("decided_by").order_by("created_at", "id")
    claims = claims.filter(team=quota.team_id, state__in=HOLDING)
    whole: Combinable
    counted: Combinable
    if quota.counts == Quota.Counts.CLAIMS:
        own, whole, counted = claims.for_list(), F("parallel"), NUMBER
    elif quota.profile_id:
        alone = Q(alternatives=None, profile_version__profile=quota.profile_id)
        own = claims.filter(alone | Q(alternatives__profile_version__profile=quota.profile_id)).for_list()
        taken = Coalesce("alternatives__settled", "alternatives__devices")
        whole = Coalesce(taken, F("devices") * F("parallel"))
        counted = Coalesce(taken, Greatest(F("devices") * F("parallel") - F("carried"), 0))
    else:
        own = claims.filter(charges__device_class=quota.device_class).for_list()
        whole = Coalesce("charges__settled", "charges__devices")
        counted = Greatest(Coalesce("charges__settled", "charges__devices") - F("charges__carried"), 0)
    told = own.select_related("decided_by")  # the API names them
    found: Iterable[Any] = told.annotate(whole=whole, counted=counted).filter(whole__gt=0)
    return [
        Contribution(
            claim,
            devices=claim.counted,
            reserved=claim.state == ClaimState.REQUESTED,
            carried=claim.whole - claim.counted,
        )
        for claim in found
    ]


def outside_parts(quota: Quota) -> list[OutsidePart]:
    """Return what is used past the portal and counts against `quota`, in four queries."""
    uses = outside_use([quota.team_id])[quota.team_id]
    parts = [OutsidePart(use, outside_count(quota, use)) for use in uses]
    return [part for part in parts if part.devices]


def linked(parts: Iterable[OutsidePart], reader: User | AnonymousUser) -> list[OutsidePart]:
    """Return the parts with links to what `reader` may see, in one query."""
    parts = list(parts)
    uids = [part.use.uid for part in parts if part.use.kind == "ResourceClaim"]
    seen = set(outside(ResourceClaim, reader).filter(uid__in=uids).values_list("uid", flat=True))
    return [replace(part, url=_url(part.use, seen)) for part in parts]


def _url(use: OutsideUse, seen: set[str]) -> str:
    if use.uid in seen:
        return reverse("claims:outside_claim", args=[use.uid])
    return reverse("inventory:node", args=[use.cluster_name, use.node]) if use.node else ""


def running_raises(quota: Quota) -> list[QuotaRaise]:
    now = timezone.now()
    raises = QuotaRaise.objects.filter(quota=quota, starts_at__lte=now, ends_at__gt=now)
    return list(raises.select_related("by", "request__asked_by"))
