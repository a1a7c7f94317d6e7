"""
The conditions of alerts: which of them hold now, of which claim, team or cluster, since when.

Each is read from stored rows in a fixed number of queries, whatever the number of claims. They are those of
`deploy/monitoring/rules.yaml`, so that a site needs no Alertmanager to hear of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import batched
from uuid import UUID

from django.db.models import Count, Min, OuterRef, Subquery
from django.urls import reverse

from claims.budgets.use import run_out_sentence, runs_out_soon, use_sentence, utc_day
from claims.models import Allocation, Budget, BudgetUse, Claim
from claims.models.limits import IDLE_PERCENT
from claims.quotas.quota_usage import QuotaUsage, team_usage
from claims.states import USABLE
from core.text import counted, percent
from core.times import duration, utc_moment
from inventory.dra_health import COMPONENTS, CONTROLLER, KUBELET, SCHEDULER, WINDOW
from inventory.freshness import OF_DEVICES, ages
from inventory.models import Cluster, Device, DeviceUtilization, DraHealth, Pod
from inventory.states import DeviceUse
from teams.models import Team
from usage.dra_health import WAITING
from usage.models import Alert, Collection, IdlePeriod

Condition = Alert.Condition

PENDING_AFTER = timedelta(minutes=5)  # the scheduler has tried by then
UNMEASURED_AFTER = timedelta(minutes=30)
STALE_FOR = timedelta(minutes=3)  # beyond which a cluster that says nothing is no short break
NEARLY_USED = 0.9  # of a quota
TEAMS_AT_ONCE = 100
NAMED_DEVICES = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition that holds since `since`. `about` names the thing among those of the condition."""

    condition: Condition
    about: str
    text: str
    url: str
    since: datetime
    cluster_id: UUID | None = None
    team_id: UUID | None = None
    claim_id: UUID | None = None

    @property
    def key(self) -> str:
        return f"{self.condition}:{self.about}"


def pending_claims(now: datetime) -> Iterator[Finding]:
    """Yield claims with a pod that has waited for a node for more than five minutes."""
    long = Pod.objects.filter(WAITING, created_at__lte=now - PENDING_AFTER).order_by()
    waiting: dict[tuple[UUID, str, str], list[datetime]] = defaultdict(list)
    columns = ("cluster", "namespace", "claims", "templates", "created_at")
    for cluster, namespace, claims, templates, created_at in long.values_list(*columns):
        for name in {*claims, *templates}:
            waiting[cluster, namespace, name].append(created_at)
    names = {name for _cluster, _namespace, name in waiting}
    claims_of_names = Claim.objects.filter(state__in=USABLE, name__in=names).select_related("cluster")
    for claim in claims_of_names.only("name", "namespace", "team", "cluster__name"):
        pods = waiting.get((claim.cluster_id, claim.namespace, claim.name))
        if pods:
            since = min(pods)
            who = "A pod" if len(pods) == 1 else f"{len(pods)} pods"
            have = "has" if len(pods) == 1 else "have"
            text = (
                f"{who} of {claim} {have} no node in {claim.cluster}, the first since {utc_moment(since)}. "
                "Its page says what is missing."
            )
            yield of_claim(Condition.CLAIM_PENDING, claim, text, since)


def of_claim(condition: Condition, claim: Claim, text: str, since: datetime) -> Finding:
    return Finding(
        condition,
        str(claim.pk),
        text,
        reverse("claims:detail", args=[claim.pk]),
        since,
        cluster_id=claim.cluster_id,
        team_id=claim.team_id,
        claim_id=claim.pk,
    )


def idle_claims(now: datetime) -> Iterator[Finding]:
    """Yield idle claims; `usage.idle` stores them and notifies people of them."""
    lasting = IdlePeriod.objects.lasting().select_related("claim__profile_version")
    columns = ("since", "devices", "claim__name", "claim__team", "claim__cluster")
    for period in lasting.only(*columns, "claim__profile_version__idle_percent"):
        which = "Its device has" if period.devices == 1 else f"Its {counted(period.devices, 'device')} have"
        below = period.claim.profile_version.idle_percent or IDLE_PERCENT
        since = utc_moment(period.since)
        text = f"{which} been below {below} % since {since}. Release or shorten {period.claim}."
        yield of_claim(Condition.CLAIM_IDLE, period.claim, text, period.since)


def tainted_devices(now: datetime) -> Iterator[Finding]:
    """Yield claims that hold a device with a taint."""
    here = Device.objects.present().exclude(condition=Device.Condition.GOOD)
    same = here.exclude(held_by=None).filter(
        cluster=OuterRef("claim__cluster"),
        driver=OuterRef("driver"),
        pool=OuterRef("pool"),
        name=OuterRef("device"),
    )
    held = Allocation.objects.filter(ended_at=None).annotate(
        tainted=Subquery(same.values("condition")[:1]), tainted_at=Subquery(same.values("changed_at")[:1])
    )
    by_claim: dict[Claim, list[Allocation]] = defaultdict(list)
    # From the few tainted devices to their claims: the other way reads every allocation.
    names = list(here.exclude(held_by=None).values_list("name", flat=True).distinct())
    for row in (
        held.filter(device__in=names, tainted__isnull=False).select_related("claim").defer("claim__spec")
    ):
        by_claim[row.claim].append(row)
    for claim, rows in by_claim.items():
        devices = sorted({f"{row.pool}/{row.device}" for row in rows})
        named = ", ".join(devices[:NAMED_DEVICES])
        if len(devices) > NAMED_DEVICES:
            named = f"{named} and {len(devices) - NAMED_DEVICES} more"
        have = "which has" if len(devices) == 1 else "which have"
        text = (
            f"{claim} holds {named}, {have} a taint: broken, or to be drained. "
            "Move the work to other devices, or ask a platform admin."
        )
        since = min(row.tainted_at for row in rows)  # type: ignore[attr-defined]
        yield of_claim(Condition.DEVICE_TAINTED, claim, text, since)


