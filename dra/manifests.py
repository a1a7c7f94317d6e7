"""
Manifests that the portal applies, as plain dictionaries, and YAML output of any manifest.

Pure functions. `dra.workloads` builds the workloads that use a claim.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import yaml

from dra.objects import Json, Manifest

API_VERSION = "resource.k8s.io/v1"


def resource_claim(
    name: str, namespace: str, spec: Json, labels: Mapping[str, str] | None = None
) -> Manifest:
    """Return a ResourceClaim: one set of devices, shared by all pods that reference it."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceClaim",
        "metadata": _metadata(name, namespace, labels),
        "spec": copy.deepcopy(dict(spec)),
    }


def resource_claim_template(
    name: str, namespace: str, spec: Json, labels: Mapping[str, str] | None = None
) -> Manifest:
    """Return a ResourceClaimTemplate: each pod gets its own claim, with the same labels."""
    inner: Manifest = {"metadata": {"labels": dict(labels)}} if labels else {}
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceClaimTemplate",
        "metadata": _metadata(name, namespace, labels),
        "spec": inner | {"spec": copy.deepcopy(dict(spec))},
    }


def with_count(spec: Json, request: str, count: int) -> Manifest:
    """
    Return a copy of the spec in which a request has `count` devices.

    Raise `ValueError` if the request does not exist, has mode All or has alternatives.
    """
    changed: Manifest = copy.deepcopy(dict(spec))
    for device_request in (changed.get("devices") or {}).get("requests") or ():
        if (
            device_request.get("name") == request
            and device_request.get("exactly")
            and device_request["exactly"].get("allocationMode") != "All"
        ):
            device_request["exactly"]["count"] = count
            return changed
    raise ValueError(f"Request {request} has no count to change.")


def to_yaml(*manifests: Json) -> str:
    """
    Return readable YAML: keys in the given order, long text in blocks, documents separated.
    """
    return yaml.dump_all(
        [dict(manifest) for manifest in manifests],
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=110,
    )


class _Dumper(yaml.SafeDumper):
    """Block style with indented lists and without anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002
        super().increase_indent(flow, False)  # noqa: FBT003 - PyYAML's own signature

    def represent_text(self, text: str) -> yaml.Node:
        # A selector contains both kinds of quotes; as one quoted line it is unreadable.
        block = "\n" in text or (len(text) > 40 and '"' in text)
        style = "|" if block and text == text.strip() else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)


def _metadata(name: str, namespace: str, labels: Mapping[str, str] | None) -> Manifest:
    metadata: Manifest = {"name": name, "namespace": namespace}
    return metadata | ({"labels": dict(labels)} if labels else {})
