"""
Which mirrored objects belong to a claim of the portal, stored in their rows, so that pages read an index.

The sync calls `ownerships` (`settings.OBJECT_OWNERSHIP`) when it writes objects; `refresh_claim` follows
changes of a claim. Both run in the transaction of the change. `refresh` compares all rows with all claims,
which repairs what two changes at the same instant missed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL

from claims.models import Claim, Delivery
from claims.states import FINAL
from core.inputs import valid_ids
from core.models import RowDifferences
from inventory.models import Cluster, ObjectKey, Owned, Ownership, ResourceClaim, ResourceClaimTemplate

MODELS: tuple[type[Owned], ...] = (ResourceClaim, ResourceClaimTemplate)
SLICE = 2000  # rows that are compared at once


class OwnerKey(NamedTuple):
    """The columns of a claim that identify its objects."""

    pk: UUID
    namespace: str
    name: str
    delivery: str
    object_uid: str
    state: str


def ownerships(cluster_id: UUID, objects: Sequence[ObjectKey]) -> dict[str, Ownership]:
    """Return the ownership of objects of one cluster by uid, in two queries."""
    claims = Claim.objects.filter(cluster=cluster_id).order_by().values_list(*OwnerKey._fields)
    uids = [item.uid for item in objects]
    labels = valid_ids({item.owner for item in objects if item.owner})
    # An array is one parameter: preparing thousands of them would take longer than the query.
    of_labels = claims.filter(pk__in=RawSQL("SELECT unnest(%s::uuid[])", (labels,)))
    of_uids = claims.filter(object_uid__in=RawSQL("SELECT unnest(%s::text[])", (uids,)))
    named = {str(claim.pk): claim for claim in map(OwnerKey._make, of_labels)}
    written: dict[str, list[OwnerKey]] = defaultdict(list)
    for claim in map(OwnerKey._make, of_uids):
        written[claim.object_uid].append(claim)
    return {item.uid: _ownership(item, named.get(item.owner), written[item.uid]) for item in objects}


def _ownership(item: ObjectKey, named: OwnerKey | None, written: Iterable[OwnerKey]) -> Ownership:
    """
    Compare an object with the claim that its label names, and with the claims that have its uid.

    An object belongs to a claim only in the claim's own namespace. A label assigns it under the claim's own
    name, or under any name if Kubernetes generates the names from a template; a uid assigns it while the
    claim is live.
    """
    if named is not None and named.namespace != item.namespace:
        named = None
    written = [claim for claim in written if claim.namespace == item.namespace]
    if named is not None and (named.name == item.name or named.delivery == Delivery.TEMPLATE):
        return Ownership.MANAGED
    if any(claim.state not in FINAL for claim in written):
        return Ownership.MANAGED
    return Ownership.RELATED if named is not None or written else Ownership.UNMANAGED


def refresh_claim(claim: Claim) -> None:
    """Compare the objects that a claim has, or that name it, after a change of its state or object."""
    own = Q(owner=str(claim.pk))
    if claim.object_uid:
        own |= Q(uid=claim.object_uid)
    for model in MODELS:
        _refresh_rows(model, claim.cluster_id, model._default_manager.filter(own))


def refresh() -> RowDifferences:
    """Compare all rows with all claims, a slice at a time, and repair those that differ."""
    differences = RowDifferences()
    for model, cluster_id, pks in _slices():
        differences += _refresh_rows(model, cluster_id, model._default_manager.filter(pk__in=pks))
    return differences


def find_differences() -> RowDifferences:
    """Compare all rows with all claims, and change nothing."""
    differences = RowDifferences()
    for model, cluster_id, pks in _slices():
        changes, _revision = _compare(cluster_id, model._default_manager.filter(pk__in=pks))
        differences += _differences(changes)
    return differences


type Change = tuple[Ownership, Ownership]  # before, after


def _slices() -> Iterator[tuple[type[Owned], UUID, list[int]]]:
    for model in MODELS:
        for cluster_id in Cluster.objects.order_by("pk").values_list("pk", flat=True):
            rows = model._default_manager.filter(cluster=cluster_id, gone_at=None).order_by("pk")
            last = 0
            while pks := list(rows.filter(pk__gt=last).values_list("pk", flat=True)[:SLICE]):
                yield model, cluster_id, pks
                last = pks[-1]


def _refresh_rows[M: Owned](model: type[M], cluster_id: UUID, rows: QuerySet[M]) -> RowDifferences:
    changes, revision = _compare(cluster_id, rows)
    for (before, after), pks in changes.items():
        # The sync has compared rows with a newer revision itself.
        unchanged = model._default_manager.filter(pk__in=pks, ownership=before, revision__lte=revision)
        unchanged.update(ownership=after)
    return _differences(changes)


def _compare[M: Owned](cluster_id: UUID, rows: QuerySet[M]) -> tuple[dict[Change, list[int]], int]:
    """Return the rows that differ by the change that they need, and the newest revision of all rows."""
    columns = ("uid", "namespace", "name", "owner", "pk", "ownership", "revision")
    stored = list(rows.filter(cluster=cluster_id, gone_at=None).order_by().values_list(*columns))
    expected = ownerships(cluster_id, [ObjectKey(*row[:4]) for row in stored]) if stored else {}
    changes: dict[Change, list[int]] = defaultdict(list)
    for uid, *_key, pk, ownership, _revision in stored:
        if ownership != expected[uid]:
            changes[Ownership(ownership), expected[uid]].append(pk)
    return changes, max((row[-1] for row in stored), default=0)


def _differences(changes: dict[Change, list[int]]) -> RowDifferences:
    counts = {change: len(pks) for change, pks in changes.items()}
    missing = sum(count for (before, _after), count in counts.items() if before == Ownership.NOT_COMPARED)
    return RowDifferences(missing, sum(counts.values()) - missing)
