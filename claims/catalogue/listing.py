"""
The entries of the catalogue: what matches and is free, what it costs, who approves; filtered and sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string

from claims.approvals.rules import Rule, Rules
from claims.catalogue.sharing import Sharing, sharing_of
from claims.catalogue.waits import NO_WAITS, Waits, waits
from claims.models import Approval, Profile, ProfileVersion, Quota, TeamNamespace
from claims.plans.plan import permission_problems
from core.text import counted
from core.times import duration
from dra import quota
from dra.cel import CelError
from dra.cluster_snapshot import ClusterSnapshot
from dra.devices import describe
from dra.devices.vendors import NAMING_ATTRIBUTES
from dra.match.funnel import funnel
from dra.objects import Json, device_requests
from dra.pools import PoolDevice
from dra.selector_results import DeviceMask
from inventory.cluster_snapshot import current_snapshot
from inventory.models import Cluster
from teams.access import teams_where
from teams.models import Role, Team, User


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """
    Devices that are alike in one cluster. `fraction` is the part of a whole one that each of them is;
    `memory_bytes` is None where a device does not say.
    """

    cluster_id: UUID
    driver: str
    product: str
    fraction: Fraction
    memory_bytes: int | None = None


def kinds_among(cluster_id: UUID, snapshot: ClusterSnapshot, devices: DeviceMask) -> frozenset[DeviceKind]:
    """Return the kinds among some devices of a picture; each kind is described once, not each device."""
    found = set()
    for device, alike in snapshot.device_index.groups_by(_look):
        if alike & devices:
            known = describe(device.driver, device.raw)
            found.add(
                DeviceKind(cluster_id, device.driver, known.product, known.fraction, known.memory_bytes)
            )
    return frozenset(found)


def kinds_for(cluster_id: UUID, snapshot: ClusterSnapshot, spec: Json) -> frozenset[DeviceKind]:
    """
    Return the kinds that match `spec`, free or not; none where a selector cannot be run here.

    Admin access takes no device from anybody (KEP 5018) and is not billed, so it counts for nothing.
    """
    matching: DeviceMask = 0
    for ask in device_requests(spec):
        if ask.admin:
            continue
        try:
            matching |= funnel(snapshot, ask).accepted
        except KeyError:
            continue  # the cluster has no such class, hence no such device
        except CelError:
            return frozenset()
    return kinds_among(cluster_id, snapshot, matching)


def _look(device: PoolDevice) -> Hashable:
    attributes = device.raw.get("attributes") or {}
    memory = str((device.raw.get("capacity") or {}).get("memory"))
    return device.driver, memory, tuple(str(attributes.get(name)) for name in NAMING_ATTRIBUTES)


def max_prices(offers: Sequence[frozenset[DeviceKind]]) -> list[Decimal | None]:
    """Return the highest price per device and hour of each offer, None without a rate."""
    prices: list[Decimal | None] = import_string(settings.MAX_PRICES)(offers)
    return prices


NAMED = 3  # teams that a sentence names; of more it says how many


@dataclass(frozen=True, slots=True)
class TeamApproval:
    """Who approves requests of one team; up to so many devices, for so long (None: however long), nobody."""

    team: Team
    approval: Approval
    automatic_devices: int
    automatic_duration: timedelta | None

    @property
    def sentence(self) -> str:
        return sentence_of(self.approval, self.automatic_devices, self.automatic_duration)


@dataclass(frozen=True, slots=True)
class WhoApproves:
    """
    `sentence` says it for all of the reader's teams at once; `of_teams` has what holds for each of them, and
    is empty for somebody who is a member of none.
    """

    sentence: str
    of_teams: tuple[TeamApproval, ...]
    asks_nobody: bool  # some requests of some team need no approval


def who_approves(version: ProfileVersion, teams: Sequence[Team], rules: Rules) -> WhoApproves:
    """
    Say who approves requests of these teams for a version, by `rules` that were read for them; makes no
    query.

    Where it is the same for all, it is said once; else with the names of the teams. Without a team it is what
    holds for any team that has no rule of its own.
    """
    if not teams:
        rule = rules.rule_for_any_team(version)
        said = sentence_of(rule.approval, rule.automatic_devices, rule.automatic_duration)
        return WhoApproves(said, (), rule.may_be_automatic)
    found = [rules.rule(team.pk, version) for team in teams]
    each = tuple(_of_team(team, rule) for team, rule in zip(teams, found, strict=True))
    groups: dict[str, list[Team]] = {}
    for one in each:
        groups.setdefault(one.sentence, []).append(one.team)
    if len(groups) == 1:
        (said,) = groups
    else:
        said = " ".join(f"{_named(members)}: {sentence}" for sentence, members in groups.items())
    return WhoApproves(said, each, any(rule.may_be_automatic for rule in found))


def sentence_of(approval: Approval, most: int, longest: timedelta | None) -> str:
    """Say who approves, and up to how much nobody is asked."""
    if approval == Approval.AUTOMATIC:
        return "No approval needed."
    who = {
        Approval.LEAD: "A lead of your team approves.",
        Approval.ADMIN: "A platform admin approves.",
        Approval.BOTH: "A lead of your team approves, then a platform admin.",
    }[approval]
    if not most:
        return who
    size = f"{counted(most, 'device')}"
    if longest is not None:
        size = f"{size} for {duration(longest)}"
    return f"{who} Up to {size} needs no approval."


def _of_team(team: Team, rule: Rule) -> TeamApproval:
    return TeamApproval(team, rule.approval, rule.automatic_devices, rule.automatic_duration)


def _named(teams: Sequence[Team]) -> str:
    names = [team.slug for team in teams]
    if len(names) <= NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:NAMED])} and {counted(len(names) - NAMED, 'more', 'more')}"


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """
    One profile. `total` devices match in the clusters where the asker's teams work, `free` of them are free
    now.

    Both are None where a selector cannot be run here: unknown, not 0. `kinds` are those of the devices that
    match, which is what a price depends on; `price` is the most that one of them costs an hour, None where
    nobody knows.
    """

    profile: Profile
    version: ProfileVersion
    free: int | None
    total: int | None
    kinds: frozenset[DeviceKind]
    who: WhoApproves
    reason: str  # why it may not be requested, "" if it may
    price: Decimal | None = None
    waits: Waits = NO_WAITS

    @property
    def taken(self) -> int:
        return (self.total or 0) - (self.free or 0)

    @property
    def memory(self) -> int | None:
        """Bytes that every device that matches has at least; None where that cannot be told."""
        sizes = [kind.memory_bytes for kind in self.kinds]
        known = [size for size in sizes if size is not None]
        return min(known) if known and len(known) == len(sizes) else None

    @property
    def memory_most(self) -> int | None:
        """Bytes of the largest device that matches."""
        return max((kind.memory_bytes or 0 for kind in self.kinds), default=0) or None

    @property
    def sharing(self) -> list[Sharing]:
        return sharing_of(self.version.spec, [kind.fraction for kind in self.kinds])

    @property
    def asks_nobody(self) -> bool:
        """Whether some requests of the asker's teams need no approval."""
        return self.who.asks_nobody

    @property
    def approval_sentence(self) -> str:
        """Who approves requests of the asker's teams."""
        return self.who.sentence

    @property
    def products(self) -> list[str]:
        return sorted({kind.product for kind in self.kinds})

    @property
    def may_request(self) -> bool:
        return not self.reason


