"""Checks of one thing that is asked for: `exactly` of a request, or an alternative of `firstAvailable`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from dra.cel import CompileError, NotPreviewable, compile_selector
from dra.objects import MAX_RESULTS
from dra.quantity import Quantity, QuantityError
from dra.validation.names import is_label_key, is_label_value, is_qualified, is_subdomain
from dra.validation.report import Findings

MAX_SELECTORS, MAX_TOLERATIONS, MAX_CAPACITIES = 32, 16, 32
ALTERNATIVE = frozenset(
    (
        "deviceClassName",
        "selectors",
        "allocationMode",
        "count",
        "tolerations",
        "capacity",
        "derivedAttributes",
    )
)
EXACTLY = ALTERNATIVE | {"adminAccess"}
TOLERATION = frozenset(("key", "operator", "value", "effect", "tolerationSeconds"))


def check_ask(
    found: Findings, path: str, raw: Any, classes: Collection[str] | None, fields: frozenset[str]
) -> None:
    """Check one `exactly` or alternative; `classes` are those that the cluster has, if that is known."""
    ask = found.mapping(path, raw, fields)
    if ask is None:
        return
    _class(found, f"{path}.deviceClassName", ask.get("deviceClassName"), classes)
    _count(found, path, ask)
    for place, selector in found.items(f"{path}.selectors", ask.get("selectors"), MAX_SELECTORS, "selectors"):
        check_selector(found, place, selector)
    for place, one in found.items(
        f"{path}.tolerations", ask.get("tolerations"), MAX_TOLERATIONS, "tolerations"
    ):
        _toleration(found, place, one)
    _capacity(found, f"{path}.capacity", ask.get("capacity"))
    if not isinstance(ask.get("adminAccess", False), bool | None):
        found.add(f"{path}.adminAccess", "This must be true or false.")


def check_selector(found: Findings, path: str, raw: Any) -> None:
    """
    Check that a selector compiles with all that the newest Kubernetes has switched on: a spec is written for
    several clusters, and what one of them lacks is told by the match in it and by the check of the catalogue.
    One that only the cluster can run is left to the cluster.
    """
    selector = found.mapping(path, raw, frozenset(("cel",)))
    cel = found.mapping(f"{path}.cel", (selector or {}).get("cel"), frozenset(("expression",)))
    if cel is None:
        return
    expression = cel.get("expression")
    if not isinstance(expression, str) or not expression.strip():
        found.add(f"{path}.cel.expression", "A selector needs an expression.")
        return
    try:
        compile_selector(expression)
    except CompileError as error:
        found.add(f"{path}.cel.expression", f"The API server would refuse this selector: {error.message}")
    except NotPreviewable:
        return


def _class(found: Findings, path: str, name: Any, classes: Collection[str] | None) -> None:
    if not name:
        found.add(path, "A request needs a device class.")
    elif not isinstance(name, str) or not is_subdomain(name):
        found.add(path, f"“{name}” is not a name that a device class can have.")
    elif classes is not None and name not in classes:
        found.add(path, f"The cluster has no device class {name}.")


def _count(found: Findings, path: str, ask: Mapping[str, Any]) -> None:
    mode, count = ask.get("allocationMode"), ask.get("count")
    if mode not in (None, "", "ExactCount", "All"):
        found.add(f"{path}.allocationMode", f"“{mode}” is not a mode; use ExactCount or All.")
    if count is None:
        return
    if isinstance(count, bool) or not isinstance(count, int):
        found.add(f"{path}.count", "The count must be a whole number.")
    elif mode == "All" and count:
        found.add(f"{path}.count", "Mode All takes every matching device; a count is not allowed with it.")
    elif count < 0:
        found.add(f"{path}.count", f"The count is {count}; it must be at least 1.")
    elif count > MAX_RESULTS:
        found.add(f"{path}.count", f"The count is {count}; one claim can hold {MAX_RESULTS} devices.")


def _toleration(found: Findings, path: str, raw: Any) -> None:
    toleration = found.mapping(path, raw, TOLERATION)
    if toleration is None:
        return
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    value, effect = toleration.get("value") or "", toleration.get("effect") or ""
    seconds = toleration.get("tolerationSeconds")
    if key and not is_label_key(str(key)):
        found.add(f"{path}.key", f"“{key}” is not a key that a taint can have.")
    if operator not in ("Equal", "Exists"):
        found.add(f"{path}.operator", f"“{operator}” is not an operator; use Equal or Exists.")
    elif operator == "Equal" and not key:
        found.add(f"{path}.operator", "A toleration of every key needs operator Exists.")
    elif operator == "Exists" and value:
        found.add(f"{path}.value", "Operator Exists takes no value.")
    if not is_label_value(str(value)):
        found.add(f"{path}.value", f"“{value}” is not a value that a taint can have.")
    if effect not in ("", "None", "NoSchedule", "NoExecute"):
        found.add(
            f"{path}.effect",
            f"“{effect}” is not an effect; use NoSchedule or NoExecute, or leave it out for both.",
        )
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int)):
        found.add(f"{path}.tolerationSeconds", "The seconds must be a whole number.")


def _capacity(found: Findings, path: str, raw: Any) -> None:
    if raw is None:
        return
    capacity = found.mapping(path, raw, frozenset(("requests",)))
    asked = None if capacity is None else capacity.get("requests")
    if asked is None:
        return
    if not isinstance(asked, Mapping):
        found.add(f"{path}.requests", "This must be an object.")
        return
    if len(asked) > MAX_CAPACITIES:
        found.add(
            f"{path}.requests", f"There are {len(asked)} capacities; at most {MAX_CAPACITIES} are allowed."
        )
    for name, amount in asked.items():
        place = f"{path}.requests[{name}]"
        if not is_qualified(str(name)):
            found.add(place, f"“{name}” is not a name of a capacity: letters, digits and _ only, at most 32.")
        try:
            if Quantity.parse(amount).nano < 0:
                found.add(place, f"The amount is {amount}; it cannot be negative.")
        except QuantityError as error:
            found.add(place, str(error))
