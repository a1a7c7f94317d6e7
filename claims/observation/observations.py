"""What the mirror shows of a claim: its object, its devices, its consumers."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

from django.db.models import Case, F, Model, Q, QuerySet, UUIDField, When
from django.db.models.functions import Cast
from django.utils import timezone

from claims.models import Allocation, Claim, Delivery
from claims.plans.plan import delivery_kind
from inventory.models import Device, Freshness, Pod, PodEvent, ResourceClaim, ResourceClaimTemplate

UUID_TEXT = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"


def labeled_claim_id() -> Case:
    """
    Return, for a mirrored claim or template, the id in its `owner`, null for any other text: anybody can
    write anything into a label.

    Claims are looked up by id, which has an index. A comparison as text would read every claim.
    """
    return Case(When(owner__regex=UUID_TEXT, then=Cast("owner", UUIDField())), output_field=UUIDField())


ENDED = ("Succeeded", "Failed")  # phases of a pod that no longer uses devices

# A listing that ended later than this began when the object existed.
MAX_LISTING_TIME = timedelta(minutes=5)
# Whoever deletes an object to recreate it ("kubectl replace --force") does so within seconds.
RECREATION_TIME = timedelta(seconds=20)
GONE_FIRST = F("gone_at").asc(nulls_last=True)

# Columns that a digest and the assignment of rows to claims read: of both kinds of objects, of pods, devices
# and allocations.
OF_OBJECTS = ("pk", "cluster_id", "uid", "namespace", "name", "owner", "resource_version", "gone_at")
OF_PODS = (
    *("pk", "cluster_id", "uid", "namespace", "name"),
    *("resource_version", "phase", "node_name", "message"),
)
OF_DEVICES = ("pk", "held_by_id", "condition", "uuid")
OF_ALLOCATIONS = ("pk", "claim_id", "object_uid")


@dataclass(frozen=True, slots=True)
class DeviceHolding:
    """One device, or a share of one, that a ResourceClaim holds by `status.allocation`."""

    object_uid: str
    object_name: str
    request: str
    driver: str
    pool: str
    device: str
    share_id: str
    since: datetime
    admin_access: bool
    consumed: dict[str, Any]  # consumedCapacity of a share

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        return self.object_uid, self.driver, self.pool, self.device, self.share_id


@dataclass(slots=True)
class Observation:
    """
    All that the mirror knows about one claim.

    `written` is the ResourceClaim or template that delivers it, None if the mirror has none; it may be gone.
    `holders` are the existing ResourceClaims that hold devices for it: itself, or those created from its
    template. `known` has all of its ResourceClaims by uid, also those that are gone and whose allocations are
    still open.

    A brief observation (`observe`) has named tuples in place of rows, with the columns of a digest.
    """

    written: ResourceClaim | ResourceClaimTemplate | None = None
    holders: list[ResourceClaim] = field(default_factory=list)
    known: dict[str, ResourceClaim] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    events: dict[int, list[str]] = field(default_factory=dict)  # of pods, by primary key
    devices: list[Device] = field(default_factory=list)
    open: list[Allocation] = field(default_factory=list)
    missed: bool = False  # a listing that began after the object was written did not have it

    @property
    def held(self) -> list[DeviceHolding]:
        return [held for row in self.holders for held in device_holdings(row)]

    @property
    def users(self) -> list[Pod]:
        """Pods that have not ended."""
        return [pod for pod in self.pods if pod.phase not in ENDED]

    def there(self) -> bool:
        return self.written is not None and self.written.gone_at is None

    def vanished(self) -> bool:
        """Whether the object was seen and is gone, or was missed; an object never seen may only be late."""
        return self.missed or (self.written is not None and self.written.gone_at is not None)

    def given_up(self) -> bool:
        """Whether it vanished so long ago that nobody is about to recreate it."""
        gone_at = self.written.gone_at if self.written is not None else None
        return self.missed or (gone_at is not None and gone_at < timezone.now() - RECREATION_TIME)

    def digest(self, claim: Claim) -> str:
        """Return a hash of everything that the page of the claim and its reconciliation depend on."""
        seen: list[Any] = [claim.state, self.written and _stamp(self.written), self.given_up()]
        seen += [sorted(_stamp(row) for row in self.holders)]
        seen += [sorted(_pod_stamp(pod, self.events.get(pod.pk, ())) for pod in self.pods)]
        seen += [sorted((str(device.pk), device.condition, device.uuid) for device in self.devices)]
        seen += [sorted(str(row.pk) for row in self.open)]
        return hashlib.sha256(json.dumps(seen).encode()).hexdigest()


def observe(claims: Sequence[Claim], *, brief: bool = False) -> dict[UUID, Observation]:
    """
    Return the observation of each claim, in a fixed number of queries.

    `brief` is for thousands of claims of which few have changed: enough for a digest, without an instance for
    each row, which takes most of the time. The claims may be named tuples, too.
    """
    seen = {claim.pk: Observation() for claim in claims}
    by_id = {str(claim.pk): claim for claim in claims}
    allocations = Allocation.objects.filter(claim__in=seen, ended_at=None).order_by("pk")
    for allocation in _rows(allocations, OF_ALLOCATIONS, brief=brief):
        seen[allocation.claim_id].open.append(allocation)
    by_uid = {row.object_uid: claim for claim in claims for row in seen[claim.pk].open}
    by_uid |= {claim.object_uid: claim for claim in claims if claim.object_uid}
    # By uid too: somebody may have removed the label.
    mirrored = Q(cluster__in={claim.cluster_id for claim in claims}, uid__in=by_uid)
    mine = Q(~Q(owner=""), owner__in=by_id, gone_at=None) | mirrored  # as in the index
    rows = ResourceClaim.objects.filter(mine).defer("labels").order_by(GONE_FIRST, "pk")
    for row in _rows(rows, (*OF_OBJECTS, "origin"), brief=brief):
        _add_claim(seen, by_uid.get(row.uid) or by_id[row.owner], row)
    if any(claim.delivery == Delivery.TEMPLATE for claim in claims):
        templates = ResourceClaimTemplate.objects.filter(mine).order_by(GONE_FIRST, "pk")
        for template in _rows(templates, OF_OBJECTS, brief=brief):
            _add_written(seen, by_uid.get(template.uid) or by_id[template.owner], template)
    _add_missed(seen, claims)
    _add_pods(seen, claims, brief=brief)
    _add_devices(seen, brief=brief)
    return seen


def _rows[M: Model](rows: QuerySet[M], columns: Sequence[str], *, brief: bool) -> Iterable[M]:
    """Return instances, or named tuples of these columns in their place."""
    return cast("Iterable[M]", rows.values_list(*columns, named=True)) if brief else rows


def device_holdings(row: ResourceClaim) -> list[DeviceHolding]:
    """Return what a ResourceClaim holds. Without a time of the cluster, it holds since the mirror saw it."""
    if row.gone_at is not None:
        return []
    allocation = (row.raw.get("status") or {}).get("allocation") or {}
    return [
        DeviceHolding(
            object_uid=row.uid,
            object_name=row.name,
            request=result.get("request", ""),
            driver=result["driver"],
            pool=result["pool"],
            device=result["device"],
            share_id=result.get("shareID") or "",
            since=row.allocated_at or row.seen_at,
            admin_access=bool(result.get("adminAccess")),
            consumed=result.get("consumedCapacity") or {},
        )
        for result in (allocation.get("devices") or {}).get("results") or []
    ]


def _stamp(row: ResourceClaim | ResourceClaimTemplate) -> tuple[str, str, str]:
    return row.uid, row.resource_version, str(row.gone_at)


def _pod_stamp(pod: Pod, events: Iterable[str]) -> tuple[str, ...]:
    return pod.name, pod.uid, pod.resource_version, pod.phase, pod.node_name, pod.message, *sorted(events)


def _is_in_place(claim: Claim, row: ResourceClaim | ResourceClaimTemplate) -> bool:
    """Anybody can write a label: an object is only the claim's in the claim's own namespace."""
    return row.cluster_id == claim.cluster_id and row.namespace == claim.namespace


def _add_written(
    seen: dict[UUID, Observation], claim: Claim, row: ResourceClaim | ResourceClaimTemplate
) -> None:
    """Rows are sorted with gone ones first, so that the existing one wins."""
    if _is_in_place(claim, row) and row.name == claim.name:
        seen[claim.pk].written = row


def _add_claim(seen: dict[UUID, Observation], claim: Claim, row: ResourceClaim) -> None:
    if not _is_in_place(claim, row):
        return
    named = claim.delivery == Delivery.CLAIM and row.name == claim.name
    generated = claim.delivery == Delivery.TEMPLATE and row.origin == ResourceClaim.Origin.TEMPLATE
    if named:
        _add_written(seen, claim, row)
    if named or generated:
        seen[claim.pk].known[row.uid] = row
        if row.gone_at is None:
            seen[claim.pk].holders.append(row)


def _add_missed(seen: dict[UUID, Observation], claims: Sequence[Claim]) -> None:
    """
    Find objects that were created and deleted between two listings, so that the mirror has no row of them.
    """
    unseen = [claim for claim in claims if claim.object_uid and seen[claim.pk].written is None]
    if not unseen:
        return
    fresh = Freshness.objects.filter(cluster__in={claim.cluster_id for claim in unseen})
    listed = {(row.cluster_id, row.resource): row.listed_at for row in fresh}
    for claim in unseen:
        at = listed.get((claim.cluster_id, delivery_kind(claim.delivery).plural))
        seen[claim.pk].missed = at is not None and at > claim.state_since + MAX_LISTING_TIME


def _add_pods(seen: dict[UUID, Observation], claims: Sequence[Claim], *, brief: bool) -> None:
    """Find pods by the names of the claims' ResourceClaims and templates in their namespaces."""
    by_claim_name: dict[tuple[UUID, str, str], set[UUID]] = defaultdict(set)
    by_template_name: dict[tuple[UUID, str, str], set[UUID]] = defaultdict(set)
    for claim in claims:
        place = claim.cluster_id, claim.namespace
        for name in {row.name for row in seen[claim.pk].holders} | {claim.name}:
            by_claim_name[*place, name].add(claim.pk)
        if claim.delivery == Delivery.TEMPLATE:
            by_template_name[*place, claim.name].add(claim.pk)
    pods_with_users: dict[int, tuple[Pod, set[UUID]]] = {}
    # Two queries, each with an index: one query would read every pod of the namespaces.
    for column, owners in (("claims", by_claim_name), ("templates", by_template_name)):
        for pod in _pods_with(column, owners, brief=brief):
            names = getattr(pod, column)
            users = {pk for name in names for pk in owners.get((pod.cluster_id, pod.namespace, name), ())}
            pods_with_users.setdefault(pod.pk, (pod, set()))[1].update(users)
    pods = [pod for pod, _users in pods_with_users.values()]
    events = _events(pods) if brief else _prefetched(pods)
    for pod, users in sorted(pods_with_users.values(), key=lambda entry: entry[0].name):
        for pk in users:
            seen[pk].pods.append(pod)
            seen[pk].events[pod.pk] = events.get(pod.pk, [])


