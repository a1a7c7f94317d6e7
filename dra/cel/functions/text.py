"""
Functions of strings.

Sources: cel-go `ext/strings.go`, version 2; apiserver `pkg/cel/library/regex.go`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dra.cel import values
from dra.cel.syntax import NotPreviewable
from dra.cel.values import Failure, type_of

SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
ESCAPED = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"} | {
    "\\": "\\\\",
    '"': '\\"',
}
MAX_LENGTH = 10_000_000  # characters of a text that replace() may build
UPPER = str.maketrans({code: code - 32 for code in range(ord("a"), ord("z") + 1)})
LOWER = str.maketrans({code: code + 32 for code in range(ord("A"), ord("Z") + 1)})


def _out(place: int) -> Failure:
    return Failure(f"index out of range: {place}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if start < 0:
        raise _out(start)
    if not part:
        return min(start, len(text))
    return text.find(part, start)


def _last_index_of(text: str, part: str) -> int:
    if not part:
        return len(text)
    if len(text.encode()) < len(part.encode()):
        return -1
    return _last_index_from(text, part, len(text) - 1)


def _last_index_from(text: str, part: str, start: int) -> int:
    if start < 0:
        raise _out(start)
    if not part:
        return min(start, len(text))
    return -1 if start >= len(text) else text.rfind(part, 0, start + len(part))


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    """
    Replace `count` occurrences, all if it is negative.

    Raise `NotPreviewable` rather than fill the memory: the cost of a call does not reckon with its result.
    """
    times = text.count(old) if count < 0 else min(count, text.count(old))
    if len(text) + times * (len(new) - len(old)) > MAX_LENGTH:
        raise NotPreviewable("The expression builds more than this portal can hold; a cluster decides.")
    return text.replace(old, new, count)


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    """Split into at most `count` parts; any number if it is negative."""
    if count == 0:
        return []
    if separator:
        return text.split(separator, count - 1 if count > 0 else -1)
    if 0 < count < len(text):
        return [*text[: count - 1], text[count - 1 :]]
    return list(text)


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise Failure(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _out(start)
    if end is not None and not 0 <= end <= len(text):
        raise _out(end)
    return text[start:end]


def _join(parts: list[Any], separator: str = "") -> str:
    for part in parts:
        if type(part) is not str:
            raise Failure(
                f"join: invalid input: {part if type(part) in (int, float) else type_of(part).name}"
            )
    return separator.join(parts)


def _quote(text: str) -> str:
    return f'"{"".join(ESCAPED.get(char, char) for char in text)}"'


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "string_char_at_int": _char_at,
    "string_index_of_string": _index_of,
    "string_index_of_string_int": _index_of,
    "string_last_index_of_string": _last_index_of,
    "string_last_index_of_string_int": _last_index_from,
    "string_lower_ascii": lambda text: text.translate(LOWER),
    "string_upper_ascii": lambda text: text.translate(UPPER),
    "string_replace_string_string": _replace,
    "string_replace_string_string_int": _replace,
    "string_split_string": _split,
    "string_split_string_int": _split,
    "string_substring_int": _substring,
    "string_substring_int_int": _substring,
    "string_trim": lambda text: text.strip(SPACE),
    "strings_quote": _quote,
    "list_join": _join,
    "list_join_string": _join,
    "string_find_string": values.find,
    "string_find_all_string": values.find_all,
    "string_find_all_string_int": values.find_all,
}
