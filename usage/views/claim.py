"""Use and cost of one claim: a fragment of its page, and a page of its own without JavaScript."""

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

from claims.models import Claim
from usage.charts import chart_of
from usage.models import Collection
from usage.rates import RateCard
from usage.series import Range, Series, series_of
from usage.statement import allocations_of, statement
from usage.telemetry import observe

TABS = ((Range.HOUR, "1 h"), (Range.DAY, "24 h"), (Range.WEEK, "7 d"), (Range.LIFE, "Life"))


@require_safe
def fragment(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """Answer htmx with the panel alone, everybody else with a page around it. An unknown range is a day."""
    claims = Claim.objects.visible_to(request.user).select_related("team", "cluster__collection")
    claim = get_object_or_404(claims, pk=claim_id)
    asked = request.GET.get("range", "")
    wanted = Range(asked) if asked in Range else Range.DAY
    template = "usage/claim.html#panel" if request.headers.get("HX-Request") else "usage/claim.html"
    response = render(request, template, page_of(claim, wanted))
    patch_vary_headers(response, ["HX-Request"])
    return response


def page_of(claim: Claim, wanted: Range) -> dict[str, Any]:
    """Return the context of the panel, in four queries however many devices and days."""
    now = timezone.now()
    held = allocations_of(claim)
    series = series_of(claim, wanted, held=held, now=now)
    holding = {one.claim_id for one in held if one.ended_at is None}
    return {
        "claim": claim,
        "series": series,
        "chart": chart_of(series, held),
        "rows": table_of(series),
        "width": 3 + (len(series.devices) if len(series.devices) > 1 else 0),
        "ranges": TABS,
        "statement": statement(claim, held, RateCard.load(), now=now),
        "observation": observe([claim], now=now, holding=holding)[claim.pk],
        "collection": Collection.objects.filter(cluster=claim.cluster_id).first(),
        "has_source": bool(claim.cluster.metrics_url or claim.cluster.prometheus_url),
    }


def table_of(series: Series) -> list[dict[str, Any]]:
    """Return the points newest first, each with the activity of every device where there are several."""
    names = series.devices if len(series.devices) > 1 else []
    return [
        {"point": point, "activities": [point.by_device.get(name) for name in names]}
        for point in reversed(series.points)
    ]
