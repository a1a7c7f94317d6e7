"""
Suggestions for a request that does not fit: other profiles, and claims whose release would free enough
devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import NotRequired, TypedDict, Unpack
from uuid import UUID

from django.db.models import QuerySet

from claims.budgets.use import reclaimable_namespaces
from claims.catalogue import listing
from claims.catalogue.listing import DeviceKind, kinds_among, kinds_for
from claims.catalogue.sharing import SHARED_MODES, Sharing, least_memory, sharing_modes
from claims.models import Profile, ProfileVersion
from claims.quotas import quota_usage
from claims.quotas.quota_usage import QuotaUsage
from core.prepared import PreparedObjects
from dra import match, quota
from dra.blockers import find_blockers
from dra.cluster_snapshot import ClusterSnapshot
from dra.combination import CannotCombineError, first_available
from dra.manifests import spec_hash, with_count
from dra.match.funnel import funnel
from dra.objects import Json, device_requests, requests
from inventory.holders import Person, holders_for
from inventory.models import Cluster, Device, ResourceClaim
from inventory.states import DeviceUse, Holder
from teams.models import Team

MAX_TRIED, MAX_SHOWN = 40, 5  # profiles


@dataclass(frozen=True)
class Suggestion:
    """
    A profile that fits now, with `devices` per claim of `spec`, beside the `chosen` profiles of a request.
    """

    profile: Profile
    version: ProfileVersion
    devices: int
    free: int
    kinds: frozenset[DeviceKind]
    memory: int  # bytes per claim, with the smallest free device; 0 if unknown
    spec: Json = field(repr=False)
    chosen: Sequence[Profile] = field(repr=False)

    @cached_property
    def problem(self) -> str:
        """Why it cannot be an alternative of the chosen profiles, "" if it can."""
        try:
            parts = [(row.slug, row.current.spec) for row in self.chosen if row.current is not None]
            first_available([*parts, (self.profile.slug, self.spec)])
        except CannotCombineError as error:
            return error.message
        return ""


class WantedFit(TypedDict):
    """What suggestions are to fit; `fitting_profiles` says what each field is."""

    team: Team
    cluster: Cluster
    snapshot: ClusterSnapshot
    chosen: Sequence[Profile]
    devices: int
    parallel: int
    delivery: str
    usages: NotRequired[Sequence[QuotaUsage] | None]
    satisfying: NotRequired[Json | None]


def suggestions_for(**wanted: Unpack[WantedFit]) -> list[Suggestion]:
    """
    Return the first of `fitting_profiles`: the cheapest first if all have a price, else the smallest first.
    """
    return _sorted(fitting_profiles(**wanted))[:MAX_SHOWN]


def fitting_profiles(
    *,
    team: Team,
    cluster: Cluster,
    snapshot: ClusterSnapshot,
    chosen: Sequence[Profile],
    devices: int,
    parallel: int,
    delivery: str,
    usages: Sequence[QuotaUsage] | None = None,
    satisfying: Json | None = None,
) -> list[Suggestion]:
    """
    Return profiles open to `team`, without the `chosen` ones, whose claims would all fit the cluster and the
    team's quota now.

    `satisfying` is a spec: they give as many devices with as much memory, of the same drivers in as many
    requests, are shared only if it is, and have admin access only if it has.
    `usages` are the quotas of the team, if the caller has read them. The number of queries does not depend
    on the number of profiles.
    """
    chosen_ids = {profile.pk for profile in chosen}
    candidates = [row for row in OPEN_PROFILES.objects(team.pk) if row.pk not in chosen_ids][:MAX_TRIED]
    headroom = _QuotaHeadroom(quota_usage.team_usage([team]) if usages is None else usages)
    needs = _Needs.of(cluster, snapshot, satisfying) if satisfying is not None else _Needs()
    suggestions = []
    for profile in candidates:
        version = profile.current
        if version is None or delivery not in version.deliveries:
            continue
        size = _size(snapshot, version, devices)
        if size.devices > version.max_devices or not headroom.fits(profile, size, parallel):
            continue
        offer = _offer(cluster, snapshot, size, parallel)
        if offer is not None:
            free, kinds, memory = offer
            if not needs.met_by(size, memory, kinds):
                continue
            row = (profile, version, size.devices, free, kinds, memory * size.devices, size.spec, chosen)
            suggestions.append(Suggestion(*row))
    return suggestions


@dataclass(frozen=True, slots=True)
class _Size:
    """A version with a number of devices: its spec, and what follows from the spec alone."""

    spec: Json
    spec_hash: str
    devices: int  # per claim
    charge: dict[str, int]
    sharing: frozenset[Sharing]


def _size(snapshot: ClusterSnapshot, version: ProfileVersion, devices: int) -> _Size:
    """Return the version with so many devices; computed once per snapshot, as a version never changes."""

    def computed() -> _Size:
        spec = with_count(version.spec, version.scalable, devices) if version.scalable else version.spec
        sharing = SHARED_MODES.intersection(sharing_modes(spec))
        return _Size(spec, spec_hash(spec), quota.devices(spec), quota.charge(spec), sharing)

    return snapshot.derived(("size", version.pk, devices), computed)


@dataclass(frozen=True, slots=True)
class _Needs:
    """
    What a spec asks for: devices per claim, bytes of memory of each, how they may be shared, the drivers that
    they are of, the number of its requests, and whether it has admin access, which others are never given.
    """

    devices: int = 0
    memory: int = 0
    sharing: frozenset[Sharing] = SHARED_MODES
    drivers: frozenset[str] = frozenset()
    requests: int = 0
    admin: bool = True

    @classmethod
    def of(cls, cluster: Cluster, snapshot: ClusterSnapshot, spec: Json) -> _Needs:
        kinds = kinds_for(cluster.pk, snapshot, spec)
        matching = min((kind.memory_bytes or 0 for kind in kinds), default=0)
        return cls(
            quota.devices(spec),
            max(matching, least_memory(spec)),
            frozenset(sharing_modes(spec)),
            frozenset(kind.driver for kind in kinds),
            len(requests(spec)),
            _has_admin_access(spec),
        )

    def met_by(self, size: _Size, memory: int, kinds: frozenset[DeviceKind]) -> bool:
        return (
            size.devices >= self.devices
            and memory >= self.memory
            and size.sharing <= self.sharing
            and {kind.driver for kind in kinds} >= self.drivers
            and len(requests(size.spec)) >= self.requests
            and (self.admin or not _has_admin_access(size.spec))
        )


def _has_admin_access(spec: Json) -> bool:
    return any(request.admin for request in device_requests(spec))


def _open_profiles(team: UUID) -> QuerySet[Profile]:
    """Return the profiles open to a team; by id, because rows with a spec are too long to compare."""
    is_open = Profile.objects.open_to(Team(pk=team)).filter(current__isnull=False).order_by().values("pk")
    return Profile.objects.filter(pk__in=is_open).select_related("current").order_by("title")


OPEN_PROFILES: PreparedObjects[Profile] = PreparedObjects(_open_profiles, UUID)


type _Offer = tuple[int, frozenset[DeviceKind], int]


def _offer(cluster: Cluster, snapshot: ClusterSnapshot, size: _Size, claims: int) -> _Offer | None:
    """
    Return the free devices, kinds and smallest memory for claims that all fit; None if they do not.

    Computed once per spec and snapshot, so the next request of anybody finds the result.
    """

    def computed() -> _Offer | None:
        preview = match.preview(snapshot, size.spec, claims=claims)
        if not preview.fits or preview.free is None:
            return None
        memory = _smallest_memory(cluster, snapshot, size.spec)
        return preview.free, kinds_for(cluster.pk, snapshot, size.spec), memory

    return snapshot.derived(("offer", size.spec_hash, claims), computed)


class _QuotaHeadroom:
    """The free devices of a team's quotas."""

    def __init__(self, usages: Sequence[QuotaUsage]) -> None:
        self.by_class: dict[str, int] = {}
        self.by_profile: dict[object, int] = {}
        for usage in usages:
            if usage.quota.profile_id:
                self.by_profile[usage.quota.profile_id] = usage.free
            else:
                self.by_class[usage.quota.device_class] = usage.free

    def fits(self, profile: Profile, size: _Size, parallel: int) -> bool:
        needs = size.devices * parallel
        return self.by_profile.get(profile.pk, needs) >= needs and all(
            self.by_class.get(name, -1) >= count * parallel for name, count in size.charge.items()
        )


