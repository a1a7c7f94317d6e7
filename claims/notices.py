"""Notices about a claim."""

from collections.abc import Iterable
from typing import Any

from django.urls import reverse

from claims.models import Claim
from notify.services import notify
from teams.models import User


def notify_of(claim: Claim, people: Iterable[User] | None = None, *, url: str = "", **said: Any) -> None:
    """Notify `people`, else the owner, with a link to its page or `url`; `said` as in `notify`."""
    people = [claim.requested_by] if people is None else people
    url = url or reverse("claims:detail", args=[claim.pk])
    notify(people, url=url, **{"team_id": claim.team_id, **said})
