"""Middleware that tells which templates a page was made of, in the header X-Templates."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template import Template
from django.test.signals import template_rendered
from django.test.utils import instrumented_test_render

RENDERED: ContextVar[set[str] | None] = ContextVar("RENDERED", default=None)


def name_templates(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    Template._render = instrumented_test_render  # sends `template_rendered`, as in tests of Django
    template_rendered.connect(note)

    def middleware(request: HttpRequest) -> HttpResponse:
        names: set[str] = set()
        token = RENDERED.set(names)
        try:
            response = get_response(request)
        finally:
            RENDERED.reset(token)
        response["X-Templates"] = " ".join(sorted(names))
        return response

    return middleware


def note(*, template: Template, **_rest: Any) -> None:
    names = RENDERED.get()
    if names is not None and template.name:
        names.add(template.name)
