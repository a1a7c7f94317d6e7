"""
The ResourceQuota of a team in a cluster: its limits, and writing them.

A quota holds over all clusters together, but no cluster knows the others. Each gets as its limit what exists
in its namespace plus what the team has free over all clusters, so a claim in one cluster lowers the limits in
all others. Pending requests are reserved in no cluster before their approval: nobody can take those devices
with kubectl.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Q, QuerySet, Sum
from django.utils import timezone

from claims.models import Claim, ClaimCharge, Delivery, Quota, TeamNamespace, WrittenQuota
from claims.plans.plan import TEAM_LABEL
from claims.quotas.counts import UnmanagedUse, unmanaged_use
from claims.quotas.quota_usage import QuotaUsage, team_usage
from claims.states import GRANTED
from cluster.checkup import QUOTA_NAME
from cluster.protocol import RESOURCE_QUOTA, ClusterConflict, ClusterError, Gateway, Manifest, Unreachable
from core.prepared import Prepared
from dra import quota
from dra.quantity import Quantity, QuantityError
from inventory.models import DeviceClass, ResourceClaimTemplate

type Place = tuple[UUID, str]  # cluster, namespace


@dataclass(slots=True)
class NamespaceUsage:
    """
    What the ResourceQuota of a namespace counts: devices per class, claims, and templates.

    A claim of the portal counts from its approval on, for what Kubernetes charges: its worst alternative, and
    in full beside the claim that it replaces.
    """

    classes: Counter[str] = field(default_factory=Counter)
    claims: int = 0
    templates: int = 0


@dataclass(frozen=True, slots=True)
class Headroom:
    """
    Devices by class: `present` in a namespace and `free` in the quota of the team; the limit is their sum.

    `claims` and `templates` are the limits for those, None without a limit. `quotas` are those of the team
    for a class.
    """

    present: dict[str, int]
    free: dict[str, int]
    quotas: Sequence[QuotaUsage]
    claims: int | None = None
    templates: int | None = None

    @property
    def devices(self) -> dict[str, int]:
        return {name: count + self.free[name] for name, count in self.present.items()}


def headrooms(team_namespaces: Collection[TeamNamespace]) -> dict[int, Headroom]:
    """
    Return the headroom of each of these namespaces by primary key, in a fixed number of queries, for the
    classes that the cluster publishes or the team has a quota of.
    """
    teams = {team_namespace.team_id: team_namespace.team for team_namespace in team_namespaces}
    unmanaged = unmanaged_use(teams)
    current = _namespace_usage(team_namespaces, chain.from_iterable(unmanaged.values()))
    quotas: dict[UUID, list[QuotaUsage]] = defaultdict(list)
    claims: dict[UUID, int] = {}
    for use in team_usage(teams.values(), unmanaged):
        if use.quota.counts == Quota.Counts.CLAIMS:
            claims[use.team.pk] = use.free
        elif use.quota.device_class:
            quotas[use.team.pk].append(use)
    known: dict[UUID, set[str]] = defaultdict(set)
    published = DeviceClass.objects.filter(
        cluster__in={team_namespace.cluster_id for team_namespace in team_namespaces}, gone_at=None
    )
    for cluster, name in published.values_list("cluster", "name"):
        known[cluster].add(name)
    return {
        team_namespace.pk: _headroom(
            current[team_namespace.cluster_id, team_namespace.namespace],
            known[team_namespace.cluster_id],
            quotas[team_namespace.team_id],
            claims.get(team_namespace.team_id),
        )
        for team_namespace in team_namespaces
    }


def _headroom(
    usage: NamespaceUsage, known: set[str], quotas: Sequence[QuotaUsage], claims: int | None
) -> Headroom:
    free = {use.quota.device_class: use.free for use in quotas}
    names = sorted(known | free.keys())
    room = {name: free.get(name, 0) for name in names}
    present = {name: usage.classes[name] for name in names}
    if claims is None:
        return Headroom(present, room, quotas)
    most = claims + usage.claims
    return Headroom(present, room, quotas, claims=most, templates=max(most, usage.templates))


def _namespace_usage(
    team_namespaces: Collection[TeamNamespace], unmanaged: Iterable[UnmanagedUse]
) -> dict[Place, NamespaceUsage]:
    """
    Count what exists in these namespaces, whichever team it belongs to: a claim stays in its namespace when
    that is given to another team. `unmanaged` is the unmanaged use of their teams. Other namespaces of the
    same clusters may be counted in part.
    """
    usage: dict[Place, NamespaceUsage] = defaultdict(NamespaceUsage)
    here = (
        list({team_namespace.cluster_id for team_namespace in team_namespaces}),
        list({team_namespace.namespace for team_namespace in team_namespaces}),
    )
    for cluster, namespace, device_class, devices in CHARGES.rows(*here):
        usage[cluster, namespace].classes[device_class] += devices
    for cluster, namespace, count, templates in CLAIMS.rows(*here):
        usage[cluster, namespace].claims += count
        usage[cluster, namespace].templates += templates
    for cluster, namespace, count in UNMANAGED_TEMPLATES.rows(*here):
        usage[cluster, namespace].templates += count
    for use in unmanaged:
        counted = usage[use.cluster, use.namespace]
        counted.classes.update(use.charge)
        counted.classes.subtract(use.unseen)
        counted.claims += use.claims
    return usage


def _charges(cluster: UUID, namespace: str) -> QuerySet[ClaimCharge, Any]:
    """Return (cluster, namespace, device class, devices) of the claims that exist in a namespace."""
    charges = ClaimCharge.objects.filter(claim__cluster=cluster, claim__namespace=namespace, live=True)
    by_class = charges.filter(claim__state__in=GRANTED).order_by()
    columns = ("claim__cluster", "claim__namespace", "device_class")
    return by_class.values_list(*columns).annotate(total=Sum("devices"))


def _claims(cluster: UUID, namespace: str) -> QuerySet[Claim, Any]:
    """Return (cluster, namespace, claims, templates) of the claims that exist in a namespace."""
    claims = Claim.objects.filter(cluster=cluster, namespace=namespace, state__in=GRANTED).order_by()
    templates = Count("pk", filter=Q(delivery=Delivery.TEMPLATE))
    return claims.values_list("cluster", "namespace").annotate(total=Sum("parallel"), templates=templates)


def _unmanaged_templates(cluster: UUID, namespace: str) -> QuerySet[ResourceClaimTemplate, Any]:
    """Return (cluster, namespace, templates) of the templates of others in a namespace."""
    here = ResourceClaimTemplate.objects.filter(cluster=cluster, namespace=namespace).order_by()
    unmanaged = here.filter(gone_at=None, owner="").values_list("cluster", "namespace")
    return unmanaged.annotate(total=Count("pk"))


CHARGES, CLAIMS, UNMANAGED_TEMPLATES = (
    Prepared(build, UUID, str, any_of=("cluster_id", "namespace"))
    for build in (_charges, _claims, _unmanaged_templates)
)


NAME = QUOTA_NAME  # the printed role allows changes of this name only
REFUSAL = f"exceeded quota: {NAME},"  # in the refusal of Kubernetes
MAX_NAMED = 3  # changed lines that a sentence names
LABEL = ("gpu.dragoman.dev/quota", "team")  # only objects with this label are ever changed or deleted
WRITTEN_ANNOTATION = (
    "gpu.dragoman.dev/written"  # annotation: the lines that the portal wrote, to detect lines of others
)
MAX_REWRITES = 5  # repeated writes at once if the limit changes meanwhile


def hard_limits(team_namespace: TeamNamespace) -> dict[str, str]:
    """Return `spec.hard` for the namespace: whole numbers as text, by key."""
    return hard_limits_by_namespace([team_namespace])[team_namespace.pk]


def hard_limits_by_namespace(team_namespaces: Collection[TeamNamespace]) -> dict[int, dict[str, str]]:
    """Return `spec.hard` for each of these namespaces, by primary key; the number of queries is fixed."""
    extended: dict[object, list[tuple[str, str]]] = defaultdict(list)
    carried = DeviceClass.objects.filter(
        cluster__in={team_namespace.cluster_id for team_namespace in team_namespaces}, gone_at=None
    )
    for cluster, *names in carried.exclude(extended_resource="").values_list(
        "cluster", "name", "extended_resource"
    ):
        extended[cluster].append((names[0], names[1]))
    current = headrooms(team_namespaces)
    return {
        team_namespace.pk: _hard_limits(current[team_namespace.pk], extended[team_namespace.cluster_id])
        for team_namespace in team_namespaces
    }


def _hard_limits(room: Headroom, extended: Iterable[tuple[str, str]]) -> dict[str, str]:
    devices = room.devices
    hard = {quota.class_quota_key(name): count for name, count in devices.items()}
    hard |= {quota.implicit_quota_key(name): count for name, count in devices.items()}
    for name, resource in extended:
        key = quota.extended_quota_key(resource)
        hard[key] = hard.get(key, 0) + devices[name]
    if room.claims is not None and room.templates is not None:
        hard |= {quota.CLAIMS: room.claims, quota.TEMPLATES: room.templates}
    return {key: str(count) for key, count in sorted(hard.items())}


def manifest_for(team_namespace: TeamNamespace, hard: dict[str, str]) -> Manifest:
    labels = dict((LABEL, (TEAM_LABEL, team_namespace.team.slug)))
    return {
        "apiVersion": RESOURCE_QUOTA.api_version,
        "kind": RESOURCE_QUOTA.kind,
        "metadata": {
            "name": NAME,
            "namespace": team_namespace.namespace,
            "labels": labels,
            "annotations": {WRITTEN_ANNOTATION: json.dumps(hard)},
        },
        "spec": {"hard": hard},
    }


def ensure(team_namespace: TeamNamespace, gateway: Gateway) -> WrittenQuota:
    """
    Write the ResourceQuota of the namespace if it differs, and record drift.

    A refusal of the cluster becomes a sentence in `problem`. Safe to race and to repeat: two at once both end
    with the last count. Raises Unreachable after recording it: the next namespace would wait as long.
    """
    row = _note_limits(team_namespace)
    lost: Unreachable | None = None
    try:
        current = gateway.get(RESOURCE_QUOTA, NAME, namespace=team_namespace.namespace)
        if current is not None and not is_ours(current) and not row.observed_hard:
            row.problem = (
                f"{team_namespace.namespace} has a ResourceQuota “{NAME}” that is not the portal's. It is "
                f"left alone; rename it, or give it the label {'='.join(LABEL)}."
            )
        else:
            _note_drift(row, current)
            current = _write(row, team_namespace, current, gateway)
            row.repaired_at = row.written_at if row.drift and not row.repaired_at else row.repaired_at
            row.problem = ""
            row.observed_hard = (current.get("spec") or {}).get("hard") or {}
            row.observed_used = (current.get("status") or {}).get("used") or {}
    except ClusterError as error:
        row.problem = f"{team_namespace.cluster}: {error}"
        lost = error if isinstance(error, Unreachable) else None
    row.checked_at = timezone.now()
    seen = ("observed_hard", "observed_used", "drift", "problem", "written_at", "repaired_at", "checked_at")
    WrittenQuota.objects.filter(pk=row.pk).update(**{name: getattr(row, name) for name in seen})
    if lost:
        raise lost
    return row


@transaction.atomic
def _note_limits(team_namespace: TeamNamespace) -> WrittenQuota:
    """Count and store the limits, one writer at a time: the last to store has the newest count."""
    WrittenQuota.objects.get_or_create(team_namespace=team_namespace)
    row = WrittenQuota.objects.select_for_update(no_key=True, of=("self",)).get(team_namespace=team_namespace)
    row.hard = hard_limits(team_namespace)
    row.save(update_fields=["hard"])
    return row


def _write(
    row: WrittenQuota,
    team_namespace: TeamNamespace,
    current: Manifest | None,
    gateway: Gateway,
    again: int = MAX_REWRITES,
) -> Manifest:
    """Write the stored limits, and again if somebody stores newer ones meanwhile. Raises ClusterError."""
    if (
        current is None
        or not is_ours(current)
        or written_limits(current) != row.hard
        or differing_limits(current, row.hard)
    ):
        current = gateway.apply(RESOURCE_QUOTA, manifest_for(team_namespace, row.hard), force=True)
        row.written_at = timezone.now()
    newest = WrittenQuota.objects.filter(pk=row.pk).values_list("hard", flat=True).first()
    if again and newest not in (None, row.hard):
        row.hard = newest
        return _write(row, team_namespace, current, gateway, again - 1)
    return current


def remove(row: WrittenQuota, gateway: Gateway) -> None:
    """Delete the object if it is the portal's, and its row. Safe to repeat. Raises Unreachable."""
    team_namespace = row.team_namespace
    try:
        current = gateway.get(RESOURCE_QUOTA, NAME, namespace=team_namespace.namespace)
        if current is not None and is_ours(current):
            gateway.delete(
                RESOURCE_QUOTA, NAME, namespace=team_namespace.namespace, uid=current["metadata"]["uid"]
            )
    except ClusterConflict:
        return  # replaced at this moment: the next round tries again
    except ClusterError as error:
        problem = f"{team_namespace.cluster}: {error}"
        WrittenQuota.objects.filter(pk=row.pk).update(problem=problem, checked_at=timezone.now())
        if isinstance(error, Unreachable):
            raise
        return
    row.delete()


