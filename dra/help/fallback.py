"""
One request that takes the first of several specs that fits: `firstAvailable` (KEP 4816, prioritized list).

Limits are those of resource.k8s.io/v1: at most 8 alternatives, and none with admin access.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy

from dra.objects import Json, Manifest, requests

MOST = 8  # `FirstAvailableDeviceRequestMaxSize`
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
    if len(options) > MOST:
        raise CannotCombineError(f"There are {len(options)} alternatives; a request can have {MOST}.")
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
