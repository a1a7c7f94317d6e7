"""API of waste: idle claims, those for which a cheaper profile would be enough, and those that overstay."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import mixins, serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from claims.models import Claim
from core.inputs import FigureField, ordered
from inventory.states import EndPolicy
from teams.access import team_of_filter, user_of
from usage.api import CostOut
from usage.idle.views import idle_cost_at
from usage.models import IdlePeriod, SizeCheck
from usage.overstay import overstaying, overstays_of

TEAM = OpenApiParameter("team", str, description="Slug of a team; without it, all of yours.")
CENT = Decimal("0.01")


class WasteOut(serializers.Serializer[Any]):
    claim = serializers.UUIDField(source="claim_id")
    name = serializers.CharField(source="claim.name")
    team = serializers.CharField(source="claim.team.slug")
    owner = serializers.CharField(source="claim.requested_by.username")
    profile = serializers.CharField(source="claim.profile_version.profile.slug")
    devices = serializers.IntegerField()
    per_hour = FigureField(4, allow_null=True, help_text="Price of its devices; null is no rate, never 0")
    currency = serializers.CharField(help_text="ISO 4217; empty without a rate")


class IdleOut(WasteOut):
    """A claim all of whose devices have been below the idle limit of its profile since `since`."""

    since = serializers.DateTimeField()
    idle_cost = serializers.SerializerMethodField(help_text="Since then; null without a rate")
    owner_notified_at = serializers.DateTimeField(allow_null=True)
    lead_notified_at = serializers.DateTimeField(allow_null=True)
    snoozed_until = serializers.DateTimeField(allow_null=True)

    @extend_schema_field({"type": "string", "format": "decimal", "nullable": True})
    def get_idle_cost(self, row: Any) -> str | None:
        return None if row.idle_cost is None else str(Decimal(row.idle_cost).quantize(CENT))


class OversizedOut(WasteOut):
    """A claim for which devices of `enough` would have been enough, and what they would save."""

    enough = serializers.CharField(source="profile.slug", help_text="Slug of the cheaper profile")
    saves = FigureField(4, help_text="Less per hour than `per_hour`")
    caveat = serializers.CharField(help_text="What could not be compared; empty if all could")
    memory_bytes = serializers.IntegerField(
        allow_null=True, help_text="95th percentile of its busiest device"
    )
    activity = serializers.FloatField(allow_null=True, help_text="The same of its compute, 0 to 1")
    measured_seconds = serializers.SerializerMethodField()
    checked_at = serializers.DateTimeField()

    def get_measured_seconds(self, check: SizeCheck) -> int:
        return int(check.measured.total_seconds()) if check.measured else 0


class OverstayOut(serializers.Serializer[Any]):
    """A claim that has ended and still holds devices; they are billed until its pods have ended."""

    claim = serializers.UUIDField(source="pk")
    name = serializers.CharField()
    team = serializers.CharField(source="team.slug")
    owner = serializers.CharField(source="requested_by.username")
    profile = serializers.CharField(source="profile_version.profile.slug")
    ended_at = serializers.DateTimeField(source="state_since")
    end_policy = serializers.ChoiceField(choices=EndPolicy.choices)
    evict_at = serializers.DateTimeField(allow_null=True)
    devices = serializers.IntegerField(source="overstay.devices")
    per_hour = CostOut(source="overstay.per_hour", help_text="Of the devices held now")
    cost = CostOut(source="overstay.cost", help_text="Since its end")


RELATED = ("claim__team", "claim__requested_by", "claim__profile_version__profile")


class WasteViewSet(mixins.ListModelMixin, viewsets.GenericViewSet[Any]):
    """Claims that you may see, and of one team with `?team=`."""

    @extend_schema(parameters=[TEAM])
    def list(self, request: Request) -> Response:
        return super().list(request)

    def of_team(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        slug = self.request.query_params.get("team", "")
        return rows.filter(team=team_of_filter(user_of(self.request), slug)) if slug else rows


class IdleViewSet(WasteViewSet):
    """Idle claims with what they cost; one without telemetry is never idle."""

    queryset = IdlePeriod.objects.none()
    serializer_class = IdleOut

    def get_queryset(self) -> QuerySet[Any]:
        idle = IdlePeriod.objects.visible_to(user_of(self.request)).lasting().select_related(*RELATED)
        return self.of_team(idle.annotate(idle_cost=idle_cost_at(timezone.now())))


class OversizedViewSet(WasteViewSet):
    """Oversized claims, as of the last check, which runs every six hours."""

    queryset = SizeCheck.objects.none()
    serializer_class = OversizedOut
    pagination_class = ordered("-claim_id")

    def get_queryset(self) -> QuerySet[Any]:
        found = SizeCheck.objects.visible_to(user_of(self.request)).oversized()
        return self.of_team(found.select_related(*RELATED, "profile"))


class OverstayViewSet(WasteViewSet):
    """Claims that ended more than five minutes ago and whose pods still hold devices."""

    queryset = Claim.objects.none()
    serializer_class = OverstayOut

    def get_queryset(self) -> QuerySet[Any]:
        found = overstaying(user_of(self.request), timezone.now())
        return self.of_team(
            found.select_related("team", "cluster", "requested_by", "profile_version__profile")
        )

    def paginate_queryset(self, queryset: Any) -> Any:
        rows = super().paginate_queryset(queryset)
        shown = Claim.objects.filter(pk__in=[row.pk for row in rows or ()])
        figures = overstays_of(shown, now=timezone.now())
        for row in rows or ():
            row.overstay = figures[row.pk]
        return rows
