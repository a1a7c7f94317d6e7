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
from dra.quantity import QuantityError, form_of

__all__ = ["Case", "CaseError", "answer", "evaluate_line", "read_case", "serve"]

STEPS = 1_000_000  # devices tried for a case, which can wait longer than a page


@dataclass(frozen=True, slots=True)
class Case:
    """A question: would `claims` fit on `node` together, given all that is in `picture`?"""

    snapshot: ClusterSnapshot
    node: Json
    claims: Sequence[Json]


def serve(lines: Iterable[bytes], out: TextIO) -> None:
    """Write one answer per line, each at once, so that a caller may wait for it before it asks on."""
    for line in lines:
        out.write(json.dumps(evaluate_line(line)) + "\n")
        out.flush()


def evaluate_line(line: str | bytes) -> Manifest:
    """
    Answer the case in a line of JSON: `{"name", "error", "results"}`; see `answer`.

    A line that is no case is answered with an error, and with the name if that can be read.
    """
    try:
        raw = json.loads(line, parse_constant=_refuse)
    except RecursionError:
        return _failed("", "The line is nested too deeply.")
    except ValueError as error:
        said = "The line is empty." if not line.strip() else f"The line is no JSON: {error}."
        return _failed("", said)
    return answer(raw)


def answer(raw: Any) -> Manifest:
    """
    Answer a case: `{"name", "error", "results"}`.

    `error` is a sentence where the claims cannot be tried, or where this is no case. Otherwise `results` has
    a `status.allocation` for each claim that has none yet, or is None if they do not fit. `gaveUp` is there,
    and true, if the search took too long to tell. Never raises for what the case says.
    """
    name = raw.get("name") if isinstance(raw, dict) else ""
    name = name if isinstance(name, str) else ""
    try:
        case = read_case(raw)
        results = allocate(case.snapshot, case.node, case.claims, literal=True, steps=STEPS)
    except SearchGivenUp as given_up:
        return _failed(name, given_up.message) | {"gaveUp": True}
    except (CaseError, AllocationError) as error:
        return _failed(name, str(error))
    written = None if results is None else [result.as_dict() for result in results]
    return {"name": name, "error": None, "results": written}


def read_case(raw: Any) -> Case:
    """
    Check a case and draw its picture. Raise `Problem` for what is not as the API has it.

    Claims with `status.allocation` hold their devices and are not allocated again.
    """
    try:
        CASE(raw, "")
    except RecursionError:
        raise CaseError("The case is nested too deeply.") from None
    try:
        features = Features.of_switches(raw.get("features") or {})
    except KeyError as error:
        known = ", ".join(Features.switches())
        raise CaseError(f"features has {error.args[0]}, which is none; there are {known}.") from None
    claims: Sequence[Json] = raw.get("claims") or ()
    allocated = [one for one in claims if _allocated(one)]
    waiting = [one for one in claims if not _allocated(one)]
    held = [*_held(raw.get("allocated", {})), *_results(allocated, shares=features.consumable_capacity)]
    snapshot = ClusterSnapshot(
        classes=(raw.get("classes") or [])[::-1],  # of two with one name the first counts
        slices=raw.get("slices") or (),
        claims=[{"status": {"allocation": {"devices": {"results": held}}}}],
        features=features,
    )
    return Case(snapshot, raw.get("node", {}), waiting)


def _allocated(claim: Json) -> bool:
    return claim.get("status", {}).get("allocation") is not None


def _results(claims: Sequence[Json], *, shares: bool) -> Iterator[Json]:
    """Yield the devices of allocated claims. Without consumable capacity a share takes the whole device."""
    for claim in claims:
        for result in allocation_results(claim):
            yield _named(result) | ({} if shares else {"shareID": ""})


def _held(allocated: Json) -> Iterator[Json]:
    """Yield what `allocated` says in the shape of the results of a claim."""
    for whole in allocated.get("devices") or ():
        yield _named(whole) | {"shareID": ""}
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


