"""The API of usage, cost and rates: services and numbers of the pages. Amounts are strings, never floats."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import mixins, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from claims.models import Claim
from core.errors import Invalid
from core.idempotency import IdempotentWrites, Objects
from core.inputs import AskingInput, FigureField, Input, Texts, require_known
from core.models import Installation
from core.schema import refuses
from core.scopes import Scope, needs
from dra.cel.selector import MAX_BYTES
from inventory.models import Cluster
from teams.access import team_for, user_of
from teams.models import User
from usage import focus_parquet
from usage.claim_use import devices_of, energy_of
from usage.closing import close_month, require_admin
from usage.consumers import MAX_PODS, consumers_of, split_by_consumer
from usage.cost import Cost
from usage.examples import add_examples
from usage.fleet_report import GroupBy, fleet_report, month_of
from usage.focus import focus_lines
from usage.inexact import approximations
from usage.models import ClosedMonth, Rate
from usage.opencost import (
    AGGREGATES,
    UNSUPPORTED,
    AllocationQuery,
    allocation_sets,
    parse_aggregate,
    parse_step,
    parse_window,
    require_ignorable,
)
from usage.rate_matches import require_expression
from usage.rate_preview import matches_nothing, preview
from usage.rates import RateCard
from usage.reports import Month, claim_allocations, claim_cost, report
from usage.series import Presence, Range, claim_series
from usage.services import remove_rate, retire_rate, save_rate
from usage.telemetry import UseState, current_utilization


class AmountOut(serializers.Serializer[Any]):
    currency = serializers.CharField(help_text="ISO 4217")
    amount = FigureField()


class CostOut(serializers.Serializer[Any]):
    """Empty `amounts` with hours mean that no rate matches, never that the devices are free."""

    device_hours = FigureField(source="hours", help_text="Whole devices; a partition counts as its fraction.")
    hours_without_rate = FigureField(source="unpriced")
    amounts = AmountOut(many=True, source="money")


class EnergyOut(serializers.Serializer[Any]):
    kilowatt_hours = serializers.FloatField()
    estimated_kilowatt_hours = serializers.FloatField(
        help_text="The part that no counter of a GPU counted: power × time, or the part of a partition"
    )
    kilograms_co2 = serializers.FloatField(
        source="kilograms", allow_null=True, help_text="Null where no cluster says its grams per kWh"
    )


class UtilizationOut(serializers.Serializer[Any]):
    """The latest observation; not a state of the claim."""

    use = serializers.ChoiceField(choices=list(UseState))
    activity = serializers.FloatField(allow_null=True, help_text="0 to 1, of the last five minutes")
    idle_since = serializers.DateTimeField(allow_null=True)
    measured_at = serializers.DateTimeField(allow_null=True)


class PointOut(serializers.Serializer[Any]):
    """One bin. Null is not measured, never 0."""

    at = serializers.DateTimeField()
    presence = serializers.ChoiceField(choices=list(Presence))
    activity = serializers.FloatField(allow_null=True, help_text="0 to 1, mean over the claim's devices")
    memory_bytes = serializers.IntegerField(allow_null=True, help_text="Sum of the maximum of each device")
    power_watts = serializers.FloatField(allow_null=True, help_text="Sum of the mean of each device")
    by_device = serializers.DictField(child=serializers.FloatField(), help_text="Activity of each device")
    samples = serializers.IntegerField(help_text="Samples of all devices")
    expected = serializers.IntegerField(help_text="Samples that could have been taken, one each 30 s")
    activity_max = serializers.FloatField(allow_null=True, help_text="0 to 1, the highest sample")
    sm_activity = serializers.FloatField(allow_null=True, help_text="0 to 1, multiprocessors")
    tensor_activity = serializers.FloatField(allow_null=True, help_text="0 to 1, tensor cores")
    memory_activity = serializers.FloatField(allow_null=True, help_text="0 to 1, memory bandwidth")
    energy_joules = serializers.FloatField(
        allow_null=True, help_text="Of the physical GPUs, as far as they counted it"
    )
    pcie_bytes = serializers.FloatField(allow_null=True, help_text="Bytes per second, both directions")
    nvlink_bytes = serializers.FloatField(allow_null=True, help_text="Bytes per second, both directions")
    temperature = serializers.FloatField(allow_null=True, help_text="°C, the highest")


class UsageOut(serializers.Serializer[Any]):
    range = serializers.ChoiceField(choices=list(Range))
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    step_seconds = serializers.IntegerField()
    now = UtilizationOut()
    mean_activity = serializers.FloatField(allow_null=True)
    peak_memory_bytes = serializers.IntegerField(allow_null=True)
    unmeasured_seconds = serializers.IntegerField(help_text="Time with devices but without telemetry")
    approximations = Texts(
        help_text="What is approximate, such as the power of a partition; empty for whole GPUs"
    )
    points = PointOut(many=True)


class LineOut(serializers.Serializer[Any]):
    product = serializers.CharField()
    partition = serializers.CharField()
    cost = CostOut()


class ConsumerCostOut(serializers.Serializer[Any]):
    """What a pod caused of the cost of a claim; equal shares while several use it."""

    name = serializers.CharField(help_text="Empty: the time in which the claim was reserved for no pod")
    uid = serializers.CharField()
    resource = serializers.CharField(help_text="pods, of nearly every consumer")
    since = serializers.DateTimeField(allow_null=True)
    until = serializers.DateTimeField(allow_null=True, help_text="Null while the claim is reserved for it")
    cost = CostOut()


class ClaimCostOut(serializers.Serializer[Any]):
    so_far = CostOut()
    per_hour = CostOut(help_text="Of the devices held now")
    projected = CostOut(allow_null=True, help_text="At its expiry, if it keeps its devices")
    energy = EnergyOut(allow_null=True, help_text="Over its life; null without telemetry of power")
    lines = LineOut(many=True)
    consumers = ConsumerCostOut(
        many=True,
        allow_null=True,
        help_text=(
            "The cost so far by pod, adding up to it; the team is billed for the claim as one. Null if no "
            f"pod is known, as of a claim from a template, or more than {MAX_PODS}"
        ),
    )


class RowsOut(serializers.ListSerializer[Any]):
    def to_representation(self, data: Any) -> list[dict[str, Any]]:
        """Return the fields of many rows, as the fields below write them one by one."""
        return [
            {"key": row.key, "label": row.label, "cost": cost_document(row.cost),
             "corrects": f"{row.corrects:%Y-%m}" if row.corrects else None}
            for row in data
        ]  # fmt: skip


def cost_document(cost: Cost) -> dict[str, Any]:
    """Return what `CostOut` shows of a cost."""
    amounts = [{"currency": entry.currency, "amount": str(entry.amount)} for entry in cost.money]
    return {"device_hours": str(cost.hours), "hours_without_rate": str(cost.unpriced), "amounts": amounts}


class RowOut(serializers.Serializer[Any]):
    key = serializers.CharField(help_text="ID of the claim or person; name of the product")
    label = serializers.CharField()  # type: ignore[assignment]  # a field of that name, as DRF allows
    cost = CostOut()
    corrects = serializers.CharField(
        allow_null=True, help_text="The closed month of which this is a correction, such as 2026-10."
    )

    class Meta:
        list_serializer_class = RowsOut


class TeamCostOut(serializers.Serializer[Any]):
    """Each of the three groupings adds up to `total`."""

    team = serializers.CharField(source="team.slug")
    month = serializers.CharField()
    until = serializers.DateTimeField(help_text="End of the counted time")
    total = CostOut()
    corrections = CostOut(help_text="The part of `total` that corrects closed months")
    closed_at = serializers.DateTimeField(
        source="closed.closed_at", allow_null=True, default=None, help_text="Null while the month is open."
    )
    energy = EnergyOut(allow_null=True, help_text="Of the stored days; null without telemetry of power")
    by_claim = RowOut(many=True)
    by_person = RowOut(many=True)
    by_product = RowOut(many=True)


class RateOut(serializers.ModelSerializer[Rate]):
    cluster = serializers.SlugRelatedField[Cluster](slug_field="name", read_only=True, allow_null=True)

    class Meta:
        model = Rate
        fields = (
            "id", "title", "product", "driver", "cluster", "expression", "per_hour", "currency", "valid_from",
            "valid_until",
        )  # fmt: skip


@extend_schema_field({"type": "string", "format": "decimal", "pattern": r"^[0-9]{1,8}(\.[0-9]{1,4})?$"})
class Price(serializers.DecimalField):
    """A required decimal; the pattern that drf-spectacular derives also matches an empty string."""


class RateIn(Input):
    """Empty `product`, `driver` and `expression`, and no `cluster`, match everything."""

    title = serializers.CharField(max_length=80)
    product = serializers.CharField(max_length=120, allow_blank=True, default="")
    driver = serializers.CharField(max_length=63, allow_blank=True, default="")
    cluster = serializers.SlugRelatedField(
        slug_field="name", queryset=Cluster.objects.all(), allow_null=True, default=None
    )
    expression = serializers.CharField(
        max_length=MAX_BYTES,
        allow_blank=True,
        default="",
        help_text='A condition in CEL over `device`, such as `device.capacityType == "spot"`.',
    )
    per_hour = Price(max_digits=12, decimal_places=4, min_value=0)
    currency = serializers.RegexField(r"^[A-Z]{3}$", default=lambda: Installation.load().currency)
    valid_from = serializers.DateTimeField()
    valid_until = serializers.DateTimeField(
        allow_null=True, default=None, help_text="Null: until another rate follows it."
    )


class NewRateIn(AskingInput, RateIn):
    """A rate as for `rates/preview/`; one that matches no device is asked about."""


class PreviewedKindOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    driver = serializers.CharField()
    product = serializers.CharField()
    partition = serializers.CharField()
    capacity_type = serializers.CharField(help_text="spot, on-demand or reserved; empty: not on a known node")
    devices = serializers.IntegerField()
    wins = serializers.BooleanField(help_text="Whether the rate would price them")
    without = serializers.UUIDField(
        source="without.pk", allow_null=True, default=None, help_text="The rate that prices them otherwise"
    )
    problem = serializers.CharField(help_text="Why the expression fails for them; it then does not hold")


class RatePreviewOut(serializers.Serializer[Any]):
    devices = serializers.IntegerField(help_text="Devices of the fleet")
    priced = serializers.IntegerField(help_text="Those that the rate would price")
    kinds = PreviewedKindOut(many=True)


class RetireIn(Input):
    until = serializers.DateTimeField(allow_null=True, default=None, help_text="When it ends; null is now.")


RANGES = [str(time_range) for time_range in Range if time_range is not Range.OWN]
RANGE = OpenApiParameter("range", str, enum=RANGES, default=str(Range.DAY))
TEAM = OpenApiParameter("team", str, required=True, description="Slug of the team.")
MONTH = OpenApiParameter("month", str, description="Such as 2026-11, in UTC. This month by default.")


def month_asked_for(request: Request) -> Month:
    """Return the month of the parameter, by default the current one. Raises Invalid."""
    text = request.query_params.get("month", "")
    return Month.parse(text) if text else Month.current(timezone.now())


def claim_for(request: Request, claim_id: UUID) -> Claim:
    return get_object_or_404(Claim.objects.visible_to(user_of(request)), pk=claim_id)


class ClaimUsageView(APIView):
    @extend_schema(parameters=[RANGE], responses=UsageOut)
    def get(self, request: Request, pk: UUID) -> Response:
        """Utilization, memory and power of a claim over a range; null is not measured, never 0."""
        claim = claim_for(request, pk)
        text = request.query_params.get("range", str(Range.DAY))
        if text not in RANGES:
            raise Invalid(f"A range is one of {', '.join(RANGES)}; “{text[:20]}” was sent.")
        now = timezone.now()
        allocations = claim_allocations(claim)
        series = claim_series(claim, Range(text), allocations=allocations, now=now)
        holding = {allocation.claim_id for allocation in allocations if allocation.ended_at is None}
        body = {
            "range": series.range,
            "start": series.start,
            "end": series.end,
            "step_seconds": int(series.step.total_seconds()),
            "now": current_utilization([claim], now=now, holding=holding)[claim.pk],
            "mean_activity": series.mean_activity,
            "peak_memory_bytes": series.peak_memory,
            "unmeasured_seconds": int(series.unmeasured.total_seconds()),
            "approximations": approximations(
                claim, allocations, has_power=any(point.power_watts is not None for point in series.points)
            ),
            "points": series.points,
        }
        return Response(UsageOut(body).data)


class ClaimCostView(APIView):
    @extend_schema(responses=ClaimCostOut)
    def get(self, request: Request, pk: UUID) -> Response:
        """The cost of a claim so far, per hour, and at its expiry."""
        claim = claim_for(request, pk)
        allocations = claim_allocations(claim)
        card, now = RateCard.load(), timezone.now()
        costs = claim_cost(claim, allocations, card, now=now)
        split = split_by_consumer(claim, allocations, consumers_of(claim), card, now=now)
        body: dict[str, Any] = {
            name: getattr(costs, name) for name in ("so_far", "per_hour", "projected", "lines")
        }
        body |= {"energy": energy_of(devices_of(claim, allocations)), "consumers": split and split.rows}
        return Response(ClaimCostOut(body).data)


class CostsView(APIView):
    @refuses(404)
    @extend_schema(parameters=[TEAM, MONTH], responses=TeamCostOut)
    def get(self, request: Request) -> Response:
        """GPU-hours and cost of a team in a month, by claim, person and product."""
        slug = request.query_params.get("team", "")
        if not slug:
            raise Invalid("Name the team: ?team=<slug>.")
        month = month_asked_for(request)
        return Response(TeamCostOut(report(team_for(user_of(request), slug), month, now=timezone.now())).data)


class PartsOut(serializers.Serializer[Any]):
    used = CostOut(help_text="Held by claims, measured and computing")
    idle = CostOut(help_text="The rest of what was measured")
    no_telemetry = CostOut(help_text="Held while nothing was measured: a gap, or a device without telemetry")
    unmanaged = CostOut(help_text="Held by claims that were created outside the portal")
    out_of_service = CostOut(help_text="Tainted, unhealthy or on a node that is not ready, and not held")
    unallocated = CostOut(help_text="Held by nobody")


class ReconciliationOut(serializers.Serializer[Any]):
    """All GPU-hours of the fleet and their cost. The parts add up to `fleet`, before they are rounded."""

    first = serializers.DateField(source="period.first")
    last = serializers.DateField(source="period.last", help_text="The last stored day (UTC), included")
    recorded_since = serializers.DateTimeField(
        source="known_since",
        allow_null=True,
        help_text="Before, the size of the fleet is not known: it is then what claims held.",
    )
    allocated = CostOut(source="parts.allocated", help_text="used + idle + no_telemetry")
    parts = PartsOut()
    fleet = CostOut(source="parts.fleet")
    corrections = CostOut(
        source="parts.corrections", help_text="Of closed months, booked in this one; not in `fleet`"
    )


@needs(Scope.ADMIN, reading=True)
class ReconciliationView(APIView):
    @refuses(403)
    @extend_schema(parameters=[MONTH], responses=ReconciliationOut)
    def get(self, request: Request) -> Response:
        """Where all GPU-hours and money of the fleet went in a month; for platform admins."""
        require_admin(user_of(request))
        found = fleet_report(month_of(month_asked_for(request).first), GroupBy.TEAM, now=timezone.now())
        return Response(ReconciliationOut(found).data)


FILE_FORMAT = OpenApiParameter("format", str, enum=["csv", "parquet"], description="csv by default.")
PARQUET = "application/vnd.apache.parquet"


class AnyFile(BaseContentNegotiation):
    """The parameter `format` decides on the type of a file, whatever the program accepts."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        return renderers[0], renderers[0].media_type


