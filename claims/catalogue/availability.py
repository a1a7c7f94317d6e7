"""
What every cluster has for every profile: rows, computed when the cluster or the catalogue changes.

`refresh` computes the rows of one cluster; `claims.catalogue.tasks` says when. Pages read the rows
(`claims.catalogue.listing`, `claims.catalogue.lint`) and never compare profiles with devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from claims.catalogue.lint import check_cluster, enabled_clusters, report_as_json
from claims.catalogue.listing import kinds_among
from claims.models import ClusterAvailability, Profile, ProfileAvailability, ProfileVersion
from claims.quotas.class_use import unmanaged_by_class
from claims.quotas.quota_usage import class_capacity
from core.models import RowDifferences
from dra import match
from dra.cel import CelError
from dra.cluster_snapshot import ClusterSnapshot
from dra.manifests import with_count
from dra.match.funnel import Funnel, funnel
from dra.objects import device_requests
from dra.quota import devices
from dra.selector_results import DeviceMask
from inventory.cluster_snapshot import numbered_snapshot
from inventory.models import Cluster

FIGURES = ("matching", "free", "nodes", "most", "kinds")
HEAD_FIGURES = ("report", "checked", "capacity", "unmanaged")


# Computing.


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one version in one cluster, as `ProfileAvailability` has them."""

    matching: int | None
    free: int | None
    nodes: int | None
    most: int | None
    kinds: list[dict[str, Any]]


def figures(cluster_id: UUID, snapshot: ClusterSnapshot, version: ProfileVersion) -> Figures:
    """Return what the snapshot has for a version."""
    funnels = _funnels(snapshot, version)
    if funnels is None:
        return Figures(None, None, None, None, [])
    matching, free = _counted(funnels)
    kinds = {
        kind
        for row in funnels
        for kind in kinds_among(cluster_id, snapshot, row.accepted, row.request.capacity)
    }
    nodes, most = _nodes_and_most(snapshot, version)
    return Figures(
        matching.bit_count(),
        free.bit_count(),
        nodes,
        most,
        sorted((kind.as_json() for kind in kinds), key=repr),
    )


def _funnels(snapshot: ClusterSnapshot, version: ProfileVersion) -> list[Funnel] | None:
    """Return the funnel of each request whose class exists; None if a selector cannot be evaluated."""
    funnels = []
    for request in device_requests(version.spec):
        try:
            request_funnel = funnel(snapshot, request)
        except KeyError:
            continue  # the cluster has no such class, hence no such device
        except CelError:
            return None
        if request_funnel.errors:
            return None
        funnels.append(request_funnel)
    return funnels


def _counted(funnels: Iterable[Funnel]) -> tuple[DeviceMask, DeviceMask]:
    """Return the devices that match, and those of them that are free."""
    matching: DeviceMask = 0
    free: DeviceMask = 0
    for request_funnel in funnels:
        matching |= request_funnel.accepted
        free |= request_funnel.free
    return matching, free


def _nodes_and_most(snapshot: ClusterSnapshot, version: ProfileVersion) -> tuple[int | None, int | None]:
    """
    Return the number of nodes on which one claim fits, and the most devices that one claim could get.

    A claim that fits also fits with fewer devices, so the most is found by bisection. It is unknown for a
    claim of all devices of a node.
    """
    preview = match.preview(snapshot, version.spec)
    if preview.reason in (match.NoFitReason.NO_CLASS, match.NoFitReason.NO_REQUEST):
        return 0, 0
    nodes = preview.nodes_that_fit
    if any(request.all for request in device_requests(version.spec)):
        return nodes, None
    if not version.scalable:
        return nodes, devices(version.spec) if nodes else nodes
    fixed = devices(with_count(version.spec, version.scalable, 1)) - 1  # of the other requests
    fits, fails = 0, version.max_devices - fixed + 1
    count = fails - 1  # most clusters have a node for the largest claim
    while count > fits:
        spec = with_count(version.spec, version.scalable, count)
        nodes_for_count = match.preview(snapshot, spec).nodes_that_fit
        if nodes_for_count is None:
            return nodes, None
        if nodes_for_count:
            fits = count
        else:
            fails = count
        count = (fits + fails) // 2
    return nodes, fits + fixed if fits else 0


