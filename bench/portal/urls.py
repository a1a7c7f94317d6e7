"""The portal's addresses, and a page that has only the frame around every page."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.template import engines
from django.urls import path

from portal.urls import handler404, handler500  # noqa: F401, Django reads them here
from portal.urls import urlpatterns as portal_urls

FRAME = '{% extends "base.html" %}'


def frame(request: HttpRequest) -> HttpResponse:
    return HttpResponse(engines["django"].from_string(FRAME).render({}, request))


urlpatterns = [*portal_urls, path("bench/frame/", frame, name="bench_frame")]
