"""A cluster in memory with a few GPUs, and the hands to move things in it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cluster.protocol import DEVICE_CLASS, NODE, RESOURCE_SLICE, Gateway
from inventory.models import Cluster
from inventory.sync import list_watch
from tests.fakes import FakeGateway

DRIVER = "gpu.nvidia.com"


def gpu(
    index: int, *, product: str = "NVIDIA H100 80GB HBM3", memory: str = "81559Mi", **more: Any
) -> dict[str, Any]:
    return {
        "name": f"gpu-{index}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-{index}"},
            "productName": {"string": product},
            "driverVersion": {"version": "580.95.5"},
        },
        "capacity": {"memory": {"value": memory}},
        **more,
    }


def slice_of(
    node: str, devices: list[dict[str, Any]], *, name: str = "", generation: int = 1, count: int = 1
) -> dict[str, Any]:
    return {
        "metadata": {"name": name or f"{node}-slice"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": count},
            "devices": devices,
        },
    }


def node(name: str, *, ready: bool = True, **spec: Any) -> dict[str, Any]:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {"metadata": {"name": name}, "spec": spec, "status": {"conditions": [condition]}}


def device_class(name: str = DRIVER, kind: str = "gpu") -> dict[str, Any]:
    expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{kind}'"
    return {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def resource_claim(
    name: str, *devices: str, pool: str = "node-a", namespace: str = "default", **metadata: Any
) -> dict[str, Any]:
    """Return a claim that holds `devices` of a pool, or none."""
    results = [{"request": "gpu", "driver": DRIVER, "pool": pool, "device": device} for device in devices]
    status = {"allocation": {"devices": {"results": results}}} if devices else {}
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER}}
    return {
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {"devices": {"requests": [request]}},
        "status": status,
    }


@pytest.fixture
def fake() -> FakeGateway:
    """Two nodes: node-a with two H100, node-b with one."""
    gateway = FakeGateway(name="fra-1")
    for name, gpus in (("node-a", 2), ("node-b", 1)):
        gateway.put(NODE, node(name))
        gateway.put(RESOURCE_SLICE, slice_of(name, [gpu(index) for index in range(gpus)]))
    gateway.put(DEVICE_CLASS, device_class())
    return gateway


@pytest.fixture
def fra(db: None, fake: FakeGateway) -> Cluster:
    return Cluster.objects.create(name="fra-1", uid=fake.uid, credentials=b"", version="v1.37.1")


@pytest.fixture
def mirrored(fra: Cluster, fake: FakeGateway) -> Cluster:
    """The cluster, listed once."""
    list_watch.sync_once(fra, fake)
    fra.refresh_from_db()
    return fra


@pytest.fixture
def run_session(fra: Cluster, fake: FakeGateway, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Let a holder take its turn with the cluster in memory."""

    @contextmanager
    def to_fake(cluster: Cluster) -> Iterator[Gateway]:
        yield fake

    monkeypatch.setattr(list_watch, "gateway_for", to_fake)
    return lambda plural, **options: list_watch.run_session(fra.pk, plural, **{"seconds": 1, **options})
