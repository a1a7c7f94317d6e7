"""
An allocation case in JSON: objects of a cluster, a node and claims; and its result.

The oracle compares the engine with the allocator of Kubernetes on such cases. `docs/allocator.md` has the
format. The shapes follow the API (resource.k8s.io/v1, core/v1) as far as the engine reads it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TextIO

from dra.allocator import AllocationError, SearchGivenUp, allocate
from dra.cluster_snapshot import ClusterSnapshot
from dra.features import Features
from dra.held import allocation_results
from dra.objects import Json, Manifest
from dra.quantity import QuantityError, quantity_form

__all__ = ["AllocationCase", "CaseError", "evaluate_case", "evaluate_line", "read_case", "serve"]

MAX_STEPS = 1_000_000  # devices tried; a case can wait longer than a page


@dataclass(frozen=True, slots=True)
class AllocationCase:
    """Allocate `claims` together on `node` of `snapshot`."""

    snapshot: ClusterSnapshot
    node: Json
    claims: Sequence[Json]


def serve(lines: Iterable[bytes], out: TextIO) -> None:
    """Write one result per line, flushed, so that a caller can wait for each."""
    for line in lines:
        out.write(json.dumps(evaluate_line(line)) + "\n")
        out.flush()


def evaluate_line(line: str | bytes) -> Manifest:
    """
    Evaluate a case in a line of JSON; see `evaluate_case`.

    The result of an invalid line has an error, and the name if that is readable.
    """
    try:
        raw = json.loads(line, parse_constant=_refuse)
    except RecursionError:
        return _failed("", "The line is nested too deeply.")
    except ValueError as error:
        problem = "The line is empty." if not line.strip() else f"The line is not valid JSON: {error}."
        return _failed("", problem)
    return evaluate_case(raw)


def evaluate_case(raw: Any) -> Manifest:
    """
    Evaluate a case and return `{"name", "error", "results"}`. Raises for no case.

    `error` is a sentence if the case is invalid or the claims cannot be allocated. Otherwise `results` has a
    `status.allocation` for each unallocated claim, or is None if they do not fit. `gaveUp` is true if the
    search took too long, else absent.
    """
    name = raw.get("name") if isinstance(raw, dict) else ""
    name = name if isinstance(name, str) else ""
    try:
        case = read_case(raw)
        results = allocate(case.snapshot, case.node, case.claims, literal=True, steps=MAX_STEPS)
    except SearchGivenUp as given_up:
        return _failed(name, given_up.message) | {"gaveUp": True}
    except (CaseError, AllocationError) as error:
        return _failed(name, str(error))
    written = None if results is None else [result.as_dict() for result in results]
    return {"name": name, "error": None, "results": written}


def read_case(raw: Any) -> AllocationCase:
    """
    Validate a case and build its snapshot. Raise `CaseError` if it does not match the API.

    Claims with `status.allocation` hold their devices and are not allocated again.
    """
    try:
        CASE(raw, "")
    except RecursionError:
        raise CaseError("The case is nested too deeply.") from None
    try:
        features = Features.of_switches(raw.get("features") or {})
    except KeyError as error:
        features_of_upstream = ", ".join(Features.switches())
        raise CaseError(
            f"features has {error.args[0]}, which is none; there are {features_of_upstream}."
        ) from None
    claims: Sequence[Json] = raw.get("claims") or ()
    allocated = [claim for claim in claims if _allocated(claim)]
    waiting = [claim for claim in claims if not _allocated(claim)]
    held = [*_held(raw.get("allocated", {})), *_results(allocated, shares=features.consumable_capacity)]
    snapshot = ClusterSnapshot(
        classes=(raw.get("classes") or [])[::-1],  # of equal names the first counts
        slices=raw.get("slices") or (),
        claims=[{"status": {"allocation": {"devices": {"results": held}}}}],
        features=features,
    )
    return AllocationCase(snapshot, raw.get("node", {}), waiting)


def _allocated(claim: Json) -> bool:
    return claim.get("status", {}).get("allocation") is not None


def _results(claims: Sequence[Json], *, shares: bool) -> Iterator[Json]:
    """Yield the devices of allocated claims. Without consumable capacity a share counts as a whole device."""
    for claim in claims:
        for result in allocation_results(claim):
            yield _named(result) | ({} if shares else {"shareID": ""})


def _held(allocated: Json) -> Iterator[Json]:
    """Yield the entries of `allocated` in the form of a claim's results."""
    for device in allocated.get("devices") or ():
        yield _named(device) | {"shareID": ""}
    for shared in allocated.get("shared") or ():
        yield _named(shared) | {"shareID": "shared"}
    for name, amounts in (allocated.get("consumedCapacity") or {}).items():
        driver, _, rest = name.partition("/")
        pool, _, device = rest.rpartition("/")
        key = {"driver": driver, "pool": pool, "device": device}
        yield key | {"shareID": "shared", "consumedCapacity": amounts or {}}


