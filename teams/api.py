"""The API of people, teams and tokens: the same services as the pages, another skin."""

from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from core.paging import Cursor
from teams.access import asker
from teams.keyed import KeyedWrites
from teams.models import ApiToken, Membership, Notice, Team, User
from teams.notices import mark_read
from teams.serializers import (
    MeOut,
    NoticeOut,
    NoticesReadIn,
    NoticesReadOut,
    TeamDetailOut,
    TeamOut,
    TokenIn,
    TokenMadeOut,
    TokenOut,
)
from teams.tokens import create_token, revoke_token


class Me(APIView):
    @extend_schema(operation_id="me", responses=MeOut)
    def get(self, request: Request) -> Response:
        """Who the token belongs to, and their role in each of their teams."""
        me = User.objects.prefetch_related("memberships__team").get(pk=asker(request).pk)
        return Response(MeOut(me).data)


class TeamViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Team]):
    """The teams of the asker; every team for a platform admin."""

    queryset = Team.objects.none()
    lookup_field = "slug"
    pagination_class = type("BySlug", (Cursor,), {"ordering": "slug"})

    def get_queryset(self) -> QuerySet[Team]:
        user = asker(self.request)
        mine = Membership.objects.filter(team=OuterRef("pk"), user=user).values("role")[:1]
        # A subquery, as the filter of visible_to joins the memberships of the asker alone.
        visible = Team.objects.filter(pk__in=Team.objects.visible_to(user).values("pk"))
        teams = visible.annotate(role=Subquery(mine), headcount=Count("memberships"))
        return teams.prefetch_related("memberships__user") if self.action == "retrieve" else teams

    def get_serializer_class(self) -> type[TeamOut]:
        return TeamDetailOut if self.action == "retrieve" else TeamOut


class TokenViewSet(KeyedWrites, mixins.ListModelMixin, viewsets.GenericViewSet[ApiToken]):
    """The asker's own tokens. There is no way to read the token of somebody else, for anybody."""

    lookup_value_converter = "uuid"
    shown_once = frozenset(("token",))
    queryset = ApiToken.objects.none()
    serializer_class = TokenOut

    def get_queryset(self) -> QuerySet[ApiToken]:
        return ApiToken.objects.filter(user=asker(self.request), revoked_at=None)

    @extend_schema(request=TokenIn, responses={201: TokenMadeOut})
    def create(self, request: Request) -> Response:
        """Make a token. The answer is the only place where it is ever shown."""
        asked = TokenIn(data=request.data)
        asked.is_valid(raise_exception=True)
        row, text = create_token(by=asker(request), **asked.validated_data)
        row.refresh_from_db()
        return Response({**TokenOut(row).data, "token": text}, status=201)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Revoke a token, at once."""
        revoke_token(by=asker(request), token=get_object_or_404(self.get_queryset(), pk=pk))
        return Response(status=204)


class NoticeViewSet(KeyedWrites, mixins.ListModelMixin, viewsets.GenericViewSet[Notice]):
    """What the portal had to tell the asker, newest first."""

    queryset = Notice.objects.none()
    serializer_class = NoticeOut
    pagination_class = type("Newest", (Cursor,), {"ordering": ("-created_at", "-id")})

    def get_queryset(self) -> QuerySet[Notice]:
        return Notice.objects.filter(user=asker(self.request))

    @extend_schema(request=NoticesReadIn, responses=NoticesReadOut)
    @action(detail=False, methods=["post"])
    def read(self, request: Request) -> Response:
        """Mark notices as read. Those of other people are left alone."""
        asked = NoticesReadIn(data=request.data)
        asked.is_valid(raise_exception=True)
        return Response({"read": mark_read(by=asker(request), ids=asked.validated_data["ids"])})
