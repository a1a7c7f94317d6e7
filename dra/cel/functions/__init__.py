"""
Implementations of functions. `WHOLE` has those for values of any type, by function name; `OVERLOADS` those
for the types of one signature, by overload ID.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dra.cel.functions import amounts, conversions, lists, net, operators, text

WHOLE: dict[str, Callable[..., Any]] = operators.FUNCTIONS
OVERLOADS: dict[str, Callable[..., Any]] = (
    conversions.FUNCTIONS
    | text.FUNCTIONS
    | lists.FUNCTIONS
    | amounts.FUNCTIONS
    | net.FUNCTIONS
    | operators.OPTIONAL_FUNCTIONS
)

__all__ = ["OVERLOADS", "WHOLE"]
