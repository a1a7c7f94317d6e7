"""What can be done with a claim and what is under way: the buttons and banners of its page."""

from __future__ import annotations

from typing import Any

from claims.access import reason_not_to_end
from claims.life.extensions import Terms, deleted_at, in_grace, waiting_on
from claims.models import Claim
from claims.states import RUNNING, ClaimState
from claims.views.facts import Facts
from teams.models import User


def options_of(facts: Facts, user: User) -> dict[str, Any]:
    """
    Return the context of `claims/_actions.html` and `claims/_life.html`.

    `free_extension` is by how much the reader may extend without asking.
    """
    claim = facts.claim
    running = claim.state in RUNNING
    may_change = running and not reason_not_to_end(user, claim, facts.role)
    successor = facts.successor
    before = claim.replaces
    timed = may_change and claim.expires_at is not None
    return {
        "can_extend": timed and successor is None,
        "can_shorten": timed and not in_grace(claim),
        "can_transfer": may_change,
        "can_change": may_change and successor is None and (before is None or before.is_final),
        "successor": successor if running else None,
        "replaced_by": successor if claim.is_final else None,
        "predecessor": before,
        "is_crowded": before is not None and _waits_for(claim, before),
        "may_release_predecessor": before is not None
        and before.state in RUNNING
        and not reason_not_to_end(user, before, facts.role),
        "extension": waiting_on(claim) if running else None,
        "in_grace": in_grace(claim),
        "deleted_at": deleted_at(claim),
        "free_extension": Terms(claim, by=user).at_a_time if timed and successor is None else None,
    }


def _waits_for(claim: Claim, before: Claim) -> bool:
    """Tell whether a claim waits for devices while the one that it replaces may be holding them."""
    return claim.state == ClaimState.PROVISIONED and before.state == ClaimState.ALLOCATED
