"""
Events of pods that wait or are being deleted: why a claim was not created, prepared or kept.

A watch on all Events has as much traffic as the rest of the mirror, and few of them concern GPUs. So they are
listed for waiting pods, less often the longer these wait, and once more after a pod is deleted.
`inventory.tasks.sync_all` starts it; a page never does.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from cluster.protocol import EVENT, Expired, Gateway, Manifest
from inventory.models import Cluster, Pod, PodEvent
from inventory.sync.columns import instant
from inventory.sync.rows import send_changed

MIN_PAUSE, MAX_PAUSE = timedelta(seconds=15), timedelta(minutes=5)  # between two listings for one pod
GONE_FOR = timedelta(minutes=10)  # Events of a pod that was deleted earlier are not listed
MAX_NAMESPACES = 50  # per run, those that have waited longest first
MAX_SINGLE_PODS = 3  # more pods of a namespace get one listing together
MAX_EVENTS = 6  # per pod

MOVING = Q(gone_at=None) & (Q(phase__in=("", "Pending")) | Q(deleting_since__isnull=False))


def has_due(cluster: Cluster) -> bool:
    """Return whether Events of any pod are due."""
    return bool(_due(cluster, timezone.now()))


def read_events(cluster: Cluster, gateway: Gateway) -> None:
    """Update the Events of the pods that are due. Raises the errors of the gateway."""
    now = timezone.now()
    by_namespace: dict[str, list[Pod]] = defaultdict(list)
    for pod in _due(cluster, now):
        by_namespace[pod.namespace].append(pod)
    for namespace, pods in list(by_namespace.items())[:MAX_NAMESPACES]:
        _write(cluster, pods, _listed(gateway, namespace, pods), now)


def _due(cluster: Cluster, now: datetime) -> list[Pod]:
    """Return the due pods, those with the oldest Events first."""
    pods: QuerySet[Pod] = Pod.objects.filter(cluster=cluster).only(
        "uid", "name", "namespace", "created_at", "events_at"
    )
    unread = Q(events_at=None) | Q(events_at__lt=F("gone_at"))
    waiting = pods.filter(MOVING).order_by(F("events_at").asc(nulls_first=True), "pk")
    gone = pods.filter(unread, gone_at__gte=now - GONE_FOR).order_by("pk")
    return [*(pod for pod in waiting if _is_due(pod, now)), *gone]


def _is_due(pod: Pod, now: datetime) -> bool:
    """The pause is a tenth of the time that the pod has waited."""
    if pod.events_at is None:
        return True
    waited = now - (pod.created_at or now)
    return now - pod.events_at >= min(max(MIN_PAUSE, waited / 10), MAX_PAUSE)


def _listed(gateway: Gateway, namespace: str, pods: list[Pod]) -> dict[str, list[Manifest]]:
    """Return Events by the UID of their pod."""
    selectors = ["involvedObject.kind=Pod"]
    if len(pods) <= MAX_SINGLE_PODS:
        selectors = [f"involvedObject.kind=Pod,involvedObject.uid={pod.uid}" for pod in pods]
    by_pod: dict[str, list[Manifest]] = {pod.uid: [] for pod in pods}
    for selector in selectors:
        for event in _items(gateway, namespace, selector):
            by_pod.get(event["involvedObject"].get("uid", ""), []).append(event)
    return by_pod


def _items(gateway: Gateway, namespace: str, selector: str) -> Iterator[Manifest]:
    try:
        for page in gateway.list(EVENT, namespace=namespace, field_selector=selector):
            yield from page.items
    except Expired:
        return  # the Events so far are valid; the next reading has the rest


def _write(
    cluster: Cluster, pods: list[Pod], events_by_pod: dict[str, list[Manifest]], now: datetime
) -> None:
    with transaction.atomic():
        ids = {pod.pk: pod for pod in pods}
        before: dict[int, list[PodEvent]] = defaultdict(list)
        for event in PodEvent.objects.filter(pod__in=ids):
            before[event.pod_id].append(event)
        moved: list[Pod] = []
        changed, made = [], []
        for pod in pods:
            rows = pod_events(pod, events_by_pod[pod.uid], now)
            reasons = {(row.reason, row.message) for row in rows}
            if reasons != {(row.reason, row.message) for row in before[pod.pk]}:
                moved.append(pod)
            if [_facts(row) for row in rows] != [_facts(row) for row in before[pod.pk]]:
                changed.append(pod.pk)
                made += rows
        PodEvent.objects.filter(pod__in=changed).delete()
        PodEvent.objects.bulk_create(made)
        Pod.objects.filter(pk__in=ids).update(events_at=now)
        if moved:  # readers of new revisions read this too
            Cluster.objects.filter(pk=cluster.pk).update(revision=F("revision") + 1)
            revision = Cluster.objects.values_list("revision", flat=True).get(pk=cluster.pk)
            Pod.objects.filter(pk__in=[pod.pk for pod in moved]).update(revision=revision)
    if moved:
        send_changed(cluster.pk, "Pod", frozenset(f"{pod.namespace}/{pod.name}" for pod in moved))


def pod_events(pod: Pod, events: Iterable[Manifest], now: datetime) -> list[PodEvent]:
    """Return the latest events of a pod, newest first, each reason and message once."""
    rows: dict[tuple[str, str], PodEvent] = {}
    for event in events:
        row = _row(pod, event, now)
        same = rows.setdefault((row.reason, row.message), row)
        if same is not row:
            same.count += row.count
            same.first_at, same.last_at = min(same.first_at, row.first_at), max(same.last_at, row.last_at)
    return sorted(rows.values(), key=lambda row: row.last_at, reverse=True)[:MAX_EVENTS]


def _row(pod: Pod, event: Manifest, now: datetime) -> PodEvent:
    """
    Return the row of one Event.

    Events of events.k8s.io (scheduler) have `eventTime` and `series`; older ones have `firstTimestamp`,
    `lastTimestamp` and `count`.
    """
    series = event.get("series") or {}
    first = (
        event.get("firstTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")
    )
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or first
    source = event.get("reportingComponent") or (event.get("source") or {}).get("component") or ""
    return PodEvent(
        pod=pod,
        reason=str(event.get("reason") or "")[:128],
        message=str(event.get("message") or ""),
        source=str(source)[:253],
        warning=event.get("type") == "Warning",
        count=series.get("count") or event.get("count") or 1,
        first_at=instant(first) or now,
        last_at=instant(last) or instant(first) or now,
    )


def _facts(row: PodEvent) -> tuple[object, ...]:
    return row.reason, row.message, row.source, row.warning, row.count, row.first_at, row.last_at
