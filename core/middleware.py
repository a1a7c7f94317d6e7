"""What stands between every request and its view: refusals become pages, API addresses get their slash."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from core.errors import PortalError


class PortalErrorMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, PortalError):
            return None
        return render(request, "error.html", {"error": exception}, status=exception.status)


class ApiSlashMiddleware:
    """
    Read `/api/v1/claims` as `/api/v1/claims/`.

    Django would redirect, and a redirected POST loses its body; programs leave the slash out all the time.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith("/api/") and not request.path_info.endswith("/"):
            request.path_info += "/"
        return self.get_response(request)