def _sorted(suggestions: Sequence[Suggestion]) -> list[Suggestion]:
    prices = listing.max_prices([suggestion.kinds for suggestion in suggestions])
    known_prices = [price for price in prices if price is not None]
    if len(known_prices) == len(suggestions):
        cost: dict[object, Decimal] = {
            row.profile.pk: price * row.devices for row, price in zip(suggestions, known_prices, strict=True)
        }
        return sorted(suggestions, key=lambda row: (cost[row.profile.pk], row.memory, row.profile.title))
    return sorted(suggestions, key=lambda row: (row.memory, row.devices, row.profile.title))


def _smallest_memory(cluster: Cluster, snapshot: ClusterSnapshot, spec: Json) -> int:
    """Return the memory of the smallest free device that matches the spec, 0 if unknown."""
    kinds = {
        kind
        for request in device_requests(spec)
        for kind in kinds_among(cluster.pk, snapshot, funnel(snapshot, request).free, request.capacity)
    }
    return min((kind.memory_bytes or 0 for kind in kinds), default=0)


@dataclass(frozen=True, slots=True)
class BlockerRow:
    """
    One claim would fit on the node if these holders released their devices; hidden names are masked.

    `is_reclaimable` is told to platform admins: all of them are of teams whose used-up budget says so.
    """

    node: str
    holders: tuple[Holder, ...]
    is_reclaimable: bool = False


