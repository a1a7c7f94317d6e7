"""
A steady stream of changes: from the moment the cluster sends an event until its row is committed, and from
an approval over HTTP until the cluster has the object.

Two watches at once, one of slices and one of claims, with pooled connections as in production; events come
from memory as JSON. Web, worker, broker and the cluster's API are processes and sockets of their own.
"""

from __future__ import annotations

import http.client
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from types import FrameType
from typing import Any, cast
from unittest import mock
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.db import connection
from django.urls import reverse
from django.utils.crypto import get_random_string

from bench.costs import sampled_threads
from bench.measure import Result
from bench.portal import processes
from bench.portal.build import NAME
from bench.portal.cluster import ListedCluster
from bench.portal.first_sync import served, use_pool
from bench.portal.pages import portal_process, signed_in
from bench.portal.population import LEAD
from bench.portal.writes import Requests
from claims.models import Claim
from cluster.credentials import Credentials, seal
from cluster.protocol import RESOURCE_CLAIM, RESOURCE_SLICE, Event, Gateway, Kind
from inventory.models import Cluster, ResourceClaim, ResourceSlice
from inventory.sync import list_watch
from inventory.sync.session import Lease, take

RATE = 500  # events per second and resource
SECONDS = 10
OBJECTS = 2_000  # of each resource that change in turn
APPROVALS = 40
PATIENCE = 30.0  # seconds that an approved claim may take to reach the cluster
LATENCY = 1_000.0  # ms, the 99th percentile
VERSION = 2_000_000_000  # above those of the first listing


def results(devices: int) -> Iterator[Result]:
    """Yield a line per resource."""
    cluster = Cluster.objects.get(name=NAME)
    slices = ResourceSlice.objects.filter(cluster=cluster, gone_at=None).order_by("pk")
    claims = ResourceClaim.objects.filter(cluster=cluster, gone_at=None).order_by("pk")
    watches = [
        _Watch(
            RESOURCE_SLICE, [_changed_slice(raw) for raw in slices.values_list("raw", flat=True)[:OBJECTS]]
        ),
        _Watch(
            RESOURCE_CLAIM, [_changed_claim(raw) for raw in claims.values_list("raw", flat=True)[:OBJECTS]]
        ),
    ]
    apply_events = list_watch.apply_events

    def recorded(lease: Lease, kind: Kind, events: Sequence[Event], *, version: str) -> None:
        apply_events(lease, kind, events, version=version)
        watch = watches[kind is RESOURCE_CLAIM]
        watch.committed += [(event.resource_version, time.monotonic()) for event in events]

    patched = mock.patch.object(list_watch, "apply_events", recorded)
    with patched, _approver(cluster) as approve, portal_process(is_worker=True):
        threads = [Thread(target=watch.follow, args=(cluster,)) for watch in watches]
        for thread in threads:
            thread.start()
        with sampled_threads(threads, _Watch.waits) as costs:
            try:
                delivered = approve()
            finally:
                for thread in threads:
                    thread.join()
    yield _delivery(devices, delivered)
    for watch in watches:
        latencies = sorted(1000 * (at - watch.sent[version]) for version, at in watch.committed)
        p99 = latencies[int(0.99 * len(latencies))] if latencies else float("inf")
        rate = len(latencies) / SECONDS
        path = f"steady: change of a {watch.kind.kind} until its row is committed, p99"
        note = f"{path}: {rate:.0f} of {RATE} events per second."
        result = Result(path, devices, "sync", [p99], budget=LATENCY, notes=[note])
        result.profile = costs.lines() if result.misses else []
        yield result


def _delivery(devices: int, seconds: list[float]) -> Result:
    milliseconds = sorted(1000 * duration for duration in seconds)
    p99 = milliseconds[int(0.99 * len(milliseconds))]
    median = statistics.median(milliseconds)
    path = "steady: approval until its object exists, p99"
    note = f"{path}: {len(milliseconds)} approvals, median {median:.0f} ms."
    return Result(path, devices, "web and worker", [p99], budget=LATENCY, notes=[note])


