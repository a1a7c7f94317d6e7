"""
Validation of claim specs and of DeviceClass selectors, before they are sent.

The API server checks a part of this and accepts the rest, with which a claim stays pending forever: unknown
classes, more than 32 devices, 17 tolerations, capacity keys that no device can have, negative amounts, two
attributes in one constraint, no request, unknown fields. Rules for names: apimachinery `pkg/util/validation`,
resource/v1 `types.go`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dra.cel import CompileError, NotPreviewable, compile_selector
from dra.cel.idioms import compared, comparisons, methods, replaced
from dra.objects import MAX_RESULTS
from dra.quantity import Quantity, QuantityError


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """`path` is written as in messages of the API ("devices.requests[0].name"); `message` is a sentence."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class Findings:
    """Collects problems; checks types of values."""

    def __init__(self) -> None:
        self.problems: list[SpecProblem] = []

    def add(self, path: str, message: str) -> None:
        self.problems.append(SpecProblem(path, message))

    def mapping(self, path: str, value: Any, fields: frozenset[str]) -> Mapping[str, Any] | None:
        """Return `value` if it is an object, else None; report unknown fields, which the API would drop."""
        if not isinstance(value, Mapping):
            self.add(path, "This must be an object.")
            return None
        for key in value.keys() - fields:
            self.add(f"{path}.{key}" if path else str(key), f"The API has no field {key} here.")
        return value

    def items(self, path: str, value: Any, max_items: int, noun: str) -> list[tuple[str, Any]]:
        """Return (path, item) pairs of a list, [] for null; report other types and too many items."""
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            self.add(path, "This must be a list.")
            return []
        if len(value) > max_items:
            self.add(path, f"There are {len(value)} {noun}; the limit is {max_items}.")
        return [(f"{path}[{index}]", item) for index, item in enumerate(value)]


LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}", re.ASCII)
LABEL_KEY = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)


def is_label(text: str) -> bool:
    """Whether the text is a DNS label, as names of requests are."""
    return LABEL.fullmatch(text) is not None


def is_subdomain(text: str, max_length: int = 253) -> bool:
    """Whether the text is a DNS subdomain, as names of classes (253) and drivers (63) are."""
    return len(text) <= max_length and SUBDOMAIN.fullmatch(text) is not None


def is_qualified(text: str) -> bool:
    """Whether the text is a QualifiedName: an identifier without hyphens, with an optional domain."""
    domain, slash, name = text.rpartition("/")
    return IDENTIFIER.fullmatch(name) is not None and (not slash or is_subdomain(domain, 63))


def is_fully_qualified(text: str) -> bool:
    """Whether the text is a QualifiedName with a domain, as constraints need."""
    return "/" in text and is_qualified(text)


def is_label_key(text: str) -> bool:
    """Whether the text is a key of a label or taint, with an optional domain."""
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


def check_device_request(
    findings: Findings, path: str, raw: Any, classes: Collection[str] | None, fields: frozenset[str]
) -> None:
    """Check one `exactly` or alternative; `classes` are those of the cluster, if known."""
    device_request = findings.mapping(path, raw, fields)
    if device_request is None:
        return
    _class(findings, f"{path}.deviceClassName", device_request.get("deviceClassName"), classes)
    _count(findings, path, device_request)
    for item_path, selector in findings.items(
        f"{path}.selectors", device_request.get("selectors"), MAX_SELECTORS, "selectors"
    ):
        check_selector(findings, item_path, selector)
    for item_path, toleration in findings.items(
        f"{path}.tolerations", device_request.get("tolerations"), MAX_TOLERATIONS, "tolerations"
    ):
        _toleration(findings, item_path, toleration)
    _capacity(findings, f"{path}.capacity", device_request.get("capacity"))
    if not isinstance(device_request.get("adminAccess", False), bool | None):
        findings.add(f"{path}.adminAccess", "This must be true or false.")


def check_selector(findings: Findings, path: str, raw: Any) -> None:
    """
    Check that a selector compiles with all features of the newest Kubernetes.

    A spec is for multiple clusters: `dra.match` and `dra.lint` report features that one of them lacks. A
    selector that only a cluster can evaluate passes.
    """
    selector = findings.mapping(path, raw, frozenset(("cel",)))
    cel = findings.mapping(f"{path}.cel", (selector or {}).get("cel"), frozenset(("expression",)))
    if cel is None:
        return
    expression = cel.get("expression")
    if not isinstance(expression, str) or not expression.strip():
        findings.add(f"{path}.cel.expression", "A selector needs an expression.")
        return
    try:
        compile_selector(expression)
    except CompileError as error:
        suggestion = suggested_selector(expression)
        advice = f" Try: {suggestion}" if suggestion else ""
        findings.add(
            f"{path}.cel.expression", f"The API server rejects this selector: {error.message}{advice}"
        )
    except NotPreviewable:
        return


