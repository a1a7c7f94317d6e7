"""
Entries of the record, newest first: histories of claims (`Transition`), and changes of all else, which are
entries of the audit log (`AuditEntry`).

Both tables are only ever added to, and each has an index by team and time. A page reads as many rows of each
as it shows, beginning where the page before it ended, and merges them; no row is counted or sorted over all
history ([decision 16](docs/decisions/0016-activity.md)).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import F, Q, QuerySet
from django.urls import reverse

from claims.models import Transition
from claims.states import LOOK, ClaimState
from core.errors import Invalid
from core.origin import Source
from teams.audit.actions import verb_of
from teams.models import AuditEntry, Team, User

S = ClaimState
CLAIM, CHANGE = "t", "c"  # how ids of entries begin; of entries at the same time those of claims come first
CHUNK = 1_000  # entries of a CSV that are read at once
MAX_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Action:
    """A kind of action: the rows of one of the two tables."""

    label: str
    transitions: Q | None = None
    kinds: tuple[str, ...] = ()


MOVED = ~Q(old=F("new"))
ACTIONS = {
    "request": Action("Requests", Q(old="")),
    "decision": Action("Decisions", MOVED & Q(new__in=(S.APPROVED, S.DENIED))),
    "devices": Action("Objects and devices", MOVED & Q(new__in=(S.PROVISIONED, S.ALLOCATED))),
    "end": Action(
        "Ends of claims", Q(new__in=(S.RELEASING, S.RELEASED, S.WITHDRAWN, S.EXPIRED, S.FAILED)) & MOVED
    ),
    "change": Action("Changes of claims", Q(old=F("new"))),
    "quota": Action("Quota", kinds=("quota", "quotarequest")),
    "budget": Action("Budgets", kinds=("budget",)),
    "people": Action("Teams and people", kinds=("team", "user", "invitation", "authenticator")),
    "token": Action("API tokens", kinds=("apitoken",)),
    "rule": Action("Approval rules and delegations", kinds=("approvalrule", "delegation")),
    "profile": Action("Profiles", kinds=("profile",)),
    "rate": Action("Rates and closed months", kinds=("rate", "closedmonth")),
    "cluster": Action("Clusters", kinds=("cluster",)),
    "settings": Action(
        "Settings", kinds=("installation", "idlepolicy", "trackingserver", "identityprovider", "grouprule")
    ),
}
OF_PLATFORM = frozenset({"token", "profile", "rate", "cluster", "settings"})  # they belong to no team

# state → verb of whoever brought a claim into it
VERBS = {
    S.REQUESTED: "returned to approvers",
    S.APPROVED: "approved",
    S.PROVISIONED: "created the object",
    S.ALLOCATED: "allocated devices",
    S.RELEASING: "released",
    S.RELEASED: "deleted the object",
    S.DENIED: "denied",
    S.WITHDRAWN: "withdrew",
    S.EXPIRED: "ended on expiry",
    S.FAILED: "ended as failed",
}
# kind of object → (icon, what it is called)
KINDS = {
    "quota": ("gauge", "a quota"),
    "quotarequest": ("gauge", "a quota request"),
    "budget": ("target", "a budget"),
    "team": ("users", "the team"),
    "user": ("user", "an account"),
    "invitation": ("send", "an invitation"),
    "authenticator": ("fingerprint", "a second factor"),
    "apitoken": ("key", "an API token"),
    "approvalrule": ("checks", "an approval rule"),
    "delegation": ("user-check", "a delegation"),
    "profile": ("template", "a profile"),
    "rate": ("receipt-euro", "a rate"),
    "closedmonth": ("lock", "a month"),
    "cluster": ("sitemap", "a cluster"),
    "trackingserver": ("activity", "a tracking server"),
    "identityprovider": ("login-2", "an identity provider"),
    "grouprule": ("users-group", "a group rule"),
    "installation": ("settings", "the settings"),
}
# What a remark on a claim that stays in its state is → (icon, verb); any other is "changed".
REMARKS = {
    "claim.extension_requested": ("calendar-plus", "requested an extension"),
    "claim.extension_withdrawn": ("arrow-back-up", "withdrew an extension request"),
    "claim.extended": ("calendar-plus", "extended"),
    "claim.extension_denied": ("circle-x", "denied an extension"),
    "claim.shortened": ("calendar", "shortened"),
    "claim.transferred": ("user-check", "transferred"),
    "claim.consented": ("check", "gave the first approval"),
    "claim.idle": ("zzz", "notified"),
    "claim.reminded": ("bell-ringing", "sent a reminder"),
    "claim.snoozed": ("clock-pause", "snoozed"),
    "claim.kept": ("check", "kept"),
    "claim.evicted": ("plug-connected-x", "announced the eviction of pods"),
}
EXTRA_BUDGET = ": extra budget"  # the end of the name of a quota request for a budget
# Verbs that name their object.
WHOLE_VERBS = {
    ("requested", "quotarequest"): "requested quota",
    ("requested", "budget"): "requested extra budget",
    ("delegated", "delegation"): "delegated approvals",
}


class Position(NamedTuple):
    """Where an entry stands: its time, its table, and its key there."""

    at: datetime
    table: str
    key: Any

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        return f"{self.at.isoformat()}~{self.id}"

    @property
    def id(self) -> str:
        return f"{self.table}{self.key.hex if isinstance(self.key, UUID) else self.key}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Raises Invalid."""
        at, _tilde, entry = text.partition("~")
        try:
            instant = datetime.fromisoformat(at)
            key = parse_id(entry)
        except ValueError:
            instant = None
            key = None
        if instant is None or key is None or instant.tzinfo is None or not 1970 <= instant.year <= 2200:
            raise Invalid(
                "This is no position in the list. Start again from its newest entry.", field="before"
            )
        return cls(instant, *key)


