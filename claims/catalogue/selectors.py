"""
The usual conditions of a profile as fields, and the CEL that they stand for, both ways without loss.

The usual conditions of a profile as fields, and as the CEL they stand for, both ways without loss.

Fields show the first request of a spec, of its alternatives the first. Writing them changes only what was
changed; everything that fields cannot show stays as it is.

Every expression uses `.?x.orValue(…)`: an expression that touches an attribute that a device lacks is an
error for the scheduler, which then allocates nothing at all (KEP-4381, "Allocation").
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import yaml

from dra import validation
from dra.cel.idioms import comparison, quoted
from dra.objects import Json, alternatives, constraints, requests

GIB = re.compile(r"[1-9]\d{0,3}Gi", re.ASCII)
MINOR = re.compile(r"\d{1,2}\.\d{1,2}\.0", re.ASCII)  # of a version
MOST_GIB, LONGEST_PRODUCT, LONGEST_DOMAIN = 4096, 120, 253  # what the fields of the form take


@dataclass(frozen=True)
class Conditions:
    """
    One request of a claim by its usual conditions; 0 and "" are not asked for.

    `count` is None where it takes every device that matches. `domain` is the driver whose attributes are
    read; "" where none is read, and then the one that the class is named after.
    """

    device_class: str
    count: int | None = 1
    domain: str = ""
    product: str = ""  # the name begins so
    memory_gib: int = 0
    compute: str = ""  # "8.0"

    @property
    def driver(self) -> str:
        """NVIDIA publishes devices of all its classes as gpu.nvidia.com."""
        of_class = "gpu.nvidia.com" if self.device_class.endswith(".nvidia.com") else self.device_class
        return self.domain or of_class


EXPRESSIONS: dict[str, Callable[[str, Any], str]] = {
    "product": lambda domain, value: (
        f'device.attributes[{domain}].?productName.orValue("").startsWith({quoted(value)})'
    ),
    "memory_gib": lambda domain, value: (
        f'device.capacity[{domain}].?memory.orValue(quantity("0")).compareTo(quantity("{value}Gi")) >= 0'
    ),
    "compute": lambda domain, value: (
        f'device.attributes[{domain}].?cudaComputeCapability.orValue(semver("0.0.0"))'
        f'.compareTo(semver("{value}.0")) >= 0'
    ),
}


def new_spec(conditions: Conditions, request: str = "gpu") -> dict[str, Any]:
    """Return a ResourceClaim spec (resource.k8s.io/v1) with one `exactly` request of these conditions."""
    exactly: dict[str, Any] = {
        "deviceClassName": conditions.device_class,
        "allocationMode": "ExactCount",
        "count": conditions.count or 1,
    }
    spec = {"devices": {"requests": [{"name": request, "exactly": exactly}]}}
    return with_conditions(spec, conditions)


def conditions_in(spec: Json) -> Conditions | None:
    """Return what fields can show of a spec; None for one that is malformed."""
    if validation.problems(spec):
        return None
    ask = _shown(spec)
    count = None if ask.get("allocationMode") == "All" else ask.get("count") or 1
    domain, found = _conditions(ask)
    values = {name: value for name, (_place, value) in found.items()}
    return Conditions(ask["deviceClassName"], count, domain, **values)


def with_conditions(spec: Json, conditions: Conditions) -> dict[str, Any]:
    """
    Return `spec` with the conditions that are not those it has; what is the same stays letter by letter.

    `spec` is one that `conditions_in` can show.
    """
    made: dict[str, Any] = deepcopy(dict(spec))
    ask = _shown(made)
    domain, found = _conditions(ask)
    ask["deviceClassName"] = conditions.device_class
    if ask.get("allocationMode") != "All" and conditions.count not in (None, ask.get("count") or 1):
        ask["count"] = conditions.count
    moved = bool(domain) and conditions.driver != domain
    selectors = list(ask.get("selectors") or ())
    gone = set()
    for name, expression in EXPRESSIONS.items():
        place, had = found.get(name, (None, None))
        wanted = getattr(conditions, name)
        if wanted == (had or type(wanted)()) and not (wanted and moved):
            continue
        selector = {"cel": {"expression": expression(quoted(conditions.driver), wanted)}}
        if place is None:
            selectors.append(selector)
        elif wanted:
            selectors[place] = selector
        else:
            gone.add(place)
    kept = [one for place, one in enumerate(selectors) if place not in gone]
    if kept != list(ask.get("selectors") or ()):
        ask["selectors"] = kept
        if not kept:
            del ask["selectors"]
    return made


def shown_places(spec: Json) -> list[int]:
    """Return which selectors of the shown request have a field, by their places."""
    return [place for place, _value in _conditions(_shown(spec))[1].values()]


def _shown(spec: Json) -> Any:
    """Return what the fields are about: the first request, of its alternatives the first."""
    request = spec["devices"]["requests"][0]
    return request["firstAvailable"][0] if request.get("firstAvailable") else request["exactly"]


def _conditions(ask: Json) -> tuple[str, dict[str, tuple[int, Any]]]:
    """
    Return the driver whose attributes are read, and per field the place of its selector and its value.

    One selector stands for a field: the first, if several ask for the same or read another driver.
    """
    domain = ""
    found: dict[str, tuple[int, Any]] = {}
    for place, selector in enumerate(ask.get("selectors") or ()):
        asked = comparison(selector["cel"]["expression"])
        if asked is None or asked.ref is None or domain not in ("", asked.ref[1]):
            continue
        if not _typable(asked.ref[1], LONGEST_DOMAIN):
            continue
        one = _field(asked.ref[0], asked.ref[2], asked.sign, asked.wanted)
        if one is not None and one[0] not in found:
            domain, found[one[0]] = asked.ref[1], (place, one[1])
    return domain, found


def _field(part: str, name: str, sign: str, wanted: str) -> tuple[str, Any] | None:
    """Return the field that shows a comparison, and its value; None where no field can."""
    match part, name, sign:
        case "attributes", "productName", "begins" if _typable(wanted, LONGEST_PRODUCT):
            return "product", wanted
        case "capacity", "memory", ">=" if GIB.fullmatch(wanted) and int(wanted[:-2]) <= MOST_GIB:
            return "memory_gib", int(wanted[:-2])
        case "attributes", "cudaComputeCapability", ">=" if MINOR.fullmatch(wanted):
            return "compute", wanted.removesuffix(".0")
    return None


def _typable(text: str, most: int) -> bool:
    """Say whether a text field gives it back as it is: browsers and forms take spaces and breaks away."""
    return 0 < len(text) <= most and text == text.strip() and text.isprintable()


MOST_LEVELS = 50  # a spec has about ten


def parse_spec(text: str) -> dict[str, Any]:
    """
    Return the spec that `text` writes; of a whole ResourceClaim, as pasted from a manifest, its spec.

    Raises ValueError with a sentence for what is no YAML, no spec, or cannot be written as JSON.
    """
    try:
        _require_plain(text)
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"This is not YAML: {error}") from error
    if not isinstance(found, dict):
        raise ValueError("Write the spec of a ResourceClaim, which begins with devices.")
    if found.get("kind") == "ResourceClaim" and isinstance(found.get("spec"), dict):
        found = found["spec"]  # the rest of the manifest is not a profile's to say
    spec: dict[str, Any] = found
    try:
        written = json.dumps(spec, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError("It has a value that JSON does not know, such as a date.") from error
    if "\\u0000" in written:
        raise ValueError("It has a character that cannot be stored.")
    return spec


def _require_plain(text: str) -> None:
    """Raise ValueError for what would keep the reader busy: an alias stands for more than it weighs."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("Write it out: aliases are not followed.")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_LEVELS:
            raise ValueError(f"More than {MOST_LEVELS} levels are not read.")


