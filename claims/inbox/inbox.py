"""
The inbox: pending and decided requests for claims, extensions and quota as one list.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache, cached_property, lru_cache, reduce
from itertools import chain
from operator import or_
from typing import Any, Literal, NamedTuple, cast, overload
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import (
    BooleanField,
    CharField,
    Exists,
    ExpressionWrapper,
    F,
    OuterRef,
    Q,
    QuerySet,
    Value,
)
from django.urls import reverse
from django.utils import timezone

from claims.approvals.authority import ApprovalAuthority
from claims.approvals.pending import waits_for
from claims.budgets.use import more_budget
from claims.inbox.comments import OPEN_QUESTION
from claims.models import (
    Alternative,
    Claim,
    Extension,
    PendingDecision,
    QuotaRequest,
    RequestStatus,
    join_profiles,
    names_profile,
)
from claims.plans.changes import size_in_words
from claims.states import ClaimState
from core.filters import like_pattern
from core.listing import MAX_COUNT
from core.prepared import Prepared, by_keys, partial_object
from core.times import duration, moment
from teams.access import memberships_of
from teams.models import Team, User

type ItemKind = Literal["claim", "extension", "quota"]
type Tab = Literal["mine", "team", "all", "decided"]

PENDING_TABS: tuple[Tab, ...] = ("mine", "team", "all")
TABS: tuple[Tab, ...] = (*PENDING_TABS, "decided")
DUE_SOON_AFTER, OVERDUE_AFTER = timedelta(hours=4), timedelta(hours=24)
AGE_LABELS = {"fresh": "new", "aging": "due soon", "late": "overdue"}


@dataclass(frozen=True, slots=True)
class Item:
    """
    One row of the inbox, for a request of any kind.

    `mine` is whether it waits for the reader, `remarks` are further lines of the row, `decision` is "" while
    the request is pending.
    """

    kind: ItemKind
    pk: UUID
    title: str
    summary: str
    team: Team
    requester: User
    requested_at: datetime
    url: str
    mine: bool = False
    remarks: tuple[str, ...] = ()
    decision: str = ""
    decided_at: datetime | None = None
    decided_by: User | None = None
    is_budget: bool = False  # a request for quota is for extra budget

    @property
    def label(self) -> str:
        if self.is_budget:
            return "Budget"
        return {"claim": "Claim", "extension": "Extension", "quota": "Quota"}[self.kind]

    @property
    def age(self) -> str:
        """The age in the API: "fresh" below 4 hours, "aging" below 24, "late" from then on."""
        waited = timezone.now() - self.requested_at
        return "fresh" if waited < DUE_SOON_AFTER else "aging" if waited < OVERDUE_AFTER else "late"

    @property
    def age_label(self) -> str:
        return AGE_LABELS[self.age]


@dataclass(frozen=True, slots=True)
class InboxSearch:
    """Search of the inbox; `team` and `profile` are slugs, "" matches everything."""

    words: str = ""
    team: str = ""
    profile: str = ""

    @property
    def patterns(self) -> tuple[str, ...]:
        """The pattern of LIKE of each word."""
        return tuple(map(like_pattern, self.words.split()))

    def condition(self, fields: Sequence[str], team: str, *, profile_titles: bool = False) -> Q:
        """
        Return the condition on the team and the words: each word is in one of `fields`, or for claims, with
        `profile_titles`, in the title of a profile.
        """
        condition = Q()
        for pattern in self.patterns:
            matches = Q(*[(f"{field}__matches", pattern) for field in fields], _connector=Q.OR)
            condition &= (matches | names_profile(title__matches=pattern)) if profile_titles else matches
        return condition & Q((team, self.team)) if self.team else condition


@dataclass(frozen=True, slots=True)
class PreparedSearch(InboxSearch):
    """A search whose patterns are placeholders of a prepared query."""

    placeholders: tuple[str, ...] = ()

    @property
    def patterns(self) -> tuple[str, ...]:
        return self.placeholders


class Inbox:
    """The inbox of one person. Each list reads a page of rows, in a fixed number of queries."""

    def __init__(self, user: User, search: InboxSearch | None = None, *, now: datetime | None = None) -> None:
        self.user = user
        self.now = now
        self.search = search or InboxSearch()

    @cached_property
    def authority(self) -> ApprovalAuthority:
        return ApprovalAuthority(self.user)

    def pending(self, *, for_reader: bool = False) -> PendingItems:
        """Return pending requests, oldest first; with `for_reader` only those that wait for the reader."""
        return PendingItems(self, "mine" if for_reader else "all")

    def tab(self, tab: Tab) -> Sequence[Item]:
        return DecidedItems(self) if tab == "decided" else PendingItems(self, tab)

    def pending_decisions(self, tab: Tab) -> QuerySet[PendingDecision]:
        """Return the rows of a tab: "mine", "team" for the reader's teams, or "all" that they may see."""
        return self._searched().filter(self.tab_condition(tab))

    def counts(self) -> dict[Tab, int]:
        """Return the number of rows of each tab of pending requests, in one query."""
        if self.search == InboxSearch():
            query = _count_query(is_admin=self.user.is_superuser)
            (numbers,) = query.rows(self.user.pk, timezone.now())
            return dict(zip(PENDING_TABS, numbers, strict=True))
        return {tab: len(rows) for tab, rows in self.matches.items()}

    @cached_property
    def matches(self) -> dict[Tab, list[PendingRow]]:
        """The rows of each tab that match the search, in one query: all are read to count them."""
        search, user = self.search, self.user
        patterns, slugs = search.patterns, [slug for slug in (search.team, search.profile) if slug]
        query = _matches_query(
            len(patterns),
            has_team=bool(search.team),
            has_profile=bool(search.profile),
            is_admin=user.is_superuser,
        )
        rows = query.rows(user.pk, self.now or timezone.now(), *patterns, *slugs)
        matches = [(PendingRow(*columns), in_team) for *columns, in_team in rows]
        return {
            "mine": [row for row, _in_team in matches if row.is_mine],
            "team": [row for row, in_team in matches if in_team],
            "all": [row for row, _in_team in matches],
        }

    def tab_condition(self, tab: Tab) -> Q:
        if tab == "mine":
            return waits_for(self.user, now=self.now)
        if tab == "team":
            return Q(team__in=memberships_of(self.user).values("team"))
        return Q()

    def _searched(self) -> QuerySet[PendingDecision]:
        rows: QuerySet[PendingDecision] = PendingDecision.objects.visible_to(self.user)
        if self.search == InboxSearch():
            return rows
        kinds: tuple[QuerySet[Any, Any], ...] = (
            self.claims().filter(state=ClaimState.REQUESTED),
            self.extensions().filter(status=RequestStatus.WAITING),
            self.quota_requests().filter(status=RequestStatus.WAITING),
        )
        return rows.filter(reduce(or_, (Q(pk__in=kind.values("pk")) for kind in kinds)))

    def claims(self) -> QuerySet[Claim]:
        fields = ("name", "reason", "requested_by__username")
        condition = self.search.condition(fields, "team__slug", profile_titles=True)
        related = ("team", "cluster", "profile_version__profile", "requested_by", "decided_by")
        visible = Claim.objects.visible_to(self.user)
        claims = visible.filter(condition).select_related(*related).with_profiles()
        return claims.with_profile(self.search.profile) if self.search.profile else claims

    def extensions(self) -> QuerySet[Extension]:
        fields = ("claim__name", "reason", "requested_by__username")
        condition = self.search.condition(fields, "claim__team__slug")
        if slug := self.search.profile:
            condition &= Q(claim__in=Claim.objects.with_profile(slug))
        related = (
            *("claim__team", "claim__cluster", "claim__profile_version__profile", "claim__requested_by"),
            *("requested_by", "decided_by"),
        )
        return Extension.objects.visible_to(self.user).filter(condition).select_related(*related)

    def quota_requests(self) -> QuerySet[QuotaRequest]:
        fields = ("device_class", "profile__slug", "team__slug", "reason", "requested_by__username")
        condition = self.search.condition(fields, "team__slug")
        if slug := self.search.profile:
            condition &= Q(profile__slug=slug)
        related = ("team", "profile", "budget__team", "requested_by", "decided_by")
        return QuotaRequest.objects.visible_to(self.user).filter(condition).select_related(*related)

    def keys(self, tab: Tab) -> QuerySet[Any, Any]:
        """Return what `pending_items` needs of each row of a tab, with the order of the list."""
        is_mine = _truth(waits_for(self.user, now=self.now))
        rows: QuerySet[Any, Any] = self.pending_decisions(tab).annotate(is_mine=is_mine)
        return rows.values("pk", "kind", "is_mine", *APPROVER, "requested_at")

    def pending_items(self, keys: Iterable[Mapping[str, Any]]) -> list[Item]:
        columns = ("pk", "kind", "is_mine", *APPROVER)
        return self.still_pending(PendingRow(*(row[name] for name in columns)) for row in keys)

    def still_pending(self, page: Iterable[PendingRow]) -> list[Item]:
        """Return the items of these rows, without those that were decided meanwhile."""
        rows = {row.pk: row for row in page}
        items = self.items(_ids_by_kind((row.kind, row.pk) for row in rows.values()), rows)
        return [items[pk] for pk in rows if pk in items and not items[pk].decision]

    def items(
        self, ids: Mapping[ItemKind, Collection[UUID]], pending: Mapping[UUID, PendingRow] | None = None
    ) -> dict[UUID, Item]:
        """Return the items of requests that the person may see, in at most one query per kind."""
        pending = pending or {}
        items = (
            build(*row, pending=pending.get(row[0]))
            for kind, (query, build) in ITEMS.items()
            if ids.get(kind)
            for row in query.rows(list(ids[kind]))
        )
        return {item.pk: item for item in items}


