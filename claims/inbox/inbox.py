"""What waits for whom, of all kinds, and how much of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, overload
from uuid import UUID

from django.db.models import CharField, F, Prefetch, Q, QuerySet, Value
from django.urls import reverse
from django.utils import timezone

from claims.approvals.authority import ApprovalAuthority, stage_of
from claims.models import Claim, Comment, Extension, QuotaRequest, RequestStatus, names_profile
from claims.plans.changes import claim_size
from claims.states import ClaimState
from core.times import duration, moment
from teams.models import Team, User

type ItemKind = Literal["claim", "extension", "quota"]
type Tab = Literal["mine", "team", "all", "decided"]

TABS: tuple[Tab, ...] = ("mine", "team", "all", "decided")
FRESH, AGING = timedelta(hours=4), timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Item:
    """One wish of any kind. `mine` tells whether it waits for the reader; `said` is what a row adds."""

    kind: ItemKind
    pk: UUID
    title: str
    what: str
    team: Team
    asked_by: User
    asked_at: datetime
    url: str
    mine: bool = False
    said: tuple[str, ...] = ()
    answer: str = ""
    decided_at: datetime | None = None
    decided_by: User | None = None
    claim: Claim | None = None

    @property
    def label(self) -> str:
        return {"claim": "Claim", "extension": "More time", "quota": "More quota"}[self.kind]

    @property
    def age(self) -> str:
        """ "fresh" below four hours, "aging" below a day, "late" from then on."""
        span = timezone.now() - self.asked_at
        return "fresh" if span < FRESH else "aging" if span < AGING else "late"

    @property
    def age_label(self) -> str:
        return {"fresh": "fresh", "aging": "aging", "late": "late"}[self.age]


@dataclass(frozen=True, slots=True)
class InboxSearch:
    """What a reader looks for; empty parts leave out nothing. `team` and `profile` are slugs."""

    words: str = ""
    team: str = ""
    profile: str = ""

    def of(self, fields: Sequence[str], team: str, *, titled: bool = False) -> Q:
        """
        Return the condition: every word in one of `fields`, where rows are claims and `titled` also in the
        title of a profile that they name; and the team.
        """
        found = Q()
        for word in self.words.split():
            places = Q(*[(f"{field}__icontains", word) for field in fields], _connector=Q.OR)
            found &= (places | names_profile(title__icontains=word)) if titled else places
        return found & Q((team, self.team)) if self.team else found


class Inbox:
    """The inbox of one person: a fixed number of queries, however much there is in it."""

    def __init__(self, user: User, search: InboxSearch | None = None) -> None:
        self.user = user
        self.search = search or InboxSearch()
        self.desk = ApprovalAuthority(user)

    def waiting(self, *, for_reader: bool = False) -> list[Item]:
        """
        Return what is not decided yet, oldest first; `for_reader` alone what waits for the reader.
        """
        if for_reader and not (self.user.is_superuser or self.desk.teams):
            return []
        items = [*self._claims(), *self._extensions(), *self._quota_requests()]
        found = [item for item in items if item.mine or not for_reader]
        return sorted(found, key=lambda item: (item.asked_at, item.pk))

    def tab(self, tab: Tab) -> Sequence[Item]:
        if tab == "decided":
            return Decided(self)
        return self.of_tab(tab, self.waiting())

    def of_tab(self, tab: Tab, waiting: Iterable[Item]) -> list[Item]:
        """`team` is what waits in teams of the reader, `all` what waits anywhere that they may see."""
        if tab == "mine":
            return [item for item in waiting if item.mine]
        return [item for item in waiting if tab != "team" or self.desk.is_of(item.team.pk)]

    def claims(self) -> QuerySet[Claim]:
        fields = ("name", "reason", "requested_by__username")
        sought = self.search.of(fields, "team__slug", titled=True)
        related = ("team", "cluster", "profile_version__profile", "requested_by", "decided_by")
        found = Claim.objects.visible_to(self.user).filter(sought).select_related(*related).with_profiles()
        return found.with_profile(self.search.profile) if self.search.profile else found

    def extensions(self) -> QuerySet[Extension]:
        fields = ("claim__name", "reason", "asked_by__username")
        sought = self.search.of(fields, "claim__team__slug")
        if slug := self.search.profile:
            sought &= Q(claim__in=Claim.objects.with_profile(slug))
        related = (
            *("claim__team", "claim__profile_version__profile", "claim__requested_by"),
            *("asked_by", "decided_by"),
        )
        return Extension.objects.visible_to(self.user).filter(sought).select_related(*related)

    def quota_requests(self) -> QuerySet[QuotaRequest]:
        fields = ("device_class", "profile__slug", "team__slug", "reason", "asked_by__username")
        sought = self.search.of(fields, "team__slug")
        if slug := self.search.profile:
            sought &= Q(profile__slug=slug)
        related = ("team", "profile", "asked_by", "decided_by")
        return QuotaRequest.objects.visible_to(self.user).filter(sought).select_related(*related)

    def _claims(self) -> list[Item]:
        thread = Prefetch("comments", Comment.objects.select_related("by"))
        waiting = self.claims().filter(state=ClaimState.REQUESTED).prefetch_related("steps__by", thread)
        return [self.of_claim(claim) for claim in waiting]

    def _extensions(self) -> list[Item]:
        parts = ("claim__alternatives__profile_version__profile", "claim__steps__by")
        waiting = self.extensions().filter(answer=RequestStatus.WAITING).prefetch_related(*parts)
        return [self.of_extension(one, waits=True) for one in waiting]

    def _quota_requests(self) -> list[Item]:
        waiting = self.quota_requests().filter(answer=RequestStatus.WAITING)
        return [self.of_quota_request(one, waits=True) for one in waiting]

    def of_claim(self, claim: Claim) -> Item:
        waits = claim.state == ClaimState.REQUESTED
        return Item(
            "claim",
            claim.pk,
            claim.name,
            claim_size(claim),
            claim.team,
            claim.requested_by,
            claim.created_at,
            reverse("claims:approval", args=[claim.pk]),
            mine=waits and self.desk.is_asked(claim),
            said=tuple(self._said(claim)) if waits else (),
            answer="" if waits else str(_answer_to(claim).label),
            decided_at=claim.decided_at,
            decided_by=claim.decided_by,
            claim=claim,
        )

    def of_extension(self, one: Extension, *, waits: bool) -> Item:
        by = f"{duration(one.until - one.was)} more, until {moment(one.until)}"
        return Item(
            "extension",
            one.pk,
            one.claim.name,
            by,
            one.claim.team,
            one.asked_by,
            one.asked_at,
            reverse("claims:extension", args=[one.pk]),
            mine=waits and self.desk.is_asked(one.claim, asked_by=one.asked_by_id),
            answer="" if waits else one.get_answer_display(),
            decided_at=one.decided_at,
            decided_by=one.decided_by,
        )

    def of_quota_request(self, one: QuotaRequest, *, waits: bool) -> Item:
        return Item(
            "quota",
            one.pk,
            one.team.slug,
            f"a limit of {one.devices} × {one.device_class or one.profile or 'claims'}",
            one.team,
            one.asked_by,
            one.asked_at,
            reverse("claims:quota_request_decision", args=[one.pk]),
            mine=waits and self.user.is_superuser and one.asked_by_id != self.user.pk,
            answer="" if waits else one.get_answer_display(),
            decided_at=one.decided_at,
            decided_by=one.decided_by,
        )

    def _said(self, claim: Claim) -> Iterable[str]:
        if claim.escalated_at is not None:
            yield "escalated to platform admins"
        _stage, consent = stage_of(claim, self.desk.rules.on(claim))
        if consent is not None and consent.by is not None:
            yield f"{consent.by.label} has consented"
        if question_of(claim.comments.all()) is not None:
            yield f"waits for {claim.requested_by.label}'s answer"


class Decided(Sequence[Item]):
    """What is decided, newest first; only the part that is looked at is read."""

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        answered = ~Q(answer=RequestStatus.WAITING) & Q(decided_at__isnull=False)
        claims = inbox.claims().filter(decided_at__isnull=False).exclude(state=ClaimState.REQUESTED)
        extensions, requests = inbox.extensions().filter(answered), inbox.quota_requests().filter(answered)
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
            items[claim.pk] = inbox.of_claim(claim)
        for extension in inbox.extensions().filter(pk__in=ids.get("extension", [])):
            items[extension.pk] = inbox.of_extension(extension, waits=False)
        for request in inbox.quota_requests().filter(pk__in=ids.get("quota", [])):
            items[request.pk] = inbox.of_quota_request(request, waits=False)
        return [items[pk] for _kind, pk, _when in keys if pk in items]


def _keys(rows: QuerySet[Any, Any], kind: str) -> QuerySet[Any, Any]:
    """Return (kind, id, when it was decided) of each row."""
    named = rows.order_by().annotate(kind=Value(kind, CharField()), row=F("pk"), when=F("decided_at"))
    found: QuerySet[Any, Any] = named.values_list("kind", "row", "when")
    return found


def _answer_to(claim: Claim) -> RequestStatus:
    """Return what was decided, whatever has become of the claim since."""
    return RequestStatus.DENIED if claim.state == ClaimState.DENIED else RequestStatus.APPROVED


def question_of(thread: Iterable[Comment]) -> Comment | None:
    """Return the last question that nobody but its asker has written after, None if all is answered."""
    waits: Comment | None = None
    for comment in thread:
        if comment.question:
            waits = comment
        elif waits is not None and comment.by_id != waits.by_id:
            waits = None
    return waits


# Who is asked depends on none of these, and they are most of the bytes of a row.
UNREAD = ("spec", "asked", "reason", "decision_note", "profile_version__spec")
RELATED = ("team", "profile_version__profile")
PARTS = ("alternatives__profile_version__profile", "steps__by")


def asked_at(user: User) -> list[datetime]:
    """
    Return when each wish that waits for `user` was made, oldest first.

    Every page counts them, so no more is read than it takes to
    tell whose they are.
    """
    desk = ApprovalAuthority(user)
    if not (user.is_superuser or desk.teams):
        return []
    # Only platform admins decide outside the teams that they lead or stand in for.
    places: dict[str, Any] = {} if user.is_superuser else {"team__in": desk.teams}
    claims = Claim.objects.filter(state=ClaimState.REQUESTED, **places)
    claims = claims.select_related(*RELATED).defer(*UNREAD).prefetch_related(*PARTS)
    found = [claim.created_at for claim in claims if desk.is_asked(claim)]
    of_claims = {f"claim__{name}": value for name, value in places.items()}
    extensions = Extension.objects.filter(answer=RequestStatus.WAITING, **of_claims)
    extensions = extensions.select_related(*_of_claim(RELATED)).defer(*_of_claim(UNREAD))
    found += [
        one.asked_at
        for one in extensions.prefetch_related(*_of_claim(PARTS))
        if desk.is_asked(one.claim, asked_by=one.asked_by_id)
    ]
    if user.is_superuser:
        requests = QuotaRequest.objects.filter(answer=RequestStatus.WAITING).exclude(asked_by=user)
        found += requests.values_list("asked_at", flat=True)
    return sorted(found)


def undecided() -> int:
    """Return how many wishes of all kinds and teams nobody has decided yet."""
    waiting = (
        model.objects.filter(answer=RequestStatus.WAITING).count() for model in (Extension, QuotaRequest)
    )
    return Claim.objects.filter(state=ClaimState.REQUESTED).count() + sum(waiting)


def _of_claim(names: Iterable[str]) -> list[str]:
    return [f"claim__{name}" for name in names]
