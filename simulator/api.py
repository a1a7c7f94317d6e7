"""The HTTP API of one cluster: who may do what, discovery, and every verb on every resource."""

import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from simulator import store
from simulator.cluster import SimulatedCluster
from simulator.registry import WriteOptions, Written
from simulator.resources import (
    BY_PATH,
    DRA,
    PODS,
    RESOURCES,
    VERBS,
    ApiError,
    FieldCause,
    Resource,
    bad_request,
    forbidden,
    invalid_options,
    method_not_allowed,
    no_such_path,
    unauthorized,
)

READ = ("get", "list", "watch")
WRITE = ("create", "patch", "delete")


@dataclass(frozen=True, slots=True)
class AccessRule:
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]

    def allows(self, verb: str, group: str, resource: str) -> bool:
        return (
            self.group in {"*", group}
            and ("*" in self.resources or resource in self.resources)
            and ("*" in self.verbs or verb in self.verbs)
        )


@dataclass(frozen=True, slots=True)
class Caller:
    name: str
    rules: tuple[AccessRule, ...]

    def may(self, verb: str, group: str, resource: str) -> bool:
        return any(rule.allows(verb, group, resource) for rule in self.rules)


CORE_READ = AccessRule("", ("pods", "namespaces", "nodes", "events", "resourcequotas"), READ)
DRA_KINDS = (
    "deviceclasses",
    "resourceslices",
    "resourceclaims",
    "resourceclaimtemplates",
    "devicetaintrules",
)
DRA_READ = AccessRule(DRA, DRA_KINDS, READ)

IDENTITIES: Mapping[str, Caller] = {
    "simulator-admin": Caller("admin", (AccessRule("*", ("*",), ("*",)),)),
    "simulator-portal": Caller(
        "system:serviceaccount:dragoman:dragoman",
        (
            CORE_READ,
            DRA_READ,
            AccessRule(DRA, ("resourceclaims", "resourceclaimtemplates"), WRITE),
            AccessRule("", ("resourcequotas",), WRITE),
            AccessRule("", ("pods/eviction",), ("create",)),
            AccessRule("authentication.k8s.io", ("tokenreviews",), ("create",)),
        ),
    ),
    "simulator-viewer": Caller("viewer", (CORE_READ, DRA_READ)),
}
TOKENS = {"admin": "simulator-admin", "portal": "simulator-portal", "viewer": "simulator-viewer"}


def identify(authorization: str) -> Caller:
    """Raise ApiError 401 without a known bearer token."""
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or token not in IDENTITIES:
        raise unauthorized()
    return IDENTITIES[token]


def refusal(
    identity: Caller, verb: str, resource: Resource, namespace: str, name: str, part: str
) -> ApiError:
    """Return the 403 that names the missing verb and resource."""
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    resource_name = f"{resource.plural}/{part}" if part else resource.plural
    group = resource.group
    why = f'User "{identity.name}" cannot {verb} resource "{resource_name}" in API group "{group}" {where}'
    return forbidden(resource, name, why)


GIT_VERSION = "v1.37.1+simulated"


def server_version() -> dict[str, Any]:
    return {
        "major": "1",
        "minor": "37",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }


def core_versions() -> dict[str, Any]:
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def groups() -> dict[str, Any]:
    names = sorted({resource.group for resource in RESOURCES if resource.group} | {"authorization.k8s.io"})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in names]}


def group_versions(name: str) -> dict[str, Any] | None:
    group = next((entry for entry in groups()["groups"] if entry["name"] == name), None)
    return {"kind": "APIGroup", "apiVersion": "v1"} | group if group else None


def resources(group_name: str, api_version: str) -> dict[str, Any] | None:
    """Return the kinds of one group version, or None if it is not served."""
    if (group_name, api_version) == ("authorization.k8s.io", "v1"):
        entries = [_review_kind()]
    else:
        served = [r for r in RESOURCES if (r.group, r.version) == (group_name, api_version)]
        entries = [
            entry for resource in sorted(served, key=lambda r: r.plural) for entry in _entries(resource)
        ]
    if not entries:
        return None
    together = f"{group_name}/{api_version}" if group_name else api_version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": together, "resources": entries}


