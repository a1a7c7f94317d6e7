"""Saved filters of a list: save, show, default, rename, delete; for their owner alone."""

import pytest
from django.db import connection
from django.http import QueryDict
from django.test.utils import CaptureQueriesContext

from core.models import SavedFilter
from core.saved_filters import MOST, saved_query
from tests.factories import make_claim, make_team, make_user

pytestmark = pytest.mark.django_db
CLAIMS, SAVED, NEW = "/claims/", "/me/filters/", "/me/filters/new"


@pytest.fixture
def alice(client):
    alice = make_user("alice")
    make_claim(make_team("vision", members=(alice,)), by=alice, name="bev-train")
    client.force_login(alice)
    return alice


def save(client, name="Mine", query="q=bev&col=name&col=state", **fields):
    body = {"list": CLAIMS, "title": "Claims", "name": name, "query": query, **fields}
    return client.post(NEW, body)


def change(client, saved, do, **fields):
    return client.post(f"{SAVED}{saved.pk}", {"do": do, **fields})


def test_what_is_saved_are_filters_columns_and_order_but_no_page():
    query = QueryDict("sort=-created&page=3&q=&col=name&all=1&format=csv&col=state&state=allocated")
    assert saved_query(query) == "col=name&col=state&sort=-created&state=allocated"


def test_saved_filters_stand_above_the_list_with_the_one_that_is_shown_marked(client, alice):
    assert "Save filters…" not in client.get(CLAIMS).text
    page = client.get(f"{CLAIMS}?q=bev")
    assert 'name="query" value="q=bev"' in page.text
    assert save(client, query="q=bev").headers["Location"] == "/claims/?q=bev"
    save(client, "Other", "q=other")
    page = client.get(f"{CLAIMS}?q=bev&page=1").text
    assert '<a class="dg-tag on" href="?q=bev" aria-current="true">Mine</a>' in page
    assert '<a class="dg-tag" href="?q=other">Other</a>' in page
    assert "Save filters…" not in page  # they are saved


def test_the_address_alone_leads_to_the_default_and_all_rows_are_one_link_away(client, alice):
    save(client, query="q=nothing", is_default="1")
    assert client.get(CLAIMS).headers["Location"] == "/claims/?q=nothing"
    page = client.get(f"{CLAIMS}?q=nothing")
    assert 'href="?all=1"' in page.text
    assert page.context["listing"].clear_url == "?all=1"
    assert "bev-train" in client.get(f"{CLAIMS}?all=1").text
    saved = SavedFilter.objects.get()
    change(client, saved, "no-default")
    assert client.get(CLAIMS).status_code == 200


def test_another_default_takes_the_place_of_the_first(client, alice):
    save(client, "First", "q=first", is_default="1")
    save(client, "Second", "q=second")
    change(client, SavedFilter.objects.get(name="Second"), "default")
    assert client.get(CLAIMS).headers["Location"] == "/claims/?q=second"
    assert client.get(SAVED).text.count(">Undo<") == 1


def test_the_same_name_again_replaces_and_keeps_the_default(client, alice):
    save(client, query="q=one", is_default="1")
    save(client, query="q=two")
    assert client.get(CLAIMS).headers["Location"] == "/claims/?q=two"


def test_rename_and_delete(client, alice):
    save(client, "First", "q=first")
    save(client, "Second", "q=second")
    first = SavedFilter.objects.get(name="First")
    change(client, first, "rename", name=" Third ")
    assert set(SavedFilter.objects.values_list("name", flat=True)) == {"Third", "Second"}
    refused = change(client, first, "rename", name="Second")
    assert refused.status_code == 409
    assert "You have already saved filters of Claims as “Second”." in refused.text
    change(client, first, "delete")
    assert SavedFilter.objects.get().name == "Second"
    assert change(client, first, "delete").status_code == 404


def test_filters_of_others_are_neither_shown_nor_changed(client, alice):
    save(client, is_default="1")
    saved = SavedFilter.objects.get()
    client.force_login(make_user("eve"))
    assert client.get(CLAIMS).status_code == 200
    assert "Mine" not in client.get(SAVED).text
    for do in ("rename", "default", "no-default", "delete"):
        assert change(client, saved, do, name="Hers").status_code == 404
    assert SavedFilter.objects.get().name == "Mine"


@pytest.mark.parametrize(
    "body",
    [
        {"name": ""},
        {"name": "x" * 61},
        {"name": "\x00"},
        {"query": ""},
        {"query": "page=2"},
        {"query": f"q={'x' * 3000}"},
        {"list": "//evil.example/"},
        {"list": "https://evil.example/claims/"},
        {"list": "/nowhere/"},
        {"list": "/api/v1/claims/"},
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(client, alice, body):
    assert save(client, **body).status_code == 422
    assert not SavedFilter.objects.exists()
    save(client)
    assert change(client, SavedFilter.objects.get(), "dance").status_code == 422


def test_a_list_has_at_most_so_many(client, alice):
    for number in range(MOST):
        save(client, f"No. {number}")
    assert save(client, "One more").status_code == 409
    assert save(client, "No. 1", "q=again").status_code == 302


def test_saving_needs_a_session(client, alice):
    save(client)
    client.logout()
    assert save(client).headers["Location"].startswith("/accounts/login/")


def test_a_list_needs_one_query_for_one_saved_filter_and_for_twenty(client, alice):
    save(client)
    client.get(f"{CLAIMS}?q=bev")
    before = queries_of(client)
    for number in range(MOST - 1):
        save(client, f"No. {number}")
    client.get(f"{CLAIMS}?q=bev")
    assert queries_of(client) == before
    assert before <= 15


def queries_of(client):
    with CaptureQueriesContext(connection) as queries:
        client.get(f"{CLAIMS}?q=bev")
    return len(queries)
