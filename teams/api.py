"""API of people, teams and tokens. It calls the services that the pages call."""

from typing import Any

from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.shortcuts import get_object_or_404
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from core.errors import Invalid
from core.idempotency import IdempotentWrites
from core.inputs import Cursor, Input, validate_name
from core.schema import refuses
from teams import services
from teams.access import require_admin, user_of
from teams.models import ApiToken, Membership, Team, User
from teams.tokens import create_token, revoke_token
from teams.zones import parse_zone


class MembershipOut(serializers.ModelSerializer[Membership]):
    team = serializers.SlugRelatedField[Team](slug_field="slug", read_only=True)
    title = serializers.CharField(source="team.title", read_only=True)

    class Meta:
        model = Membership
        fields = ("team", "title", "role")


class MeIn(Input):
    """What is left out stays. The mail address is changed in a browser: a new password is sent to it."""

    first_name = serializers.CharField(max_length=150, allow_blank=True, required=False)
    last_name = serializers.CharField(max_length=150, allow_blank=True, required=False)
    timezone = serializers.CharField(
        max_length=64,
        allow_blank=True,
        required=False,
        help_text="Of the IANA database, such as Europe/Berlin; empty: that of the browser",
    )
    theme = serializers.ChoiceField(choices=User.Theme.choices, allow_blank=True, required=False)

    def validate_timezone(self, name: str) -> str:
        if name and parse_zone(name) is None:
            raise serializers.ValidationError("This is no time zone of the IANA database.")
        return name


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
        fields = ("id", "slug", "title", "efficiency_goal", "archived_at", "role", "members")

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

    @extend_schema(operation_id="me_change", request=MeIn, responses=MeOut)
    def patch(self, request: Request) -> Response:
        """Change your name, time zone and theme."""
        body = MeIn(data=request.data)
        body.is_valid(raise_exception=True)
        services.change_profile(by=user_of(request), **body.validated_data)
        return self.get(request)


class TeamChangeIn(Input):
    """What is left out stays. The slug cannot be changed: it is a label on objects in clusters."""

    title = serializers.CharField(max_length=80, required=False)
    efficiency_goal = serializers.IntegerField(
        min_value=1, max_value=100, required=False, allow_null=True, help_text="Percent; null: no goal"
    )


class TeamIn(Input):
    slug = serializers.CharField(max_length=40, validators=[validate_name])
    title = serializers.CharField(max_length=80)
    owner = serializers.CharField(
        max_length=150, allow_blank=True, default="", help_text="User name of who manages the members"
    )


class TeamViewSet(
    IdempotentWrites, mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Team]
):
    """Your teams; all teams for platform admins."""

    queryset = Team.objects.none()
    lookup_field = "slug"
    pagination_class = type("BySlug", (Cursor,), {"ordering": "slug"})

    def get_queryset(self) -> QuerySet[Team]:
        return teams_for(user_of(self.request), with_people=self.action == "retrieve")

    def get_serializer_class(self) -> type[TeamOut]:
        return TeamDetailOut if self.action == "retrieve" else TeamOut

    @extend_schema(request=TeamIn, responses={201: TeamDetailOut})
    def create(self, request: Request) -> Response:
        """Create a team, with its first owner. Platform admins only."""
        user = user_of(request)
        require_admin(user)
        body = TeamIn(data=request.data)
        body.is_valid(raise_exception=True)
        fields = dict(body.validated_data)
        name = fields.pop("owner")
        owner = User.objects.filter(username=name, is_active=True).first() if name else None
        if name and owner is None:
            raise Invalid(f"No user has the name “{name}”.", field="owner")
        services.create_team(by=user, owner=owner, **fields)
        return Response(team_out(user, fields["slug"]), status=201)

    @refuses(404)
    @extend_schema(request=TeamChangeIn, responses=TeamDetailOut)
    def partial_update(self, request: Request, slug: str) -> Response:
        """Change the title or the efficiency goal. Platform admins only."""
        user, team = user_of(request), self.get_object()
        require_admin(user)
        body = TeamChangeIn(data=request.data)
        body.is_valid(raise_exception=True)
        fields = body.validated_data
        if "title" in fields:
            services.rename_team(by=user, team=team, title=fields["title"])
        if "efficiency_goal" in fields:
            services.set_efficiency_goal(by=user, team=team, percent=fields["efficiency_goal"])
        return Response(team_out(user, slug))


def teams_for(user: User, *, with_people: bool = False) -> QuerySet[Team]:
    """Return the teams that a person may see, each with their role and the number of its members."""
    mine = Membership.objects.filter(team=OuterRef("pk"), user=user).values("role")[:1]
    # A subquery: visible_to joins only the memberships of `user`, and the count needs all.
    visible = Team.objects.filter(pk__in=Team.objects.visible_to(user).values("pk"))
    teams = visible.annotate(role=Subquery(mine), headcount=Count("memberships"))
    return teams.prefetch_related("memberships__user") if with_people else teams


def team_out(user: User, slug: str) -> dict[str, Any]:
    """Return a team with its members, as `TeamDetailOut` has it."""
    return dict(TeamDetailOut(teams_for(user, with_people=True).get(slug=slug)).data)


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
