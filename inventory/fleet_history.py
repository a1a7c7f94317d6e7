"""
How many GPUs a cluster had, from when to when: what the cost of a fleet and its unallocated part come from.

`record` is the only writer. `inventory.counts.store_counts` calls it with each count of a cluster, so a span
is as exact as the counts are frequent: seconds after a change of the mirror.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import CharField, Count, F, Q, Value
from django.db.models.functions import Cast, Coalesce, NullIf

from dra.devices import describe
from inventory.models import Cluster, Device, FleetSpan
from inventory.models.device import DeviceQuerySet
from inventory.models.mirror import Ownership
from inventory.states import DeviceState

MILLION = 10**6  # the unit of parts: a millionth of a GPU
OUT_OF_SERVICE = (
    *(DeviceState.TAINTED, DeviceState.UNHEALTHY, DeviceState.INCOMPLETE, DeviceState.NOT_READY),
)
# A GPU and all its partitions have one key: the UUID of the GPU, or of the row if the driver publishes none.
GPU = Coalesce(NullIf(F("parent_uuid"), Value("")), NullIf(F("uuid"), Value("")), Cast("pk", CharField()))

type Kind = tuple[str, str, FleetSpan.Use]  # driver, product, use


def count_parts(cluster_id: UUID) -> dict[Kind, int]:
    """
    Return how many millionths of GPUs a cluster has by driver, product and use, in at most five queries.

    A GPU is out of service if one of its devices is and none is held. A device that an unmanaged claim holds
    counts as the fraction that it is of its GPU. The rest is available, held by claims of the portal or free.
    """
    devices = Device.objects.present().filter(cluster=cluster_id).order_by()
    gpus = devices.values_list("driver", "product").annotate(gpus=Count(GPU, distinct=True))
    out = _out_of_service(devices)
    unmanaged = _unmanaged(devices)
    parts: dict[Kind, int] = {}
    for driver, product, number in gpus:
        kind = (driver, product)
        others = {
            FleetSpan.Use.OUT_OF_SERVICE: out[kind] * MILLION,
            FleetSpan.Use.UNMANAGED: min(unmanaged[kind], (number - out[kind]) * MILLION),
        }
        parts[*kind, FleetSpan.Use.AVAILABLE] = number * MILLION - sum(others.values())
        parts |= {(*kind, use): value for use, value in others.items()}
    return {kind: value for kind, value in parts.items() if value}


def _out_of_service(devices: DeviceQuerySet) -> Counter[tuple[str, str]]:
    """Return the number of GPUs out of service by driver and product."""
    out = devices.in_state(*OUT_OF_SERVICE).values_list(GPU, "driver", "product")
    gpus = set(out.distinct())
    if not gpus:
        return Counter()
    of_these = devices.exclude(held_by=None).alias(gpu=GPU).filter(Q(gpu__in=[gpu for gpu, *_kind in gpus]))
    held = set(of_these.values_list(GPU))
    return Counter((driver, product) for gpu, driver, product in gpus if (gpu,) not in held)


def _unmanaged(devices: DeviceQuerySet) -> Mapping[tuple[str, str], int]:
    """Return the millionths of GPUs that unmanaged claims hold, by driver and product."""
    held = devices.filter(held_by__ownership__lt=Ownership.MANAGED)
    shape = ("driver", "product", "partition")
    parts: dict[tuple[str, str], int] = defaultdict(int)
    examples = {
        (driver, product, partition): {
            "attributes": attributes,
            "capacity": capacity,
            "consumesCounters": used,
        }
        for driver, product, partition, attributes, capacity, used in held.order_by(*shape)
        .distinct(*shape)
        .values_list(*shape, "attributes", "capacity", "counters")
    }
    for driver, product, partition, number in held.values_list(*shape).annotate(Count("pk")):
        fraction = describe(driver, examples[driver, product, partition]).fraction
        parts[driver, product] += int(fraction * MILLION) * number
    return parts


def record(cluster_id: UUID, parts: Mapping[Kind, int], *, now: datetime) -> int:
    """End the open spans of a cluster that have other parts, and begin new ones; return how many began."""
    with transaction.atomic():
        Cluster.objects.select_for_update(no_key=True).only("pk").get(pk=cluster_id)
        open_spans = _open_spans(cluster_id)
        # A span never ends before it began, whatever the clocks of two workers say.
        now = max([now, *(span.started_at for span in open_spans.values())])
        over = [span.pk for kind, span in open_spans.items() if parts.get(kind) != span.parts]
        FleetSpan.objects.filter(pk__in=over).update(ended_at=now)
        begun = [
            FleetSpan(
                cluster_id=cluster_id, driver=driver, product=product, use=use, parts=value, started_at=now
            )
            for (driver, product, use), value in parts.items()
            if (driver, product, use) not in open_spans or open_spans[driver, product, use].pk in over
        ]
        FleetSpan.objects.bulk_create(begun)
    return len(begun)


def _open_spans(cluster_id: UUID) -> dict[Kind, FleetSpan]:
    spans = FleetSpan.objects.filter(cluster=cluster_id, ended_at=None)
    return {(span.driver, span.product, FleetSpan.Use(span.use)): span for span in spans}
