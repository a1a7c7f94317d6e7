"""What changes nothing and is recorded all the same: downloads, pages of Django's admin, refused writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from teams.audit.refusals import record_refused_write
from teams.models import record

FILE = re.compile(r'^attachment; filename="([^"]+)"')
OPENCOST = "api-opencost"  # costs that a program reads whole, without a file


class AuditMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if response.status_code == HTTPStatus.OK and request.method == "GET":
            self.record_reading(request, response)
        record_refused_write(request, response.status_code)
        return response

    def record_reading(self, request: HttpRequest, response: HttpResponseBase) -> None:
        file = FILE.match(response.headers.get("Content-Disposition", ""))
        match = request.resolver_match
        if file or (match and match.view_name == OPENCOST):
            name = file[1] if file else "costs in the shape of OpenCost"
            query = request.META.get("QUERY_STRING", "")
            filters = f" with {query[:500]}" if query else ""
            record(
                by=request.user,
                action="export.downloaded",
                kind="export",
                name=name,
                text=f"downloaded {name}{filters}",
            )
        elif match and match.app_name == "admin":
            text = f"opened {request.path}"
            record(by=request.user, action="admin.opened", kind="admin", name=request.path, text=text)
