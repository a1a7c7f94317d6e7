"""
Specs made of several: profiles taken together, and alternatives in order of preference.

One claim that takes what several specs ask for, all of it or nothing.

Limits are those of resource.k8s.io/v1: a claim has at most 32 requests, 32 constraints, 32 configurations
and 32 devices.

One request that takes the first of several specs that fits: `firstAvailable` (KEP 4816, prioritized list).

Limits are those of resource.k8s.io/v1: at most 8 alternatives, and none with admin access.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from dra import quota
from dra.objects import MAX_RESULTS, Json, Manifest, requests

MAX_ENTRIES = {"requests": 32, "constraints": 32, "config": 32}  # `DeviceRequestsMaxSize` and its siblings
WORDS = {"requests": "requests", "constraints": "constraints", "config": "configurations"}
MAX_LABEL_LENGTH = 63  # characters of a DNS label


def combine_specs(parts: Sequence[tuple[str, Json]]) -> Manifest:
    """
    Return one spec with the requests of all `parts`, each a (name, spec).

    The only request of a part is called as the part is, several of them after the part and themselves
    (`request_names`); constraints and configuration go with the requests of their part alone. Raise
    CannotCombineError with a sentence where a limit of the API is passed.
    """
    combined: dict[str, list[Any]] = {"requests": [], "constraints": [], "config": []}
    used_names: set[str] = set()
    for name, spec in parts:
        names = request_names(name, spec)
        if clash := sorted(used_names.intersection(names.values())):
            raise CannotCombineError(f"{name} is named twice: two requests would be called {clash[0]}.")
        used_names |= set(names.values())
        combined["requests"] += [
            {**deepcopy(dict(request)), "name": names[str(request.get("name"))]} for request in requests(spec)
        ]
        for kind in ("constraints", "config"):
            for entry in (spec.get("devices") or {}).get(kind) or ():
                references = [_renamed(reference, names) for reference in entry.get("requests") or names]
                combined[kind].append({**deepcopy(dict(entry)), "requests": references})
    for kind, max_count in MAX_ENTRIES.items():
        if len(combined[kind]) > max_count:
            raise CannotCombineError(
                f"Together they make {len(combined[kind])} {WORDS[kind]}; a claim can have {max_count}."
            )
    spec = {"devices": {kind: rows for kind, rows in combined.items() if rows}}
    if (devices := quota.devices(spec)) > MAX_RESULTS:
        raise CannotCombineError(f"Together they take {devices} devices; a claim can hold {MAX_RESULTS}.")
    return spec


def request_names(name: str, spec: Json) -> dict[str, str]:
    """Return what each request of a part is called in the whole, by its own name, in order."""
    requests_by_name = [str(request.get("name")) for request in requests(spec)]
    label = alternative_name(name)
    if len(requests_by_name) == 1:
        return {requests_by_name[0]: label}
    return {request_name: _behind(label, request_name) for request_name in requests_by_name}


def _behind(label: str, request_name: str) -> str:
    """Return "label-own", the label cut so that the whole stays a DNS label."""
    prefix = label[: max(MAX_LABEL_LENGTH - len(request_name) - 1, 0)].rstrip("-")
    return f"{prefix}-{request_name}" if prefix else request_name


def _renamed(reference: str, names: dict[str, str]) -> str:
    """Rename "gpu" or, of an alternative, "gpu/h100"."""
    request, slash, alternative = reference.partition("/")
    return f"{names.get(request, request)}{slash}{alternative}"


MAX_ALTERNATIVES = 8  # `FirstAvailableDeviceRequestMaxSize`
NOT_A_NAME = re.compile(r"[^a-z0-9]+")


class CannotCombineError(Exception):
    """The specs cannot become alternatives of one request; `message` is a sentence that names the one."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def first_available(options: Sequence[tuple[str, Json]]) -> Manifest:
    """
    Return one spec that prefers the first of `options`, each a (name, spec) with one `exactly` request.

    The request is called as that of the first option; its alternatives by `alternative_name`. Constraints
    and configuration of an option go with its alternative alone.
    """
    if len(options) > MAX_ALTERNATIVES:
        raise CannotCombineError(
            f"There are {len(options)} alternatives; a request can have {MAX_ALTERNATIVES}."
        )
    for name, spec in options:
        _check(name, spec)
    request = str(requests(options[0][1])[0].get("name") or "gpu")
    combined: Manifest = {"requests": [{"name": request, "firstAvailable": []}]}
    for name, spec in options:
        alternative = alternative_name(name)
        if any(existing["name"] == alternative for existing in combined["requests"][0]["firstAvailable"]):
            raise CannotCombineError(f"{name} is named twice among the alternatives.")
        exactly = deepcopy(dict(requests(spec)[0]["exactly"]))
        exactly.pop("adminAccess", None)
        combined["requests"][0]["firstAvailable"].append({"name": alternative, **exactly})
        for part in ("constraints", "config"):
            for entry in (spec.get("devices") or {}).get(part) or ():
                combined.setdefault(part, []).append(
                    {**deepcopy(dict(entry)), "requests": [f"{request}/{alternative}"]}
                )
    return {"devices": combined}


def alternative_name(name: str) -> str:
    """Return a name as the DNS label that an alternative has to be called by."""
    return NOT_A_NAME.sub("-", name.lower())[:63].strip("-")


def select_alternatives(spec: Json, chosen: Sequence[str]) -> Manifest:
    """
    Return the spec with those alternatives alone that `chosen` names, as results do ("gpu/h100").

    A request none of whose alternatives is chosen keeps them all.
    """
    kept_requests: list[Json] = []
    for request in requests(spec):
        options = request.get("firstAvailable") or []
        chosen_options = [
            option for option in options if f"{request.get('name')}/{option.get('name')}" in chosen
        ]
        kept_requests.append({**request, "firstAvailable": chosen_options} if chosen_options else request)
    return {**spec, "devices": {**(spec.get("devices") or {}), "requests": kept_requests}}


def _check(name: str, spec: Json) -> None:
    spec_requests = requests(spec)
    if len(spec_requests) != 1:
        raise CannotCombineError(
            f"{name} makes {len(spec_requests)} requests; only a profile with one can be an alternative."
        )
    exactly = spec_requests[0].get("exactly")
    if exactly is None:
        raise CannotCombineError(f"{name} has alternatives of its own, which cannot stand among others.")
    if exactly.get("adminAccess"):
        raise CannotCombineError(f"{name} has admin access, which alternatives cannot have.")
