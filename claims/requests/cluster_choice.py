"""
In which cluster a request fits best.

Of one profile the stored availability says it. Profiles together need one node that has all of them, which
figures of each profile cannot tell: their spec is matched in each cluster of the team.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any
from uuid import UUID

from claims.api_types import cluster_named
from claims.catalogue import listing
from claims.catalogue.listing import DeviceKind
from claims.models import Profile, ProfileAvailability
from claims.plans.plan import ProfileCount, combine, current_version, spec_with_count
from core.errors import Invalid
from dra import match
from dra.cluster_snapshot import ClusterSnapshot
from dra.manifests import spec_hash
from dra.objects import Json
from inventory.cluster_snapshot import current_snapshot
from inventory.models import Cluster

REFUSED = {match.NoFitReason.NO_CLASS, match.NoFitReason.INVALID}  # whatever is free
# Reasons that end when claims are released.
HELD = {match.NoFitReason.TAKEN, match.NoFitReason.CAPACITY, match.NoFitReason.NO_NODE}


@dataclass(frozen=True, slots=True)
class ClusterFit:
    """
    What a cluster has for a request; None is unknown, never 0.

    `option` is the position of the first alternative whose claims all fit now, None without one; `possible`
    is whether the request could fit there if no device were held. Of a request for one profile, `free`,
    `matching` and `most` (devices that one claim could get) are those of the last computation; of profiles
    together, `together` is the match of their spec. `price` is the most that it costs per hour and claim,
    None unless all clusters where something fits have a price in one currency.
    """

    cluster: Cluster
    option: int | None = None
    possible: bool | None = None
    free: int | None = None
    matching: int | None = None
    most: int | None = None
    together: match.Preview | None = None
    price: Decimal | None = None


def cluster_fits(
    clusters: Iterable[Cluster],
    *,
    first: ProfileCount,
    alternatives: Sequence[Profile] = (),
    together: Sequence[ProfileCount] = (),
    claims: int = 1,
) -> list[ClusterFit]:
    """
    Return these clusters, the one where the request fits best first: the first alternative before the second,
    then the lowest price if all have one, then where most is free; where nothing fits now, first those
    where it could.
    """
    places = list(clusters)
    profiles = [first[0], *alternatives, *(profile for profile, _count in together)]
    rows = listing.stored_availability({cluster.pk for cluster in places}, profiles)
    combined = combine(first, further=together) if together else None
    fits, offers = [], []
    for cluster in places:
        here = {
            profile.pk: row
            for profile in profiles
            for row in rows[profile.current_id]
            if row.computation_id == cluster.pk
        }
        options: Sequence[Sequence[ProfileCount]]
        if combined is not None and not combined.problems:
            options = [(first, *together)]
            fit = _fit_together(cluster, combined.spec, claims)
        else:
            options = [(first,), *([(profile, first[1])] for profile in alternatives)]
            fit = _fit_of_options(cluster, options, here, claims)
        fits.append(fit)
        wanted = () if fit.option is None else options[fit.option]
        offers.append([_offered(here.get(profile.pk), count) for profile, count in wanted])
    return sorted(_with_prices(fits, offers), key=_fit_order)


def cluster_for(wanted: Mapping[str, Any]) -> Cluster:
    """
    Return the cluster that a request of the API names, else that of the team where it fits best now. Raises
    Invalid if there is none.
    """
    if wanted["cluster"]:
        return cluster_named(wanted["cluster"])
    team = wanted["team"]
    places = Cluster.objects.filter(enabled=True, team_namespaces__team=team).order_by("name")
    clusters = list(places.defer("credentials", "discovery"))
    if not clusters:
        raise Invalid(
            f"{team} has no namespace in any cluster. Ask a platform admin for one.", field="cluster"
        )
    if len(clusters) == 1:
        return clusters[0]
    fits = cluster_fits(
        clusters,
        first=(wanted["profile"], wanted["devices"]),
        alternatives=wanted["alternatives"],
        together=wanted["together"],
        claims=wanted["parallel"],
    )
    return fits[0].cluster


def _fit_of_options(
    cluster: Cluster,
    options: Sequence[Sequence[ProfileCount]],
    here: dict[UUID, ProfileAvailability],
    claims: int,
) -> ClusterFit:
    option = next(
        (
            place
            for place, [(profile, count)] in enumerate(options)
            if not cluster.read_only and _has_room(here.get(profile.pk), profile, count, claims)
        ),
        None,
    )
    own = here.get(options[0][0][0].pk)
    if own is None:
        return ClusterFit(cluster, option)
    possible = None if own.matching is None else bool(own.matching)
    (profile, count) = options[0][0]
    if possible and option is None and not cluster.read_only:
        possible = _could_ever(cluster, own, profile, count, claims)
    return ClusterFit(cluster, option, possible, own.free, own.matching, own.most)


def _could_ever(
    cluster: Cluster, row: ProfileAvailability, profile: Profile, count: int, claims: int
) -> bool | None:
    """
    Return whether the claims would fit with every device of the cluster free; None if it is unknown. Where
    the mirror is newer than the figures and nothing matches any more, the figures count.
    """
    version = current_version(profile)
    if version.scalable and (row.matching or 0) < count * claims:
        return False
    snapshot = current_snapshot(cluster, (cluster.revision, cluster.version))
    spec = spec_with_count(version, count)
    return could_fit(snapshot, spec, claims) if request_match(snapshot, spec, claims).matching else True


def _has_room(row: ProfileAvailability | None, profile: Profile, count: int, claims: int) -> bool:
    """Return whether `claims` claims of `count` devices fit, as far as the stored figures tell."""
    if row is None or not row.nodes or row.free is None or profile.current is None:
        return False
    if not profile.current.scalable:
        return True
    return row.free >= count * claims and (row.most is None or row.most >= count)


def _fit_together(cluster: Cluster, spec: Json, claims: int) -> ClusterFit:
    if cluster.read_only:
        return ClusterFit(cluster)
    snapshot = current_snapshot(cluster, (cluster.revision, cluster.version))
    result = request_match(snapshot, spec, claims)
    possible = could_fit(snapshot, spec, claims)
    return ClusterFit(cluster, 0 if result.fits else None, possible, together=result)


def request_match(snapshot: ClusterSnapshot, spec: Json, claims: int) -> match.Preview:
    """Return the match of `claims` claims of `spec`, computed once per snapshot."""
    key = ("match", spec_hash(spec), claims)
    return snapshot.derived(key, lambda: match.preview(snapshot, spec, claims=claims))


def could_fit(snapshot: ClusterSnapshot, spec: Json, claims: int) -> bool | None:
    """Return whether `claims` claims of `spec` would fit if no device were held; None if it is unknown."""
    result = request_match(snapshot, spec, claims)
    if result.nodes_that_fit is None and result.reason not in REFUSED:
        return None
    if result.reason in HELD:
        return request_match(snapshot.unallocated, spec, claims).fits
    return result.fits


type _Offered = tuple[frozenset[DeviceKind], int]  # kinds of devices, and devices of one claim


def _offered(row: ProfileAvailability | None, count: int) -> _Offered:
    if row is None:
        return frozenset(), count
    return frozenset(DeviceKind.from_json(row.computation_id, kind) for kind in row.kinds), count


def _with_prices(fits: Sequence[ClusterFit], offers: Sequence[Sequence[_Offered]]) -> list[ClusterFit]:
    """Set the price of each cluster where something fits, if all of these have one."""
    prices = iter(listing.max_prices([kinds for offer in offers for kinds, _count in offer]))
    totals: list[Decimal | None] = []
    for offer in offers:
        of_parts = [(next(prices), count) for _kinds, count in offer]
        known = [price * count for price, count in of_parts if price is not None]
        totals.append(sum(known, Decimal(0)) if len(known) == len(of_parts) else None)
    if None in totals:
        return list(fits)
    return [
        replace(fit, price=total if offer else None)
        for fit, offer, total in zip(fits, offers, totals, strict=True)
    ]


def _fit_order(fit: ClusterFit) -> tuple[object, ...]:
    room = fit.free if fit.together is None else fit.together.nodes_that_fit
    return (
        fit.cluster.read_only,
        fit.option is None,
        fit.option or 0,
        fit.possible is False,
        fit.price or 0,
        -(room or 0),
        fit.cluster.name,
    )