@dataclass(frozen=True, slots=True)
class _Known:
    """Figures, and what they were computed from: parts of a snapshot, and the free devices per request."""

    parts: tuple[object, ...]
    free: list[DeviceMask]
    figures: Figures

    def is_current(self, parts: tuple[object, ...], free: list[DeviceMask]) -> bool:
        return self.free == free and all(a is b for a, b in zip(self.parts, parts, strict=True))


_known: dict[tuple[UUID, UUID], _Known] = {}


def _figures_unless_known(cluster_id: UUID, snapshot: ClusterSnapshot, version: ProfileVersion) -> Figures:
    """Return the last figures of this process if none of the version's devices has changed hands since."""
    funnels = _funnels(snapshot, version)
    if funnels is None:
        return figures(cluster_id, snapshot, version)
    device_index = snapshot.device_index
    matching, _free = _counted(funnels)
    # A free device can still have more or less left, if it is shared or consumes counters.
    divided = matching & (device_index.shareable | device_index.counter_devices)
    parts = (device_index, snapshot.classes, snapshot.nodes, snapshot if divided else None)
    free = [request_funnel.free for request_funnel in funnels]
    known = _known.get((cluster_id, version.pk))
    if known is None or not known.is_current(parts, free):
        known = _Known(parts, free, figures(cluster_id, snapshot, version))
        _known[cluster_id, version.pk] = known
    return known.figures


_capacities: dict[UUID, tuple[object, object, dict[str, int]]] = {}


def _capacity(cluster_id: UUID, snapshot: ClusterSnapshot, *, anew: bool) -> dict[str, int]:
    """Return the capacity of each class; without `anew` counted only if slices or classes have changed."""
    device_index, classes, capacity = _capacities.get(cluster_id, (None, None, {}))
    if anew or device_index is not snapshot.device_index or classes is not snapshot.classes:
        capacity = {name: class_capacity([cluster_id], name) for name in sorted(snapshot.class_by_name)}
        _capacities[cluster_id] = snapshot.device_index, snapshot.classes, capacity
    return capacity


# Writing.


@dataclass(frozen=True, slots=True)
class _Computed:
    """What one cluster has for each version, and the catalogue check, at one revision of its mirror."""

    revision: int
    at: datetime
    figures: dict[UUID, Figures]  # by version
    report: dict[str, Any]
    checked: dict[str, str]
    capacity: dict[str, int]  # by class
    unmanaged: dict[str, int]  # by class


def refresh(cluster: Cluster) -> None:
    """Compute the rows of a cluster, unless its mirror and the catalogue are as they were."""
    if _is_current(cluster):
        return
    computed = _compute(cluster, _figures_unless_known)
    for key in [key for key in _known if key[0] == cluster.pk and key[1] not in computed.figures]:
        del _known[key]
    _write(cluster, computed)


def recompute() -> RowDifferences:
    """Compute all rows from nothing, also those that seem to be current. Return what differed."""
    differences = RowDifferences()
    for cluster in enabled_clusters():
        differences += _write(cluster, _compute(cluster, figures))
    return differences


def find_differences() -> RowDifferences:
    """Compare all rows with what they should be now, and change nothing."""
    differences = RowDifferences()
    for cluster in enabled_clusters():
        computed = _compute(cluster, figures)
        head = ClusterAvailability.objects.filter(cluster=cluster).first()
        differences += _differences(head, _stored(cluster), computed)
    return differences


def _current_profiles() -> list[Profile]:
    """Return every profile with a version; retired ones can be restored, and admins read their pages."""
    return list(Profile.objects.filter(current__isnull=False).select_related("current").order_by("slug"))


def _checked(profiles: Iterable[Profile]) -> dict[str, str]:
    return {profile.slug: str(profile.current_id) for profile in profiles if profile.retired_at is None}


