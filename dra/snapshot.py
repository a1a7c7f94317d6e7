"""A picture of a cluster from a dump of its objects, such as `kubectl get … -o json` writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dra.objects import Json
from dra.picture import Picture

# Kind of an object → the list of the picture that it goes into.
PARTS = {
    "DeviceClass": "classes",
    "ResourceSlice": "slices",
    "ResourceClaim": "claims",
    "DeviceTaintRule": "taint_rules",
    "Node": "nodes",
}


class NoSnapshot(ValueError):
    """The dump holds nothing that a picture is made of; the message is a sentence."""


def unfolded(documents: Iterable[object]) -> Iterator[Json]:
    """Yield objects of the API, those inside of lists one by one."""
    for document in documents:
        if not isinstance(document, dict):
            continue
        if isinstance(document.get("items"), list):
            # A typed list (ResourceSliceList) leaves the kind of its items out.
            kind = str(document.get("kind") or "").removesuffix("List")
            yield from unfolded({"kind": kind} | one for one in document["items"] if isinstance(one, dict))
        else:
            yield document


def picture_from(documents: Iterable[object]) -> Picture:
    """Return the picture of a dump; other kinds in it are left out. Raise `NoSnapshot` without a device."""
    lists: dict[str, list[Json]] = {part: [] for part in PARTS.values()}
    for one in unfolded(documents):
        if part := PARTS.get(str(one.get("kind"))):
            lists[part].append(one)
    if not lists["slices"]:
        raise NoSnapshot("The snapshot holds no ResourceSlice, so it says nothing about devices.")
    return Picture(
        classes=lists["classes"],
        slices=lists["slices"],
        claims=lists["claims"],
        taint_rules=lists["taint_rules"],
        nodes=lists["nodes"],
    )