def is_ours(current: Manifest) -> bool:
    return (current["metadata"].get("labels") or {}).get(LABEL[0]) == LABEL[1]


def written_limits(current: Manifest) -> dict[str, str]:
    """Return the lines as the portal wrote them last, {} if the object does not have them."""
    try:
        values = json.loads((current["metadata"].get("annotations") or {}).get(WRITTEN_ANNOTATION, "{}"))
    except ValueError:
        return {}
    return {key: str(value) for key, value in values.items()} if isinstance(values, dict) else {}


def differing_limits(current: Manifest, hard: dict[str, str], part: str = "spec") -> dict[str, str]:
    """Return the lines of our keys that differ from ours ("" for a missing line)."""
    values = (current.get(part) or {}).get("hard") or {}
    return {key: values.get(key, "") for key, value in hard.items() if not _equal(values.get(key, ""), value)}


def is_current(row: WrittenQuota | None, hard: dict[str, str]) -> bool:
    """Return whether the object had exactly these lines when the portal last read it."""
    if row is None or row.problem or row.hard != hard:
        return False
    return all(_equal(row.observed_hard.get(key, ""), value) for key, value in hard.items())


def raises_a_limit(row: WrittenQuota | None, hard: dict[str, str]) -> bool:
    """Return whether some line allows more than the line that was written last."""
    before = row.hard if row else {}
    return any(int(value) > int(before.get(key, 0)) for key, value in hard.items())


