"""API of the inbox, of bulk decisions and of comments."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers, viewsets
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from claims import api_types
from claims.approvals.reminders import remind_deciders
from claims.inbox import bulk
from claims.inbox.bulk import MAX_REQUESTS, Decision, Selection, preview_decisions, total_effects
from claims.inbox.comments import comment_on_claim, comment_on_quota_request
from claims.inbox.inbox import TABS, DecidedItems, Inbox, InboxSearch, Item, ItemKind, Tab
from claims.models import Claim, Comment, PendingDecision, QuotaRequest
from core import idempotency
from core.errors import Invalid
from core.idempotency import IdempotentWrites
from core.inputs import Input, Rows, Texts, ordered, page_of
from core.schema import key
from core.scopes import Scope, needs
from teams.access import team_of_filter, user_of

TAB = OpenApiParameter(
    "tab",
    str,
    enum=list(TABS),
    default="mine",
    description="mine: waits for you; team: in your teams; all: everything you can see; decided: the past.",
)
SEARCH = [
    OpenApiParameter("q", str, description="Words in names, reasons and user names."),
    OpenApiParameter("team", str, description="Slug of the team."),
    OpenApiParameter("profile", str, description="Slug of the profile."),
]

KIND_CHOICES = [("claim", "claim"), ("extension", "extension"), ("quota", "quota")]


class ApprovalOut(serializers.Serializer[Any]):
    """One request for a claim, an extension or quota; `claim` is only set for a claim."""

    id = serializers.UUIDField(source="pk")
    kind = serializers.ChoiceField(choices=KIND_CHOICES)
    title = serializers.CharField()
    summary = serializers.CharField()
    team = serializers.CharField(source="team.slug")
    requested_by = serializers.CharField(source="requester.username")
    requested_at = serializers.DateTimeField()
    age = serializers.ChoiceField(choices=[("fresh", "fresh"), ("aging", "aging"), ("late", "late")])
    mine = serializers.BooleanField(help_text="Whether it waits for your decision")
    remarks = Texts(help_text="Escalation, first approval, open question")
    decision = serializers.CharField(help_text="empty while it is pending")
    decided_by = serializers.CharField(source="decided_by.username", allow_null=True, default=None)
    decided_at = serializers.DateTimeField(allow_null=True)
    url = serializers.CharField(help_text="Path of its page")
    claim = serializers.SerializerMethodField(allow_null=True)

    @extend_schema_field(api_types.ClaimOut(allow_null=True))
    def get_claim(self, item: Item) -> dict[str, Any] | None:
        claims: dict[str, dict[str, Any]] = self.context["claims"]
        return claims.get(str(item.pk))


class ApprovalViewSet(viewsets.GenericViewSet[Claim]):
    """
    The inbox: pending requests oldest first, decided ones newest first.

    Decide with `claims/{id}/approve/` and `claims/{id}/deny/`, or in bulk with `approvals/decide/`.
    """

    serializer_class = ApprovalOut
    pagination_class: Any = Rows
    queryset = Claim.objects.none()

    @extend_schema(parameters=[TAB, *SEARCH])
    def list(self, request: Request) -> Response:
        query = request.query_params
        tab: Tab | None = next((name for name in TABS if name == query.get("tab", "mine")), None)
        if tab is None:
            raise Invalid(f"tab is one of {', '.join(TABS)}.", field="tab")
        search = InboxSearch(*(query.get(name, "").strip()[:200] for name in ("q", "team", "profile")))
        if search.team:
            team_of_filter(user_of(request), search.team)
        if search.profile:
            api_types.profile_named(search.profile, user_of(request))
        inbox = Inbox(user_of(request), search)
        if tab == "decided":
            page: Sequence[Item] = self.paginate_queryset(DecidedItems(inbox)) or []
        else:  # by cursor: none is left out while those before are decided
            self.pagination_class = ordered("requested_at", "pk")
            page = inbox.pending_items(self.paginate_queryset(inbox.keys(tab)) or [])
        claims = api_types.claims_by_keys([item.pk for item in page if item.kind == "claim"])
        context = {"claims": {claim["id"]: claim for claim in claims}}
        return self.get_paginated_response(ApprovalOut(page, many=True, context=context).data)


class ItemIn(Input):
    """One request of the inbox; to approve a claim, send the hash of the spec that was read."""

    kind = serializers.ChoiceField(choices=KIND_CHOICES)
    id = serializers.UUIDField()
    spec_hash = serializers.CharField(max_length=64, allow_blank=True, default="")


class DecideIn(Input):
    """With `preview` nothing is decided. A denial needs a `note`, its reason."""

    decision = serializers.ChoiceField(choices=Decision.choices)
    requests = ItemIn(  # type: ignore[call-arg]  # `many` creates a list serializer
        many=True,
        max_length=MAX_REQUESTS,
        error_messages={"max_length": "You can decide on up to {max_length} requests at once."},
    )
    note = serializers.CharField(max_length=500, allow_blank=True, default="")
    preview = serializers.BooleanField(default=False)


class DecidedOut(serializers.Serializer[Any]):
    """`said` is the effect of an approval or the result; with a `code`, why it failed."""

    kind = serializers.ChoiceField(choices=KIND_CHOICES)
    id = serializers.UUIDField()
    title = serializers.CharField()
    done = serializers.BooleanField()
    message = serializers.CharField()
    warning = serializers.CharField(help_text="What speaks against an approval")
    code = serializers.CharField()


class DecisionsOut(serializers.Serializer[Any]):
    results = DecidedOut(many=True, help_text="Oldest first; requests that you may not see are left out")
    together = Texts(help_text="In a preview: the effect of all approvals on each quota")


@needs(Scope.APPROVE)
class DecideView(IdempotentWrites):
    """Approve or deny up to 50 requests, each in its own transaction."""

    is_several = True

    @extend_schema(request=DecideIn, responses=DecisionsOut)
    def post(self, request: Request) -> Response:
        fields = DecideIn.of(request).validated_data
        decision, preview, note = Decision(fields["decision"]), fields["preview"], fields["note"]
        if decision == Decision.DENY and not preview and not note.strip():
            raise Invalid("Give a reason. The requester will see it.", field="note")
        requests = fields["requests"]
        kinds: tuple[ItemKind, ...] = ("claim", "extension", "quota")
        ids = {kind: {row["id"] for row in requests if row["kind"] == kind} for kind in kinds}
        inbox = Inbox(user_of(request))
        selection = bulk.select_requests(inbox, ids)
        if preview:
            return Response(DecisionsOut(_preview(inbox, selection)).data)
        spec_hashes = {row["id"]: row["spec_hash"] for row in requests}
        results = [
            {
                **_identity(result.item),
                "done": not result.refusal,
                "message": result.refusal or result.done,
                "warning": "",
                "code": result.code,
            }
            for result in bulk.decide(inbox, selection, decision, note=note, spec_hashes=spec_hashes)
        ]
        return Response(DecisionsOut({"results": results, "together": []}).data)


def _preview(inbox: Inbox, selection: Selection) -> dict[str, Any]:
    previews = preview_decisions(inbox, selection)
    results = [
        {
            **_identity(preview.item),
            "done": False,
            "message": preview.blocked_reason or " ".join(preview.effects),
            "warning": preview.warning,
            "code": "refused" if preview.blocked_reason else "",
        }
        for preview in previews
    ]
    return {"results": results, "together": total_effects(previews)}


def _identity(item: Item) -> dict[str, Any]:
    return {"kind": item.kind, "id": item.pk, "title": item.title}


KEY = key("The same key adds one comment.")


class CommentIn(Input):
    text = serializers.CharField(max_length=2000)


class CommentOut(serializers.ModelSerializer[Comment]):
    by = serializers.CharField(source="by.username")

    class Meta:
        model = Comment
        fields = ("id", "by", "at", "text", "question")
        read_only_fields = fields


@needs(Scope.REQUEST)
class Comments(GenericAPIView[Comment]):
    pagination_class = ordered("at", "pk")

    @extend_schema(responses=CommentOut(many=True))
    def get(self, request: Request, pk: UUID) -> Response:
        """All comments, oldest first."""
        return page_of(self, self.subject(pk).comments.select_related("by"), CommentOut)

    @extend_schema(request=CommentIn, responses={201: CommentOut}, parameters=[KEY])
    def post(self, request: Request, pk: UUID) -> Response:
        """Comment. From somebody who may decide while the request is pending, it is a question."""
        text, key = CommentIn.of(request).validated_data["text"], idempotency.idempotency_key(request)
        comment = self.comment(self.subject(pk), by=user_of(request), key=key, text=text)
        return Response(CommentOut(comment).data, status=201)

    def subject(self, pk: UUID) -> Any:
        raise NotImplementedError

    def comment(self, subject: Any, **sent: Any) -> Comment:
        raise NotImplementedError


class CommentsView(Comments):
    """Comments on a claim."""

    def subject(self, pk: UUID) -> Claim:
        visible = Claim.objects.visible_to(user_of(self.request))
        return get_object_or_404(visible.select_related("team"), pk=pk)

    def comment(self, subject: Claim, **sent: Any) -> Comment:
        return comment_on_claim(claim=subject, **sent)


class QuotaCommentsView(Comments):
    """Comments on a quota request."""

    def subject(self, pk: UUID) -> QuotaRequest:
        visible = QuotaRequest.objects.visible_to(user_of(self.request))
        return get_object_or_404(visible.select_related("team", "requested_by"), pk=pk)

    def comment(self, subject: QuotaRequest, **sent: Any) -> Comment:
        return comment_on_quota_request(quota_request=subject, **sent)


class RemindedOut(serializers.Serializer[Any]):
    reminded = Texts(help_text="User names")


@needs(Scope.ADMIN)
class RemindDecidersView(IdempotentWrites):
    @extend_schema(request=None, responses=RemindedOut)
    def post(self, request: Request, pk: UUID) -> Response:
        """
        Remind the people who decide on a request of the inbox. Platform admins only; 409 within four hours
        of the last reminder.
        """
        related = ("team", "claim", "extension", "quota_request", "requester")
        visible = PendingDecision.objects.visible_to(user_of(request)).select_related(*related)
        pending = get_object_or_404(visible, pk=pk)
        people = remind_deciders(request=pending, by=user_of(request), now=timezone.now())
        return Response({"reminded": [person.username for person in people]})