class PendingRow(NamedTuple):
    """A pending request in the order of the list, and what depends on the reader or on its decisions."""

    pk: UUID
    kind: ItemKind
    is_mine: bool
    username: str | None
    first_name: str
    last_name: str

    @property
    def first_approver(self) -> str:
        """`User.label` of whoever approved first, "" without a first approval."""
        return _person(None, self.username, self.first_name, self.last_name).label if self.username else ""


NO_KEY = UUID(int=0)
APPROVER = tuple(f"first_approver__{name}" for name in ("username", "first_name", "last_name"))


def _pending_rows(inbox: Inbox, tab: Tab) -> QuerySet[PendingDecision, Any]:
    is_mine = _truth(waits_for(inbox.user, now=inbox.now))
    return inbox.pending_decisions(tab).values_list("pk", "kind", is_mine, *APPROVER)


def _truth(condition: Q) -> ExpressionWrapper[Q]:
    return ExpressionWrapper(condition, BooleanField())


@cache
def _page_query(tab: Tab, *, is_admin: bool) -> Prepared:
    """Return the query of a page of a tab without a search."""

    def statement(person: UUID, now: datetime, limit: str, offset: str) -> tuple[str, tuple[Any, ...]]:
        rows = _pending_rows(Inbox(User(pk=person, is_superuser=is_admin), now=now), tab)
        text, values = rows.query.sql_with_params()
        return f"{text} LIMIT CAST(%s AS bigint) OFFSET CAST(%s AS bigint)", (*values, limit, offset)

    return Prepared(statement, UUID, datetime, str, str)


