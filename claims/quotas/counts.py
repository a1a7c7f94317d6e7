"""
What counts against a quota: claims by state, increases, and use outside the portal.

Three kinds of use bypass the portal: a ResourceClaim made by hand or from another template, a claim that the
scheduler creates for a pod with an extended resource, and a pod that a device plugin serves, which has no
claim. They are counted by the rules of Kubernetes' own quota.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from uuid import UUID

from django.db.models import Case, Count, F, Q, QuerySet, Sum, Value, When
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce, Greatest, Least
from django.utils import timezone

from claims.models import Alternative, Claim, ClaimCharge, Quota, QuotaIncrease, TeamNamespace
from claims.observation.unmanaged import unmanaged_use_claims
from claims.states import LIVE, ClaimState
from dra.quota import (
    RESOURCE_PREFIX,
    charge,
    claimed_extended_resources,
    class_of_resource,
    extended_resource_names,
)
from inventory.models import DeviceClass, Pod
from teams.models import Team

ENDED_PHASES = ("Succeeded", "Failed")  # phases in which a pod holds nothing

type Place = tuple[UUID, str]  # cluster, namespace


@dataclass(frozen=True, slots=True)
class UnmanagedUse:
    """
    One object outside the portal and the devices per class that it counts for; `claims` is 1 for a
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


type Outside = Mapping[UUID, Sequence[UnmanagedUse]]  # by team


def unmanaged_use(teams: Collection[UUID]) -> dict[UUID, list[UnmanagedUse]]:
    """Return what each team uses outside the portal, in four queries however much that is."""
    owners = _owners(TeamNamespace.objects.filter(team__in=teams))
    usage: dict[UUID, list[UnmanagedUse]] = defaultdict(list)
    if not owners:
        return usage
    clusters = {cluster for cluster, _ in owners}
    here = Q(cluster__in=clusters, namespace__in={namespace for _, namespace in owners})
    for use in (*_unmanaged_claim_use(teams), *_unmanaged_pod_use(owners, here)):
        usage[owners[use.cluster, use.namespace]].append(use)
    return usage


def _unmanaged_claim_use(teams: Collection[UUID]) -> Iterable[UnmanagedUse]:
    columns = ("cluster", "cluster__name", "namespace", "name", "origin", "raw__spec", "uid")
    rows = unmanaged_use_claims(teams).values_list(*columns)
    for cluster, title, namespace, name, origin, spec, uid in rows:
        counted = charge(spec or {})
        yield UnmanagedUse("ResourceClaim", cluster, title, namespace, name, origin, counted, uid)


def used_by_all_teams(classes: Collection[str]) -> Counter[str]:
    """Return the devices of these classes that all teams hold, reserve and use outside the portal."""
    used: Counter[str] = Counter()
    charges = ClaimCharge.objects.filter(live=True, device_class__in=classes).order_by()
    for device_class, count in charges.values_list("device_class").annotate(total=Sum(CHARGED_DEVICES)):
        used[device_class] += count
    # Equal specs are charged once: most claims of a cluster have one of a few.
    charge_of: dict[str, dict[str, int]] = {}
    claims = unmanaged_use_claims(Team.objects.all()).order_by()
    for spec, count in claims.values_list(KeyTextTransform("spec", "raw")).annotate(number=Count("pk")):
        if spec not in charge_of:
            charge_of[spec] = charge(json.loads(spec or "{}"))
        used.update({name: devices * count for name, devices in charge_of[spec].items()})
    for use in _unmanaged_pod_use(_owners(TeamNamespace.objects.all()), Q()):
        used.update(use.charge)
    return used


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


def _owners(spaces: QuerySet[TeamNamespace]) -> dict[Place, UUID]:
    rows = spaces.values_list("cluster", "namespace", "team")
    return {(cluster, namespace): team for cluster, namespace, team in rows}


def _unmanaged_pod_use(owners: dict[Place, UUID], here: Q) -> list[UnmanagedUse]:
    asking = Pod.objects.filter(here, gone_at=None).exclude(extended={}).exclude(phase__in=ENDED_PHASES)
    columns = ("cluster", "cluster__name", "namespace", "name", "extended", "raw__status", "uid", "node_name")
    rows = [row for row in asking.values_list(*columns) if (row[0], row[2]) in owners]
    carried = _extended_names({row[0] for row in rows}) if rows else {}
    usage = []
    for cluster, title, namespace, name, extended, status, uid, node in rows:
        served, names = claimed_extended_resources({"status": status}), carried.get(cluster, {})
        counted, unseen = Counter[str](), Counter[str]()
        for resource, count in extended.items():
            device_class = class_of_resource(resource, names)
            if device_class and resource not in served:
                counted[device_class] += count
                if resource not in names and not resource.startswith(RESOURCE_PREFIX):
                    unseen[device_class] += count
        if counted:
            what = ("Pod", cluster, title, namespace, name, "device-plugin", dict(counted), uid)
            usage.append(UnmanagedUse(*what, dict(unseen), node))
    return usage


