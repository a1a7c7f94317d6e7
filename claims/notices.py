"""Notices about a claim."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.urls import reverse

from claims.models import Claim
from notify.services import notify, resolve
from teams.models import User

# Until when notices about a claim need somebody, by the first part of their keys; its id follows.
UNTIL_DECIDED = ("ask", "remind", "escalated", "undecided", "changed")
UNTIL_USED = ("unused", "disrupted")
WHILE_IDLE = ("idle", "idle-leads", "remind")
UNTIL_ENDED = (*WHILE_IDLE, "ends", "silent")
UNTIL_OVER = (*UNTIL_ENDED, "ended", "overstay", "ask-evict", "evict", "not-evicted", "drift", "disrupted")
OF_OWNER = (*UNTIL_USED, "idle", "remind", "ends", "silent", "drift")  # not of leads
LEFT = ("account-ended", "access-lost")  # the ids of team and person follow


def notify_of(claim: Claim, people: Iterable[User] | None = None, *, url: str = "", **said: Any) -> None:
    """Notify `people`, else the owner, with a link to its page or `url`; `said` as in `notify`."""
    people = [claim.requested_by] if people is None else people
    url = url or reverse("claims:detail", args=[claim.pk])
    notify(people, url=url, **{"team_id": claim.team_id, **said})


def resolve_idle(*claims: UUID) -> None:
    """They work again, or somebody said that they are still needed."""
    resolve(*(f"{kind}:{claim}" for kind in WHILE_IDLE for claim in claims))


def resolve_of_leaver(claim: Claim, owner: UUID) -> None:
    """What leads were asked to do with the claims of somebody who has left is done with the last one."""
    if not Claim.objects.live().filter(team=claim.team_id, requested_by=owner).exists():
        resolve(*(f"{kind}:{claim.team_id}:{owner}" for kind in LEFT))
