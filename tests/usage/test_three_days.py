"""
Three days with an outage, played through a real Prometheus and the tasks of the portal.

What pages, API and files say afterwards is compared with sums of this test, made from the curves that were
written into Prometheus and from when claims held devices.
"""

import csv
import io
import math
import signal
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal

import pytest
import time_machine
from django.urls import reverse

from claims.models import Claim
from claims.states import ClaimState
from inventory.models import Cluster
from tests.factories import make_claim
from tests.prometheus import RealPrometheus
from tests.usage.conftest import H100, hold, price
from tests.usage.test_collect import mirrored
from usage import tasks
from usage.models import Collection, Rollup

HOUR, EVERY, BUCKET = timedelta(hours=1), timedelta(seconds=30), timedelta(minutes=5)
MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
END = MONDAY + 72 * HOUR
RATE = Decimal("2.4999")
# Prometheus itself was down; its first minutes repeat the last sample, as Prometheus does.
HOLE = MONDAY + 26 * HOUR, MONDAY + 27 * HOUR
WORKER_AWAY = MONDAY + 34 * HOUR, MONDAY + 41 * HOUR
PROMETHEUS_AWAY = MONDAY + 50 * HOUR, MONDAY + 53 * HOUR  # it had scraped, and cannot be reached

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass(frozen=True)
class Work:
    """One device that a claim holds for a time, and what is measured of it."""

    name: str
    device: str
    start: datetime
    end: datetime
    fraction: Decimal
    labels: str
    period: float  # of its curve, in seconds
    product: str = H100

    def activity(self, at: datetime) -> float:
        return round(0.5 + 0.45 * math.sin(at.timestamp() / self.period), 6)

    def memory(self, at: datetime) -> int:
        return 2000 + int(at.timestamp()) // 300 % 900

    def is_held(self, at: datetime) -> bool:
        return self.start <= at < self.end


def dra(claim: str, device: str) -> str:
    return (
        f'UUID="GPU-{device}",hostname="n",dra_claim_name="{claim}",dra_claim_namespace="vision",'
        f'dra_driver_name="gpu.nvidia.com",dra_pool_name="fra1-h100-03",dra_device_name="{device}"'
    )


WORKS = (
    # by its DRA labels, over both midnights
    Work("train", "gpu-0", MONDAY + 10 * HOUR, MONDAY + 62 * HOUR, Decimal(1), dra("train", "gpu-0"), 5000),
    Work("train", "gpu-1", MONDAY + 10 * HOUR, MONDAY + 62 * HOUR, Decimal(1), dra("train", "gpu-1"), 7000),
    # by its UUID, from within a bucket, and it ends in the outage of the worker
    Work(
        "notebook",
        "gpu-2",
        MONDAY + 31 * HOUR + timedelta(minutes=3, seconds=20),
        MONDAY + 36 * HOUR + timedelta(minutes=17),
        Decimal(1),
        'UUID="GPU-gpu-2",Hostname="n"',
        900,
    ),
    # a partition of a GPU, by GPU and profile
    Work(
        "small",
        "gpu-3-mig-0",
        MONDAY + 20 * HOUR,
        MONDAY + 54 * HOUR,
        Decimal("0.142857"),
        'UUID="GPU-gpu-3",GPU_I_ID="7",GPU_I_PROFILE="1g.10gb",Hostname="n"',
        3000,
    ),
)


def exposition():
    """Yield what Prometheus has scraped in three days: every device, held or not."""
    instants = [MONDAY + number * EVERY for number in range(int((END - MONDAY) / EVERY))]
    instants = [at for at in instants if not HOLE[0] <= at < HOLE[1]]
    for metric, value in (
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", Work.activity),
        ("DCGM_FI_DEV_FB_USED", Work.memory),
        ("DCGM_FI_DEV_POWER_USAGE", lambda _work, _at: 300),
    ):
        yield f"# TYPE {metric} gauge"
        for work in WORKS:
            for at in instants:
                yield f"{metric}{{{work.labels}}} {value(work, at)} {int(at.timestamp())}"