def _named(result: Json) -> Manifest:
    return {**result} | {part: result.get(part) or "" for part in ("driver", "pool", "device")}


def _failed(name: str, message: str) -> Manifest:
    return {"name": name, "error": message, "results": None}


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


# Takes a value and its path, and raises `CaseError`. Null equals absent, except for an object.
type Shape = Callable[[Any, str], None]

INT64 = range(-(2**63), 2**63)
SHOWN = 60  # characters of a wrong value


class CaseError(ValueError):
    """The JSON is not a valid case; the message is a sentence."""


def text(value: Any, path: str) -> None:
    if value is not None and not isinstance(value, str):
        raise _wrong(value, path, "a text")


def flag(value: Any, path: str) -> None:
    if value is not None and not isinstance(value, bool):
        raise _wrong(value, path, "true or false")


def whole_number(value: Any, path: str) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(value, path, "a whole number")
    if value not in INT64:
        raise _wrong(value, path, "a whole number of 64 bits")


def quantity(value: Any, path: str) -> None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise _wrong(value, path, "a quantity such as 80Gi or 500m")
    try:
        quantity_form(str(value).strip())
    except QuantityError:
        raise _wrong(value, path, "a quantity such as 80Gi or 500m") from None


def anything(value: Any, path: str) -> None:
    """Accept any value."""


def list_of(shape: Shape) -> Shape:
    def check(value: Any, path: str) -> None:
        if value is not None and not isinstance(value, list):
            raise _wrong(value, path, "a list")
        for index, item in enumerate(value or ()):
            shape(item, f"{path}[{index}]")

    return check


def map_of(shape: Shape, *, key: Shape = anything) -> Shape:
    def check(value: Any, path: str) -> None:
        if value is not None and not isinstance(value, dict):
            raise _wrong(value, path, "an object")
        for name, item in (value or {}).items():
            key(name, f"The key {name} of {path}")
            shape(item, f"{path}.{name}" if path else name)

    return check


