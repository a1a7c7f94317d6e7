"""API of the settings of the installation, for platform admins."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from core.inputs import Input
from core.models import Installation, SecondFactor
from core.schema import refuses
from core.scopes import Scope, needs
from portal.setup.installation import CHOSEN, save_installation
from teams.access import require_admin, user_of
from teams.zones import parse_zone


class SettingsOut(serializers.ModelSerializer[Installation]):
    """What platform admins choose; everything else comes from the environment of the processes."""

    class Meta:
        model = Installation
        fields = (*CHOSEN, "password_sign_in")
        read_only_fields = fields


class SettingsIn(Input):
    """What is left out stays. The logo is uploaded on the settings page."""

    name = serializers.CharField(max_length=40, required=False)
    currency = serializers.RegexField(r"^[A-Z]{3}\Z", required=False, help_text="ISO 4217, such as EUR")
    timezone = serializers.CharField(
        max_length=64, allow_blank=True, required=False, help_text="Of the IANA database; empty: TIME_ZONE"
    )

    second_factor = serializers.ChoiceField(
        choices=SecondFactor.choices,
        allow_blank=True,
        required=False,
        help_text="Who has to have one, of those who sign in with a password of the portal",
    )
    password_sign_in = serializers.BooleanField(
        required=False, help_text="False: only platform admins sign in with a password"
    )

    def validate_timezone(self, name: str) -> str:
        if name and parse_zone(name) is None:
            raise serializers.ValidationError("This is no time zone of the IANA database.")
        return name


@needs(Scope.ADMIN, reading=True)
@refuses(403)
class SettingsView(APIView):
    """Settings of the installation. Platform admins only."""

    @extend_schema(responses=SettingsOut)
    def get(self, request: Request) -> Response:
        require_admin(user_of(request))
        return Response(SettingsOut(Installation.load()).data)

    @refuses(403, 409)
    @extend_schema(request=SettingsIn, responses=SettingsOut)
    def patch(self, request: Request) -> Response:
        """Change some of them."""
        require_admin(user_of(request))
        save_installation(by=user_of(request), **SettingsIn.of(request).validated_data)
        return Response(SettingsOut(Installation.load()).data)
