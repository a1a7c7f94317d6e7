"""
The inbox: pending and decided requests for claims, extensions and quota as one list, and their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, overload
from uuid import UUID

from django.db.models import CharField, F, Prefetch, Q, QuerySet, Value
from django.urls import reverse
from django.utils import timezone

from claims.approvals.authority import ApprovalAuthority, approval_stage
from claims.models import Claim, Comment, Extension, QuotaRequest, RequestStatus, names_profile
from claims.plans.changes import claim_size
from claims.states import ClaimState
from core.times import duration, moment
from teams.models import Team, User

type ItemKind = Literal["claim", "extension", "quota"]
type Tab = Literal["mine", "team", "all", "decided"]

TABS: tuple[Tab, ...] = ("mine", "team", "all", "decided")
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
    """The inbox of one person, read in a fixed number of queries."""

    def __init__(self, user: User, search: InboxSearch | None = None) -> None:
        self.user = user
        self.search = search or InboxSearch()
        self.authority = ApprovalAuthority(user)

    def pending(self, *, for_reader: bool = False) -> list[Item]:
        """Return pending requests, oldest first; with `for_reader` only those that wait for the reader."""
        if for_reader and not (self.user.is_superuser or self.authority.teams):
            return []
        items = [*self._pending_claims(), *self._pending_extensions(), *self._pending_quota_requests()]
        shown = [item for item in items if item.mine or not for_reader]
        return sorted(shown, key=lambda item: (item.requested_at, item.pk))

    def tab(self, tab: Tab) -> Sequence[Item]:
        if tab == "decided":
            return DecidedItems(self)
        return self.filter_tab(tab, self.pending())

    def filter_tab(self, tab: Tab, pending: Iterable[Item]) -> list[Item]:
        """Return the items of a tab: "mine", "team" for the reader's teams, or "all" that they may see."""
        if tab == "mine":
            return [item for item in pending if item.mine]
        return [item for item in pending if tab != "team" or self.authority.is_member(item.team.pk)]

    def claims(self) -> QuerySet[Claim]:
        fields = ("name", "reason", "requested_by__username")
        condition = self.search.condition(fields, "team__slug", profile_titles=True)
        related = ("team", "cluster", "profile_version__profile", "requested_by", "decided_by")
        visible = Claim.objects.visible_to(self.user)
        claims = visible.filter(condition).select_related(*related).with_profiles()
        return claims.with_profile(self.search.profile) if self.search.profile else claims

    def extensions(self) -> QuerySet[Extension]:
        fields = ("claim__name", "reason", "asked_by__username")
        condition = self.search.condition(fields, "claim__team__slug")
        if slug := self.search.profile:
            condition &= Q(claim__in=Claim.objects.with_profile(slug))
        related = (
            *("claim__team", "claim__profile_version__profile", "claim__requested_by"),
            *("asked_by", "decided_by"),
        )
        return Extension.objects.visible_to(self.user).filter(condition).select_related(*related)

    def quota_requests(self) -> QuerySet[QuotaRequest]:
        fields = ("device_class", "profile__slug", "team__slug", "reason", "asked_by__username")
        condition = self.search.condition(fields, "team__slug")
        if slug := self.search.profile:
            condition &= Q(profile__slug=slug)
        related = ("team", "profile", "asked_by", "decided_by")
        return QuotaRequest.objects.visible_to(self.user).filter(condition).select_related(*related)

    def _pending_claims(self) -> list[Item]:
        comments = Prefetch("comments", Comment.objects.select_related("by"))
        claims = self.claims().filter(state=ClaimState.REQUESTED).prefetch_related("steps__by", comments)
        return [self.claim_item(claim) for claim in claims]

    def _pending_extensions(self) -> list[Item]:
        related = ("claim__alternatives__profile_version__profile", "claim__steps__by")
        extensions = self.extensions().filter(answer=RequestStatus.WAITING).prefetch_related(*related)
        return [self.extension_item(extension) for extension in extensions]

    def _pending_quota_requests(self) -> list[Item]:
        quota_requests = self.quota_requests().filter(answer=RequestStatus.WAITING)
        return [self.quota_request_item(quota_request) for quota_request in quota_requests]

    def claim_item(self, claim: Claim) -> Item:
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
            mine=pending and self.authority.is_responsible(claim),
            remarks=tuple(self._remarks(claim)) if pending else (),
            decision="" if pending else str(_claim_decision(claim).label),
            decided_at=claim.decided_at,
            decided_by=claim.decided_by,
            claim=claim,
        )

    def extension_item(self, extension: Extension) -> Item:
        pending = extension.answer == RequestStatus.WAITING
        claim = extension.claim
        return Item(
            "extension",
            extension.pk,
            claim.name,
            f"{duration(extension.until - extension.was)} longer, until {moment(extension.until)}",
            claim.team,
            extension.asked_by,
            extension.asked_at,
            reverse("claims:extension", args=[extension.pk]),
            mine=pending and self.authority.is_responsible(claim, requester_id=extension.asked_by_id),
            decision="" if pending else extension.get_answer_display(),
            decided_at=extension.decided_at,
            decided_by=extension.decided_by,
        )

    def quota_request_item(self, quota_request: QuotaRequest) -> Item:
        pending = quota_request.answer == RequestStatus.WAITING
        quota_name = quota_request.device_class or quota_request.profile or "claims"
        return Item(
            "quota",
            quota_request.pk,
            quota_request.team.slug,
            f"limit of {quota_request.devices} × {quota_name}",
            quota_request.team,
            quota_request.asked_by,
            quota_request.asked_at,
            reverse("claims:quota_request_decision", args=[quota_request.pk]),
            mine=pending and self.user.is_superuser and quota_request.asked_by_id != self.user.pk,
            decision="" if pending else quota_request.get_answer_display(),
            decided_at=quota_request.decided_at,
            decided_by=quota_request.decided_by,
        )

    def _remarks(self, claim: Claim) -> Iterable[str]:
        if claim.escalated_at is not None:
            yield "escalated to platform admins"
        _stage, first_approval = approval_stage(claim, self.authority.rules.for_claim(claim))
        if first_approval is not None and first_approval.by is not None:
            yield f"first approval by {first_approval.by.label}"
        if open_question(claim.comments.all()) is not None:
            yield f"waits for {claim.requested_by.label}'s answer"


