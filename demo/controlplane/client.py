"""A REST client for what the control plane and its tests do in a cluster, apart from the portal's gateway."""

import os
import ssl
import time
from collections.abc import Callable
from typing import Any

import httpx

type Json = dict[str, Any]

SCALE = float(os.environ.get("DRAGOMAN_PATIENCE", "1"))  # multiplies every wait, for a slow machine
PROGRAM_READY = 90 * SCALE  # seconds until a program of the control plane answers
CONTROLLERS = 240 * SCALE  # seconds until controllers find a restarted API server; they try once a minute

PLURALS = {"DeviceClass": "deviceclasses"}
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
        answer = self.raw("GET", path_of(kind, namespace, name))
        return None if answer.status_code == 404 else _json(answer)

    def list(self, kind: str, namespace: str = "", **parameters: str) -> "list[Json]":
        items: list[Json] = _json(self.raw("GET", path_of(kind, namespace), params=parameters))["items"]
        return items

    def create(self, manifest: Json) -> Json:
        metadata = manifest["metadata"]
        path = path_of(manifest["kind"], metadata.get("namespace", ""), version=manifest.get("apiVersion"))
        return _json(self.raw("POST", path, json=manifest, params={"fieldValidation": "Strict"}))

    def apply(self, manifest: Json) -> Json:
        metadata = manifest["metadata"]
        namespace = metadata.get("namespace", "")
        path = path_of(manifest["kind"], namespace, metadata["name"], version=manifest.get("apiVersion"))
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
        path = path_of(kind, namespace, name) + (f"/{subresource}" if subresource else "")
        merge = {"Content-Type": "application/merge-patch+json"}
        return _json(self.raw("PATCH", path, json=change, headers=merge))

    def delete(self, kind: str, name: str, namespace: str = "") -> bool:
        """Delete without a period of grace; False if it was not there."""
        now = {"gracePeriodSeconds": "0", "propagationPolicy": "Background"}
        answer = self.raw("DELETE", path_of(kind, namespace, name), params=now)
        if answer.status_code != 404:
            _json(answer)
        return answer.status_code != 404


def path_of(kind: str, namespace: str = "", name: str = "", *, version: str | None = None) -> str:
    version = version or VERSIONS[kind]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    inside = f"/namespaces/{namespace}" if namespace and kind not in CLUSTER_WIDE else ""
    plural = PLURALS.get(kind, kind.lower() + "s")
    return f"{root}{inside}/{plural}" + (f"/{name}" if name else "")


def eventually[T](ask: Callable[[], T], *, seconds: float = CONTROLLERS, what: str = "it") -> T:
    """
    Call `ask` until it returns something true, and return that. Raises TimeoutError with the last answer.
    """
    ends = time.monotonic() + seconds
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > ends:
            raise TimeoutError(f"Waited {seconds:.0f} s for {what}; the last answer was {answer!r}.")
        time.sleep(0.05)


def _json(answer: httpx.Response) -> Json:
    if answer.is_error:
        told = f"{answer.request.method} {answer.request.url.path}: {answer.status_code} {answer.text}"
        raise httpx.HTTPStatusError(told, request=answer.request, response=answer)
    body: Json = answer.json()
    return body
