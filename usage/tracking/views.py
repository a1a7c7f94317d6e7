"""
Pages of experiment tracking: the servers, for platform admins, and the runs of a claim as CSV.

The runs of a claim are a part of its page (`usage.views.fragment`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib import messages
from django.db.models import Count, F
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.models import Claim
from core.attempt import Attempt
from core.errors import PortalError
from core.listing import csv_response
from inventory.secret_form import SECRETS
from teams.access import require_admin, user_of
from usage.cost import Cost
from usage.models import RunsLink, TrackedRun, TrackingServer
from usage.tracking.forms import RunsLinkForm, TrackingForm
from usage.tracking.runs import OPEN, run_costs
from usage.tracking.servers import remove_server, save_server, try_server
from usage.tracking.wandb import set_runs_link

SHOWN = 20  # runs on the page of a claim; its CSV has all
CSV_HEADS = (
    *("Run", "ID", "Experiment", "Status", "Begin", "End"),
    *("GPU-hours", "GPU-hours without a rate", "Cost", "Currency", "Address"),
)


@dataclass(frozen=True, slots=True)
class CostedRun:
    run: TrackedRun
    cost: Cost


@dataclass(frozen=True, slots=True)
class ClaimRuns:
    """The newest runs of a claim, and how many there are."""

    shown: list[CostedRun]
    count: int


def runs_of(claim: Claim, *, now: datetime) -> ClaimRuns:
    """Return the newest runs of a claim with their cost; one query without runs, at most four."""
    rows = TrackedRun.objects.filter(claim=claim).select_related("tracking_server")
    newest = list(rows[: SHOWN + 1])
    count = len(newest) if len(newest) <= SHOWN else rows.count()
    costs = run_costs(newest[:SHOWN], now=now)
    return ClaimRuns([CostedRun(run, costs[run.pk]) for run in newest[:SHOWN]], count)


@require_safe
def claim_runs_csv(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """Return all runs of a claim with a row for each currency of a run; 404 for outsiders."""
    claim = get_object_or_404(Claim.objects.visible_to(request.user), pk=claim_id)
    rows = list(TrackedRun.objects.filter(claim=claim).select_related("tracking_server"))
    costs = run_costs(rows, now=timezone.now())
    return csv_response(f"runs-{claim.name}", CSV_HEADS, csv_rows(rows, costs))


def csv_rows(rows: list[TrackedRun], costs: dict[UUID, Cost]) -> Iterator[tuple[object, ...]]:
    for run in rows:
        cost = costs[run.pk]
        about = (run.name, run.run_id, run.experiment, run.status, run.started_at, run.ended_at)
        for currency, amount in cost.amounts.items() or [(None, None)]:
            yield *about, cost.exact_hours, cost.exact_unpriced, amount, currency, run.url


@require_safe
def servers(request: HttpRequest) -> HttpResponse:
    """List the tracking servers and the links to Weights & Biases; for platform admins."""
    require_admin(user_of(request))
    return tracking_page(request, RunsLinkForm())


def tracking_page(request: HttpRequest, form: RunsLinkForm, status: int = 200) -> HttpResponse:
    rows = TrackingServer.objects.select_related("team").annotate(run_count=Count("runs"))
    links = RunsLink.objects.select_related("team").order_by(F("team__title").asc(nulls_first=True))
    page = {"servers": rows.order_by("team__title"), "links": links, "form": form}
    return render(request, "usage/tracking.html", page, status=status)


@require_POST
def runs_link(request: HttpRequest) -> HttpResponse:
    """Set or remove the link to runs of Weights & Biases of a team, or of the installation."""
    by, form = user_of(request), RunsLinkForm(request.POST)
    require_admin(by)
    with Attempt(form, field="url") as attempt:
        if form.is_valid():
            saved = set_runs_link(by=by, **form.cleaned_data)
            messages.success(request, f"{saved}: the link is saved." if saved else "The link is removed.")
            return redirect("usage:tracking")
    return tracking_page(request, form, attempt.status)


@sensitive_post_parameters(*SECRETS)
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def server_new(request: HttpRequest) -> HttpResponse:
    require_admin(user_of(request))
    return edit(request, TrackingForm(request.POST or None), None)


@sensitive_post_parameters(*SECRETS)
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def server_edit(request: HttpRequest, server_id: UUID) -> HttpResponse:
    require_admin(user_of(request))
    server = get_object_or_404(TrackingServer.objects.select_related("team"), pk=server_id)
    return edit(request, TrackingForm(request.POST or None, server=server), server)


def edit(request: HttpRequest, form: TrackingForm, server: TrackingServer | None) -> HttpResponse:
    """Show the form; POST saves it, or with `test` reads the server as typed and saves nothing."""
    by, status, found, problem = user_of(request), 200, "", ""
    if request.method == "POST":
        status = 422
        if form.is_valid():
            try:
                if "test" in request.POST:
                    status = 200
                    found = try_server(form.typed(), form.cleaned_data["secret"], since=timezone.now() - OPEN)
                else:
                    team = form.cleaned_data.get("team")
                    save_server(by=by, server=server, team=team, **form.changes())
                    messages.success(
                        request, "The tracking server is saved. Its runs appear within 5 minutes."
                    )
                    return redirect("usage:tracking")
            except PortalError as refusal:
                problem = refusal.message
                status = status if "test" in request.POST else refusal.status
    page = {"form": form, "server": server, "found": found, "problem": problem}
    return render(request, "usage/tracking_server.html", page, status=status)


@require_POST
def server_remove(request: HttpRequest, server_id: UUID) -> HttpResponse:
    by = user_of(request)
    require_admin(by)
    server = get_object_or_404(TrackingServer, pk=server_id)
    remove_server(by=by, server=server)
    messages.success(request, "The tracking server and its runs are forgotten. Tags in MLflow stay.")
    return redirect("usage:tracking")