def _is_current(cluster: Cluster) -> bool:
    head = ClusterAvailability.objects.filter(cluster=cluster).first()
    if head is None or head.revision != Cluster.objects.values_list("revision", flat=True).get(pk=cluster.pk):
        return False
    versions = set(ProfileAvailability.objects.filter(computation=head).values_list("version", flat=True))
    profiles = _current_profiles()
    return versions == {profile.current_id for profile in profiles} and head.checked == _checked(profiles)


type _Figures = Callable[[UUID, ClusterSnapshot, ProfileVersion], Figures]


def _compute(cluster: Cluster, figures_of: _Figures) -> _Computed:
    profiles = _current_profiles()
    at = timezone.now()
    revision, snapshot = numbered_snapshot(cluster)
    versions = {profile.slug: profile.current for profile in profiles if profile.current}
    offered = {profile.slug: versions[profile.slug] for profile in profiles if profile.retired_at is None}
    return _Computed(
        revision,
        at,
        {version.pk: figures_of(cluster.pk, snapshot, version) for version in versions.values()},
        report_as_json(check_cluster(cluster.pk, snapshot, offered)),
        _checked(profiles),
        _capacity(cluster.pk, snapshot, anew=figures_of is figures),
        unmanaged_by_class(cluster.pk),
    )


def _stored(cluster: Cluster) -> dict[UUID, ProfileAvailability]:
    return {row.version_id: row for row in ProfileAvailability.objects.filter(computation=cluster.pk)}


def _differences(
    head: ClusterAvailability | None, stored: dict[UUID, ProfileAvailability], computed: _Computed
) -> RowDifferences:
    expected = computed.figures
    altered = sum(_values(stored[pk]) != _values(row) for pk, row in expected.items() if pk in stored)
    altered += head is not None and _head_values(head) != _head_values(computed)
    missing = len(expected.keys() - stored.keys()) + (head is None)
    return RowDifferences(missing, altered, len(stored.keys() - expected.keys()))


def _values(row: Figures | ProfileAvailability) -> list[Any]:
    return [getattr(row, name) for name in FIGURES]


def _head_values(row: _Computed | ClusterAvailability) -> list[Any]:
    return [getattr(row, name) for name in HEAD_FIGURES]


@transaction.atomic
def _write(cluster: Cluster, computed: _Computed) -> RowDifferences:
    """Write the rows of a cluster that differ, unless those of a later revision are there already."""
    head, _new = ClusterAvailability.objects.get_or_create(
        cluster=cluster, defaults={"revision": -1, "computed_at": computed.at}
    )
    head = ClusterAvailability.objects.select_for_update(no_key=True).get(pk=head.pk)
    mirror = Cluster.objects.values_list("revision", flat=True).get(pk=cluster.pk)
    if computed.revision < head.revision <= mirror:
        return RowDifferences()
    # A profile that was saved meanwhile has its own message.
    current = set(Profile.objects.filter(current__isnull=False).values_list("current", flat=True))
    expected = {pk: row for pk, row in computed.figures.items() if pk in current}
    stored = _stored(cluster)
    differences = _differences(None if head.revision < 0 else head, stored, computed)
    ProfileAvailability.objects.filter(
        pk__in=[row.pk for pk, row in stored.items() if pk not in current]
    ).delete()
    changed = [
        ProfileAvailability(computation=head, version_id=pk, **dict(zip(FIGURES, _values(row), strict=True)))
        for pk, row in expected.items()
        if pk not in stored or _values(stored[pk]) != _values(row)
    ]
    ProfileAvailability.objects.bulk_create(
        changed, update_conflicts=True, unique_fields=["version", "computation"], update_fields=FIGURES
    )
    columns = {"revision": computed.revision, "computed_at": computed.at}
    if _head_values(head) != _head_values(computed):
        columns |= dict(zip(HEAD_FIGURES, _head_values(computed), strict=True))
    ClusterAvailability.objects.filter(pk=head.pk).update(**columns)
    return differences
