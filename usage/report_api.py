"""API of the report: the page's numbers, of the fleet for platform admins, of their teams for leads."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from core.errors import Invalid
from core.schema import refuses
from teams.access import user_of
from usage.api import CostOut
from usage.daily import utc_day
from usage.fleet_report import GroupBy, fleet_report
from usage.fleet_views import SHOWN, SPANS, ReportForm
from usage.ledger_sums import LONGEST_OF_ALL, ORDERS

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
    @extend_schema(operation_id="cost_report", parameters=PARAMETERS, responses=ReportOut)
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
            raise Invalid(f"Choose at most {LONGEST_OF_ALL.days} days, or a team, to group by claim.")
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
