"""
The entries of the catalogue: what matches and is free, what it costs, who approves; filtered and sorted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from itertools import compress, repeat
from typing import Any, NamedTuple, Protocol, overload
from uuid import UUID

from django.conf import settings
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Exists, F, OuterRef, QuerySet
from django.utils.module_loading import import_string

from claims.approvals.rules import Rule, Rules, TeamRules
from claims.catalogue.sharing import Sharing, sharing_modes
from claims.catalogue.waits import NO_WAITS, Waits, waits_of
from claims.models import (
    Approval,
    Budget,
    Profile,
    ProfileAvailability,
    ProfileQuerySet,
    ProfileVersion,
    Quota,
    TeamNamespace,
)
from claims.plans.plan import permission_problems
from core.prepared import Prepared, PreparedObjects
from core.text import counted
from core.times import duration
from dra import quota
from dra.allocator import AllocationError, capacity
from dra.cel import CelError
from dra.cluster_snapshot import ClusterSnapshot
from dra.devices import NAMING_ATTRIBUTES, describe, memory_share, mig_compute, model_name, share
from dra.match.funnel import funnel
from dra.nodes import name_of_node
from dra.objects import Json, device_requests
from dra.pools import PoolDevice
from dra.price_facts import labels_key
from dra.selector_results import DeviceMask
from inventory.models import BasisKey
from teams.access import team_rows_where
from teams.models import Role, Team, User


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """
    Devices of one product and price basis in one cluster. `fraction` is the part of a GPU that each device
    is; `memory_bytes` is None if the devices publish none.
    """

    cluster_id: UUID
    driver: str
    product: str
    fraction: Fraction
    memory_bytes: int | None = None
    compute: Fraction | None = None  # of a MIG device: its part of the compute slices; None: `fraction`
    basis: UUID | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the kind as `ProfileAvailability.kinds` has it; the row names the cluster."""
        return {
            "driver": self.driver,
            "product": self.product,
            "fraction": str(self.fraction),
            "memory_bytes": self.memory_bytes,
            "compute": None if self.compute is None else str(self.compute),
            "basis": None if self.basis is None else str(self.basis),
        }

    @staticmethod
    def from_json(cluster_id: UUID, stored: dict[str, Any]) -> DeviceKind:
        values = (stored[name] for name in ("driver", "product", "fraction", "memory_bytes"))
        return _stored_kind(cluster_id, *values, stored.get("compute"), stored.get("basis"))


@lru_cache(maxsize=10_000)  # a fleet has few kinds, and each page with prices reads them
def _stored_kind(
    cluster_id: UUID,
    driver: str,
    product: str,
    fraction: str,
    memory_bytes: int | None,
    compute: str | None,
    basis: str | None,
) -> DeviceKind:
    return DeviceKind(
        cluster_id,
        driver,
        product,
        Fraction(fraction),
        memory_bytes,
        Fraction(compute) if compute else None,
        UUID(basis) if basis else None,
    )


def kinds_among(
    cluster_id: UUID, snapshot: ClusterSnapshot, devices: DeviceMask, requested: Json | None = None
) -> frozenset[DeviceKind]:
    """
    Return the kinds of some devices of a snapshot; describes one device of each kind.

    Of a shareable device, a request of the capacities `requested` gets a share with its own size.
    """
    kinds = set()
    for device, alike in snapshot.device_index.groups_by(_kind_key):
        if of_kind := alike & devices:
            kind, consumed = describe(device.driver, device.raw), _consumed(device, requested or {})
            fraction = kind.fraction * share(device.raw, consumed) if consumed else kind.fraction
            memory = memory_share(device.driver, consumed) or kind.memory_bytes
            compute = mig_compute(kind.partition, kind.product)
            for key in _labels_keys(snapshot, device, of_kind):
                basis = BasisKey(cluster_id, device.driver, kind.product, kind.partition, key).pk
                kinds.add(
                    DeviceKind(cluster_id, device.driver, kind.product, fraction, memory, compute, basis)
                )
    return frozenset(kinds)


def _labels_keys(snapshot: ClusterSnapshot, device: PoolDevice, alike: DeviceMask) -> set[str]:
    """Return which labels the nodes of some devices have, as their keys; `device` is one of them."""
    if not device.node_name:
        return {""}
    numbers, keys = snapshot.nodes_by(_labels_key)
    if len(keys) == 1:
        return set(keys)
    return {keys[number] for number in set(compress(numbers, snapshot.node_runs.counts(alike)))} or {""}