class DecidedItems(Sequence[Item]):
    """Decided requests, newest first; reads only the rows of the slice that is taken."""

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        decided = ~Q(answer=RequestStatus.WAITING) & Q(decided_at__isnull=False)
        claims = inbox.claims().filter(decided_at__isnull=False).exclude(state=ClaimState.REQUESTED)
        extensions, requests = inbox.extensions().filter(decided), inbox.quota_requests().filter(decided)
        self.keys = _keys(claims, "claim").union(
            _keys(extensions, "extension"), _keys(requests, "quota"), all=True
        )

    def __len__(self) -> int:
        return self.keys.count()

    @overload
    def __getitem__(self, at: int) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> list[Item]: ...
    def __getitem__(self, at: int | slice) -> Item | list[Item]:
        if isinstance(at, int):
            return self[at : at + 1][0]
        keys = list(self.keys.order_by("-when", "row")[at])
        inbox = self.inbox
        ids: dict[str, list[UUID]] = {}
        for kind, pk, _when in keys:
            ids.setdefault(kind, []).append(pk)
        items: dict[UUID, Item] = {}
        for claim in inbox.claims().filter(pk__in=ids.get("claim", [])):
            items[claim.pk] = inbox.claim_item(claim)
        for extension in inbox.extensions().filter(pk__in=ids.get("extension", [])):
            items[extension.pk] = inbox.extension_item(extension)
        for quota_request in inbox.quota_requests().filter(pk__in=ids.get("quota", [])):
            items[quota_request.pk] = inbox.quota_request_item(quota_request)
        return [items[pk] for _kind, pk, _when in keys if pk in items]


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


# Columns that do not matter for who decides; they are most of the bytes of a row.
DEFERRED = ("spec", "asked", "reason", "decision_note", "profile_version__spec")
RELATED = ("team", "profile_version__profile")
PREFETCHED = ("alternatives__profile_version__profile", "steps__by")


def pending_since(user: User) -> list[datetime]:
    """
    Return when each request that waits for `user` was made, oldest first.

    Every page shows their number, so this reads only what decides whose they are.
    """
    authority = ApprovalAuthority(user)
    if not (user.is_superuser or authority.teams):
        return []
    # Only platform admins decide outside the teams that they lead or are a delegate in.
    teams: dict[str, Any] = {} if user.is_superuser else {"team__in": authority.teams}
    claims = Claim.objects.filter(state=ClaimState.REQUESTED, **teams)
    claims = claims.select_related(*RELATED).defer(*DEFERRED).prefetch_related(*PREFETCHED)
    times = [claim.created_at for claim in claims if authority.is_responsible(claim)]
    claim_teams = {f"claim__{name}": value for name, value in teams.items()}
    extensions = Extension.objects.filter(answer=RequestStatus.WAITING, **claim_teams)
    extensions = extensions.select_related(*_on_claim(RELATED)).defer(*_on_claim(DEFERRED))
    times += [
        extension.asked_at
        for extension in extensions.prefetch_related(*_on_claim(PREFETCHED))
        if authority.is_responsible(extension.claim, requester_id=extension.asked_by_id)
    ]
    if user.is_superuser:
        quota_requests = QuotaRequest.objects.filter(answer=RequestStatus.WAITING).exclude(asked_by=user)
        times += quota_requests.values_list("asked_at", flat=True)
    return sorted(times)


def count_pending() -> int:
    """Return the number of pending requests of all kinds and teams."""
    counts = (
        model.objects.filter(answer=RequestStatus.WAITING).count() for model in (Extension, QuotaRequest)
    )
    return Claim.objects.filter(state=ClaimState.REQUESTED).count() + sum(counts)


def _on_claim(fields: Iterable[str]) -> list[str]:
    return [f"claim__{name}" for name in fields]
