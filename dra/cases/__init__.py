"""
One question to the allocator, as JSON: what a cluster holds, a node, and claims; and the answer.

This is how the engine is held against the allocator of Kubernetes. `docs/allocator.md` gives the format.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TextIO

from dra.allocator import AllocationError, SearchGivenUp, allocate
from dra.cases.check import CASE, CaseError
from dra.cluster_snapshot import ClusterSnapshot
from dra.features import Features
from dra.held import allocation_results
from dra.objects import Json, Manifest

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
