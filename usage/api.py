"""
The API of use, cost and rates.

What the API says and takes about use, cost and prices. Amounts are strings: no float ever holds money.

The API of use, cost and prices: the same services and figures as the pages.
"""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import mixins, serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from claims.models import Claim
from core.errors import Invalid
from core.idempotency import IdempotentWrites
from core.inputs import Input
from core.paging import Cursor
from core.schema import refuses
from core.text import DEFAULT_CURRENCY
from inventory.models import Cluster
from teams.access import team_for, user_of
from usage.models import Rate
from usage.rates import RateCard
from usage.reports import Month, claim_allocations, report, statement, zone_of_reader
from usage.series import Presence, Range, claim_series
from usage.services import remove_rate, save_rate
from usage.telemetry import UseState, observe


class AmountOut(serializers.Serializer[Any]):
    currency = serializers.CharField(help_text="ISO 4217")
    amount = serializers.DecimalField(max_digits=20, decimal_places=2)


class CostOut(serializers.Serializer[Any]):
    """Empty `amounts` with hours means that no rate matches; it never means free."""

    device_hours = serializers.DecimalField(
        max_digits=20,
        decimal_places=2,
        source="hours",
        help_text="Whole devices; a part counts as its fraction.",
    )
    hours_without_rate = serializers.DecimalField(max_digits=20, decimal_places=2, source="unpriced")
    amounts = AmountOut(many=True, source="money")


class ObservationOut(serializers.Serializer[Any]):
    """What is seen now; not a state of the claim."""

    use = serializers.ChoiceField(choices=list(UseState))
    activity = serializers.FloatField(allow_null=True, help_text="0 to 1, of the last five minutes")
    idle_since = serializers.DateTimeField(allow_null=True)
    measured_at = serializers.DateTimeField(allow_null=True)


class PointOut(serializers.Serializer[Any]):
    """One bin. Null is not measured, never zero."""

    at = serializers.DateTimeField()
    presence = serializers.ChoiceField(choices=list(Presence))
    activity = serializers.FloatField(allow_null=True, help_text="0 to 1, mean over the claim's devices")
    memory_bytes = serializers.IntegerField(
        allow_null=True, help_text="Sum over its devices of the largest used"
    )
    power_watts = serializers.FloatField(
        allow_null=True, help_text="Sum over its devices of the board's mean"
    )
    by_device = serializers.DictField(child=serializers.FloatField(), help_text="Activity of each device")


class UsageOut(serializers.Serializer[Any]):
    range = serializers.ChoiceField(choices=list(Range))
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    step_seconds = serializers.IntegerField()
    now = ObservationOut()
    mean_activity = serializers.FloatField(allow_null=True)
    peak_memory_bytes = serializers.IntegerField(allow_null=True)
    unmeasured_seconds = serializers.IntegerField(help_text="Held, and nothing measured")
    points = PointOut(many=True)


class LineOut(serializers.Serializer[Any]):
    product = serializers.CharField()
    partition = serializers.CharField()
    cost = CostOut()


class ClaimCostOut(serializers.Serializer[Any]):
    so_far = CostOut()
    per_hour = CostOut(help_text="Of what is held now")
    projected = CostOut(allow_null=True, help_text="At its expiry, if it keeps what it holds now")
    lines = LineOut(many=True)


class RowOut(serializers.Serializer[Any]):
    key = serializers.CharField(help_text="Id of the claim or person; name of the product")
    label = serializers.CharField()  # type: ignore[assignment]  # a field of that name, as DRF allows
    cost = CostOut()


class TeamCostOut(serializers.Serializer[Any]):
    """Each of the three groupings adds up to `total`."""

    team = serializers.CharField(source="team.slug")
    month = serializers.CharField()
    until = serializers.DateTimeField(help_text="Costs are counted up to here")
    total = CostOut()
    by_claim = RowOut(many=True)
    by_person = RowOut(many=True)
    by_product = RowOut(many=True)


class RateOut(serializers.ModelSerializer[Rate]):
    cluster = serializers.SlugRelatedField[Cluster](slug_field="name", read_only=True, allow_null=True)

    class Meta:
        model = Rate
        fields = ("id", "title", "product", "driver", "cluster", "per_hour", "currency", "valid_from")


@extend_schema_field({"type": "string", "format": "decimal", "pattern": r"^[0-9]{1,8}(\.[0-9]{1,4})?$"})
class Price(serializers.DecimalField):
    """A decimal that is there: the pattern that drf-spectacular derives matches an empty text too."""


class RateIn(Input):
    """The fields of `usage.services.save_rate`. Empty `product` and `driver`, no `cluster`: everything."""

    title = serializers.CharField(max_length=80)
    product = serializers.CharField(max_length=120, allow_blank=True, default="")
    driver = serializers.CharField(max_length=63, allow_blank=True, default="")
    cluster = serializers.SlugRelatedField(
        slug_field="name", queryset=Cluster.objects.all(), allow_null=True, default=None
    )
    per_hour = Price(max_digits=12, decimal_places=4, min_value=0)
    currency = serializers.RegexField(r"^[A-Z]{3}$", default=DEFAULT_CURRENCY)
    valid_from = serializers.DateTimeField()


RANGE = OpenApiParameter("range", str, enum=[str(one) for one in Range], default=str(Range.DAY))
TEAM = OpenApiParameter("team", str, required=True, description="Slug of the team.")
MONTH = OpenApiParameter(
    "month", str, description="Such as 2026-11, in your time zone. This month by default."
)


def claim_for(request: Request, claim_id: UUID) -> Claim:
    return get_object_or_404(Claim.objects.visible_to(user_of(request)), pk=claim_id)


class ClaimUsage(APIView):
    @extend_schema(operation_id="claim_usage", parameters=[RANGE], responses=UsageOut)
    def get(self, request: Request, claim_id: UUID) -> Response:
        """Activity, memory and power of a claim over a range; null is not measured, never zero."""
        claim = claim_for(request, claim_id)
        asked = request.query_params.get("range", str(Range.DAY))
        if asked not in Range:
            raise Invalid(f"A range is one of {', '.join(Range)}; “{asked[:20]}” was sent.")
        now = timezone.now()
        held = claim_allocations(claim)
        found = claim_series(claim, Range(asked), held=held, now=now)
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
        found = statement(claim, claim_allocations(claim), RateCard.load(), now=timezone.now())
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
        return Response(TeamCostOut(report(team_for(user_of(request), slug), month, now=timezone.now())).data)


class NewestFirst(Cursor):
    ordering = "-id"


class RateViewSet(
    IdempotentWrites, mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Rate]
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
        return Response(RateOut(save_rate(by=user_of(request), **asked.validated_data)).data, status=201)

    @refuses(409)
    @extend_schema(request=RateIn, responses=RateOut)
    def update(self, request: Request, pk: str) -> Response:
        """Change a rate that does not apply yet; 409 for one that does."""
        rate = self.get_object()
        asked = RateIn(data=request.data)
        asked.is_valid(raise_exception=True)
        return Response(RateOut(save_rate(by=user_of(request), rate=rate, **asked.validated_data)).data)

    @refuses(409)
    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Take back a rate that does not apply yet."""
        remove_rate(by=user_of(request), rate=self.get_object())
        return Response(status=204)
