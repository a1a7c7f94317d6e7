"""
The only team that a request may see, if its API token is limited to one.

The authentication of tokens says it once per request. `Team.objects.visible_to`, on which the `visible_to` of
everything else is built, reads it, and so do compiled queries (`core.prepared`), whose text depends on it.
"""

from contextvars import ContextVar
from uuid import UUID

_team: ContextVar[UUID | None] = ContextVar("team", default=None)


def limiting_team() -> UUID | None:
    """Return the only team that this request may see; None if it may see all teams of its user."""
    return _team.get()


def limit_to_team(team: UUID | None) -> None:
    """Limit the request to a team, until it ends (`core.origin.OriginMiddleware`)."""
    _team.set(team)
