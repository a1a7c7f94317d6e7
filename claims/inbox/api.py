"""API of what waits for a decision, of bulk decisions and of comments."""

from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from claims import api_types
from claims.inbox import bulk, services
from claims.inbox.bulk import preview, together
from claims.inbox.inbox import TABS, Inbox, InboxSearch, Item, ItemKind, Tab
from claims.models import Claim, Comment
from core import idempotency
from core.errors import Invalid
from core.idempotency import IdempotentWrites
from core.inputs import Input
from core.paging import Numbered
from core.schema import key, refuses
from teams.access import user_of

TAB = OpenApiParameter(
    "tab", str, enum=list(TABS), default="mine", description="Whose decision is waited for."
)
SEARCH = [
    OpenApiParameter("q", str, description="Words in names, reasons and people."),
    OpenApiParameter("team", str, description="Slug of the team."),
    OpenApiParameter("profile", str, description="Slug of the profile."),
]


class ApprovalOut(serializers.Serializer[Any]):
    """One wish that somebody decides on; `claim` is there for requests for claims."""

    id = serializers.UUIDField(source="pk")
    kind = serializers.ChoiceField(
        choices=[("claim", "claim"), ("extension", "extension"), ("quota", "quota")]
    )
    title = serializers.CharField()
    what = serializers.CharField()
    team = serializers.CharField(source="team.slug")
    asked_by = serializers.CharField(source="asked_by.username")
    asked_at = serializers.DateTimeField()
    age = serializers.ChoiceField(choices=[("fresh", "fresh"), ("aging", "aging"), ("late", "late")])
    mine = serializers.BooleanField(help_text="Whether it waits for you")
    said = serializers.ListField(child=serializers.CharField(), help_text="What else is to know")
    answer = serializers.CharField(help_text="Empty while it waits")
    decided_by = serializers.CharField(source="decided_by.username", allow_null=True, default=None)
    decided_at = serializers.DateTimeField(allow_null=True)
    url = serializers.CharField(help_text="Path of its page")
    claim = api_types.ClaimOut(allow_null=True)


class ApprovalViewSet(viewsets.GenericViewSet[Claim]):
    """
    The inbox of those who decide, oldest first; what is decided newest first.

    Decide with `claims/{id}/approve/` and `claims/{id}/deny/`, on others with the addresses of their kind.
    """

    serializer_class = ApprovalOut
    pagination_class = Numbered
    queryset = Claim.objects.none()

    @refuses(404)
    @extend_schema(parameters=[TAB, *SEARCH])
    def list(self, request: Request) -> Response:
        said = request.query_params
        tab: Tab | None = next((known for known in TABS if known == said.get("tab", "mine")), None)
        if tab is None:
            raise Invalid(f"tab is one of {', '.join(TABS)}.", field="tab")
        search = InboxSearch(*(said.get(name, "").strip()[:200] for name in ("q", "team", "profile")))
        page = self.paginate_queryset(Inbox(user_of(request), search).tab(tab))
        return self.get_paginated_response(ApprovalOut(page, many=True).data)


KIND_CHOICES = [("claim", "claim"), ("extension", "extension"), ("quota", "quota")]


class ItemIn(Input):
    """One wish of the inbox; of a claim that is approved also the hash of the spec that was read."""

    kind = serializers.ChoiceField(choices=KIND_CHOICES)
    id = serializers.UUIDField()
    spec_hash = serializers.CharField(max_length=64, allow_blank=True, default="")


class DecideIn(Input):
    """With `preview` nothing is decided. To deny, `note` is the reason."""

    answer = serializers.ChoiceField(choices=bulk.Decision.choices)
    wishes = ItemIn(  # type: ignore[call-arg]  # of the list that `many` makes
        many=True,
        max_length=bulk.MOST,
        error_messages={"max_length": "At most {max_length} can be decided at once."},
    )
    note = serializers.CharField(max_length=500, allow_blank=True, default="")
    preview = serializers.BooleanField(default=False)


