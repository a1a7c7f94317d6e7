"""
Plays the three days of `tests.usage.three_days.history`: what clusters show, and what is killed when.

The tasks are those of the portal, in a real worker; beat, which would queue them, is the test.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import environ
import time_machine
from django.db import connection

from claims.models import Allocation
from claims.models import Claim as ClaimRow
from claims.states import ClaimState
from inventory import counts
from inventory.models import Device, ResourceClaim, ResourceSlice
from inventory.models.mirror import Ownership
from tests.factories import (
    make_allocation,
    make_budget,
    make_claim,
    make_cluster,
    make_profile,
    make_team,
    make_user,
)
from tests.prometheus import RealPrometheus, SmallPrometheus, prometheus_of_history
from tests.usage.conftest import price
from tests.usage.three_days import history
from tests.usage.three_days.history import CLAIMS, FLEET, GRAMS, NOW, WORKS, works_of
from tests.usage.three_days.machines import Database, Gate, Worker, broker
from tests.usage.three_days.pages import BUDGET, BUDGET_HOURS
from usage.models import Collection

COLLECT, COLLECTED = "usage.tasks.collect", "usage.tasks.collect_cluster"
CATCH_UP, CAUGHT_UP = "usage.tasks.catch_up", "usage.tasks.catch_up_cluster"
STORE_DAYS, STORE_HOURS = "usage.tasks.store_days", "usage.tasks.store_hours"
MINUTE = timedelta(minutes=1)


# What was before Monday.


def set_up(prometheus_url: str) -> dict[str, ClaimRow]:
    """Make people, claims, rates and the mirror of two clusters as they are on Monday; return the claims."""
    people = {name: make_user(name) for name in ("alice", "carol", "lena", "dan")}
    make_user("root", admin=True)
    vision = make_team("vision", leads=(people["lena"],), members=(people["alice"], people["carol"]))
    nlp = make_team("nlp", members=(people["dan"],))
    teams = {"vision": vision, "nlp": nlp}
    clusters = {
        "fra-1": make_cluster(
            "fra-1", teams=(vision, nlp), prometheus_url=prometheus_url, grams_per_kwh=GRAMS
        ),
        "ber-1": make_cluster("ber-1", teams=(nlp,)),
    }
    profiles = {slug: make_profile(slug) for slug in ("train-80", "small-10")}
    for rate in history.RATES:
        price(str(rate.per_hour), product=rate.product, since=rate.since, title=rate.product)
    make_budget(vision, BUDGET, hours=BUDGET_HOURS)
    for cluster in clusters.values():
        mirror(cluster)
    counts.store_counts(changed_only=False)
    ends: dict[str, dict[str, Any]] = {
        claim.name: {"expires_at": claim.expires_at} for claim in CLAIMS if claim.expires_at
    }
    return {
        claim.name: make_claim(
            teams[claim.team],
            by=people[claim.person],
            cluster=clusters[claim.cluster],
            profile=profiles[claim.profile],
            devices=len(works_of(claim)),
            state=ClaimState.ALLOCATED,
            held=False,
            name=claim.name,
            **ends.get(claim.name, {}),
        )
        for claim in CLAIMS
    }


def mirror(cluster):
    """Store the devices of the cluster: those of `WORKS`, and as many more as `FLEET` says."""
    place = ResourceSlice.objects.create(
        cluster=cluster, uid=f"slice-{cluster}", name="s", raw={}, driver="gpu.nvidia.com", generation=1,
        pool_slices=1,
    )  # fmt: skip
    _ours, others = (  # the first holds what claims of the portal hold
        ResourceClaim.objects.create(
            cluster=cluster, uid=f"{name}-{cluster}", name=name, namespace="vision", raw={}, ownership=owner
        )
        for name, owner in (("ours", Ownership.MANAGED), ("others", Ownership.UNMANAGED))
    )
    for (name, product), (gpus, out, unmanaged) in FLEET.items():
        if name != cluster.name:
            continue
        known = {
            work.device: work
            for work in WORKS
            if work.claim.cluster == name and work.claim.product == product
        }
        spare = [f"spare-{number}" for number in range(gpus - len(known))]
        for number, device in enumerate([*known, *spare]):
            work = known.get(device)
            parent = f"GPU-{device.partition('-mig')[0]}" if "mig" in device else ""
            Device.objects.create(
                cluster=cluster,
                slice=place,
                driver="gpu.nvidia.com",
                pool=work.pool if work else "spare",
                name=device,
                product=product,
                partition=work.claim.partition if work else "",
                uuid="" if parent else f"GPU-{device}",
                parent_uuid=parent,
                condition="unhealthy" if number >= gpus - out else "good",
                held_by=others if gpus - out - unmanaged <= number < gpus - out else None,
            )


# The three days.


@dataclass
class Days:
    """Plays rounds of four hours: one live measurement, and what fills the gaps since the last."""

    claims: dict[str, ClaimRow]
    worker: Worker
    prometheus: RealPrometheus | SmallPrometheus
    gate: Gate
    database: Database

    def __post_init__(self):
        self.held: dict[str, Allocation] = {}
        self.filled_at = history.MONDAY

    def change_hands(self, now):
        """Open and close allocations as the clusters show by now, and count the fleet if one did."""
        held = dict(self.held)
        for work in WORKS:
            key = f"{work.claim.name}/{work.device}"
            if key not in self.held and work.start <= now:
                self.held[key] = make_allocation(
                    self.claims[work.claim.name],
                    work.start,
                    pool=work.pool,
                    device=work.device,
                    driver="gpu.nvidia.com",
                    object_uid=f"uid-{key}",
                    product=work.claim.product,
                    partition=work.claim.partition,
                    uuid="" if work.claim.partition else f"GPU-{work.device}",
                    fraction=work.claim.fraction,
                    memory_bytes=work.claim.memory * 2**30,
                    capacity_type=work.claim.capacity,
                )
                self.show(work, held=True)
            if work.end is not None and work.end <= now and self.held[key].ended_at is None:
                self.held[key].ended_at = work.end
                self.held[key].save(update_fields=["ended_at"])
                self.show(work, held=False)
                held.clear()
        if held != self.held:
            with time_machine.travel(now, tick=False):
                counts.store_counts(changed_only=False)

    def show(self, work, *, held):
        """Let the mirror show whether a device is held."""
        device = Device.objects.get(cluster__name=work.claim.cluster, pool=work.pool, name=work.device)
        device.held_by = ResourceClaim.objects.get(cluster=device.cluster, name="ours") if held else None
        device.save(update_fields=["held_by"])

    def collect(self, at):
        self.worker.run(COLLECT, at, until=COLLECTED)

    def fill(self, now):
        """Fill the gaps since the last time, an hour with each message, and those that Prometheus had."""
        for _hour in range((now - self.filled_at) // history.HOUR + 3):
            self.worker.run(CATCH_UP, now, until=CAUGHT_UP)
        self.filled_at = now

    def store(self, now):
        self.worker.run(STORE_DAYS, now)
        self.worker.run(STORE_HOURS, now)

    def play(self):
        special = {
            history.DATABASE_CRASHED: self.with_a_crash_while_it_measures,
            history.DATABASE_CRASHED_AGAIN: self.with_a_crash_while_days_are_stored,
            history.WORKER_KILLED: self.with_a_worker_killed_while_it_measures,
            history.WORKER_BACK: self.with_a_new_worker,
            history.PROMETHEUS_KILLED: self.with_prometheus_killed_while_gaps_are_filled,
            history.PROMETHEUS_BACK: self.with_prometheus_back,
            history.WORKER_KILLED_AGAIN: self.with_a_worker_killed_while_gaps_are_filled,
        }
        self.worker.tell(history.MONDAY)
        self.worker.start()
        for start in history.ROUNDS:
            if history.WORKER_KILLED < start < history.WORKER_BACK:
                continue
            now = start + MINUTE
            self.change_hands(now)
            special.get(start, self.as_usual)(now)
        self.until_now()

    def as_usual(self, now):
        self.collect(now)
        self.fill(now)
        self.store(now)

    def with_a_crash_while_days_are_stored(self, now):
        self.collect(now)
        self.fill(now)
        with self.database.locked("days", "usage_dailysum", lambda: self.worker.send(STORE_DAYS, now)):
            connection.close()
            self.database.crash()
        self.worker.wait_for(f"{STORE_DAYS} FAILURE")
        self.database.start()
        self.store(now)

    def with_a_worker_killed_while_it_measures(self, now):
        with self.gate.held("/query", lambda: self.worker.send(COLLECT, now)):
            self.worker.kill()

    def with_a_new_worker(self, now):
        self.worker.tell(now)
        self.worker.start()
        self.as_usual(now)

    def with_prometheus_killed_while_gaps_are_filled(self, now):
        self.collect(now)
        with self.gate.held("/query_range", lambda: self.worker.send(CATCH_UP, now)):
            self.prometheus.stop(signal.SIGKILL)
        self.store(now)

    def with_prometheus_back(self, now):
        self.collect(now)
        assert "cannot be reached" in Collection.objects.get().error
        self.prometheus.start()
        self.as_usual(now + MINUTE)

    def with_a_crash_while_it_measures(self, now):
        with self.gate.held("/query", lambda: self.worker.send(COLLECT, now)):
            connection.close()
            self.database.crash()
        self.worker.wait_for(f"{COLLECTED} FAILURE")
        self.database.start()
        self.as_usual(now + MINUTE)

    def with_a_worker_killed_while_gaps_are_filled(self, now):
        self.collect(now)
        with self.database.locked("days", "usage_rollup", lambda: self.worker.send(CATCH_UP, now)):
            self.worker.kill()
        self.worker.tell(now)
        self.worker.start()
        self.fill(now)
        self.store(now)

    def until_now(self):
        """Measure live as beat would, so that it is known what is idle now, and run what runs seldom."""
        last = NOW - MINUTE
        for instant in [*history.LIVE[last - 5 * MINUTE], last]:
            self.collect(instant)
        self.fill(last + timedelta(seconds=10))
        self.collect(last + timedelta(seconds=20))
        self.store(last + timedelta(seconds=30))
        self.worker.run("usage.tasks.follow_idle_claims", last + timedelta(seconds=40))
        self.worker.run("claims.tasks.watch_budgets", NOW)
        ended = [claim.name for claim in CLAIMS if all(work.end for work in works_of(claim))]
        ClaimRow.objects.filter(name__in=ended).update(state=ClaimState.RELEASED)


@contextmanager
def three_days(folder: Path, template: str) -> Iterator[dict[str, ClaimRow]]:
    """
    Play the days, and yield the claims by name while Django works on their database, a copy of the one at the
    address `template`.
    """
    with ExitStack() as stack:
        prometheus = prometheus_of_history(folder / "prometheus")
        prometheus.backfill(history.exposition())
        prometheus.start()
        stack.callback(prometheus.stop, signal.SIGKILL)
        # The user of PostgreSQL may not enter the folders of pytest.
        own = stack.enter_context(TemporaryDirectory(prefix="dragoman-days-"))
        database = Database(Path(own) / "data")
        stack.callback(database.stop)
        database.restore("days", template)
        worker = Worker(folder, database.url("days"), stack.enter_context(broker(folder)))
        stack.callback(worker.kill)
        gate = Gate(prometheus, worker.clock)
        stack.callback(gate.close)
        stack.enter_context(django_on(database.url("days")))
        with time_machine.travel(history.MONDAY, tick=False):
            claims = set_up(gate.url)
        Days(claims, worker, prometheus, gate, database).play()
        connection.close()
        yield claims


@contextmanager
def django_on(url: str) -> Iterator[None]:
    """Let Django work on another server until the end of the block."""
    usual = dict(connection.settings_dict)
    config = environ.Env.db_url_config(url)
    connection.close()
    connection.settings_dict.update(
        {name: config[name] for name in ("NAME", "USER", "PASSWORD", "HOST", "PORT")}
    )
    connection.settings_dict["OPTIONS"] = usual["OPTIONS"] | config.get("OPTIONS", {})
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict.update(usual)