@dataclass(slots=True)
class _Requester:
    """
    The teams for which somebody may ask, the clusters in which those work, and the classes they have quota
    for.
    """

    user: User
    teams: list[Team]
    clusters: list[Cluster]
    rules: Rules
    classes: dict[UUID, set[str]] = field(default_factory=dict)
    placed: set[UUID] = field(default_factory=set)  # teams with a namespace somewhere

    def teams_open_to(self, profile: Profile) -> list[Team]:
        """Return those of the teams that may ask for the profile."""
        allowed = {team.pk for team in profile.teams.all()}
        return [team for team in self.teams if not allowed or team.pk in allowed]


def catalogue(user: User) -> list[CatalogueEntry]:
    """Return every profile that `user` may see, in a number of queries that depends on the clusters alone."""
    return entries(user, Profile.objects.visible_to(user).filter(current__isnull=False))


def entries(user: User, profiles: Iterable[Profile]) -> list[CatalogueEntry]:
    """Return the entries of these profiles."""
    ids = [profile.pk for profile in profiles]
    found = Profile.objects.filter(pk__in=ids).select_related("current__profile").prefetch_related("teams")
    by_id = {profile.pk: profile for profile in found}
    requester = _requester(user)
    pictures = {cluster.pk: current_snapshot(cluster) for cluster in requester.clusters}
    counted = [_entry(by_id[pk], requester, pictures) for pk in ids if pk in by_id]
    prices, waited = max_prices([entry.kinds for entry in counted]), waits()
    return [
        replace(entry, price=price, waits=waited.get(entry.profile.pk, NO_WAITS))
        for entry, price in zip(counted, prices, strict=True)
    ]


def _requester(user: User) -> _Requester:
    teams = teams_where(user, at_least=Role.MEMBER)
    rows = TeamNamespace.objects.filter(team__in=teams, cluster__enabled=True)
    pairs = list(rows.values_list("team", "cluster"))
    clusters = Cluster.objects.filter(pk__in={cluster for _team, cluster in pairs}).defer("credentials")
    requester = _Requester(
        user, teams, list(clusters), Rules(teams), placed={team for team, _cluster in pairs}
    )
    quotas = Quota.objects.filter(team__in=teams, devices__gt=0).exclude(device_class="")
    for team, device_class in quotas.values_list("team", "device_class"):
        requester.classes.setdefault(team, set()).add(device_class)
    return requester


