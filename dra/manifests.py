"""
Manifests as plain dictionaries: what the portal applies, and how any manifest is written as YAML.

Pure: the same input gives the same manifest. What uses a claim is made by `dra.workloads`.
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
    """Return a ResourceClaim: one set of devices, shared by all pods that name it."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceClaim",
        "metadata": _metadata(name, namespace, labels),
        "spec": copy.deepcopy(dict(spec)),
    }


def resource_claim_template(
    name: str, namespace: str, spec: Json, labels: Mapping[str, str] | None = None
) -> Manifest:
    """Return a ResourceClaimTemplate: each pod gets a claim of its own, which carries the labels too."""
    inner: Manifest = {"metadata": {"labels": dict(labels)}} if labels else {}
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceClaimTemplate",
        "metadata": _metadata(name, namespace, labels),
        "spec": inner | {"spec": copy.deepcopy(dict(spec))},
    }


def with_count(spec: Json, request: str, count: int) -> Manifest:
    """
    Return a copy of the spec in which a request asks for `count` devices.

    Raise `ValueError` for a request that does not exist, takes all devices or has alternatives, whose counts
    differ.
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
    raise ValueError(f"Request {request} has no count that could be changed.")


def to_yaml(*manifests: Json) -> str:
    """
    Return YAML as a person would write it: keys in the given order, long text in blocks, documents separated.
    """
    return yaml.dump_all(
        [dict(manifest) for manifest in manifests],
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=110,
    )


class _Dumper(yaml.SafeDumper):
    """Block style with indented lists, and no anchors for what happens to be the same object."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002
        super().increase_indent(flow, False)  # noqa: FBT003 - PyYAML's own signature

    def represent_text(self, text: str) -> yaml.Node:
        # A selector holds quotes of both kinds; folded into one quoted line nobody can read or check it.
        block = "\n" in text or (len(text) > 40 and '"' in text)
        style = "|" if block and text == text.strip() else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)


def _metadata(name: str, namespace: str, labels: Mapping[str, str] | None) -> Manifest:
    metadata: Manifest = {"name": name, "namespace": namespace}
    return metadata | ({"labels": dict(labels)} if labels else {})
