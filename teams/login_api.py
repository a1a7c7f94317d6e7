"""API of logins that need no token: the device login (RFC 8628)."""

from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from core.inputs import Input, KnownParameters
from core.origin import client_address
from core.schema import refuses
from core.scopes import Scope
from teams import device_login
from teams.models import ApiToken
from teams.tokens import DEFAULT_SCOPES


class LoginView(APIView):
    """A view that anybody may use, at `API_ANONYMOUS_RATE`; the responses are never cached."""

    authentication_classes = ()
    permission_classes = (AllowAny, KnownParameters)

    def finalize_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().finalize_response(*args, **kwargs)
        response["Cache-Control"] = "no-store"
        return response


class DeviceLoginIn(Input):
    client = serializers.CharField(max_length=80, help_text="What asks, for example: dragoman CLI on mira-01")
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=Scope.choices), default=list(DEFAULT_SCOPES)
    )


class DeviceCodesOut(serializers.Serializer[Any]):
    device_code = serializers.CharField(help_text="For the program, which keeps it secret.")
    user_code = serializers.CharField(help_text="For the person, who types it at `verification_uri`.")
    verification_uri = serializers.URLField()
    verification_uri_complete = serializers.URLField(help_text="The same with the code, for a QR code.")
    expires_in = serializers.IntegerField(help_text="Seconds")
    interval = serializers.IntegerField(help_text="Seconds between two questions for the token")


class DeviceTokenIn(Input):
    device_code = serializers.CharField(max_length=100)


class GrantedTokenOut(serializers.Serializer[Any]):
    access_token = serializers.CharField()
    token_type = serializers.ChoiceField(choices=["Bearer"])
    expires_at = serializers.DateTimeField()
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=Scope.choices))


def granted(token: ApiToken, text: str) -> Response:
    """Return the response with a token for a program."""
    shown = {
        "access_token": text,
        "token_type": "Bearer",
        "expires_at": token.expires_at,
        "scopes": token.scopes,
    }
    return Response(GrantedTokenOut(shown).data)


class DeviceLoginView(LoginView):
    @extend_schema(request=DeviceLoginIn, responses=DeviceCodesOut)
    def post(self, request: Request) -> Response:
        """Begin a login: show `user_code` to the person, and ask for the token with `device_code`."""
        body = DeviceLoginIn.of(request)
        started = device_login.start(**body.validated_data, address=client_address(request._request))
        portal = settings.PORTAL_URL or request.build_absolute_uri("/").rstrip("/")
        page = portal + reverse("teams:device")
        shown = {
            "device_code": started.device_code,
            "user_code": started.user_code,
            "verification_uri": page,
            "verification_uri_complete": f"{page}?{urlencode({'code': started.user_code})}",
            "expires_in": int(device_login.LIFETIME.total_seconds()),
            "interval": started.row.interval,
        }
        return Response(DeviceCodesOut(shown).data)


class DeviceTokenView(LoginView):
    @refuses(400)
    @extend_schema(request=DeviceTokenIn, responses=GrantedTokenOut)
    def post(self, request: Request) -> Response:
        """
        The token, once a person has allowed it. Until then 400 with the `code` `authorization_pending` or
        `slow_down`; `access_denied` and `expired_token` are final.
        """
        return granted(*device_login.answer(DeviceTokenIn.of(request).validated_data["device_code"]))