@contextmanager
def _approver(cluster: Cluster) -> Iterator[Callable[[], list[float]]]:
    """Yield a function that approves requests and returns how many seconds each took to reach the cluster."""
    created: dict[str, float] = {}
    claims = Requests().undecided(APPROVALS + 1)
    with (
        served(ListedCluster({}), created) as api,
        processes.broker() as redis_url,
        processes.web(redis_url) as (_process, url),
        processes.worker(redis_url, "delivery,default", threads=4),
    ):
        Cluster.objects.filter(pk=cluster.pk).update(credentials=seal(Credentials(server=api)))
        client = signed_in(LEAD)
        cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
        token = get_random_string(32)  # any token is right if cookie and header have it
        headers = {
            "Cookie": f"{cookie}; {settings.CSRF_COOKIE_NAME}={token}",
            "X-CSRFToken": token,
            "Content-Type": "application/x-www-form-urlencoded",
        }

        def approve(claim: Claim) -> float:
            start = time.monotonic()
            web = http.client.HTTPConnection(str(urlsplit(url).netloc), timeout=PATIENCE)
            body = urlencode({"spec_hash": claim.spec_hash})
            web.request("POST", reverse("claims:approve", args=[claim.pk]), body, headers)
            status = web.getresponse().status
            web.close()
            if status != 302:
                raise RuntimeError(f"Approval: status {status} instead of 302.")
            processes.wait_until(lambda: claim.name in created, PATIENCE, every=0.005)
            return created[claim.name] - start

        approve(claims.pop())  # web, worker and their connections are warm then
        yield lambda: [approve(claim) for claim in claims]
    Cluster.objects.filter(pk=cluster.pk).update(credentials=b"")


class _Watch:
    """A gateway that sends events at a constant rate, and when each was sent and committed."""

    def __init__(self, kind: Kind, bodies: list[bytes]) -> None:
        self.kind, self.bodies = kind, bodies
        self.sent: dict[str, float] = {}
        self.committed: list[tuple[str, float]] = []

    def follow(self, cluster: Cluster) -> None:
        use_pool()
        lease = take(cluster.pk, self.kind.plural)
        if lease is None:
            raise RuntimeError(f"Another worker syncs {self.kind.plural}.")
        try:
            list_watch.follow(lease, cast(Gateway, self), self.kind, version="0", seconds=SECONDS)
        finally:
            lease.drop()
            connection.close()

    @classmethod
    def waits(cls, frame: FrameType) -> bool:
        """Return whether a thread waits for the next event to be due."""
        return frame.f_code is cls.watch.__code__

    def watch(self, kind: Kind, **_options: object) -> Iterator[Event]:
        start = time.monotonic()
        for number in range(RATE * SECONDS):
            due = start + number / RATE
            time.sleep(max(0.0, due - time.monotonic()))
            body = json.loads(self.bodies[number % len(self.bodies)])
            version = str(time.time_ns() // 1000 + VERSION)
            body["metadata"]["resourceVersion"] = version
            self.sent[version] = due
            yield Event("MODIFIED", body, version)


def _changed_slice(raw: dict[str, Any]) -> bytes:
    """Return the slice with another driver version on each device that has one."""
    for device in raw["spec"].get("devices", ()):
        if "driverVersion" in device.get("attributes", {}):
            device["attributes"]["driverVersion"] = {"version": f"580.95.{time.time_ns() % 1000}"}
    return json.dumps(raw).encode()


def _changed_claim(raw: dict[str, Any]) -> bytes:
    """Return the claim reserved for another pod."""
    for user in raw.get("status", {}).get("reservedFor", ()):
        user["name"] = f"{user['name'].rpartition('-')[0]}-{time.time_ns() % 100}"
    return json.dumps(raw).encode()
