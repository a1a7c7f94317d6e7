"""The answer where no view was reached, or one broke: a page to people, a problem document to programs."""

from http import HTTPStatus

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views import defaults

from core.problems import MEDIA_TYPE

API = "/api/"


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if not request.path.startswith(API):
        return defaults.page_not_found(request, exception)
    return problem(request, HTTPStatus.NOT_FOUND, "not-found", "There is nothing at this address.")


def server_error(request: HttpRequest) -> HttpResponse:
    if not request.path.startswith(API):
        return defaults.server_error(request)
    sentence = "Something broke here; it has been recorded. Try again, or tell a platform admin."
    return problem(request, HTTPStatus.INTERNAL_SERVER_ERROR, "internal", sentence)


def problem(request: HttpRequest, status: HTTPStatus, code: str, detail: str) -> JsonResponse:
    document = {
        "type": "about:blank",
        "title": status.phrase,
        "status": status,
        "detail": detail,
        "code": code,
        "instance": request.path,
    }
    return JsonResponse(document, status=status, content_type=MEDIA_TYPE)