@dataclass(frozen=True, slots=True)
class VisibleBlockers:
    """`sentence` is empty unless enough is free but scattered."""

    sentence: str
    rows: tuple[BlockerRow, ...]


def blockers_for(person: Person, cluster: Cluster, snapshot: ClusterSnapshot, spec: Json) -> VisibleBlockers:
    """
    Return claims whose release would free enough devices for `spec`; the number of queries is constant.

    For platform admins those stand first that budgets make reclaimable.
    """
    idle = frozenset(
        f"{namespace}/{name}"
        for namespace, name in Device.objects.present()
        .filter(cluster=cluster)
        .in_use(DeviceUse.IDLE)
        .values_list("held_by__namespace", "held_by__name")
    )
    key = ("blockers", spec_hash(spec), idle)
    result = snapshot.derived(key, lambda: find_blockers(snapshot, spec, idle))
    names = {name for blocker in result.blockers for name in blocker.claims}
    rows = ResourceClaim.objects.filter(
        cluster=cluster, gone_at=None, name__in={name.partition("/")[2] for name in names}
    ).defer("raw")
    by_name = {full: row for row in rows if (full := f"{row.namespace}/{row.name}") in names}
    holders = holders_for(person, by_name.values())
    reclaimable = set(reclaimable_namespaces(cluster)) if person.is_superuser else set()
    found = [
        BlockerRow(
            blocker.node,
            tuple(holders[by_name[name].pk] for name in blocker.claims),
            all(by_name[name].namespace in reclaimable for name in blocker.claims),
        )
        for blocker in result.blockers
        if all(name in by_name for name in blocker.claims)
    ]
    return VisibleBlockers(result.sentence, tuple(sorted(found, key=lambda row: not row.is_reclaimable)))