def _labels_key(node: Json) -> str:
    return labels_key(node["metadata"].get("labels") or {}, name_of_node(node))


def _consumed(device: PoolDevice, requested: Json) -> dict[str, str]:
    """Return what a share of the `requested` capacities consumes of a device, {} if it takes it whole."""
    if not requested or device.raw.get("allowMultipleAllocations") is not True:
        return {}
    with suppress(AllocationError):
        amounts = capacity.share(device, requested, {}, fractional=True) or {}
        return {name: str(amount) for name, amount in amounts.items()}
    return {}


def kinds_for(cluster_id: UUID, snapshot: ClusterSnapshot, spec: Json) -> frozenset[DeviceKind]:
    """
    Return the kinds of devices that match `spec`, free or not; none if a selector cannot be evaluated here.

    Requests with admin access allocate no device (KEP 5018) and are not billed, so they do not count.
    """
    kinds: set[DeviceKind] = set()
    for request in device_requests(spec):
        if request.admin:
            continue
        try:
            accepted = funnel(snapshot, request).accepted
        except KeyError:
            continue  # the cluster has no such class, hence no such device
        except CelError:
            return frozenset()
        kinds |= kinds_among(cluster_id, snapshot, accepted, request.capacity)
    return frozenset(kinds)


def _kind_key(device: PoolDevice) -> Hashable:
    attributes = device.raw.get("attributes") or {}
    shareable = device.raw.get("allowMultipleAllocations") is True
    published = device.raw.get("capacity") or {}
    sizes = str(published if shareable else published.get("memory"))
    local = bool(device.node_name)
    return (
        device.driver,
        shareable,
        sizes,
        local,
        tuple(str(attributes.get(name)) for name in NAMING_ATTRIBUTES),
    )


def max_prices(offers: Sequence[frozenset[DeviceKind]], currency: str = "") -> list[Decimal | None]:
    """Return the highest price per device and hour of each offer, None without a rate in the currency."""
    prices: list[Decimal | None] = import_string(settings.MAX_PRICES)(offers, currency)
    return prices


MAX_NAMED = 3  # teams or models that a sentence names; the others are counted


class NamedTeam(Protocol):
    @property
    def pk(self) -> UUID: ...
    @property
    def slug(self) -> str: ...


class RequestingTeam(NamedTuple):
    """
    A team for which a person may request, its clusters, the device classes for which it has quota, and
    whether it has a budget.
    """

    pk: UUID
    slug: str
    clusters: list[UUID]
    classes: list[str]
    has_budget: bool


@dataclass(frozen=True, slots=True)
class TeamApproval:
    """
    Who approves requests of one team. Up to `automatic_devices` for at most `automatic_duration` (None: any)
    need no approval.
    """

    team: NamedTeam
    approval: Approval
    automatic_devices: int
    automatic_duration: timedelta | None

    @property
    def sentence(self) -> str:
        return approval_in_words(self.approval, self.automatic_devices, self.automatic_duration)


@dataclass(frozen=True, slots=True)
class TeamApprovals(Sequence[TeamApproval]):
    """Who approves requests of each team, made when it is read: a platform admin has every team."""

    teams: Sequence[NamedTeam]
    default: Rule
    rules: Mapping[int, Rule]  # of teams with a rule of their own, by their position in `teams`

    def __len__(self) -> int:
        return len(self.teams)

    @overload
    def __getitem__(self, index: int) -> TeamApproval: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[TeamApproval]: ...
    def __getitem__(self, index: int | slice) -> TeamApproval | Sequence[TeamApproval]:
        if isinstance(index, slice):
            places = enumerate(range(len(self.teams))[index])
            rules = {place: self.rules[number] for place, number in places if number in self.rules}
            return TeamApprovals(self.teams[index], self.default, rules)
        position = range(len(self.teams))[index]
        return _team_approval(self.teams[position], self.rules.get(position, self.default))

    def with_rules(self) -> Iterator[tuple[NamedTeam, Rule]]:
        """Yield each team with the rule that applies to it; many teams share a rule."""
        if not self.rules:
            return zip(self.teams, repeat(self.default))
        return ((team, self.rules.get(place, self.default)) for place, team in enumerate(self.teams))


def _team_approval(team: NamedTeam, rule: Rule) -> TeamApproval:
    return TeamApproval(team, rule.approval, rule.automatic_devices, rule.automatic_duration)


