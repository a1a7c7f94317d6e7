"""
Middleware: refusals become pages, API addresses get their slash, and caches keep users and fragments apart.
"""

from collections.abc import Callable
from http import HTTPStatus

from django.db import DataError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_cache_control, patch_vary_headers

from core.errors import PortalError, data_error_refusal


class PortalErrorMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        refusal = data_error_refusal(exception) if isinstance(exception, DataError) else exception
        if not isinstance(refusal, PortalError):
            return None
        return render(request, "error.html", {"error": refusal}, status=refusal.status)


class ApiSlashMiddleware:
    """
    Read `/api/v1/claims` as `/api/v1/claims/`.

    Django would redirect, and a redirected POST loses its body; clients often omit the slash.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith("/api/") and not request.path_info.endswith("/"):
            request.path_info += "/"
        return self.get_response(request)


class CachingMiddleware:
    """
    Keep responses apart in caches: those of each user, and a fragment from the page at the same address.

    Without it a browser that goes back would show a fragment of htmx as the page.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.headers.get("Content-Type", "").startswith("text/html"):
            patch_vary_headers(response, ["HX-Request"])
        failed = response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR  # perhaps for want of a database
        if not failed and not response.has_header("Cache-Control") and request.user.is_authenticated:
            patch_cache_control(response, private=True)
        return response
