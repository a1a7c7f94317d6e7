"""
What the portal says when it will not do something, and which errors of the database mean just that.

What the portal says when it will not do something: one exception, one code, one sentence with numbers.

What the database cannot keep: a NUL in a text, a number beyond its column. Whoever sent it hears 422.
"""

from typing import Any

import structlog
from django.db import DataError, IntegrityError


class PortalError(Exception):
    """
    A refusal that a person can read.

    `code` is stable and for programs, `status` is the HTTP status that pages and the API answer with,
    `message` is a whole sentence. `extra` goes into the problem document beside them (RFC 9457 §3.2).
    """

    code = "refused"
    status = 409
    title = "The portal will not do this"

    def __init__(self, message: str, **extra: Any) -> None:
        super().__init__(message)
        self.message = message
        self.extra = extra


class Invalid(PortalError):
    """What was sent is malformed: 422."""

    code = "invalid"
    status = 422
    title = "The request is malformed"


class Forbidden(PortalError):
    """The asker may know of the thing but may not do this to it: 403."""

    code = "forbidden"
    status = 403
    title = "You do not have permission"


class Conflict(PortalError):
    """Somebody else was first, or the thing has changed since it was read: 409."""

    code = "conflict"
    title = "This has changed in the meantime"


class IllegalTransition(Conflict):
    """The state table has no such step."""

    code = "illegal-transition"


class QuotaExceeded(PortalError):
    """The team would hold more than its quota allows: 409."""

    code = "quota-exceeded"
    title = "The quota of the team does not allow this"


# Of SQLSTATE class 22, what comes of a value that was sent. psycopg refuses a NUL itself, without a code.
OF_A_VALUE = frozenset((None, "22001", "22003", "22007", "22008", "22021", "22P02", "22P05"))

log = structlog.get_logger(__name__)


def violated_constraint(error: IntegrityError) -> str:
    """Return the name of the constraint that a write violated; empty where the database named none."""
    return getattr(getattr(error.__cause__, "diag", None), "constraint_name", None) or ""


def data_error_refusal(error: DataError) -> Invalid | None:
    """Return what to answer, and log where it happened; None for a fault of ours, such as a division by 0."""
    if getattr(error.__cause__, "sqlstate", None) not in OF_A_VALUE:
        return None
    log.warning("value_cannot_be_kept", exc_info=error)
    return Invalid("It has a character, a number or a date that cannot be stored.")