# Takes a value and its path, and raises `Problem`. Null is as good as absent, but not in place of an object.
type Shape = Callable[[Any, str], None]

INT64 = range(-(2**63), 2**63)
SHOWN = 60  # characters of a wrong value


class CaseError(ValueError):
    """The JSON is not what is expected; the message is a sentence."""


def text(value: Any, path: str) -> None:
    if value is not None and not isinstance(value, str):
        raise _wrong(value, path, "a text")


def flag(value: Any, path: str) -> None:
    if value is not None and not isinstance(value, bool):
        raise _wrong(value, path, "true or false")


def whole(value: Any, path: str) -> None:
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
        form_of(str(value).strip())
    except QuantityError:
        raise _wrong(value, path, "a quantity such as 80Gi or 500m") from None


def anything(value: Any, path: str) -> None:
    """Accept what the engine only passes on."""


def list_of(shape: Shape) -> Shape:
    def check(value: Any, path: str) -> None:
        if value is not None and not isinstance(value, list):
            raise _wrong(value, path, "a list")
        for place, one in enumerate(value or ()):
            shape(one, f"{path}[{place}]")

    return check


def map_of(shape: Shape, *, key: Shape = anything) -> Shape:
    def check(value: Any, path: str) -> None:
        if value is not None and not isinstance(value, dict):
            raise _wrong(value, path, "an object")
        for name, one in (value or {}).items():
            key(name, f"The key {name} of {path}")
            shape(one, f"{path}.{name}" if path else name)

    return check


def structure(**fields: Shape) -> Shape:
    """Return the shape of an object with these fields, each of which may be absent; others are ignored."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(value, path, "an object")
        for name, one in value.items():
            if (shape := fields.get(name)) is not None:
                shape(one, f"{path}.{name}" if path else name)

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
    shown = json.dumps(value, ensure_ascii=False)
    if len(shown) > SHOWN:
        shown = shown[:SHOWN] + "…"
    return CaseError(f"{path or 'The line'} is {shown}: {expected} is expected.")


METADATA = structure(name=text, namespace=text, labels=map_of(text))
SELECTORS = list_of(structure(cel=optional(structure(expression=text))))
CONFIG = {"opaque": optional(structure(driver=text, parameters=anything))}
CLASS = structure(metadata=METADATA, spec=structure(selectors=SELECTORS, config=list_of(structure(**CONFIG))))

REQUIREMENTS = list_of(structure(key=text, operator=text, values=list_of(text)))
TERM = structure(matchExpressions=REQUIREMENTS, matchFields=REQUIREMENTS)
PLACE = {
    "nodeName": text,
    "allNodes": flag,
    "nodeSelector": optional(structure(nodeSelectorTerms=list_of(TERM))),
}
NODE = structure(metadata=METADATA, status=structure(declaredFeatures=list_of(text)))

ATTRIBUTE = structure(
    string=text,
    int=whole,
    bool=flag,
    version=text,
    strings=list_of(text),
    ints=list_of(whole),
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
    PLACE,
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
        PLACE,
        driver=text,
        pool=structure(name=text, generation=whole, resourceSliceCount=whole),
        perDeviceNodeSelection=flag,
        devices=list_of(DEVICE),
        sharedCounters=list_of(structure(name=text, counters=COUNTERS)),
        skipNodeOperations=list_of(text),
    ),
)

TOLERATIONS = list_of(structure(key=text, operator=text, value=text, effect=text, tolerationSeconds=whole))
ASK = {
    "deviceClassName": text,
    "selectors": SELECTORS,
    "allocationMode": text,
    "count": whole,
    "tolerations": TOLERATIONS,
    "capacity": optional(structure(requests=map_of(quantity))),
    "derivedAttributes": list_of(structure(name=text, expression=text)),
}
REQUEST = structure(
    name=text,
    exactly=optional(extended(ASK, adminAccess=flag)),
    firstAvailable=list_of(extended(ASK, name=text)),
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
