"""
Problem documents (RFC 9457): every error of the API as application/problem+json.

`code` is stable and for programs, `type` is the section of the help about it, `detail` is the message, as on
pages, `errors` names the fields of a malformed request, `instance` is the path, `request_id` finds it in the
log. Other members come from `PortalError.extra`.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from io import BytesIO
from math import ceil
from typing import IO, Any

from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.core.exceptions import ValidationError as ModelInvalid
from django.db import DataError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.template import loader
from django.urls import reverse
from django.views import defaults
from rest_framework import exceptions
from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import JSONParser
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import as_serializer_error
from rest_framework.views import exception_handler as drf_handler

from core.errors import PortalError, data_error_refusal
from core.rates import count_refused_sign_in
from core.text import is_text
from core.transactions import saved

MAX_LEVELS = 64  # a claim specification has about ten


class TooLarge(APIException):
    status_code = 413
    default_detail = "The request is too large."


class BoundedJSON(JSONParser):
    """DRF's parser with limits: Django limits only bodies that Django itself reads."""

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        max_bytes = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        body = stream.read(max_bytes + 1)
        if len(body) > max_bytes:
            raise TooLarge(f"The request has more than {max_bytes} bytes.")
        too_deep = ParseError(f"The JSON has more than {MAX_LEVELS} levels.")
        try:
            parsed = super().parse(BytesIO(body), media_type, dict(parser_context or {}))
        except RecursionError:
            raise too_deep from None
        if levels(parsed) > MAX_LEVELS:
            raise too_deep
        if b"\\u" in body and not is_text(parsed):
            raise ParseError("The JSON has half of a character, a lone surrogate (RFC 7493 §2.1).")
        return parsed


def request_id_of(request: object) -> str:
    """Return the id of a request of Django or DRF; "" before the middleware has seen it."""
    return str(getattr(getattr(request, "_request", request), "request_id", ""))


def levels(value: Any) -> int:
    """Return how deep lists and objects are nested, counted without recursion; 0 for a plain value."""
    depth, level = 0, [value]
    while containers := [item for item in level if isinstance(item, list | dict)]:
        depth += 1
        level = [part for item in containers for part in (item.values() if isinstance(item, dict) else item)]
    return depth


MEDIA_TYPE = "application/problem+json"


class ProblemRenderer(JSONRenderer):
    media_type = MEDIA_TYPE


# Codes of errors of Django and DRF; docs/user/api.md has a section for each, as for those of PortalErrors.
CODES = {
    401: "unauthenticated",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    406: "not-acceptable",
    413: "request-entity-too-large",
    415: "unsupported-media-type",
    422: "invalid",
    429: "too-often",
    500: "internal",
    503: "unavailable",
}
NO_SIGN_IN = (exceptions.NotAuthenticated, exceptions.AuthenticationFailed)
HELP = "help_page", "api"  # has a section for each code


def problem_type(code: str, request: Request | HttpRequest) -> str:
    """Return the address of the help about a code."""
    name, page = HELP
    path = f"{reverse(name, args=[page])}#{code}"
    return f"{settings.PORTAL_URL}{path}" if settings.PORTAL_URL else request.build_absolute_uri(path)


def exception_handler(exception: Exception, context: dict[str, Any]) -> Response | None:
    """Return the problem document; None for an error of the portal, for which Django returns 500."""
    request: Request = context["request"]
    if isinstance(exception, PortalError):
        problem = document(
            exception.status,
            exception.code,
            str(exception.title),
            exception.message,
            request,
            **exception.extra,
        )
        return as_response(problem, request, headers=dict(exception.headers))
    if isinstance(exception, DataError):
        refusal = data_error_refusal(exception)
        return None if refusal is None else exception_handler(refusal, context)
    if isinstance(exception, RequestDataTooBig):  # if the body was read before the parser
        exception = TooLarge()
    if isinstance(exception, NO_SIGN_IN) and (wait := count_refused_sign_in(request)):
        exception = exceptions.Throttled(wait)
    if isinstance(exception, ModelInvalid):
        exception = exceptions.ValidationError(as_serializer_error(exception))
    response = drf_handler(exception, context)
    if response is None:
        return None
    problem = framework_problem(exception, response.status_code, request)
    return as_response(problem, request, headers=dict(response.items()))


def document(
    status: int, code: str, title: str, detail: str, request: Request | HttpRequest, **more: object
) -> dict[str, Any]:
    return {
        "type": problem_type(code, request),
        "title": title,
        "status": status,
        "detail": detail,
        "code": code,
        "instance": request.path,
        "request_id": request_id_of(request),
        **more,
    }


