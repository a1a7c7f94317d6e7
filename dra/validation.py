"""
What the API forgets to check in a spec of a claim, or tells too late.

What a check finds.

The kinds of names that the API knows (apimachinery `pkg/util/validation`, resource/v1 `types.go`).

Checks of one thing that is asked for: `exactly` of a request, or an alternative of `firstAvailable`.

What is wrong with the spec of a claim, found before it is sent.

The API checks part of this, and silently takes the rest, which then waits for ever: unknown classes, more
than 32 devices, 17 tolerations, capacity keys that no device can have, negative amounts, two attributes in
one constraint, no request at all, fields that do not exist.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dra.cel import CompileError, NotPreviewable, compile_selector
from dra.objects import MAX_RESULTS
from dra.quantity import Quantity, QuantityError


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """`path` stands as in the API's own messages ("devices.requests[0].name"); `message` is a sentence."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class Findings:
    """Problems as they come up, and the checks of shape that every part of a spec needs."""

    def __init__(self) -> None:
        self.problems: list[SpecProblem] = []

    def add(self, path: str, message: str) -> None:
        self.problems.append(SpecProblem(path, message))

    def mapping(self, path: str, value: Any, known: frozenset[str]) -> Mapping[str, Any] | None:
        """Return `value` if it is an object, after a word on fields that the API would drop; else None."""
        if not isinstance(value, Mapping):
            self.add(path, "This must be an object.")
            return None
        for key in value.keys() - known:
            self.add(f"{path}.{key}" if path else str(key), f"The API has no field {key} here.")
        return value

    def items(self, path: str, value: Any, most: int, what: str) -> list[tuple[str, Any]]:
        """Return (path, item) of a list, after a word if it is none or too long; nothing for null."""
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            self.add(path, "This must be a list.")
            return []
        if len(value) > most:
            self.add(path, f"There are {len(value)} {what}; at most {most} are allowed.")
        return [(f"{path}[{place}]", item) for place, item in enumerate(value)]


LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}", re.ASCII)
LABEL_KEY = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)


def is_label(text: str) -> bool:
    """A DNS label, as names of requests are."""
    return LABEL.fullmatch(text) is not None


def is_subdomain(text: str, most: int = 253) -> bool:
    """A DNS subdomain, as names of classes (253) and drivers (63) are."""
    return len(text) <= most and SUBDOMAIN.fullmatch(text) is not None


def is_qualified(text: str) -> bool:
    """A QualifiedName: an identifier without hyphen, with or without a domain before it."""
    domain, slash, name = text.rpartition("/")
    return IDENTIFIER.fullmatch(name) is not None and (not slash or is_subdomain(domain, 63))


def is_fully_qualified(text: str) -> bool:
    """A QualifiedName with its domain, as constraints need."""
    return "/" in text and is_qualified(text)


def is_label_key(text: str) -> bool:
    """A key of a label or taint, with or without a domain before it."""
    domain, slash, name = text.rpartition("/")
    return LABEL_KEY.fullmatch(name) is not None and (not slash or is_subdomain(domain))


def is_label_value(text: str) -> bool:
    return LABEL_VALUE.fullmatch(text) is not None


MAX_SELECTORS, MAX_TOLERATIONS, MAX_CAPACITIES = 32, 16, 32
ALTERNATIVE = frozenset(
    (
        "deviceClassName",
        "selectors",
        "allocationMode",
        "count",
        "tolerations",
        "capacity",
        "derivedAttributes",
    )
)
EXACTLY = ALTERNATIVE | {"adminAccess"}
TOLERATION = frozenset(("key", "operator", "value", "effect", "tolerationSeconds"))


def check_ask(
    found: Findings, path: str, raw: Any, classes: Collection[str] | None, fields: frozenset[str]
) -> None:
    """Check one `exactly` or alternative; `classes` are those that the cluster has, if that is known."""
    ask = found.mapping(path, raw, fields)
    if ask is None:
        return
    _class(found, f"{path}.deviceClassName", ask.get("deviceClassName"), classes)
    _count(found, path, ask)
    for place, selector in found.items(f"{path}.selectors", ask.get("selectors"), MAX_SELECTORS, "selectors"):
        check_selector(found, place, selector)
    for place, one in found.items(
        f"{path}.tolerations", ask.get("tolerations"), MAX_TOLERATIONS, "tolerations"
    ):
        _toleration(found, place, one)
    _capacity(found, f"{path}.capacity", ask.get("capacity"))
    if not isinstance(ask.get("adminAccess", False), bool | None):
        found.add(f"{path}.adminAccess", "This must be true or false.")


