"""
Notices about the claims of somebody who leaves: a team, through their groups, or the portal.

The claims stay with their team and keep running; its leads transfer or release them.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def notify_of_lost_access(people: Sequence[User], team: Team) -> None:
    """
    Tell people who lost a team through their groups, and its leads, what becomes of the claims.

    Leads have one notice about all who lost it at once.
    """
    live = Claim.objects.live().filter(team=team, requested_by__in=people).order_by()
    held = dict(live.values_list("requested_by").annotate(Count("pk")))
    one = people[0]
    whose = one.pk if len(people) == 1 else f"many:{min(person.pk for person in people)}"
    key = f"access-lost:{team.pk}:{whose}:{timezone.now():%Y%m%d%H%M}"
    common: dict[str, Any] = {"kind": NoticeKind.CHANGE, "key": key}
    for count in {held.get(person.pk, 0) for person in people}:
        kept = f"Your {stay(count, 'the team')}; its leads extend, transfer or release them."
        notify(
            [person for person in people if held.get(person.pk, 0) == count],
            title=f"You are no longer in {team}",
            body=f"{GIVES_NONE} {kept if count else 'You had no live claims.'}",
            **common,
        )
    total = sum(held.values())
    theirs = (
        f"Their {stay(total, 'the team')}: transfer or release them." if total else "They had no live claims."
    )
    notify(
        people_in(team, at_least=Role.LEAD),
        title=f"{one.label} is no longer in {team}"
        if len(people) == 1
        else f"{len(people):,} people are no longer in {team}",
        body=f"{GIVES_NONE} {theirs}",
        team_id=team.pk,
        url=claims_of(team, one if len(people) == 1 else None),
        important=bool(total),
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


def claims_of(team: Team, person: User | None) -> str:
    """Return the address of the claims of a team, of a person alone if there is one."""
    query = {"team": team.slug} | ({"q": person.username} if person else {})
    return f"{reverse('claims:list')}?{urlencode(query)}"
