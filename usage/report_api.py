"""
API of the report and of saved reports: the page's numbers, of the fleet for platform admins, of their teams
for leads.
"""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from core.errors import Invalid
from core.idempotency import Objects
from core.inputs import Input, ordered
from core.schema import refuses
from core.scopes import Scope, needs
from core.transactions import service
from teams.access import user_of
from usage.api import CostOut, EnergyOut
from usage.claim_rankings import ORDERS
from usage.daily import utc_day
from usage.fleet_report import CAPACITY_TYPES, NO_CAPACITY, GroupBy, fleet_report
from usage.fleet_views import SHOWN, SPANS, TOO_LONG, ReportForm
from usage.models import SavedReport
from usage.saved_reports import MAX_QUERY, save_report, set_monthly

DAYS = {"type": "string", "format": "date"}
PAGE = {"type": "integer", "minimum": 1}
PARAMETERS = [
    OpenApiParameter("by", str, enum=[str(group) for group in GroupBy], default=str(GroupBy.TEAM)),
    OpenApiParameter("month", str, description="Such as 2026-11, in UTC. This month by default."),
    OpenApiParameter("range", str, enum=list(SPANS), description="The last whole days instead."),
    OpenApiParameter("since", DAYS, description="First day (UTC), of at most 366 days."),
    OpenApiParameter("until", DAYS, description="Last day, included."),
    OpenApiParameter("team", str, description="Slug of a team."),
    OpenApiParameter("person", str, description="User name of an owner of claims."),
    OpenApiParameter("profile", str, description="Slug of a profile."),
    OpenApiParameter("cluster", str, description="Name of a cluster."),
    OpenApiParameter("model", str, description="Product and partition, as the label of a row by model."),
    OpenApiParameter("capacity", str, enum=["", *(key or NO_CAPACITY for key in CAPACITY_TYPES)]),
    OpenApiParameter("sort", str, enum=list(ORDERS), default=ORDERS[0], description="Highest first."),
    OpenApiParameter("page", PAGE, description=f"{SHOWN} rows each, from 1."),
]


class HeldOut(serializers.Serializer[Any]):
    """What claims held on whole days: `allocated` = `used` + `idle` + `no_telemetry`."""

    allocated = CostOut()
    used = CostOut()
    idle = CostOut()
    no_telemetry = CostOut()
    corrections = CostOut(help_text="Of closed months, booked in the period; in none of the others")
    energy = EnergyOut(allow_null=True, help_text="Null without telemetry of power")
    utilization = serializers.FloatField(allow_null=True, help_text="0 to 1; null without telemetry")


class ReportRowOut(serializers.Serializer[Any]):
    key = serializers.CharField(help_text="ID of the team, person, profile, cluster or claim; the model")
    label = serializers.CharField()  # type: ignore[assignment]  # a field of that name, as DRF allows
    parts = HeldOut()
    before = CostOut(help_text="Allocated in as many days before")
    goal = serializers.IntegerField(allow_null=True, help_text="Efficiency goal of a team, in percent")


class ReportOut(serializers.Serializer[Any]):
    first = serializers.DateField(source="period.first")
    last = serializers.DateField(source="period.last", help_text="The last stored day (UTC), included")
    parts = HeldOut()
    row_count = serializers.IntegerField(help_text="Of all pages")
    rows = ReportRowOut(many=True)


class ReportView(APIView):
    @refuses(403)
    @extend_schema(parameters=PARAMETERS, responses=ReportOut)
    def get(self, request: Request) -> Response:
        """GPU-hours and money by team, person, profile, model, cluster or claim; for leads and admins."""
        for name in ("since", "until"):
            if request.query_params.get(name) == "":
                raise Invalid(
                    f"{name} is a day such as 2026-11-01; leave it out for the whole month.", field=name
                )
        form = ReportForm(request.query_params, user_of(request))
        if not form.is_valid():
            name, problems = next(iter(form.errors.items()))
            raise Invalid(f"{name}: {problems[0]}", field=name)
        if form.is_too_long:
            raise Invalid(TOO_LONG)
        now = timezone.now()
        found = fleet_report(
            *(form.period(utc_day(now)), form.group_by),
            now=now,
            most=SHOWN,
            offset=((form.chosen.get("page") or 1) - 1) * SHOWN,
            order=form.order,
            scope=form.scope,
        )
        return Response(ReportOut(found).data)


class SavedReportOut(serializers.ModelSerializer[SavedReport]):
    query = serializers.CharField(help_text="Parameters of costs/report/, as in an address", read_only=True)

    class Meta:
        model = SavedReport
        fields = ("id", "name", "query", "monthly")
        read_only_fields = fields


class SavedReportIn(Input):
    name = serializers.CharField(max_length=60)
    query = serializers.CharField(
        max_length=MAX_QUERY, allow_blank=True, default="", help_text="Such as by=claim&range=30d"
    )
    monthly = serializers.BooleanField(
        default=False, help_text="Whether the last month is mailed on the first of each month"
    )


class MonthlyIn(Input):
    monthly = serializers.BooleanField(required=False)


@needs(Scope.REQUEST)
class SavedReportViewSet(Objects[SavedReport]):
    """Your saved reports; those of others are 404."""

    lookup_value_converter = "uuid"
    queryset = SavedReport.objects.none()
    serializer_class = SavedReportOut
    pagination_class = ordered("name", "id")

    def get_queryset(self) -> QuerySet[SavedReport]:
        return SavedReport.objects.filter(user=user_of(self.request))

    @refuses(403, 409)
    @extend_schema(request=SavedReportIn, responses={201: SavedReportOut})
    def create(self, request: Request) -> Response:
        """
        Save a report under a name; the same name again changes it, except what is left out. 409 if you have
        saved the most.
        """
        there = self.get_queryset().filter(name=SavedReportIn.of(request).validated_data["name"]).first()
        body = SavedReportIn.of(request, SavedReportOut(there).data if there else None)
        saved = save_report(by=user_of(request), now=timezone.now(), **body.validated_data)
        return Response(SavedReportOut(saved).data, status=201)

    @extend_schema(request=MonthlyIn, responses=SavedReportOut)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Begin or stop to mail it."""
        saved = self.get_object()
        body = MonthlyIn.of(request)
        if "monthly" in body.validated_data:
            set_monthly(saved=saved, now=timezone.now(), monthly=body.validated_data["monthly"])
        return Response(SavedReportOut(self.get_object()).data)

    def destroy(self, request: Request, pk: str) -> Response:
        """Delete a saved report."""
        with service:
            self.get_object().delete()
        return Response(status=204)
