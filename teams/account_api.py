"""API of the service accounts of a team and their tokens."""

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from core.idempotency import IdempotentWrites, Objects
from core.inputs import Input, ordered, page_of
from core.schema import refuses
from core.scopes import Scope, needs
from teams import service_accounts
from teams.access import team_for, user_of
from teams.api import USES, NewTokenOut, TokenOut, TokenRotateIn, new_token, token_of
from teams.models import ApiToken, Role, Team, User
from teams.service_accounts import ROLES, service_accounts_of, username_of
from teams.token_views import tokens_of
from teams.tokens import DEFAULT_SCOPES

ACCOUNT_ROLES = [(role.value, role.label) for role in ROLES]
ACCOUNT_SCOPES = [(scope.value, scope.label) for scope in service_accounts.SCOPES]


class ServiceAccountOut(serializers.ModelSerializer[User]):
    name = serializers.CharField(source="first_name", read_only=True)
    role = serializers.ChoiceField(choices=ACCOUNT_ROLES, read_only=True)
    enabled = serializers.BooleanField(source="is_active", read_only=True)
    last_used_at = serializers.DateTimeField(allow_null=True, read_only=True)

    class Meta:
        model = User
        fields = ("id", "name", "username", "role", "enabled", "last_used_at")


class ServiceAccountIn(Input):
    name = serializers.RegexField(
        r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=service_accounts.MAX_NAME_LENGTH
    )
    role = serializers.ChoiceField(choices=ACCOUNT_ROLES, default=Role.MEMBER)


class ServiceAccountChangeIn(Input):
    enabled = serializers.BooleanField(required=False)


class AccountTokenIn(Input):
    title = serializers.CharField(max_length=80)
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=ACCOUNT_SCOPES), default=list(DEFAULT_SCOPES)
    )
    expires_at = serializers.DateTimeField(
        required=False, help_text="At most a year from now; without it, in 90 days."
    )


@needs(Scope.ADMIN)
class ServiceAccountViewSet(IdempotentWrites, viewsets.GenericViewSet[User]):
    """Service accounts of a team: every member sees them, leads and owners change them."""

    queryset = User.objects.none()
    serializer_class = ServiceAccountOut
    pagination_class = ordered("first_name")
    lookup_field = "name"
    lookup_value_converter = "slug"

    def _accounts(self, *, at_least: Role) -> tuple[Team, QuerySet[User]]:
        team = team_for(user_of(self.request), self.kwargs["slug"], at_least=at_least)
        return team, service_accounts_of(team)

    def _account(self, *, at_least: Role = Role.LEAD) -> User:
        team, accounts = self._accounts(at_least=at_least)
        return get_object_or_404(accounts, username=username_of(self.kwargs["name"], team))

    @extend_schema(responses=ServiceAccountOut(many=True))
    def list(self, request: Request, slug: str) -> Response:
        """Service accounts of the team, by name."""
        return page_of(self, self._accounts(at_least=Role.VIEWER)[1], ServiceAccountOut)

    @refuses(409)
    @extend_schema(request=ServiceAccountIn, responses={201: ServiceAccountOut})
    def create(self, request: Request, slug: str) -> Response:
        """Create a service account; 409 if the team has one of that name."""
        team, accounts = self._accounts(at_least=Role.LEAD)
        body = ServiceAccountIn.of(request)
        name, role = body.validated_data["name"], Role(body.validated_data["role"])
        made = service_accounts.create_service_account(by=user_of(request), team=team, name=name, role=role)
        return Response(ServiceAccountOut(accounts.get(pk=made.pk)).data, status=201)

    def retrieve(self, request: Request, slug: str, name: str) -> Response:
        """A service account."""
        return Response(ServiceAccountOut(self._account(at_least=Role.VIEWER)).data)

    @extend_schema(request=ServiceAccountChangeIn, responses=ServiceAccountOut)
    def partial_update(self, request: Request, slug: str, name: str) -> Response:
        """Enable or disable a service account: the tokens of a disabled one do not work."""
        account = self._account()
        body = ServiceAccountChangeIn.of(request)
        if "enabled" in body.validated_data:
            service_accounts.set_enabled(by=user_of(request), account=account, **body.validated_data)
        return Response(ServiceAccountOut(self._account()).data)

    def destroy(self, request: Request, slug: str, name: str) -> Response:
        """Delete a service account: its tokens end, its claims stay with the team."""
        service_accounts.delete_service_account(by=user_of(request), account=self._account())
        return Response(status=204)


@needs(Scope.ADMIN)
@refuses(403)
class AccountTokenViewSet(Objects[ApiToken]):
    """Tokens of a service account without their texts, newest first, for leads and owners of its team."""

    shown_once = frozenset(("token",))
    volatile = USES
    queryset = ApiToken.objects.none()
    serializer_class = TokenOut
    lookup_value_converter = "uuid"

    def _account(self) -> User:
        team = team_for(user_of(self.request), self.kwargs["slug"], at_least=Role.LEAD)
        return get_object_or_404(service_accounts_of(team), username=username_of(self.kwargs["name"], team))

    def get_queryset(self) -> QuerySet[ApiToken]:
        return tokens_of(self._account())

    @extend_schema(request=AccountTokenIn, responses={201: NewTokenOut})
    def create(self, request: Request, slug: str, name: str) -> Response:
        """Create a token of the account. Only this response contains its text."""
        account = self._account()
        body = AccountTokenIn.of(request)
        row, text = service_accounts.create_account_token(
            by=user_of(request), account=account, made_with=token_of(request), **body.validated_data
        )
        return new_token(row, text, status=201)

    @refuses(409)
    @extend_schema(request=TokenRotateIn, responses=NewTokenOut)
    @action(detail=True, methods=["post"])
    def rotate(self, request: Request, slug: str, name: str, pk: str) -> Response:
        """Give a token of the account a new text. Only this response contains it."""
        account = self._account()
        body = TokenRotateIn.of(request)
        row = self.get_object()
        text = service_accounts.rotate_account_token(
            by=user_of(request), account=account, token=row, made_with=token_of(request), **body.chosen
        )
        return new_token(row, text)

    def destroy(self, request: Request, slug: str, name: str, pk: str) -> Response:
        """Revoke a token of the account immediately."""
        account = self._account()
        token = self.get_object()
        service_accounts.revoke_account_token(by=user_of(request), account=account, token=token)
        return Response(status=204)
