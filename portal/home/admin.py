"""What Home shows to platform admins: waiting requests of all teams, idle devices, clusters, the last day."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import chain
from typing import Any
from uuid import UUID

from django.db.models import (
    BooleanField,
    Case,
    CharField,
    Count,
    Exists,
    ExpressionWrapper,
    F,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Cast, Concat
from django.urls import reverse

from claims.approvals.authority import join_labels, names_of_deciders
from claims.approvals.pending import waits_for
from claims.approvals.reminders import AGAIN_AFTER, decision_address
from claims.budgets.use import more_budget
from claims.catalogue.listing import DeviceKind
from claims.models import (
    Alternative,
    Claim,
    PendingDecision,
    ProfileAvailability,
    ProfileVersion,
    QuotaRequest,
    RequestStatus,
    Transition,
)
from claims.states import OUTCOMES, ClaimState
from core.prepared import Prepared, PreparedObjects, Statement
from core.text import money
from core.times import duration, moment
from inventory.counts import device_groups, fleet_counts
from inventory.freshness import Age
from inventory.models import Cluster, FleetCount
from inventory.states import DeviceState, DeviceUse
from teams.models import User, label_of
from usage.cost import HOUR, Cost
from usage.daily import DAY, stored_until, utc_day
from usage.fleet_report import FleetParts, Period, fleet_days
from usage.models import Collection
from usage.rates import PriceGroup, RateCard, device_prices
from usage.reports import Month

Kind = PendingDecision.Kind

# Requests that wait, in all teams.

SHOWN_REQUESTS = 4


@dataclass(frozen=True, slots=True)
class WaitingRequest:
    """
    An undecided request, who decides on it, and how long it has waited; `cost` is the most that it may cost,
    "" if that is not known, or it is no claim of one profile.
    """

    pk: UUID
    title: str
    summary: str
    requester: str
    team: str
    decided_by: str
    is_yours: bool
    requested_at: datetime
    is_late: bool
    url: str
    reminded_at: datetime | None
    remindable: bool  # those who decide
    cost: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """The oldest undecided requests; `count` is the number of all, `late` of those that wait too long."""

    rows: list[WaitingRequest]
    count: int = 0
    late: int = 0


def waiting_requests(user: User, card: RateCard, *, now: datetime, late_after: timedelta) -> Waiting:
    """Return what waits in all teams, oldest first; one query."""
    rows, count, late = [], 0, 0
    for row in WAITING.rows(user.pk, now, now - late_after):
        kind, pk, requested_at, reminded_at, team, username, first, last, *rest = row
        for_leads, for_admins, two_approvals, is_yours, names, *subject, count, late = rest
        *subject, cluster, kinds, has_alternatives = subject
        title, summary = _subject(Kind(kind), subject)
        cost = ""
        if kind == Kind.CLAIM and not has_alternatives:
            _name, devices, parallel, span, *_rest = subject
            offered = [DeviceKind.from_json(cluster, stored) for stored in json.loads(kinds or "[]")]
            most = device_prices(offered, card, at=now).max_cost(devices * parallel, span)
            cost = " or ".join(money(amount, currency) for currency, amount in most.items())
        rows.append(
            WaitingRequest(
                pk,
                title,
                summary,
                f"{first} {last}".strip() or username,
                team,
                _decided_by(team, names, is_yours, for_leads, for_admins, two_approvals),
                is_yours,
                requested_at,
                requested_at < now - late_after,
                decision_address(Kind(kind), pk),
                reminded_at,
                not is_yours and (reminded_at is None or reminded_at <= now - AGAIN_AFTER),
                cost,
            )
        )
    return Waiting(rows, count, late)


def _waiting(person: UUID, now: datetime, late: datetime) -> Statement:
    reader = User(pk=person, is_superuser=True)
    yours = ExpressionWrapper(waits_for(reader, now=now), output_field=BooleanField())
    kinds = ProfileAvailability.objects.filter(
        computation=OuterRef("claim__cluster"), version=OuterRef("claim__profile_version__profile__current")
    ).order_by()
    oldest = PendingDecision.objects.order_by("requested_at", "pk").values_list(
        *("kind", "pk", "requested_at", "reminded_at", "team__slug"),
        *(f"requester__{name}" for name in ("username", "first_name", "last_name")),
        *("for_leads", "for_admins", "two_approvals", yours, names_of_deciders(now)),
        *(f"claim__{name}" for name in ("name", "devices", "parallel", "duration")),
        *("claim__profile_version__profile__title", "extension__until"),
        *("quota_request__device_class", "quota_request__profile__title", "quota_request__devices"),
        *("quota_request__budget__currency", "quota_request__amount", "quota_request__hours"),
        *("claim__cluster", Subquery(kinds.values("kinds")[:1])),
        Exists(Alternative.objects.filter(claim=OuterRef("claim")).order_by()),
    )[:SHOWN_REQUESTS]
    text, values = oldest.query.sql_with_params()
    all_of_them, no_values = PendingDecision.objects.order_by().values("pk").query.sql_with_params()
    older, late_values = (
        PendingDecision.objects.filter(requested_at__lt=late).order_by().values("pk").query.sql_with_params()
    )
    count = "(SELECT COUNT(*) FROM ({}) {})"
    sql = "SELECT rows.*, {}, {} FROM ({}) rows"
    parts = (count.format(all_of_them, "waiting"), count.format(older, "late"), text)
    return sql.format(*parts), (*no_values, *late_values, *values)


WAITING = Prepared(_waiting, UUID, datetime, datetime)


def _subject(kind: Kind, columns: Iterable[Any]) -> tuple[str, str]:
    """Return what is requested: a title and a line of details."""
    name, devices, parallel, span, profile, until, device_class, quota_profile, wanted, *extra = columns
    if kind is Kind.QUOTA and extra[0]:
        return "Budget request", f"{more_budget(*extra)} more"
    if kind is Kind.QUOTA:
        return "Quota request", f"{wanted} × {device_class or quota_profile or 'claims'}"
    if kind is Kind.EXTENSION:
        return f"Extension of {name}", f"until {moment(until)}" if until else ""
    return name, f"{devices * parallel} × {profile}, {duration(span)}"


def _decided_by(
    team: str,
    names: list[str],
    is_yours: bool,  # noqa: FBT001
    for_leads: bool,  # noqa: FBT001
    for_admins: bool,  # noqa: FBT001
    two_approvals: bool,  # noqa: FBT001
) -> str:
    leads = join_labels(names) or f"a lead of {team}"
    if is_yours:
        return "You"
    if for_leads and two_approvals:
        return f"{leads}, then a platform admin"
    if for_leads and for_admins:
        return f"{leads} or a platform admin"
    return leads if for_leads else "another platform admin"


# The fleet.


COLLECTIONS: PreparedObjects[Collection] = PreparedObjects(Collection.objects.all)


@dataclass(frozen=True, slots=True)
class Platform:
    """The devices of all clusters by state and use, the last collection of each, and the rates at a time."""

    counts: Mapping[UUID, FleetCount]
    collections: list[Collection]
    card: RateCard
    now: datetime

    @classmethod
    def read(cls, card: RateCard, now: datetime) -> Platform:
        """Return the stored figures, in two queries."""
        return cls(fleet_counts(), COLLECTIONS.objects(), card, now)

    @property
    def idle(self) -> int:
        return sum(row.uses.get(DeviceUse.IDLE, 0) for row in self.counts.values())

    @property
    def idle_cost(self) -> Cost:
        """Return what the idle devices that claims hold cost per hour, as of the last collections."""
        cost = Cost()
        for row in self.collections:
            for driver, product, basis, parts in row.idle:
                group = PriceGroup(row.cluster_id, driver, product, basis and UUID(basis))
                rate = self.card.at(group, self.now)
                cost.add_price(parts * HOUR, rate.per_hour if rate else None, rate.currency if rate else "")
        return cost


# Clusters.


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """The age of a cluster's mirror, its devices, and its last collection of telemetry, None without one."""

    age: Age
    collection: Collection | None
    devices: int
    held: int
    free: int

    @property
    def has_source(self) -> bool:
        return bool(self.age.cluster.metrics_url or self.age.cluster.prometheus_url)

    @property
    def out_of_service(self) -> int:
        return self.devices - self.held - self.free

    @property
    def sentence(self) -> str:
        """Return "97 held, 6 out of service, 49 free of 152"."""
        out = f"{self.out_of_service} out of service, " if self.out_of_service else ""
        return f"{self.held} held, {out}{self.free} free of {self.devices}"