# device.attributes["gpu.nvidia.com/model"]: the domain is one key, and the name another.
QUALIFIED_KEY = re.compile(
    r"device\.(attributes|capacity)\[([\"'])([a-z0-9.-]+)/([A-Za-z_][A-Za-z0-9_]*)\2\]", re.ASCII
)
# Names in articles and in labels of GPU feature discovery → what NVIDIA's driver publishes, and its type.
NVIDIA = 'device.attributes["gpu.nvidia.com"]'
MEANT = {
    r"(?:cuda\.)?compute\.major": (f"{NVIDIA}.cudaComputeCapability.major()", "int"),
    r"compute(?:Capability|_capability)": (f"{NVIDIA}.cudaComputeCapability", "version"),
    r"memory|vram": ('device.capacity["gpu.nvidia.com"].memory', "quantity"),
    r"product|productName|model": (f"{NVIDIA}.productName", "string"),
}
READ_AND_VALUE = (
    r"""(?:device\.(?:attributes|capacity)\[["'](?:[\w.-]*nvidia\.com/)?(?:gpu\.)?(?:{name})["']\]"""
    r"""|(?<![\w."'\]])(?:device\.)?(?:{name})(?![\w(]))"""
    r"""(?:\s*(>=|<=|==|>|<)\s*(\d+(?:\.\d+)*|"[^"]*"|'[^']*'))?"""
)
# Attributes that are versions in every driver that has them.
VERSIONS = frozenset(("cudaComputeCapability", "driverVersion", "cudaDriverVersion"))


def suggested_selector(expression: str) -> str:
    """
    Return what a selector that does not compile, or compares different types, probably means, "" if unknown.

    Quantities and versions have no `>=`, but `compareTo`; a domain and a name are two keys; and common names
    are not those that the driver publishes.
    """
    meant = expression
    for name, target in MEANT.items():
        pattern = READ_AND_VALUE.format(name=name)
        meant = re.sub(pattern, lambda found, target=target: _meant(found, *target), meant)  # type: ignore[misc]
    for text in (meant, expression):
        qualified = QUALIFIED_KEY.sub(r'device.\1["\3"].\4', text)
        for candidate in (qualified, methods(qualified)):
            typed = with_types(candidate)
            try:
                compile_selector(typed)
            except (CompileError, NotPreviewable):
                continue
            return "" if typed == expression else typed
    return ""


def _meant(found: re.Match[str], read: str, kind: str) -> str:
    value = (found[2] or "").strip("\"'")
    return compared(read, found[1], _amount(value) if kind == "quantity" else value, kind) if value else read


def _amount(value: str) -> str:
    """Return an amount of memory: labels count MiB, people GiB."""
    return value if not value.isdecimal() else value + ("Mi" if len(value) > len("1024") else "Gi")


def with_types(expression: str) -> str:
    """Return a selector that compares versions and quantities as such, where it has plain numbers or text."""
    changes = {}
    for literal in comparisons(expression):
        if literal.ref and literal.operator and literal.kind in ("int", "string"):
            part, _domain, name = literal.ref
            value = _amount(literal.expected) if name == "memory" else literal.expected
            if part == "capacity" or name in VERSIONS:
                kind = "quantity" if part == "capacity" else "version"
                changes[literal.span] = compared(literal.left, literal.sign, value, kind)
    return replaced(expression, changes)


def _class(findings: Findings, path: str, name: Any, classes: Collection[str] | None) -> None:
    if not name:
        findings.add(path, "A request needs a device class.")
    elif not isinstance(name, str) or not is_subdomain(name):
        findings.add(path, f"“{name}” is not a valid name of a device class.")
    elif classes is not None and name not in classes:
        findings.add(path, f"The cluster has no device class {name}.")


def _count(findings: Findings, path: str, device_request: Mapping[str, Any]) -> None:
    mode, count = device_request.get("allocationMode"), device_request.get("count")
    if mode not in (None, "", "ExactCount", "All"):
        findings.add(f"{path}.allocationMode", f"“{mode}” is not an allocation mode; use ExactCount or All.")
    if count is None:
        return
    if isinstance(count, bool) or not isinstance(count, int):
        findings.add(f"{path}.count", "The count must be a whole number.")
    elif mode == "All" and count:
        findings.add(f"{path}.count", "Mode All allocates every matching device and takes no count.")
    elif count < 0:
        findings.add(f"{path}.count", f"The count is {count}; it must be at least 1.")
    elif count > MAX_RESULTS:
        findings.add(f"{path}.count", f"The count is {count}; the limit per claim is {MAX_RESULTS} devices.")


