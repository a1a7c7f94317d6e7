"""Entries of the audit log that match, newest first; each filter but the words has an index with the time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import or_

from django.db.models import Q, QuerySet

from portal.activity.entries import CHANGE, CHUNK, Position, parse_id, people_named
from teams.audit.actions import ACTIONS
from teams.models import AuditEntry, Team

# What a filter by object offers: model → words.
KINDS = {
    "admin": "Django's admin",
    "apitoken": "API token",
    "approvalrule": "approval rule",
    "audit": "audit log",
    "budget": "budget",
    "claim": "claim",
    "closedmonth": "month",
    "cluster": "cluster",
    "delegation": "delegation",
    "export": "download",
    "idlepolicy": "policy for idle claims",
    "installation": "settings",
    "invitation": "invitation",
    "profile": "profile",
    "quota": "quota",
    "quotarequest": "quota request",
    "rate": "rate",
    "reasontemplate": "saved reason",
    "team": "team",
    "trackingserver": "tracking server",
    "user": "person",
}


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """
    Which entries. `action` is a code or how codes begin ("claim."), `team` a slug, `token` the start of one,
    `entry` the id of only one.
    """

    q: str = ""
    who: str = ""
    action: str = ""
    kind: str = ""
    object: str = ""
    team: str = ""
    token: str = ""
    address: str = ""
    since: datetime | None = None
    until: datetime | None = None
    entry: str = ""

    def condition(self) -> Q:
        if self.entry:
            _table, key = parse_id(self.entry) or (None, None)
            return Q(pk=key)
        found = Q()
        if self.who:
            found &= Q(by__in=people_named(self.who))
        if self.team:  # its key by a subquery: a join would read the whole log for a team that is not there
            found &= Q(team=Team.objects.filter(slug=self.team).values("pk")[:1])
        if self.action:
            lookup = "action" if self.action in ACTIONS else "action__startswith"
            found &= Q(**{lookup: self.action})
        exact = {
            "kind": self.kind,
            "object_id": self.object,
            "token": self.token,
            "address": self.address,
            "at__gte": self.since,
            "at__lt": self.until,
        }
        found &= Q(**{lookup: value for lookup, value in exact.items() if value})
        for word in self.q.split():
            texts = (Q(**{f"{field}__icontains": word}) for field in ("text", "name", "reason"))
            found &= reduce(or_, texts)
        return found


def position_of(entry: AuditEntry) -> Position:
    return Position(entry.at, CHANGE, entry.pk)


def read_rows(chosen: AuditFilter, *, limit: int, before: Position | None = None) -> list[AuditEntry]:
    """Return up to `limit` entries older than `before`, newest first, with author, team and seal."""
    condition = chosen.condition()
    if before is not None:
        condition &= Q(at__lte=before.at) & (Q(at__lt=before.at) | Q(pk__lt=before.key))
    rows: QuerySet[AuditEntry] = AuditEntry.objects.filter(condition).select_related("by", "team", "seal")
    return list(rows.order_by("-at", "-pk")[:limit])


def all_rows(chosen: AuditFilter) -> Iterator[AuditEntry]:
    """Yield all entries, newest first, in chunks that continue where the one before ended."""
    before = None
    while rows := read_rows(chosen, limit=CHUNK, before=before):
        yield from rows
        before = position_of(rows[-1])