@dataclass(frozen=True, slots=True)
class WhoApproves:
    """
    `sentence` covers all teams of the reader, `brief` does in a few words; `of_teams` has each of them and is
    empty for a reader without a team.
    """

    sentence: str
    of_teams: Sequence[TeamApproval]
    sometimes_automatic: bool  # some requests of some team need no approval
    brief: str = ""


UNKNOWN_APPROVAL = WhoApproves("", (), sometimes_automatic=False)


def who_approves(
    version: ProfileVersion,
    teams: Sequence[NamedTeam],
    rules: Rules,
    rows: TeamRules | None = None,
) -> WhoApproves:
    """
    Return who approves requests of these teams for a version, by `rules` that were read for them. No query.

    The sentence names the teams only if they differ. Without a team it describes a team that has no rule.
    `rows` are `Rules.rows_by_place` of the teams, if the caller has them.
    """
    default = rules.rule_for_any_team(version)
    if not teams:
        return WhoApproves(_sentence(default), (), default.may_be_automatic, _brief(default))
    own = rules.own_rules(rules.rows_by_place(teams) if rows is None else rows, version)
    applied = {id(rule): rule for rule in own.values()}
    if len(own) < len(teams):
        applied[id(default)] = default
    sentences = {key: _sentence(rule) for key, rule in applied.items()}
    if len(set(sentences.values())) == 1:
        sentence = next(iter(sentences.values()))
    else:
        groups: dict[str, list[NamedTeam]] = {}
        for place, team in enumerate(teams):
            groups.setdefault(sentences[id(own.get(place, default))], []).append(team)
        sentence = " ".join(f"{_team_names(members)}: {text}" for text, members in groups.items())
    approvals = TeamApprovals(teams, default, own)
    briefs = {_brief(rule) for rule in applied.values()}
    brief = briefs.pop() if len(briefs) == 1 else "By team"
    return WhoApproves(sentence, approvals, any(rule.may_be_automatic for rule in applied.values()), brief)


def _sentence(rule: Rule) -> str:
    return approval_in_words(rule.approval, rule.automatic_devices, rule.automatic_duration)


def _brief(rule: Rule) -> str:
    """Return "Team lead", "Automatic up to 2 for 3 d" or the like: a fact of a card."""
    if rule.approval == Approval.AUTOMATIC:
        return "Automatic"
    if rule.automatic_devices:
        span = f" for {duration(rule.automatic_duration)}" if rule.automatic_duration else ""
        return f"Automatic up to {rule.automatic_devices}{span}"
    return {
        Approval.LEAD: "Team lead",
        Approval.ADMIN: "Platform admin",
        Approval.BOTH: "Team lead and platform admin",
    }[rule.approval]


def approval_in_words(
    approval: Approval, automatic_devices: int, automatic_duration: timedelta | None
) -> str:
    """Return a sentence on who approves, and one on which requests need no approval."""
    if approval == Approval.AUTOMATIC:
        return "No approval needed."
    who = {
        Approval.LEAD: "A lead of your team approves.",
        Approval.ADMIN: "A platform admin approves.",
        Approval.BOTH: "A lead of your team approves, then a platform admin.",
    }[approval]
    if not automatic_devices:
        return who
    size = counted(automatic_devices, "device")
    if automatic_duration is not None:
        size = f"{size} for {duration(automatic_duration)}"
    return f"{who} Up to {size} {'needs' if automatic_devices == 1 else 'need'} no approval."


