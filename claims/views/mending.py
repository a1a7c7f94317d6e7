"""What one reader may do about what others did to the object of a claim."""

from __future__ import annotations

from dataclasses import dataclass

from claims.access import reason_not_to_end
from claims.observed import behind
from claims.views.facts import Facts
from teams.models import User


@dataclass(frozen=True)
class Mending:
    """The trouble of a claim, with what one reader may do about it."""

    trouble: behind.Trouble
    may_accept: bool
    may_label: bool


def mending_of(facts: Facts, user: User) -> Mending | None:
    trouble = behind.trouble_of(facts.claim, facts.seen)
    if trouble is None:
        return None
    may_end = not reason_not_to_end(user, facts.claim, facts.role)
    return Mending(
        trouble,
        may_accept=trouble.code == behind.REPLACED and user.is_platform_admin,
        may_label=trouble.code == behind.UNLABELLED and may_end,
    )
