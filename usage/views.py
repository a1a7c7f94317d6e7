"""
Pages: usage and cost of a claim, utilization of a device, cost of a team in a month, rates.

Usage and cost are a fragment of the claim's page, and a page of their own without JavaScript. Everybody may
read rates; platform admins change them.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.models import Allocation, Claim
from claims.models.limits import IDLE_PERCENT
from core.attempt import Attempt, posted
from core.grafana import Dashboard, dashboard_url
from core.listing import csv_response, wants_csv
from core.text import DASH, counted, percent
from core.times import FIRST_YEAR, LAST_YEAR
from inventory.models import Device
from teams.access import is_platform_admin, user_of
from teams.sessions import installation_for
from usage import device_use
from usage.charts import COMPUTE, GIGABYTE, TRAFFIC, chart_data, cost_plot
from usage.claim_use import claim_errors, cost_by_device, devices_of, energy_of, split_money
from usage.closing import require_admin
from usage.consumers import shared_cost
from usage.cost import total
from usage.coverage import coverage
from usage.examples import CURRENCY, EXAMPLES, add_examples, missing_examples
from usage.forms import RateForm, RetireForm
from usage.inexact import approximations
from usage.models import Collection, Rate
from usage.rate_preview import preview
from usage.rates import RateCard
from usage.reports import Month, claim_allocations, claim_cost
from usage.right_size import right_size
from usage.series import Bounds, Range, UsageSeries, claim_series
from usage.services import remove_rate, retire_rate, save_rate
from usage.telemetry import current_utilization
from usage.time_split import TimeSplit, split_time
from usage.tracking.views import runs_of
from usage.tracking.wandb import runs_link_of

MAX_DEVICES = 50  # of a claim in its table; a template may have had thousands
MAX_OBJECTS = 20  # ResourceClaims of a template in a link to Grafana
MAX_ROWS = 100  # of a table of the month; the CSV has all
TABS = (
    *((Range.HOUR, "1 h"), (Range.TODAY, "Today"), (Range.DAY, "24 h"), (Range.WEEK, "7 d")),
    *((Range.DAYS_30, "30 d"), (Range.MONTH, "Month"), (Range.LIFE, "Life")),
)


class OwnRange(forms.Form):
    """Days in the reader's zone, both included."""

    since = forms.DateField(label="From", widget=forms.DateInput({"type": "date"}))
    until = forms.DateField(label="To", widget=forms.DateInput({"type": "date"}))

    def clean(self) -> dict[str, Any]:
        since, until = self.cleaned_data.get("since"), self.cleaned_data.get("until")
        for name, day in (("since", since), ("until", until)):
            if day and not FIRST_YEAR < day.year < LAST_YEAR:
                self.add_error(name, f"A date lies between {FIRST_YEAR + 1} and {LAST_YEAR - 1}.")
        if since and until and since > until:
            self.add_error("until", "The range ends before it begins.")
        return self.cleaned_data

    @property
    def bounds(self) -> Bounds:
        since, until = self.cleaned_data["since"], self.cleaned_data["until"] + timedelta(days=1)
        start, end = (timezone.make_aware(datetime.combine(day, time())) for day in (since, until))
        return start, end


