"""API of webhooks: where events are sent, the log of deliveries, tests and replays."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.views.decorators.debug import sensitive_variables
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from core.errors import Invalid
from core.idempotency import Objects
from core.inputs import Input, ordered
from core.schema import refuses
from core.scopes import Scope, needs
from notify.webhooks import services
from notify.webhooks.delivery import message_id
from notify.webhooks.kinds import CHOOSABLE, EventKind
from notify.webhooks.models import DeliveryState, Webhook, WebhookDelivery
from notify.webhooks.sending import MAX_URL
from teams.access import team_for, user_of
from teams.models import Role

STATE = OpenApiParameter(
    "state", str, enum=DeliveryState.values, description="Only deliveries in this state."
)


class Kinds(serializers.ListField):
    child = serializers.ChoiceField(choices=CHOOSABLE)

    def __init__(self, **more: Any) -> None:
        help_text = "The `type` of each message that is sent"
        super().__init__(min_length=1, max_length=50, help_text=help_text, **more)


class WebhookOut(serializers.ModelSerializer[Webhook]):
    """`team` null gets the events of all teams. The secret is not returned."""

    team = serializers.CharField(source="team.slug", allow_null=True, default=None)
    kinds = Kinds()
    internal = serializers.BooleanField(
        source="is_internal", help_text="Whether a platform admin allows a private address, and http://"
    )

    class Meta:
        model = Webhook
        fields = (
            "id", "team", "url", "title", "kinds", "internal", "created_at", "failing_since", "disabled_at",
            "disabled_because",
        )  # fmt: skip
        read_only_fields = fields


class NewWebhookOut(WebhookOut):
    secret = serializers.CharField(read_only=True, help_text="Signs what is sent. It is returned only once.")

    class Meta:
        model = Webhook
        fields = (*WebhookOut.Meta.fields, "secret")
        read_only_fields = fields


class SecretOut(serializers.Serializer[Any]):
    secret = serializers.CharField(help_text="It is returned only once. The one before signs too for a day.")


class ChangeWebhookIn(Input):
    """What is left out stays."""

    url = serializers.CharField(max_length=MAX_URL, required=False, help_text="With https://")
    title = serializers.CharField(max_length=80, allow_blank=True, required=False)
    kinds = Kinds(required=False)
    internal = serializers.BooleanField(
        required=False, help_text="Allow a private address, and http://; for platform admins"
    )
    enabled = serializers.BooleanField(
        required=False, help_text="What happens while it is off is delivered once it is on again"
    )


class WebhookIn(Input):
    team = serializers.CharField(
        max_length=40, allow_blank=True, default="", help_text="Slug; empty: all teams, for platform admins"
    )
    url = serializers.CharField(max_length=MAX_URL, help_text="With https://")
    title = serializers.CharField(max_length=80, allow_blank=True, default="")
    kinds = Kinds()
    internal = serializers.BooleanField(
        default=False, help_text="Allow a private address, and http://; for platform admins"
    )


class AttemptOut(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    status = serializers.IntegerField(allow_null=True, help_text="Of HTTP; null without an answer")
    ms = serializers.IntegerField(help_text="Duration in milliseconds")
    error = serializers.CharField()
    answer = serializers.CharField(help_text="The first bytes of its body")


class DeliveryOut(serializers.ModelSerializer[WebhookDelivery]):
    message = serializers.SerializerMethodField(help_text="The header webhook-id, the same at each attempt")
    kind = serializers.ChoiceField(choices=EventKind.choices, source="event.kind")
    at = serializers.DateTimeField(source="event.at", help_text="When it happened")
    attempts = AttemptOut(many=True, help_text="The newest last, at most 12")
    data = serializers.JSONField(source="event.data")  # type: ignore[assignment]  # a field of that name

    class Meta:
        model = WebhookDelivery
        fields = ("id", "message", "kind", "at", "state", "due_at", "attempts", "data")
        read_only_fields = fields

    def get_message(self, delivery: WebhookDelivery) -> str:
        return message_id(delivery.event)


class ReplayedOut(serializers.Serializer[Any]):
    replayed = serializers.IntegerField()


@needs(Scope.ADMIN)
class WebhookViewSet(Objects[Webhook]):
    """Webhooks of the teams that you lead; all of them for platform admins."""

    serializer_class = WebhookOut
    volatile = frozenset(("failing_since",))
    shown_once = frozenset(("secret",))
    lookup_value_converter = "uuid"
    pagination_class = ordered("id")
    queryset = Webhook.objects.none()

    def get_queryset(self) -> QuerySet[Webhook]:
        return services.webhooks_of(user_of(self.request)).select_related("team").defer("sealed", "earlier")

    @sensitive_variables()
    @refuses(404)
    @extend_schema(request=WebhookIn, responses={201: NewWebhookOut})
    def create(self, request: Request) -> Response:
        """Add a webhook: for leads one of their team, for platform admins also one of the portal."""
        fields = WebhookIn.of(request).validated_data
        slug = fields.pop("team")
        team = team_for(user_of(request), slug, at_least=Role.LEAD) if slug else None
        webhook, secret = services.create_webhook(
            by=user_of(request), team=team, is_internal=fields.pop("internal"), **fields
        )
        return Response({**WebhookOut(webhook).data, "secret": secret}, status=201)

    @refuses(404, 409)
    @extend_schema(request=ChangeWebhookIn, responses=WebhookOut)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change it, or switch it on or off. The secret stays."""
        webhook, fields = self.get_object(), ChangeWebhookIn.of(request).validated_data
        internal = fields.pop("internal", None)
        services.change_webhook(by=user_of(request), webhook=webhook, is_internal=internal, **fields)
        return Response(WebhookOut(self.get_object()).data)

    @refuses(404)
    def destroy(self, request: Request, pk: str) -> Response:
        """Remove it with its log."""
        services.remove_webhook(by=user_of(request), webhook=self.get_object())
        return Response(status=204)

    @sensitive_variables()
    @extend_schema(request=None, responses=SecretOut)
    @action(detail=True, methods=["post"])
    def rotate(self, request: Request, pk: str) -> Response:
        """Replace the secret. The one before signs too for a day."""
        return Response({"secret": services.rotate_secret(by=user_of(request), webhook=self.get_object())})

    @extend_schema(request=None, responses={202: DeliveryOut})
    @action(detail=True, methods=["post"])
    def test(self, request: Request, pk: str) -> Response:
        """Send an event of kind webhook.test, in a moment. 409 while it is switched off."""
        sent = services.send_test(by=user_of(request), webhook=self.get_object())
        return Response(DeliveryOut(sent).data, status=202)

    @extend_schema(request=None, responses={202: ReplayedOut})
    @action(detail=True, methods=["post"], url_path="replay-failed")
    def replay_failed(self, request: Request, pk: str) -> Response:
        """Deliver everything again that failed for good, each with the id that it had."""
        number = services.replay_failed(by=user_of(request), webhook=self.get_object())
        return Response({"replayed": number}, status=202)


