"""
The usual conditions of a profile as form fields and as CEL selectors, in both directions without loss.

Fields show the first request of a spec, or its first alternative. Writing them changes only the selectors
whose field has changed; everything else in the spec stays as it is.

Every expression uses `.?x.orValue(…)`: an expression that reads an attribute which a device lacks is an error
for the scheduler, which then allocates nothing at all (KEP-4381, "Allocation").
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from core.errors import Invalid
from core.text import counted
from core.yaml_documents import YamlLimits, read_yaml
from dra import validation
from dra.cel.idioms import comparison, quoted
from dra.objects import Json, alternatives, constraints, requests

GIB = re.compile(r"[1-9]\d{0,3}Gi", re.ASCII)
MINOR = re.compile(r"\d{1,2}\.\d{1,2}\.0", re.ASCII)  # of a version
MAX_GIB, MAX_PRODUCT, MAX_DOMAIN = 4096, 120, 253  # bounds of the form fields


@dataclass(frozen=True)
class Conditions:
    """
    The usual conditions of one device request; 0 and "" mean no condition.

    `count` is None if the request allocates every matching device. `domain` is the driver whose attributes
    are read; if "", it is derived from the device class.
    """

    device_class: str
    count: int | None = 1
    domain: str = ""
    product: str = ""  # start of the product name
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
    """Return what fields can show of a spec; None for a malformed one."""
    if validation.problems(spec):
        return None
    request = _shown_request(spec)
    count = None if request.get("allocationMode") == "All" else request.get("count") or 1
    domain, fields = _shown_fields(request)
    values = {name: value for name, (_index, value) in fields.items()}
    return Conditions(request["deviceClassName"], count, domain, **values)


def with_conditions(spec: Json, conditions: Conditions) -> dict[str, Any]:
    """
    Return `spec` with these conditions. Selectors whose condition has not changed keep their exact text.

    `spec` is one that `conditions_in` can show.
    """
    changed: dict[str, Any] = deepcopy(dict(spec))
    request = _shown_request(changed)
    domain, fields = _shown_fields(request)
    request["deviceClassName"] = conditions.device_class
    if request.get("allocationMode") != "All" and conditions.count not in (None, request.get("count") or 1):
        request["count"] = conditions.count
    other_driver = bool(domain) and conditions.driver != domain
    selectors = list(request.get("selectors") or ())
    removed = set()
    for name, expression in EXPRESSIONS.items():
        index, old_value = fields.get(name, (None, None))
        value = getattr(conditions, name)
        if value == (old_value or type(value)()) and not (value and other_driver):
            continue
        selector = {"cel": {"expression": expression(quoted(conditions.driver), value)}}
        if index is None:
            selectors.append(selector)
        elif value:
            selectors[index] = selector
        else:
            removed.add(index)
    selectors = [selector for index, selector in enumerate(selectors) if index not in removed]
    if selectors != list(request.get("selectors") or ()):
        request["selectors"] = selectors
        if not selectors:
            del request["selectors"]
    return changed


def shown_selectors(spec: Json) -> list[int]:
    """Return the indexes of the selectors that have a field."""
    return [index for index, _value in _shown_fields(_shown_request(spec))[1].values()]


def _shown_request(spec: Json) -> Any:
    """Return the request that the fields show: the first one, or its first alternative."""
    request = spec["devices"]["requests"][0]
    return request["firstAvailable"][0] if request.get("firstAvailable") else request["exactly"]


def _shown_fields(request: Json) -> tuple[str, dict[str, tuple[int, Any]]]:
    """
    Return the driver whose attributes are read, and by field the index of its selector and its value.

    Of several selectors for one field the first counts; those of another driver have no field.
    """
    domain = ""
    fields: dict[str, tuple[int, Any]] = {}
    for index, selector in enumerate(request.get("selectors") or ()):
        compared = comparison(selector["cel"]["expression"])
        if compared is None or compared.ref is None or domain not in ("", compared.ref[1]):
            continue
        if not _fits_text_field(compared.ref[1], MAX_DOMAIN):
            continue
        field = _field(compared.ref[0], compared.ref[2], compared.sign, compared.expected)
        if field is not None and field[0] not in fields:
            domain, fields[field[0]] = compared.ref[1], (index, field[1])
    return domain, fields


def _field(part: str, name: str, sign: str, value: str) -> tuple[str, Any] | None:
    """Return the field that shows a comparison, and its value; None if no field can."""
    match part, name, sign:
        case "attributes", "productName", "begins" if _fits_text_field(value, MAX_PRODUCT):
            return "product", value
        case "capacity", "memory", ">=" if GIB.fullmatch(value) and int(value[:-2]) <= MAX_GIB:
            return "memory_gib", int(value[:-2])
        case "attributes", "cudaComputeCapability", ">=" if MINOR.fullmatch(value):
            return "compute", value.removesuffix(".0")
    return None


def _fits_text_field(text: str, max_length: int) -> bool:
    """Return whether a text field returns the text unchanged: forms strip spaces and line breaks."""
    return 0 < len(text) <= max_length and text == text.strip() and text.isprintable()


SPEC_LIMITS = YamlLimits(bytes=256 * 1024, documents=1, nodes=10_000)


def parse_spec(text: str) -> dict[str, Any]:
    """
    Return the spec in `text`: of a ResourceClaim manifest its spec, otherwise all of it.

    Raises Invalid with a sentence if it is not YAML, or not a mapping.
    """
    documents = [value for _node, value in read_yaml(text, "The spec", SPEC_LIMITS)]
    if not documents or not isinstance(documents[0], dict):
        raise Invalid("Enter the spec of a ResourceClaim. It starts with the key devices.")
    spec: dict[str, Any] = documents[0]
    if spec.get("kind") == "ResourceClaim" and isinstance(spec.get("spec"), dict):
        spec = spec["spec"]  # a profile has no metadata
    if "\\u0000" in json.dumps(spec):
        raise Invalid("The spec has a character that cannot be stored.")
    return spec


def yaml_only_parts(spec: Json) -> list[str]:
    """
    Return what the fields do not show, as "2 constraints", "1 more request"; empty where they show all.

    `spec` is one that `conditions_in` can show.
    """
    first, *more = requests(spec)
    shown, *others = alternatives(first)
    counts = {
        "selector": len(shown.expressions) - len(shown_selectors(spec)),
        "toleration": len(shown.tolerations),
        "capacity request": len(shown.capacity),
        "derived attribute": len(shown.derived),
        "more alternative": len(others),
        "more request": len(more),
        "constraint": len(constraints(spec)),
        "config": len(spec["devices"].get("config") or ()),
    }
    parts = [counted(count, noun) for noun, count in counts.items() if count]
    if shown.all:
        parts.append("every matching device")
    if shown.admin:
        parts.append("admin access")
    return parts
