"""An unknown filter is said, a search by attribute has a hint, a filter changes no link of the frame."""

import pytest
from django.test import Client

from tests.factories import make_cluster, make_team, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def browse():
    make_cluster("fra-1")
    client = Client()
    client.force_login(make_user("ada", is_superuser=True))
    return client


def test_unknown_value_of_filter_is_said_with_those_that_exist(browse):
    page = browse.get("/claims/?state=open").text
    assert "State: “open” is unknown, and not filtered by. Use live, over, " in page
    assert "is unknown, and not filtered by" not in browse.get("/claims/?state=live").text


def test_search_by_attribute_says_that_only_names_are_compared(browse):
    hint = "Attributes such as memory cannot be searched"
    assert hint in browse.get("/devices/?q=memory>=40Gi").text
    assert hint not in browse.get("/devices/?q=h100").text


def test_filter_by_team_does_not_change_the_sidebar(browse):
    make_team("audio")
    bars = [browse.get(f"/claims/{query}").text.partition("</aside>")[0] for query in ("", "?team=audio")]
    sidebars = [bar.partition('class="dg-sidebar')[2].count("<a ") for bar in bars]
    assert sidebars[0] == sidebars[1]
    assert browse.get("/claims/?team=audio").context["shell"].team is None
