"""
The inbox: pending and decided requests for claims, extensions and quota as one list.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Literal, cast, overload
from uuid import UUID

from django.db.models import (
    BooleanField,
    CharField,
    Count,
    ExpressionWrapper,
    F,
    Prefetch,
    Q,
    QuerySet,
    Value,
)
from django.urls import reverse
from django.utils import timezone

from claims.approvals.authority import ApprovalAuthority
from claims.approvals.pending import waits_for
from claims.models import (
    Claim,
    Comment,
    Extension,
    PendingDecision,
    QuotaRequest,
    RequestStatus,
    names_profile,
)
from claims.plans.changes import claim_size
from claims.states import ClaimState
from core.times import duration, moment
from teams.models import Membership, Team, User

type ItemKind = Literal["claim", "extension", "quota"]
type Tab = Literal["mine", "team", "all", "decided"]

PENDING_TABS: tuple[Tab, ...] = ("mine", "team", "all")
TABS: tuple[Tab, ...] = (*PENDING_TABS, "decided")
# Columns that no row shows; they are most of the bytes of a claim.
UNREAD = ("spec", "original_request", "profile_version__spec", "cluster__discovery", "cluster__credentials")
UNREAD_OF_EXTENSIONS = tuple(f"claim__{name}" for name in UNREAD if "cluster" not in name)
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
    claim: Claim | None = None

    @property
    def label(self) -> str:
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

    def condition(self, fields: Sequence[str], team: str, *, profile_titles: bool = False) -> Q:
        """
        Return the condition on the team and the words: each word is in one of `fields`, or for claims, with
        `profile_titles`, in the title of a profile.
        """
        condition = Q()
        for word in self.words.split():
            matches = Q(*[(f"{field}__icontains", word) for field in fields], _connector=Q.OR)
            condition &= (matches | names_profile(title__icontains=word)) if profile_titles else matches
        return condition & Q((team, self.team)) if self.team else condition


class Inbox:
    """The inbox of one person. Each list reads a page of rows, in a fixed number of queries."""

    def __init__(self, user: User, search: InboxSearch | None = None) -> None:
        self.user = user
        self.search = search or InboxSearch()

    @cached_property
    def authority(self) -> ApprovalAuthority:
        return ApprovalAuthority(self.user)

    def pending(self, *, for_reader: bool = False) -> PendingItems:
        """Return pending requests, oldest first; with `for_reader` only those that wait for the reader."""
        return PendingItems(self, self.pending_decisions("mine" if for_reader else "all"))

    def tab(self, tab: Tab) -> Sequence[Item]:
        return DecidedItems(self) if tab == "decided" else PendingItems(self, self.pending_decisions(tab))

    def pending_decisions(self, tab: Tab) -> QuerySet[PendingDecision]:
        """Return the rows of a tab: "mine", "team" for the reader's teams, or "all" that they may see."""
        return self._searched().filter(self._tab_condition(tab))

    def counts(self) -> dict[Tab, int]:
        """Return the number of rows of each tab of pending requests, in one query."""
        counted = {tab: Count("pk", filter=self._tab_condition(tab)) for tab in PENDING_TABS}
        totals = self._searched().aggregate(**counted)
        return {tab: totals[tab] for tab in PENDING_TABS}

    def _tab_condition(self, tab: Tab) -> Q:
        if tab == "mine":
            return waits_for(self.user)
        if tab == "team":
            return Q(team__in=Membership.objects.filter(user=self.user).values("team"))
        return Q()

    def _searched(self) -> QuerySet[PendingDecision]:
        rows: QuerySet[PendingDecision] = PendingDecision.objects.visible_to(self.user)
        if self.search == InboxSearch():
            return rows
        return rows.filter(
            Q(pk__in=self.claims().filter(state=ClaimState.REQUESTED).values("pk"))
            | Q(pk__in=self.extensions().filter(status=RequestStatus.WAITING).values("pk"))
            | Q(pk__in=self.quota_requests().filter(status=RequestStatus.WAITING).values("pk"))
        )

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
            *("claim__team", "claim__profile_version__profile", "claim__requested_by"),
            *("requested_by", "decided_by"),
        )
        return Extension.objects.visible_to(self.user).filter(condition).select_related(*related)

    def quota_requests(self) -> QuerySet[QuotaRequest]:
        fields = ("device_class", "profile__slug", "team__slug", "reason", "requested_by__username")
        condition = self.search.condition(fields, "team__slug")
        if slug := self.search.profile:
            condition &= Q(profile__slug=slug)
        related = ("team", "profile", "requested_by", "decided_by")
        return QuotaRequest.objects.visible_to(self.user).filter(condition).select_related(*related)

    def claim_item(self, claim: Claim, row: PendingDecision | None = None, *, mine: bool = False) -> Item:
        """Return the item of a claim; `row` adds the remarks of a pending one."""
        pending = claim.state == ClaimState.REQUESTED
        return Item(
            "claim",
            claim.pk,
            claim.name,
            claim_size(claim),
            claim.team,
            claim.requested_by,
            claim.created_at,
            reverse("claims:approval", args=[claim.pk]),
            mine=mine,
            remarks=tuple(_remarks(claim, row)) if pending and row is not None else (),
            decision="" if pending else str(_claim_decision(claim).label),
            decided_at=claim.decided_at,
            decided_by=claim.decided_by,
            claim=claim,
        )

    def extension_item(self, extension: Extension, *, mine: bool = False) -> Item:
        pending = extension.status == RequestStatus.WAITING
        claim = extension.claim
        return Item(
            "extension",
            extension.pk,
            claim.name,
            f"{duration(extension.until - extension.previous_end)} longer, until {moment(extension.until)}",
            claim.team,
            extension.requested_by,
            extension.requested_at,
            reverse("claims:extension", args=[extension.pk]),
            mine=mine,
            decision="" if pending else extension.get_status_display(),
            decided_at=extension.decided_at,
            decided_by=extension.decided_by,
        )

    def quota_request_item(self, quota_request: QuotaRequest, *, mine: bool = False) -> Item:
        pending = quota_request.status == RequestStatus.WAITING
        quota_name = quota_request.device_class or quota_request.profile or "claims"
        return Item(
            "quota",
            quota_request.pk,
            quota_request.team.slug,
            f"limit of {quota_request.devices} × {quota_name}",
            quota_request.team,
            quota_request.requested_by,
            quota_request.requested_at,
            reverse("claims:quota_request_decision", args=[quota_request.pk]),
            mine=mine,
            decision="" if pending else quota_request.get_status_display(),
            decided_at=quota_request.decided_at,
            decided_by=quota_request.decided_by,
        )


