"""Profiles that ask for the same as another."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from dra.canonical import canonical, spec_hash
from dra.lint.passage import Passage
from dra.lint.report import Code, Finding, NamedSpec, Severity, Subject


def twins(specs: Sequence[NamedSpec], passages: Mapping[str, Sequence[Passage]]) -> Iterator[Finding]:
    """Yield one finding for each profile that says or asks for the same as an earlier one."""
    by_hash: dict[str, str] = {}
    by_devices: dict[str, str] = {}
    for named in specs:
        digest = spec_hash(named.spec)
        if other := by_hash.get(digest):
            message = f"It says the same as {other}: both ask the cluster for exactly the same."
            yield Finding(Subject.PROFILE, named.name, Code.SAME_SPEC, Severity.WARNING, message)
            continue
        by_hash[digest] = named.name
        mark = _mark(named, passages[named.name])
        if mark and (other := by_devices.get(mark)):
            message = f"It is written differently from {other}, but the same devices match, equally many."
            yield Finding(Subject.PROFILE, named.name, Code.SAME_DEVICES, Severity.NOTE, message)
        elif mark:
            by_devices[mark] = named.name


def _mark(named: NamedSpec, passages: Sequence[Passage]) -> str:
    """Describe what is asked for by the devices that match, not by how it is written; "" if none do."""
    if not passages or not all(made.known and made.accepted for made in passages):
        return ""
    said = canonical(named.spec)["devices"]
    rest = {"constraints": said.get("constraints"), "config": said.get("config")}
    named_otherwise = ("selectors", "deviceClassName", "count")
    asks = [
        {key: value for key, value in made.ask.raw.items() if key not in named_otherwise}
        | {"count": made.ask.count, "of": hex(made.accepted), "request": made.ask.request}
        for made in passages
    ]
    return json.dumps([rest, asks], sort_keys=True, default=str)
