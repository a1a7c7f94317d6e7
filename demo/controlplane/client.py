"""
Who may use the control plane (tokens, the roles behind them, kubeconfigs), and a REST client for what the
demo and its tests do in a cluster, apart from the portal's gateway.
"""

from __future__ import annotations

import base64
import os
import secrets
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx
import yaml

from cluster.checkup import manifest

ADMIN, PORTAL, READER, ALICE, EVE = "admin", "portal", "reader", "alice", "eve"
SCHEDULER, CONTROLLERS, KWOK = "scheduler", "controller-manager", "kwok"
OF_ACCOUNTS = ("system:serviceaccounts", "system:serviceaccounts:dragoman")


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """`user` and `groups` are what the API server takes the bearer of `token` for."""

    name: str
    user: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)


def everybody() -> dict[str, ClientIdentity]:
    people = (
        ClientIdentity(ADMIN, "admin", ("system:masters",)),
        ClientIdentity(PORTAL, "system:serviceaccount:dragoman:dragoman", OF_ACCOUNTS),
        ClientIdentity(READER, "system:serviceaccount:dragoman:dragoman-reader", OF_ACCOUNTS),
        ClientIdentity(ALICE, "alice"),  # may edit in her namespaces
        ClientIdentity(EVE, "eve"),  # may nothing
        ClientIdentity(SCHEDULER, "system:kube-scheduler"),
        ClientIdentity(CONTROLLERS, "system:kube-controller-manager", ("system:masters",)),
        ClientIdentity(KWOK, "kwok", ("system:masters",)),
    )
    return {person.name: person for person in people}


def tokens_csv(people: Iterable[ClientIdentity]) -> str:
    return "".join(f'{who.token},{who.user},{who.name},"{",".join(who.groups)}"\n' for who in people)


def kubeconfig(who: ClientIdentity, server: str, authority: str, *, name: str = "dragoman-test") -> str:
    """Return a kubeconfig with everything in it: no file, no plugin."""
    encoded = base64.b64encode(authority.encode()).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": encoded}}],
        "users": [{"name": who.name, "user": {"token": who.token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": who.name}}],
        "current-context": name,
    }
    return yaml.safe_dump(document, sort_keys=False)


def rights(namespaces: Iterable[str]) -> list[dict[str, object]]:
    """Return what gives the portal's accounts exactly the printed roles, and alice hers."""
    portal = yaml.safe_load_all(manifest(write_quotas=True, evict_pods=True, review_tokens=True))
    reader = yaml.safe_load_all(manifest(read_only=True, name="dragoman-reader"))
    return [*portal, *reader, *(may_edit(ALICE, namespace) for namespace in namespaces)]


def may_edit(user: str, namespace: str) -> dict[str, object]:
    api = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{api}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{user}-edits", "namespace": namespace},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": api, "kind": "User", "name": user}],
    }


type Json = dict[str, Any]

SCALE = float(os.environ.get("DRAGOMAN_PATIENCE", "1"))  # multiplies every wait, for a slow machine
PROGRAM_READY = 90 * SCALE  # seconds until a program of the control plane answers
CONTROLLERS_READY = 240 * SCALE  # seconds; they look for a restarted API server once a minute

PLURALS = {
    "DeviceClass": "deviceclasses",
    "Ingress": "ingresses",
    "NetworkPolicy": "networkpolicies",
}
CLUSTER_WIDE = frozenset(
    (
        "ClusterRole",
        "ClusterRoleBinding",
        "DeviceClass",
        "DeviceTaintRule",
        "Namespace",
        "Node",
        "ResourceSlice",
    )
)
VERSIONS = {
    "Job": "batch/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
    **dict.fromkeys(("Namespace", "Node", "Pod", "Event", "ResourceQuota", "ServiceAccount"), "v1"),
    **dict.fromkeys(
        ("DeviceClass", "DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"),
        "resource.k8s.io/v1",
    ),
}


class Client:
    """Speaks as one identity. Methods raise `httpx.HTTPStatusError`, whose text holds the server's answer."""

    def __init__(self, server: str, token: str, authority: str | None = None) -> None:
        trust: ssl.SSLContext | bool = ssl.create_default_context(cadata=authority) if authority else True
        bearer = {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=server, headers=bearer, verify=trust, timeout=30, trust_env=False)

    def close(self) -> None:
        self._http.close()

    def raw(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self._http.request(method, path, **options)

    def get(self, kind: str, name: str, namespace: str = "") -> Json | None:
        answer = self.raw("GET", object_path(kind, namespace, name))
        return None if answer.status_code == 404 else _json(answer)

    def list(self, kind: str, namespace: str = "", **parameters: str) -> list[Json]:
        items: list[Json] = _json(self.raw("GET", object_path(kind, namespace), params=parameters))["items"]
        return items

    def create(self, manifest: Json) -> Json:
        metadata = manifest["metadata"]
        path = object_path(
            manifest["kind"], metadata.get("namespace", ""), version=manifest.get("apiVersion")
        )
        return _json(self.raw("POST", path, json=manifest, params={"fieldValidation": "Strict"}))

    def apply(self, manifest: Json) -> Json:
        metadata = manifest["metadata"]
        namespace = metadata.get("namespace", "")
        path = object_path(manifest["kind"], namespace, metadata["name"], version=manifest.get("apiVersion"))
        return _json(
            self.raw(
                "PATCH",
                path,
                json=manifest,
                params={"fieldManager": "harness", "force": "true", "fieldValidation": "Strict"},
                headers={"Content-Type": "application/apply-patch+yaml"},
            )
        )

    def patch(self, kind: str, name: str, change: Json, namespace: str = "", subresource: str = "") -> Json:
        """Apply a JSON merge patch."""
        path = object_path(kind, namespace, name) + (f"/{subresource}" if subresource else "")
        merge = {"Content-Type": "application/merge-patch+json"}
        return _json(self.raw("PATCH", path, json=change, headers=merge))

    def delete(self, kind: str, name: str, namespace: str = "") -> bool:
        """Delete without a period of grace; False if it was not there."""
        now = {"gracePeriodSeconds": "0", "propagationPolicy": "Background"}
        answer = self.raw("DELETE", object_path(kind, namespace, name), params=now)
        if answer.status_code != 404:
            _json(answer)
        return answer.status_code != 404


def object_path(kind: str, namespace: str = "", name: str = "", *, version: str | None = None) -> str:
    version = version or VERSIONS[kind]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    inside = f"/namespaces/{namespace}" if namespace and kind not in CLUSTER_WIDE else ""
    plural = PLURALS.get(kind, kind.lower() + "s")
    return f"{root}{inside}/{plural}" + (f"/{name}" if name else "")


def eventually[T](probe: Callable[[], T], *, seconds: float = CONTROLLERS_READY, subject: str = "it") -> T:
    """
    Call `ask` until it returns something true, and return that. Raises TimeoutError with the last answer.
    """
    ends = time.monotonic() + seconds
    while True:
        result = probe()
        if result:
            return result
        if time.monotonic() > ends:
            raise TimeoutError(f"Waited {seconds:.0f} s for {subject}; the last answer was {result!r}.")
        time.sleep(0.05)


def _json(response: httpx.Response) -> Json:
    if response.is_error:
        message = (
            f"{response.request.method} {response.request.url.path}: {response.status_code} {response.text}"
        )
        raise httpx.HTTPStatusError(message, request=response.request, response=response)
    body: Json = response.json()
    return body
