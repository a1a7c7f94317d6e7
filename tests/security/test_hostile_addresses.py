"""Whatever somebody puts into an address or a form, the portal answers it: never with a fault of its own."""

import sys
from urllib.parse import urlencode

import pytest
from django.http import QueryDict

from tests.portal.every_address import PLACE, address
from tests.portal.every_address import routes as every_route

pytestmark = pytest.mark.django_db
# What no column keeps, and the end of the calendar.
HOSTILE = ("\0", "9999-12-31T23:59")
SKIPPED = ("admin/", "accounts/")  # of others
FORM = "application/x-www-form-urlencoded"
# What an address needs beside a row, to get to the work that it does.
ASKED = {"profile": "train-80", "cluster": "fra-1", "team": "vision", "devices": "1", "duration": "24h"}
ENOUGH = {
    "claims/<uuid:claim_id>/snippets/": {"snippet": "pod"},
    "claims/request/dropped/<int:step>/": ASKED,
    "claims/request/blockers/": ASKED,
    "api/v1/match/": ASKED,
    "api/v1/costs/": {"team": "vision"},
    "api/v1/budgets/past/": {"month": "2026-01"},
}
WITHOUT_A_ROW = [
    "help/reference/<slug:name>/",  # a resource of the API
    "help/<slug:slug>/",  # a file of docs/user
    "logo.png",  # nobody has uploaded one
    "claims/request/dropped/<int:step>/",  # the profile asks for no condition that could leave a device out
    "profiles/<slug:slug>/lint/<slug:key>/",  # nothing is wrong with the profile
    "report/unsubscribe/<str:token>/",  # a signed token of a mail
    "api/v1/teams/<slug:slug>/service-accounts/<slug:name>/tokens/<uuid:pk>/",  # it has none
    "api/v1/tokens/<uuid:pk>/",  # that of another person
]


class Noting(QueryDict):
    """A query that notes which names its view asks for; what the frame of every page asks for is no news."""

    asked: set[str]

    def _note(self, key):
        if sys._getframe(2).f_globals["__name__"] != "portal.context":
            self.asked.add(str(key))

    def __getitem__(self, key):
        self._note(key)
        return super().__getitem__(key)

    def __contains__(self, key):
        self._note(key)
        return super().__contains__(key)

    def get(self, key, default=None):
        self._note(key)
        return super().get(key, default)

    def getlist(self, key, default=None):
        self._note(key)
        return super().getlist(key, default)


@pytest.fixture
def asked(settings):
    """The names that views have read from queries and forms; a test empties it before a request."""
    settings.MIDDLEWARE = [f"{__name__}.noting", *settings.MIDDLEWARE]
    Noting.asked = set()
    return Noting.asked


def noting(get_response):
    def middleware(request):
        request.GET = Noting(request.META.get("QUERY_STRING", ""))
        if request.method == "POST" and not request.path.startswith("/api/"):
            request.POST = Noting(request.body)
        return get_response(request)

    return middleware


def routes():
    return every_route(skipped=SKIPPED)


@pytest.mark.security("injection", "hostile values in every parameter that a page reads")
def test_no_value_in_a_query_breaks_a_page(root, known, asked):
    broken, unknown, refused, tried = [], [], [], 0
    for route in routes():
        path, enough = address(route, known), ENOUGH.get(route, {})
        asked.clear()
        plain = root.get(path, enough)
        unknown += [route] if plain.status_code == 404 else []
        refused += [route] if plain.status_code == 422 else []
        names = sorted(asked - {"wait", "format"}) if plain.status_code != 405 else []
        queries = [dict.fromkeys(names, value) for value in HOSTILE if names]
        queries += [query | enough for query in queries if enough]
        tried += len(queries)
        found = {"": plain.status_code} | {str(query): root.get(path, query).status_code for query in queries}
        broken += [f"{path}?{query} {code}" for query, code in found.items() if code >= 500]
    assert broken == []
    assert (unknown, refused) == (WITHOUT_A_ROW, [])
    assert tried > 100


@pytest.mark.parametrize("value", HOSTILE)
def test_no_team_in_a_query_breaks_the_frame_of_a_page(root, value):
    assert root.get("/rates/", {"team": value}).status_code == 200


@pytest.mark.security("injection", "hostile values in every part of an address")
def test_no_part_of_an_address_breaks_a_page(root, known):
    texts = [route for route in routes() if "<str:" in route or "(?P<" in route]
    found = {}
    for route in texts:
        hostile = dict.fromkeys((one or other for one, other in PLACE.findall(route)), "%00")
        path = address(route, known, **{name: text for name, text in hostile.items() if name != "claim_id"})
        found[path] = root.get(path).status_code
    assert [path for path, code in found.items() if code >= 500] == []
    assert any(code == 404 for code in found.values())


@pytest.mark.security("injection", "hostile values in every field of a form")
def test_nothing_sent_to_a_form_breaks_its_page(root, known, asked):
    broken, answered = [], 0
    for route in routes():
        path = address(route, known)
        if path.startswith("/api/"):
            continue
        asked.clear()
        plain = root.post(path, "", content_type=FORM)
        names = sorted(asked - {"csrfmiddlewaretoken"})
        broken += [f"{path}: {plain.status_code}"] if plain.status_code >= 500 else []
        for value in HOSTILE if names and plain.status_code != 405 else ():
            answer = root.post(path, urlencode(dict.fromkeys(names, value)), content_type=FORM)
            answered += answer.status_code == 422
            broken += [f"{path} {names}: {value!r}"] if answer.status_code >= 500 else []
    assert broken == []
    assert answered > 20
