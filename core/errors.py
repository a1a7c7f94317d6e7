"""
Refusals: one exception, one code, one message with numbers.

A value that the database cannot store (a NUL in a text, a number out of range) is a refusal too: 422.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import structlog
from django.db import DataError, IntegrityError
from django.forms import BaseForm


class PortalError(Exception):
    """
    A refusal with a message for people.

    `code` is stable and for programs, `status` is the HTTP status of pages and API, `message` is a whole
    sentence. `extra` has additional members of the problem document (RFC 9457 §3.2), `headers` those of the
    response of the API.
    """

    code = "refused"
    status = 409
    title = "The portal will not do this"
    headers: Mapping[str, str] = {}

    def __init__(self, message: str, **extra: Any) -> None:
        super().__init__(message)
        self.message = message
        self.extra = extra


class Invalid(PortalError):
    """The request is malformed: 422."""

    code = "invalid"
    status = 422
    title = "The request is malformed"


def cleaned(form: BaseForm) -> dict[str, Any]:
    """Return what a form has that is drawn by hand; the first field that is wrong is a refusal."""
    for name, errors in form.errors.items():
        raise Invalid(f"{form[name].label}: {errors[0]}", field=name)
    return form.cleaned_data


class UnknownName(Invalid):
    """A body names something that does not exist, or that the user may not know of: 422."""

    code = "unknown-name"
    title = "There is nothing of this name"


def unknown(name: str, value: str, known: Iterable[str]) -> Invalid:
    """Return the refusal of a filter whose value nothing that the reader sees has."""
    return Invalid(f"{name}: “{value[:40]}” is unknown.{use(known)}", field=name)


def use(known: Iterable[str]) -> str:
    """Return a sentence with what there is, "" of more than 20."""
    names = [*islice(known, 21)]
    return f" Use {' or '.join(', '.join(names).rsplit(', ', 1))}." if 0 < len(names) <= 20 else ""


class Forbidden(PortalError):
    """The user may see the object but may not do this to it: 403."""

    code = "forbidden"
    status = 403
    title = "You do not have permission"


class Conflict(PortalError):
    """Another request was first, or the object has changed since it was read: 409."""

    code = "conflict"
    title = "This is not possible now"


class IllegalTransition(Conflict):
    """The table of states has no such transition."""

    code = "illegal-transition"


class QuotaExceeded(PortalError):
    """The team would hold more than its quota allows: 409."""

    code = "quota-exceeded"
    title = "The quota of the team does not allow this"


class BudgetExceeded(PortalError):
    """The team might spend more than its budget has left: 409."""

    code = "budget-exceeded"
    title = "The budget of the team does not allow this"


# SQLSTATEs of class 22 that a value in the request causes. psycopg refuses a NUL itself, without a code.
VALUE_ERRORS = frozenset((None, "22001", "22003", "22007", "22008", "22021", "22P02", "22P05"))

log = structlog.get_logger(__name__)


def violated_constraint(error: IntegrityError) -> str:
    """Return the name of the constraint that a write violated; empty where the database named none."""
    return getattr(getattr(error.__cause__, "diag", None), "constraint_name", None) or ""


def data_error_refusal(error: DataError) -> Invalid | None:
    """Return and log the refusal of a value; None for an error of the portal, such as a division by 0."""
    if getattr(error.__cause__, "sqlstate", None) not in VALUE_ERRORS:
        return None
    log.warning("value_cannot_be_kept", exc_info=error)
    return Invalid("It has a character, a number or a date that cannot be stored.")