class DecidedOut(serializers.Serializer[Any]):
    """`said` is what approving does to one wish, or what became of it; with a `code` it is why not."""

    kind = serializers.ChoiceField(choices=KIND_CHOICES)
    id = serializers.UUIDField()
    title = serializers.CharField()
    done = serializers.BooleanField()
    said = serializers.CharField()
    warning = serializers.CharField(help_text="What speaks against approving it")
    code = serializers.CharField()


class DecisionsOut(serializers.Serializer[Any]):
    results = DecidedOut(many=True, help_text="Oldest first; what you may not know of is left out")
    together = serializers.ListField(
        child=serializers.CharField(), help_text="Of a preview: what they come to in each quota"
    )


class DecideView(IdempotentWrites):
    """Approve or deny several wishes of the inbox, each by itself; 50 at most."""

    @extend_schema(request=DecideIn, responses=DecisionsOut)
    def post(self, request: Request) -> Response:
        asked = DecideIn(data=request.data)
        asked.is_valid(raise_exception=True)
        said = asked.validated_data
        decision = bulk.Decision(said["answer"])
        if decision == bulk.Decision.DENY and not said["preview"] and not said["note"].strip():
            raise Invalid("Say why: the person who asked sees this sentence.", field="note")
        kinds: tuple[ItemKind, ...] = ("claim", "extension", "quota")
        ids = {kind: {wish["id"] for wish in said["wishes"] if wish["kind"] == kind} for kind in kinds}
        inbox = Inbox(user_of(request))
        wishes = bulk.chosen(inbox, ids)
        if said["preview"]:
            return Response(DecisionsOut(_previewed(inbox, wishes)).data)
        seen = {wish["id"]: wish["spec_hash"] for wish in said["wishes"]}
        results = [
            {
                **_named(one.item),
                "done": not one.refusal,
                "said": one.refusal or one.done,
                "warning": "",
                "code": one.code,
            }
            for one in bulk.decide(inbox, wishes, decision, note=said["note"], seen=seen)
        ]
        return Response(DecisionsOut({"results": results, "together": []}).data)


def _previewed(inbox: Inbox, wishes: bulk.Chosen) -> dict[str, Any]:
    lines = preview(inbox, wishes)
    results = [
        {
            **_named(line.item),
            "done": False,
            "said": line.reason_not or " ".join(line.will),
            "warning": line.warning,
            "code": "refused" if line.reason_not else "",
        }
        for line in lines
    ]
    return {"results": results, "together": together(lines)}


def _named(item: Item) -> dict[str, Any]:
    return {"kind": item.kind, "id": item.pk, "title": item.title}


KEY = key("The same key says it once.")


class CommentIn(Input):
    text = serializers.CharField(max_length=2000)


class CommentOut(serializers.ModelSerializer[Comment]):
    by = serializers.CharField(source="by.username")

    class Meta:
        model = Comment
        fields = ("id", "by", "at", "text", "question")
        read_only_fields = fields


class CommentsView(APIView):
    """The thread under a claim."""

    def claim(self, claim_id: UUID) -> Claim:
        visible = Claim.objects.visible_to(user_of(self.request))
        return get_object_or_404(visible.select_related("team"), pk=claim_id)

    @extend_schema(operation_id="claims_comments_list", responses=CommentOut(many=True))
    def get(self, request: Request, claim_id: UUID) -> Response:
        """Every line, oldest first."""
        lines = self.claim(claim_id).comments.select_related("by")
        return Response(CommentOut(lines, many=True).data)

    @extend_schema(request=CommentIn, responses={201: CommentOut}, parameters=[KEY])
    def post(self, request: Request, claim_id: UUID) -> Response:
        """Write a line. From somebody who may decide while the claim waits it is a question."""
        said = CommentIn(data=request.data)
        said.is_valid(raise_exception=True)
        comment = services.comment_on_claim(
            claim=self.claim(claim_id),
            by=user_of(request),
            key=idempotency.idempotency_key(request),
            text=said.validated_data["text"],
        )
        return Response(CommentOut(comment).data, status=201)