@cache
def _count_query(*, is_admin: bool) -> Prepared:
    """Return the query of the number of rows of each tab without a search."""

    def statement(person: UUID, now: datetime) -> tuple[str, tuple[Any, ...]]:
        inbox = Inbox(User(pk=person, is_superuser=is_admin), now=now)
        tabs = [inbox.pending_decisions(tab).order_by().values("pk") for tab in PENDING_TABS]
        parts = [rows.query.sql_with_params() for rows in tabs]
        counts = ", ".join(f"(SELECT COUNT(*) FROM ({text}) tab)" for text, _values in parts)  # noqa: S608
        return f"SELECT {counts}", tuple(chain(*(values for _text, values in parts)))

    return Prepared(statement, UUID, datetime)


@lru_cache(maxsize=32)
def _matches_query(words: int, *, has_team: bool, has_profile: bool, is_admin: bool) -> Prepared:
    """Return the query of the rows that match so many words, and of whether their team is the reader's."""

    def rows(person: UUID, now: datetime, *texts: str) -> QuerySet[PendingDecision, Any]:
        slugs = list(texts[words:])
        team, profile = slugs.pop(0) if has_team else "", slugs.pop(0) if has_profile else ""
        search = PreparedSearch(team=team, profile=profile, placeholders=texts[:words])
        inbox = Inbox(User(pk=person, is_superuser=is_admin), search, now=now)
        return _pending_rows(inbox, "all").annotate(in_team=_truth(inbox.tab_condition("team")))

    return Prepared(rows, UUID, datetime, *(str for _text in range(words + has_team + has_profile)))


