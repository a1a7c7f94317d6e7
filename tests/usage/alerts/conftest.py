"""Things that are wrong, one of each condition of an alert."""

from datetime import timedelta
from decimal import Decimal

import pytest
import time_machine

from claims.states import ClaimState
from inventory.models import Device, DeviceUtilization, DraHealth, Freshness, Pod
from inventory.states import DeviceUse
from tests.factories import make_budget, make_claim, make_quota
from tests.usage.conftest import NOON, hold
from tests.usage.test_collect import mirrored
from usage.models import IdlePeriod

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture(autouse=True)
def _now(db):
    with time_machine.travel(NOON, tick=False):
        yield


@pytest.fixture
def waiting(vision, alice, fra):
    """A claim whose pod has waited for ten minutes."""
    claim = make_claim(vision, by=alice, cluster=fra, state=ClaimState.PROVISIONED, name="waits")
    pod_of(claim, "waits-0", since=NOON - 10 * MINUTE)
    return claim


def pod_of(claim, name, *, since, node="", phase="Pending", **fields):
    values = {"claims": [claim.name], **fields}
    return Pod.objects.create(
        cluster=claim.cluster,
        uid=name,
        name=name,
        namespace=claim.namespace,
        phase=phase,
        node_name=node,
        created_at=since,
        **values,
    )


@pytest.fixture
def tainted(claim, fra):
    """A claim that holds a device which got a taint an hour ago."""
    hold(claim, NOON - 2 * HOUR, device="gpu-7")
    mirrored(fra, "gpu-7", "")
    Device.objects.filter(name="gpu-7").update(condition=Device.Condition.TAINTED, changed_at=NOON - HOUR)
    return claim


@pytest.fixture
def full(vision, alice, fra):
    """A quota of 10 devices, of which 9 are used."""
    make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, devices=9)
    return make_quota(vision, 10)


@pytest.fixture
def short(vision):
    """A budget that runs out in five days, in a month that lasts longer."""
    budget = make_budget(vision)
    use = budget.use
    use.share, use.runs_out_at, use.amount_rate = 0.6, NOON + timedelta(days=5), Decimal(3)
    use.save(update_fields=["share", "runs_out_at", "amount_rate"])
    return budget


@pytest.fixture
def unmeasured(claim, fra):
    """A cluster with a source that says nothing of a held device."""
    fra.metrics_url = "http://exporter:9400/metrics"
    fra.save(update_fields=["metrics_url"])
    hold(claim, NOON - 2 * HOUR, device="gpu-8")
    mirrored(fra, "gpu-8", "")
    device = Device.objects.get(name="gpu-8")
    DeviceUtilization.objects.create(
        device=device, held_by=device.held_by, use=DeviceUse.NO_TELEMETRY, since=NOON - HOUR
    )
    return fra


@pytest.fixture
def idle(claim, vision):
    return IdlePeriod.objects.create(
        claim=claim, team=vision, since=NOON - 3 * HOUR, noticed_at=NOON - 3 * HOUR, devices=2
    )


@pytest.fixture
def stale(fra):
    """A cluster that has said nothing for ten minutes."""
    for resource in ("resourceslices", "resourceclaims"):
        Freshness.objects.create(
            cluster=fra, resource=resource, seen_at=NOON - 10 * MINUTE, error="It does not respond."
        )
    return fra


@pytest.fixture
def failing(fra):
    """A cluster whose controller and kubelets count errors."""
    figures = {"create_errors": 3.0, "prepare_errors": 2.0, "driver_errors": 1.0, "attempt_errors": 0.0}
    return DraHealth.objects.create(cluster=fra, read_at=NOON - MINUTE, figures=figures)