def full_quotas(now: datetime) -> Iterator[Finding]:
    """Yield quotas of which at least 90 % is used or reserved."""
    with_quota = Team.objects.active().exclude(quotas=None).distinct().order_by("slug")
    for teams in batched(with_quota, TEAMS_AT_ONCE):
        for usage in team_usage(teams):
            if usage.limit and usage.used >= NEARLY_USED * usage.limit:
                yield of_quota(usage, now)


def of_quota(usage: QuotaUsage, now: datetime) -> Finding:
    exceeded = f"Quota exceeded: {usage.used} of {usage.limit}. " if usage.over else ""
    text = (
        f"{exceeded}{usage.sentence}: {percent(usage.used / usage.limit)} of the quota. "
        "Release what is not needed, or request more."
    )
    url = f"{reverse('claims:quotas')}?team={usage.team.slug}"
    return Finding(Condition.QUOTA, str(usage.quota.pk), text, url, now, team_id=usage.team.pk)


def short_budgets(now: datetime) -> Iterator[Finding]:
    """Yield budgets that run out within seven days and before their period ends."""
    current = Budget.objects.current(utc_day(now))
    for use in BudgetUse.objects.filter(budget__in=current).select_related("budget__team"):
        if use.share < 1 and runs_out_soon(use, now=now):
            budget = use.budget
            text = f"{use_sentence(budget, use)} {run_out_sentence(use, now=now)}"
            url = reverse("claims:budget", args=[budget.pk])
            about = f"{budget.pk}:{use.first}"
            yield Finding(Condition.BUDGET, about, text, url, now, team_id=budget.team_id)


def unmeasured_clusters(now: datetime) -> Iterator[Finding]:
    """Yield clusters with a telemetry source that says nothing of held devices for half an hour."""
    measured = Cluster.objects.filter(enabled=True, halt_reason="").exclude(prometheus_url="", metrics_url="")
    unmeasured = DeviceUtilization.objects.filter(
        device__cluster__in=measured, use=DeviceUse.NO_TELEMETRY, since__lte=now - UNMEASURED_AFTER
    )
    sums = unmeasured.order_by().values("device__cluster").annotate(count=Count("pk"), since=Min("since"))
    found = {row["device__cluster"]: row for row in sums}
    errors = dict(Collection.objects.exclude(error="").values_list("cluster", "error"))
    for cluster in measured.filter(pk__in=found).only("name"):
        row = found[cluster.pk]
        why = errors.get(cluster.pk) or "Check that dcgm-exporter runs on their nodes and is scraped."
        which = f"{counted(row['count'], 'held device')} of {cluster}"
        text = f"{which} {'is' if row['count'] == 1 else 'are'} not measured. {why}"
        yield of_cluster(Condition.NO_TELEMETRY, cluster, text, row["since"])


def of_cluster(condition: Condition, cluster: Cluster, text: str, since: datetime) -> Finding:
    url = reverse("inventory:cluster", args=[cluster.name])
    return Finding(condition, str(cluster.pk), text, url, since, cluster_id=cluster.pk)


def stale_mirrors(now: datetime) -> Iterator[Finding]:
    """Yield clusters whose mirror is stale for three minutes, or halted."""
    for age in ages(OF_DEVICES):
        if age.cluster.halt_reason:
            text = f"The sync of {age.cluster} is halted. {age.cluster.halt_reason}"
        elif age.seen_at is None and age.error:
            text = f"{age.cluster} was never read. {age.error}"
        elif age.seen_at is not None and now - age.seen_at > STALE_FOR:
            why = age.error or "Check that the sync worker runs."
            text = f"{age.cluster} has said nothing since {utc_moment(age.seen_at)}. {why}"
        else:
            continue
        yield of_cluster(Condition.SYNC_STALE, age.cluster, text, age.seen_at or now)


OF_COMPONENT = {
    SCHEDULER: (Condition.DRA_SCHEDULER, ("attempt_errors",), "errors of the plugin DynamicResources"),
    CONTROLLER: (Condition.DRA_CONTROLLER, ("create_errors",), "ResourceClaims could not be created"),
    KUBELET: (
        Condition.DRA_KUBELET,
        ("prepare_errors", "driver_errors"),
        "operations of kubelets and DRA drivers failed",
    ),
}


def failing_components(now: datetime) -> Iterator[Finding]:
    """
    Yield clusters whose scheduler, ResourceClaim controller or kubelets count errors.

    What was read last counts until something else is read: a Prometheus that is away resolves nothing.
    """
    for health in DraHealth.objects.filter(cluster__enabled=True).select_related("cluster"):
        for component in COMPONENTS:
            condition, keys, what = OF_COMPONENT[component]
            errors = sum(health.figures.get(key) or 0 for key in keys)
            if errors:
                text = (
                    f"In {health.cluster} {errors:,.0f} {what} in the {duration(WINDOW)} before "
                    f"{utc_moment(health.read_at or now)}. Its page has the figures."
                )
                yield of_cluster(condition, health.cluster, text, health.read_at or now)


CONDITIONS: tuple[Callable[[datetime], Iterable[Finding]], ...] = (
    pending_claims,
    idle_claims,
    tainted_devices,
    full_quotas,
    short_budgets,
    unmeasured_clusters,
    stale_mirrors,
    failing_components,
)


def findings(now: datetime) -> dict[str, Finding]:
    """Return what holds now, by key."""
    return {finding.key: finding for condition in CONDITIONS for finding in condition(now)}
