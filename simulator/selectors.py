"""Label and field selectors of list and watch."""

import re
from collections.abc import Callable
from typing import Any

from simulator import errors
from simulator.resources import Manifest, Resource

type Matcher = Callable[[Manifest], bool]

_SET = re.compile(r"^(?P<key>\S+)\s+(?P<op>in|notin)\s*\((?P<values>[^)]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^=!\s]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^=!\s]*)$")
_EXISTS = re.compile(r"^(?P<not>!?)(?P<key>[^=!\s,]+)$")


def label_matcher(text: str) -> Matcher:
    """Raise ApiError 400 for a selector that does not parse."""
    tests = [_label_test(part.strip()) for part in re.split(r",(?![^(]*\))", text) if part.strip()]
    return lambda manifest: all(test(manifest["metadata"].get("labels") or {}) for test in tests)


def _label_test(part: str) -> Callable[[dict[str, str]], bool]:
    if found := _SET.match(part):
        key, values = found["key"], {value.strip() for value in found["values"].split(",")}
        if found["op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.match(part):
        key, value = found["key"], found["value"]
        if found["op"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _EXISTS.match(part):
        key, wanted = found["key"], not found["not"]
        return lambda labels: (key in labels) is wanted
    raise errors.bad_request(f"unable to parse requirement: found '{part}', expected: ',' or 'end of string'")


def field_matcher(resource: Resource, text: str) -> Matcher:
    known = ("metadata.name", *(("metadata.namespace",) if resource.namespaced else ()), *resource.fields)
    tests: list[tuple[str, bool, str]] = []
    for part in filter(None, text.split(",")):
        found = _EQUAL.match(part.strip())
        if not found:
            raise errors.bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        if found["key"] not in known:
            listed = ", ".join(f'"{name}"' for name in known)
            raise errors.bad_request(f'"{found["key"]}" is not a known field selector: only {listed}')
        tests.append((found["key"], found["op"] != "!=", found["value"]))
    return lambda manifest: all((_field(manifest, path) == value) is same for path, same, value in tests)


def _field(manifest: Manifest, path: str) -> str:
    value: Any = manifest
    for part in path.split("."):
        value = value.get(part, "") if isinstance(value, dict) else ""
    return str(value)
