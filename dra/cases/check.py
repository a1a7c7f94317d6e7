"""
Whether a case in JSON has the shape that is expected.

Whether JSON has the shape that is expected, and if not, where and what is wrong, as a sentence.

The shape of a case, and of the API's objects (resource.k8s.io/v1, core/v1) as far as they are read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from dra.quantity import QuantityError, form_of

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