def expected_buckets(work: Work) -> dict[datetime, float]:
    """Return the mean activity of each bucket that can be known: from its instants while it was held."""
    means: dict[datetime, list[float]] = defaultdict(list)
    at = MONDAY
    while at < END:
        since_hole = at - HOLE[0]
        known = not HOLE[0] <= at < HOLE[1] or since_hole < BUCKET - EVERY
        if work.is_held(at) and known:
            said = at if not HOLE[0] <= at < HOLE[1] else HOLE[0] - EVERY
            means[MONDAY + (at - MONDAY) // BUCKET * BUCKET].append(work.activity(said))
        at += EVERY
    return {bucket: sum(values) / len(values) for bucket, values in means.items()}


def cents(amount: Decimal) -> Decimal:
    return amount.quantize(Decimal("0.01"), rounding=ROUND_HALF_EVEN)


def expected_money(name: str | None = None) -> Decimal:
    """Return the cost: of each claim and day its hours × fraction × rate, rounded to cents, added up."""
    total = Decimal(0)
    for claim in {work.name for work in WORKS} if name is None else {name}:
        for day in range(3):
            start, end = MONDAY + day * 24 * HOUR, MONDAY + (day + 1) * 24 * HOUR
            mine = [work for work in WORKS if work.name == claim]
            seconds = [
                max(0, int((min(work.end, end) - max(work.start, start)).total_seconds())) for work in mine
            ]
            held = sum(
                (second * work.fraction for second, work in zip(seconds, mine, strict=True)), Decimal(0)
            )
            total += cents(held / 3600 * RATE)
    return total


@pytest.fixture
def played(tmp_path, vision, alice, fra):
    """The portal after the three days: each hour one collection, and what its tasks make of it."""
    prometheus = RealPrometheus(tmp_path)
    prometheus.backfill(exposition())
    prometheus.start()
    Cluster.objects.filter(pk=fra.pk).update(prometheus_url=prometheus.url)
    price(str(RATE), product="H100", since=MONDAY - 240 * HOUR)
    claims = {
        name: make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False, name=name)
        for name in ("train", "notebook", "small")
    }
    mirrored(fra, "gpu-3-mig-0", "GPU-gpu-3")
    open_now = {}
    now = MONDAY
    try:
        while now <= END + 3 * HOUR:
            with time_machine.travel(now + timedelta(minutes=1), tick=False):
                for work in WORKS:
                    if work.device not in open_now and work.start <= now:
                        open_now[work.device] = hold(
                            claims[work.name],
                            work.start,
                            device=work.device,
                            uuid="" if "mig" in work.device else f"GPU-{work.device}",
                            partition="1g.10gb" if "mig" in work.device else "",
                            fraction=work.fraction,
                            product=work.product,
                        )
                    if work.end <= now and open_now[work.device].ended_at is None:
                        open_now[work.device].ended_at = work.end
                        open_now[work.device].save(update_fields=["ended_at"])
                if now == PROMETHEUS_AWAY[0]:
                    prometheus.stop(signal.SIGKILL)
                if now == PROMETHEUS_AWAY[1]:
                    prometheus.start()
                if not WORKER_AWAY[0] <= now < WORKER_AWAY[1]:
                    tasks.collect.delay()
                    for _message in range(8):  # a beat each minute; some are lost, some come twice
                        tasks.catch_up.delay()
                    tasks.store_days.delay()
            now += HOUR
    finally:
        prometheus.stop(signal.SIGKILL)
    Claim.objects.filter(team=vision).update(state=ClaimState.RELEASED)
    with time_machine.travel(END + 4 * HOUR, tick=False):
        tasks.store_days.delay()
        yield claims


def test_every_figure_is_that_of_an_independent_computation(played, client, lena, vision, root):
    assert Collection.objects.get().error == ""
    for work in WORKS:
        expected = expected_buckets(work)
        rows = Rollup.objects.filter(claim=played[work.name], device=work.device)
        stored = dict(rows.values_list("bucket", "activity"))
        assert sorted(stored) == sorted(expected)
        assert max(abs(stored[bucket] - expected[bucket]) for bucket in expected) < 0.005
        whole = sum(expected.values()) / len(expected)
        assert sum(stored.values()) / len(stored) == pytest.approx(whole, rel=0.005)

    total = expected_money()
    client.force_login(lena)
    for name, claim in played.items():
        body = client.get(f"/api/v1/claims/{claim.pk}/cost/").json()
        assert [Decimal(one["amount"]) for one in body["so_far"]["amounts"]] == [expected_money(name)]
        used = client.get(f"/api/v1/claims/{claim.pk}/usage/?range=life").json()
        buckets = [value for work in WORKS if work.name == name for value in expected_buckets(work).values()]
        seen = [point["activity"] for point in used["points"] if point["activity"] is not None]
        assert sum(seen) / len(seen) == pytest.approx(sum(buckets) / len(buckets), abs=0.005)

    month = client.get("/api/v1/costs/?team=vision&month=2026-11").json()
    assert [Decimal(one["amount"]) for one in month["total"]["amounts"]] == [total]
    file = client.get(reverse("usage:team_csv", args=["vision"]), {"month": "2026-11"})
    lines = list(csv.DictReader(io.StringIO(file.getvalue().decode())))
    assert sum(Decimal(line["amount"]) for line in lines if line["amount"]) == total
    page = client.get(reverse("usage:team", args=["vision"]), {"month": "2026-11"})
    assert f"{total:.2f}" in page.text

    client.force_login(root)
    focus = client.get("/api/v1/costs/focus/?month=2026-11")
    charges = list(csv.DictReader(io.StringIO(focus.getvalue().decode())))
    assert sum(Decimal(row["BilledCost"]) for row in charges) == total
    hours = sum((work.end - work.start) / HOUR * float(work.fraction) for work in WORKS)
    assert float(sum(Decimal(row["ConsumedQuantity"]) for row in charges)) == pytest.approx(hours, abs=1e-6)
