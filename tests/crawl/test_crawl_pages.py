"""Every page that somebody in the demo reaches by links and GET forms, over data that the services made."""

import pytest
from django.contrib import admin
from django.urls import URLResolver, get_resolver, reverse

from tests.crawl import known

EVERYBODY = ("engineer", "lead", "emil", "admin", "outsider")


@pytest.mark.parametrize("who", EVERYBODY)
def test_nothing_is_wrong_with_any_page(crawl, who):
    found = crawl(who)
    assert not found.faults, "\n".join(found.faults)
    assert len(found.seen) > 150
    assert found.compared > 10


@pytest.mark.security("access", "every link without a sign-in")
def test_a_visitor_is_led_to_the_sign_in_and_no_further(crawl):
    found = crawl("visitor")
    assert found.faults == []
    assert found.routes == {"", "claims/request/", "accounts/login/", "accounts/password/reset/"}


def routes(resolver=None, before=""):
    for entry in (resolver or get_resolver()).url_patterns:
        route = before + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from routes(entry, route)
        else:
            yield route


def test_each_address_of_the_portal_is_reached_or_it_is_said_why_not(crawl, signed_in):
    crawls = [crawl(who) for who in (*EVERYBODY, "visitor")]
    reached = set().union(*(one.routes | one.posted for one in crawls))
    every = {route for route in routes() if not route.startswith(known.NOT_BY_LINKS)}
    unreached = every - reached - set(known.UNREACHED)
    if "No claim is idle" in signed_in("admin").get(reverse("usage:waste")).text:
        unreached -= known.OF_IDLE_CLAIMS
    assert sorted(unreached) == []
    assert sorted(set(known.UNREACHED) - every) == [], "no such address any more"


@pytest.mark.security("access", "every page that an engineer reaches, opened by somebody of another team")
def test_the_outsider_finds_nothing_of_another_team(crawl, signed_in):
    outsider = signed_in("outsider")
    seen = [one.visit.path for one in crawl("engineer").seen if one.match and known.is_of_a_team(one.match)]
    assert len(seen) > 60
    found = {path: outsider.get(path).status_code for path in seen}
    assert {path: status for path, status in found.items() if status != 404} == {}


def test_each_list_of_django_admin_and_its_first_row_open(signed_in):
    client = signed_in("admin")
    found: dict[str, int] = {}
    rows = 0
    for model in admin.site._registry:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        paths = [reverse(f"{name}_changelist")]
        if (first := model._default_manager.first()) is not None:
            paths.append(reverse(f"{name}_change", args=[first.pk]))
            rows += 1
        found |= {path: client.get(path).status_code for path in paths}
    assert {path: status for path, status in found.items() if status != 200} == {}
    assert rows > 15