def _person(pk: UUID | None, *names: str | None) -> User:
    columns = dict(zip(("username", "first_name", "last_name"), names, strict=True))
    return partial_object(User, {"id": pk, **columns})


def _team(pk: UUID, slug: str, title: str) -> Team:
    return partial_object(Team, {"id": pk, "slug": slug, "title": title})


def _people(*names: str) -> Iterator[str]:
    for name in names:
        yield from (name, *(f"{name}__{column}" for column in ("username", "first_name", "last_name")))


ALTERNATIVES = Alternative.objects.filter(claim=OuterRef("pk")).order_by("position")


def _claim_rows(key: UUID) -> QuerySet[Claim, Any]:
    return Claim.objects.filter(pk=key).values_list(
        *("pk", "name", "state", "devices", "parallel", "duration", "created_at", "decided_at"),
        *("escalated_at", "team", "team__slug", "team__title", "profile_version__profile__title"),
        *_people("requested_by", "decided_by"),
        ArraySubquery(ALTERNATIVES.values("devices")),
        ArraySubquery(ALTERNATIVES.values("profile_version__profile__title")),
        Exists(ALTERNATIVES.filter(together=True).order_by()),
        Exists(OPEN_QUESTION.order_by()),
    )


def _claim_item(
    pk: UUID, name: str, state: str, devices: int, parallel: int, length: timedelta, created_at: datetime,
    decided_at: datetime | None, escalated_at: datetime | None, team: UUID, slug: str, team_title: str,
    title: str, *more: Any, pending: PendingRow | None,
) -> Item:  # fmt: skip
    requester, decider = _person(*more[:4]), _person(*more[4:8]) if more[4] else None
    counts, titles, together, has_question = more[8:]
    per_claim = [count // parallel for count in counts]
    parts = list(zip(per_claim, titles, strict=True)) or [(devices, title)]
    sizes = join_profiles((f"{count} × {name}" for count, name in parts), together=together)
    is_pending = state == ClaimState.REQUESTED
    remarks = []
    if is_pending and pending is not None:
        remarks = [
            *(["escalated to platform admins"] if escalated_at else []),
            *([f"first approval by {pending.first_approver}"] if pending.first_approver else []),
            *([f"waits for {requester.label}'s answer"] if has_question else []),
        ]
    return Item(
        "claim",
        pk,
        name,
        size_in_words(sizes, length, parallel),
        _team(team, slug, team_title),
        requester,
        created_at,
        _address("claims:approval", pk),
        mine=pending is not None and pending.is_mine,
        remarks=tuple(remarks),
        decision="" if is_pending else str(_claim_decision(state).label),
        decided_at=decided_at,
        decided_by=decider,
    )


def _extension_rows(key: UUID) -> QuerySet[Extension, Any]:
    return Extension.objects.filter(pk=key).values_list(
        *("pk", "claim__name", "status", "previous_end", "until", "requested_at", "decided_at"),
        *("claim__team", "claim__team__slug", "claim__team__title", *_people("requested_by", "decided_by")),
    )


def _extension_item(
    pk: UUID, name: str, status: str, previous_end: datetime, until: datetime, requested_at: datetime,
    decided_at: datetime | None, team: UUID, slug: str, team_title: str, *people: Any,
    pending: PendingRow | None,
) -> Item:  # fmt: skip
    return Item(
        "extension",
        pk,
        name,
        f"{duration(until - previous_end)} longer, until {moment(until)}",
        _team(team, slug, team_title),
        _person(*people[:4]),
        requested_at,
        _address("claims:extension", pk),
        mine=pending is not None and pending.is_mine,
        decision="" if status == RequestStatus.WAITING else str(RequestStatus(status).label),
        decided_at=decided_at,
        decided_by=_person(*people[4:]) if people[4] else None,
    )


def _quota_request_rows(key: UUID) -> QuerySet[QuotaRequest, Any]:
    return QuotaRequest.objects.filter(pk=key).values_list(
        *("pk", "status", "device_class", "profile__slug", "devices", "requested_at", "decided_at"),
        *("budget__currency", "amount", "hours"),
        *("team", "team__slug", "team__title", *_people("requested_by", "decided_by")),
    )


def _quota_request_item(
    pk: UUID, status: str, device_class: str, profile: str | None, devices: int, requested_at: datetime,
    decided_at: datetime | None, currency: str | None, amount: Decimal, hours: Decimal,
    team: UUID, slug: str, team_title: str, *people: Any, pending: PendingRow | None,
) -> Item:  # fmt: skip
    summary = f"limit of {devices} × {device_class or profile or 'claims'}"
    if currency:
        summary = f"{more_budget(currency, amount, hours)} more"
    return Item(
        "quota",
        pk,
        slug,
        summary,
        _team(team, slug, team_title),
        _person(*people[:4]),
        requested_at,
        _address("claims:quota_request_decision", pk),
        mine=pending is not None and pending.is_mine,
        decision="" if status == RequestStatus.WAITING else str(RequestStatus(status).label),
        decided_at=decided_at,
        decided_by=_person(*people[4:]) if people[4] else None,
        is_budget=bool(currency),
    )


ITEMS: dict[ItemKind, tuple[Prepared, Callable[..., Item]]] = {
    "claim": (by_keys(_claim_rows), _claim_item),
    "extension": (by_keys(_extension_rows), _extension_item),
    "quota": (by_keys(_quota_request_rows), _quota_request_item),
}


def _address(name: str, pk: UUID) -> str:
    return reverse(name, args=[NO_KEY]).replace(str(NO_KEY), str(pk))


class _Items(Sequence[Item], ABC):
    """Items of a query; reads only the rows of the slice that is taken."""

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox

    @abstractmethod
    def _slice(self, at: slice) -> list[Item]: ...

    @overload
    def __getitem__(self, at: int) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> list[Item]: ...
    def __getitem__(self, at: int | slice) -> Item | list[Item]:
        return self._slice(at) if isinstance(at, slice) else self._slice(slice(at, at + 1))[0]

    def __iter__(self) -> Iterator[Item]:
        return iter(self[:])


class PendingItems(_Items):
    """Pending requests of a tab, oldest first."""

    def __init__(self, inbox: Inbox, tab: Tab) -> None:
        super().__init__(inbox)
        self.tab = tab

    def __len__(self) -> int:
        return self.inbox.counts()[self.tab]

    def _slice(self, at: slice) -> list[Item]:
        inbox = self.inbox
        if inbox.search == InboxSearch():
            limit = None if at.stop is None else str(max(at.stop - (at.start or 0), 0))
            query = _page_query(self.tab, is_admin=inbox.user.is_superuser)
            page = [
                PendingRow(*row)
                for row in query.rows(inbox.user.pk, timezone.now(), limit, str(at.start or 0))
            ]
        else:
            page = inbox.matches[self.tab][at]
        return inbox.still_pending(page)


class DecidedItems(_Items):
    """Decided requests, newest first; `most` bounds how many are counted, and `most` + 1 stands for more."""

    def __init__(self, inbox: Inbox, most: int | None = None) -> None:
        super().__init__(inbox)
        self.most = most

    @cached_property
    def total(self) -> int:
        enough = None if self.most is None else self.most + 1
        inbox = self.inbox
        if inbox.search == InboxSearch():
            ((count,),) = _decided_count(enough, is_admin=inbox.user.is_superuser).rows(inbox.user.pk)
        else:
            count = _first_decided(inbox, enough).count()
        return int(count) if enough is None else min(int(count), enough)

    def count_for_page(self, number: int, per_page: int) -> None:
        """Count no further than a list does, or all for a page behind that."""
        self.most = None if number * per_page > MAX_COUNT else MAX_COUNT

    @property
    def is_open(self) -> bool:
        """Whether there are more than were counted."""
        return self.most is not None and self.total > self.most

    def __len__(self) -> int:
        return self.total

    def _slice(self, at: slice) -> list[Item]:
        inbox = self.inbox
        start, stop, _step = at.indices(self.total)
        if start >= stop:
            return []
        # From the nearer end, so that an index has the order of each kind and few rows are read.
        is_backwards = start > self.total - stop and not self.is_open
        first, last = (self.total - stop, self.total - start) if is_backwards else (start, stop)
        if inbox.search == InboxSearch():
            query = _decided_query(first, last, is_backwards=is_backwards, is_admin=inbox.user.is_superuser)
            keys = query.rows(inbox.user.pk)
        else:
            keys = list(_decided_slice(inbox, first, last, is_backwards=is_backwards))
        if is_backwards:
            keys.reverse()
        ids = _ids_by_kind((kind, pk) for kind, pk, _when in keys)
        items = inbox.items(ids)
        return [items[pk] for _kind, pk, _when in keys if pk in items]


def _decided_parts(inbox: Inbox) -> list[QuerySet[Any, Any]]:
    decided = ~Q(status=RequestStatus.WAITING) & Q(decided_at__isnull=False)
    claims = inbox.claims().filter(decided_at__isnull=False).exclude(state=ClaimState.REQUESTED)
    extensions, requests = inbox.extensions().filter(decided), inbox.quota_requests().filter(decided)
    return [_keys(claims, "claim"), _keys(extensions, "extension"), _keys(requests, "quota")]


def _first_decided(inbox: Inbox, enough: int | None) -> QuerySet[Any, Any]:
    """Return the keys of at most `enough` decided requests of each kind, of all with None."""
    return _union([part[:enough] if enough else part for part in _decided_parts(inbox)]).order_by()


def _decided_slice(inbox: Inbox, first: int, last: int, *, is_backwards: bool) -> QuerySet[Any, Any]:
    """Return the keys from `first` to `last`, newest first, or oldest first if `is_backwards`."""
    order = ("when", "-row") if is_backwards else ("-when", "row")
    nearest = _union([part.order_by(*order)[:last] for part in _decided_parts(inbox)])
    return nearest.order_by(*order)[first:last]


@lru_cache(maxsize=8)
def _decided_count(enough: int | None, *, is_admin: bool) -> Prepared:
    def statement(person: UUID) -> tuple[str, tuple[Any, ...]]:
        rows = _first_decided(Inbox(User(pk=person, is_superuser=is_admin)), enough)
        text, values = rows.query.sql_with_params()
        return f"SELECT COUNT(*) FROM ({text}) decided", values  # noqa: S608

    return Prepared(statement, UUID)


@lru_cache(maxsize=32)  # the first pages are read most
def _decided_query(first: int, last: int, *, is_backwards: bool, is_admin: bool) -> Prepared:
    def rows(person: UUID) -> QuerySet[Any, Any]:
        inbox = Inbox(User(pk=person, is_superuser=is_admin))
        return _decided_slice(inbox, first, last, is_backwards=is_backwards)

    return Prepared(rows, UUID)


def _ids_by_kind(keys: Iterable[tuple[str, UUID]]) -> dict[ItemKind, list[UUID]]:
    ids: dict[ItemKind, list[UUID]] = {"claim": [], "extension": [], "quota": []}
    for kind, pk in keys:
        ids[cast(ItemKind, kind)].append(pk)
    return ids


def _union(parts: Sequence[QuerySet[Any, Any]]) -> QuerySet[Any, Any]:
    first, *others = parts
    union: QuerySet[Any, Any] = first.union(*others, all=True)
    return union


def _keys(rows: QuerySet[Any, Any], kind: str) -> QuerySet[Any, Any]:
    """Return (kind, id, time of the decision) of each row."""
    annotated = rows.order_by().annotate(kind=Value(kind, CharField()), row=F("pk"), when=F("decided_at"))
    keys: QuerySet[Any, Any] = annotated.values_list("kind", "row", "when")
    return keys


def _claim_decision(state: str) -> RequestStatus:
    """Return the decision on a claim, whatever its state is now."""
    return RequestStatus.DENIED if state == ClaimState.DENIED else RequestStatus.APPROVED
