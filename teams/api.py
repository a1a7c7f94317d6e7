"""API of people, teams and tokens. It calls the services that the pages call."""

from typing import Any

from django.db.models import Count, OuterRef, Prefetch, Q, QuerySet, Subquery
from django.shortcuts import get_object_or_404
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from core.errors import Invalid
from core.idempotency import Objects
from core.inputs import Input, ordered, validate_name
from core.limits import limiting_team
from core.schema import refuses
from core.scopes import Scope, needs
from teams import services
from teams.access import memberships_of, require_admin, team_for, user_of
from teams.models import ApiToken, Membership, Team, User
from teams.tokens import DEFAULT_SCOPES, OVERLAPS, create_token, revoke_token, rotate_token
from teams.zones import parse_zone

OVERLAP_NAMES = dict(zip(("0h", "1h", "1d", "7d"), OVERLAPS, strict=True))


class MembershipOut(serializers.ModelSerializer[Membership]):
    team = serializers.SlugRelatedField[Team](slug_field="slug", read_only=True)
    title = serializers.CharField(source="team.title", read_only=True)

    class Meta:
        model = Membership
        fields = ("team", "title", "role")


USES = frozenset(("last_used_at", "last_used_from"))  # change by themselves


class TokenOut(serializers.ModelSerializer[ApiToken]):
    """After a rotation the text before it works until `previous_ends_at`."""

    scopes = serializers.ListField(child=serializers.ChoiceField(choices=Scope.choices))
    team = serializers.SlugRelatedField[Team](
        source="limited_to",
        slug_field="slug",
        read_only=True,
        allow_null=True,
        help_text="The only team that it may see; null for all teams of its user.",
    )
    last_used_from = serializers.CharField(
        allow_null=True, help_text="Address of the client that used it last."
    )

    class Meta:
        model = ApiToken
        fields = (
            "id", "title", "start", "scopes", "team", "created_at", "expires_at", "last_used_at",
            "last_used_from", "rotated_at", "previous_ends_at",
        )  # fmt: skip


class MeIn(Input):
    """What is left out stays. The email address is changed in a browser: a new password is sent to it."""

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
    platform_admin = serializers.BooleanField(
        source="is_superuser", read_only=True, help_text="False with a token without the scope `admin`."
    )
    service_account = serializers.BooleanField(source="is_service_account", read_only=True)
    teams = MembershipOut(source="rows", many=True, read_only=True)
    token = TokenOut(read_only=True, allow_null=True, help_text="Null for the session of a browser.")

    class Meta:
        model = User
        fields = (
            "id", "username", "name", "email", "platform_admin", "service_account", "timezone", "teams",
            "token",
        )  # fmt: skip


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


class NewTokenOut(TokenOut):
    token = serializers.CharField(read_only=True, help_text="The token. It is returned only once.")

    class Meta:
        model = ApiToken
        fields = (*TokenOut.Meta.fields, "token")


class TokenIn(Input):
    title = serializers.CharField(max_length=80)
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=Scope.choices),
        default=list(DEFAULT_SCOPES),
        help_text="`read` is always among them. With a token: only scopes that it has.",
    )
    team = serializers.CharField(
        max_length=40,
        required=False,
        allow_null=True,
        help_text="The only team that the token may see; without it all of yours, or that of the token.",
    )
    expires_at = serializers.DateTimeField(
        required=False,
        help_text="At most a year from now, and not after the expiry of the token that creates it; "
        "without it, in 90 days or with that token.",
    )


class RotateIn(Input):
    overlap = serializers.ChoiceField(
        choices=list(OVERLAP_NAMES),
        default="1d",
        help_text="How long the text before works on. It makes, rotates and revokes no tokens.",
    )

    @property
    def chosen(self) -> dict[str, Any]:
        """What a rotation takes."""
        return {**self.validated_data, "overlap": OVERLAP_NAMES[self.validated_data["overlap"]]}


class TokenRotateIn(RotateIn):
    end_made = serializers.BooleanField(
        default=False, help_text="End the tokens that it has made. Without it they go on."
    )


@needs(Scope.REQUEST)
class Me(APIView):
    @extend_schema(responses=MeOut)
    def get(self, request: Request) -> Response:
        """The user of this request, with a role in each team, and the token of this request."""
        user = user_of(request)
        user.rows = memberships_of(user).select_related("team").order_by("pk")  # type: ignore[attr-defined]
        user.token = token_of(request)  # type: ignore[attr-defined]
        return Response(MeOut(user).data)

    @extend_schema(request=MeIn, responses=MeOut)
    def patch(self, request: Request) -> Response:
        """Change your name, time zone and theme. A service account is changed by the leads of its team."""
        services.change_profile(by=user_of(request), **MeIn.of(request).validated_data)
        return self.get(request)