def cluster_rows(ages: Iterable[Age], platform: Platform) -> list[ClusterRow]:
    """Return a row for the cluster of each age."""
    by_cluster = {row.cluster_id: row for row in platform.collections}
    rows = []
    for age in ages:
        count, states = platform.counts.get(age.cluster.pk), Counter[str]()
        for _cluster, group in device_groups([count] if count else []):
            states[group.state] += group.devices if group.is_gpu else 0
        held, free = states[DeviceState.IN_USE], states[DeviceState.FREE]
        rows.append(ClusterRow(age, by_cluster.get(age.cluster.pk), states.total(), held, free))
    return rows


# The month.


@dataclass(frozen=True, slots=True)
class MonthSoFar:
    """What the fleet was on the whole days (UTC) of this month, and what idle devices cost by its end."""

    month: Month
    parts: FleetParts
    by_day: list[tuple[date, FleetParts]]
    last: date
    idle_forecast: Cost


def month_so_far(now: datetime) -> MonthSoFar | None:
    """Return the stored days of the month, None on its first day or before any day is stored."""
    month = Month.current(now)
    end = min(stored_until() or month.first, utc_day(now))
    by_day, days = fleet_days(Period(month.first, end)), (end - month.first).days
    parts = FleetParts()
    for of_day in by_day.values():
        parts.add(of_day)
    if not parts.fleet.held:
        return None
    whole = (month.next.first - month.first).days
    amounts = {currency: amount * whole // days for currency, amount in parts.idle.exact.items()}
    return MonthSoFar(
        month, parts, list(by_day.items()), end - DAY, Cost(parts.idle.held * whole // days, 0, amounts)
    )


# The last 24 hours.

SPAN = timedelta(hours=24)
SHOWN_CHANGES, SHOWN_FAILURES = 6, 3  # the footer counts all that failed


@dataclass(frozen=True, slots=True)
class RecentChange:
    """Something that changed; `family` is a color family of claims.states."""

    at: datetime
    family: str
    title: str
    detail: str
    url: str


@dataclass(frozen=True, slots=True)
class LastDay:
    """The last changes that matter to the whole platform, newest first, and how many claims moved on."""

    changes: list[RecentChange]
    claims: str


def last_day(*, now: datetime) -> LastDay:
    """Return what changed in the last 24 hours; two queries."""
    since = now - SPAN
    counts = dict(COUNTS.rows(since))
    claims = ", ".join(
        f"{counts[state]} {ClaimState(state).label.lower()}" for state in OUTCOMES if counts.get(state)
    )
    return LastDay([_change(*row) for row in CHANGES.rows(since)], claims)


def _change(at: datetime, kind: str, name: str, detail: str, key: str) -> RecentChange:
    if kind == "claim":
        return RecentChange(at, "bad", f"{name} failed", detail, reverse("claims:detail", args=[key]))
    if kind == "profile":
        by, url = f"by {detail}" if detail else "", reverse("claims:profile", args=[key])
        return RecentChange(at, "work", f"Profile {name} published", by, url)
    if kind == "profiles":
        by = f"by {detail}" if detail else ""
        return RecentChange(at, "work", f"Profiles published: {name}", by, reverse("claims:profiles"))
    if kind == "cluster":
        return RecentChange(
            at, "work", f"Cluster {name} added", detail, reverse("inventory:cluster", args=[key])
        )
    title = f"Quota request of {name} {RequestStatus(kind).label}"
    url = reverse("claims:quota_request_decision", args=[key])
    return RecentChange(at, "held" if kind == RequestStatus.APPROVED else "over", title, f"by {detail}", url)


def _changes(since: datetime) -> Statement:
    key = Cast("pk", CharField())
    failed = Claim.objects.filter(state=ClaimState.FAILED, state_since__gte=since).order_by("-state_since")
    versions = ProfileVersion.objects.filter(created_at__gte=since)
    decided = QuotaRequest.objects.of_quota().filter(
        decided_at__gte=since, status__in=[RequestStatus.APPROVED, RequestStatus.DENIED]
    )
    clusters = Cluster.objects.filter(created_at__gte=since)
    # A file that is imported publishes many at once.
    version = Concat(F("profile__slug"), Value(" v"), Cast("number", CharField()))
    is_one = Q(number_of=1)
    published = versions.values(by=label_of("created_by")).annotate(
        number_of=Count("pk"),
        last=Max("created_at"),
        kind=Case(When(is_one, then=Value("profile")), default=Value("profiles")),
        title=Case(When(is_one, then=Max(version)), default=Cast(Count("pk"), CharField())),
        slug=Max("profile__slug"),
    )
    parts: list[QuerySet[Any, Any]] = [
        failed.values_list("state_since", Value("claim"), "name", "problem", key)[:SHOWN_FAILURES],
        published.order_by().values_list("last", "kind", "title", "by", "slug"),
        decided.order_by().values_list("decided_at", "status", "team__slug", label_of("decided_by"), key),
        clusters.order_by().values_list("created_at", Value("cluster"), "name", "title", "name"),
    ]
    compiled = [part.query.sql_with_params() for part in parts]
    union = " UNION ALL ".join(f"({text})" for text, _values in compiled)
    sql = f"SELECT * FROM ({union}) changes ORDER BY 1 DESC LIMIT {SHOWN_CHANGES}"  # noqa: S608, compiled above
    return sql, tuple(chain.from_iterable(values for _text, values in compiled))


def _counts(since: datetime) -> QuerySet[Transition, Any]:
    moved = Transition.objects.filter(at__gte=since, new__in=OUTCOMES).exclude(old=F("new")).order_by()
    return moved.values_list("new").annotate(number=Count("*"))


CHANGES, COUNTS = Prepared(_changes, datetime), Prepared(_counts, datetime)
