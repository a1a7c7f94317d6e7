"""API of the tracking servers (MLflow) of teams and of the installation, for platform admins."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.views.decorators.debug import sensitive_variables
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from core.idempotency import IdempotentWrites, Objects
from core.inputs import Input, ordered, page_of
from core.schema import refuses
from core.scopes import Scope, needs
from inventory.models.cluster import validate_certificates, validate_http_url
from inventory.secret_form import PEM_LIMIT
from inventory.telemetry_access import NO_SECRET, TelemetrySecret
from teams.access import require_admin, user_of
from teams.models import Team
from usage.models import RunsLink, TrackingServer
from usage.telemetry_api import SecretIn
from usage.tracking.servers import remove_server, save_server
from usage.tracking.wandb import MAX_URL, set_runs_link


class TrackingServerOut(serializers.ModelSerializer[TrackingServer]):
    """`team` null is the server of the installation. The secret is never returned."""

    team = serializers.CharField(source="team.slug", allow_null=True, default=None)

    class Meta:
        model = TrackingServer
        fields = ("id", "team", "url", "page_url", "authority", "kind")
        read_only_fields = fields


class ChangeTrackingServerIn(Input):
    """What is left out stays. A secret belongs to one server; null removes it."""

    url = serializers.CharField(max_length=200, validators=[validate_http_url], required=False)
    page_url = serializers.CharField(
        max_length=200,
        allow_blank=True,
        validators=[validate_http_url],
        required=False,
        help_text="For browsers, if it differs",
    )
    authority = serializers.CharField(
        max_length=PEM_LIMIT, allow_blank=True, validators=[validate_certificates], required=False
    )
    secret = SecretIn(required=False, allow_null=True, write_only=True)

    def values(self) -> dict[str, Any]:
        return {name: value for name, value in self.validated_data.items() if name not in ("secret", "team")}

    @sensitive_variables()
    def secret_given(self) -> TelemetrySecret | None:
        if "secret" not in self.validated_data:
            return None
        sent = self.validated_data["secret"]
        return TelemetrySecret(**sent) if sent else NO_SECRET


class TrackingServerIn(ChangeTrackingServerIn):
    team = serializers.CharField(
        max_length=40, allow_blank=True, default="", help_text="Slug; empty: of the installation"
    )
    url = serializers.CharField(max_length=200, validators=[validate_http_url])


@needs(Scope.ADMIN, reading=True)
@refuses(403)
class TrackingServerViewSet(Objects[TrackingServer]):
    """Servers of MLflow whose runs are shown with claims. Platform admins only."""

    serializer_class = TrackingServerOut
    lookup_value_converter = "uuid"
    pagination_class = ordered("id")
    queryset = TrackingServer.objects.none()

    def get_queryset(self) -> QuerySet[TrackingServer]:
        require_admin(user_of(self.request))
        return TrackingServer.objects.select_related("team").defer("sealed")

    @sensitive_variables()
    @refuses(403, 404)
    @extend_schema(request=TrackingServerIn, responses={201: TrackingServerOut})
    def create(self, request: Request) -> Response:
        """Add the server of a team, or of the installation. 409 if it has one."""
        require_admin(user_of(request))
        body = TrackingServerIn.of(request)
        slug = body.validated_data["team"]
        team = get_object_or_404(Team.objects.active(), slug=slug) if slug else None
        saved = save_server(by=user_of(request), team=team, secret=body.secret_given(), **body.values())
        return Response(TrackingServerOut(saved).data, status=201)

    @sensitive_variables()
    @refuses(403, 404, 409)
    @extend_schema(request=ChangeTrackingServerIn, responses=TrackingServerOut)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change address, CA or secret."""
        server = self.get_object()
        body = ChangeTrackingServerIn.of(request)
        saved = save_server(by=user_of(request), server=server, secret=body.secret_given(), **body.values())
        return Response(TrackingServerOut(saved).data)

    @refuses(403, 404)
    def destroy(self, request: Request, pk: str) -> Response:
        """Forget the server and its runs; tags in MLflow stay."""
        remove_server(by=user_of(request), server=self.get_object())
        return Response(status=204)


class RunsLinkOut(serializers.Serializer[Any]):
    """Where runs of Weights & Biases are looked at; `team` null is the whole installation."""

    team = serializers.CharField(source="team.slug", allow_null=True, default=None)
    url = serializers.CharField()


class RunsLinkIn(Input):
    team = serializers.CharField(
        max_length=40, allow_blank=True, default="", help_text="Slug; empty: of the installation"
    )
    url = serializers.CharField(
        max_length=MAX_URL,
        allow_blank=True,
        help_text="{tag}, {claim} and {team} stand for what they name; empty removes the link",
    )


@needs(Scope.ADMIN, reading=True)
class RunsLinksView(IdempotentWrites, GenericAPIView[RunsLink]):
    """Links from claims to their runs of Weights & Biases. Platform admins only."""

    pagination_class = ordered("id")

    @refuses(403)
    @extend_schema(responses=RunsLinkOut(many=True))
    def get(self, request: Request) -> Response:
        """The link of the installation and those of teams."""
        require_admin(user_of(request))
        return page_of(self, RunsLink.objects.select_related("team"), RunsLinkOut)

    @refuses(403, 404)
    @extend_schema(request=RunsLinkIn, responses=RunsLinkOut)
    def put(self, request: Request) -> Response:
        """Set one link, or remove it with an empty address. Again, it changes nothing."""
        require_admin(user_of(request))
        body = RunsLinkIn.of(request)
        slug = body.validated_data["team"]
        team = get_object_or_404(Team.objects.active(), slug=slug) if slug else None
        set_runs_link(by=user_of(request), team=team, url=body.validated_data["url"])
        return Response({"team": slug or None, "url": body.validated_data["url"]})
