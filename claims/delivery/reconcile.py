"""From the mirror to the portal: the state of claims, their allocations, and what they are charged."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import batched
from typing import Any, cast
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Now
from django.utils import timezone

from claims.delivery import transitions
from claims.delivery.consumers import consumer_changes, open_consumers, sync_consumers
from claims.delivery.eviction import start_release
from claims.models import Allocation, Alternative, Claim, ClaimCharge, Consumer, Delivery, Quota
from claims.observation.drift import Drift, find_drift, notify_drift
from claims.observation.observations import (
    RECREATION_TIME,
    DeviceHolding,
    Observation,
    device_holdings,
    observe,
)
from claims.signals import allocations_changed
from claims.states import DELIVERED, RUNNING, USABLE, ClaimState
from core.transactions import lock_row
from dra import quota
from dra.combination import select_alternatives
from dra.devices import describe, memory_share, share
from dra.objects import requests
from dra.price_facts import capacity_type
from dra.quantity import QuantityError
from inventory import price_bases
from inventory.models import Device, ResourceClaim, ResourceClaimTemplate
from notify.services import resolve

FRACTION_DIGITS = 6  # as in the column
MIN_FRACTION = Decimal("0.000001")
PRICED_BY = ("basis_id", "capacity_type")
DEVICE_COLUMNS = ("node_name", "product", "partition", "uuid", "memory_bytes", "fraction", *PRICED_BY)
UNKNOWN_DEVICE = Q(ended_at=None, capacity_type="")  # as in the index `allocation_unknown`


def sync_allocations(claim: Claim, seen: Observation) -> bool:
    """
    Close allocations whose devices are no longer held and open new ones; return whether anything changed.
    Call under the claim's lock.

    Admin access takes no device from anybody (KEP 5018), so it opens no row.
    """
    ended, new_holdings = _changed_allocations(seen)
    for row, ended_at in ended:
        row.ended_at = max(ended_at, row.started_at)  # clocks differ
    Allocation.objects.bulk_update([row for row, _ended_at in ended], ["ended_at"])
    opened = Allocation.objects.bulk_create(_new_allocations(claim, new_holdings), ignore_conflicts=True)
    completed = _complete(claim, seen)
    if times := [
        *(row.ended_at for row, _ended_at in ended if row.ended_at),
        *(row.started_at for row in (*opened, *completed)),
    ]:
        allocations_changed.send(sender=Allocation, since=min(times))
    return bool(ended or opened or completed)


def _changed_allocations(seen: Observation) -> tuple[list[tuple[Allocation, datetime]], list[DeviceHolding]]:
    """Return the open rows whose devices were given back, each with the time, and the new holdings."""
    held = {holding.key: holding for holding in seen.held if not holding.admin_access}
    ended = []
    for row in seen.open:
        key = (row.object_uid, row.driver, row.pool, row.device, row.share_id)
        ended_at = _end_of_allocation(row, held.get(key), seen)
        if ended_at is None:
            held.pop(key, None)
        else:
            ended.append((row, ended_at))
    return ended, list(held.values())


def _end_of_allocation(row: Allocation, held: DeviceHolding | None, seen: Observation) -> datetime | None:
    """
    Return when the device of an open row was given back, None while it is held.

    The API has no time of deallocation: it is when the mirror saw the object without the device, or saw it
    gone. A device that was given back and allocated again between two observations has a newer time of
    allocation.
    """
    if held is not None:
        return held.since if held.since > row.started_at else None
    earlier = seen.known.get(row.object_uid)
    if earlier is None:
        return timezone.now()
    return earlier.gone_at or earlier.seen_at


def _new_allocations(claim: Claim, holdings: Collection[DeviceHolding]) -> list[Allocation]:
    if not holdings:
        return []
    names = Q(
        driver__in={holding.driver for holding in holdings}, pool__in={holding.pool for holding in holdings}
    )
    devices = {
        (device.driver, device.pool, device.name): device
        for device in Device.objects.select_related("node")
        .defer("node__raw")
        .filter(names, cluster=claim.cluster_id, name__in={holding.device for holding in holdings})
    }
    price_bases.add(price_bases.basis_of(device) for device in devices.values())
    return [
        Allocation(
            claim=claim,
            object_uid=holding.object_uid,
            object_name=holding.object_name,
            request=holding.request,
            driver=holding.driver,
            pool=holding.pool,
            device=holding.device,
            share_id=holding.share_id,
            started_at=holding.since,
            **allocation_columns(
                devices.get((holding.driver, holding.pool, holding.device)), holding.consumed
            ),
        )
        for holding in holdings
    ]


def claims_with_unknown_devices(limit: int) -> list[UUID]:
    """
    Return claims with open allocations that were recorded before their device or its node was mirrored, and
    whose device or node is mirrored now. Claims, slices and nodes are watched separately, so the claim of a
    new device can be known first.
    """
    device = Device.objects.filter(
        cluster=OuterRef("claim__cluster"),
        driver=OuterRef("driver"),
        pool=OuterRef("pool"),
        name=OuterRef("device"),
    )
    unknown = Q(node_name="", product="") & Exists(device.exclude(node_name="", product=""))
    without_node = Exists(device.exclude(node=None).filter(product=OuterRef("product")))
    rows = Allocation.objects.filter(UNKNOWN_DEVICE).filter(unknown | Q(without_node))
    return list(rows.order_by().values_list("claim", flat=True).distinct()[:limit])


def _complete(claim: Claim, seen: Observation) -> list[Allocation]:
    """
    Copy devices into open allocations that were recorded before their device or its node was mirrored;
    return those.
    """
    held = {holding.key: holding for holding in seen.held}
    incomplete = [
        (row, holding)
        for row in seen.open
        if not row.capacity_type
        and (holding := held.get((row.object_uid, row.driver, row.pool, row.device, row.share_id)))
    ]
    rows = []
    for (row, _holding), complete in zip(
        incomplete, _new_allocations(claim, [holding for _row, holding in incomplete]), strict=True
    ):
        is_new = not (row.node_name or row.product) and (complete.node_name or complete.product)
        is_same = (row.product, row.partition) == (complete.product, complete.partition)
        if is_new or (is_same and complete.capacity_type):
            for name in DEVICE_COLUMNS if is_new else PRICED_BY:
                setattr(row, name, getattr(complete, name))
            rows.append(row)
    Allocation.objects.bulk_update(rows, [name.removesuffix("_id") for name in DEVICE_COLUMNS])
    return rows


def allocation_columns(device: Device | None, consumed: Mapping[str, str] | None = None) -> dict[str, Any]:
    """
    Return the columns of an Allocation that are copied from a device, which may change or vanish later. Its
    price basis has to exist (`inventory.price_bases.add`).
    """
    if device is None:
        return {}
    raw = {
        "name": device.name,
        "attributes": device.attributes,
        "capacity": device.capacity,
        "consumesCounters": device.counters,
    }
    return {
        "node_name": device.node_name,
        "product": device.product,
        "partition": device.partition,
        "uuid": device.uuid,
        "memory_bytes": memory_share(device.driver, consumed or {}) or device.memory_bytes,
        "fraction": _fraction(device.driver, raw, consumed),
        "basis_id": price_bases.basis_of(device).pk,
        "capacity_type": capacity_type(device.node.labels) if device.node else "",
    }


def _fraction(driver: str, raw: dict[str, Any], consumed: Mapping[str, str] | None) -> Decimal:
    part = describe(driver, raw).fraction
    if consumed:
        with suppress(QuantityError):
            part *= share(raw, consumed)
    return max(round(Decimal(part.numerator) / part.denominator, FRACTION_DIGITS), MIN_FRACTION)


def settle_charges(claim: Claim, seen: Observation) -> None:
    """
    Adjust the charges of a claim to the alternatives that its ResourceClaims were allocated.

    Call under the lock of the claim. A charge that grows again makes a quota scarcer, so it takes the lock
    that requests count under. A request that counted before finds the quota exceeded; nothing is taken back.
    """
    if not any(request.get("firstAvailable") for request in requests(claim.spec)):
        return
    held = [sorted({holding.request for holding in device_holdings(row)}) for row in seen.holders]
    requests_held = [names for names in held if names]
    classes = _class_charges(claim, requests_held)
    charges, options = list(claim.charges.all()), list(claim.alternatives.filter(together=False))
    counts: list[tuple[ClaimCharge | Alternative, int | None]] = [
        *((row, classes.get(row.device_class)) for row in charges),
        *((row, _profile_devices(claim, row, requests_held)) for row in options),
    ]
    moved = [(row, count) for row, count in counts if row.settled != count]
    if not moved:
        return
    if any((row.devices if count is None else count) > _charged_devices(row) for row, count in moved):
        _lock_quotas(claim, charges, options)
    for row, count in moved:
        type(row)._default_manager.filter(pk=row.pk).update(settled=count)


def _class_charges(claim: Claim, requests_held: list[list[str]]) -> dict[str, int | None]:
    """Return devices per class; None, for which the worst case counts, while nothing is held."""
    worst = quota.charge(claim.spec)
    if not requests_held:
        return dict.fromkeys(worst)
    counted: Counter[str] = Counter()
    for names in requests_held:
        counted.update(quota.charge(select_alternatives(claim.spec, names)))
    waiting = max(claim.parallel - len(requests_held), 0)
    # More concurrent claims than requested are shown as over-use; they are never charged.
    return {
        name: min(counted[name] + waiting * count, claim.parallel * count) for name, count in worst.items()
    }


def _profile_devices(claim: Claim, row: Alternative, requests_held: list[list[str]]) -> int | None:
    if not requests_held:
        return None
    here = sum(row.name in names for names in requests_held) + max(claim.parallel - len(requests_held), 0)
    return row.devices * min(here, claim.parallel) // claim.parallel


def _charged_devices(row: ClaimCharge | Alternative) -> int:
    return row.devices if row.settled is None else row.settled


def _lock_quotas(claim: Claim, charges: Iterable[ClaimCharge], options: Iterable[Alternative]) -> None:
    """Lock the rows of the affected quotas, in the same order as a request."""
    classes = [row.device_class for row in charges]
    profiles = Alternative.objects.filter(pk__in=[row.pk for row in options])
    rows = Quota.objects.filter(team=claim.team_id).filter(
        Q(device_class__in=classes) | Q(profile__in=profiles.values(of=F("profile_version__profile")))
    )
    list(rows.select_for_update(no_key=True, of=("self",)).order_by("pk"))


BATCH_SIZE = 200
RETRY_AFTER = timedelta(seconds=15)  # with the next sweep
# Columns of a claim that a comparison reads.
COMPARED = (
    *("pk", "cluster_id", "namespace", "name", "delivery", "object_uid", "state", "state_since"),
    *("observation_hash", "problem", "reconcile_at", "version"),
)
LOOK_FOR_MISSED_AFTER = timedelta(minutes=5)


def reconcile_claims(claim_ids: Iterable[UUID]) -> None:
    """
    Reconcile these claims with the mirror; safe to repeat.

    A claim that fails does not stop the others; the errors are raised at the end.
    """
    failed: dict[UUID, Exception] = {}
    for batch in batched(claim_ids, BATCH_SIZE):
        for claim_id in _compare(batch, failed):
            try:
                reconcile_claim(claim_id)
            except Exception as error:
                failed[claim_id] = error
    if failed:
        for claim_id, failure in failed.items():
            failure.add_note(f"claim {claim_id}")
        Claim.objects.filter(pk__in=failed).update(reconcile_at=Now() + RETRY_AFTER)
        raise ExceptionGroup("Claims could not be settled", list(failed.values()))


def _compare(claim_ids: Sequence[UUID], failed: dict[UUID, Exception]) -> list[UUID]:
    """
    Store the observation of claims that need nothing else.

    Return the ids of the claims that need a change; put those that cannot be observed into `failed`. Nearly
    all claims of a sweep are as they were: only the others are read in full.
    """
    claims = Claim.objects.filter(pk__in=claim_ids)
    try:
        brief = cast("list[Claim]", list(claims.values_list(*COMPARED, named=True)))
        seen = observe(brief, brief=True)
        known = [note for claim in brief if (note := _known(claim, seen[claim.pk]))]
        unchanged = {note.claim.pk for note in known}
        others = list(claims.filter(pk__in={claim.pk for claim in brief} - unchanged))
        seen = observe(others) if others else {}
        consumers = open_consumers(others) if others else {}
        notes = [_note(claim, seen[claim.pk], consumers.get(claim.pk, ())) for claim in others]
    except Exception as error:
        if len(claim_ids) == 1:
            failed[claim_ids[0]] = error
            return []
        return [pk for claim_id in claim_ids for pk in _compare([claim_id], failed)]
    noted = _store_notes([*known, *(note for note in notes if note is not None)])
    return [
        claim.pk
        for claim, note in zip(others, notes, strict=True)
        if note is None or not (note.is_known or claim.pk in noted)
    ]


@dataclass(frozen=True, slots=True)
class Note:
    """The columns to store for an observation without a change; `is_known` if they are stored already."""

    claim: Claim
    observation_hash: str
    problem: str
    reconcile_at: datetime | None

    @property
    def is_known(self) -> bool:
        return self.observation_hash == self.claim.observation_hash

    @property
    def is_stored(self) -> bool:
        return self.is_known and self.reconcile_at == self.claim.reconcile_at


def _known(claim: Claim, seen: Observation) -> Note | None:
    """Return the columns to store of a claim whose observation has not changed; a brief one is enough."""
    if (digest := seen.digest(claim)) != claim.observation_hash:
        return None
    return Note(claim, digest, claim.problem, _next_look(claim, seen))


def _note(claim: Claim, seen: Observation, consumers: Iterable[Consumer]) -> Note | None:
    """Return the columns to store, None if the claim needs a change under its lock."""
    if known := _known(claim, seen):
        return known
    ended, new_holdings = _changed_allocations(seen)
    if claim.is_final or ended or new_holdings or _next_step(claim, seen) is not None:
        return None
    if consumer_changes(claim, seen, consumers):
        return None
    if any(request.get("firstAvailable") for request in requests(claim.spec)):
        return None  # its charges may change
    drift = find_drift(claim, seen)
    if drift is not None and drift.is_notified:
        return None
    return Note(claim, seen.digest(claim), claim_problem(claim, seen, drift), _next_look(claim, seen))


STORE_NOTES = """
UPDATE claims_claim c SET observation_hash = n.observation_hash, problem = n.problem,
  reconcile_at = n.reconcile_at,
  version = c.version + CASE WHEN c.observation_hash = n.observation_hash THEN 0 ELSE 1 END
