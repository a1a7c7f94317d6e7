"""
The gateway to an API server, its discovery, and one connection per cluster and process.

Objects are plain dictionaries, unknown fields included. Error responses become exceptions with a sentence
(`cluster.errors`).
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, get_args

import urllib3

from cluster.credentials import Credentials, unseal
from cluster.errors import ApiCall, budget_refusal, cluster_error, error_status
from cluster.protocol import (
    DEVICE_TAINT_RULE_VERSIONS,
    DRA,
    EVICTION,
    NAMESPACE,
    OPTIONAL,
    POD,
    RESOURCE_CLAIM,
    ClusterInvalid,
    Discovery,
    Event,
    EventType,
    EvictionRefused,
    Gateway,
    Kind,
    Manifest,
    Page,
    Permission,
    Refused,
    ReviewedToken,
    Unreachable,
)
from cluster.transport import Transport, sentence

MANAGER = "dragoman"
STRICT = {"fieldManager": MANAGER, "fieldValidation": "Strict"}
GRACE_SECONDS = 15.0  # how late a server may end a watch
REVIEWS = Kind(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
TOKEN_REVIEWS = Kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)
SERVICE_ACCOUNT = re.compile(r"system:serviceaccount:([^:]+):([^:]+)")
POD_NAME = "authentication.kubernetes.io/pod-name"


class KubeGateway:
    """Implements `cluster.protocol.Gateway` over REST. May be shared by threads."""

    def __init__(self, credentials: Credentials) -> None:
        self._transport = Transport(credentials)

    def __repr__(self) -> str:
        return f"<KubeGateway of {self._transport.address}>"

    def close(self) -> None:
        self._transport.close()

    def discover(self) -> Discovery:
        return discover(self._transport)

    def identity(self) -> str:
        namespace = self.get(NAMESPACE, "kube-system")
        if namespace is None:
            raise ClusterInvalid("The cluster has no kube-system namespace, by which it would be known.")
        return str(namespace["metadata"]["uid"])

    def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
    ) -> Iterator[Page]:
        # Without a resourceVersion: the most recent state. With "0" the limit would be ignored.
        query: dict[str, Any] = {"limit": limit}
        if label_selector:
            query["labelSelector"] = label_selector
        if field_selector:
            query["fieldSelector"] = field_selector
        call = ApiCall("list", kind, namespace=namespace or "")
        while True:
            page = self._json("GET", kind.path(namespace), call, query=query)
            metadata = page["metadata"]
            items = [_named(kind, item) for item in page.get("items") or ()]
            yield Page(items, str(metadata["resourceVersion"]), metadata.get("remainingItemCount"))
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]

    def watch(
        self, kind: Kind, *, resource_version: str, seconds: int = 50, namespace: str | None = None
    ) -> Iterator[Event]:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": seconds,
        }
        call = ApiCall("watch", kind, namespace=namespace or "")
        patience = seconds + GRACE_SECONDS
        with self._transport.streaming(kind.path(namespace), query=query, read_seconds=patience) as (
            code,
            answer,
        ):
            if code >= 400:
                raise cluster_error(code, answer.read(), call)
            for line in self._lines(answer, until=time.monotonic() + patience):
                yield _event(kind, _checked(200, line, call, key="object"), call)

    def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> Manifest | None:
        call = ApiCall("get", kind, name, namespace or "")
        code, body = self._ask("GET", kind.path(namespace, name))
        if code == 404:
            return None
        return _named(kind, _checked(code, body, call))

    def create(self, kind: Kind, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        call = _asked("create", kind, manifest)
        path = kind.path(call.namespace or None)
        query = STRICT | ({"dryRun": "All"} if dry_run else {})
        return _named(kind, self._json("POST", path, call, query=query, body=_typed(kind, manifest)))

    def apply(
        self, kind: Kind, manifest: Manifest, *, dry_run: bool = False, force: bool = False
    ) -> Manifest:
        call = _asked("patch", kind, manifest)
        path = kind.path(call.namespace or None, call.name)
        query = STRICT | {"force": str(force).lower()} | ({"dryRun": "All"} if dry_run else {})
        return _named(kind, self._json("PATCH", path, call, query=query, body=_typed(kind, manifest)))

    def delete(self, kind: Kind, name: str, *, namespace: str | None = None, uid: str | None = None) -> bool:
        options: Manifest = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        code, body = self._ask("DELETE", kind.path(namespace, name), body=options)
        if code == 404:
            return False
        _checked(code, body, ApiCall("delete", kind, name, namespace or ""))
        return True

    def evict(self, name: str, *, namespace: str, uid: str) -> bool:
        eviction: Manifest = {
            "apiVersion": EVICTION.api_version,
            "kind": EVICTION.kind,
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        code, body = self._ask("POST", f"{POD.path(namespace, name)}/eviction", body=eviction)
        if code == 404:
            return False
        if code == 429 and (refusal := budget_refusal(error_status(body))):
            raise EvictionRefused(refusal)
        _checked(code, body, ApiCall("create", EVICTION, name, namespace))
        return True

    def allowed(self, permission: Permission) -> bool:
        review = {
            "apiVersion": REVIEWS.api_version,
            "kind": REVIEWS.kind,
            "spec": {
                "resourceAttributes": {
                    "verb": permission.verb,
                    "group": permission.group,
                    "resource": permission.resource,
                    "subresource": permission.subresource,
                    "namespace": permission.namespace,
                    "name": permission.name,
                }
            },
        }
        answer = self._json("POST", REVIEWS.path(), ApiCall("create", REVIEWS), body=review)
        return bool(answer["status"]["allowed"])

    def review_token(self, token: str, *, audience: str) -> ReviewedToken | None:
        review = {
            "apiVersion": TOKEN_REVIEWS.api_version,
            "kind": TOKEN_REVIEWS.kind,
            "spec": {"token": token, "audiences": [audience]},
        }
        call = ApiCall("create", TOKEN_REVIEWS)
        status = self._json("POST", TOKEN_REVIEWS.path(), call, body=review)["status"]
        # A server that knows no audiences answers none; its tokens are for itself.
        if not status.get("authenticated") or audience not in status.get("audiences", ()):
            return None
        return reviewed_token(token, status["user"])

    def _json(self, method: str, path: str, call: ApiCall, **options: Any) -> Manifest:
        return _checked(*self._ask(method, path, **options), call)

    def _ask(self, method: str, path: str, **options: Any) -> tuple[int, bytes]:
        code, answer = self._transport.send(method, path, **options)
        return code, answer.data

    def _lines(self, answer: urllib3.BaseHTTPResponse, *, until: float) -> Iterator[bytes]:
        """Yield the lines of a stream until it ends or `until`. An incomplete last line is dropped."""
        rest = b""
        problem = ""
        try:
            for chunk in answer.stream(2**16):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from filter(None, lines)
                if time.monotonic() > until:
                    return
        except (urllib3.exceptions.HTTPError, OSError) as failure:
            problem = sentence(self._transport.address, failure)
        if problem:
            raise Unreachable(problem)


def reviewed_token(token: str, user: Mapping[str, Any]) -> ReviewedToken | None:
    """
    Return whose token it is, of the user of a TokenReview; None if that is no service account.

    A TokenReview does not say when a token ends. The cluster has just checked its signature, so the part that
    says it (RFC 7519, section 4.1.4) can be read as it stands.
    """
    account = SERVICE_ACCOUNT.fullmatch(str(user.get("username", "")))
    expires_at = _expiry(token)
    if account is None or expires_at is None:
        return None
    (pod, *_more) = (user.get("extra") or {}).get(POD_NAME) or ("",)
    return ReviewedToken(account[1], account[2], expires_at, pod)


def _expiry(token: str) -> datetime | None:
    """Return `exp` of a JSON Web Token that was verified; None without one, as in tokens of a Secret."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return datetime.fromtimestamp(claims["exp"], UTC)
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, OSError):
        return None