@require_safe
def fragment(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """Return only the panel to htmx, otherwise the page. An unknown range is a day."""
    claims = Claim.objects.visible_to(request.user).select_related(
        "team", "cluster__collection", "profile_version"
    )
    claim = get_object_or_404(claims, pk=claim_id)
    text = request.GET.get("range", "")
    time_range = Range(text) if text in Range else Range.DAY
    form = OwnRange(request.GET if time_range is Range.OWN else None)
    if time_range is Range.OWN and not form.is_valid():
        time_range = Range.DAY
    in_page = bool(request.headers.get("HX-Request"))  # whose head has the cost
    template = "usage/claim.html#panel" if in_page else "usage/claim.html"
    response = render(request, template, usage_context(claim, time_range, form) | {"in_page": in_page})
    patch_vary_headers(response, ["HX-Request"])
    return response


DEVICE_RANGES = ((Range.HOUR, "1 h"), (Range.DAY, "24 h"), (Range.WEEK, "7 d"))


@require_safe
def device_usage(request: HttpRequest, device_id: UUID) -> HttpResponse:
    """Return only the panel to htmx, otherwise the page. An unknown range is a day."""
    devices = Device.objects.select_related("cluster", "held_by").defer("cluster__credentials")
    device = get_object_or_404(devices, pk=device_id)
    asked = request.GET.get("range", "")
    time_range = next((one for one, _label in DEVICE_RANGES if one == asked), Range.DAY)
    usage = device_use.device_usage(user_of(request), device, time_range, now=timezone.now())
    page = {"device": device, "usage": usage, "ranges": DEVICE_RANGES}
    in_page = bool(request.headers.get("HX-Request"))
    response = render(request, "usage/device.html#panel" if in_page else "usage/device.html", page)
    patch_vary_headers(response, ["HX-Request"])
    return response


def usage_context(claim: Claim, time_range: Range, form: OwnRange | None = None) -> dict[str, Any]:
    """Return the context of the panel, in a fixed number of queries for any devices, days and runs."""
    now = timezone.now()
    allocations = claim_allocations(claim)
    form = form or OwnRange()
    own = form.bounds if time_range is Range.OWN else None
    series = claim_series(claim, time_range, allocations=allocations, now=now, own=own)
    query = {"range": str(time_range)}
    if own:
        query |= {day: str(form.cleaned_data[day]) for day in form.fields}
    holding = {allocation.claim_id for allocation in allocations if allocation.ended_at is None}
    card = RateCard.load()
    chart = chart_data(series, allocations, idle_percent=claim.profile_version.idle_percent or IDLE_PERCENT)
    devices = devices_of(claim, allocations)
    times = split_time(devices, allocations, now=now)
    few = len(allocations) <= MAX_DEVICES
    by_device = cost_by_device(claim, allocations, card, now=now) if few else {}
    return {
        "claim": claim,
        "series": series,
        "chart": chart | cost_plot(claim, series, allocations, card),
        "devices": [
            (replace(device, cost=by_device.pop(device.key, None)), times.get(device.key))
            for device in devices[:MAX_DEVICES]
        ],
        "has_device_costs": few,
        "unmeasured_cost": total(by_device.values()),
        "more_devices": max(len(devices) - MAX_DEVICES, 0),
        "energy": energy_of(devices),
        "time": sum(times.values(), TimeSplit()),
        "money_split": split_money(claim, allocations, card, now=now),
        "errors": claim_errors(claim),
        "approximations": approximations(
            claim, allocations, has_power=any(device.power_watts is not None for device in devices)
        ),
        "by_pod": shared_cost(claim, allocations, card, now=now),
        "runs": runs_of(claim, now=now),
        "runs_link": runs_link_of(claim),
        "rows": table_rows(series),
        "more_columns": more_columns(series).values(),
        "width": 3 + (len(series.devices) if len(series.devices) > 1 else 0) + len(more_columns(series)),
        "ranges": TABS,
        "own_range": form,
        "range_query": urlencode(query),
        "claim_cost": claim_cost(claim, allocations, card, now=now),
        "utilization": current_utilization([claim], now=now, holding=holding)[claim.pk],
        "collection": Collection.objects.filter(cluster=claim.cluster_id).first(),
        "has_source": bool(claim.cluster.metrics_url or claim.cluster.prometheus_url),
        "grafana_url": grafana_url(claim, allocations, series),
    }


def grafana_url(claim: Claim, allocations: Iterable[Allocation], series: UsageSeries) -> str:
    """Return the dashboard of the claim in the range of the graph; of a template, of its latest claims."""
    newest = sorted(allocations, key=lambda row: row.started_at, reverse=True)
    names = list(dict.fromkeys(row.object_name for row in newest)) or [claim.name]
    variables = [("namespace", claim.namespace), *(("claim", name) for name in names[:MAX_OBJECTS])]
    return dashboard_url(Dashboard.CLAIM, variables, since=series.start, until=series.end)


@require_safe
def right_size_panel(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """Return whether a smaller device would have been enough, as a panel; 204 if nothing can be said."""
    claims = Claim.objects.visible_to(request.user).select_related("team", "profile_version")
    claim = get_object_or_404(claims, pk=claim_id)
    found = right_size(claim, claim_allocations(claim), user_of(request), now=timezone.now())
    if found is None:
        return HttpResponse(status=204)
    return render(request, "usage/_right_size.html", {"claim": claim, "found": found})


def table_rows(series: UsageSeries) -> list[dict[str, Any]]:
    """Return the points, newest first, with the activity per device if there is more than one device."""
    names = series.devices if len(series.devices) > 1 else []
    more = more_columns(series)
    return [
        {
            "point": point,
            "activities": [point.by_device.get(name) for name in names],
            "more": [cell_text(name, getattr(point, name)) for name in more],
        }
        for point in reversed(series.points)
    ]


def more_columns(series: UsageSeries) -> dict[str, str]:
    """Return the heads of the values that were measured in the range, by name."""
    heads = {name: label.capitalize() for name, label in COMPUTE.items()} | TRAFFIC
    return {name: head for name, head in heads.items() if series.has(name)}


def cell_text(name: str, value: float | None) -> str:
    if value is None:
        return DASH
    return percent(value) if name in COMPUTE else f"{value / GIGABYTE:.2f} GB/s"


@require_safe
def rates(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    rates = Rate.objects.select_related("cluster")
    if wants_csv(request):
        heads = (
            "Rate",
            "Product",
            "Driver",
            "Cluster",
            "Expression",
            "Applies from",
            "Applies until",
            "Per hour",
            "Currency",
        )
        cells = (
            (
                *(rate.title, rate.product, rate.driver, rate.cluster and rate.cluster.name, rate.expression),
                *(rate.valid_from, rate.valid_until, rate.per_hour, rate.currency),
            )
            for rate in rates
        )
        return csv_response("rates", heads, cells)
    may_change = is_platform_admin(request.user)
    products = coverage(RateCard.load(), now=now) if may_change else []
    page = {
        "rates": rates,
        "now": now,
        "may_change": may_change,
        "products": products,
        "unpriced": sum((one.gpus for one in products if one.rate is None), Decimal(0)),
    }
    return render(request, "usage/rates.html", page)


@require_http_methods(["GET", "HEAD", "POST"])
def rate_examples(request: HttpRequest) -> HttpResponse:
    """Show the example prices; on POST add those that are missing."""
    require_admin(user_of(request))
    if request.method == "POST":
        added = add_examples(by=user_of(request))
        messages.success(request, f"{counted(len(added), 'example rate')} added.")
        return redirect("usage:rates")
    missing = missing_examples()
    page = {
        "examples": [(one, one in missing) for one in EXAMPLES],
        "missing": len(missing),
        "currency": CURRENCY,
        "of_budgets": installation_for(request).currency,
        "start": Month.current(timezone.now()).first,
    }
    return render(request, "usage/examples.html", page)


@require_http_methods(["GET", "HEAD", "POST"])
def rate_new(request: HttpRequest) -> HttpResponse:
    """Add a rate; `?like=` copies an earlier one, for a new price."""
    require_admin(user_of(request))
    like = request.GET.get("like", "")
    earlier = Rate.objects.filter(pk=like).first() if is_uuid(like) else None
    currency = installation_for(request).currency
    return edit(request, RateForm(posted(request), currency=currency, rate=earlier, follows=True), None)


@require_http_methods(["GET", "HEAD", "POST"])
def rate_edit(request: HttpRequest, rate_id: UUID) -> HttpResponse:
    require_admin(user_of(request))
    rate = get_object_or_404(Rate, pk=rate_id)
    return edit(request, RateForm(posted(request), rate=rate), rate)


def edit(request: HttpRequest, form: RateForm, rate: Rate | None) -> HttpResponse:
    """
    Show the form; on POST save it, or show it again with the refusal, or with what the rate would price.
    """
    previewed = None
    with Attempt(form) as attempt:
        if form.is_valid() and "preview" in request.POST:
            unsaved = Rate(**({"pk": rate.pk} if rate else {}), **form.cleaned_data)
            previewed = preview(unsaved, now=timezone.now())
        elif form.is_valid():
            saved = save_rate(by=user_of(request), rate=rate, **form.cleaned_data)
            messages.success(request, f"“{saved.title}” saved.")
            return redirect("usage:rates")
    applies = rate is not None and rate.valid_from <= timezone.now()
    is_over = rate is not None and rate.valid_until is not None and rate.valid_until <= timezone.now()
    retire = RetireForm() if applies and not is_over else None
    page = {"form": form, "rate": rate, "applies": applies, "retire": retire, "preview": previewed}
    return render(request, "usage/rate_edit.html", page, status=attempt.status)


@require_POST
def rate_retire(request: HttpRequest, rate_id: UUID) -> HttpResponse:
    require_admin(user_of(request))
    rate = get_object_or_404(Rate, pk=rate_id)
    form = RetireForm(request.POST)
    with Attempt(form) as attempt:
        if form.is_valid():
            retired = retire_rate(by=user_of(request), rate=rate, until=form.cleaned_data["until"])
            messages.success(request, f"“{retired.title}” retired.")
            return redirect("usage:rates")
    page = {"form": RateForm(rate=rate), "retire": form, "rate": rate, "applies": True}
    return render(request, "usage/rate_edit.html", page, status=attempt.status)


@require_POST
def rate_remove(request: HttpRequest, rate_id: UUID) -> HttpResponse:
    require_admin(user_of(request))
    rate = get_object_or_404(Rate, pk=rate_id)
    remove_rate(by=user_of(request), rate=rate)
    messages.success(request, f"“{rate.title}” removed.")
    return redirect("usage:rates")


def is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
