"""The control plane, and one namespace of it per test."""

import itertools
from collections.abc import Iterator

import pytest

from demo.controlplane.client import Client
from demo.controlplane.harness import ControlPlane

_numbers = itertools.count(1)


@pytest.fixture
def admin(controlplane: ControlPlane) -> Client:
    return controlplane.client()


@pytest.fixture
def namespace(admin: Client) -> Iterator[str]:
    name = f"test-{next(_numbers)}"
    admin.create({"kind": "Namespace", "metadata": {"name": name}})
    yield name
    for pod in admin.list("Pod", name):
        admin.delete("Pod", pod["metadata"]["name"], name)
