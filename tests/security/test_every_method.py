"""Which methods an address takes: pages those of forms, the API those that it describes; no read writes."""

import re

import pytest
from django.test import Client
from drf_spectacular.generators import SchemaGenerator

from tests.factories import make_user
from tests.portal.every_address import PLACE, address, routes
from tests.security.state import differences, stored, writes

pytestmark = pytest.mark.django_db

METHODS = ("get", "post", "put", "patch", "delete")
OTHERS = ("admin/", "api/", "scim/", "accounts/")  # of Django, of programs, of allauth
# Pages of several forms, each with the name of its button: a post without one shows the page.
SEVERAL = {"settings/", "teams/<slug:slug>/settings/", "teams/<slug:slug>/people/", "me/", "device/"}
OPENED = {"me/notices/<uuid:notice_id>/": ["notify_notice"]}  # who opens a notice has read it


@pytest.mark.security("forgery", "every page by methods that no form has")
def test_no_page_takes_a_method_that_no_form_has(root, known):
    taken = {}
    for route in routes(skipped=OTHERS):
        for method in ("put", "delete"):
            if (status := getattr(root, method)(address(route, known)).status_code) != 405:
                taken[f"{method} {route}"] = status
    assert taken == {}


@pytest.mark.security("forgery", "every page that is only read, by POST")
def test_what_is_only_read_takes_no_post(root, known):
    paths = {route: address(route, known) for route in routes(skipped=OTHERS)}
    read = {route for route, path in paths.items() if root.get(path).status_code == 200}
    assert {route for route in read if root.post(paths[route], {}).status_code == 200} == SEVERAL


@pytest.mark.security("forgery", "every address by GET, as who may do most there: no table differs")
def test_what_is_read_writes_nothing(root, known):
    alice = Client(raise_request_exception=False)
    alice.force_login(make_user("alice"))  # to whom the token and the claims belong
    wrong, counted, before = {}, writes(), stored()
    for route in routes(skipped=("admin/",)):
        if root.get(path := address(route, known)).status_code == 404:
            alice.get(path)
        if (count := writes()) != counted:
            counted, after = count, stored()
            if changed := differences(before, after):
                wrong[route] = changed
            before = after
    assert wrong == OPENED


@pytest.mark.security("forgery", "every operation of the API that it does not describe")
def test_the_api_takes_what_it_describes_and_nothing_else(root, known):
    described = {
        re.sub(r"\{.*?\}", "*", path): set(operations) & set(METHODS)
        for path, operations in SchemaGenerator().get_schema(public=True)["paths"].items()
    }
    wrong, tried = {}, 0
    for route in routes(skipped=()):
        if route.startswith("api/") and (pattern := "/" + PLACE.sub("*", route)) in described:
            path, tried = address(route, known), tried + 1
            taken = {name for name in METHODS if getattr(root, name)(path).status_code != 405}
            if taken != described[pattern]:
                wrong[route] = (taken, described[pattern])
    assert wrong == {}
    assert tried > 150
