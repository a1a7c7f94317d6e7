"""What else would fit: other profiles, the cheapest first, and claims whose end would make room."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from claims.catalogue import listing
from claims.catalogue.listing import DeviceKind, kinds_among, kinds_for
from claims.models import Profile, ProfileVersion
from claims.quotas import usage
from dra import match, quota
from dra.blockers import find_blockers
from dra.cluster_snapshot import ClusterSnapshot
from dra.fallback import CannotCombineError, first_available
from dra.manifests import with_count
from dra.match.funnel import funnel
from dra.objects import Json, device_requests
from inventory.holders import Person, holders_for
from inventory.models import Cluster, ResourceClaim
from inventory.states import Holder
from teams.models import Team

MAX_TRIED, MAX_SHOWN = 40, 5  # profiles


@dataclass(frozen=True, slots=True)
class Suggestion:
    """
    A profile that fits now, for `devices` per claim. `problem` says why it cannot be an alternative of the
    profile that was chosen, "" if it can.
    """

    profile: Profile
    version: ProfileVersion
    devices: int
    free: int
    kinds: frozenset[DeviceKind]
    memory: int  # bytes that one claim takes, of the smallest device that is free; 0 if unknown
    problem: str


def suggestions_for(
    *,
    team: Team,
    cluster: Cluster,
    snapshot: ClusterSnapshot,
    chosen: Sequence[Profile],
    devices: int,
    parallel: int,
    delivery: str,
) -> list[Suggestion]:
    """
    Return profiles open to `team`, other than those `chosen`, whose claims would all fit the cluster and the
    team's quota now: cheapest first where all of them have a price, else smallest first.

    The number of queries does not depend on the number of profiles.
    """
    rows = (
        Profile.objects.open_to(team)
        .filter(current__isnull=False)
        .exclude(pk__in=[profile.pk for profile in chosen])
        .select_related("current")
        .order_by("title")[:MAX_TRIED]
    )
    room = _Room(team)
    found = []
    for profile in rows:
        version = profile.current
        if version is None or delivery not in version.deliveries:
            continue
        spec = with_count(version.spec, version.scalable, devices) if version.scalable else version.spec
        count = quota.devices(spec)
        if count > version.max_devices or not room.fits(profile, spec, count, parallel):
            continue
        seen = match.preview(snapshot, spec, claims=parallel)
        if seen.fits and seen.free is not None:
            memory = _smallest(cluster, snapshot, spec) * count
            kinds = kinds_for(cluster.pk, snapshot, spec)
            problem = _problem(chosen, profile, spec)
            found.append(Suggestion(profile, version, count, seen.free, kinds, memory, problem))
    return _ordered(found)[:MAX_SHOWN]


class _Room:
    """What is left of the quotas of a team."""

    def __init__(self, team: Team) -> None:
        self.by_class: dict[str, int] = {}
        self.by_profile: dict[object, int] = {}
        for standing in usage.team_usage([team]):
            if standing.quota.profile_id:
                self.by_profile[standing.quota.profile_id] = standing.free
            else:
                self.by_class[standing.quota.device_class] = standing.free

    def fits(self, profile: Profile, spec: Json, devices: int, parallel: int) -> bool:
        charge = quota.charge(spec)
        return self.by_profile.get(profile.pk, devices * parallel) >= devices * parallel and all(
            self.by_class.get(name, -1) >= count * parallel for name, count in charge.items()
        )


def _ordered(found: Iterable[Suggestion]) -> list[Suggestion]:
    offers = list(found)
    prices = listing.max_prices([offer.kinds for offer in offers])
    known = [price for price in prices if price is not None]
    if offers and len(known) == len(offers):
        cost: dict[object, Decimal] = {
            offer.profile.pk: price * offer.devices for offer, price in zip(offers, known, strict=True)
        }
        return sorted(offers, key=lambda offer: (cost[offer.profile.pk], offer.memory, offer.profile.title))
    return sorted(offers, key=lambda offer: (offer.memory, offer.devices, offer.profile.title))


def _smallest(cluster: Cluster, snapshot: ClusterSnapshot, spec: Json) -> int:
    """Return the memory of the smallest free device that the spec could take, 0 if none tells."""
    free = 0
    for ask in device_requests(spec):
        free |= funnel(snapshot, ask).free
    kinds = kinds_among(cluster.pk, snapshot, free)
    return min((kind.memory_bytes or 0 for kind in kinds), default=0)


def _problem(chosen: Sequence[Profile], profile: Profile, spec: Json) -> str:
    """Say why the profile cannot stand beside those chosen."""
    try:
        named = [(each.slug, each.current.spec) for each in chosen if each.current is not None]
        first_available([*named, (profile.slug, spec)])
    except CannotCombineError as error:
        return error.message
    return ""


@dataclass(frozen=True, slots=True)
class BlockerRow:
    """If all of these ended, one claim would fit on the node. Who the reader may not know of is masked."""

    node: str
    holders: tuple[Holder, ...]


@dataclass(frozen=True, slots=True)
class Blockers:
    """`sentence` is empty unless enough is free but scattered."""

    sentence: str
    rows: tuple[BlockerRow, ...]


def blockers_for(person: Person, cluster: Cluster, snapshot: ClusterSnapshot, spec: Json) -> Blockers:
    """Look for claims whose end would make room for `spec`; as many queries for one as for many."""
    found = find_blockers(snapshot, spec)
    names = {name for ending in found.blockers for name in ending.claims}
    rows = ResourceClaim.objects.filter(
        cluster=cluster, gone_at=None, name__in={name.partition("/")[2] for name in names}
    ).defer("raw")
    by_name = {full: row for row in rows if (full := f"{row.namespace}/{row.name}") in names}
    holders = holders_for(person, by_name.values())
    return Blockers(
        found.sentence,
        tuple(
            BlockerRow(ending.node, tuple(holders[by_name[name].pk] for name in ending.claims))
            for ending in found.blockers
            if all(name in by_name for name in ending.claims)
        ),
    )