def parse_id(text: str) -> tuple[str, Any] | None:
    """Return table and key of the id of an entry, None for any other text."""
    table, key = text[:1], text[1:]
    if table == CLAIM and key.isascii() and key.isdigit() and len(key) < 20 and int(key) <= MAX_ID:
        return CLAIM, int(key)
    try:
        return (CHANGE, UUID(key)) if table == CHANGE and len(key) == 32 else None
    except ValueError:
        return None


class Value(NamedTuple):
    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ActivityEntry:
    """
    One entry. `place` is the title of a token or a cluster; `url` is the page of the claim, and of other
    objects after `portal.activity.links`.

    `by` is "" for the portal and for Kubernetes. `text` may have moments that `local_times` shows.
    """

    position: Position
    by: str
    icon: str
    verb: str
    name: str
    url: str
    text: str
    team: str
    source: Source
    place: str
    values: list[Value] = field(default_factory=list)
    reason: str = ""
    kind: str = ""  # of the changed object, "" for a claim
    object_id: str = ""

    @property
    def id(self) -> str:
        return self.position.id

    @property
    def at(self) -> datetime:
        return self.position.at

    @property
    def who(self) -> str:
        return self.by or ("Kubernetes" if self.source == Source.CLUSTER else "The portal")


@dataclass(frozen=True, slots=True)
class Filter:
    """
    Which entries: of one `team`, else of `teams`, else all of them, for platform admins. `entry` is the id of
    only one.
    """

    team: UUID | None = None
    teams: QuerySet[Team] | None = None
    who: str = ""
    action: str = ""
    source: str = ""
    q: str = ""
    since: datetime | None = None
    until: datetime | None = None
    entry: str = ""

    def _common(self) -> Q:
        found = Q() if self.team is None else Q(team=self.team)
        if self.teams is not None:
            found &= Q(team__in=self.teams.order_by().values("pk"))
        if self.who:
            found &= Q(by__in=people_named(self.who))
        if self.source:
            found &= Q(source=self.source)
        if self.since:
            found &= Q(at__gte=self.since)
        if self.until:
            found &= Q(at__lt=self.until)
        return found

    def transitions(self) -> Q | None:
        """Return the condition on `Transition`, None for none of them."""
        action = ACTIONS.get(self.action)
        if self.entry:
            table, key = parse_id(self.entry) or (None, None)
            return self._common() & Q(pk=key) if table == CLAIM else None
        if action and action.transitions is None:
            return None
        found = self._common() & (action.transitions or Q() if action else Q())
        for word in self.q.split():
            found &= Q(reason__icontains=word) | Q(claim__name__icontains=word)
        return found

    def changes(self) -> Q | None:
        """Return the condition on `AuditEntry`, None for none of them."""
        action = ACTIONS.get(self.action)
        if self.entry:
            table, key = parse_id(self.entry) or (None, None)
            return self._common() & Q(pk=key, in_activity=True) if table == CHANGE else None
        if action and not action.kinds:
            return None
        found = self._common() & Q(in_activity=True) & (Q(kind__in=action.kinds) if action else Q())
        for word in self.q.split():
            found &= Q(text__icontains=word) | Q(name__icontains=word) | Q(reason__icontains=word)
        return found


def people_named(text: str) -> QuerySet[User, Any]:
    """Return the keys of people with this user name, or with each of these words in their names."""
    by_name = Q()
    for word in text.split():
        by_name &= Q(first_name__icontains=word) | Q(last_name__icontains=word)
    return User.objects.filter(Q(username__iexact=text) | by_name).values("pk")


