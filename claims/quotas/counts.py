"""
What counts against a quota: claims by state, increases, and unmanaged use.

Unmanaged use is of three kinds: a ResourceClaim created with kubectl or from another template, a claim that
the scheduler creates for a pod with an extended resource, and a pod that a device plugin serves, which has no
claim. They are counted by the rules of Kubernetes' own quota.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import (
    Case,
    CharField,
    Count,
    Exists,
    Expression,
    F,
    OuterRef,
    QuerySet,
    Subquery,
    Sum,
    TextField,
    Value,
    When,
)
from django.db.models.expressions import Combinable
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce, Greatest, Least
from django.utils import timezone

from claims.models import Alternative, Claim, ClaimCharge, Quota, QuotaIncrease, TeamNamespace
from claims.observation.unmanaged import unmanaged_use_claims
from claims.states import LIVE, ClaimState
from core.prepared import Prepared
from dra.quota import (
    RESOURCE_PREFIX,
    charge,
    claimed_extended_resources,
    class_of_resource,
    extended_resource_names,
)
from inventory.models import DeviceClass, Pod

ENDED_PHASES = ("Succeeded", "Failed")  # phases in which a pod holds nothing
CHARGED_DEVICES = Greatest(Coalesce("settled", "devices") - F("carried"), 0)  # of a ClaimCharge
ALTERNATIVE_DEVICES = Coalesce("settled", "devices")  # of an Alternative
CLAIM_DEVICES = Greatest(F("devices") * F("parallel") - F("carried"), 0)  # of a Claim of one profile
# While the predecessor's objects are there as well, only claims beyond their number count.
CLAIM_COUNT = F("parallel") - Case(
    When(carried__gt=0, then=Least(F("parallel"), Coalesce(F("replaces__parallel"), 0))), default=Value(0)
)


@dataclass(frozen=True, slots=True)
class UnmanagedUse:
    """
    One unmanaged object and the devices per class that it counts for; `claims` is 1 for a
    ResourceClaim, and `node` is that of a pod. Of `charge`, no line of a ResourceQuota counts `unseen`: a pod
    asks for it by a name that no class carries.
    """

    kind: str  # "ResourceClaim" or "Pod"
    cluster: UUID
    cluster_name: str
    namespace: str
    name: str
    origin: str  # of a ResourceClaim, as in the mirror; "device-plugin" for a pod
    charge: dict[str, int]
    uid: str = ""
    unseen: dict[str, int] = field(default_factory=dict)
    node: str = ""

    @property
    def claims(self) -> int:
        return int(self.kind == "ResourceClaim")


type UnmanagedByTeam = Mapping[UUID, Sequence[UnmanagedUse]]  # by team


def unmanaged_use(teams: Collection[UUID]) -> dict[UUID, list[UnmanagedUse]]:
    """Return the unmanaged use by team; one query, and one more where pods request devices by number."""
    usage: dict[UUID, list[UnmanagedUse]] = defaultdict(list)
    teams = list(teams)
    rows = UNMANAGED_ROWS.rows(*teams) if len(teams) == 1 else _unmanaged_rows(teams) if teams else []
    for team, use in _unmanaged_uses(rows):
        usage[team].append(use)
    return usage


def used_by_all_teams(classes: Collection[str]) -> Counter[str]:
    """Return the devices of these classes that all teams hold, reserve and use unmanaged."""
    used: Counter[str] = Counter()
    for name in classes:
        used.update(dict(CHARGED_TO_ALL.rows(name)))
    # Equal specs are charged once: most claims of a cluster have one of a few.
    for spec, count in UNMANAGED_SPECS.rows():
        used.update({name: devices * count for name, devices in charge(json.loads(spec or "{}")).items()})
    for _team, use in _unmanaged_uses(ASKED_BY_ALL_PODS.rows()):
        used.update(use.charge)
    return Counter({name: count for name, count in used.items() if name in classes})


type UseRow = Sequence[Any]
POD = "Pod"
OBJECT = ("team", "kind", "cluster", "cluster__name", "namespace", "name", "origin", "part", "seen", "uid")


def _unmanaged_rows(teams: Collection[UUID]) -> QuerySet[Any, Any]:
    """Return the unmanaged claims and pods in the namespaces of these teams, as `UseRow`s."""
    team = Subquery(_places().values("team")[:1])
    claims = unmanaged_use_claims(teams).order_by().annotate(kind=Value("ResourceClaim"), team=team)
    what = claims.annotate(part=KeyTextTransform("spec", "raw"), seen=Value(""), node=Value(""))
    return what.values_list(*OBJECT, "node").union(_asking_pods(teams), all=True).order_by("-kind", "name")


def _asking_pods(teams: Collection[UUID] | None = None) -> QuerySet[Any, Any]:
    """Return the pods that ask for devices by number in the namespaces of these teams, of all without any."""
    places = _places() if teams is None else _places().filter(team__in=teams)
    asking = Pod.objects.filter(gone_at=None).exclude(extended={}).exclude(phase__in=ENDED_PHASES)
    what = (
        asking.filter(Exists(places))
        .order_by()
        .annotate(
            team=Subquery(places.values("team")[:1]),
            kind=Value(POD),
            origin=Value("device-plugin"),
            part=Cast("extended", TextField()),
            seen=KeyTextTransform("status", "raw"),
        )
    )
    return what.values_list(*OBJECT, "node_name")


def _places() -> QuerySet[TeamNamespace]:
    return TeamNamespace.objects.filter(cluster=OuterRef("cluster"), namespace=OuterRef("namespace"))


# These run in each preview and in each request, there under the lock of the quota.
UNMANAGED_ROWS = Prepared(lambda team: _unmanaged_rows([team]), UUID)
CHARGED_TO_ALL = Prepared(
    lambda name: (
        ClaimCharge.objects.filter(live=True, device_class=name)
        .order_by()
        .values_list("device_class")
        .annotate(total=Sum(CHARGED_DEVICES))
    ),
    str,
)
UNMANAGED_SPECS = Prepared(
    lambda: (
        unmanaged_use_claims()
        .order_by()
        .values_list(KeyTextTransform("spec", "raw"))
        .annotate(number=Count("pk"))
    )
)
ASKED_BY_ALL_PODS = Prepared(lambda: _asking_pods())


def _unmanaged_uses(rows: Iterable[UseRow]) -> Iterator[tuple[UUID, UnmanagedUse]]:
    rows = list(rows)
    pods_in = {row[2] for row in rows if row[1] == POD}
    carried = _extended_names(pods_in) if pods_in else {}
    for team, kind, cluster, title, namespace, name, origin, part, seen, uid, node in rows:
        requested, unseen = json.loads(part or "{}"), dict[str, int]()
        if kind == POD:
            counted, unseen = _charge_of_pod(requested, json.loads(seen or "{}"), carried.get(cluster, {}))
        else:
            counted = charge(requested)
        if counted or kind != POD:
            place = (cluster, title, namespace, name)
            yield team, UnmanagedUse(kind, *place, origin, counted, uid, unseen, node)


def _charge_of_pod(
    extended: Mapping[str, int], status: Mapping[str, Any], names: dict[str, str]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the devices per class that a pod asks for by number, and those that ResourceQuota misses."""
    served = claimed_extended_resources({"status": status})
    counted, unseen = Counter[str](), Counter[str]()
    for resource, count in extended.items():
        device_class = class_of_resource(resource, names)
        if device_class and resource not in served:
            counted[device_class] += count
            if resource not in names and not resource.startswith(RESOURCE_PREFIX):
                unseen[device_class] += count
    return dict(counted), dict(unseen)


