"""What the database cannot keep: a NUL in a text, a number beyond its column. Whoever sent it hears 422."""

import structlog
from django.db import DataError

from core.errors import Invalid

# Of SQLSTATE class 22, what comes of a value that was sent. psycopg refuses a NUL itself, without a code.
OF_A_VALUE = frozenset((None, "22001", "22003", "22007", "22008", "22021", "22P02", "22P05"))

log = structlog.get_logger(__name__)


def refusal_of(error: DataError) -> Invalid | None:
    """Return what to answer, and log where it happened; None for a fault of ours, such as a division by 0."""
    if getattr(error.__cause__, "sqlstate", None) not in OF_A_VALUE:
        return None
    log.warning("value_cannot_be_kept", exc_info=error)
    return Invalid("It has a character, a number or a date that cannot be stored.")
