"""Reading the claim of somebody who is about to change it, under its lock."""

from datetime import datetime

from django.utils.translation import gettext as _

from claims.life.extensions import RUNNING
from claims.models import Claim
from claims.services.end import reason_not_to_end
from core.errors import Conflict, Forbidden
from core.locking import lock_row
from teams.access import require_role
from teams.models import Role, User

RELATED = ("team", "cluster", "requested_by", "profile_version__profile")


def locked(claim: Claim) -> Claim:
    """Read the claim anew and lock its row, so that what is decided on it stays true until the commit."""
    return lock_row(Claim.objects.select_related(*RELATED), claim.pk)


def own(claim: Claim, by: User) -> Claim:
    """
    Return the claim, locked, for its owner or a lead. Raises Http404 for an outsider, PermissionDenied for a
    viewer, Forbidden for other members.
    """
    role = require_role(by, claim.team, at_least=Role.MEMBER)
    claim = locked(claim)
    if reason := reason_not_to_end(by, claim, role):
        raise Forbidden(reason)
    return claim


def require_running(claim: Claim) -> datetime:
    """Return the end of a claim whose time runs; raise Conflict for any other."""
    if claim.state not in RUNNING:
        raise Conflict(
            _("%(claim)s is “%(state)s”; it has no time that could be changed.")
            % {"claim": claim, "state": claim.get_state_display()}
        )
    if claim.expires_at is None:
        raise Conflict(_("%(claim)s has no end.") % {"claim": claim})
    return claim.expires_at