def openapi_index() -> dict[str, Any]:
    """Return where each group version is described, which kubectl asks before it writes anything."""
    versions = {f"apis/{r.group}/{r.version}" if r.group else f"api/{r.version}" for r in RESOURCES}
    return {"paths": {at: {"serverRelativeURL": f"/openapi/v3/{at}"} for at in sorted(versions)}}


def openapi(group: str, api_version: str) -> dict[str, Any] | None:
    """
    Return what kubectl reads of the description of one group version: that the server itself checks fields
    (`fieldValidation`). None if it is not served.
    """
    served = [r for r in RESOURCES if (r.group, r.version) == (group, api_version)]
    parameters = [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}]
    prefix = f"/apis/{group}/{api_version}" if group else f"/api/{api_version}"
    paths = {}
    for resource in served:
        kind = {"group": group, "version": api_version, "kind": resource.kind}
        patch = {
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": kind,
            "parameters": parameters,
            "requestBody": {"content": {APPLY: {}}},
            "responses": {},
        }
        place = "/namespaces/{namespace}" if resource.namespaced else ""
        paths[f"{prefix}{place}/{resource.plural}/{{name}}"] = {"patch": patch}
    info = {"title": "Kubernetes", "version": GIT_VERSION}
    return {"openapi": "3.0.0", "info": info, "paths": paths} if paths else None


def _group(name: str) -> dict[str, Any]:
    server_version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [server_version], "preferredVersion": server_version}


def _entries(resource: Resource) -> list[dict[str, Any]]:
    entry: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(VERBS),
    }
    if resource.short:
        entry["shortNames"] = list(resource.short)
    if not resource.status:
        return [entry]
    status = {key: entry[key] for key in ("namespaced", "kind")}
    name = {"name": f"{resource.plural}/status", "singularName": ""}
    entries = [entry, name | status | {"verbs": ["get", "patch", "update"]}]
    if resource is PODS:
        eviction = {"name": f"{resource.plural}/{EVICTION}", "singularName": "", "namespaced": True}
        kind = {"group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"]}
        entries.append(eviction | kind)
    return entries


def _review_kind() -> dict[str, Any]:
    return {
        "name": "selfsubjectaccessreviews",
        "singularName": "selfsubjectaccessreview",
        "namespaced": False,
        "kind": "SelfSubjectAccessReview",
        "verbs": ["create"],
    }


APPLY = "application/apply-patch+yaml"
PATCHES = (
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
)
STRICTNESS = ("", "Ignore", "Strict", "Warn")