def yaml_only_parts(spec: Json) -> list[str]:
    """
    Return what the fields do not show, as "2 constraints", "1 more request"; empty where they show all.

    `spec` is one that `conditions_in` can show.
    """
    first, *more = requests(spec)
    ask, *others = alternatives(first)
    selectors = len(ask.expressions) - len(shown_places(spec))
    found = [
        (selectors, ("%d selector" if selectors == 1 else "%d selectors")),
        (len(ask.tolerations), ("%d toleration" if len(ask.tolerations) == 1 else "%d tolerations")),
        (
            len(ask.capacity),
            ("%d amount of capacity" if len(ask.capacity) == 1 else "%d amounts of capacity"),
        ),
        (len(ask.derived), ("%d derived attribute" if len(ask.derived) == 1 else "%d derived attributes")),
        (len(others), ("%d more alternative" if len(others) == 1 else "%d more alternatives")),
        (len(more), ("%d more request" if len(more) == 1 else "%d more requests")),
        (len(constraints(spec)), ("%d constraint" if len(constraints(spec)) == 1 else "%d constraints")),
    ]
    configs = len(spec["devices"].get("config") or ())
    found.append((configs, ("%d config" if configs == 1 else "%d configs")))
    words = [text % count for count, text in found if count]
    if ask.all:
        words.append("every device that matches")
    if ask.admin:
        words.append("admin access")
    return words