FROM unnest(%s::uuid[], %s::int[], %s::text[], %s::text[], %s::timestamptz[])
  AS n (id, version, observation_hash, problem, reconcile_at)
WHERE c.id = n.id AND c.version = n.version RETURNING c.id
"""


def _store_notes(notes: Iterable[Note]) -> set[UUID]:
    """
    Store these and return the ids of their claims, without claims that changed after they were read.

    No lock is needed: every change of a claim, also by another observation, changes its version.
    """
    changed = [note for note in notes if not note.is_stored]
    if not changed:
        return set()
    resolve(*(f"drift:{one.claim.pk}" for one in changed if one.claim.problem not in ("", one.problem)))
    with connection.cursor() as cursor:
        cursor.execute(
            STORE_NOTES,
            [
                [note.claim.pk for note in changed],
                [note.claim.version for note in changed],
                [note.observation_hash for note in changed],
                [note.problem for note in changed],
                [note.reconcile_at for note in changed],
            ],
        )
        return {claim_id for (claim_id,) in cursor.fetchall()}


def _next_look(claim: Claim, seen: Observation) -> datetime | None:
    """Return when to observe again although nothing changes in the mirror, None if time changes nothing."""
    if claim.state not in DELIVERED or not claim.object_uid:
        return None
    if seen.written is None:
        return None if seen.missed else timezone.now() + LOOK_FOR_MISSED_AFTER
    gone_at = seen.written.gone_at
    return None if gone_at is None or seen.given_up() else gone_at + RECREATION_TIME


@transaction.atomic
def reconcile_claim(claim_id: UUID) -> None:
    """Reconcile one claim under its lock, so that two observations cannot overtake each other."""
    claim = lock_row(Claim.objects.select_related("cluster", "requested_by"), claim_id)
    seen = observe([claim])[claim.pk]
    sync_allocations(claim, seen)
    sync_consumers(claim, seen)
    settle_charges(claim, seen)
    _advance(claim, seen)
    drift = find_drift(claim, seen)
    if drift is not None and drift.is_notified:
        notify_drift(claim, drift)
    elif claim.problem:
        resolve(f"drift:{claim.pk}")
    problem = claim_problem(claim, seen, drift)
    # The hash of this observation, not of the mirror now: the next reconciliation handles that.
    seen.open = list(claim.allocations.filter(ended_at=None))
    digest = seen.digest(claim)
    Claim.objects.filter(pk=claim.pk).update(
        observation_hash=digest,
        problem=problem,
        version=F("version") + 1,
        reconcile_at=_next_look(claim, seen),
    )


def _advance(claim: Claim, seen: Observation) -> None:
    """Take the steps that the observation requires, each from the state after the step before."""
    while (step := _next_step(claim, seen)) and step():
        pass


def _next_step(claim: Claim, seen: Observation) -> Callable[[], bool] | None:
    """Return the change of state that the observation requires, None if the state is right."""
    if claim.state == ClaimState.APPROVED and seen.there() and seen.written is not None:
        return partial(transitions.mark_provisioned, claim, uid=seen.written.uid)
    if claim.state == ClaimState.PROVISIONED and seen.held:
        return partial(transitions.mark_allocated, claim, seen.held)
    if claim.state == ClaimState.ALLOCATED and not seen.held and not seen.vanished():
        return partial(transitions.mark_deallocated, claim)
    if not seen.vanished() or seen.holders:
        return None
    if claim.state in USABLE and seen.given_up():
        return lambda: transitions.mark_failed(claim, _deletion_sentence(claim))
    if claim.state == ClaimState.RELEASING:
        return partial(transitions.mark_released, claim)
    return None


def claim_problem(claim: Claim, seen: Observation, drift: Drift | None) -> str:
    """Return the problem that the page of the claim shows, "" for none."""
    if drift is not None:
        return drift.text
    if claim.state == ClaimState.FAILED:
        last = claim.history.order_by("-at", "-pk").values_list("reason", flat=True).first()
        return last or claim.problem
    delivered = claim.state in USABLE and seen.written is not None
    return "" if delivered or claim.state == ClaimState.RELEASED else claim.problem


def _deletion_sentence(claim: Claim) -> str:
    why = (
        f"{transitions.object_name(claim)} was deleted in {claim.cluster} by somebody other than the portal."
    )
    there = (ResourceClaimTemplate if claim.delivery == Delivery.TEMPLATE else ResourceClaim)._default_manager
    where = {"cluster": claim.cluster_id, "namespace": claim.namespace, "name": claim.name}
    if there.filter(**where, gone_at=None).exists():
        why += " Another object of that name exists now; it does not belong to this claim."
    return why


def release_predecessors(claim_ids: Collection[UUID]) -> list[UUID]:
    """
    Release the claims that these replace, if these hold devices; return the ids of those whose objects must
    be deleted. Safe to repeat; only the row that moves is locked.
    """
    holding = Claim.objects.filter(pk__in=claim_ids, state=ClaimState.ALLOCATED, replaces__state__in=RUNNING)
    released = []
    related = [f"replaces__{name}" for name in ("team", "cluster", "requested_by", "profile_version")]
    for successor in holding.select_related(*related):
        old = successor.replaces
        why = f"Replaced by {successor}, which holds its devices."
        with transaction.atomic():
            if old is not None and start_release(old, why=why):
                released.append(old.pk)
    return released
