"""
Type conversions.

Sources: cel-go `common/types/*.go` (ConvertToType; Go's strconv).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from dra.cel.values import INT64, UINT64, Failure, Uint

TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
WHOLE = re.compile(r"[+-]?[0-9]{1,200}", re.ASCII)
DOUBLE = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?)|[nN][aA][nN]",
    re.ASCII,
)
HEXADECIMAL = re.compile(r"[+-]?0[xX](?=[0-9a-fA-F.])[0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?[0-9]+", re.ASCII)


def _cannot(to: str, of: str = "string") -> Failure:
    return Failure(f"type conversion error from '{of}' to '{to}'")


def _text_to_bool(text: str) -> bool:
    if text not in TRUE | FALSE:
        raise _cannot("bool")
    return text in TRUE


def _text_to_int(text: str) -> int:
    if not WHOLE.fullmatch(text) or int(text) not in INT64:
        raise _cannot("int")
    return int(text)


def _text_to_uint(text: str) -> Uint:
    if not WHOLE.fullmatch(text) or text[0] in "+-" or int(text) not in UINT64:
        raise _cannot("uint")
    return Uint(text)


def _text_to_double(text: str) -> float:
    try:
        if HEXADECIMAL.fullmatch(text):
            return float.fromhex(text)
    except OverflowError as error:
        raise _cannot("double") from error
    if not DOUBLE.fullmatch(text):
        raise _cannot("double")
    value = float(text)
    if math.isinf(value) and text[-1] not in "fFyY":
        raise _cannot("double")
    return value


def _double_to_int(value: float) -> int:
    if math.isnan(value) or not -(2.0**63) < value < 2.0**63:
        raise Failure("integer overflow")
    return int(value)


def _double_to_uint(value: float) -> Uint:
    if math.isnan(value) or not 0 <= value < 2.0**64:
        raise Failure("unsigned integer overflow")
    return Uint(value)


def _int_to_uint(value: int) -> Uint:
    if value < 0:
        raise Failure("unsigned integer overflow")
    return Uint(value)


def _uint_to_int(value: Uint) -> int:
    number = int(value)  # a range looks a subclass of int up one by one
    if number not in INT64:
        raise Failure("integer overflow")
    return number


def _bytes_to_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise Failure("invalid UTF-8 in bytes, cannot convert to string") from error


def double_to_text(value: float) -> str:
    """Write a number as Go's `%g` does: the fewest digits, an exponent below -4 and from 21 on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    written = "".join(map(str, digits))
    before = len(written) + int(exponent)
    front = "-" if sign or math.copysign(1, value) < 0 else ""
    if written == "0":
        return f"{front}0"
    if not -4 < before <= 21:
        tail = f".{written[1:]}" if len(written) > 1 else ""
        return f"{front}{written[0]}{tail}e{'-' if before < 1 else '+'}{abs(before - 1):02d}"
    if before <= 0:
        return f"{front}0.{'0' * -before}{written}"
    integer, fraction = written[:before].ljust(before, "0"), written[before:]
    return f"{front}{integer}" + (f".{fraction}" if fraction else "")


def _same(value: Any) -> Any:
    return value


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("bool_to_bool", "bytes_to_bytes", "double_to_double", "string_to_string"), _same),
    **dict.fromkeys(("int64_to_int64", "uint64_to_uint64"), _same),
    "string_to_bool": _text_to_bool,
    "string_to_bytes": str.encode,
    "int64_to_double": float,
    "uint64_to_double": float,
    "string_to_double": _text_to_double,
    "double_to_int64": _double_to_int,
    "string_to_int64": _text_to_int,
    "uint64_to_int64": _uint_to_int,
    "double_to_uint64": _double_to_uint,
    "int64_to_uint64": _int_to_uint,
    "string_to_uint64": _text_to_uint,
    "bool_to_string": lambda value: "true" if value else "false",
    "bytes_to_string": _bytes_to_text,
    "double_to_string": double_to_text,
    "int64_to_string": str,
    "uint64_to_string": lambda value: str(int(value)),
    "ip_to_string": str,
    "cidr_to_string": str,
}
