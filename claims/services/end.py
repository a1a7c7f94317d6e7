"""Giving back: a request before it is decided, or a claim after."""

from django.db import transaction
from django.utils.translation import gettext as _

from claims import tasks
from claims.access import reason_not_to_end
from claims.models import Claim
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, IllegalTransition
from core.locking import lock_row
from core.queueing import after_commit
from teams.access import require_role
from teams.models import Role, User


@transaction.atomic(durable=True)
def withdraw(*, claim: Claim, by: User, reason: str = "") -> Claim:
    """Take a request back before it is decided. Raises Forbidden, IllegalTransition, Conflict."""
    claim = _own(claim, by)
    if claim.state == ClaimState.WITHDRAWN:
        return claim
    if claim.state != ClaimState.REQUESTED:
        raise IllegalTransition(
            _(
                "%(claim)s is not waiting for a decision any more, so it cannot be withdrawn; "
                "it is “%(state)s”."
            )
            % {"claim": claim, "state": claim.get_state_display()}
        )
    if not claim.advance(ClaimState.WITHDRAWN, why=reason.strip() or _("Withdrawn."), by=by, problem=""):
        raise _moved(claim)
    return claim


@transaction.atomic(durable=True)
def release(*, claim: Claim, by: User, reason: str = "") -> Claim:
    """
    Give devices back: the portal deletes the object, and pods that still use it keep the devices until they
    end.

    Raises Forbidden, IllegalTransition, Conflict.
    """
    claim = _own(claim, by)
    if claim.state in (ClaimState.RELEASING, ClaimState.RELEASED):
        return claim
    if claim.state not in (ClaimState.APPROVED, ClaimState.PROVISIONED, ClaimState.ALLOCATED):
        raise IllegalTransition(
            _("%(claim)s holds nothing that could be released; it is “%(state)s”.")
            % {"claim": claim, "state": claim.get_state_display()}
        )
    if not claim.advance(ClaimState.RELEASING, why=reason.strip() or _("Released by its team."), by=by):
        raise _moved(claim)
    after_commit(tasks.remove, str(claim.pk))
    return claim


def _own(claim: Claim, by: User) -> Claim:
    """
    Read the claim under its lock: whoever gives it back means it, whether a pod has got the devices at this
    moment or not.
    """
    role = require_role(by, claim.team, at_least=Role.MEMBER)
    claim = lock_row(Claim.objects.select_related("team", "requested_by"), claim.pk)
    if reason := reason_not_to_end(by, claim, role):
        raise Forbidden(reason)
    return claim


def _moved(claim: Claim) -> Conflict:
    claim.refresh_from_db(fields=["state"])
    return Conflict(
        _("%(claim)s has changed in the meantime and is now “%(state)s”.")
        % {"claim": claim, "state": claim.get_state_display()}
    )
