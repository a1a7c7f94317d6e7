"""
Combined specs: multiple profiles in one claim, and alternatives in order of preference (KEP 4816).

Limits of resource.k8s.io/v1: 32 requests, 32 constraints, 32 configurations and 32 devices per claim; 8
alternatives per request, none with admin access.
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

    `request_names` names the requests; constraints and configuration apply only to the requests of their
    part. Raise `CannotCombineError` with a sentence if a limit of the API is exceeded.
    """
    combined: dict[str, list[Any]] = {"requests": [], "constraints": [], "config": []}
    used_names: set[str] = set()
    for name, spec in parts:
        names = request_names(name, spec)
        if clash := sorted(used_names.intersection(names.values())):
            raise CannotCombineError(f"{name} is listed twice: two requests would be named {clash[0]}.")
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
                f"The profiles have {len(combined[kind])} {WORDS[kind]} in total; "
                f"the limit per claim is {max_count}."
            )
    spec = {"devices": {kind: rows for kind, rows in combined.items() if rows}}
    if (devices := quota.devices(spec)) > MAX_RESULTS:
        raise CannotCombineError(
            f"The profiles have {devices} devices in total; the limit per claim is {MAX_RESULTS}."
        )
    return spec


def request_names(name: str, spec: Json) -> dict[str, str]:
    """Return the name of each request of a part in the combined spec, by its own name, in order."""
    requests_by_name = [str(request.get("name")) for request in requests(spec)]
    label = alternative_name(name)
    if len(requests_by_name) == 1:
        return {requests_by_name[0]: label}
    return {request_name: _prefixed(label, request_name) for request_name in requests_by_name}


def _prefixed(label: str, request_name: str) -> str:
    """Return "label-name", with the label cut to keep a valid DNS label."""
    prefix = label[: max(MAX_LABEL_LENGTH - len(request_name) - 1, 0)].rstrip("-")
    return f"{prefix}-{request_name}" if prefix else request_name


def _renamed(reference: str, names: dict[str, str]) -> str:
    """Rename the request in "gpu" or, for an alternative, "gpu/h100"."""
    request, slash, alternative = reference.partition("/")
    return f"{names.get(request, request)}{slash}{alternative}"


MAX_ALTERNATIVES = 8  # `FirstAvailableDeviceRequestMaxSize`
NOT_A_NAME = re.compile(r"[^a-z0-9]+")


class CannotCombineError(Exception):
    """The specs cannot be combined; `message` is a sentence that names the profile."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def first_available(options: Sequence[tuple[str, Json]]) -> Manifest:
    """
    Return one spec with `options` as alternatives, each a (name, spec) with one `exactly` request.

    The request has the name of the first option's request, the alternatives those of `alternative_name`.
    Constraints and configuration of an option apply only to its alternative.
    """
    if len(options) > MAX_ALTERNATIVES:
        raise CannotCombineError(
            f"There are {len(options)} alternatives; the limit per request is {MAX_ALTERNATIVES}."
        )
    for name, spec in options:
        _check(name, spec)
    request = str(requests(options[0][1])[0].get("name") or "gpu")
    combined: Manifest = {"requests": [{"name": request, "firstAvailable": []}]}
    for name, spec in options:
        alternative = alternative_name(name)
        if any(existing["name"] == alternative for existing in combined["requests"][0]["firstAvailable"]):
            raise CannotCombineError(f"{name} is listed twice in the alternatives.")
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
    """Return a name as a DNS label, as names of alternatives must be."""
    return NOT_A_NAME.sub("-", name.lower())[:63].strip("-")


def select_alternatives(spec: Json, chosen: Sequence[str]) -> Manifest:
    """
    Return the spec with only the alternatives in `chosen`, named as in allocation results ("gpu/h100").

    A request without a chosen alternative keeps all.
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
            f"{name} has {len(spec_requests)} requests; an alternative can have only one."
        )
    exactly = spec_requests[0].get("exactly")
    if exactly is None:
        raise CannotCombineError(f"{name} has alternatives of its own; alternatives cannot be nested.")
    if exactly.get("adminAccess"):
        raise CannotCombineError(f"{name} has admin access, which alternatives cannot use.")
