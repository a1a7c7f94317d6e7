"""Who may ask for anything at all: somebody who is a member of a team."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.utils.translation import gettext as _

from teams.access import asker, teams_where
from teams.models import Role, User


def may_ask(request: HttpRequest) -> bool:
    return bool(teams_where(asker(request), at_least=Role.MEMBER))


def require_member(request: HttpRequest) -> User:
    """Return the reader; 403 for whoever is a member of no team, before they fill anything in."""
    if not may_ask(request):
        raise PermissionDenied(
            _("You are a member of no team, so there is nobody you could ask for GPUs for.")
        )
    return asker(request)