def framework_problem(exception: Exception, status: int, request: Request) -> dict[str, Any]:
    """Return the problem of an error of Django or DRF: malformed is 422, and 404 does not say why."""
    if isinstance(exception, exceptions.ValidationError):
        errors = field_errors(exception.detail)
        sentence = f"The request is malformed: {first_message(errors)}"
        return document(422, "invalid", "The request is malformed", sentence, request, errors=errors)
    if isinstance(exception, exceptions.ParseError):
        return document(422, "invalid", "The request is malformed", str(exception.detail), request)
    if isinstance(exception, Http404 | exceptions.NotFound):
        sentence = "Not found, or you do not have access."
        return document(404, "not-found", phrase(404), sentence, request)
    if isinstance(exception, PermissionDenied | exceptions.PermissionDenied):
        sentence = str(exception) or "Your role does not allow this."
        return document(403, "forbidden", phrase(403), sentence, request)
    if isinstance(exception, exceptions.Throttled):
        seconds: float | None = getattr(exception, "wait", None)
        wait = {"retry_after": ceil(seconds)} if seconds is not None else {}
        return document(429, "too-often", phrase(429), str(exception.detail), request, **wait)
    detail = getattr(exception, "detail", "")
    if isinstance(exception, exceptions.NotAuthenticated):
        detail = "You are not signed in. Send a token of the page API tokens: Authorization: Bearer drg_…"
    return document(
        status, CODES.get(status, "refused"), phrase(status), str(detail) or phrase(status), request
    )


def phrase(status: int) -> str:
    return HTTPStatus(status).phrase


def field_errors(detail: Any, path: str = "") -> list[dict[str, str]]:
    """Return DRF's nested errors as a flat list of {"field": "a.b.0", "message", "code"}."""
    if isinstance(detail, dict):
        return [error for key, value in detail.items() for error in field_errors(value, joined(path, key))]
    if isinstance(detail, list) and any(isinstance(item, dict | list) for item in detail):
        return [
            error for index, value in enumerate(detail) for error in field_errors(value, joined(path, index))
        ]
    messages = detail if isinstance(detail, list) else [detail]
    return [
        {"field": path, "message": str(error), "code": getattr(error, "code", "invalid")}
        for error in messages
    ]


def joined(path: str, key: str | int) -> str:
    return path if key == "non_field_errors" else f"{path}.{key}" if path else str(key)


def first_message(errors: list[dict[str, str]]) -> str:
    first = errors[0] if errors else {"field": "", "message": ""}
    return f"{first['field']}: {first['message']}" if first["field"] else first["message"]


def as_response(problem: dict[str, Any], request: Request, headers: dict[str, str] | None = None) -> Response:
    other_headers = {name: value for name, value in (headers or {}).items() if name.lower() != "content-type"}
    response = Response(problem, status=problem["status"], headers=other_headers, content_type=MEDIA_TYPE)
    # An error is a problem document, whatever representation the request accepts.
    request.accepted_renderer = response.accepted_renderer = ProblemRenderer()
    request.accepted_media_type = response.accepted_media_type = MEDIA_TYPE
    return response


API = "/api/"


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if not request.path.startswith(API):
        return defaults.page_not_found(request, exception)
    return problem(request, HTTPStatus.NOT_FOUND, "not-found", "There is nothing at this address.")


@dataclass(frozen=True, slots=True)
class ErrorPage:
    """What people and programs are told of an error that no view expected."""

    status: HTTPStatus
    code: str
    title: str
    sentence: str


INTERNAL = ErrorPage(
    HTTPStatus.INTERNAL_SERVER_ERROR,
    "internal",
    "Internal error",
    "This is a fault of the portal; it was logged. {saved} Try again, or contact a platform admin.",
)
UNAVAILABLE = ErrorPage(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "unavailable",
    "The database does not respond",
    "{saved} Try again in a minute; if it lasts, contact a platform admin. Running pods and their devices "
    "are not affected.",
)
NOTHING_SAVED = "No change was saved."
SAVED = "Your change {} saved before the fault: look at it before you send it again."


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer an error that no view expected: 503 if the database is away or too slow, else 500."""
    is_away = isinstance(sys.exception(), OperationalError | InterfaceError)
    failure = UNAVAILABLE if is_away else INTERNAL
    kept = SAVED.format(saved.get()) if saved.get() else NOTHING_SAVED
    failure = replace(failure, sentence=failure.sentence.format(saved=kept))
    if request.path.startswith(API):
        response: HttpResponse = problem(request, failure.status, failure.code, failure.sentence)
    else:
        said = {"title": failure.title, "sentence": failure.sentence, "status": failure.status.value}
        page = loader.get_template("500.html").render(said)
        response = HttpResponse(page, status=failure.status)
    if is_away:
        response["Retry-After"] = "30"
    return response


def problem(request: HttpRequest, status: HTTPStatus, code: str, detail: str) -> JsonResponse:
    content = document(status, code, status.phrase, detail, request)
    return JsonResponse(content, status=status, content_type=MEDIA_TYPE)