def _team_names(teams: Sequence[NamedTeam]) -> str:
    names = [team.slug for team in teams]
    if len(names) <= MAX_NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:MAX_NAMED])} and {counted(len(names) - MAX_NAMED, 'more', 'more')}"


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """
    One profile, as one reader sees it. `total` devices match in the clusters of the reader's teams, `free` of
    them are free now, one claim fits on `nodes` nodes and could get at most `most` devices. They are as of
    `computed_at`, and None (unknown, not 0) if a cluster has not been counted or a selector cannot be
    evaluated here.

    `kinds` are those of the matching devices; the price depends on them. `price` is the highest price of one
    device per hour, None without a rate.
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
    nodes: int | None = None
    most: int | None = None
    computed_at: datetime | None = None  # of the cluster that was counted first
    budgeted: frozenset[UUID] = frozenset()  # teams of the reader that have a budget

    @property
    def held(self) -> int:
        return (self.total or 0) - (self.free or 0)

    @property
    def memory(self) -> int | None:
        """The memory of the smallest matching device in bytes; None if a device publishes none."""
        sizes = [kind.memory_bytes for kind in self.kinds]
        published = [size for size in sizes if size is not None]
        return min(published) if published and len(published) == len(sizes) else None

    @property
    def max_memory(self) -> int | None:
        """The memory of the largest matching device in bytes."""
        return max((kind.memory_bytes or 0 for kind in self.kinds), default=0) or None

    @property
    def sharing(self) -> list[Sharing]:
        return sharing_modes(self.version.spec, [kind.fraction for kind in self.kinds])

    @property
    def sometimes_automatic(self) -> bool:
        """Whether some requests of the reader's teams need no approval."""
        return self.who.sometimes_automatic

    @property
    def approval_sentence(self) -> str:
        """Who approves requests of the reader's teams."""
        return self.who.sentence

    @property
    def products(self) -> list[str]:
        return sorted({kind.product for kind in self.kinds})

    @property
    def models(self) -> str:
        """The models of the matching devices: "A100, H100" or "4 models"."""
        names = sorted({model_name(product) for product in self.products})
        return ", ".join(names) if len(names) <= MAX_NAMED else counted(len(names), "model")

    @property
    def may_request(self) -> bool:
        return not self.reason


@dataclass(slots=True)
class _Requester:
    """
    The teams for which a user may request, the clusters of those teams, and the classes for which they have
    quota.
    """

    user: User
    teams: Sequence[NamedTeam]
    clusters: set[UUID]
    rules: Rules | None
    classes: dict[UUID, Collection[str]] = field(default_factory=dict)
    with_namespace: set[UUID] = field(default_factory=set)  # teams
    allowed: dict[UUID, set[UUID]] = field(default_factory=dict)  # teams by profile; others are open to all
    budgeted: frozenset[UUID] = frozenset()  # teams with a budget

    _who: dict[Hashable, WhoApproves] = field(default_factory=dict)
    _places: dict[UUID, int] = field(default_factory=dict)  # of teams, if some profile is restricted
    _rows: TeamRules | None = None  # of `teams`

    def who_approves(self, version: ProfileVersion, teams: Sequence[NamedTeam]) -> WhoApproves:
        """Return who approves requests of `teams`; worked out once for all versions with the same rules."""
        if self.rules is None:
            return UNKNOWN_APPROVAL
        default, profile = self.rules.rule_for_any_team(version), version.profile_id
        own = (version.approval, version.automatic_devices, version.automatic_duration)
        of_teams = profile if profile in self.rules.profiles or profile in self.allowed else None
        key = replace(default, name=""), own, of_teams
        if key not in self._who:
            if self._rows is None:
                self._rows = self.rules.rows_by_place(self.teams)
            rows = self._rows if teams is self.teams else None
            self._who[key] = who_approves(version, teams, self.rules, rows)
        return self._who[key]

    def teams_open_to(self, profile: Profile) -> Sequence[NamedTeam]:
        """Return the teams that may request the profile."""
        allowed = self.allowed.get(profile.pk)
        if allowed is None:
            return self.teams
        if not self._places:
            self._places = {team.pk: place for place, team in enumerate(self.teams)}
        return [
            self.teams[place] for place in sorted(self._places[pk] for pk in allowed if pk in self._places)
        ]


def catalogue(user: User) -> list[CatalogueEntry]:
    """Return every profile that `user` may see, as `entries`."""
    return _with_prices(_entries(*_requested(user, _visible(is_admin=user.is_superuser).objects(user.pk))))


def entries(user: User, profiles: ProfileQuerySet) -> list[CatalogueEntry]:
    """Return the entries of these profiles, in four queries and those of prices."""
    return _with_prices(_entries(*_requested(user, _with_teams(profiles))))


def counted_catalogue(user: User) -> list[CatalogueEntry]:
    """
    Return every profile that `user` may see, without prices, waiting times and who approves; three queries.
    """
    profiles = _visible(is_admin=user.is_superuser).objects(user.pk)
    return _entries(*_requested(user, profiles, with_rules=False))


@cache
def _visible(*, is_admin: bool) -> PreparedObjects[Profile]:
    """Return the query of the profiles that a person may see."""

    def build(person: UUID) -> ProfileQuerySet:
        reader = User(pk=person, is_superuser=is_admin)
        return _with_teams(Profile.objects.visible_to(reader).filter(current__isnull=False))

    return PreparedObjects(build, UUID)


