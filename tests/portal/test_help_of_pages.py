"""Each page of the portal links to its help."""

import re

import pytest
from django.urls import reverse

from portal.help.pages import all_pages
from portal.help.places import HELP, help_for
from tests.e2e.addresses import PAGES, WITHOUT_AXE
from tests.factories import make_team, make_user

NAMES = {name for pages in PAGES.values() for name, _way in pages} | set(WITHOUT_AXE)


def test_every_page_has_a_help_page():
    assert NAMES - set(HELP) == set(), "say in portal/help/places.py which part of the help is about it"
    assert set(HELP) - NAMES == set(), "no such page any more"


@pytest.mark.parametrize("place", sorted(set(HELP.values())))
def test_help_of_a_page_exists(place):
    slug, _, anchor = place.partition("#")
    assert not anchor or anchor in {heading.anchor for heading in all_pages()[slug].headings}


WITHOUT_A_PAGE = {"manifests", "notebooks", "pipelines"}  # about what is done elsewhere


def test_every_help_page_is_the_help_of_some_page():
    assert {place.partition("#")[0] for place in HELP.values()} == set(all_pages()) - WITHOUT_A_PAGE


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "title", "url"),
    [
        ("home", "Home", "/help/home/"),
        ("claims:quotas", "Quota", "/help/quota/"),
        ("claims:drafts", "Request a GPU", "/help/request/#drafts"),
        ("teams:tokens", "API", "/help/api/#tokens"),
        ("mfa_index", "Profile and notices", "/help/account/#sign-in"),
    ],
)
def test_page_links_to_its_help(client, name, title, url):
    mira = make_user("mira")
    make_team("vision", members=(mira,))
    client.force_login(mira)
    shown = client.get(reverse(name)).text
    assert re.search(rf'<a class="[^"]*" href="{url}" aria-label="Help: {title}"', shown)


@pytest.mark.django_db
def test_error_page_links_to_the_contents(client):
    client.force_login(make_user("mira"))
    assert 'href="/help/" aria-label="Help"' in client.get("/nothing/").text


def test_page_without_an_entry_has_the_contents():
    assert help_for("nothing").url == "/help/"
