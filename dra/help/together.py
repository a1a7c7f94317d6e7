"""
One claim that takes what several specs ask for, all of it or nothing.

Limits are those of resource.k8s.io/v1: a claim has at most 32 requests, 32 constraints, 32 configurations
and 32 devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from dra import quota
from dra.help.fallback import CannotCombineError, alternative_name
from dra.objects import MAX_RESULTS, Json, Manifest, requests

MOST = {"requests": 32, "constraints": 32, "config": 32}  # `DeviceRequestsMaxSize` and its siblings
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
    for kind, most in MOST.items():
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
