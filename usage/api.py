"""The API of use, cost and prices: the same services and figures as the pages."""

from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins, viewsets
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from claims.models import Claim
from core.errors import Invalid
from core.paging import Cursor
from core.schema import refuses
from teams.access import asker, team_for
from teams.keyed import KeyedWrites
from usage.models import Rate
from usage.rates import RateCard
from usage.reports import Month, report, zone_of_reader
from usage.serializers import ClaimCostOut, RateIn, RateOut, TeamCostOut, UsageOut
from usage.series import Range, series_of
from usage.services import remove_rate, save_rate
from usage.statement import allocations_of, statement
from usage.telemetry import observe

RANGE = OpenApiParameter("range", str, enum=[str(one) for one in Range], default=str(Range.DAY))
TEAM = OpenApiParameter("team", str, required=True, description="Slug of the team.")
MONTH = OpenApiParameter(
    "month", str, description="Such as 2026-11, in your time zone. This month by default."
)


def claim_for(request: Request, claim_id: UUID) -> Claim:
    return get_object_or_404(Claim.objects.visible_to(asker(request)), pk=claim_id)


class ClaimUsage(APIView):
    @extend_schema(operation_id="claim_usage", parameters=[RANGE], responses=UsageOut)
    def get(self, request: Request, claim_id: UUID) -> Response:
        """Activity, memory and power of a claim over a range; null is not measured, never zero."""
        claim = claim_for(request, claim_id)
        asked = request.query_params.get("range", str(Range.DAY))
        if asked not in Range:
            raise Invalid(f"A range is one of {', '.join(Range)}; “{asked[:20]}” was sent.")
        now = timezone.now()
        held = allocations_of(claim)
        found = series_of(claim, Range(asked), held=held, now=now)
        holding = {one.claim_id for one in held if one.ended_at is None}
        body = {
            "range": found.range,
            "start": found.start,
            "end": found.end,
            "step_seconds": int(found.step.total_seconds()),
            "now": observe([claim], now=now, holding=holding)[claim.pk],
            "mean_activity": found.mean_activity,
            "peak_memory_bytes": found.peak_memory,
            "unmeasured_seconds": int(found.unmeasured.total_seconds()),
            "points": found.points,
        }
        return Response(UsageOut(body).data)


class ClaimCost(APIView):
    @extend_schema(operation_id="claim_cost", responses=ClaimCostOut)
    def get(self, request: Request, claim_id: UUID) -> Response:
        """What a claim has cost, costs per hour, and will have cost when it expires."""
        claim = claim_for(request, claim_id)
        found = statement(claim, allocations_of(claim), RateCard.load(), now=timezone.now())
        return Response(ClaimCostOut(found).data)


class Costs(APIView):
    @refuses(404)
    @extend_schema(operation_id="costs", parameters=[TEAM, MONTH], responses=TeamCostOut)
    def get(self, request: Request) -> Response:
        """The month of a team: hours and cost by claim, person and product."""
        slug = request.query_params.get("team", "")
        if not slug:
            raise Invalid("Say which team with ?team=.")
        zone = zone_of_reader()
        text = request.query_params.get("month", "")
        month = Month.parse(text, zone) if text else Month.of(timezone.localdate(), zone)
        return Response(TeamCostOut(report(team_for(asker(request), slug), month, now=timezone.now())).data)


class NewestFirst(Cursor):
    ordering = "-id"


class RateViewSet(
    KeyedWrites, mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Rate]
):
    """Prices. Everybody reads them; platform admins add one, and change one that does not apply yet."""

    lookup_value_converter = "uuid"
    queryset = Rate.objects.none()
    serializer_class = RateOut
    pagination_class = NewestFirst

    def get_queryset(self) -> QuerySet[Rate]:
        return Rate.objects.select_related("cluster")

    @extend_schema(request=RateIn, responses={201: RateOut})
    def create(self, request: Request) -> Response:
        """Add a rate."""
        asked = RateIn(data=request.data)
        asked.is_valid(raise_exception=True)
        return Response(RateOut(save_rate(by=asker(request), **asked.validated_data)).data, status=201)

    @refuses(409)
    @extend_schema(request=RateIn, responses=RateOut)
    def update(self, request: Request, pk: str) -> Response:
        """Change a rate that does not apply yet; 409 for one that does."""
        rate = self.get_object()
        asked = RateIn(data=request.data)
        asked.is_valid(raise_exception=True)
        return Response(RateOut(save_rate(by=asker(request), rate=rate, **asked.validated_data)).data)

    @refuses(409)
    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Take back a rate that does not apply yet."""
        remove_rate(by=asker(request), rate=self.get_object())
        return Response(status=204)