def counts_old_limit(team_namespace: TeamNamespace, gateway: Gateway) -> bool:
    """
    Return whether Kubernetes still counts by an older limit than that in the object.

    Admission uses `status.hard`, which the quota controller copies from `spec.hard` a moment later.
    """
    current = gateway.get(RESOURCE_QUOTA, NAME, namespace=team_namespace.namespace)
    return (
        current is not None
        and is_ours(current)
        and bool(differing_limits(current, current["spec"]["hard"], "status"))
    )


def _note_drift(row: WrittenQuota, current: Manifest | None) -> None:
    """Record drift: lines that differ from those that the portal wrote last."""
    if current is None:
        if row.observed_hard:
            row.drift, row.repaired_at = "Somebody deleted the ResourceQuota.", None
        return
    # Without the annotation, an older release wrote it: the last observation is used.
    was = written_limits(current) or {
        key: value for key, value in row.observed_hard.items() if key in row.hard
    }
    changed = [
        f"{key} from {was[key]} to {value or 'nothing'}"
        for key, value in differing_limits(current, was).items()
    ]
    if changed:
        row.drift = (
            f"Somebody changed {', '.join(changed[:MAX_NAMED])}."
            if len(changed) <= MAX_NAMED
            else f"Somebody changed {', '.join(changed[:MAX_NAMED])}, …"
        )
        row.repaired_at = None


def _equal(left: str, right: str) -> bool:
    try:
        return Quantity.parse(left) == Quantity.parse(right)
    except QuantityError:
        return left == right
