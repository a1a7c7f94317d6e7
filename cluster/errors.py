"""
From an error response of an API server to an exception of `cluster.protocol` with a sentence for people.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from cluster.protocol import (
    ClusterConflict,
    ClusterError,
    ClusterInvalid,
    Expired,
    Kind,
    Refused,
    Unreachable,
)

# Code 500 in the stream from an etcd without progress notifications (before 3.4.31 and 3.5.13), 504 from a
# watch cache that is behind the version asked for. Listing again mends both.
LIST_AGAIN = ("RequestWatchProgress", "Too large resource version")
BAD_PATCH = "failed to create typed patch object"  # server-side apply of unknown fields: a 500, on 1.37 still
CANNOT = re.compile(r'cannot (\w+) resource "([^"]+)" in API group "([^"]*)"')
UNKNOWN_FIELD = re.compile(r'(unknown|duplicate) field "([^"]+)"')
UNDECLARED_FIELD = re.compile(r"\.([\w.\[\]\"=-]+): field not declared in schema")


@dataclass(frozen=True, slots=True)
class ApiCall:
    """An API call, for error sentences and the name of a missing permission."""

    verb: str  # of RBAC
    kind: Kind
    name: str = ""
    namespace: str = ""

    @property
    def object(self) -> str:
        """Return "resourceclaims “a” in namespace “ml”", with the parts that are known."""
        text = f"{self.kind.plural} “{self.name}”" if self.name else self.kind.plural
        if self.namespace:
            text = f"{text} in namespace “{self.namespace}”"
        return text


def cluster_error(code: int, body: bytes, call: ApiCall) -> ClusterError | Expired:  # noqa: PLR0911
    """Return the error for a response with status 400 or above."""
    status = error_status(body)
    message = str(status.get("message") or "").strip()
    match code:
        case 401:
            sentence = "The cluster does not know the credentials: they are wrong, or have run out."
            return Refused(sentence, fixable=True)
        case 403:
            return refusal(message, call)
        case 404 | 405:
            sentence = "The cluster cannot %(verb)s %(object)s: %(message)s."
            names = {"verb": call.verb, "object": call.object, "message": message.rstrip(".") or code}
            return ClusterInvalid(sentence % names)
        case 409:
            return conflict(status, message, call)
        case 410:
            return Expired(message)
        case 400 | 413 | 415 | 422:
            return invalid(status, message, call)
        case 429:
            return Unreachable("The cluster asks for fewer requests (429); it will be tried again.")
    if BAD_PATCH in message:
        return invalid(status, message, call)
    if any(sign in message for sign in LIST_AGAIN):
        return Expired(message)
    sentence = "The cluster failed to %(verb)s %(object)s (%(code)s): %(message)s."
    return Unreachable(
        sentence
        % {
            "verb": call.verb,
            "object": call.object,
            "code": code,
            "message": message.rstrip(".")[:300] or "without saying why",
        }
    )


def error_status(body: bytes) -> dict[str, Any]:
    """Return the Status object of a response; {} for the page of a proxy."""
    try:
        status = json.loads(body)
    except ValueError:
        return {}
    return status if isinstance(status, dict) else {}


def refusal(message: str, call: ApiCall) -> Refused:
    """Distinguish an exceeded quota, a missing permission and a rejection by a policy."""
    if "exceeded quota" in message:
        return Refused(message, verb=call.verb, resource=call.kind.plural, quota=True)
    if match := CANNOT.search(message):
        verb, resource, group = match.groups()
        full = f"{resource}.{group}" if group else resource
        return Refused(
            f"The credentials may not {verb} {call.object}: they lack “{verb}” on “{full}”.",
            verb=verb,
            resource=resource,
            fixable=True,
        )
    sentence = f"The cluster does not allow to {call.verb} {call.object}: {message.rstrip('.') or '403'}."
    return Refused(sentence, verb=call.verb, resource=call.kind.plural)


def conflict(status: dict[str, Any], message: str, call: ApiCall) -> ClusterConflict:
    causes = error_causes(status)
    if status.get("reason") == "AlreadyExists":
        return ClusterConflict(f"The cluster has {call.object} already.")
    if causes:
        fields = "; ".join(f"{field} ({reason})" for field, reason in causes)
        return ClusterConflict(f"Others manage fields of {call.object}: {fields}.")
    return ClusterConflict(f"The cluster holds other {call.object} by now: {message.rstrip('.')}.")


def invalid(status: dict[str, Any], message: str, call: ApiCall) -> ClusterInvalid:
    causes = error_causes(status) or unknown_fields(message)
    why = "; ".join(f"{field}: {reason}" if field else reason for field, reason in causes) or message
    return ClusterInvalid(f"The cluster refused {call.object}: {why.rstrip('.')}.", causes)


def error_causes(status: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    details = status.get("details") or {}
    return tuple(
        (str(cause.get("field", "")), str(cause.get("message", ""))) for cause in details.get("causes") or ()
    )


def budget_refusal(status: dict[str, Any]) -> str:
    """Return what a PodDisruptionBudget says against an eviction; "" for an overloaded server, also a 429."""
    causes = (status.get("details") or {}).get("causes") or ()
    return next((str(cause["message"]) for cause in causes if cause.get("reason") == "DisruptionBudget"), "")


def unknown_fields(message: str) -> tuple[tuple[str, str], ...]:
    """A strict decoding error comes without causes: the fields stand in the text."""
    strict = [(field, "unknown field") for _what, field in UNKNOWN_FIELD.findall(message)]
    applied = [(field, "unknown field") for field in UNDECLARED_FIELD.findall(message)]
    return tuple(strict + applied)
