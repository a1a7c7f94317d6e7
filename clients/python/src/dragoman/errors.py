"""
Errors: one class for each kind of refusal of the portal, with its sentence as message.

The portal answers with problem documents (RFC 9457). Classes follow the HTTP status; a code that needs
another reaction has a class of its own below it. A code that this version does not know gets the class of its
status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class DragomanError(Exception):
    """Everything that this package raises on purpose."""


class ConfigurationError(DragomanError):
    """The address of the portal or the token is missing or cannot be read."""


class WaitTimeout(DragomanError, TimeoutError):
    """The claim was not ready in the given time. It still exists, unless a block has released it."""


class ClaimEnded(DragomanError):
    """The claim ended before it could be used: denied, withdrawn, expired, failed or released."""

    def __init__(self, message: str, *, state: str) -> None:
        super().__init__(message)
        self.state = state


@dataclass(frozen=True)
class FieldError:
    """A field of a malformed request; `field` is a path such as `together.0.devices`."""

    field: str
    message: str
    code: str


class Refused(DragomanError):
    """
    The portal refused a request.

    `code` is stable and for programs, `status` is the HTTP status (0 if no answer came), `problem` is the
    whole document.
    """

    def __init__(
        self, message: str, *, status: int = 0, code: str = "", problem: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.code = message, status, code
        self.problem: Mapping[str, Any] = problem or {}

    def say_more(self, sentence: str) -> None:
        """Add what helps to the sentence of the portal."""
        self.message = f"{self.message} {sentence}"
        self.args = (self.message,)

    @property
    def fields(self) -> tuple[FieldError, ...]:
        """The fields that are wrong, for a malformed request."""
        return tuple(
            FieldError(str(row.get("field", "")), str(row.get("message", "")), str(row.get("code", "")))
            for row in self.problem.get("errors") or ()
            if isinstance(row, Mapping)
        )


class Unauthenticated(Refused):
    """401: no token, or it is unknown, expired or revoked."""


class Forbidden(Refused):
    """403: your role does not allow it."""


class NotFound(Refused):
    """404: it does not exist, or you do not have access."""


class Conflict(Refused):
    """409: taken, used up, or changed in the meantime."""


class QuotaExceeded(Conflict):
    """409: the team would hold more than its quota allows."""


class BudgetExceeded(Conflict):
    """409: the team might spend more than its budget has left."""


class Invalid(Refused):
    """400, 413, 422: the request is malformed; `fields` says where."""


class UnknownName(Invalid, NotFound):
    """422: the request names a cluster or profile that does not exist, or that you may not see."""


class TooManyRequests(Refused):
    """429: too many requests; `retry_after` has the seconds, None if the portal does not say."""

    retry_after: float | None = None


class Unavailable(Refused):
    """The portal does not answer, or answers with an error of its own (5xx)."""


BY_STATUS: dict[int, type[Refused]] = {
    400: Invalid,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: Invalid,
    422: Invalid,
    429: TooManyRequests,
}
BY_CODE: dict[str, type[Refused]] = {
    "quota-exceeded": QuotaExceeded,
    "budget-exceeded": BudgetExceeded,
    "unknown-name": UnknownName,
}


def refusal(status: int, problem: Mapping[str, Any] | None, *, address: str) -> Refused:
    """Return the error of an answer; `problem` is None if its body is no problem document."""
    kind = BY_STATUS.get(status, Unavailable if status >= 500 else Refused)
    if problem is None:
        return kind(f"{address} answered {status} without an explanation.", status=status)
    code = str(problem.get("code") or "")
    message = str(problem.get("detail") or problem.get("title") or f"{address} answered {status}.")
    return BY_CODE.get(code, kind)(message, status=status, code=code, problem=problem)
