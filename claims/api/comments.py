"""Questions about a claim, and answers."""

from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from claims import services
from claims.models import Claim, Comment
from core import idempotency
from core.inputs import Input
from core.schema import key
from teams.access import asker

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
        visible = Claim.objects.visible_to(asker(self.request))
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
            by=asker(request),
            key=idempotency.key_of(request),
            text=said.validated_data["text"],
        )
        return Response(CommentOut(comment).data, status=201)
