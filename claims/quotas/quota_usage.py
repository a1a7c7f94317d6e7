"""
The use of each quota: limit, held, reserved, unmanaged, free, guarantees, and the parts of each figure.

A request within its team's guarantee is never refused for the guarantees of others. A request beyond it may
use only what is left when every other team has its guarantee.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.contrib.postgres.expressions import ArraySubquery
from django.core.paginator import Page, Paginator
from django.db.models import F, OuterRef, Prefetch, Q, QuerySet, Sum, prefetch_related_objects
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce, Greatest
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe

from claims.models import Alternative, Claim, Profile, Quota, QuotaIncrease
from claims.observation.unmanaged import unmanaged_objects
from claims.quotas.counts import (
    CLAIM_COUNT,
    UnmanagedByTeam,
    UnmanagedUse,
    charged_by_class,
    count_quotas,
    unmanaged_count,
    unmanaged_use,
    used_by_all_teams,
)
from claims.states import LIVE, MAY_HOLD_DEVICES
from core.markup import markup
from core.prepared import Prepared, PreparedObjects, Statement
from core.text import counted
from dra.fragmentation import max_concurrent
from dra.pools import Amounts, CounterKey, amounts
from inventory.models import Cluster, Device, DeviceClass, ResourceClaim, ResourceSlice
from teams.models import Team, User

type PoolGeneration = tuple[UUID, str, str, int]  # cluster, driver, name, generation


@dataclass(frozen=True, slots=True)
class GuaranteeShare:
    """
    A team's quota of one class: `guaranteed` devices; `used` devices above that are beyond the guarantee.
    """

    team: Team
    guaranteed: int
    used: int

    @property
    def unused(self) -> int:
        return max(self.guaranteed - self.used, 0)


@dataclass(frozen=True, slots=True)
class ClassGuarantees:
    """The guarantees of one class, and how many of its devices all teams use."""

    shares: Sequence[GuaranteeShare]  # of the teams with a guarantee
    used: int


def class_guarantees(rows: Collection[Quota], used: Mapping[str, int]) -> dict[str, ClassGuarantees]:
    """Return the guarantees by class; `rows` are the quotas with one, `used` the devices of all teams."""
    if not rows:
        return {}
    teams, classes = {row.team_id for row in rows}, {row.device_class for row in rows}
    charged, unmanaged = charged_by_class(teams, classes), unmanaged_use(teams)
    shares: dict[str, list[GuaranteeShare]] = {}
    for row in rows:
        of_team = charged.get((row.team_id, row.device_class), 0) + sum(
            unmanaged_count(row, use) for use in unmanaged.get(row.team_id, ())
        )
        shares.setdefault(row.device_class, []).append(GuaranteeShare(row.team, row.guaranteed, of_team))
    return {name: ClassGuarantees(shares[name], used.get(name, 0)) for name in sorted(classes)}


def _capacities() -> QuerySet[Cluster, Any]:
    """Return each cluster in use with its classes, and how many devices of each could be held at once."""
    classes = DeviceClass.objects.filter(cluster=OuterRef("pk"), gone_at=None).order_by().values("name")
    rows = Cluster.objects.filter(enabled=True).order_by("name")
    return rows.values_list("pk", ArraySubquery(classes), "availability__capacity")


CAPACITIES = Prepared(_capacities)


def device_capacity(classes: Iterable[str]) -> dict[str, int]:
    """
    Return how many devices of each class could be held at once in the clusters in use. A class that no
    cluster publishes is left out: unknown, not 0. Of partitions that exclude one another, those count that
    fit beside each other on free GPUs (`dra.fragmentation`).
    """
    return _total_capacity(CAPACITIES.rows(), classes)


def _total_capacity(clusters: Sequence[tuple[Any, ...]], classes: Iterable[str]) -> dict[str, int]:
    """Return `device_capacity` of rows of `CAPACITIES`."""
    shown = {name for _cluster, names, _capacity in clusters for name in names}
    capacity_by_cluster = {cluster: json.loads(capacity or "{}") for cluster, _names, capacity in clusters}
    total: dict[str, int] = {}
    for name in sorted(shown.intersection(classes)):
        uncounted = [cluster for cluster, capacity in capacity_by_cluster.items() if name not in capacity]
        total[name] = sum(capacity.get(name, 0) for capacity in capacity_by_cluster.values())
        total[name] += class_capacity(uncounted, name) if uncounted else 0
    return total


def class_capacity(clusters: Collection[UUID], name: str) -> int:
    """Return how many devices of the class could be held at once in these clusters."""
    devices = Device.objects.present().filter(cluster__in=clusters, classes__contains=[name])
    cut: dict[PoolGeneration, list[Amounts]] = defaultdict(list)
    columns = ("cluster", "driver", "pool", "slice__generation", "counters")
    for cluster, driver, pool, generation, counters in devices.exclude(counters=[]).values_list(*columns):
        cut[cluster, driver, pool, generation].append(amounts(counters, "counterSet"))
    sets = _counter_sets(cut) if cut else {}
    packed = sum(max_concurrent(takes, sets.get(pool, {})) for pool, takes in cut.items())
    return devices.filter(counters=[]).count() + packed


def _counter_sets(pools: Collection[PoolGeneration]) -> dict[PoolGeneration, dict[CounterKey, int]]:
    """Return the counters that these pools publish, in billionths."""
    clusters, _drivers, names, _generations = (set(column) for column in zip(*pools, strict=True))
    slices = ResourceSlice.objects.filter(gone_at=None, cluster__in=clusters, pool__in=names)
    columns = ("cluster", "driver", "pool", "generation", "raw__spec__sharedCounters")
    counters: dict[PoolGeneration, dict[CounterKey, int]] = defaultdict(dict)
    for *pool, sets in slices.filter(raw__spec__has_key="sharedCounters").values_list(*columns):
        counters[tuple(pool)].update((key, amount.nano) for key, amount in amounts(sets))
    return counters


def reason_for_guarantees(
    team: Team, device_class: str, needs: int, guarantees: ClassGuarantees, capacity: int | None
) -> str:
    """Return why a request of `team` may not use what is guaranteed to others, "" if it may."""
    shares = guarantees.shares
    own = next((share for share in shares if share.team.pk == team.pk), GuaranteeShare(team, 0, 0))
    others = [share for share in shares if share.team.pk != team.pk and share.unused]
    beyond = own.used + needs - max(own.guaranteed, own.used)
    guaranteed = sum(share.unused for share in others)
    if capacity is None or beyond <= 0 or not guaranteed:
        return ""
    free = max(capacity - guarantees.used, 0)
    own_unused = own.unused  # the part within the team's own guarantee is always allowed
    if beyond <= free - guaranteed - own_unused:
        return ""
    names = ", ".join(share.team.slug for share in others)
    free_devices = counted(free, f"free {device_class} device is", f"free {device_class} devices are")
    kept_for = f"{min(guaranteed, free)} of the {free_devices} guaranteed to {names}"
    if own.guaranteed:
        return f"{kept_for}; this request needs {beyond} beyond {team}'s own guarantee of {own.guaranteed}."
    return f"{kept_for}; this request needs {beyond}, and {team} has no guarantee of its own."


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """
    One quota and its use. `held` counts for claims whose devices are allocated, `reserved` for claims that
    hold none yet; `unmanaged` counts unmanaged use; `raised` is what increases add to the limit.
    `free` is never negative; `over` is what is used or reserved beyond the limit.
    """

    quota: Quota
    held: int
    reserved: int
    unmanaged: int = 0
    raised: int = 0

    @property
    def team(self) -> Team:
        return self.quota.team

    @property
    def label(self) -> str:
        return quota_label(self.quota)

    @property
    def name(self) -> SafeString:
        return quota_name(self.quota)

    @property
    def limit(self) -> int:
        return self.quota.devices + self.raised

    @property
    def guaranteed(self) -> int:
        return self.quota.guaranteed

    @property
    def used(self) -> int:
        return self.held + self.reserved + self.unmanaged

    @property
    def free(self) -> int:
        return max(self.limit - self.used, 0)

    @property
    def over(self) -> int:
        return max(self.used - self.limit, 0)

    @property
    def within(self) -> int:
        """Devices held within the guarantee; without one, all that are held."""
        return min(self.held, self.guaranteed) if self.guaranteed else self.held

    @property
    def beyond(self) -> int:
        """Devices held beyond the guarantee."""
        return self.held - self.within

    @property
    def sentence(self) -> str:
        """ "vision holds 6 of 8 gpu.nvidia.com devices and 1 is reserved"."""
        sentence = _held_sentence(self.quota, self.held, self.limit)
        if self.unmanaged:
            sentence = f"{sentence}, plus {self.unmanaged} unmanaged{',' if self.reserved else ''}"
        if not self.reserved:
            return sentence
        return f"{sentence} and {counted(self.reserved, 'is', 'are')} reserved"


WAYS_OUT = "Release a claim of the team, request fewer devices, or ask for more quota."


@dataclass(frozen=True, slots=True)
class QuotaLine:
    """
    What a request of `needs` devices does to one quota. `usage` is None where the team has no such quota.

    `request_query` is the query of the page that requests more of it, "" where more would not help.
    """

    label: str
    usage: QuotaUsage | None
    needs: int
    fits: bool
    sentence: str  # with the numbers, also if it fits
    request_query: str = ""

    @property
    def name(self) -> SafeString:
        return self.usage.name if self.usage else markup("<code>{}</code>", self.label)

    @property
    def before(self) -> int:
        return self.usage.used if self.usage else 0

    @property
    def after(self) -> int:
        return self.before + self.needs

    @property
    def limit(self) -> int:
        return self.usage.limit if self.usage else 0

    @property
    def lacks(self) -> int:
        """How much the limit would have to grow; 0 where the limit is not the obstacle."""
        return max(self.after - self.limit, 0)


def quota_name(quota: Quota) -> SafeString:
    """Return what a page calls a quota beside its figures."""
    if quota.profile is not None:
        return markup('{} <span class="dg-tag">profile</span>', quota.profile.title)
    if quota.counts == Quota.Counts.CLAIMS:
        return mark_safe("Claims at once")
    return markup("<code>{}</code>", quota.device_class)


def quota_label(quota: Quota) -> str:
    """Return what a sentence, a file or the API calls a quota."""
    if quota.counts == Quota.Counts.CLAIMS:
        return "claims"
    return quota.device_class or str(quota.profile)


def team_usage(teams: Iterable[Team], unmanaged: UnmanagedByTeam | None = None) -> list[QuotaUsage]:
    """Return every quota of these teams with its use; the number of queries does not grow with them."""
    ids = [team.pk for team in teams]
    if len(ids) == 1:
        return quota_usage(QUOTAS_OF_TEAM.objects(*ids), unmanaged)
    return quota_usage(QUOTAS_OF_TEAMS.objects(ids) if ids else (), unmanaged)


def _quotas(team: UUID) -> QuerySet[Quota]:
    return Quota.objects.filter(team=team).select_related("team", "profile")


QUOTAS_OF_TEAM: PreparedObjects[Quota] = PreparedObjects(_quotas, UUID)
QUOTAS_OF_TEAMS: PreparedObjects[Quota] = PreparedObjects(_quotas, UUID, any_of="team_id")


def quota_usage(quotas: Iterable[Quota], unmanaged: UnmanagedByTeam | None = None) -> list[QuotaUsage]:
    """Return the use of these quotas. Under their lock the use by claims cannot grow."""
    rows = list(quotas)
    return [
        QuotaUsage(row, counts.held, counts.reserved, counts.unmanaged, counts.raised)
        for row, counts in zip(rows, count_quotas(rows, unmanaged), strict=True)
    ]


def charged_quotas(*, team: Team, charge: Mapping[str, int], profiles: Iterable[Profile]) -> list[Quota]:
    """Return the quota rows that a request counts against, in locking order."""
    return list(
        Quota.objects.charged(team=team, classes=charge, profiles=profiles)
        .select_related("team", "profile")
        .order_by("pk")
    )


def lock_quotas(*, team: Team, charge: Mapping[str, int], profiles: Iterable[Profile]) -> list[Quota]:
    """
    Lock the rows that limit a request and return those of the team, see docs/locking.md.

    If some teams have a guarantee of a charged class, every request for the class also locks their rows:
    devices that one team takes are no longer free for another. Call it in a transaction, right before
    counting.
    """
    profile_by_id: dict[UUID | None, Profile] = {profile.pk: profile for profile in profiles}
    charged = Quota.objects.charged(team=team, classes=charge, profiles=profile_by_id.values())
    guaranteed = Quota.objects.filter(device_class__in=list(charge), profile=None, guaranteed__gt=0)
    rows = (charged | guaranteed).select_for_update(no_key=True).order_by("pk")
    own = [row for row in rows if row.team_id == team.pk]
    for row in own:  # a locked row is read without joins, see docs/locking.md
        row.team, row.profile = team, profile_by_id.get(row.profile_id)
    return own


def quota_lines(
    rows: Iterable[Quota],
    *,
    team: Team,
    charge: Mapping[str, int],
    profiles: Mapping[Profile, int],
    claims: int = 1,
) -> list[QuotaLine]:
    """Count what stands against these rows, and return `usage_lines`."""
    return usage_lines(quota_usage(rows), team=team, charge=charge, profiles=profiles, claims=claims)


def usage_lines(
    usages: Sequence[QuotaUsage],
    *,
    team: Team,
    charge: Mapping[str, int],
    profiles: Mapping[Profile, int],
    claims: int = 1,
    with_guarantees: bool = True,
) -> list[QuotaLine]:
    """
    Return what a request does to each quota it counts against; a class without a row of the team does not
    fit. `charge` is devices per class, `profiles` devices per profile, `claims` how many claims it may make.
    No query without the guarantees of other teams.
    """
    of_claims = [usage for usage in usages if usage.quota.counts == Quota.Counts.CLAIMS]
    by_class = {usage.quota.device_class: usage for usage in usages if usage.quota.device_class}
    lines = [
        _quota_line(name, by_class.get(name), team, needs) for name, needs in sorted(charge.items()) if needs
    ]
    by_profile = {usage.quota.profile_id: usage for usage in usages if usage.quota.profile_id}
    lines += [
        _quota_line(str(profile), by_profile[profile.pk], team, needs)
        for profile, needs in profiles.items()
        if profile.pk in by_profile
    ]
    lines += [_quota_line(usage.label, usage, team, claims) for usage in of_claims if claims]
    return [*lines, *(_guarantee_lines(team, charge) if with_guarantees else ())]


def _guarantees() -> Statement:
    """Return the rows of `CAPACITIES`, each with the devices of each class that are guaranteed to teams."""
    rows = Quota.objects.filter(profile=None, guaranteed__gt=0).order_by().values_list("device_class")
    guaranteed, values = rows.annotate(total=Sum("guaranteed")).query.sql_with_params()
    capacities, more = _capacities().query.sql_with_params()
    sql = """SELECT capacity.*, (SELECT json_object_agg(name, total)::text
             FROM ({}) AS guaranteed(name, total)) FROM ({}) AS capacity"""
    return sql.format(guaranteed, capacities), (*values, *more)


GUARANTEES = Prepared(_guarantees)


def _guarantee_lines(team: Team, charge: Mapping[str, int]) -> list[QuotaLine]:
    """Return a line for each class for which the request would use devices guaranteed to other teams."""
    clusters = GUARANTEES.rows()
    guaranteed: dict[str, int] = json.loads((clusters and clusters[0][-1]) or "{}")
    totals = {name: total for name, total in guaranteed.items() if charge.get(name)}
    if not totals:
        return []
    used, capacity = used_by_all_teams(totals), _total_capacity([row[:-1] for row in clusters], totals)
    # If at least all guarantees together are free, the use of each does not matter.
    scarce = {
        name
        for name, total in totals.items()
        if name in capacity and charge[name] > capacity[name] - used[name] - total
    }
    rows = Quota.objects.filter(device_class__in=scarce, profile=None, guaranteed__gt=0)
    scarce_rows = list(rows.select_related("team")) if scarce else []
    lines = []
    for name, guarantees in class_guarantees(scarce_rows, used).items():
        if refusal := reason_for_guarantees(team, name, charge[name], guarantees, capacity[name]):
            lines.append(QuotaLine(name, None, charge[name], fits=False, sentence=refusal))
    return lines


def _held_sentence(quota: Quota, held: int, limit: int) -> str:
    if quota.counts == Quota.Counts.CLAIMS:
        return f"{quota.team} has {held} of {_of_limit(quota, limit)} in use"
    return f"{quota.team} holds {held} of {_of_limit(quota, limit)}"


def _of_limit(quota: Quota, limit: int) -> str:
    """Return "8 claims", "8 devices of profile train-80" or "8 gpu.nvidia.com devices"."""
    if quota.counts == Quota.Counts.CLAIMS:
        return counted(limit, "claim")
    label = quota_label(quota)
    return (
        counted(limit, "device") + f" of profile {label}"
        if quota.profile_id
        else counted(limit, f"{label} device")
    )


def _quota_line(label: str, team_usage: QuotaUsage | None, team: Team, needs: int) -> QuotaLine:
    need = f"this request needs {needs}"
    if team_usage is None:
        sentence = f"{team} has no quota for {label} devices; {need}."
        request_query = urlencode({"team": team.slug, "device_class": label, "more": needs})
        return QuotaLine(label, None, needs, fits=False, sentence=sentence, request_query=request_query)
    lacks = team_usage.used + needs - team_usage.limit
    if lacks <= 0:
        return QuotaLine(label, team_usage, needs, fits=True, sentence=f"{team_usage.sentence}; {need}.")
    request_query = urlencode({"quota": team_usage.quota.pk, "more": lacks})
    sentence = exceeded_sentence(team_usage, needs, "request")
    return QuotaLine(label, team_usage, needs, fits=False, sentence=sentence, request_query=request_query)


def exceeded_sentence(usage: QuotaUsage, needs: int, subject: str) -> str:
    """Return by how much a request, or a claim to adopt, exceeds the quota."""
    lacks = usage.used + needs - usage.limit
    used = f"{usage.used} of {_of_limit(usage.quota, usage.limit)} in use or reserved"
    if usage.unmanaged:
        used = f"{used}, {usage.unmanaged} of them unmanaged"
    return f"Quota of {usage.team.title} exceeded by {lacks}: {used}; this {subject} needs {needs}."


@dataclass(frozen=True, slots=True)
class Contribution:
    """One claim in the figure of a quota; `carried` devices count with the claim that it replaces."""

    claim: Claim
    devices: int
    reserved: bool
    carried: int = 0


@dataclass(frozen=True, slots=True)
class UnmanagedPart:
    """
    One unmanaged object in the figure of a quota. `url` is its page, for a pod the page of its node; "" if
    there is none or the reader may not see it.
    """

    use: UnmanagedUse
    devices: int
    url: str = ""


@dataclass(frozen=True, slots=True)
class QuotaBreakdown:
    claims: list[Contribution]
    unmanaged: list[UnmanagedPart]
    raises: list[QuotaIncrease]  # increases of the limit
    page: Page[Any] | None = None


PARTS_PER_PAGE = 50


def quota_breakdown(
    quota: Quota,
    reader: User | AnonymousUser | None = None,
    *,
    number: str | None = None,
    unmanaged: UnmanagedByTeam | None = None,
) -> QuotaBreakdown:
    """
    Return all parts of the figure of `quota`, with links that `reader` may follow.

    With the `number` of a page only its claims are read; unmanaged use is on the last page. `unmanaged` is
    the unmanaged use of the team, if the caller has read it.
    """
    keys = _contributing_claims(quota, Claim.objects.all()).values_list("pk", "whole", "counted")
    page = None if number is None else Paginator(keys, PARTS_PER_PAGE).get_page(number)
    parts = unmanaged_parts(quota, unmanaged) if page is None or not page.has_next() else []
    return QuotaBreakdown(
        contributions(quota) if page is None else _page_contributions(page.object_list),
        with_links(parts, reader) if reader and parts else parts,
        running_increases(quota),
        page,
    )


def contributions(quota: Quota) -> list[Contribution]:
    """Return every claim in the figure of `quota`, oldest first, in two queries."""
    claims = _contributing_claims(quota, Claim.objects.for_list().select_related("decided_by"))
    return [_contribution(claim, claim.whole, claim.counted) for claim in claims]


def _contributing_claims(quota: Quota, claims: QuerySet[Claim]) -> QuerySet[Any, Any]:
    """
    Return those of `claims` in the figure of `quota`: `counted` devices of each, `whole` with those carried.
    """
    claims = claims.filter(team=quota.team_id, state__in=LIVE).order_by("created_at", "id")
    whole: Combinable
    counted: Combinable
    if quota.counts == Quota.Counts.CLAIMS:
        own, whole, counted = claims, F("parallel"), CLAIM_COUNT
    elif quota.profile_id:
        alone = Q(alternatives=None, profile_version__profile=quota.profile_id)
        own = claims.filter(alone | Q(alternatives__profile_version__profile=quota.profile_id))
        charged_devices = Coalesce("alternatives__settled", "alternatives__devices")
        whole = Coalesce(charged_devices, F("devices") * F("parallel"))
        counted = Coalesce(charged_devices, Greatest(F("devices") * F("parallel") - F("carried"), 0))
    else:
        own = claims.filter(charges__device_class=quota.device_class)
        whole = Coalesce("charges__settled", "charges__devices")
        counted = Greatest(Coalesce("charges__settled", "charges__devices") - F("charges__carried"), 0)
    return own.annotate(whole=whole, counted=counted).filter(whole__gt=0)


def _page_contributions(rows: Iterable[tuple[UUID, int, int]]) -> list[Contribution]:
    """Return the claims of these rows with what their page shows; two queries, one of them prepared."""
    counts = {key: (whole, counted) for key, whole, counted in rows}
    claims = PART_CLAIMS.objects(list(counts)) if counts else []
    alternatives = Alternative.objects.select_related("profile_version__profile")
    prefetch_related_objects(claims, Prefetch("alternatives", alternatives, to_attr="listed_alternatives"))
    claim_by_id = {claim.pk: claim for claim in claims}
    return [_contribution(claim_by_id[key], *counts[key]) for key in counts if key in claim_by_id]


def _contribution(claim: Claim, whole: int, counted: int) -> Contribution:
    return Contribution(claim, counted, reserved=claim.state not in MAY_HOLD_DEVICES, carried=whole - counted)


PART_COLUMNS = (
    *("name", "state", "profile_version__profile__title"),
    *("requested_by__username", "requested_by__first_name", "requested_by__last_name"),
)
PART_CLAIMS: PreparedObjects[Claim] = PreparedObjects(
    lambda key: (
        Claim.objects.filter(pk=key)
        .order_by()
        .select_related("profile_version__profile", "requested_by")
        .only(*PART_COLUMNS)
    ),
    UUID,
    any_of="pk",
)


def unmanaged_parts(quota: Quota, unmanaged: UnmanagedByTeam | None = None) -> list[UnmanagedPart]:
    """Return the unmanaged use that counts against `quota`, in four queries."""
    uses = (unmanaged_use([quota.team_id]) if unmanaged is None else unmanaged).get(quota.team_id, ())
    parts = [UnmanagedPart(use, unmanaged_count(quota, use)) for use in uses]
    return [part for part in parts if part.devices]


def with_links(parts: Iterable[UnmanagedPart], reader: User | AnonymousUser) -> list[UnmanagedPart]:
    """Return the parts with links that `reader` may follow, in one query."""
    parts = list(parts)
    uids = [part.use.uid for part in parts if part.use.kind == "ResourceClaim"]
    seen = set(unmanaged_objects(ResourceClaim, reader).filter(uid__in=uids).values_list("uid", flat=True))
    return [replace(part, url=_part_url(part.use, seen)) for part in parts]


def _part_url(use: UnmanagedUse, seen: set[str]) -> str:
    if use.uid in seen:
        return reverse("claims:unmanaged_claim", args=[use.uid])
    return reverse("inventory:node", args=[use.cluster_name, use.node]) if use.node else ""


def running_increases(quota: Quota) -> list[QuotaIncrease]:
    now = timezone.now()
    raises = QuotaIncrease.objects.filter(quota=quota, starts_at__lte=now, ends_at__gt=now)
    return list(raises.select_related("by", "request__requested_by"))