def _checked(code: int, body: bytes, call: ApiCall, *, key: str = "kind") -> Manifest:
    """Return the object of a response, or raise its error. Without `key` it is not from Kubernetes."""
    if code >= 400:
        raise cluster_error(code, body, call)
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if code >= 300 or not isinstance(document, dict) or key not in document:
        raise Unreachable(f"What answered {call.object} is not a Kubernetes API server.")
    return document


def _event(kind: Kind, line: Manifest, call: ApiCall) -> Event:
    """Raise `Expired`, or what else an ERROR event means."""
    event_type, manifest = line["type"], line["object"]
    if event_type == "ERROR":
        raise cluster_error(int(manifest.get("code") or 500), json.dumps(manifest).encode(), call)
    if event_type not in get_args(EventType.__value__):
        raise Unreachable(f"The cluster sent an event of the unknown type “{event_type}”.")
    return Event(event_type, _named(kind, manifest), str(manifest["metadata"]["resourceVersion"]))


def _asked(verb: str, kind: Kind, manifest: Manifest) -> ApiCall:
    metadata = manifest["metadata"]
    return ApiCall(verb, kind, metadata["name"], metadata.get("namespace", ""))


def _typed(kind: Kind, manifest: Manifest) -> Manifest:
    return {**manifest, "apiVersion": kind.api_version, "kind": kind.kind}


