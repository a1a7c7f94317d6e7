"""Pages: where the reader is signed in, and signing out there."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from core.listing import csv_response, wants_csv
from core.text import counted
from teams.access import user_of
from teams.sign_out import sessions_of, sign_out, sign_out_others


@require_safe
def sessions(request: HttpRequest) -> HttpResponse:
    rows = list(sessions_of(user_of(request)))
    if wants_csv(request):
        heads = ("Browser", "Signed in", "With", "Last seen", "Address")
        cells = ((row.browser, row.created_at, row.way, row.last_seen_at, row.address) for row in rows)
        return csv_response("sessions", heads, cells)
    here = request.session.session_key
    rows.sort(key=lambda row: row.session_key != here)  # this one first
    return render(request, "teams/sessions.html", {"sessions": rows, "here": here})


@require_POST
def end(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Sign out one browser; the one that asks goes to the page for that."""
    session = get_object_or_404(sessions_of(user_of(request)), id=session_id)
    if session.session_key == request.session.session_key:
        return redirect("account_logout")
    sign_out(by=user_of(request), session=session)
    messages.success(request, f"{session.browser} is signed out.")
    return redirect("teams:sessions")


@require_http_methods(["GET", "HEAD", "POST"])
def end_others(request: HttpRequest) -> HttpResponse:
    """Say what ends and what stays, then sign out all other browsers."""
    person, here = user_of(request), request.session.session_key
    if request.method == "POST":
        ended = sign_out_others(by=person, here=here)
        messages.success(request, f"{counted(ended, 'other browser')} signed out.")
        return redirect("teams:sessions")
    others = sessions_of(person).exclude(session_key=here)
    return render(request, "teams/sessions_end.html", {"others": others})
