"""
Which claims to reconcile: those whose objects changed, those that are due, and a slice of all.

There are three sources. Each repairs what the one before it lost.

- `take_changes`: changes in the mirror of a cluster since the last time, after a message of the mirror and
  with each sweep. The revision up to which everything is done is stored, so any message may be lost.
- `due_claims`: claims whose `Claim.reconcile_at` has come: at once after each step of the claim, later where
  only time changes the observation.
- `slice_of_claims`, `slice_of_objects`: all rows in turn, some with each sweep, whatever was lost before.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import BooleanField, Exists, ExpressionWrapper, F, Min, Model, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from claims.models import Allocation, Claim, ReconciledCluster, SweepRound
from claims.observation.drift import DELETED_BY_SOMEBODY, Disruption
from claims.observation.observations import ENDED, claims_of_objects, owner_labels
from claims.states import GRANTED
from core.inputs import valid_ids
from inventory.models import (
    Cluster,
    Device,
    DeviceTaintRule,
    Pod,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from inventory.sync.columns import disruption_of

HELD_FOR = timedelta(seconds=60)  # then another worker takes over from a dead one
MAX_REVISIONS = 2  # at once, of up to 500 objects each: a crash repeats little, and a sweep ends
DUE_AT_ONCE = 2000  # claims per sweep; the others are due with the next one
SLICE = 400  # rows of a table in a sweep: 24,000 claims or objects take 15 minutes

KINDS: tuple[type[Model], ...] = (ResourceClaim, ResourceClaimTemplate, Pod, ResourceSlice, DeviceTaintRule)
# As text: it is asked for every change of a cluster, and to compile it takes longer than to run it.
CHANGED_KINDS = " UNION ALL ".join(
    f"SELECT {number} WHERE EXISTS (SELECT FROM {kind._meta.db_table} WHERE cluster_id = %(cluster)s"  # noqa: S608
    " AND revision > %(after)s AND revision <= %(until)s)"
    for number, kind in enumerate(KINDS)
)

HAS_OWNER = Q(gone_at=None) & ~Q(owner="")
OURS = Q(deleting_since=None, origin=ResourceClaim.Origin.PORTAL)  # of ResourceClaims: written by the portal


@dataclass(frozen=True, slots=True)
class Changes:
    """
    Changes in the mirror of a cluster after revision `after`, up to `until`: the affected claims, the
    namespaces of claims, templates and pods, and the pods that Kubernetes ends.
    """

    cluster_id: UUID
    after: int
    until: int
    claim_ids: set[UUID] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    disruptions: list[Disruption] = field(default_factory=list)
    deleted_pods: list[Disruption] = field(default_factory=list)

    @contextmanager
    def reconciling(self) -> Iterator[None]:
        """Store at the end that all of it is done; after an exception it is repeated."""
        reached = self.after
        try:
            yield
            reached = self.until
        finally:
            _reconciled(self.cluster_id).update(revision=reached, held_until=None)

    def go_on(self) -> None:
        """Extend the lease; call it between the steps of long work."""
        _reconciled(self.cluster_id).update(held_until=Now() + HELD_FOR)


def take_changes(cluster_id: UUID) -> Changes | None:
    """
    Take the lease and return what is not reconciled yet; None if nothing is, or if another worker holds the
    lease.

    The holder of the lease calls this again at the end, so it also handles changes committed meanwhile. A
    message for those changes may then find nothing to do.
    """
    newest = Cluster.objects.filter(pk=cluster_id).values("revision")
    free = Q(held_until=None) | Q(held_until__lte=Now())
    if not _reconciled(cluster_id).filter(free, revision__lt=newest).update(held_until=Now() + HELD_FOR):
        return None
    after, until = _reconciled(cluster_id).values_list("revision", "cluster__revision").get()
    if until - after > MAX_REVISIONS:
        after, until = _first_span(cluster_id, after, until)
    changes = Changes(cluster_id, after, until)
    kinds = _changed_kinds(changes)
    _read_objects(changes, kinds)
    if kinds & {ResourceSlice, DeviceTaintRule}:
        _read_devices(changes)
    return changes


def ensure_rows() -> list[UUID]:
    """Return the ids of all clusters; each has a row with its reconciled revision afterwards."""
    clusters = list(Cluster.objects.values_list("pk", flat=True))
    known = set(ReconciledCluster.objects.values_list("pk", flat=True))
    new = [ReconciledCluster(cluster_id=cluster_id) for cluster_id in clusters if cluster_id not in known]
    if new:
        ReconciledCluster.objects.bulk_create(new, ignore_conflicts=True)
    return clusters


def _reconciled(cluster_id: UUID) -> QuerySet[ReconciledCluster]:
    return ReconciledCluster.objects.filter(pk=cluster_id)


def _first_span(cluster_id: UUID, after: int, until: int) -> tuple[int, int]:
    """Return at most `MAX_REVISIONS` revisions, without the empty ones at the start."""
    here = {"cluster": cluster_id, "revision__gt": after, "revision__lte": until}
    first = [
        model._default_manager.filter(**here).order_by("revision").values_list("revision", flat=True).first()
        for model in KINDS
    ]
    start = min((revision for revision in first if revision is not None), default=until) - 1
    return start, min(start + MAX_REVISIONS, until)


def _changed_kinds(changes: Changes) -> set[type[Model]]:
    """Return the kinds with changed rows: most changes are of one kind, and need no query for the others."""
    span: dict[str, Any] = {"cluster": changes.cluster_id, "after": changes.after, "until": changes.until}
    with connection.cursor() as cursor:
        cursor.execute(CHANGED_KINDS, span)
        return {KINDS[number] for (number,) in cursor.fetchall()}


def _in_span(changes: Changes) -> dict[str, Any]:
    return {
        "cluster": changes.cluster_id,
        "revision__gt": changes.after,
        "revision__lte": changes.until,
    }


def _read_objects(changes: Changes, kinds: Collection[type[Model]]) -> None:
    """Add the claims that own the changed claims and templates, or that changed pods use."""
    labels: set[str] = set()
    uids: set[str] = set()
    for model in (ResourceClaim, ResourceClaimTemplate):
        if model not in kinds:
            continue
        rows = model._default_manager.filter(**_in_span(changes))
        for namespace, owner, uid in rows.values_list("namespace", "owner", "uid"):
            changes.namespaces.add(namespace)
            labels.add(owner)
            uids.add(uid)
    used = _read_pods(changes) if Pod in kinds else set()
    labels |= owner_labels(changes.cluster_id, used)
    changes.claim_ids.update(valid_ids(labels), claims_of_objects(changes.cluster_id, uids))


def _read_pods(changes: Changes) -> set[str]:
    """
    Add the pods that Kubernetes ends, and those that somebody deleted while they ran and that no controller
    replaces. Return "namespace/name" of the claims and templates of all changed pods.

    A pod that completed has ended before it is deleted; one that is deleted has a deletionTimestamp first.
    """
    ran = ~Q(node_name="") & (~Q(phase__in=ENDED) | Q(deleting_since__isnull=False))
    deleted = ExpressionWrapper(Q(gone_at__isnull=False) & ran, BooleanField())
    columns = ("namespace", "name", "uid", "phase", "claims", "templates", "raw__status")
    pods = Pod.objects.filter(**_in_span(changes)).order_by("pk")
    used: set[str] = set()
    for namespace, name, uid, phase, claims, templates, status, owners, was_deleted in pods.values_list(
        *columns, "raw__metadata__ownerReferences", deleted
    ):
        changes.namespaces.add(namespace)
        names = frozenset(f"{namespace}/{used_name}" for used_name in (*claims, *templates))
        used.update(names)
        if phase == "Succeeded":  # its work was done before its node was drained
            continue
        if disruption := disruption_of({**(status or {}), "phase": phase}):
            changes.disruptions.append(Disruption(name, uid, namespace, names, *disruption))
        elif was_deleted and not any(owner.get("controller") for owner in owners or ()):
            changes.deleted_pods.append(Disruption(name, uid, namespace, names, DELETED_BY_SOMEBODY))
    return used


def _read_devices(changes: Changes) -> None:
    """Add the claims whose devices changed with their slice, or were tainted by a changed rule."""
    rules = DeviceTaintRule.objects.filter(**_in_span(changes)).aggregate(since=Min("seen_at"))
    changed = Q(
        slice__in=ResourceSlice.objects.filter(**_in_span(changes)), changed_at__gte=F("slice__seen_at")
    )
    if rules["since"] is not None:
        changed |= Q(changed_at__gte=rules["since"])
    held = Device.objects.filter(changed, cluster=changes.cluster_id, held_by__isnull=False)
    changes.claim_ids.update(valid_ids(held.values_list("held_by__owner", flat=True)))


def due_claims() -> tuple[set[UUID], set[UUID]]:
    """
    Return the ids of due claims, the longest overdue first. Claims that reconciliation does not follow lose
    their time.
    """
    due = Claim.objects.filter(reconcile_at__lte=Now()).order_by("reconcile_at")
    ids = set(due.values_list("pk", flat=True)[:DUE_AT_ONCE])
    if not ids:
        return set(), set()
    open_allocations = Allocation.objects.filter(claim=OuterRef("pk"), ended_at=None)
    others = Claim.objects.filter(~Exists(open_allocations), pk__in=ids).exclude(state__in=GRANTED)
    over = set(others.values_list("pk", flat=True))
    # With the state: a claim that changed meanwhile stays due.
    Claim.objects.filter(pk__in=over).exclude(state__in=GRANTED).update(reconcile_at=None)
    return ids - over, over


def slice_of_claims() -> AbstractContextManager[set[UUID]]:
    """Return the ids of the next claims that reconciliation follows or that have open allocations."""
    return _slice(Claim, _claims_after)


def slice_of_objects(
    model: type[ResourceClaim | ResourceClaimTemplate],
) -> AbstractContextManager[set[UUID]]:
    """Return the ids of claims that own the next objects of this kind, without objects in deletion."""
    return _slice(model, partial(_owners_after, model))


@contextmanager
def _slice(model: type[Model], rows_after: Callable[[str], tuple[set[UUID], str]]) -> Iterator[set[UUID]]:
    """
    Yield the ids of the next slice, and start the next one after it even if this one fails.

    A worker that dies leaves the slice to the next sweep. Two workers at once do the same slice; the round
    advances once.
    """
    table = model._meta.model_name or ""
    row, _created = SweepRound.objects.get_or_create(table=table)
    ids, last = rows_after(row.after)
    try:
        yield ids
    finally:
        if last != row.after:
            SweepRound.objects.filter(table=table, after=row.after).update(after=last)


def _claims_after(after: str) -> tuple[set[UUID], str]:
    granted = Claim.objects.filter(state__in=GRANTED).order_by("pk").values_list("pk", flat=True)
    holding = Allocation.objects.filter(ended_at=None).values_list("claim", flat=True)
    if after:
        granted, holding = granted.filter(pk__gt=after), holding.filter(claim__gt=after)
    ids = list(granted[:SLICE])
    if len(ids) < SLICE:
        return {*ids, *holding}, ""
    return {*ids, *holding.filter(claim__lte=ids[-1])}, str(ids[-1])


def _owners_after(model: type[ResourceClaim | ResourceClaimTemplate], after: str) -> tuple[set[UUID], str]:
    owned = model._default_manager.filter(HAS_OWNER, pk__gt=int(after or 0)).order_by("pk")
    if model is ResourceClaim:
        owned = owned.filter(OURS)
    rows = list(owned.values_list("pk", "owner")[:SLICE])
    ids = set(valid_ids({owner for _pk, owner in rows}))
    return ids, str(rows[-1][0]) if len(rows) == SLICE else ""
