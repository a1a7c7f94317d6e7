"""What our engine answers, in the shape of upstream's answers."""

import traceback

from dra.allocator import AllocationError, SearchGivenUp, allocate
from dra.cel import CompileError, EvaluationError
from dra.features import Features
from dra.picture import Picture


def answer(case: dict) -> dict:
    """Return name, error, results; `gaveUp` where the bounded search ended first."""
    told: dict = {"name": case.get("name", ""), "error": None, "results": None}
    try:
        picture = Picture(
            classes=case.get("classes", ()),
            slices=case.get("slices", ()),
            claims=_holders(case.get("allocated", {})),
            features=Features.of_switches(case.get("features", {})),
        )
        found = allocate(picture, case.get("node", {}), case.get("claims", ()))
    except SearchGivenUp as given_up:
        return told | {"error": given_up.message, "gaveUp": True}
    except (AllocationError, CompileError, EvaluationError) as error:
        return told | {"error": str(error)}
    except Exception as crash:
        where = traceback.extract_tb(crash.__traceback__)[-1]
        return told | {"crash": f"{type(crash).__name__} at {where.filename}:{where.lineno}: {crash}"}
    return told | {"results": None if found is None else [one.as_dict() for one in found]}


def _holders(allocated: dict) -> list[dict]:
    results = list(allocated.get("devices", ()))
    consumed = dict(allocated.get("consumedCapacity", {}))
    for shared in allocated.get("shared", ()):
        name = f"{shared['driver']}/{shared['pool']}/{shared['device']}"
        results.append({**shared, "consumedCapacity": consumed.pop(name, {})})
    for name, amounts in consumed.items():
        driver, rest = name.split("/", 1)
        pool, device = rest.rsplit("/", 1)
        results.append(
            {"driver": driver, "pool": pool, "device": device, "shareID": "x", "consumedCapacity": amounts}
        )
    metadata = {"namespace": "held", "name": "held"}
    return [{"metadata": metadata, "status": {"allocation": {"devices": {"results": results}}}}]
