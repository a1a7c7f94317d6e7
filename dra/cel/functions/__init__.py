"""
What the functions do. Those in `WHOLE` take whatever values come, by function name; those in `OVERLOADS` take
the values of their signature, by overload name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dra.cel.functions import amounts, conversions, lists, net, operators, optionals, text

WHOLE: dict[str, Callable[..., Any]] = operators.FUNCTIONS
OVERLOADS: dict[str, Callable[..., Any]] = (
    conversions.FUNCTIONS
    | text.FUNCTIONS
    | lists.FUNCTIONS
    | amounts.FUNCTIONS
    | net.FUNCTIONS
    | optionals.FUNCTIONS
)

__all__ = ["OVERLOADS", "WHOLE"]