def _entry(
    profile: Profile, requester: _Requester, pictures: Mapping[UUID, ClusterSnapshot]
) -> CatalogueEntry:
    version = profile.current
    assert version is not None  # only such are shown  # noqa: S101
    counts = [_count(cluster, snapshot, version) for cluster, snapshot in pictures.items()]
    known = [count for count in counts if count is not None]
    unknown = len(known) < len(counts)
    return CatalogueEntry(
        profile=profile,
        version=version,
        free=None if unknown else sum(free for free, _total, _kinds in known),
        total=None if unknown else sum(total for _free, total, _kinds in known),
        kinds=frozenset().union(*(kinds for _free, _total, kinds in known)),
        who=who_approves(version, requester.teams_open_to(profile), requester.rules),
        reason=_reason(profile, version, requester),
    )


def _reason(profile: Profile, version: ProfileVersion, requester: _Requester) -> str:
    if profile.retired_at is not None:
        return "This profile is retired."
    if not requester.teams:
        return "You are not a member of any team. Ask a team owner to add you first."
    if problems := permission_problems(requester.user, version.spec):
        return problems[0]
    teams = requester.teams_open_to(profile)
    if not teams:
        return "This profile is not open to your teams."
    teams = [team for team in teams if team.pk in requester.placed]
    if not teams:
        return "Your team has no namespace in any cluster."
    classes = set(quota.charge(version.spec))
    if not any(classes <= requester.classes.get(team.pk, set()) for team in teams):
        return f"Your team has no quota for {', '.join(sorted(classes))} devices."
    return ""


def _count(
    cluster_id: UUID, snapshot: ClusterSnapshot, version: ProfileVersion
) -> tuple[int, int, frozenset[DeviceKind]] | None:
    """
    Return how many devices are free, how many match, and of what kinds; None if that cannot be told.
    """
    free: DeviceMask = 0
    matching: DeviceMask = 0
    for ask in device_requests(version.spec):
        try:
            found = funnel(snapshot, ask)
        except KeyError:
            continue  # the cluster has no such class, hence no such device
        except CelError:
            return None
        if found.errors:
            return None
        matching |= found.accepted
        free |= found.free
    return free.bit_count(), matching.bit_count(), kinds_among(cluster_id, snapshot, matching)


GB = 10**9  # models are named by it: a GPU "of 80 GB" has 79.6 GiB
LAST = float("inf")

SORTS: dict[str, Callable[[CatalogueEntry], object]] = {
    "title": lambda entry: 0,
    "free": lambda entry: -(entry.free or 0),
    "price": lambda entry: LAST if entry.price is None else entry.price,
    "memory": lambda entry: -(entry.memory or 0),
    "wait": lambda entry: (
        LAST if entry.waits.device.median is None else entry.waits.device.median.total_seconds()
    ),
    "devices": lambda entry: -entry.version.max_devices,
}


@dataclass(frozen=True, slots=True)
class CatalogueFilter:
    """
    Conditions of which each profile has to meet all; what is empty asks for nothing.

    `memory_gb` is GB (10⁹ bytes) of every device that may come, `price` is per device and hour at most. What
    cannot be told meets no condition: a profile without a price is not known to be cheap.
    """

    words: str = ""
    memory_gb: int | None = None
    model: str = ""
    sharing: str = ""
    price: Decimal | None = None
    free: bool = False
    mine: bool = False
    automatic: bool = False

    def keeps(self, entry: CatalogueEntry) -> bool:
        return (
            (self.memory_gb is None or (entry.memory or 0) >= self.memory_gb * GB)
            and (not self.model or self.model.lower() in (one.lower() for one in entry.products))
            and (not self.sharing or self.sharing in entry.sharing)
            and (self.price is None or (entry.price is not None and entry.price <= self.price))
            and (not self.free or bool(entry.free))
            and (not self.mine or entry.may_request)
            and (not self.automatic or entry.asks_nobody)
            and _says(entry, self.words)
        )


def narrowed(
    entries: Iterable[CatalogueEntry], wanted: CatalogueFilter, sort: str = "title"
) -> list[CatalogueEntry]:
    """Return the entries that meet all conditions; `sort` is one of SORTS, and the title settles ties."""
    kept = sorted((one for one in entries if wanted.keeps(one)), key=lambda one: one.profile.title.lower())
    return sorted(kept, key=SORTS[sort])  # type: ignore[arg-type]  # each answers with one kind of value


def _says(entry: CatalogueEntry, words: str) -> bool:
    profile = entry.profile
    text = " ".join([profile.title, profile.slug, profile.use, *entry.products, *entry.sharing]).lower()
    return all(word in text for word in words.lower().split())