@needs(Scope.ADMIN, reading=True)
class FocusView(APIView):
    content_negotiation_class = AnyFile

    @refuses(403)
    @extend_schema(
        parameters=[MONTH, FILE_FORMAT],
        responses={(200, "text/csv"): OpenApiTypes.STR, (200, PARQUET): OpenApiTypes.BINARY},
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        """
        The cost of all claims in a month in the format of FOCUS 1.2, as CSV or Parquet; for platform admins.

        406 for Parquet where pyarrow is not installed.
        """
        require_admin(user_of(request))
        period, now = month_of(month_asked_for(request).first), timezone.now()
        file_format = request.query_params.get("format", "csv")
        if file_format not in ("csv", "parquet"):
            raise Invalid(f"A format is csv or parquet; “{file_format[:20]}” was sent.", field="format")
        if file_format == "parquet":
            if not focus_parquet.is_available():
                raise NotAcceptable(focus_parquet.UNAVAILABLE)
            pieces: Iterator[Any] = focus_parquet.focus_parquet(period, now=now)
        else:
            pieces = focus_lines(period, now=now)
        media_type = PARQUET if file_format == "parquet" else "text/csv; charset=utf-8"
        response = StreamingHttpResponse(pieces, content_type=media_type)
        name = f"focus-{period.first:%Y-%m}.{file_format}"
        response["Content-Disposition"] = f'attachment; filename="{name}"'
        return response


OPENCOST = (
    OpenApiParameter(
        "window",
        str,
        description=(
            "today, yesterday, week, lastweek, month, lastmonth; today and the days before it, such as 7d, "
            "which is the default, or 1w; hours or minutes until now, such as 24h; or two times."
        ),
    ),
    OpenApiParameter("aggregate", str, description=f"Of {', '.join(AGGREGATES)}; one claim without any."),
    OpenApiParameter("step", str, description="Days of each set, such as 1d; the window by default."),
    OpenApiParameter("accumulate", bool, description="True: one set, whatever the step; “day”: one per day."),
    OpenApiParameter("includeIdle", bool, description="Adds what nobody held and what unmanaged claims did."),
    *(
        OpenApiParameter(name, str, description="Of OpenCost; ignored if empty or false, else refused.")
        for name in UNSUPPORTED
    ),
    OpenApiParameter("resolution", str, description="Of OpenCost's queries; ignored."),
)


class OpenCostOut(serializers.Serializer[Any]):
    """As OpenCost answers: `gpuCost` and `totalCost` are in `currency`, null without a rate."""

    code = serializers.IntegerField()
    currency = serializers.CharField()
    data = serializers.ListField(  # type: ignore[assignment]  # a field of that name, as DRF allows
        child=serializers.DictField(child=serializers.DictField()), help_text="A set per step, by name"
    )


@needs(Scope.ADMIN, reading=True)
class OpenCostView(APIView):
    @refuses(403)
    @extend_schema(parameters=[*OPENCOST], responses=OpenCostOut)
    def get(self, request: Request) -> Response:
        """
        Costs in the shape of OpenCost's /allocation/compute; for platform admins.

        They are those of stored days; today until now, and windows of hours, are computed from allocations.
        """
        require_admin(user_of(request))
        now, asked_for = timezone.now(), request.query_params
        require_ignorable(asked_for)
        span = parse_window(asked_for.get("window", "7d"), now=now)
        step, accumulate = asked_for.get("step", ""), asked_for.get("accumulate", "")
        if accumulate == "day":
            step = step or "1d"
        elif _is_true(accumulate):
            step = ""
        asked = AllocationQuery(
            span,
            parse_aggregate(asked_for.get("aggregate", "")),
            parse_step(step, span),
            idle=_is_true(asked_for.get("includeIdle", "")),
        )
        sets = allocation_sets(asked, now=now)
        return Response({"code": 200, "currency": Installation.load().currency, "data": sets})


def _is_true(text: str) -> bool:
    if text.lower() not in ("", "true", "false"):
        raise Invalid(f"true or false; “{text[:20]}” was sent.")
    return text.lower() == "true"


class ClosedMonthOut(serializers.ModelSerializer[ClosedMonth]):
    month = serializers.SerializerMethodField(help_text="Such as 2026-10, in UTC.")
    by = serializers.SlugRelatedField[User](slug_field="username", read_only=True)

    class Meta:
        model = ClosedMonth
        fields = ("id", "month", "closed_at", "by")

    def get_month(self, closed: ClosedMonth) -> str:
        return f"{closed.month:%Y-%m}"


class ClosedMonthIn(Input):
    month = serializers.RegexField(r"^[0-9]{4}-(0[1-9]|1[0-2])$", help_text="Such as 2026-10, in UTC.")


@needs(Scope.ADMIN, reading=True)
class ClosedMonthViewSet(IdempotentWrites, mixins.ListModelMixin, viewsets.GenericViewSet[ClosedMonth]):
    """Closed months. Closing a month closes all months before it; for platform admins."""

    queryset = ClosedMonth.objects.none()
    serializer_class = ClosedMonthOut

    def get_queryset(self) -> QuerySet[ClosedMonth]:
        require_admin(user_of(self.request))
        return ClosedMonth.objects.select_related("by")

    @refuses(403)
    def list(self, request: Request) -> Response:
        """Closed months, newest first."""
        return super().list(request)

    @refuses(403, 409)
    @extend_schema(request=ClosedMonthIn, responses={201: ClosedMonthOut})
    def create(self, request: Request) -> Response:
        """Close a month: its figures do not change any more. 409 if it is not the next one, or not over."""
        month = Month.parse(ClosedMonthIn.of(request).validated_data["month"])
        return Response(ClosedMonthOut(close_month(by=user_of(request), month=month)).data, status=201)


@needs(Scope.ADMIN)
class RateViewSet(Objects[Rate]):
    """Rates. Everybody may read them; platform admins add them, and change those that do not apply yet."""

    lookup_value_converter = "uuid"
    queryset = Rate.objects.none()
    serializer_class = RateOut

    def get_queryset(self) -> QuerySet[Rate]:
        return Rate.objects.select_related("cluster")

    @refuses(409)
    @extend_schema(request=RateIn, responses={201: RateOut})
    def create(self, request: Request) -> Response:
        """Add a rate; 409 if it begins in a closed month."""
        rate = save_rate(by=user_of(request), **self._fields(NewRateIn.of(request)))
        return Response(RateOut(rate).data, status=201)

    @refuses(409)
    @extend_schema(request=RateIn, responses=RateOut)
    def update(self, request: Request, pk: str) -> Response:
        """Change a rate that does not apply yet; 409 for one that does. What is left out stays."""
        rate = self.get_object()
        fields = self._fields(NewRateIn.of(request, RateOut(rate).data))
        return Response(RateOut(save_rate(by=user_of(request), rate=rate, **fields)).data)

    def _fields(self, body: RateIn) -> dict[str, Any]:
        """Raises Forbidden, Invalid, and UnknownName for a rate that matches no device."""
        require_admin(user_of(self.request))
        fields = dict(body.validated_data)
        allowed = fields.pop("allow_unknown", True)
        if expression := fields["expression"].strip():
            require_expression(expression)
        fields["expression"] = expression
        if not allowed:
            require_known(matches_nothing(Rate(**fields)), allowed=allowed, field="product")
        return fields

    @refuses(403)
    @extend_schema(request=RateIn, responses=RatePreviewOut)
    @action(detail=False, methods=["post"])
    def preview(self, request: Request) -> Response:
        """Which devices a rate would price, without saving it; for platform admins."""
        require_admin(user_of(request))
        found = preview(Rate(**self._fields(RateIn.of(request))), now=timezone.now())
        return Response(RatePreviewOut(found).data)

    @refuses(409)
    @extend_schema(request=RetireIn, responses=RateOut)
    @action(detail=True, methods=["post"])
    def retire(self, request: Request, pk: str) -> Response:
        """End a rate now or later; hours before keep their price. 409 if it has ended or not begun."""
        fields = RetireIn.of(request).validated_data
        return Response(RateOut(retire_rate(by=user_of(request), rate=self.get_object(), **fields)).data)

    @refuses(409)
    def destroy(self, request: Request, pk: str) -> Response:
        """Remove a rate that does not apply yet; 409 for one that does."""
        remove_rate(by=user_of(request), rate=self.get_object())
        return Response(status=204)


@needs(Scope.ADMIN)
class RateExamplesView(IdempotentWrites):
    @extend_schema(request=None, responses={201: RateOut(many=True)})
    def post(self, request: Request) -> Response:
        """
        Add list prices of clouds as rates, from the begin of this month (UTC) on, for GPUs that no rate
        names; for platform admins. 409 if this month is closed.
        """
        return Response(RateOut(add_examples(by=user_of(request)), many=True).data, status=201)
