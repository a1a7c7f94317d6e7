"""Addresses of the suite alone: a page with every component of the look, and a list by the convention."""

from pathlib import Path

import django_filters
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template import engines
from django.urls import include, path

from core.listing import Column, Listing
from teams.models import User
from teams.views import MemberForm

GAP = [None] * 6
CHART = {
    "x": [1_763_370_000 + 300 * index for index in range(48)],
    "step": 300,
    "activity": [
        {"label": "gpu-2", "values": [80 + index % 7 for index in range(30)] + GAP + [78] * 12},
        {"label": "gpu-3", "values": [60 + index % 9 for index in range(30)] + GAP + [64] * 12},
    ],
    "memory": [118.0] * 30 + GAP + [120.5] * 12,
    "limit": 159.2,
}
YAML = "spec:\n  resourceClaims:\n  - name: gpu\n    resourceClaimName: sam2 # no nvidia.com/gpu here\n"


class PeopleFilter(django_filters.FilterSet):
    is_active = django_filters.BooleanFilter(label="Active")
    theme = django_filters.ChoiceFilter(choices=User.Theme, label="Theme", empty_label="Any theme")


PEOPLE = (
    Column[User]("username", "User name", lambda user: user.username, sort="username", fixed=True),
    Column[User]("name", "Name", lambda user: user.first_name, sort=("last_name", "first_name")),
    Column[User]("theme", "Theme", lambda user: user.get_theme_display()),
    Column[User]("email", "Address", lambda user: user.email, sort="email", shown=False),
)


def components(request: HttpRequest) -> HttpResponse:
    source = (Path(__file__).parent / "components.html").read_text()
    context = {
        "chart": CHART,
        "yaml": YAML,
        "form": MemberForm({"username": ""}),
        "spark": [0.2, 0.5, None, 0.7, 0.6],
    }
    return HttpResponse(engines["django"].from_string(source).render(context, request))


def people(request: HttpRequest) -> HttpResponseBase:
    users = User.objects.only("username", "first_name", "last_name", "theme", "email")
    listing = Listing(
        request,
        users,
        columns=PEOPLE,
        title="People of the world",
        filters=PeopleFilter,
        search=("username", "first_name"),
        sort="username",
        per_page=5,
    )
    return listing.respond("look/people.html", {"empty_title": "Nobody"})


def fail(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("broken on purpose")


def plain(request: HttpRequest) -> HttpResponse:
    return render(request, "plain.html")


handler404 = "core.problems.not_found"
handler500 = "core.problems.server_error"
urlpatterns = [
    path("look/", components),
    path("look/people/", people),
    path("look/fail/", fail),
    path("look/plain/", plain),
    path("api/v1/fail/", fail),
    path("", include("portal.urls")),
]
