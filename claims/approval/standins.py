"""Who decides in whose place now. A stand-in has what the lead has, and no more."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from claims.models import Delegation
from teams.models import Membership, Role, Team, User

LEADS = tuple(role for role in Role if role.rank >= Role.LEAD.rank)
MEMBERS = tuple(role for role in Role if role.rank >= Role.MEMBER.rank)


def active(now: datetime | None = None) -> QuerySet[Delegation]:
    """
    Return the delegations that hold at this instant: begun, not ended, by somebody who still leads the team,
    to somebody who is still a member of it and can sign in.
    """
    at = now or timezone.now()
    of_team = Membership.objects.filter(team=OuterRef("team"))
    return (
        Delegation.objects.filter(starts_at__lte=at, ends_at__gt=at, to__is_active=True, lead__is_active=True)
        .filter(
            Exists(of_team.filter(user=OuterRef("lead"), role__in=LEADS)),
            Exists(of_team.filter(user=OuterRef("to"), role__in=MEMBERS)),
        )
        .select_related("lead", "to", "team")
    )


def stand_ins(teams: Iterable[Team]) -> list[Delegation]:
    """Return who stands in for whom in these teams now, in one query."""
    return list(active().filter(team__in=list(teams)))


def held_by(user: User) -> list[Delegation]:
    """Return for whom `user` decides now, in one query."""
    return list(active().filter(to=user))
