"""
What counts against a quota: claims by state, increases, and unmanaged use.

Unmanaged use is of three kinds: a ResourceClaim created with kubectl or from another template, a claim that
the scheduler creates for a pod with an extended resource, and a pod that a device plugin serves, which has no
claim. They are counted by the rules of Kubernetes' own quota.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any
from uuid import UUID

from django.db.models import (
    Case,
    CharField,
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

from claims.models import (
    Alternative,
    Claim,
    ClaimCharge,
    ClassUse,
    ClusterAvailability,
    Quota,
    QuotaIncrease,
    TeamNamespace,
)
from claims.observation.unmanaged import unmanaged_use_claims
from claims.states import LIVE, MAY_HOLD_DEVICES
from core.prepared import Parameter, Prepared, Statement
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
    One unmanaged object and the devices per class that it counts for; `claims` is 1 for a ResourceClaim, and
    `node` is that of a pod. ResourceQuota does not count the devices in `unseen`: a pod requests them by a
    name that no class has.
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
        return int(self.kind == CLAIM)


type UnmanagedByTeam = Mapping[UUID, Sequence[UnmanagedUse]]  # by team


def unmanaged_use(teams: Collection[UUID]) -> dict[UUID, list[UnmanagedUse]]:
    """Return the unmanaged use by team; one query, and one more where pods request devices by number."""
    usage: dict[UUID, list[UnmanagedUse]] = defaultdict(list)
    for team, use in _unmanaged_uses(UNMANAGED_ROWS.rows(teams)):
        usage[team].append(use)
    return usage


def used_by_all_teams(classes: Collection[str]) -> Counter[str]:
    """
    Return the devices of these classes that all teams hold, reserve and use unmanaged; one query, and one
    more where pods request devices by number.

    Unmanaged claims are those of the last computation of each cluster (`claims.catalogue.tasks.PAUSE`).
    """
    used: Counter[str] = Counter()
    pods: list[UseRow] = []
    for kind, text, count in USED_BY_ALL.rows(list(classes)):
        if kind == "charged":
            used[text] += count
        elif kind == CLAIM:
            used.update(json.loads(text))
        else:
            team, _kind, cluster, *row = json.loads(text).values()
            pods.append((UUID(team), POD, UUID(cluster), *row))
    for _team, use in _unmanaged_uses(pods):
        used.update(use.charge)
    return Counter({name: count for name, count in used.items() if name in classes})


type UseRow = Sequence[Any]
CLAIM, POD = "ResourceClaim", "Pod"
OBJECT = ("team", "kind", "cluster", "cluster__name", "namespace", "name", "origin", "part", "seen", "uid")


def _unmanaged_rows(teams: Collection[UUID]) -> QuerySet[Any, Any]:
    """Return the unmanaged claims and pods in the namespaces of these teams, as `UseRow`s."""
    team = Subquery(_places().values("team")[:1])
    claims = unmanaged_use_claims(teams).order_by().annotate(kind=Value(CLAIM), team=team)
    rows = claims.annotate(part=KeyTextTransform("spec", "raw"), seen=Value(""), node=Value(""))
    return (
        rows.values_list(*OBJECT, "node").union(_requesting_pods(teams), all=True).order_by("-kind", "name")
    )


def _requesting_pods(teams: Collection[UUID] | None = None) -> QuerySet[Any, Any]:
    """Return the pods that request devices by number in the namespaces of these teams, or of all teams."""
    places = _places() if teams is None else _places().filter(team__in=teams)
    pods = Pod.objects.filter(gone_at=None).exclude(extended={}).exclude(phase__in=ENDED_PHASES)
    rows = (
        pods.filter(Exists(places))
        .order_by()
        .annotate(
            team=Subquery(places.values("team")[:1]),
            kind=Value(POD),
            origin=Value("device-plugin"),
            part=Cast("extended", TextField()),
            seen=KeyTextTransform("status", "raw"),
        )
    )
    return rows.values_list(*OBJECT, "node_name")


def _places() -> QuerySet[TeamNamespace]:
    return TeamNamespace.objects.filter(cluster=OuterRef("cluster"), namespace=OuterRef("namespace"))


class OfTeams:
    """A query of one team, and the same query of many: PostgreSQL plans the two differently."""

    def __init__(self, build: Callable[..., QuerySet[Any, Any] | Statement], *types: Parameter) -> None:
        self.of_one, self.of_many = Prepared(build, *types), Prepared(build, *types, any_of="team_id")

    def rows(self, teams: Collection[UUID], *values: object) -> Sequence[tuple[Any, ...]]:
        if len(teams) == 1:
            return self.of_one.rows(*teams, *values)
        return self.of_many.rows(list(teams), *values) if teams else ()


# These run in each preview and in each request, there under the lock of the quota.
UNMANAGED_ROWS = OfTeams(lambda team: _unmanaged_rows([team]), UUID)


def _used_by_all(device_class: str) -> Statement:
    """
    Return (kind, text, number): charges of a class, unmanaged claims of a cluster as stored, and pods that
    request by number.
    """
    changes = ClassUse.objects.filter(device_class=device_class).order_by()
    charged = changes.values_list("device_class").annotate(total=Sum("devices"))
    stored = ClusterAvailability.objects.exclude(unmanaged={}).values_list("unmanaged")
    parts = [rows.query.sql_with_params() for rows in (charged, stored, _requesting_pods())]
    sql = """SELECT 'charged', device_class, total FROM ({}) AS charged(device_class, total)
             UNION ALL SELECT 'ResourceClaim', unmanaged::text, 1 FROM ({}) AS stored(unmanaged)
             UNION ALL SELECT 'Pod', row_to_json(pod)::text, 1 FROM ({}) AS pod"""
    values = chain.from_iterable(values for _text, values in parts)
    return sql.format(*(text for text, _values in parts)), tuple(values)


USED_BY_ALL = Prepared(_used_by_all, str, any_of="device_class")


def _unmanaged_uses(rows: Iterable[UseRow]) -> Iterator[tuple[UUID, UnmanagedUse]]:
    rows = list(rows)
    pods_in = {row[2] for row in rows if row[1] == POD}
    carried = _extended_names(pods_in) if pods_in else {}
    charges: dict[str | None, dict[str, int]] = {}  # by spec: most claims of a team have one of a few
    for team, kind, cluster, title, namespace, name, origin, part, seen, uid, node in rows:
        unseen = dict[str, int]()
        if kind == POD:
            names = carried.get(cluster, {})
            counted, unseen = _charge_of_pod(json.loads(part or "{}"), json.loads(seen or "{}"), names)
        else:
            if part not in charges:
                charges[part] = charge(json.loads(part or "{}"))
            counted = charges[part]
        if counted or kind != POD:
            place = (cluster, title, namespace, name)
            yield team, UnmanagedUse(kind, *place, origin, counted, uid, unseen, node)


def _charge_of_pod(
    extended: Mapping[str, int], status: Mapping[str, Any], names: dict[str, str]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the devices per class that a pod requests by number, and those that ResourceQuota misses."""
    served = claimed_extended_resources({"status": status})
    counted, unseen = Counter[str](), Counter[str]()
    for resource, count in extended.items():
        device_class = class_of_resource(resource, names)
        if device_class and resource not in served:
            counted[device_class] += count
            if resource not in names and not resource.startswith(RESOURCE_PREFIX):
                unseen[device_class] += count
    return dict(counted), dict(unseen)


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
    """
    Devices, or claims where the quota counts those; `raised` is what increases add to the limit now.

    `held` is what counts for claims whose devices are allocated, `reserved` for those that hold none yet:
    requests, and approved claims that wait for a pod.
    """

    held: int = 0
    reserved: int = 0
    unmanaged: int = 0
    raised: int = 0


