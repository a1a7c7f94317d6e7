"""
What all teams together use of each class: stored, because each request of a class with guarantees reads it
under the lock of its quotas.

Triggers of `claims_claimcharge` write a row of `ClassUse` for each statement that changes what live charges
count for. They only add rows, so that requests of different teams do not wait for one another.
"""

import json
from collections import Counter
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Count, F
from django.db.models.fields.json import KeyTextTransform

from claims.models import ClaimCharge, ClassUse
from claims.observation.unmanaged import unmanaged_use_claims
from claims.quotas.counts import CHARGED_DEVICES
from claims.states import LIVE
from dra.quota import charge


def unmanaged_by_class(cluster: UUID) -> dict[str, int]:
    """Return the devices per class that unmanaged claims in the namespaces of teams count for."""
    specs = unmanaged_use_claims().filter(cluster=cluster).order_by()
    used: Counter[str] = Counter()
    # Equal specs are charged once: most claims of a cluster have one of a few.
    for spec, count in specs.values_list(KeyTextTransform("spec", "raw")).annotate(number=Count("pk")):
        used.update({name: devices * count for name, devices in charge(json.loads(spec or "{}")).items()})
    return {name: used[name] for name in sorted(used)}


@transaction.atomic
def compact() -> None:
    """Replace the rows of `ClassUse` by one per class; readers see either all of them or the sums."""
    _lock()
    with connection.cursor() as cursor:
        cursor.execute(
            """WITH gone AS (DELETE FROM claims_classuse RETURNING device_class, devices)
               INSERT INTO claims_classuse (device_class, devices)
               SELECT device_class, SUM(devices) FROM gone GROUP BY device_class HAVING SUM(devices) <> 0"""
        )


def _lock() -> None:
    """Stop others who replace or correct rows, but neither those who read nor those who add a row."""
    with connection.cursor() as cursor:
        cursor.execute("LOCK TABLE claims_classuse IN SHARE UPDATE EXCLUSIVE MODE")


@transaction.atomic
def repair(*, check: bool = False) -> int:
    """
    Correct `ClaimCharge.live` from the states of claims, then the sums; return how many rows differ.

    With `check` nothing is changed.
    """
    ended = ClaimCharge.objects.filter(live=True).exclude(claim__state__in=LIVE)
    running = ClaimCharge.objects.filter(live=False, claim__state__in=LIVE)
    if check:
        return ended.count() + running.count() + len(_differences())
    changed = ended.update(live=False) + running.update(live=True)
    _lock()
    differences = _differences()
    ClassUse.objects.bulk_create(ClassUse(device_class=name, devices=more) for name, more in differences)
    return changed + len(differences)


def _differences() -> list[tuple[str, int]]:
    """Return by class what the sums lack; one query, so that no charge changes between its two parts."""
    charges = ClaimCharge.objects.filter(live=True).order_by().values_list("device_class", CHARGED_DEVICES)
    stored = ClassUse.objects.order_by().values_list("device_class", -F("devices"))
    differences: Counter[str] = Counter()
    for name, devices in charges.union(stored, all=True):
        differences[name] += devices
    return [(name, devices) for name, devices in sorted(differences.items()) if devices]
