"""What a request would do, in the rows of its card: quota, share of what is free, who waits, who asks."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Q
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.approval.approvals import ruling_on
from claims.approval.past_use import past_use
from claims.approval.reserved import Reserved, reserved_in
from claims.approval.rules import whom
from claims.catalogue.kinds import DeviceKind, kinds_for
from claims.catalogue.pricing import prices_of
from claims.models import Claim
from claims.request.offers import offers_for
from claims.states import FINAL, ClaimState
from claims.views.funnel import FunnelRow, funnel_of
from dra import match
from dra.picture import Picture
from inventory.freshness import OF_DEVICES, Age, ages
from inventory.picture import picture_of

REMEMBERED = 5  # earlier claims of the person that are looked at


@dataclass(frozen=True)
class Impact:
    quotas: list[Reserved]
    match: match.Preview
    funnel: list[FunnelRow]
    kinds: frozenset[DeviceKind]
    age: Age
    share: str
    waiting: str
    past: str
    use: str
    cheaper: str
    cheaper_slug: str
    why: tuple[str, str]  # in a word, and the sentence of the rule that asks
    who: str  # decides by it


def impact_of(claim: Claim) -> Impact:
    """Work out the rows of the card for a request that waits."""
    picture = picture_of(claim.cluster)
    found = match.preview(picture, claim.spec, claims=claim.parallel)
    ruling = ruling_on(claim)
    kinds = kinds_for(claim.cluster_id, picture, claim.spec)
    cheaper, slug = cheaper_than(claim, picture, kinds)
    return Impact(
        quotas=reserved_in(claim),
        match=found,
        funnel=funnel_of(found),
        kinds=kinds,
        age=ages(OF_DEVICES, cluster=claim.cluster)[0],
        share=share_of(claim, found),
        waiting=others_waiting(claim),
        past=past_of(claim),
        use=past_use(claim.requested_by, claim.team).sentence,
        cheaper=cheaper,
        cheaper_slug=slug,
        why=(ruling.word or _("sent back"), ruling.sentence if ruling.word else _("The cluster refused it.")),
        who=whom(ruling.approval),
    )


def share_of(claim: Claim, found: match.Preview) -> str:
    """Say how much of what is free now this would take; unknown stays unknown."""
    if found.free is None:
        return _("What is free cannot be told for this specification.")
    needs = claim.devices * claim.parallel
    left = max(found.free - needs, 0)
    return ngettext(
        "%(needs)d of %(free)d free device that matches; %(left)d stays free.",
        "%(needs)d of %(free)d free devices that match; %(left)d stay free.",
        found.free,
    ) % {"needs": needs, "free": found.free, "left": left}


def cheaper_than(claim: Claim, picture: Picture, kinds: frozenset[DeviceKind]) -> tuple[str, str]:
    """Name the cheapest profile that fits now and costs less, and its slug; empty where none is known to."""
    if claim.together:
        return "", ""  # no single profile gives what several do
    offers = offers_for(
        team=claim.team,
        cluster=claim.cluster,
        picture=picture,
        chosen=[claim.profile_version.profile],
        devices=claim.devices,
        parallel=claim.parallel,
        delivery=claim.delivery,
    )
    own, *others = prices_of([kinds, *(offer.kinds for offer in offers)])
    if own is None:
        return "", ""
    known = [
        (price * offer.devices, offer)
        for price, offer in zip(others, offers, strict=True)
        if price is not None and offer.devices <= claim.devices
    ]
    best = min(known, key=lambda one: one[0], default=None)
    if best is None or best[0] >= own * claim.devices:
        return "", ""
    values = {
        "title": best[1].profile.title,
        "percent": round(100 - 100 * best[0] / (own * claim.devices)),
        "free": best[1].free,
    }
    said = ngettext(
        "%(title)s costs %(percent)d %% less and fits now; %(free)d of its devices is free.",
        "%(title)s costs %(percent)d %% less and fits now; %(free)d of its devices are free.",
        best[1].free,
    )
    return said % values, best[1].profile.slug


def others_waiting(claim: Claim) -> str:
    """Count claims that wait for the same classes in the same cluster; other teams' names stay theirs."""
    classes = [row.device_class for row in claim.charges.all()]
    same = Claim.objects.filter(cluster=claim.cluster, charges__device_class__in=classes).exclude(pk=claim.pk)
    counted = same.aggregate(
        requests=Count("pk", filter=Q(state=ClaimState.REQUESTED), distinct=True),
        mine=Count("pk", filter=Q(state=ClaimState.REQUESTED, team=claim.team), distinct=True),
        pods=Count("pk", filter=Q(state=ClaimState.PROVISIONED), distinct=True),
    )
    said = []
    if count := counted["requests"]:
        values = {"n": count, "mine": counted["mine"], "team": claim.team}
        said.append(
            ngettext(
                "%(n)d other request waits for a decision, %(mine)d of %(team)s.",
                "%(n)d other requests wait for a decision, %(mine)d of them of %(team)s.",
                count,
            )
            % values
        )
    if count := counted["pods"]:
        said.append(
            ngettext("%(n)d approved claim waits for a pod.", "%(n)d approved claims wait for a pod.", count)
            % {"n": count}
        )
    return " ".join(said) or _("Nobody else waits for these devices.")


def past_of(claim: Claim) -> str:
    """Say how the last claims of the person ended."""
    ended = Claim.objects.filter(requested_by=claim.requested_by, team=claim.team, state__in=FINAL)
    states = list(ended.order_by("-state_since").values_list("state", flat=True)[:REMEMBERED])
    if not states:
        return _("%(person)s has no earlier claim in %(team)s.") % {
            "person": claim.requested_by.label,
            "team": claim.team,
        }
    words = ", ".join(
        f"{states.count(state)} {ClaimState(state).label.lower()}" for state in dict.fromkeys(states)
    )
    return ngettext(
        "The last claim of %(person)s: %(words)s.",
        "The last %(n)d claims of %(person)s: %(words)s.",
        len(states),
    ) % {"n": len(states), "person": claim.requested_by.label, "words": words}
