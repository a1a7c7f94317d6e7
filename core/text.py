"""Words that go with a number."""

from __future__ import annotations


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: "1 device", "3 devices". `plural` defaults to the singular with an s."""
    return f"{number} {singular if number == 1 else plural or f'{singular}s'}"