def read_entries(chosen: Filter, *, limit: int, before: Position | None = None) -> list[ActivityEntry]:
    """Return up to `limit` entries, newest first, that are older than `before`; two queries."""
    tables = ((CLAIM, chosen.transitions(), _transitions), (CHANGE, chosen.changes(), _changes))
    read = [
        rows(condition & _older(before, table), limit)
        for table, condition, rows in tables
        if condition is not None
    ]
    merged = heapq.merge(*read, key=lambda entry: entry.position, reverse=True)
    return [entry for entry, _number in zip(merged, range(limit), strict=False)]


def all_entries(chosen: Filter) -> Iterator[ActivityEntry]:
    """Yield all entries, newest first, in chunks that continue where the one before ended."""
    before = None
    while entries := read_entries(chosen, limit=CHUNK, before=before):
        yield from entries
        before = entries[-1].position


def _older(than: Position | None, table: str) -> Q:
    if than is None:
        return Q()
    if table == than.table:
        return Q(at__lte=than.at) & (Q(at__lt=than.at) | Q(pk__lt=than.key))
    return Q(at__lte=than.at) if table < than.table else Q(at__lt=than.at)


PERSON = ("by__username", "by__first_name", "by__last_name")
TRANSITION_FIELDS = (
    *("pk", "at", "source", "via", "values", *PERSON),
    *("old", "new", "reason", "action", "claim_id", "claim__name", "claim__cluster__name", "team__slug"),
)
CHANGE_FIELDS = (
    *("pk", "at", "source", "via", "values", *PERSON),
    *("kind", "object_id", "name", "text", "reason", "team__slug", "actor"),
)


def _transitions(condition: Q, limit: int) -> list[ActivityEntry]:
    rows = (
        Transition.objects.filter(condition)
        .order_by("-at", "-pk")
        .values_list(*TRANSITION_FIELDS, named=True)
    )
    return [_of_claim(row) for row in rows[:limit]]


def _of_claim(row: Any) -> ActivityEntry:
    """Return the entry of a row with `TRANSITION_FIELDS`."""
    moved, values = row.old != row.new, row.values
    icon, verb = LOOK[row.new][1], VERBS[S(row.new)]
    if not row.old:
        icon, verb = "send", "requested" if row.new == S.REQUESTED else "adopted"
    elif not moved:
        icon, verb = REMARKS.get(row.action, ("edit", "changed"))
    elif row.old == S.ALLOCATED and row.new == S.PROVISIONED:
        verb = "took the devices back"
    if row.old and moved:
        values = [["State", S(row.old).label, S(row.new).label], *values]
    return ActivityEntry(
        position=Position(row.at, CLAIM, row.pk),
        by=_label(row),
        icon=icon,
        verb=verb,
        name=row.claim__name,
        url=reverse("claims:detail", args=[row.claim_id]),
        text=row.reason,
        team=row.team__slug,
        source=Source(row.source),
        place=row.claim__cluster__name if row.source == Source.CLUSTER else row.via,
        values=[Value(*value) for value in values],
    )


def _changes(condition: Q, limit: int) -> list[ActivityEntry]:
    rows = AuditEntry.objects.filter(condition).order_by("-at", "-pk").values_list(*CHANGE_FIELDS, named=True)
    return [_of_change(row) for row in rows[:limit]]


def _of_change(row: Any) -> ActivityEntry:
    """Return the entry of a row with `CHANGE_FIELDS`."""
    icon, thing = KINDS.get(row.kind, ("edit", "an object"))
    if row.kind == "quotarequest" and row.name.endswith(EXTRA_BUDGET):
        icon, thing = "target", "a request for extra budget"
    verb = verb_of(row.text)
    return ActivityEntry(
        position=Position(row.at, CHANGE, row.pk),
        by=_label(row) or row.actor,  # whose account may be gone
        icon=icon,
        verb=WHOLE_VERBS.get((verb, row.kind)) or f"{verb} {thing}",
        name=row.name,
        url="",
        text="" if row.text == verb else row.text,
        team=row.team__slug or "",
        source=Source(row.source),
        place=row.via,
        values=[Value(*value) for value in row.values],
        reason=row.reason,
        kind=row.kind,
        object_id=row.object_id,
    )


def _label(row: Any) -> str:
    """Return the label of the person of a row, as `User.label` does; "" for nobody."""
    if row.by__username is None:
        return ""
    return f"{row.by__first_name} {row.by__last_name}".strip() or row.by__username
