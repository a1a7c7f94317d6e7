"""
The interface of a cluster for the rest of the portal: the kinds that it uses with their API paths, the
gateway, which `cluster.kube.KubeGateway` implements, and its four errors (`cluster.errors` makes them from
responses).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from core.errors import PortalError


class ClusterError(PortalError):
    """Base of the four. They never carry credentials, headers or URLs with user data."""

    code = "cluster"
    status = 503
    title = "The cluster did not do this"


class Unreachable(ClusterError):
    """No response, or an overloaded or failing server (timeout, connection, 429, 5xx). Retry later."""

    code = "cluster-unreachable"
    title = "The cluster cannot be reached"


class Refused(ClusterError):
    """
    401 or 403. `verb` and `resource` are what the credentials lack.

    `quota` is True for an exceeded ResourceQuota; the message is then the cluster's own sentence. `fixable`
    is True where the credentials lack something that a platform admin can give them, and also while an API
    server starts, which refuses everybody until it has read its roles.
    """

    code = "cluster-refused"
    status = 502

    def __init__(
        self, message: str, *, verb: str = "", resource: str = "", quota: bool = False, fixable: bool = False
    ) -> None:
        super().__init__(message)
        self.verb = verb
        self.resource = resource
        self.quota = quota
        self.fixable = fixable


class ClusterConflict(ClusterError):
    """409: the object exists, was replaced (uid precondition), or another field manager owns a field."""

    code = "cluster-conflict"
    status = 409


class EvictionRefused(ClusterConflict):
    """429 of the Eviction API: a PodDisruptionBudget does not allow it now. The message is the cluster's."""

    code = "cluster-eviction-refused"


class ClusterInvalid(ClusterError):
    """400 or 422: `causes` are (field, reason) pairs as the API server words them."""

    code = "cluster-invalid"
    status = 422

    def __init__(self, message: str, causes: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.causes = causes


class Expired(Exception):
    """410 Gone, or a watch that cannot go on from its resource version: list again. Not an error to show."""


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
EVICTION = Kind("policy", "v1", "Eviction", "pods/eviction", namespaced=True)
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


type Manifest = dict[str, Any]  # a Kubernetes object as plain JSON values
type EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


@dataclass(frozen=True, slots=True)
class Discovery:
    """The version of a cluster, and the version of DeviceTaintRule that it serves, if any."""

    version: str  # gitVersion, "v1.37.1"
    minor: tuple[int, int]  # (1, 37)
    taint_rules: Kind | None
    kinds: frozenset[str] = field(default_factory=frozenset)  # "resource.k8s.io/v1/resourceclaims" …
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a listing. `resource_version` is that of the whole: watch from there after the last page."""

    items: list[Manifest]
    resource_version: str
    remaining: int | None


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a watch. A BOOKMARK carries nothing but a newer resource version."""

    type: EventType
    object: Manifest
    resource_version: str


@dataclass(frozen=True, slots=True)
class Permission:
    verb: str
    resource: str  # plural
    group: str = ""
    namespace: str = ""  # "" is all namespaces
    subresource: str = ""
    name: str = ""  # "" is all objects


@dataclass(frozen=True, slots=True)
class ReviewedToken:
    """
    Whose token the cluster says it is: a service account, and the pod that it was projected into, if any.

    `expires_at` is when the token itself ends.
    """

    namespace: str
    service_account: str
    expires_at: datetime
    pod: str = ""


class Gateway(Protocol):
    """
    A connection to one cluster.

    Every method may raise `cluster.protocol.Unreachable` or `Refused`; writers also `ClusterInvalid` and
    `ClusterConflict`. Objects come back without `metadata.managedFields`, and with `apiVersion` and `kind`.
    """

    def discover(self) -> Discovery:
        """Raise `ClusterInvalid` for a cluster older than 1.34, which does not serve resource.k8s.io/v1."""

    def identity(self) -> str:
        """Return the uid of the kube-system namespace."""

    def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
    ) -> Iterator[Page]:
        """
        Yield the pages of a consistent listing. Raise `Expired` when it took too long: start over.

        `field_selector` is "path=value", several joined by commas; a path that the kind cannot be selected
        by raises `ClusterInvalid`.
        """

    def watch(
        self, kind: Kind, *, resource_version: str, seconds: int = 50, namespace: str | None = None
    ) -> Iterator[Event]:
        """
        Yield events until the server ends the watch or `seconds` are over.

        Raise `Expired` on 410, at the door or in the stream. Closing the iterator closes the connection.
        """

    def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> Manifest | None:
        """Return the object, or None if there is none."""

    def create(self, kind: Kind, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Create with strict validation (unknown fields are rejected)."""

    def apply(
        self, kind: Kind, manifest: Manifest, *, dry_run: bool = False, force: bool = False
    ) -> Manifest:
        """Server-side apply strictly as field manager `dragoman`."""

    def delete(self, kind: Kind, name: str, *, namespace: str | None = None, uid: str | None = None) -> bool:
        """Delete, with `uid` only that object (else ClusterConflict). Return False if it did not exist."""

    def evict(self, name: str, *, namespace: str, uid: str) -> bool:
        """
        Evict the pod with this uid (policy/v1), with its own grace period. Return False if there is none.

        Raise `EvictionRefused` where a PodDisruptionBudget refuses, `ClusterConflict` for another uid.
        """

    def allowed(self, permission: Permission) -> bool:
        """Ask the cluster by SelfSubjectAccessReview."""

    def review_token(self, token: str, *, audience: str) -> ReviewedToken | None:
        """
        Ask the cluster by TokenReview whose service account this token is.

        Return None for a token that it does not know, that has expired, that is for another audience, or that
        is not of a service account.
        """

    def close(self) -> None:
        """Close the connections. Gateways of `cluster.kube.connect` are shared and must stay open."""
