"""Pages of saved reports: save one, choose which are mailed, delete; unsubscribe by a link in the mail."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from core.errors import Invalid
from core.transactions import service
from teams.access import user_of
from usage.models import SavedReport
from usage.saved_reports import save_report, saved_of, set_monthly


@require_POST
def save(request: HttpRequest) -> HttpResponse:
    """Save the report that sent the form, and show it."""
    saved = save_report(
        by=user_of(request),
        name=request.POST.get("name", ""),
        query=request.POST.get("query", ""),
        monthly=bool(request.POST.get("monthly")),
        now=timezone.now(),
    )
    when = " It is mailed to you on the first of each month." if saved.monthly else ""
    messages.success(request, f"Saved as “{saved.name}”.{when}")
    return redirect(f"{reverse('usage:report')}?{saved.query}")


@require_safe
def saved_reports(request: HttpRequest) -> HttpResponse:
    rows = SavedReport.objects.filter(user=user_of(request))
    return render(request, "usage/saved_reports.html", {"rows": rows, "email": user_of(request).email})


@require_POST
def change(request: HttpRequest, saved_id: UUID) -> HttpResponse:
    """Mail it monthly or not, or delete it; that of another person is 404."""
    saved = get_object_or_404(SavedReport, pk=saved_id, user=user_of(request))
    match request.POST.get("do"):
        case "mail":
            set_monthly(saved=saved, monthly=True, now=timezone.now())
            messages.success(request, f"“{saved.name}” is mailed to you on the first of each month.")
        case "no-mail":
            set_monthly(saved=saved, monthly=False, now=timezone.now())
            messages.success(request, f"“{saved.name}” is not mailed any more.")
        case "delete":
            with service:
                saved.delete()
            messages.success(request, f"“{saved.name}” was deleted.")
        case _:
            raise Invalid("Choose what to do: mail, no-mail or delete.", field="do")
    return redirect("usage:reports_saved")


@csrf_exempt  # RFC 8058: mail programs send this POST; the signed address is the permission
@login_not_required
@require_http_methods(["GET", "HEAD", "POST"])
def unsubscribe(request: HttpRequest, token: str) -> HttpResponse:
    """Ask, and on POST stop the mail of one report. A wrong link, or a deleted report, is 404."""
    saved = saved_of(token)
    if saved is None:
        raise Http404("This link is not valid, or the report was deleted.")
    if request.method == "POST":
        set_monthly(saved=saved, monthly=False, now=timezone.now())
        saved.monthly = False
    return render(request, "usage/unsubscribe.html", {"saved": saved})