def structure(**fields: Shape) -> Shape:
    """Return the shape of an object with these optional fields; others are ignored."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(value, path, "an object")
        for name, item in value.items():
            if (shape := fields.get(name)) is not None:
                shape(item, f"{path}.{name}" if path else name)

    return check


def optional(shape: Shape) -> Shape:
    """Return the shape of an object that may be null."""

    def check(value: Any, path: str) -> None:
        if value is not None:
            shape(value, path)

    return check


def extended(base: Mapping[str, Shape], **fields: Shape) -> Shape:
    return structure(**base, **fields)


def _wrong(value: Any, path: str, expected: str) -> CaseError:
    excerpt = json.dumps(value, ensure_ascii=False)
    if len(excerpt) > SHOWN:
        excerpt = excerpt[:SHOWN] + "…"
    return CaseError(f"{path or 'The line'} is {excerpt}: {expected} is expected.")


METADATA = structure(name=text, namespace=text, labels=map_of(text))
SELECTORS = list_of(structure(cel=optional(structure(expression=text))))
CONFIG = {"opaque": optional(structure(driver=text, parameters=anything))}
CLASS = structure(metadata=METADATA, spec=structure(selectors=SELECTORS, config=list_of(structure(**CONFIG))))

REQUIREMENTS = list_of(structure(key=text, operator=text, values=list_of(text)))
TERM = structure(matchExpressions=REQUIREMENTS, matchFields=REQUIREMENTS)
NODE_SELECTION = {
    "nodeName": text,
    "allNodes": flag,
    "nodeSelector": optional(structure(nodeSelectorTerms=list_of(TERM))),
}
NODE = structure(metadata=METADATA, status=structure(declaredFeatures=list_of(text)))

ATTRIBUTE = structure(
    string=text,
    int=whole_number,
    bool=flag,
    version=text,
    strings=list_of(text),
    ints=list_of(whole_number),
    bools=list_of(flag),
    versions=list_of(text),
)
POLICY = structure(
    default=optional(quantity),
    validValues=list_of(quantity),
    validRange=optional(structure(min=optional(quantity), max=optional(quantity), step=optional(quantity))),
)
COUNTERS = map_of(structure(value=quantity))
DEVICE = extended(
    NODE_SELECTION,
    name=text,
    attributes=map_of(ATTRIBUTE),
    capacity=map_of(structure(value=quantity, requestPolicy=optional(POLICY))),
    consumesCounters=list_of(
        structure(counterSet=text, counters=COUNTERS, compatibilityGroups=list_of(text))
    ),
    taints=list_of(structure(key=text, value=text, effect=text, timeAdded=text)),
    bindsToNode=flag,
    bindingConditions=list_of(text),
    bindingFailureConditions=list_of(text),
    allowMultipleAllocations=flag,
)
SLICE = structure(
    metadata=METADATA,
    spec=extended(
        NODE_SELECTION,
        driver=text,
        pool=structure(name=text, generation=whole_number, resourceSliceCount=whole_number),
        perDeviceNodeSelection=flag,
        devices=list_of(DEVICE),
        sharedCounters=list_of(structure(name=text, counters=COUNTERS)),
        skipNodeOperations=list_of(text),
    ),
)

TOLERATIONS = list_of(
    structure(key=text, operator=text, value=text, effect=text, tolerationSeconds=whole_number)
)
DEVICE_REQUEST = {
    "deviceClassName": text,
    "selectors": SELECTORS,
    "allocationMode": text,
    "count": whole_number,
    "tolerations": TOLERATIONS,
    "capacity": optional(structure(requests=map_of(quantity))),
    "derivedAttributes": list_of(structure(name=text, expression=text)),
}
REQUEST = structure(
    name=text,
    exactly=optional(extended(DEVICE_REQUEST, adminAccess=flag)),
    firstAvailable=list_of(extended(DEVICE_REQUEST, name=text)),
)
CONSTRAINT = structure(requests=list_of(text), matchAttribute=text, distinctAttribute=text)
ID = {"driver": text, "pool": text, "device": text}
RESULT = extended(ID, shareID=text, adminAccess=flag, consumedCapacity=map_of(quantity))
CLAIM = structure(
    metadata=METADATA,
    spec=structure(
        devices=structure(
            requests=list_of(REQUEST),
            constraints=list_of(CONSTRAINT),
            config=list_of(extended(CONFIG, requests=list_of(text))),
        )
    ),
    status=structure(allocation=optional(structure(devices=structure(results=list_of(RESULT))))),
)


def device_key(value: Any, path: str) -> None:
    if value.count("/") < 2:
        raise CaseError(f"{path} is no driver/pool/device.")


CASE = structure(
    name=text,
    features=map_of(flag),
    classes=list_of(CLASS),
    slices=list_of(SLICE),
    node=NODE,
    claims=list_of(CLAIM),
    allocated=structure(
        devices=list_of(structure(**ID)),
        shared=list_of(extended(ID, shareID=text)),
        consumedCapacity=map_of(map_of(quantity), key=device_key),
    ),
)