def count_quotas(quotas: Iterable[Quota], unmanaged: UnmanagedByTeam | None = None) -> list[QuotaCounts]:
    """
    Count the use of these rows in a fixed number of queries. Under their lock the use by claims cannot grow.
    `unmanaged` is the unmanaged use of their teams, if the caller has read it.
    """
    rows = list(quotas)
    teams = list({row.team_id for row in rows})
    totals: dict[object, int] = defaultdict(int)
    now = timezone.now()
    if unmanaged is None:
        counted, unmanaged = _read_counts(teams, now)
    else:
        counted = TOTALS.rows(teams, now)
    for team, kind, key, state, count in counted:
        totals[team, kind, key, state in MAY_HOLD_DEVICES or kind == RAISED] += count
    return [
        QuotaCounts(
            held=totals[row.team_id, *counted_key(row), True],
            reserved=totals[row.team_id, *counted_key(row), False],
            unmanaged=sum(unmanaged_count(row, use) for use in unmanaged.get(row.team_id, ())),
            raised=totals[row.team_id, RAISED, str(row.pk), True],
        )
        for row in rows
    ]


OF_CLASS, OF_PROFILE, OF_CLAIMS, RAISED, LIMIT = "class", "profile", "claims", "raised", "limit"


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


def _totals(team: UUID, now: datetime) -> Statement:
    """
    Return (team, kind, key, state, number) of all that a team holds and reserves, and of its increases.

    Of a profile there is a row per version: claims are summed up before their profile is looked up.
    """
    # `live` follows from the state; with it, the charges of ended claims are not joined.
    charges = ClaimCharge.objects.filter(claim__team=team, claim__state__in=LIVE, live=True)
    claims = Claim.objects.filter(team=team, state__in=LIVE)
    one_of = Alternative.objects.filter(claim__team=team, claim__state__in=LIVE)
    raises = QuotaIncrease.objects.filter(quota__team=team, starts_at__lte=now, ends_at__gt=now)
    none, row, profile = Value(""), Cast("quota", CharField()), Cast("profile_version__profile", CharField())
    sums = _sums(charges, CHARGED_DEVICES, "claim__team", OF_CLASS, "device_class", "claim__state").union(
        _sums(one_of, ALTERNATIVE_DEVICES, "claim__team", OF_PROFILE, profile, "claim__state"),
        _sums(claims, CLAIM_COUNT, "team", OF_CLAIMS, none, "state"),
        _sums(raises, F("devices"), "quota__team", RAISED, row, none),
        all=True,
    )
    alone = _sums(
        claims.filter(alternatives=None), CLAIM_DEVICES, "team", OF_PROFILE, "profile_version", "state"
    )
    parts = [rows.query.sql_with_params() for rows in (sums, alone)]
    sql = """{} UNION ALL SELECT team, kind, profile_id::text, state, total
             FROM ({}) AS alone(team, kind, version, state, total)
             JOIN claims_profileversion ON id = version"""
    values = chain.from_iterable(values for _text, values in parts)
    return sql.format(*(text for text, _values in parts)), tuple(values)


