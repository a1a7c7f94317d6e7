"""The kinds that a simulated cluster serves, and their paths."""

from dataclasses import dataclass
from typing import Any

type Manifest = dict[str, Any]  # an object of the API as plain JSON values; never changed once stored

DRA = "resource.k8s.io"
VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Resource:
    """One row of discovery. `generation`: the server counts changes of the spec in metadata.generation."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    status: bool = True  # serves /status, and ignores status on the main path
    generation: bool = False
    short: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()  # field selectors besides metadata.name and metadata.namespace

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`resourceclaims.resource.k8s.io`, as messages of the API server call it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False, short=("ns",))
NODES = Resource("", "v1", "Node", "nodes", namespaced=False, short=("no",))
PODS = Resource(
    "", "v1", "Pod", "pods", generation=True, short=("po",), fields=("spec.nodeName", "status.phase")
)
EVENTS = Resource(
    "",
    "v1",
    "Event",
    "events",
    status=False,
    short=("ev",),
    fields=("involvedObject.kind", "involvedObject.name", "involvedObject.uid", "reason", "type"),
)
QUOTAS = Resource("", "v1", "ResourceQuota", "resourcequotas", short=("quota",))
JOBS = Resource("batch", "v1", "Job", "jobs", generation=True)
CLASSES = Resource(DRA, "v1", "DeviceClass", "deviceclasses", namespaced=False, status=False, generation=True)
SLICES = Resource(
    DRA,
    "v1",
    "ResourceSlice",
    "resourceslices",
    namespaced=False,
    status=False,
    generation=True,
    fields=("spec.nodeName", "spec.driver", "spec.pool.name"),
)
CLAIMS = Resource(DRA, "v1", "ResourceClaim", "resourceclaims")
TEMPLATES = Resource(DRA, "v1", "ResourceClaimTemplate", "resourceclaimtemplates", status=False)
TAINT_RULES = Resource(DRA, "v1", "DeviceTaintRule", "devicetaintrules", namespaced=False, generation=True)

RESOURCES = (
    NAMESPACES,
    NODES,
    PODS,
    EVENTS,
    QUOTAS,
    JOBS,
    CLASSES,
    SLICES,
    CLAIMS,
    TEMPLATES,
    TAINT_RULES,
)
BY_PATH = {(resource.group, resource.version, resource.plural): resource for resource in RESOURCES}