def _toleration(findings: Findings, path: str, raw: Any) -> None:
    toleration = findings.mapping(path, raw, TOLERATION)
    if toleration is None:
        return
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    value, effect = toleration.get("value") or "", toleration.get("effect") or ""
    seconds = toleration.get("tolerationSeconds")
    if key and not is_label_key(str(key)):
        findings.add(f"{path}.key", f"“{key}” is not a valid taint key.")
    if operator not in ("Equal", "Exists"):
        findings.add(f"{path}.operator", f"“{operator}” is not an operator; use Equal or Exists.")
    elif operator == "Equal" and not key:
        findings.add(f"{path}.operator", "A toleration without a key needs operator Exists.")
    elif operator == "Exists" and value:
        findings.add(f"{path}.value", "Operator Exists takes no value.")
    if not is_label_value(str(value)):
        findings.add(f"{path}.value", f"“{value}” is not a valid taint value.")
    if effect not in ("", "None", "NoSchedule", "NoExecute"):
        findings.add(
            f"{path}.effect",
            f"“{effect}” is not a taint effect; use NoSchedule or NoExecute, or omit it for both.",
        )
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int)):
        findings.add(f"{path}.tolerationSeconds", "tolerationSeconds must be a whole number.")


def _capacity(findings: Findings, path: str, raw: Any) -> None:
    if raw is None:
        return
    capacity = findings.mapping(path, raw, frozenset(("requests",)))
    amounts = None if capacity is None else capacity.get("requests")
    if amounts is None:
        return
    if not isinstance(amounts, Mapping):
        findings.add(f"{path}.requests", "This must be an object.")
        return
    if len(amounts) > MAX_CAPACITIES:
        findings.add(
            f"{path}.requests", f"There are {len(amounts)} capacities; the limit is {MAX_CAPACITIES}."
        )
    for name, amount in amounts.items():
        amount_path = f"{path}.requests[{name}]"
        if not is_qualified(str(name)):
            findings.add(
                amount_path,
                f"“{name}” is not a valid capacity name: letters, digits and _, at most 32 characters.",
            )
        try:
            if Quantity.parse(amount).nano < 0:
                findings.add(amount_path, f"The amount is {amount}; it must not be negative.")
        except QuantityError as error:
            findings.add(amount_path, str(error))


__all__ = ["SpecProblem", "class_problems", "problems"]

MAX_REQUESTS, MAX_ALTERNATIVES, MAX_CONSTRAINTS, MAX_CONFIGS, MAX_NAMES = 32, 8, 32, 32, 32
MAX_PARAMETERS = 10 * 1024  # bytes of opaque parameters in JSON


def problems(spec: Mapping[str, Any], classes: Collection[str] | None = None) -> list[SpecProblem]:
    """
    Return what the API server rejects and what no cluster can satisfy.

    `classes` are the names of the cluster's DeviceClasses; None skips that check.
    """
    findings = Findings()
    root = findings.mapping("", spec, frozenset(("devices",)))
    devices = findings.mapping(
        "devices", (root or {}).get("devices"), frozenset(("requests", "constraints", "config"))
    )
    if devices is None:
        return findings.problems
    requests = findings.items("devices.requests", devices.get("requests"), MAX_REQUESTS, "requests")
    if not requests:
        findings.add("devices.requests", "The claim requests no devices.")
    names: list[str] = []
    min_devices = 0
    for path, request in requests:
        min_devices += _request(findings, path, request, classes, names)
    if min_devices > MAX_RESULTS and not any(
        problem.path.endswith(".count") for problem in findings.problems
    ):
        findings.add(
            "devices.requests",
            f"The requests have {min_devices} devices in total; the limit per claim is {MAX_RESULTS}.",
        )
    for name, times in Counter(names).items():
        if times > 1:
            findings.add("devices.requests", f"{times} requests are named {name}; names must be unique.")
    for path, constraint in findings.items(
        "devices.constraints", devices.get("constraints"), MAX_CONSTRAINTS, "constraints"
    ):
        _constraint(findings, path, constraint, names)
    for path, config in findings.items(
        "devices.config", devices.get("config"), MAX_CONFIGS, "configurations"
    ):
        _config(findings, path, config, names)
    return findings.problems