EVICTION, LOG = "eviction", "log"  # subresources of pods
EXPOSITION = "text/plain; version=0.0.4"
EXPORTER = re.compile(r"exporters/([^/]+)/metrics")
SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class NotServed(Exception):
    """No such group version: the real server answers with a line of text, not with a Status."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a path means. `namespace` is "" for all namespaces, `part` a subresource."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    part: str = ""


async def answer(cluster: SimulatedCluster, path: str, request: Request) -> Response:
    """Answer like an API server; every refusal is a Status object."""
    try:
        if path in {"healthz", "livez", "readyz"}:
            return PlainTextResponse("ok")
        if (exported := _exported(cluster, path, request)) is not None:
            return exported
        identity = identify(request.headers.get("authorization", ""))
        if (described := _described(path)) is not None:
            return JSONResponse(described)
        if path == "apis/authorization.k8s.io/v1/selfsubjectaccessreviews" and request.method == "POST":
            return JSONResponse(_review(identity, await _body(request)), 201)
        if path == "apis/authentication.k8s.io/v1/tokenreviews" and request.method == "POST":
            return JSONResponse(_token_review(identity), 201)
        return await _serve(cluster, _target(path), identity, request)
    except NotServed:
        return PlainTextResponse("404 page not found\n", 404)
    except ApiError as refusal:
        headers = {"Retry-After": "1"} if refusal.code == 504 else {}
        return JSONResponse(refusal.body(), refusal.code, headers)


def _exported(cluster: SimulatedCluster, path: str, request: Request) -> Response | None:
    """Return what exporters say, which ask nobody who they are; None for another path."""
    if path == "exporters":
        return JSONResponse(cluster.exporters(request.url.netloc))
    if path == "metrics":
        return PlainTextResponse(cluster.metrics(), media_type=EXPOSITION)
    if exporter := EXPORTER.fullmatch(path):
        text = cluster.metrics(exporter[1])
        return PlainTextResponse(text, 200 if text else 503, media_type=EXPOSITION)
    return None


def _described(path: str) -> dict[str, Any] | None:  # noqa: PLR0911, one per address
    match path.rstrip("/").split("/"):
        case ["version"]:
            return server_version()
        case ["api"]:
            return core_versions()
        case ["api", version]:
            return resources("", version)
        case ["apis"]:
            return groups()
        case ["apis", group]:
            return group_versions(group)
        case ["apis", group, version]:
            return resources(group, version)
        case ["openapi", "v3"]:
            return openapi_index()
        case ["openapi", "v3", "api", version]:
            return openapi("", version)
        case ["openapi", "v3", "apis", group, version]:
            return openapi(group, version)
    return None


def _target(path: str) -> Target:
    match path.split("/"):
        case ["api", version, *rest] if rest:
            group = ""
        case ["apis", group, version, *rest] if rest:
            pass
        case _:
            raise NotServed
    if not any((group, version) == (resource.group, resource.version) for resource in RESOURCES):
        raise NotServed
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in {"status", "finalize"}:
        namespace, rest = rest[1], rest[2:]
    resource = BY_PATH.get((group, version, rest[0]))
    if resource is None or len(rest) > 3 or bool(namespace) > resource.namespaced:
        raise no_such_path()
    name, part = [*rest[1:], "", ""][:2]
    parts = {"status": resource.status, EVICTION: resource is PODS, LOG: resource is PODS, "": True}
    if not parts.get(part) or (name and resource.namespaced and not namespace):
        raise no_such_path()
    return Target(resource, namespace, name, part)


async def _serve(cluster: SimulatedCluster, target: Target, identity: Caller, request: Request) -> Response:
    resource, query = target.resource, request.query_params
    watches = query.get("watch") in {"1", "true"}
    verb = _verb(request.method, target, watches=watches)
    resource_path = f"{resource.plural}/{target.part}" if target.part else resource.plural
    if not identity.may(verb, resource.group, resource_path):
        raise refusal(identity, verb, resource, target.namespace, target.name, target.part)
    if verb == "watch":
        watch = store.parsed(resource, target.namespace or None, query)
        return StreamingResponse(_guarded(store.stream(cluster.store, watch)), media_type="application/json")
    if verb == "list":
        return JSONResponse(cluster.lister.list(resource, target.namespace or None, query))
    if target.part == LOG:
        cluster.registry.get(resource, target.namespace, target.name)
        return PlainTextResponse("This pod is simulated: nothing runs in it.\n")
    if verb == "get":
        return JSONResponse(cluster.registry.get(resource, target.namespace, target.name))
    return await _write(cluster, target, verb, request)


async def _guarded(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for line in lines:
        yield line


def _verb(method: str, target: Target, *, watches: bool) -> str:
    if method in {"GET", "HEAD"} and target.part != EVICTION:
        return "get" if target.name else "watch" if watches else "list"
    verbs = {"PUT": "update", "PATCH": "patch", "DELETE": "delete"} if target.name else {"POST": "create"}
    verbs = {"POST": "create"} if target.part == EVICTION else {} if target.part == LOG else verbs
    if method not in verbs or (method == "POST" and target.resource.namespaced and not target.namespace):
        raise method_not_allowed()
    return verbs[method]


async def _write(cluster: SimulatedCluster, target: Target, verb: str, request: Request) -> Response:
    registry, where = cluster.registry, (target.resource, target.namespace)
    content_type = request.headers.get("content-type", "").partition(";")[0]
    if verb == "patch" and content_type != APPLY and content_type not in PATCHES:
        raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    body = await _body(request)
    applies = verb == "patch" and content_type == APPLY
    options = _options(request, verb, applies=applies)
    if target.part == EVICTION:
        registry.evict(target.namespace, target.name, body or {}, options)
        return JSONResponse(SUCCESS, 201)
    if verb == "delete":
        deleted = registry.delete(*where, target.name, body or {}, options)
        return JSONResponse(_deletion(target.resource, deleted))
    if verb == "create":
        written = registry.create(*where, body, options)
    elif applies:
        written = registry.apply(*where, target.name, body, options)
    elif verb == "patch":
        written = registry.patch(*where, target.name, body, options, target.part)
    else:
        written = registry.replace(*where, target.name, body, options, target.part)
    return _written(written)


def _written(written: Written) -> Response:
    quoted = [warning.replace("\\", "\\\\").replace('"', '\\"') for warning in written.warnings]
    headers = {"Warning": ", ".join(f'299 - "{warning}"' for warning in quoted)} if quoted else {}
    return JSONResponse(written.object, 201 if written.created else 200, headers)


def _deletion(resource: Resource, deleted: dict[str, Any]) -> dict[str, Any]:
    if resource.plural != "devicetaintrules":
        return deleted
    metadata = deleted["metadata"]
    details = {
        "name": metadata["name"],
        "group": resource.group,
        "kind": resource.plural,
        "uid": metadata["uid"],
    }
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _options(request: Request, verb: str, *, applies: bool) -> WriteOptions:
    query = request.query_params
    kind = {"create": "CreateOptions", "patch": "PatchOptions", "update": "UpdateOptions"}.get(
        verb, "DeleteOptions"
    )
    if query.get("dryRun", "All") != "All":
        message = f'Unsupported value: ["{query["dryRun"]}"]: supported values: "All"'
        raise invalid_options(kind, FieldCause("dryRun", "FieldValueNotSupported", message))
    strictness = query.get("fieldValidation", "")
    if strictness not in STRICTNESS:
        listed = ", ".join(f'"{known}"' for known in STRICTNESS)
        message = f'Unsupported value: "{strictness}": supported values: {listed}'
        raise invalid_options(kind, FieldCause("fieldValidation", "FieldValueNotSupported", message))
    agent = request.headers.get("user-agent", "unknown").partition("/")[0]
    return WriteOptions(
        manager=query.get("fieldManager", "" if applies else agent),
        dry_run="dryRun" in query,
        strictness=strictness or "Warn",
        force=query.get("force") in {"true", "1"},
    )


async def _body(request: Request) -> Any:
    raw = await request.body()
    if not raw:
        return None
    try:
        if "yaml" in request.headers.get("content-type", "") and not raw.lstrip().startswith(b"{"):
            return yaml.safe_load(raw)
        return json.loads(raw)
    except (ValueError, yaml.YAMLError) as problem:
        raise bad_request(f"the object provided is unrecognized: json parse error: {problem}") from problem


def _token_review(identity: Caller) -> dict[str, Any]:
    """Know no token: the pods here do not run, so nothing is projected into them."""
    if not identity.may("create", "authentication.k8s.io", "tokenreviews"):
        why = (
            f'User "{identity.name}" cannot create resource "tokenreviews" in API group '
            '"authentication.k8s.io" at the cluster scope'
        )
        raise ApiError(403, "Forbidden", f"tokenreviews.authentication.k8s.io is forbidden: {why}")
    return {
        "kind": "TokenReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {},
        "spec": {},
        "status": {"user": {}, "error": "invalid bearer token"},
    }


def _review(identity: Caller, body: Any) -> dict[str, Any]:
    spec = (body or {}).get("spec") or {}
    attributes = spec.get("resourceAttributes") or {}
    resource_path = attributes.get("resource", "") + (
        f"/{attributes['subresource']}" if attributes.get("subresource") else ""
    )
    allowed = bool(attributes) and identity.may(
        attributes.get("verb", ""), attributes.get("group", ""), resource_path
    )
    return {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": spec,
        "status": {"allowed": allowed},
    }