PEOPLE = Q(memberships__user__service_of=None)


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
        max_length=150,
        allow_blank=True,
        default="",
        help_text="User name of the owner, who manages the members",
    )


@needs(Scope.ADMIN)
class TeamViewSet(Objects[Team]):
    """Your teams; all teams for platform admins."""

    queryset = Team.objects.none()
    lookup_field = "slug"
    pagination_class = ordered("slug")

    def get_queryset(self) -> QuerySet[Team]:
        return teams_for(user_of(self.request), with_people=self.action == "retrieve")

    def get_serializer_class(self) -> type[TeamOut]:
        return TeamDetailOut if self.action == "retrieve" else TeamOut

    @extend_schema(request=TeamIn, responses={201: TeamDetailOut})
    def create(self, request: Request) -> Response:
        """Create a team, with its first owner. Platform admins only."""
        user = user_of(request)
        require_admin(user)
        fields = TeamIn.of(request).validated_data
        name = fields.pop("owner")
        owner = User.objects.filter(username=name, is_active=True, service_of=None).first() if name else None
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
        services.change_team(by=user, team=team, **TeamChangeIn.of(request).validated_data)
        return Response(team_out(user, slug))


def teams_for(user: User, *, with_people: bool = False) -> QuerySet[Team]:
    """Return the teams that a person may see, each with their role and the number of its members."""
    mine = memberships_of(user).filter(team=OuterRef("pk")).values("role")[:1]
    # A subquery: visible_to joins only the memberships of `user`, and the count needs all.
    visible = Team.objects.filter(pk__in=Team.objects.visible_to(user).values("pk"))
    teams = visible.annotate(role=Subquery(mine), headcount=Count("memberships", filter=PEOPLE))
    people = Membership.objects.filter(user__service_of=None).select_related("user").order_by("pk")
    return teams.prefetch_related(Prefetch("memberships", people)) if with_people else teams


def team_out(user: User, slug: str) -> dict[str, Any]:
    """Return a team with its members, as `TeamDetailOut` has it."""
    return dict(TeamDetailOut(teams_for(user, with_people=True).get(slug=slug)).data)


def token_of(request: Request) -> ApiToken | None:
    """Return the token of a request, None for a session."""
    return request.auth if isinstance(request.auth, ApiToken) else None


def new_token(row: ApiToken, text: str, status: int = 200) -> Response:
    """Return the response with the text of a token, the only one that has it."""
    row.refresh_from_db()
    return Response({**TokenOut(row).data, "token": text}, status=status)


@needs(Scope.REQUEST)
class TokenViewSet(Objects[ApiToken]):
    """Your own tokens. Nobody can read the tokens of others."""

    lookup_value_converter = "uuid"
    shown_once = frozenset(("token",))
    volatile = USES
    queryset = ApiToken.objects.none()
    serializer_class = TokenOut

    def get_queryset(self) -> QuerySet[ApiToken]:
        tokens = ApiToken.objects.filter(user=user_of(self.request), revoked_at=None)
        team = limiting_team()
        return (tokens if team is None else tokens.filter(limited_to=team)).select_related("limited_to")

    @refuses(404)
    @extend_schema(request=TokenIn, responses={201: NewTokenOut})
    def create(self, request: Request) -> Response:
        """Create a token. Only this response contains its text."""
        fields, user = TokenIn.of(request).validated_data, user_of(request)
        if slug := fields.pop("team", None):
            fields["team"] = team_for(user, slug)
        row, text = create_token(by=user, made_with=token_of(request), **fields)
        return new_token(row, text, status=201)

    @refuses(409)
    @extend_schema(request=TokenRotateIn, responses=NewTokenOut)
    @action(detail=True, methods=["post"])
    def rotate(self, request: Request, pk: str) -> Response:
        """
        Give the token a new text and a new expiry after the same time. Only this response contains the text.
        With a token the expiry is not put off.
        """
        body = TokenRotateIn.of(request)
        row = get_object_or_404(self.get_queryset(), pk=pk)
        text = rotate_token(by=user_of(request), token=row, made_with=token_of(request), **body.chosen)
        return new_token(row, text)

    def destroy(self, request: Request, pk: str) -> Response:
        """
        Revoke a token immediately, with those that it created or rotated. With a token: only one that may no
        more than that.
        """
        token = get_object_or_404(self.get_queryset(), pk=pk)
        revoke_token(by=user_of(request), token=token, made_with=token_of(request))
        return Response(status=204)


# Extensions register themselves when they are defined.
class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # drf-spectacular has no types
    target_class = "teams.tokens.BearerToken"
    name = "bearer"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "drg_…"}


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "teams.tokens.BrowserSession"
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        return {"type": "apiKey", "in": "cookie", "name": "__Host-sessionid"}