def _sums(
    rows: QuerySet[Any], devices: Combinable, team: str, kind: str, *columns: str | Expression
) -> QuerySet[Any, Any]:
    sums: QuerySet[Any, Any] = rows.order_by().values_list(team, Value(kind), *columns)
    totals: QuerySet[Any, Any] = sums.annotate(total=Sum(devices))
    return totals


def _read_counts(teams: Sequence[UUID], now: datetime) -> tuple[Iterable[Sequence[Any]], UnmanagedByTeam]:
    """Return the rows of `_totals`, and the unmanaged use of these teams, in one query."""
    totals: list[Sequence[Any]] = []
    objects: list[UseRow] = []
    for team, kind, cluster, title, namespace, *row in TOTALS_AND_UNMANAGED.rows(teams, now):
        if kind in (CLAIM, POD):
            objects.append((team, kind, cluster, title, namespace, *row))
        else:
            key, state, count, *_empty = row
            totals.append((team, kind, key, state, int(count)))
    unmanaged: dict[UUID, list[UnmanagedUse]] = defaultdict(list)
    for team, use in _unmanaged_uses(objects):
        unmanaged[team].append(use)
    return totals, unmanaged


def _totals_and_unmanaged(team: UUID, now: datetime) -> Statement:
    """Return the rows of `_totals` and of `_unmanaged_rows`; of the former, columns 6 to 8 are in use."""
    totals, values = _totals(team, now)
    unmanaged, more = _unmanaged_rows([team]).order_by().query.sql_with_params()
    sql = """SELECT team, kind, NULL::uuid, '', '', key, state, total::text, '', '', ''
             FROM ({}) AS totals(team, kind, key, state, total) UNION ALL ({})"""
    return sql.format(totals, unmanaged), (*values, *more)


def class_quotas(teams: Collection[UUID]) -> dict[UUID, tuple[int, int]]:
    """Return (devices held, limit) of each team, over all its quotas for device classes; one query."""
    now = timezone.now()
    held: dict[tuple[UUID, str], int] = {}
    limits: Counter[tuple[UUID, str]] = Counter()
    for team, kind, device_class, count in CLASS_QUOTAS.rows(teams, now):
        if kind == OF_CLASS:
            held[team, device_class] = count
        else:
            limits[team, device_class] += count
    sums = dict.fromkeys(teams, (0, 0))
    for (team, device_class), limit in limits.items():
        of_team = sums[team]
        sums[team] = of_team[0] + held.get((team, device_class), 0), of_team[1] + limit
    return sums


def _class_quotas(team: UUID, now: datetime) -> QuerySet[Any, Any]:
    """Return (team, kind, device class, number): devices held, quotas, and what is added to these now."""
    charges = ClaimCharge.objects.filter(claim__team=team, claim__state__in=MAY_HOLD_DEVICES, live=True)
    quotas = Quota.objects.filter(team=team).exclude(device_class="")
    raises = QuotaIncrease.objects.filter(quota__team=team, starts_at__lte=now, ends_at__gt=now)
    return _sums(charges, CHARGED_DEVICES, "claim__team", OF_CLASS, "device_class").union(
        _sums(quotas, F("devices"), "team", LIMIT, "device_class"),
        _sums(
            raises.exclude(quota__device_class=""), F("devices"), "quota__team", RAISED, "quota__device_class"
        ),
        all=True,
    )


CLASS_QUOTAS = OfTeams(_class_quotas, UUID, datetime)
TOTALS = OfTeams(_totals, UUID, datetime)
TOTALS_AND_UNMANAGED = OfTeams(_totals_and_unmanaged, UUID, datetime)
