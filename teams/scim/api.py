"""API of platform admins: the token with which an identity provider talks SCIM."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from core.idempotency import IdempotentWrites
from core.schema import refuses
from core.scopes import Scope, needs
from teams.access import user_of
from teams.api import RotateIn
from teams.identity.views import provider_for
from teams.scim.pages import ScimUse, scim_use
from teams.scim.tokens import create_scim_token, remove_scim_token


class ScimOut(serializers.Serializer[Any]):
    """Without a token the provider cannot talk SCIM, and the fields of the token are null."""

    start = serializers.CharField(source="token.start", allow_null=True, default=None)
    created_at = serializers.DateTimeField(source="token.created_at", allow_null=True, default=None)
    last_used_at = serializers.DateTimeField(source="token.last_used_at", allow_null=True, default=None)
    last_used_from = serializers.CharField(
        source="token.last_used_from",
        allow_null=True,
        default=None,
        help_text="Address of the client that used it last.",
    )
    previous_ends_at = serializers.DateTimeField(
        allow_null=True, help_text="Until when the text before the last rotation works."
    )
    people = serializers.IntegerField(help_text="Whom the provider keeps.")
    groups = serializers.IntegerField(help_text="Which the provider keeps.")


class NewScimOut(ScimOut):
    token = serializers.CharField(read_only=True, help_text="The token. It is returned only once.")


@needs(Scope.ADMIN, reading=True)
@refuses(403, 404)
class ScimView(IdempotentWrites, APIView):
    """SCIM 2.0 of an identity provider, at `/scim/v2/`. Platform admins only."""

    shown_once = frozenset(("token",))

    @extend_schema(responses=ScimOut)
    def get(self, request: Request, slug: str) -> Response:
        """Whether the provider may talk SCIM, and what it keeps."""
        return Response(_out(scim_use(provider_for(request._request, slug))))

    @refuses(403, 404, 409)
    @extend_schema(request=RotateIn, responses={201: NewScimOut})
    def post(self, request: Request, slug: str) -> Response:
        """Make a token, or give the one that there is a new text. Only this response contains it."""
        body = RotateIn.of(request)
        provider = provider_for(request._request, slug)
        _token, text = create_scim_token(by=user_of(request), provider=provider, **body.chosen)
        return Response({**_out(scim_use(provider)), "token": text}, status=201)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, slug: str) -> Response:
        """End SCIM of the provider; people and groups stay as they are."""
        remove_scim_token(by=user_of(request), provider=provider_for(request._request, slug))
        return Response(status=204)


def _out(use: ScimUse) -> dict[str, Any]:
    return dict(ScimOut(use).data)