def mark_live_charges(*, check: bool = False) -> int:
    """Correct `ClaimCharge.live` by the states of claims; return how many rows differ."""
    ended = ClaimCharge.objects.filter(live=True).exclude(claim__state__in=LIVE)
    running = ClaimCharge.objects.filter(live=False, claim__state__in=LIVE)
    if check:
        return ended.count() + running.count()
    return ended.update(live=False) + running.update(live=True)


def charged_by_class(teams: Collection[UUID], classes: Collection[str]) -> dict[tuple[UUID, str], int]:
    """Return the devices that claims of these teams hold or reserve, by team and class."""
    charges = ClaimCharge.objects.filter(claim__team__in=teams, claim__state__in=LIVE).order_by()
    totals = charges.filter(device_class__in=classes).values_list("claim__team", "device_class")
    return {
        (team, device_class): count
        for team, device_class, count in totals.annotate(total=Sum(CHARGED_DEVICES))
    }


def _extended_names(clusters: Collection[UUID]) -> dict[UUID, dict[str, str]]:
    classes: dict[UUID, list[tuple[str, str, str]]] = defaultdict(list)
    rows = DeviceClass.objects.filter(cluster__in=clusters, gone_at=None).exclude(extended_resource="")
    for cluster, name, extended, created in rows.values_list(
        "cluster", "name", "extended_resource", "created_at"
    ):
        classes[cluster].append((name, extended, created.isoformat() if created else ""))
    return {cluster: extended_resource_names(usage) for cluster, usage in classes.items()}