def _remarks(claim: Claim, row: PendingDecision) -> Iterable[str]:
    if claim.escalated_at is not None:
        yield "escalated to platform admins"
    if row.first_approver is not None:
        yield f"first approval by {row.first_approver.label}"
    if open_question(claim.comments.all()) is not None:
        yield f"waits for {claim.requested_by.label}'s answer"


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
    """Pending requests, oldest first."""

    def __init__(self, inbox: Inbox, rows: QuerySet[PendingDecision]) -> None:
        super().__init__(inbox)
        self.rows = rows

    def __len__(self) -> int:
        return self.rows.count()

    def _slice(self, at: slice) -> list[Item]:
        inbox = self.inbox
        is_mine = ExpressionWrapper(waits_for(inbox.user), BooleanField())
        page = list(self.rows.select_related("first_approver").annotate(is_mine=is_mine)[at])
        rows = {row.pk: row for row in page}
        mine = {row.pk for row in page if row.is_mine}
        ids = _ids_by_kind((row.kind, pk) for pk, row in rows.items())
        items: dict[UUID, Item] = {}
        claims = inbox.claims().defer(*UNREAD).filter(pk__in=ids["claim"], state=ClaimState.REQUESTED)
        for claim in claims.prefetch_related(Prefetch("comments", Comment.objects.select_related("by"))):
            items[claim.pk] = inbox.claim_item(claim, rows[claim.pk], mine=claim.pk in mine)
        for extension in inbox.extensions().defer(*UNREAD_OF_EXTENSIONS).filter(pk__in=ids["extension"]):
            items[extension.pk] = inbox.extension_item(extension, mine=extension.pk in mine)
        for quota_request in inbox.quota_requests().filter(pk__in=ids["quota"]):
            items[quota_request.pk] = inbox.quota_request_item(quota_request, mine=quota_request.pk in mine)
        return [items[pk] for pk in rows if pk in items]


class DecidedItems(_Items):
    """Decided requests, newest first."""

    def __init__(self, inbox: Inbox) -> None:
        super().__init__(inbox)
        decided = ~Q(status=RequestStatus.WAITING) & Q(decided_at__isnull=False)
        claims = inbox.claims().filter(decided_at__isnull=False).exclude(state=ClaimState.REQUESTED)
        extensions, requests = inbox.extensions().filter(decided), inbox.quota_requests().filter(decided)
        self.parts = (
            _keys(claims, "claim"), _keys(extensions, "extension"), _keys(requests, "quota")
        )  # fmt: skip

    @cached_property
    def total(self) -> int:
        return int(_union(self.parts).count())

    def __len__(self) -> int:
        return self.total

    def _slice(self, at: slice) -> list[Item]:
        inbox = self.inbox
        start, stop, _step = at.indices(self.total)
        if start >= stop:
            return []
        # From the nearer end, so that an index has the order of each kind and few rows are read.
        is_backwards = start > self.total - stop
        first, last = (self.total - stop, self.total - start) if is_backwards else (start, stop)
        order = ("when", "-row") if is_backwards else ("-when", "row")
        nearest = _union([part.order_by(*order)[:last] for part in self.parts])
        keys = list(nearest.order_by(*order)[first:last])
        if is_backwards:
            keys.reverse()
        ids = _ids_by_kind((kind, pk) for kind, pk, _when in keys)
        items: dict[UUID, Item] = {}
        for claim in inbox.claims().defer(*UNREAD).filter(pk__in=ids["claim"]):
            items[claim.pk] = inbox.claim_item(claim)
        for extension in inbox.extensions().defer(*UNREAD_OF_EXTENSIONS).filter(pk__in=ids["extension"]):
            items[extension.pk] = inbox.extension_item(extension)
        for quota_request in inbox.quota_requests().filter(pk__in=ids["quota"]):
            items[quota_request.pk] = inbox.quota_request_item(quota_request)
        return [items[pk] for _kind, pk, _when in keys if pk in items]


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


def _claim_decision(claim: Claim) -> RequestStatus:
    """Return the decision on a claim, whatever its state is now."""
    return RequestStatus.DENIED if claim.state == ClaimState.DENIED else RequestStatus.APPROVED


def open_question(comments: Iterable[Comment]) -> Comment | None:
    """Return the last question without a later comment by somebody else, None if there is none."""
    question: Comment | None = None
    for comment in comments:
        if comment.question:
            question = comment
        elif question is not None and comment.by_id != question.by_id:
            question = None
    return question
