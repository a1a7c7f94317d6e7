"""Programs speak HTTPS only."""

from collections.abc import Callable
from http import HTTPStatus

import rest_framework.views  # noqa: F401 - before core.problems, which its settings name
from django.conf import settings
from django.http import HttpRequest, HttpResponse

from core.errors import PortalError
from core.problems import problem


class HttpsRequired(PortalError):
    """A program sent a request over HTTP: 403."""

    code = "https-required"
    status = HTTPStatus.FORBIDDEN


class ApiOverHttpsMiddleware:
    """
    Refuse what programs send over HTTP, where pages are redirected: a program would follow each time, and
    send its token in the clear each time.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *_view: object) -> HttpResponse | None:
        is_program = request.path_info.startswith(("/api/", "/scim/"))
        if not is_program or not settings.SECURE_SSL_REDIRECT or request.is_secure():
            return None
        sentence = "Send it over HTTPS. Replace the token, if there was one: others may have read it."
        return problem(request, HttpsRequired.status, HttpsRequired.code, sentence)