@dataclass(frozen=True, slots=True)
class QuotaCounts:
    """Devices, or claims where the quota counts those; `raised` is what raises add to the limit now."""

    held: int = 0
    reserved: int = 0
    unmanaged: int = 0
    raised: int = 0


def count_quotas(quotas: Iterable[Quota], unmanaged: UnmanagedByTeam | None = None) -> list[QuotaCounts]:
    """
    Count what stands against these rows, in a number of queries that does not grow with them. Under their
    lock what the portal itself gives out cannot grow. `unmanaged` is the unmanaged use of their teams, if the
    caller has read it.
    """
    rows = list(quotas)
    teams = list({row.team_id for row in rows})
    totals: dict[object, int] = defaultdict(int)
    now = timezone.now()
    for team, kind, key, state, count in (
        TOTALS.rows(*teams, now) if len(teams) == 1 else _totals(teams, now) if teams else ()
    ):
        totals[team, kind, key, state == ClaimState.REQUESTED] += count
    unmanaged = unmanaged_use(teams) if unmanaged is None else unmanaged
    return [
        QuotaCounts(
            held=totals[row.team_id, *counted_key(row), False],
            reserved=totals[row.team_id, *counted_key(row), True],
            unmanaged=sum(unmanaged_count(row, use) for use in unmanaged.get(row.team_id, ())),
            raised=totals[row.team_id, RAISED, str(row.pk), False],
        )
        for row in rows
    ]


OF_CLASS, OF_PROFILE, OF_CLAIMS, RAISED = "class", "profile", "claims", "raised"


def counted_key(quota: Quota) -> tuple[str, str]:
    """Return what a row counts: the devices of a class or of a profile, or claims."""
    if quota.counts == Quota.Counts.CLAIMS:
        return OF_CLAIMS, ""
    return (OF_PROFILE, str(quota.profile_id)) if quota.profile_id else (OF_CLASS, quota.device_class)


def unmanaged_count(quota: Quota, use: UnmanagedUse) -> int:
    """Return what an unmanaged object uses of a quota; it has no profile."""
    if quota.profile_id:
        return 0
    return use.claims if quota.counts == Quota.Counts.CLAIMS else use.charge.get(quota.device_class, 0)


def _totals(teams: Collection[UUID], now: datetime) -> QuerySet[Any, Any]:
    """Return (team, kind, key, state, number) of all that these teams hold and reserve, and of increases."""
    charges = ClaimCharge.objects.filter(claim__team__in=teams, claim__state__in=LIVE)
    claims = Claim.objects.filter(team__in=teams, state__in=LIVE)
    one_of = Alternative.objects.filter(claim__team__in=teams, claim__state__in=LIVE)
    raises = QuotaIncrease.objects.filter(quota__team__in=teams, starts_at__lte=now, ends_at__gt=now)
    alone, profile = claims.filter(alternatives=None), Cast("profile_version__profile", CharField())
    none, row = Value(""), Cast("quota", CharField())
    return _sums(charges, CHARGED_DEVICES, "claim__team", OF_CLASS, "device_class", "claim__state").union(
        _sums(alone, CLAIM_DEVICES, "team", OF_PROFILE, profile, "state"),
        _sums(one_of, ALTERNATIVE_DEVICES, "claim__team", OF_PROFILE, profile, "claim__state"),
        _sums(claims, CLAIM_COUNT, "team", OF_CLAIMS, none, "state"),
        _sums(raises, F("devices"), "quota__team", RAISED, row, none),
        all=True,
    )


def _sums(
    rows: QuerySet[Any], devices: Combinable, team: str, kind: str, *columns: str | Expression
) -> QuerySet[Any, Any]:
    sums: QuerySet[Any, Any] = rows.order_by().values_list(team, Value(kind), *columns)
    totals: QuerySet[Any, Any] = sums.annotate(total=Sum(devices))
    return totals


TOTALS = Prepared(lambda team, now: _totals([team], now), UUID, datetime)
