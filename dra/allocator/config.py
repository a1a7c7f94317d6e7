"""Which opaque configuration goes with an allocation: that of the classes first, then that of the claim."""

from __future__ import annotations

from collections.abc import Sequence

from dra.allocator.plan import Wish
from dra.objects import Json, Manifest
from dra.picture import Picture


def config_of(picture: Picture, spec: Json, chosen: Sequence[Wish]) -> list[Manifest]:
    """
    Return `status.allocation.devices.config`.

    The configuration of a class is given once, for all its requests.
    """
    by_class: dict[str, list[str]] = {}
    for wish in chosen:
        by_class.setdefault(wish.ask.class_name, []).append(wish.ask.result_name)
    made = [
        _entry("FromClass", names, config, chosen)
        for name, names in by_class.items()
        for config in (picture.class_by_name[name].get("spec") or {}).get("config") or ()
    ]
    for config in (spec.get("devices") or {}).get("config") or ():
        names = list(config.get("requests") or ())
        if not names or any(_named(wish, names) for wish in chosen):
            made.append(_entry("FromClaim", names, config, chosen))
    return made


def _named(wish: Wish, names: Sequence[str]) -> bool:
    return wish.ask.request in names or wish.ask.result_name in names


def _entry(source: str, names: Sequence[str], config: Json, chosen: Sequence[Wish]) -> Manifest:
    written: Manifest = {"source": source}
    if names and not all(_named(wish, names) for wish in chosen):
        written["requests"] = list(names)  # left out where it is for all of them
    opaque: Json | None = config.get("opaque")
    if opaque is not None:
        parameters = opaque.get("parameters")
        written["opaque"] = {"driver": opaque.get("driver") or "", "parameters": parameters}
    return written
