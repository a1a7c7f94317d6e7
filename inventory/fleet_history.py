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
from inventory import price_bases
from inventory.models import BasisKey, Cluster, Device, FleetSpan
from inventory.models.device import DeviceQuerySet
from inventory.models.mirror import Ownership
from inventory.price_bases import LABELS_KEY
from inventory.states import DeviceState

MILLION = 10**6  # the unit of parts: a millionth of a GPU
OUT_OF_SERVICE = (
    *(DeviceState.TAINTED, DeviceState.UNHEALTHY, DeviceState.INCOMPLETE),
    *(DeviceState.NOT_READY, DeviceState.CORDONED),
)
# A GPU and all its partitions have one key: the UUID of the GPU, or of the row if the driver publishes none.
GPU = Coalesce(NullIf(F("parent_uuid"), Value("")), NullIf(F("uuid"), Value("")), Cast("pk", CharField()))

KIND = ("driver", "product", LABELS_KEY)

type Gpus = tuple[str, str, str]  # driver, product, labels of the node
type Kind = tuple[BasisKey, FleetSpan.Use]  # the basis of whole GPUs


def count_parts(cluster_id: UUID) -> dict[Kind, int]:
    """
    Return how many millionths of GPUs a cluster has by price basis and use, in at most five queries.

    A GPU is out of service if one of its devices is and none is held. A device that an unmanaged claim holds
    counts as the fraction that it is of its GPU. The rest is available, held by claims of the portal or free.
    """
    devices = Device.objects.present().gpus().filter(cluster=cluster_id).order_by()
    gpus = devices.values_list(*KIND).annotate(gpus=Count(GPU, distinct=True))
    out = _out_of_service(devices)
    unmanaged = _unmanaged(devices)
    parts: dict[Kind, int] = {}
    for driver, product, labels_key, number in gpus:
        kind = (driver, product, labels_key)
        basis = BasisKey(cluster_id, driver, product, "", labels_key)
        others = {
            FleetSpan.Use.OUT_OF_SERVICE: out[kind] * MILLION,
            FleetSpan.Use.UNMANAGED: min(unmanaged[kind], (number - out[kind]) * MILLION),
        }
        of_kind = {FleetSpan.Use.AVAILABLE: number * MILLION - sum(others.values()), **others}
        parts |= {(basis, use): value for use, value in of_kind.items()}
    return {kind: value for kind, value in parts.items() if value}


def _out_of_service(devices: DeviceQuerySet) -> Counter[Gpus]:
    """Return the number of GPUs out of service by driver, product and labels."""
    out = devices.in_state(*OUT_OF_SERVICE).values_list(GPU, *KIND)
    gpus = set(out.distinct())
    if not gpus:
        return Counter()
    of_these = devices.exclude(held_by=None).alias(gpu=GPU).filter(Q(gpu__in=[gpu for gpu, *_kind in gpus]))
    held = set(of_these.values_list(GPU))
    return Counter((driver, product, key) for gpu, driver, product, key in gpus if (gpu,) not in held)


def _unmanaged(devices: DeviceQuerySet) -> Mapping[Gpus, int]:
    """Return the millionths of GPUs that unmanaged claims hold, by driver, product and labels."""
    held = devices.filter(held_by__ownership__lt=Ownership.MANAGED)
    shape = ("driver", "product", "partition")
    parts: dict[Gpus, int] = defaultdict(int)
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
    groups = held.values_list(*shape, LABELS_KEY).annotate(Count("pk"))
    for driver, product, partition, labels_key, number in groups:
        fraction = describe(driver, examples[driver, product, partition]).fraction
        parts[driver, product, labels_key] += int(fraction * MILLION) * number
    return parts


def record(cluster_id: UUID, parts: Mapping[Kind, int], *, now: datetime) -> int:
    """End the open spans of a cluster that have other parts, and begin new ones; return how many began."""
    with transaction.atomic():
        Cluster.objects.select_for_update(no_key=True).only("pk").get(pk=cluster_id)
        open_spans = _open_spans(cluster_id)
        # A span never ends before it began, whatever the clocks of two workers say.
        now = max([now, *(span.started_at for span in open_spans.values())])
        counted: dict[tuple[UUID | None, FleetSpan.Use], int] = {
            (basis.pk, use): value for (basis, use), value in parts.items()
        }
        over = [span.pk for kind, span in open_spans.items() if counted.get(kind) != span.parts]
        price_bases.add(basis for basis, _use in parts)
        FleetSpan.objects.filter(pk__in=over).update(ended_at=now)
        begun = [
            FleetSpan(
                cluster_id=cluster_id, driver=basis.driver, product=basis.product, basis_id=basis.pk,
                use=use, parts=value, started_at=now,
            )
            for (basis, use), value in parts.items()
            if (span := open_spans.get((basis.pk, use))) is None or span.pk in over
        ]  # fmt: skip
        FleetSpan.objects.bulk_create(begun)
    return len(begun)


def _open_spans(cluster_id: UUID) -> dict[tuple[UUID | None, FleetSpan.Use], FleetSpan]:
    spans = FleetSpan.objects.filter(cluster=cluster_id, ended_at=None)
    return {(span.basis_id, FleetSpan.Use(span.use)): span for span in spans}
