"""
Notices about the claims of somebody who leaves: a team, through their groups, or the portal.

The claims stay with their team and keep running; its leads transfer or release them.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.db.models import Count
from django.urls import reverse
from django.utils import timezone

from claims.models import Claim
from core.text import counted
from notify.models import NoticeKind
from notify.services import notify
from teams.access import people_in
from teams.models import Role, Team, User

GIVES_NONE = "Groups of the identity provider give no role there any more."


def notify_of_lost_access(person: User, team: Team) -> None:
    """Tell somebody who lost a team through their groups, and its leads, what becomes of the claims."""
    count = Claim.objects.live().filter(team=team, requested_by=person).count()
    live = stay(count, "the team")
    key = f"access-lost:{team.pk}:{person.pk}:{timezone.now():%Y%m%d%H%M}"
    mine = f"Your {live}; its leads extend, transfer or release them." if count else "You had no live claims."
    theirs = f"Their {live}: transfer or release them." if count else "They had no live claims."
    common: dict[str, Any] = {"kind": NoticeKind.CHANGE, "key": key}
    notify([person], title=f"You are no longer in {team}", body=f"{GIVES_NONE} {mine}", **common)
    notify(
        people_in(team, at_least=Role.LEAD),
        title=f"{person.label} is no longer in {team}",
        body=f"{GIVES_NONE} {theirs}",
        team_id=team.pk,
        url=claims_of(team, person),
        important=bool(count),
        **common,
    )


def notify_of_ended_account(person: User, *, by: str) -> None:
    """Tell the leads of each team in which somebody has live claims that their account has ended."""
    live = Claim.objects.live().filter(requested_by=person).order_by()
    counts = dict(live.values_list("team").annotate(Count("pk")))
    for team in Team.objects.filter(pk__in=counts):
        notify(
            people_in(team, at_least=Role.LEAD),
            kind=NoticeKind.CHANGE,
            key=f"account-ended:{team.pk}:{person.pk}:{timezone.now():%Y%m%d%H%M}",
            title=f"The account of {person.label} has ended",
            body=f"It was deactivated {by}. {stay(counts[team.pk], str(team))}: transfer or release them.",
            team_id=team.pk,
            url=claims_of(team, person),
            important=True,
        )


def stay(count: int, where: str) -> str:
    """Return "2 live claims stay with vision and keep running"."""
    one = count == 1
    return f"{counted(count, 'live claim')} stay{'s' * one} with {where} and keep{'s' * one} running"


def claims_of(team: Team, person: User) -> str:
    """Return the address of the claims of a person in a team."""
    return f"{reverse('claims:list')}?{urlencode({'team': team.slug, 'q': person.username})}"
