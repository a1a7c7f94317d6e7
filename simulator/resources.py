"""Kinds that a simulated cluster serves, with their paths, and errors of the API server: Status objects."""

from __future__ import annotations

from collections.abc import Sequence
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


@dataclass(frozen=True, slots=True)
class FieldCause:
    """One wrong field. `reason` is the API's word, `message` starts with its plain form."""

    field: str
    reason: str
    message: str

    @classmethod
    def invalid(cls, field: str, value: str, why: str) -> FieldCause:
        return cls(field, "FieldValueInvalid", f"Invalid value: {value}: {why}")

    @classmethod
    def required(cls, field: str, why: str = "") -> FieldCause:
        return cls(field, "FieldValueRequired", f"Required value: {why}" if why else "Required value")

    @classmethod
    def forbidden(cls, field: str, why: str) -> FieldCause:
        return cls(field, "FieldValueForbidden", f"Forbidden: {why}")


class ApiError(Exception):
    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def body(self) -> dict[str, Any]:
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        return status | {"code": self.code}


def _details(resource: Resource, name: str, *, kind: str | None = None) -> dict[str, Any]:
    details = {"name": name, "group": resource.group, "kind": kind or resource.plural}
    return {key: value for key, value in details.items() if value}


def not_found(resource: Resource, name: str) -> ApiError:
    message = f'{resource.qualified} "{name}" not found'
    return ApiError(404, "NotFound", message, _details(resource, name))


def no_such_path() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> ApiError:
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {})


def already_exists(resource: Resource, name: str) -> ApiError:
    message = f'{resource.qualified} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _details(resource, name))


def modified(resource: Resource, name: str) -> ApiError:
    message = (
        f'Operation cannot be fulfilled on {resource.qualified} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    return ApiError(409, "Conflict", message, _details(resource, name))


def wrong_uid(resource: Resource, name: str, expected: str, actual: str) -> ApiError:
    message = (
        f'Operation cannot be fulfilled on {resource.qualified_kind} "{name}": the UID in the precondition '
        f"({expected}) does not match the UID in record ({actual}). The object might have been deleted "
        "and then recreated"
    )
    return ApiError(409, "Conflict", message, _details(resource, name, kind=resource.kind))


def no_such_uid(resource: Resource, name: str, uid: str) -> ApiError:
    """Return what server-side apply answers that names an object which is not there."""
    message = (
        f'Operation cannot be fulfilled on {resource.qualified} "{name}": uid mismatch: the provided object '
        f"specified uid {uid}, and no existing object was found"
    )
    return ApiError(409, "Conflict", message, _details(resource, name))


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(resource: Resource, name: str, why: str) -> ApiError:
    subject = f'{resource.qualified} "{name}"' if name else resource.qualified
    return ApiError(403, "Forbidden", f"{subject} is forbidden: {why}", _details(resource, name))


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def invalid(resource: Resource, name: str, causes: Sequence[FieldCause]) -> ApiError:
    messages = [f"{cause.field}: {cause.message}" for cause in causes]
    text = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    details = _details(resource, name, kind=resource.kind)
    details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    return ApiError(422, "Invalid", f'{resource.qualified_kind} "{name}" is invalid: {text}', details)


def invalid_options(kind: str, cause: FieldCause) -> ApiError:
    details = {
        "group": "meta.k8s.io",
        "kind": kind,
        "causes": [{"reason": cause.reason, "message": cause.message, "field": cause.field}],
    }
    return ApiError(
        422, "Invalid", f'{kind}.meta.k8s.io "" is invalid: {cause.field}: {cause.message}', details
    )
