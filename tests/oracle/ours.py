"""What our engine answers, in the shape of upstream's answers."""

import traceback

from dra import cases


def answer(case: dict) -> dict:
    """Return name, error, results; `gaveUp` where the bounded search ended first, `crash` for a bug."""
    try:
        return cases.evaluate_case(case)
    except Exception as crash:
        where = traceback.extract_tb(crash.__traceback__)[-1]
        found = f"{type(crash).__name__} at {where.filename}:{where.lineno}: {crash}"
        return {"name": case.get("name", ""), "crash": found}
