"""API: where the reader is signed in with a browser, and signing out there."""

from __future__ import annotations

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from core.errors import Forbidden
from core.idempotency import Objects
from core.inputs import ordered
from core.limits import limiting_team
from core.schema import refuses
from core.scopes import Scope, needs
from teams.access import user_of
from teams.models import ApiToken, Session
from teams.sign_out import sessions_of, sign_out, sign_out_others


class SessionOut(serializers.ModelSerializer[Session]):
    browser = serializers.CharField(read_only=True, help_text="In words: Firefox on Linux")
    address = serializers.CharField(allow_null=True, help_text="Of the client, when it was seen last.")
    last_seen_at = serializers.DateTimeField(help_text="Noted once an hour.")
    signed_in_with = serializers.CharField(
        help_text="password, passkey or the name of an identity provider; empty for anything else."
    )

    class Meta:
        model = Session
        fields = ("id", "browser", "created_at", "signed_in_with", "last_seen_at", "address")


class EndedOut(serializers.Serializer[dict[str, int]]):
    ended = serializers.IntegerField(help_text="How many sessions were ended.")


@needs(Scope.REQUEST)
class SessionViewSet(Objects[Session]):
    """Your sessions in browsers; a token that is limited to one team sees none."""

    serializer_class = SessionOut
    volatile = frozenset(("last_seen_at",))
    lookup_field = "id"
    lookup_value_converter = "uuid"
    pagination_class = ordered("-created_at", "id")
    queryset = Session.objects.none()

    def get_queryset(self) -> QuerySet[Session]:
        if limiting_team() is not None:
            return Session.objects.none()
        return sessions_of(user_of(self.request))

    @refuses(404)
    def destroy(self, request: Request, id: str) -> Response:
        """Sign out one browser."""
        sign_out(by=user_of(request), session=get_object_or_404(self.get_queryset(), id=id))
        return Response(status=204)

    @refuses(403)
    @extend_schema(request=None, responses=EndedOut)
    @action(detail=False, methods=["post"], url_path="end-others")
    def end_others(self, request: Request) -> Response:
        """Sign out everywhere, except the browser that sends this."""
        if limiting_team() is not None:
            raise Forbidden("The token of this request is limited to one team; sessions are of the account.")
        here = None if isinstance(request.auth, ApiToken) else request._request.session.session_key
        return Response({"ended": sign_out_others(by=user_of(request), here=here)})