def _with_teams(profiles: ProfileQuerySet) -> ProfileQuerySet:
    """Return the profiles with current version and waits, and the teams to which each is restricted."""
    rows = Profile.objects.filter(pk__in=profiles.order_by().values("pk")).select_related("current", "waits")
    allowed = Profile.teams.through._default_manager.filter(profile=OuterRef("pk")).values("team")
    return rows.annotate(allowed=ArraySubquery(allowed))


@cache
def _requesting_teams(*, is_admin: bool) -> Prepared:
    """
    Return the query of the teams for which a person may request, with clusters, classes, and whether they
    have a budget: those who have none need no query for what is left of it.
    """
    places = TeamNamespace.objects.filter(team=OuterRef("pk"), cluster__enabled=True).order_by()
    quotas = Quota.objects.filter(team=OuterRef("pk"), devices__gt=0).exclude(device_class="").order_by()

    def build(person: UUID) -> QuerySet[Team, Any]:
        teams = team_rows_where(User(pk=person, is_superuser=is_admin), at_least=Role.MEMBER)
        arrays = ArraySubquery(places.values("cluster")), ArraySubquery(quotas.values("device_class"))
        budgets = Budget.objects.open().filter(team=OuterRef("pk"))
        return teams.values_list("pk", "slug", *arrays, Exists(budgets))

    return Prepared(build, UUID)


def _requested(
    user: User, profiles: Iterable[Any], *, with_rules: bool = True
) -> tuple[list[Any], _Requester]:
    """Return the profiles, whose teams are in `allowed`, and who requests them."""
    shown = list(profiles)
    for profile in shown:
        if profile.current is not None:
            profile.current.profile = profile
    teams = [RequestingTeam._make(row) for row in _requesting_teams(is_admin=user.is_superuser).rows(user.pk)]
    ids = None if user.is_superuser else [team.pk for team in teams]
    requester = _Requester(
        user,
        teams,
        {cluster for team in teams for cluster in team.clusters},
        Rules(ids) if with_rules else None,
        {team.pk: team.classes for team in teams},
        {team.pk for team in teams if team.clusters},
        {profile.pk: set(profile.allowed) for profile in shown if profile.allowed},
        frozenset(team.pk for team in teams if team.has_budget),
    )
    return shown, requester


def _with_prices(unpriced: Sequence[CatalogueEntry]) -> list[CatalogueEntry]:
    highest = max_prices([entry.kinds for entry in unpriced])
    return [
        replace(entry, price=price, waits=waits_of(entry.profile))
        for entry, price in zip(unpriced, highest, strict=True)
    ]


def counted_entries(
    user: User,
    profiles: Sequence[Any],
    teams: list[Team],
    places: Iterable[tuple[UUID, UUID]],
    classes: Mapping[UUID, Collection[str]] | None = None,
) -> list[CatalogueEntry]:
    """
    Return the entries of these profiles without prices, waiting times and who approves, in two queries.

    Each profile has the teams to which it is restricted as `allowed`. `teams` are those of which `user`
    is a member, `places` their namespaces (team and cluster), `classes` those for which they have quota, if
    the caller has read them.
    """
    places = list(places)
    requester = _Requester(
        user,
        teams,
        {cluster for _team, cluster in places},
        rules=None,
        with_namespace={team for team, _cluster in places},
        allowed={profile.pk: set(profile.allowed) for profile in profiles if profile.allowed},
    )
    if classes is not None:
        requester.classes.update(classes)
    else:
        quotas = Quota.objects.filter(team__in=teams, devices__gt=0).exclude(device_class="")
        for team, device_class in quotas.order_by().values_list("team", "device_class"):
            requester.classes[team] = [*requester.classes.get(team, ()), device_class]
    return _entries(profiles, requester)


def _entries(profiles: Iterable[Profile], requester: _Requester) -> list[CatalogueEntry]:
    stored = stored_availability(requester.clusters, profiles)
    return [_entry(profile, requester, stored[profile.current_id]) for profile in profiles]


def stored_availability(
    clusters: set[UUID], profiles: Iterable[Profile]
) -> defaultdict[UUID | None, list[Any]]:
    """Return what these clusters have for the current versions, by version, with `computed_at`; one query."""
    by_version: defaultdict[UUID | None, list[Any]] = defaultdict(list)
    versions = [profile.current_id for profile in profiles if profile.current_id]
    for row in AVAILABILITY.objects(list(clusters), versions) if clusters and versions else ():
        by_version[row.version_id].append(row)
    return by_version