def _pods_with(column: str, owners: Iterable[tuple[UUID, str, str]], *, brief: bool) -> Iterable[Pod]:
    places = list(owners)
    if not places:
        return ()
    rows = Pod.objects.filter(
        cluster__in={cluster for cluster, _namespace, _name in places},
        namespace__in={namespace for _cluster, namespace, _name in places},
        gone_at=None,
        **{f"{column}__has_any_keys": sorted({name for _cluster, _namespace, name in places})},
    )
    return _rows(rows if brief else rows.prefetch_related("events"), (*OF_PODS, column), brief=brief)


def _events(pods: Collection[Pod]) -> dict[int, list[str]]:
    """
    Return reason and message of the Events of these pods, by the primary key of the pod.

    Without the counts of repeated events: only new facts need another reconciliation.
    """
    said: dict[int, list[str]] = defaultdict(list)
    rows = PodEvent.objects.filter(pod__in=[pod.pk for pod in pods]).order_by()
    for pod, reason, message in rows.values_list("pod_id", "reason", "message"):
        said[pod].append(f"{reason}: {message}")
    return said


def _prefetched(pods: Iterable[Pod]) -> dict[int, list[str]]:
    return {pod.pk: [f"{event.reason}: {event.message}" for event in pod.events.all()] for pod in pods}


