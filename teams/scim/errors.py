"""Refusals with the keyword that SCIM has for them (RFC 7644 §3.12); `views` answers them in its form."""

from core.errors import Conflict, Invalid
from teams.models import User


class NotUnique(Conflict):
    """Somebody or something else has this name, or the account is not this provider's: 409."""

    scim_type = "uniqueness"


class OutOfReach(NotUnique):
    """`ended` is the account that the provider wanted to end and may not, None for another change."""

    ended: User | None = None


class InvalidValue(Invalid):
    """A value that cannot be stored, or a member that nobody is: 400."""

    scim_type = "invalidValue"