AVAILABILITY: PreparedObjects[ProfileAvailability] = PreparedObjects(
    lambda cluster, version: (
        ProfileAvailability.objects.filter(computation=cluster, version=version)
        .order_by()
        .annotate(computed_at=F("computation__computed_at"))
    ),
    UUID,
    UUID,
    any_of=("computation_id", "version_id"),
)


def _entry(profile: Profile, requester: _Requester, availability: Sequence[Any]) -> CatalogueEntry:
    version = profile.current
    assert version is not None  # callers pass no others  # noqa: S101
    teams = requester.teams_open_to(profile)
    uncounted = len(requester.clusters) - len(availability)

    def total(figures: Iterable[int | None], combine: Callable[[list[int]], int]) -> int | None:
        known = [figure for figure in figures if figure is not None]
        unknown = not availability or uncounted or len(known) < len(availability)
        return None if unknown else combine(known)

    return CatalogueEntry(
        profile=profile,
        version=version,
        free=total((row.free for row in availability), sum),
        total=total((row.matching for row in availability), sum),
        kinds=frozenset(
            DeviceKind.from_json(row.computation_id, kind) for row in availability for kind in row.kinds
        ),
        who=requester.who_approves(version, teams),
        reason=_reason(profile, version, requester, teams),
        nodes=total((row.nodes for row in availability), sum),
        most=total((row.most for row in availability), lambda known: max(known, default=0)),
        computed_at=min((row.computed_at for row in availability), default=None),
        budgeted=requester.budgeted,
    )


def _reason(
    profile: Profile, version: ProfileVersion, requester: _Requester, teams: Sequence[NamedTeam]
) -> str:
    if profile.retired_at is not None:
        return "This profile is retired."
    if not requester.teams:
        return "You need the role “member” in a team to request devices. Ask a team owner."
    if problems := permission_problems(requester.user, version.spec):
        return problems[0]
    if not teams:
        return "This profile is not open to your teams."
    classes = set(quota.charge(version.spec))
    has_namespace = False
    for team in teams:
        if team.pk in requester.with_namespace:
            has_namespace = True
            if classes.issubset(requester.classes.get(team.pk, ())):
                return ""
    if not has_namespace:
        return "Your team has no namespace in any cluster."
    return f"Your team has no quota for {', '.join(sorted(classes))} devices."


def counted_at(entries: Iterable[CatalogueEntry]) -> datetime | None:
    """Return the time of the oldest figures of these entries."""
    return min((entry.computed_at for entry in entries if entry.computed_at is not None), default=None)


GB = 10**9  # product names use it: a GPU "of 80 GB" has 79.6 GiB
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
    Conditions that a profile must meet, all of them; empty ones do not count.

    `memory_gb` is the least memory of each matching device in GB (10⁹ bytes), `price` the highest price per
    device and hour. An unknown value meets no condition: a profile without a price is not known to be cheap.
    """

    words: str = ""
    memory_gb: int | None = None
    model: str = ""
    sharing: str = ""
    price: Decimal | None = None
    free: bool = False
    mine: bool = False
    automatic: bool = False

    def matches(self, entry: CatalogueEntry) -> bool:
        return (
            (self.memory_gb is None or (entry.memory or 0) >= self.memory_gb * GB)
            and (not self.model or self.model.lower() in (product.lower() for product in entry.products))
            and (not self.sharing or self.sharing in entry.sharing)
            and (self.price is None or (entry.price is not None and entry.price <= self.price))
            and (not self.free or bool(entry.free))
            and (not self.mine or entry.may_request)
            and (not self.automatic or entry.sometimes_automatic)
            and _has_words(entry, self.words)
        )


def filtered_entries(
    entries: Iterable[CatalogueEntry], filters: CatalogueFilter, sort: str = "title"
) -> list[CatalogueEntry]:
    """Return the entries that meet all conditions; `sort` is one of SORTS, ties are sorted by title."""
    matching = (entry for entry in entries if filters.matches(entry))
    by_title = sorted(matching, key=lambda entry: entry.profile.title.lower())
    return sorted(by_title, key=SORTS[sort])  # type: ignore[arg-type]  # each returns values of one type


def _has_words(entry: CatalogueEntry, words: str) -> bool:
    if not words:
        return True
    profile = entry.profile
    about = profile.title, profile.slug, profile.use, profile.get_purpose_display()
    text = " ".join([*about, *entry.products, *entry.sharing]).lower()
    return all(word in text for word in words.lower().split())