@needs(Scope.ADMIN)
class DeliveryViewSet(Objects[WebhookDelivery]):
    """What became of each event at a webhook, of the last 30 days."""

    serializer_class = DeliveryOut
    queryset = WebhookDelivery.objects.none()
    lookup_url_kwarg, lookup_value_converter = "delivery", "uuid"

    def get_queryset(self) -> QuerySet[WebhookDelivery]:
        mine = services.webhooks_of(user_of(self.request))
        webhook = get_object_or_404(mine, pk=self.kwargs["pk"])
        rows = WebhookDelivery.objects.filter(webhook=webhook).select_related("event", "webhook__team")
        state = self.request.query_params.get("state") if self.action == "list" else None
        if state is not None and state not in DeliveryState.values:
            raise Invalid(f"state is one of {', '.join(DeliveryState.values)}.", field="state")
        return rows.filter(state=state) if state else rows

    @refuses(404)
    @extend_schema(parameters=[STATE])
    def list(self, request: Request, **_path: Any) -> Response:
        """Deliveries, newest first."""
        return super().list(request)

    def retrieve(self, request: Request, **_path: Any) -> Response:
        """One delivery with its attempts."""
        return super().retrieve(request)

    @extend_schema(request=None, responses={202: DeliveryOut})
    @action(detail=True, methods=["post"])
    def replay(self, request: Request, **_path: Any) -> Response:
        """Deliver it again, with the same id, whatever became of it."""
        again = services.replay(by=user_of(request), delivery=self.get_object())
        return Response(DeliveryOut(again).data, status=202)