def _extended_names(clusters: Collection[UUID]) -> dict[UUID, dict[str, str]]:
    classes: dict[UUID, list[tuple[str, str, str]]] = defaultdict(list)
    rows = DeviceClass.objects.filter(cluster__in=clusters, gone_at=None).exclude(extended_resource="")
    for cluster, name, extended, created in rows.values_list(
        "cluster", "name", "extended_resource", "created_at"
    ):
        classes[cluster].append((name, extended, created.isoformat() if created else ""))
    return {cluster: extended_resource_names(usage) for cluster, usage in classes.items()}


CHARGED_DEVICES = Greatest(Coalesce("settled", "devices") - F("carried"), 0)  # of a ClaimCharge
ALTERNATIVE_DEVICES = Coalesce("settled", "devices")  # of an Alternative
CLAIM_DEVICES = Greatest(F("devices") * F("parallel") - F("carried"), 0)  # of a Claim of one profile
# While the predecessor's objects are there as well, only claims beyond their number count.
CLAIM_COUNT = F("parallel") - Case(
    When(carried__gt=0, then=Least(F("parallel"), Coalesce(F("replaces__parallel"), 0))), default=Value(0)
)


@dataclass(frozen=True, slots=True)
class QuotaCounts:
    """Devices, or claims where the quota counts those; `raised` is what raises add to the limit now."""

    held: int = 0
    reserved: int = 0
    outside: int = 0
    raised: int = 0


def count_quotas(quotas: Iterable[Quota], outside: Outside | None = None) -> list[QuotaCounts]:
    """
    Count what stands against these rows, in a number of queries that does not grow with them. Under their
    lock what the portal itself gives out cannot grow. `outside` is the unmanaged use of their teams, if the
    caller has read it.
    """
    rows = list(quotas)
    teams = {row.team_id for row in rows}
    counted: dict[tuple[UUID, object, bool], int] = defaultdict(int)
    for team, what, state, count in chain(
        _by_class(teams),
        _by_profile(teams) if any(row.profile_id for row in rows) else (),
        _by_number(teams) if any(row.counts == Quota.Counts.CLAIMS for row in rows) else (),
    ):
        counted[team, what, state == ClaimState.REQUESTED] += count
    outside = unmanaged_use(teams) if outside is None else outside
    raised = increases_by_quota(rows)
    return [
        QuotaCounts(
            held=counted[row.team_id, counted_key(row), False],
            reserved=counted[row.team_id, counted_key(row), True],
            outside=sum(unmanaged_count(row, use) for use in outside.get(row.team_id, ())),
            raised=raised[row.pk],
        )
        for row in rows
    ]


def counted_key(quota: Quota) -> object:
    """Return what a row counts: a profile's id, "" for claims, or the name of a class."""
    return quota.profile_id or quota.device_class


def unmanaged_count(quota: Quota, use: UnmanagedUse) -> int:
    """Return what an object outside the portal takes of a quota; it is of no profile."""
    if quota.profile_id:
        return 0
    return use.claims if quota.counts == Quota.Counts.CLAIMS else use.charge.get(quota.device_class, 0)


def increases_by_quota(quotas: Sequence[Quota]) -> dict[UUID, int]:
    """Return what raises that run now add to each limit, by id of the quota."""
    now, sums = timezone.now(), defaultdict[UUID, int](int)
    running = QuotaIncrease.objects.filter(quota__in=quotas, starts_at__lte=now, ends_at__gt=now)
    for quota, devices in running.order_by().values_list("quota").annotate(total=Sum("devices")):
        sums[quota] = devices
    return sums


def _by_class(teams: Iterable[UUID]) -> Iterable[Any]:
    charges = ClaimCharge.objects.filter(claim__team__in=teams, claim__state__in=LIVE)
    return charges.values_list("claim__team", "device_class", "claim__state").annotate(
        total=Sum(CHARGED_DEVICES)
    )


def _by_profile(teams: Iterable[UUID]) -> Iterable[Any]:
    alone = Claim.objects.filter(team__in=teams, state__in=LIVE, alternatives=None).order_by()
    one_of = Alternative.objects.filter(claim__team__in=teams, claim__state__in=LIVE).order_by()
    return chain(
        alone.values_list("team", "profile_version__profile", "state").annotate(total=Sum(CLAIM_DEVICES)),
        one_of.values_list("claim__team", "profile_version__profile", "claim__state").annotate(
            total=Sum(ALTERNATIVE_DEVICES)
        ),
    )


def _by_number(teams: Iterable[UUID]) -> Iterable[Any]:
    live = Claim.objects.filter(team__in=teams, state__in=LIVE).order_by()
    for team, state, count in live.values_list("team", "state").annotate(total=Sum(CLAIM_COUNT)):
        yield team, "", state, count