def check_selector(found: Findings, path: str, raw: Any) -> None:
    """
    Check that a selector compiles with all that the newest Kubernetes has switched on: a spec is written for
    several clusters, and what one of them lacks is told by the match in it and by the check of the catalogue.
    One that only the cluster can run is left to the cluster.
    """
    selector = found.mapping(path, raw, frozenset(("cel",)))
    cel = found.mapping(f"{path}.cel", (selector or {}).get("cel"), frozenset(("expression",)))
    if cel is None:
        return
    expression = cel.get("expression")
    if not isinstance(expression, str) or not expression.strip():
        found.add(f"{path}.cel.expression", "A selector needs an expression.")
        return
    try:
        compile_selector(expression)
    except CompileError as error:
        found.add(f"{path}.cel.expression", f"The API server would refuse this selector: {error.message}")
    except NotPreviewable:
        return


def _class(found: Findings, path: str, name: Any, classes: Collection[str] | None) -> None:
    if not name:
        found.add(path, "A request needs a device class.")
    elif not isinstance(name, str) or not is_subdomain(name):
        found.add(path, f"“{name}” is not a name that a device class can have.")
    elif classes is not None and name not in classes:
        found.add(path, f"The cluster has no device class {name}.")


def _count(found: Findings, path: str, ask: Mapping[str, Any]) -> None:
    mode, count = ask.get("allocationMode"), ask.get("count")
    if mode not in (None, "", "ExactCount", "All"):
        found.add(f"{path}.allocationMode", f"“{mode}” is not a mode; use ExactCount or All.")
    if count is None:
        return
    if isinstance(count, bool) or not isinstance(count, int):
        found.add(f"{path}.count", "The count must be a whole number.")
    elif mode == "All" and count:
        found.add(f"{path}.count", "Mode All takes every matching device; a count is not allowed with it.")
    elif count < 0:
        found.add(f"{path}.count", f"The count is {count}; it must be at least 1.")
    elif count > MAX_RESULTS:
        found.add(f"{path}.count", f"The count is {count}; one claim can hold {MAX_RESULTS} devices.")


def _toleration(found: Findings, path: str, raw: Any) -> None:
    toleration = found.mapping(path, raw, TOLERATION)
    if toleration is None:
        return
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    value, effect = toleration.get("value") or "", toleration.get("effect") or ""
    seconds = toleration.get("tolerationSeconds")
    if key and not is_label_key(str(key)):
        found.add(f"{path}.key", f"“{key}” is not a key that a taint can have.")
    if operator not in ("Equal", "Exists"):
        found.add(f"{path}.operator", f"“{operator}” is not an operator; use Equal or Exists.")
    elif operator == "Equal" and not key:
        found.add(f"{path}.operator", "A toleration of every key needs operator Exists.")
    elif operator == "Exists" and value:
        found.add(f"{path}.value", "Operator Exists takes no value.")
    if not is_label_value(str(value)):
        found.add(f"{path}.value", f"“{value}” is not a value that a taint can have.")
    if effect not in ("", "None", "NoSchedule", "NoExecute"):
        found.add(
            f"{path}.effect",
            f"“{effect}” is not an effect; use NoSchedule or NoExecute, or leave it out for both.",
        )
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int)):
        found.add(f"{path}.tolerationSeconds", "The seconds must be a whole number.")


def _capacity(found: Findings, path: str, raw: Any) -> None:
    if raw is None:
        return
    capacity = found.mapping(path, raw, frozenset(("requests",)))
    asked = None if capacity is None else capacity.get("requests")
    if asked is None:
        return
    if not isinstance(asked, Mapping):
        found.add(f"{path}.requests", "This must be an object.")
        return
    if len(asked) > MAX_CAPACITIES:
        found.add(
            f"{path}.requests", f"There are {len(asked)} capacities; at most {MAX_CAPACITIES} are allowed."
        )
    for name, amount in asked.items():
        place = f"{path}.requests[{name}]"
        if not is_qualified(str(name)):
            found.add(place, f"“{name}” is not a name of a capacity: letters, digits and _ only, at most 32.")
        try:
            if Quantity.parse(amount).nano < 0:
                found.add(place, f"The amount is {amount}; it cannot be negative.")
        except QuantityError as error:
            found.add(place, str(error))


__all__ = ["SpecProblem", "class_problems", "problems"]

MAX_REQUESTS, MAX_ALTERNATIVES, MAX_CONSTRAINTS, MAX_CONFIGS, MAX_NAMES = 32, 8, 32, 32, 32
MAX_PARAMETERS = 10 * 1024  # bytes of opaque parameters as JSON


def problems(spec: Mapping[str, Any], classes: Collection[str] | None = None) -> list[SpecProblem]:
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


def class_problems(spec: Mapping[str, Any]) -> list[SpecProblem]:
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
