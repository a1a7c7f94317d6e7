"""
Implementations of functions. `WHOLE` has those for values of any type, by function name; `OVERLOADS` those
for the types of one signature, by overload ID.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dra.cel.functions import conversions, operators, text
from dra.cel.functions import conversions as amounts
from dra.cel.functions import conversions as lists
from dra.cel.functions import operators as optionals
from dra.cel.functions import text as net

WHOLE: dict[str, Callable[..., Any]] = operators.FUNCTIONS
OVERLOADS: dict[str, Callable[..., Any]] = (
    conversions.FUNCTIONS
    | text.FUNCTIONS
    | lists.LIST_FUNCTIONS
    | amounts.AMOUNT_FUNCTIONS
    | net.NET_FUNCTIONS
    | optionals.OPTIONAL_FUNCTIONS
)

__all__ = ["OVERLOADS", "WHOLE"]