def _add_devices(seen: dict[UUID, Observation], *, brief: bool) -> None:
    holders = {row.pk: pk for pk, sighting in seen.items() for row in sighting.holders}
    held = Device.objects.filter(held_by__in=holders, gone_at=None)
    for device in _rows(held.defer("attributes", "capacity", "counters"), OF_DEVICES, brief=brief):
        if device.held_by_id is not None:
            seen[holders[device.held_by_id]].devices.append(device)


def owner_labels(cluster_id: UUID, names: Iterable[str]) -> set[str]:
    """
    Return the ids of the portal's claims that these objects or pods, each named "namespace/name", refer to.
    """
    pairs = [name.split("/", 1) for name in names if "/" in name]
    claim_ids: set[str] = set()
    uids: set[str] = set()
    if not pairs:
        return claim_ids
    spaces, plain = {namespace for namespace, _ in pairs}, {name for _, name in pairs}
    here = {"cluster": cluster_id, "namespace__in": spaces}
    for pod in Pod.objects.filter(**here, name__in=plain).only("claims", "templates"):
        plain.update(pod.claims, pod.templates)
    for model in (ResourceClaim, ResourceClaimTemplate):
        for owner, uid in model._default_manager.filter(**here, name__in=plain).values_list("owner", "uid"):
            claim_ids.add(owner)
            uids.add(uid)
    claim_ids.update(str(pk) for pk in claims_of_objects(cluster_id, uids))
    return claim_ids - {""}


def claims_of_objects(cluster_id: UUID, uids: Collection[str]) -> list[UUID]:
    """Return the ids of live claims whose objects have these uids, whatever their labels say."""
    live = Claim.objects.live().filter(cluster=cluster_id, object_uid__in=uids)
    return list(live.values_list("pk", flat=True)) if uids else []


def consumer_references(row: ResourceClaim) -> list[dict[str, Any]]:
    """Return `status.reservedFor` of a mirrored claim: who may use it now, nearly always pods."""
    return (row.raw.get("status") or {}).get("reservedFor") or []
