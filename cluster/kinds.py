"""The Kubernetes kinds that the portal uses, and their API paths."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of one API version. `plural` is its name in paths, in RBAC and in `Freshness.resource`."""

    group: str  # "" for core
    version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """Return the REST path of the collection, or of one object."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        middle = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{middle}/{self.plural}" + (f"/{name}" if name else "")


DRA = "resource.k8s.io"

NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
NODE = Kind("", "v1", "Node", "nodes", namespaced=False)
POD = Kind("", "v1", "Pod", "pods", namespaced=True)
EVENT = Kind("", "v1", "Event", "events", namespaced=True)
RESOURCE_QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas", namespaced=True)
DEVICE_CLASS = Kind(DRA, "v1", "DeviceClass", "deviceclasses", namespaced=False)
RESOURCE_SLICE = Kind(DRA, "v1", "ResourceSlice", "resourceslices", namespaced=False)
RESOURCE_CLAIM = Kind(DRA, "v1", "ResourceClaim", "resourceclaims", namespaced=True)
RESOURCE_CLAIM_TEMPLATE = Kind(DRA, "v1", "ResourceClaimTemplate", "resourceclaimtemplates", namespaced=True)

# Kinds of operators. They are not mirrored; the portal offers snippets if the cluster serves them.
NOTEBOOK = Kind("kubeflow.org", "v1", "Notebook", "notebooks", namespaced=True)
PYTORCH_JOB = Kind("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs", namespaced=True)
INFERENCE_SERVICE = Kind(
    "serving.kserve.io", "v1beta1", "InferenceService", "inferenceservices", namespaced=True
)
OPTIONAL = (NOTEBOOK, PYTORCH_JOB, INFERENCE_SERVICE)

# The newest that the cluster serves is used; v1 from Kubernetes 1.37 on (KEP 5055).
DEVICE_TAINT_RULE_VERSIONS = tuple(
    Kind(DRA, version, "DeviceTaintRule", "devicetaintrules", namespaced=False)
    for version in ("v1", "v1beta2", "v1alpha3")
)

# In the order of a first sync: what device rows are joined from comes before the slices.
MIRRORED = (
    NAMESPACE,
    NODE,
    DEVICE_CLASS,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    POD,
)
