"""The shape of a case, and of the API's objects (resource.k8s.io/v1, core/v1) as far as they are read."""

from __future__ import annotations

from typing import Any

from dra.cases.check import (
    Problem,
    anything,
    extended,
    flag,
    list_of,
    map_of,
    optional,
    quantity,
    structure,
    text,
    whole,
)

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
        raise Problem(f"{path} is no driver/pool/device.")


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
