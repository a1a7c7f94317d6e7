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

MOST_TOGETHER = {"requests": 32, "constraints": 32, "config": 32}  # `DeviceRequestsMaxSize` and its siblings
WORDS = {"requests": "requests", "constraints": "constraints", "config": "configurations"}
LONGEST = 63  # characters of a DNS label


def together(parts: Sequence[tuple[str, Json]]) -> Manifest:
    """
    Return one spec with the requests of all `parts`, each a (name, spec).

    The only request of a part is called as the part is, several of them after the part and themselves
    (`request_names`); constraints and configuration go with the requests of their part alone. Raise
    CannotCombineError with a sentence where a limit of the API is passed.
    """
    made: dict[str, list[Any]] = {"requests": [], "constraints": [], "config": []}
    seen: set[str] = set()
    for name, spec in parts:
        names = request_names(name, spec)
        if clash := sorted(seen.intersection(names.values())):
            raise CannotCombineError(f"{name} is named twice: two requests would be called {clash[0]}.")
        seen |= set(names.values())
        made["requests"] += [
            {**deepcopy(dict(request)), "name": names[str(request.get("name"))]} for request in requests(spec)
        ]
        for kind in ("constraints", "config"):
            for one in (spec.get("devices") or {}).get(kind) or ():
                about = [_renamed(each, names) for each in one.get("requests") or names]
                made[kind].append({**deepcopy(dict(one)), "requests": about})
    for kind, most in MOST_TOGETHER.items():
        if len(made[kind]) > most:
            raise CannotCombineError(
                f"Together they make {len(made[kind])} {WORDS[kind]}; a claim can have {most}."
            )
    spec = {"devices": {kind: rows for kind, rows in made.items() if rows}}
    if (devices := quota.devices(spec)) > MAX_RESULTS:
        raise CannotCombineError(f"Together they take {devices} devices; a claim can hold {MAX_RESULTS}.")
    return spec


def request_names(name: str, spec: Json) -> dict[str, str]:
    """Return what each request of a part is called in the whole, by its own name, in order."""
    own = [str(request.get("name")) for request in requests(spec)]
    label = alternative_name(name)
    if len(own) == 1:
        return {own[0]: label}
    return {each: _behind(label, each) for each in own}


def _behind(label: str, own: str) -> str:
    """Return "label-own", the label cut so that the whole stays a DNS label."""
    prefix = label[: max(LONGEST - len(own) - 1, 0)].rstrip("-")
    return f"{prefix}-{own}" if prefix else own


def _renamed(reference: str, names: dict[str, str]) -> str:
    """Rename "gpu" or, of an alternative, "gpu/h100"."""
    request, slash, alternative = reference.partition("/")
    return f"{names.get(request, request)}{slash}{alternative}"


MOST_ALTERNATIVES = 8  # `FirstAvailableDeviceRequestMaxSize`
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
    if len(options) > MOST_ALTERNATIVES:
        raise CannotCombineError(
            f"There are {len(options)} alternatives; a request can have {MOST_ALTERNATIVES}."
        )
    for name, spec in options:
        _check(name, spec)
    request = str(requests(options[0][1])[0].get("name") or "gpu")
    made: Manifest = {"requests": [{"name": request, "firstAvailable": []}]}
    for name, spec in options:
        alternative = alternative_name(name)
        if any(one["name"] == alternative for one in made["requests"][0]["firstAvailable"]):
            raise CannotCombineError(f"{name} is named twice among the alternatives.")
        exactly = deepcopy(dict(requests(spec)[0]["exactly"]))
        exactly.pop("adminAccess", None)
        made["requests"][0]["firstAvailable"].append({"name": alternative, **exactly})
        for part in ("constraints", "config"):
            for one in (spec.get("devices") or {}).get(part) or ():
                made.setdefault(part, []).append(
                    {**deepcopy(dict(one)), "requests": [f"{request}/{alternative}"]}
                )
    return {"devices": made}


def alternative_name(name: str) -> str:
    """Return a name as the DNS label that an alternative has to be called by."""
    return NOT_A_NAME.sub("-", name.lower())[:63].strip("-")


def only(spec: Json, chosen: Sequence[str]) -> Manifest:
    """
    Return the spec with those alternatives alone that `chosen` names, as results do ("gpu/h100").

    A request none of whose alternatives is chosen keeps them all.
    """
    kept: list[Json] = []
    for request in requests(spec):
        options = request.get("firstAvailable") or []
        taken = [one for one in options if f"{request.get('name')}/{one.get('name')}" in chosen]
        kept.append({**request, "firstAvailable": taken} if taken else request)
    return {**spec, "devices": {**(spec.get("devices") or {}), "requests": kept}}


def _check(name: str, spec: Json) -> None:
    asked = requests(spec)
    if len(asked) != 1:
        raise CannotCombineError(
            f"{name} makes {len(asked)} requests; only a profile with one can be an alternative."
        )
    exactly = asked[0].get("exactly")
    if exactly is None:
        raise CannotCombineError(f"{name} has alternatives of its own, which cannot stand among others.")
    if exactly.get("adminAccess"):
        raise CannotCombineError(f"{name} has admin access, which alternatives cannot have.")
