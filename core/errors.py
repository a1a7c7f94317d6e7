"""What the portal says when it will not do something: one exception, one code, one sentence with numbers."""

from typing import Any


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
    title = "You may not do this"


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
