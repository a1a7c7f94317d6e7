"""
What is wrong with the spec of a claim, found before it is sent.

The API checks part of this, and silently takes the rest, which then waits for ever: unknown classes, more
than 32 devices, 17 tolerations, capacity keys that no device can have, negative amounts, two attributes in
one constraint, no request at all, fields that do not exist.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from dra.objects import MAX_RESULTS
from dra.validation.asks import ALTERNATIVE, EXACTLY, check_ask, check_selector
from dra.validation.names import is_fully_qualified, is_label, is_subdomain
from dra.validation.report import Findings, Problem

__all__ = ["Problem", "class_problems", "problems"]

MAX_REQUESTS, MAX_ALTERNATIVES, MAX_CONSTRAINTS, MAX_CONFIGS, MAX_NAMES = 32, 8, 32, 32, 32
MAX_PARAMETERS = 10 * 1024  # bytes of opaque parameters as JSON


def problems(spec: Mapping[str, Any], classes: Collection[str] | None = None) -> list[Problem]:
    """
    Return what the API would refuse or could never satisfy; an empty list if there is nothing.

    `classes` are names of the DeviceClasses of the cluster; without them names of classes are not looked up.
    """
    found = Findings()
    whole = found.mapping("", spec, frozenset(("devices",)))
    devices = found.mapping(
        "devices", (whole or {}).get("devices"), frozenset(("requests", "constraints", "config"))
    )
    if devices is None:
        return found.problems
    requests = found.items("devices.requests", devices.get("requests"), MAX_REQUESTS, "requests")
    if not requests:
        found.add("devices.requests", "The claim requests no device, so no pod would get one.")
    names: list[str] = []
    least = 0
    for path, request in requests:
        least += _request(found, path, request, classes, names)
    if least > MAX_RESULTS and not any(problem.path.endswith(".count") for problem in found.problems):
        found.add(
            "devices.requests", f"The requests add up to {least} devices; one claim can hold {MAX_RESULTS}."
        )
    for name, times in Counter(names).items():
        if times > 1:
            found.add("devices.requests", f"{times} requests are called {name}; names must differ.")
    for path, constraint in found.items(
        "devices.constraints", devices.get("constraints"), MAX_CONSTRAINTS, "constraints"
    ):
        _constraint(found, path, constraint, names)
    for path, config in found.items("devices.config", devices.get("config"), MAX_CONFIGS, "configurations"):
        _config(found, path, config, names)
    return found.problems


def class_problems(spec: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with the selectors of a DeviceClass."""
    found = Findings()
    for path, selector in found.items("selectors", spec.get("selectors"), 32, "selectors"):
        check_selector(found, path, selector)
    return found.problems


def _name(found: Findings, path: str, raw: Any) -> str:
    if not isinstance(raw, str) or not is_label(raw):
        found.add(path, f"“{raw or ''}” is not a name: lower-case letters, digits and hyphens, at most 63.")
        return ""
    return raw


def _request(found: Findings, path: str, raw: Any, classes: Collection[str] | None, names: list[str]) -> int:
    """Check a request, add its names to `names`, and return how many devices it takes at the least."""
    request = found.mapping(path, raw, frozenset(("name", "exactly", "firstAvailable")))
    if request is None:
        return 0
    name = _name(found, f"{path}.name", request.get("name"))
    names.extend([name] if name else [])
    if (request.get("exactly") is None) == (not request.get("firstAvailable")):
        found.add(path, "A request has either exactly or firstAvailable, one of the two.")
        return 0
    if request.get("exactly") is not None:
        check_ask(found, f"{path}.exactly", request["exactly"], classes, EXACTLY)
        return _least(request["exactly"])
    return _alternatives(found, f"{path}.firstAvailable", request["firstAvailable"], classes, (name, names))


def _alternatives(
    found: Findings, path: str, raw: Any, classes: Collection[str] | None, known: tuple[str, list[str]]
) -> int:
    parent, names = known
    counts = []
    for place, alternative in found.items(path, raw, MAX_ALTERNATIVES, "alternatives"):
        if isinstance(alternative, Mapping):
            name = _name(found, f"{place}.name", alternative.get("name"))
            names.extend([f"{parent}/{name}"] if parent and name else [])
        check_ask(found, place, alternative, classes, ALTERNATIVE | {"name"})
        counts.append(_least(alternative))
    return min(counts, default=0)


def _least(ask: Any) -> int:
    if not isinstance(ask, Mapping) or ask.get("allocationMode") == "All":
        return 0
    count = ask.get("count") or 1
    return count if isinstance(count, int) and count > 0 else 0


def _constraint(found: Findings, path: str, raw: Any, names: Collection[str]) -> None:
    constraint = found.mapping(path, raw, frozenset(("requests", "matchAttribute", "distinctAttribute")))
    if constraint is None:
        return
    _references(found, f"{path}.requests", constraint.get("requests"), names)
    given = [key for key in ("matchAttribute", "distinctAttribute") if constraint.get(key)]
    if len(given) != 1:
        found.add(path, "A constraint has either matchAttribute or distinctAttribute, one of the two.")
    for key in given:
        if not is_fully_qualified(str(constraint[key])):
            found.add(
                f"{path}.{key}",
                f"“{constraint[key]}” is no full name such as resource.kubernetes.io/pcieRoot.",
            )


def _references(found: Findings, path: str, raw: Any, names: Collection[str]) -> None:
    for place, name in found.items(path, raw, MAX_NAMES, "names"):
        if name not in names:
            found.add(place, f"There is no request {name}.")


def _config(found: Findings, path: str, raw: Any, names: Collection[str]) -> None:
    config = found.mapping(path, raw, frozenset(("requests", "opaque")))
    if config is None:
        return
    _references(found, f"{path}.requests", config.get("requests"), names)
    opaque = found.mapping(f"{path}.opaque", config.get("opaque"), frozenset(("driver", "parameters")))
    if opaque is None:
        return
    if not isinstance(opaque.get("driver"), str) or not is_subdomain(opaque["driver"], 63):
        found.add(f"{path}.opaque.driver", "The configuration needs the name of the driver that it is for.")
    parameters = opaque.get("parameters")
    if not isinstance(parameters, Mapping):
        found.add(f"{path}.opaque.parameters", "The parameters must be an object.")
    elif (size := len(json.dumps(parameters, separators=(",", ":")).encode())) > MAX_PARAMETERS:
        found.add(
            f"{path}.opaque.parameters",
            f"The parameters take {size} bytes; at most {MAX_PARAMETERS} are allowed.",
        )
