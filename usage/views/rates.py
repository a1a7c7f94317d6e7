"""Prices: everybody may read them, platform admins write them."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from core.errors import PortalError
from core.sheets import sheet, wants_sheet
from teams.access import asker, is_platform_admin
from usage.forms import RateForm
from usage.models import Rate
from usage.services import remove_rate, require_admin, save_rate


@require_safe
def rates(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    every = Rate.objects.select_related("cluster")
    if wants_sheet(request):
        heads = (
            "Rate",
            "Product",
            "Driver",
            "Cluster",
            "Applies from",
            "Per hour",
            "Currency",
        )
        cells = (
            (
                *(one.title, one.product, one.driver, one.cluster and one.cluster.name),
                *(one.valid_from, one.per_hour, one.currency),
            )
            for one in every
        )
        return sheet("rates", heads, cells)
    page = {"rates": every, "now": now, "may_change": is_platform_admin(request.user)}
    return render(request, "usage/rates.html", page)


@require_http_methods(["GET", "HEAD", "POST"])
def rate_new(request: HttpRequest) -> HttpResponse:
    """Add a rate; `?like=` starts from an earlier one, which is how a price is raised."""
    require_admin(asker(request))
    like = request.GET.get("like", "")
    earlier = Rate.objects.filter(pk=like).first() if is_uuid(like) else None
    return edit(request, RateForm(request.POST or None, rate=earlier, follows=True), None)


@require_http_methods(["GET", "HEAD", "POST"])
def rate_edit(request: HttpRequest, rate_id: UUID) -> HttpResponse:
    require_admin(asker(request))
    rate = get_object_or_404(Rate, pk=rate_id)
    return edit(request, RateForm(request.POST or None, rate=rate), rate)


def edit(request: HttpRequest, form: RateForm, rate: Rate | None) -> HttpResponse:
    """Show the form; on POST save it, or show it again with the sentence of the refusal."""
    status = 200
    if request.method == "POST":
        status = 422
        if form.is_valid():
            try:
                saved = save_rate(by=asker(request), rate=rate, **form.cleaned_data)
            except PortalError as refusal:
                form.add_error(None, refusal.message)
                status = refusal.status
            else:
                messages.success(request, f"“{saved.title}” is saved.")
                return redirect("usage:rates")
    applies = rate is not None and rate.valid_from <= timezone.now()
    page = {"form": form, "rate": rate, "applies": applies}
    return render(request, "usage/rate_edit.html", page, status=status)


@require_POST
def rate_remove(request: HttpRequest, rate_id: UUID) -> HttpResponse:
    require_admin(asker(request))
    rate = get_object_or_404(Rate, pk=rate_id)
    remove_rate(by=asker(request), rate=rate)
    messages.success(request, f"“{rate.title}” is removed.")
    return redirect("usage:rates")


def is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
