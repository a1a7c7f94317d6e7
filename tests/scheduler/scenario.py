"""
One scenario as data: its objects, with names of their own, and what its pods get.

Each scenario has its own driver and class, so scenarios do not affect one another on the node that most of
them share. Scenarios with wrong pools or several nodes have their own nodes. All objects have the label
`situation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from demo.controlplane.client import CLUSTER_WIDE

type Json = dict[str, Any]

API = "resource.k8s.io/v1"
PLAIN, PRIVILEGED = "situations", "situations-of-admins"  # namespaces
COMMON = "common"  # the node of those that bring none


@dataclass(frozen=True, slots=True)
class Pod:
    """
    A pod and its expected outcome: the names of the devices of all its claims in order, or a wait.

    `fails` is a wait that a retry would not end: the allocator refuses to search. A pod that `binds` late is
    bound only when its driver has reported a condition of the device. A `pinned` pod names its node.
    """

    manifest: Json
    gets: tuple[str, ...] = ()
    fails: bool = False
    binds: bool = False
    earlier: bool = False
    pinned: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.manifest["metadata"]["namespace"], self.manifest["metadata"]["name"]

    @property
    def waits(self) -> bool:
        return not self.gets


class Scenario:
    """Collects the objects of one scenario. Methods that create an object return nothing."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.namespace = PLAIN
        self.home = COMMON
        self.driver = self.class_name = f"{name}.example.com"
        self.objects: list[Json] = []
        self.pods: list[Pod] = []

    def allow_admin_access(self) -> None:
        self.namespace = PRIVILEGED

    def node(self, name: str = "", *, cordoned: bool = False, **labels: str) -> None:
        """Add a node; slices that name no node are on the nameless one."""
        name = self._full(name)
        self.home = self.name
        labels |= {"kubernetes.io/hostname": name}
        self._add("Node", name, {"spec": {"unschedulable": True} if cordoned else {}}, **labels)

    def device_class(self, name: str = "", expression: str = "", **spec: Any) -> None:
        expression = expression or f"device.driver == '{self.driver}'"
        selectors = [{"cel": {"expression": expression}}]
        self._add("DeviceClass", name or self.class_name, {"spec": {"selectors": selectors, **spec}})

    def slice(
        self, *devices: Json, node: str = "", pool: str = "", name: str = "0", of: int = 1, **spec: Any
    ) -> None:
        """Publish devices, local to a node unless `spec` has another place for them."""
        pool = self._full(pool or node)
        if not {"allNodes", "nodeSelector", "perDeviceNodeSelection"} & spec.keys():
            spec["nodeName"] = self._full(node) if node else self.home
        numbers = {"generation": spec.pop("generation", 1), "resourceSliceCount": of}
        if devices:
            spec["devices"] = list(devices)
        spec |= {"driver": self.driver, "pool": {"name": pool, **numbers}}
        self._add("ResourceSlice", f"{pool}-{name}", {"spec": spec})

    def class_and_slice(self, *devices: Json, **slice_spec: Any) -> None:
        """Publish devices and add a class of them."""
        self.device_class()
        self.slice(*devices, **slice_spec)

    def taint_rule(self, name: str, effect: str, *, value: str = "", **selector: str) -> None:
        taint = {"key": "example.com/broken", "value": value, "effect": effect}
        spec = {"deviceSelector": {"driver": self.driver, **selector}, "taint": taint}
        self._add("DeviceTaintRule", f"{self.name}-{name}", {"spec": spec})

    def has(self, **attributes: str | int | bool) -> str:
        """Return a selector: the device has these attributes."""
        parts = [
            f"device.attributes['{self.driver}'].{key} == {value!r}" for key, value in attributes.items()
        ]
        return " && ".join(parts)

    def exact_request(
        self, count: int | None = None, where: str = "", class_name: str = "", **more: Any
    ) -> Json:
        """Return the value of `exactly`, or an alternative."""
        exact_body: Json = {"deviceClassName": class_name or self.class_name, **more}
        if count is not None:
            exact_body["count"] = count
        if where:
            exact_body["selectors"] = [{"cel": {"expression": where}}]
        return exact_body

    def exactly(self, count: int | None = None, where: str = "", name: str = "gpu", **more: Any) -> Json:
        return {"name": name, "exactly": self.exact_request(count, where, **more)}

    def claim(self, name: str, *requests: Json, **devices: Any) -> None:
        spec = {"devices": {"requests": list(requests), **devices}}
        self._add("ResourceClaim", name, {"spec": spec})

    def template(self, name: str, *requests: Json, **devices: Any) -> None:
        spec = {"devices": {"requests": list(requests), **devices}}
        self._add("ResourceClaimTemplate", name, {"spec": {"spec": spec}})

    def pod(
        self,
        *claims: str,
        name: str = "pod",
        gets: Sequence[str] = (),
        fails: bool = False,
        binds: bool = False,
        earlier: bool = False,
        on: str = "",
        resources: Json | None = None,
    ) -> None:
        """Add a pod that uses claims and templates by name. An `earlier` one runs before the others."""
        uses = [{"name": claim, self._source(claim): self._full(claim)} for claim in claims]
        amounts = {"requests": resources, "limits": resources} if resources else {}
        container_resources = {"claims": [{"name": claim} for claim in claims], **amounts}
        brought = {"situation": self.name} if self.home != COMMON else {"kubernetes.io/hostname": COMMON}
        where = {"kubernetes.io/hostname": self._full(on)} if on else brought
        spec: Json = {
            "nodeSelector": where,
            "containers": [{"name": "main", "image": "example", "resources": container_resources}],
            "resourceClaims": uses,
        }
        manifest = {"kind": "Pod", "metadata": self._metadata("Pod", name), "spec": spec}
        self.pods.append(Pod(manifest, tuple(gets), fails, binds, earlier, bool(on)))

    def quota(self, name: str, **hard: str) -> None:
        self._add("ResourceQuota", name, {"spec": {"hard": hard}})

    def _add(self, kind: str, name: str, body: Json, **labels: str) -> None:
        version = {} if kind in ("Node", "ResourceQuota") else {"apiVersion": API}
        self.objects.append(
            {**version, "kind": kind, "metadata": self._metadata(kind, name, **labels), **body}
        )

    def _metadata(self, kind: str, name: str, **labels: str) -> Json:
        metadata: Json = {"name": name, "labels": labels | {"situation": self.name}}
        if kind in CLUSTER_WIDE:
            return metadata
        return metadata | {"name": self._full(name), "namespace": self.namespace}

    def _full(self, name: str) -> str:
        return f"{self.name}-{name}" if name else self.name

    def _source(self, claim: str) -> str:
        names = (
            manifest["metadata"]["name"]
            for manifest in self.objects
            if manifest["kind"] == "ResourceClaimTemplate"
        )
        return "resourceClaimTemplateName" if self._full(claim) in names else "resourceClaimName"


type Situation = Callable[[Scenario], None]


def device(name: str, capacity: Json | None = None, *, raw: Json | None = None, **attributes: Any) -> Json:
    """Return a device of a slice. A capacity is a quantity, or the whole entry with its policy."""
    published: Json = {"name": name, **(raw or {})}
    if attributes:
        published["attributes"] = {key: {_kind(value): value} for key, value in attributes.items()}
    if capacity:
        published["capacity"] = {
            key: value if isinstance(value, dict) else {"value": value} for key, value in capacity.items()
        }
    return published


def devices(*names: str) -> list[Json]:
    return [device(name) for name in names]


def _kind(value: object) -> str:
    return {bool: "bool", int: "int"}.get(type(value), "string")