def _named(kind: Kind, item: Manifest) -> Manifest:
    """Add the kind, which listings omit, and drop managedFields, half of the size."""
    item.setdefault("apiVersion", kind.api_version)
    item.setdefault("kind", kind.kind)
    item["metadata"].pop("managedFields", None)
    return item


OLDEST_VERSION = (1, 34)  # the first to serve resource.k8s.io/v1
NUMBERS = re.compile(r"v?(\d+)\.(\d+)")
NOTHING: dict[str, Any] = {"resources": []}
VERSION = Kind("", "", "Version", "version", namespaced=False)


def discover(transport: Transport) -> Discovery:
    """Return what the cluster serves. Raise `ClusterInvalid` if it is too old or lacks resource.k8s.io/v1."""
    version = str(_get(transport, "/version").get("gitVersion", ""))
    numbers = NUMBERS.match(version)
    minor = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
    if minor < OLDEST_VERSION:
        raise ClusterInvalid(f"The cluster runs Kubernetes {version or '?'}; the portal needs 1.34 or newer.")
    kinds = frozenset(_served(transport))
    if f"{RESOURCE_CLAIM.api_version}/{RESOURCE_CLAIM.plural}" not in kinds:
        message = "The cluster runs Kubernetes %s and serves no resource.k8s.io/v1: the API is switched off."
        raise ClusterInvalid(message % version)
    rules = next(
        (kind for kind in DEVICE_TAINT_RULE_VERSIONS if f"{kind.api_version}/{kind.plural}" in kinds), None
    )
    optional = frozenset(_optional(transport))
    return Discovery(version, minor, rules, kinds | optional, simulated="simulated" in version)


def _served(transport: Transport) -> list[str]:
    """Return "resource.k8s.io/v1/resourceclaims" … of every served version, and what core serves."""
    group = _get(transport, f"/apis/{DRA}", missing={"versions": []})
    versions = [str(version["groupVersion"]) for version in group["versions"]]
    roots = {"v1": "/api/v1", **{version: f"/apis/{version}" for version in versions}}
    return [
        f"{version}/{resource['name']}"
        for version, root in roots.items()
        for resource in _get(transport, root)["resources"]
    ]


def _optional(transport: Transport) -> Iterator[str]:
    """
    Yield those of `OPTIONAL` that are served; one request per group version.

    What an operator brings is no condition of anything, so a refusal counts as not served.
    """
    for version in dict.fromkeys(kind.api_version for kind in OPTIONAL):
        try:
            resources = _get(transport, f"/apis/{version}", missing=NOTHING)["resources"]
        except Refused:
            continue
        versions = {kind.plural for kind in OPTIONAL if kind.api_version == version}
        yield from (f"{version}/{resource['name']}" for resource in resources if resource["name"] in versions)


def _get(transport: Transport, path: str, *, missing: dict[str, Any] | None = None) -> dict[str, Any]:
    code, answer = transport.send("GET", path)
    if code == 404 and missing:
        return missing
    if code >= 400:
        raise cluster_error(code, answer.data, ApiCall("get", VERSION))
    try:
        document = json.loads(answer.data)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ClusterInvalid(f"What answers at {transport.address} is not a Kubernetes API server.")
    return document


MAX_CONNECTIONS = 64  # open gateways per process; the least recently used is closed first

_open: OrderedDict[bytes, KubeGateway] = OrderedDict()
_lock = threading.Lock()


def connect(sealed: bytes | memoryview) -> Gateway:
    """
    Return the gateway for `Cluster.credentials`. It opens no connection yet.

    Equal bytes give the same gateway with its open connections. Raise `core.errors.Invalid` if the
    credentials cannot be decrypted.
    """
    known_by = hashlib.sha256(sealed).digest()
    with _lock:
        if known_by in _open:
            _open.move_to_end(known_by)
            return _open[known_by]
        gateway = _open[known_by] = KubeGateway(unseal(sealed))
        if len(_open) > MAX_CONNECTIONS:
            _open.popitem(last=False)[1].close()
        return gateway


def forget() -> None:
    """Drop all connections without closing: a forked child must not use its parent's sockets."""
    global _lock
    _lock = threading.Lock()
    _open.clear()


os.register_at_fork(after_in_child=forget)