def class_problems(spec: Mapping[str, Any]) -> list[SpecProblem]:
    """Return the problems of a DeviceClass's selectors."""
    findings = Findings()
    for path, selector in findings.items("selectors", spec.get("selectors"), 32, "selectors"):
        check_selector(findings, path, selector)
    return findings.problems


def _name(findings: Findings, path: str, raw: Any) -> str:
    if not isinstance(raw, str) or not is_label(raw):
        findings.add(
            path,
            f"“{raw or ''}” is not a valid name: use lower-case letters, digits and hyphens, up to 63.",
        )
        return ""
    return raw


def _request(
    findings: Findings, path: str, raw: Any, classes: Collection[str] | None, names: list[str]
) -> int:
    """Check a request, add its names to `names`, and return its minimum number of devices."""
    request = findings.mapping(path, raw, frozenset(("name", "exactly", "firstAvailable")))
    if request is None:
        return 0
    name = _name(findings, f"{path}.name", request.get("name"))
    names.extend([name] if name else [])
    if (request.get("exactly") is None) == (not request.get("firstAvailable")):
        findings.add(path, "A request needs either exactly or firstAvailable.")
        return 0
    if request.get("exactly") is not None:
        check_device_request(findings, f"{path}.exactly", request["exactly"], classes, EXACTLY)
        return _min_count(request["exactly"])
    return _alternatives(
        findings, f"{path}.firstAvailable", request["firstAvailable"], classes, (name, names)
    )


def _alternatives(
    findings: Findings,
    path: str,
    raw: Any,
    classes: Collection[str] | None,
    parent_and_names: tuple[str, list[str]],
) -> int:
    parent, names = parent_and_names
    counts = []
    for alternative_path, alternative in findings.items(path, raw, MAX_ALTERNATIVES, "alternatives"):
        if isinstance(alternative, Mapping):
            name = _name(findings, f"{alternative_path}.name", alternative.get("name"))
            names.extend([f"{parent}/{name}"] if parent and name else [])
        check_device_request(findings, alternative_path, alternative, classes, ALTERNATIVE | {"name"})
        counts.append(_min_count(alternative))
    return min(counts, default=0)


def _min_count(device_request: Any) -> int:
    if not isinstance(device_request, Mapping) or device_request.get("allocationMode") == "All":
        return 0
    count = device_request.get("count") or 1
    return count if isinstance(count, int) and count > 0 else 0


def _constraint(findings: Findings, path: str, raw: Any, names: Collection[str]) -> None:
    constraint = findings.mapping(path, raw, frozenset(("requests", "matchAttribute", "distinctAttribute")))
    if constraint is None:
        return
    _references(findings, f"{path}.requests", constraint.get("requests"), names)
    attributes = [key for key in ("matchAttribute", "distinctAttribute") if constraint.get(key)]
    if len(attributes) != 1:
        findings.add(path, "A constraint needs either matchAttribute or distinctAttribute.")
    for key in attributes:
        if not is_fully_qualified(str(constraint[key])):
            findings.add(
                f"{path}.{key}",
                f"“{constraint[key]}” is not a fully qualified name such as resource.kubernetes.io/pcieRoot."
                + (" After the slash are only letters, digits and _." if "/" in str(constraint[key]) else ""),
            )


def _references(findings: Findings, path: str, raw: Any, names: Collection[str]) -> None:
    for reference_path, name in findings.items(path, raw, MAX_NAMES, "names"):
        if name not in names:
            findings.add(reference_path, f"Request {name} does not exist.")


def _config(findings: Findings, path: str, raw: Any, names: Collection[str]) -> None:
    config = findings.mapping(path, raw, frozenset(("requests", "opaque")))
    if config is None:
        return
    _references(findings, f"{path}.requests", config.get("requests"), names)
    opaque = findings.mapping(f"{path}.opaque", config.get("opaque"), frozenset(("driver", "parameters")))
    if opaque is None:
        return
    if not isinstance(opaque.get("driver"), str) or not is_subdomain(opaque["driver"], 63):
        findings.add(f"{path}.opaque.driver", "The configuration needs the name of its driver.")
    parameters = opaque.get("parameters")
    if not isinstance(parameters, Mapping):
        findings.add(f"{path}.opaque.parameters", "The parameters must be an object.")
    elif (size := len(json.dumps(parameters, separators=(",", ":")).encode())) > MAX_PARAMETERS:
        findings.add(
            f"{path}.opaque.parameters",
            f"The parameters have {size} bytes; the limit is {MAX_PARAMETERS}.",
        )
