"""API of a person's notices."""

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from core.idempotency import IdempotentWrites
from core.inputs import Cursor, Input
from notify.models import Notice
from notify.services import mark_read
from teams.access import user_of


class NoticeOut(serializers.ModelSerializer[Notice]):
    class Meta:
        model = Notice
        fields = ("id", "title", "body", "url", "important", "created_at", "read_at")


class NoticesReadIn(Input):
    ids = serializers.ListField(
        child=serializers.UUIDField(), allow_null=True, default=None, help_text="Null: all of them."
    )


class NoticesReadOut(serializers.Serializer[Notice]):
    read = serializers.IntegerField(help_text="How many of them were unread")


class NoticeViewSet(IdempotentWrites, mixins.ListModelMixin, viewsets.GenericViewSet[Notice]):
    """Notices of the user, newest first."""

    queryset = Notice.objects.none()
    serializer_class = NoticeOut
    pagination_class = type("Newest", (Cursor,), {"ordering": ("-created_at", "-id")})

    def get_queryset(self) -> QuerySet[Notice]:
        return Notice.objects.filter(user=user_of(self.request))

    @extend_schema(request=NoticesReadIn, responses=NoticesReadOut)
    @action(detail=False, methods=["post"])
    def read(self, request: Request) -> Response:
        """Mark notices as read. Ids of other people's notices are ignored."""
        body = NoticesReadIn(data=request.data)
        body.is_valid(raise_exception=True)
        return Response({"read": mark_read(by=user_of(request), ids=body.validated_data["ids"])})
