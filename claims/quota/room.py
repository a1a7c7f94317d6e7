"""
What a cluster may admit for a team: what stands there, and what the team has free over all clusters.

A limit holds over all clusters together, and none of them knows the others. So each is told its own part and
the free rest. Whatever is made in one of them, past the portal or through it, takes from the rest of all the
others. What requests reserve is in none of them until it is approved: nobody can take it by hand meanwhile.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import Count, Q, Sum

from claims.models import Claim, ClaimCharge, Delivery, Quota, TeamNamespace
from claims.quota.outside_use import OutsideUse, outside_use
from claims.quota.quotas import standing
from claims.states import HOLDING, ClaimState
from inventory.models import DeviceClass, ResourceClaimTemplate

GRANTED = tuple(state for state in HOLDING if state != ClaimState.REQUESTED)

type Place = tuple[UUID, str]  # cluster, namespace


@dataclass(slots=True)
class Stands:
    """
    What the ResourceQuota of a namespace counts there: devices per class, claims, and templates.

    A claim of the portal counts from its approval on, for as much as Kubernetes charges it: with its worst
    alternative, and in full beside the claim that it replaces.
    """

    classes: Counter[str] = field(default_factory=Counter)
    claims: int = 0
    templates: int = 0


@dataclass(frozen=True, slots=True)
class Room:
    """
    By class, what stands in a namespace and what the team has free; together it is what may be there.

    `claims` and `templates` are what may be there of those, None without a limit.
    """

    stands: dict[str, int]
    free: dict[str, int]
    claims: int | None = None
    templates: int | None = None

    @property
    def devices(self) -> dict[str, int]:
        return {name: count + self.free[name] for name, count in self.stands.items()}


def rooms(places: Collection[TeamNamespace]) -> dict[int, Room]:
    """
    Return what may be in each of these namespaces, by primary key, in a number of queries that does not grow
    with them. It has the classes that the cluster publishes or the team has a quota of.
    """
    found = _stands(places)
    free: dict[UUID, dict[str, int]] = defaultdict(dict)
    claims: dict[UUID, int] = {}
    for each in standing({place.team_id: place.team for place in places}.values()):
        if each.quota.counts == Quota.Counts.CLAIMS:
            claims[each.team.pk] = each.free
        elif each.quota.device_class:
            free[each.team.pk][each.quota.device_class] = each.free
    known: dict[UUID, set[str]] = defaultdict(set)
    published = DeviceClass.objects.filter(cluster__in={place.cluster_id for place in places}, gone_at=None)
    for cluster, name in published.values_list("cluster", "name"):
        known[cluster].add(name)
    return {
        place.pk: _room(
            found[place.cluster_id, place.namespace],
            known[place.cluster_id],
            free[place.team_id],
            claims.get(place.team_id),
        )
        for place in places
    }


def _room(stands: Stands, known: set[str], free: dict[str, int], claims: int | None) -> Room:
    names = sorted(known | free.keys())
    room = {name: free.get(name, 0) for name in names}
    there = {name: stands.classes[name] for name in names}
    if claims is None:
        return Room(there, room)
    most = claims + stands.claims
    return Room(there, room, claims=most, templates=max(most, stands.templates))


def _stands(places: Iterable[TeamNamespace]) -> dict[Place, Stands]:
    found: dict[Place, Stands] = defaultdict(Stands)
    teams = {place.team_id for place in places}
    charges = ClaimCharge.objects.filter(claim__team__in=teams, claim__state__in=GRANTED).order_by()
    by_class = charges.values_list("claim__cluster", "claim__namespace", "device_class")
    for cluster, namespace, name, count in by_class.annotate(total=Sum("devices")):
        found[cluster, namespace].classes[name] += count
    claims = Claim.objects.filter(team__in=teams, state__in=GRANTED).order_by()
    is_template = Q(delivery=Delivery.TEMPLATE)
    for cluster, namespace, count, templates in claims.values_list("cluster", "namespace").annotate(
        total=Sum("parallel"), templates=Count("pk", filter=is_template)
    ):
        found[cluster, namespace].claims += count
        found[cluster, namespace].templates += templates
    for use in _outside(teams):
        place = found[use.cluster, use.namespace]
        place.classes.update(use.charge)
        place.classes.subtract(use.unseen)
        place.claims += use.claims
    for cluster, namespace, count in _foreign_templates(places):
        found[cluster, namespace].templates += count
    return found


def _outside(teams: Collection[UUID]) -> Iterable[OutsideUse]:
    for uses in outside_use(teams).values():
        yield from uses


def _foreign_templates(places: Iterable[TeamNamespace]) -> Iterable[tuple[UUID, str, int]]:
    """Yield how many templates stand in a namespace that no label calls the portal's."""
    clusters, namespaces = {one.cluster_id for one in places}, {one.namespace for one in places}
    rows = ResourceClaimTemplate.objects.filter(
        cluster__in=clusters, namespace__in=namespaces, gone_at=None, owner=""
    ).order_by()
    yield from rows.values_list("cluster", "namespace").annotate(total=Count("pk"))
