"""API of people, teams and tokens. It calls the services that the pages call."""

from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.shortcuts import get_object_or_404
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from core.idempotency import IdempotentWrites
from core.inputs import Cursor, Input
from teams.access import user_of
from teams.models import ApiToken, Membership, Team, User
from teams.tokens import create_token, revoke_token


class MembershipOut(serializers.ModelSerializer[Membership]):
    team = serializers.SlugRelatedField[Team](slug_field="slug", read_only=True)
    title = serializers.CharField(source="team.title", read_only=True)

    class Meta:
        model = Membership
        fields = ("team", "title", "role")


class MeOut(serializers.ModelSerializer[User]):
    name = serializers.CharField(source="label", read_only=True)
    platform_admin = serializers.BooleanField(source="is_superuser", read_only=True)
    teams = MembershipOut(source="memberships", many=True, read_only=True)

    class Meta:
        model = User
        fields = ("id", "username", "name", "email", "platform_admin", "timezone", "teams")


class TeamOut(serializers.ModelSerializer[Team]):
    role = serializers.SerializerMethodField(
        help_text="Your role; null for a platform admin who is not a member."
    )
    members = serializers.IntegerField(source="headcount", read_only=True)

    class Meta:
        model = Team
        fields = ("id", "slug", "title", "efficiency_goal", "role", "members")

    def get_role(self, team: Team) -> str | None:
        return getattr(team, "role", None)


class MemberOut(serializers.ModelSerializer[Membership]):
    username = serializers.CharField(source="user.username", read_only=True)
    name = serializers.CharField(source="user.label", read_only=True)

    class Meta:
        model = Membership
        fields = ("username", "name", "role")


class TeamDetailOut(TeamOut):
    """A team with its members."""

    people = MemberOut(source="memberships", many=True, read_only=True)

    class Meta:
        model = Team
        fields = (*TeamOut.Meta.fields, "people")


class TokenOut(serializers.ModelSerializer[ApiToken]):
    class Meta:
        model = ApiToken
        fields = ("id", "title", "start", "created_at", "expires_at", "last_used_at")


class NewTokenOut(serializers.ModelSerializer[ApiToken]):
    token = serializers.CharField(read_only=True, help_text="The token. It is returned only once.")

    class Meta:
        model = ApiToken
        fields = (*TokenOut.Meta.fields, "token")


class TokenIn(Input):
    title = serializers.CharField(max_length=80)
    expires_at = serializers.DateTimeField(
        required=False,
        help_text="At most a year from now, and not after the expiry of the token that creates it; "
        "without it, in 90 days or with that token.",
    )


class Me(APIView):
    @extend_schema(operation_id="me", responses=MeOut)
    def get(self, request: Request) -> Response:
        """The user of this request, with a role in each team."""
        me = User.objects.prefetch_related("memberships__team").get(pk=user_of(request).pk)
        return Response(MeOut(me).data)


class TeamViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Team]):
    """Your teams; all teams for platform admins."""

    queryset = Team.objects.none()
    lookup_field = "slug"
    pagination_class = type("BySlug", (Cursor,), {"ordering": "slug"})

    def get_queryset(self) -> QuerySet[Team]:
        user = user_of(self.request)
        mine = Membership.objects.filter(team=OuterRef("pk"), user=user).values("role")[:1]
        # A subquery: visible_to joins only the memberships of `user`, and the count needs all.
        visible = Team.objects.filter(pk__in=Team.objects.visible_to(user).values("pk"))
        teams = visible.annotate(role=Subquery(mine), headcount=Count("memberships"))
        return teams.prefetch_related("memberships__user") if self.action == "retrieve" else teams

    def get_serializer_class(self) -> type[TeamOut]:
        return TeamDetailOut if self.action == "retrieve" else TeamOut


class TokenViewSet(IdempotentWrites, mixins.ListModelMixin, viewsets.GenericViewSet[ApiToken]):
    """Your own tokens. Nobody can read the tokens of others."""

    lookup_value_converter = "uuid"
    shown_once = frozenset(("token",))
    queryset = ApiToken.objects.none()
    serializer_class = TokenOut

    def get_queryset(self) -> QuerySet[ApiToken]:
        return ApiToken.objects.filter(user=user_of(self.request), revoked_at=None)

    @extend_schema(request=TokenIn, responses={201: NewTokenOut})
    def create(self, request: Request) -> Response:
        """Create a token. Only this response contains its text."""
        body = TokenIn(data=request.data)
        body.is_valid(raise_exception=True)
        made_with = request.auth if isinstance(request.auth, ApiToken) else None
        row, text = create_token(by=user_of(request), made_with=made_with, **body.validated_data)
        row.refresh_from_db()
        return Response({**TokenOut(row).data, "token": text}, status=201)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Revoke a token immediately, with those that it created."""
        revoke_token(by=user_of(request), token=get_object_or_404(self.get_queryset(), pk=pk))
        return Response(status=204)


# Extensions register themselves when they are defined.
class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # drf-spectacular has no types
    target_class = "teams.tokens.BearerToken"
    name = "bearer"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "drg_…"}


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "teams.tokens.Session"
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        return {"type": "apiKey", "in": "cookie", "name": "sessionid"}
