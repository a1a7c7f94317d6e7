"""What caches may keep of a page: nobody else's, and no fragment in the place of a page."""

import pytest

from tests.factories import make_user

pytestmark = pytest.mark.django_db


@pytest.mark.security("browser", "reads the page of another person from a shared cache")
def test_a_page_is_its_readers_alone_and_is_kept_apart_from_its_fragments(client):
    client.force_login(make_user("alice"))
    page = client.get("/claims/")
    assert page["Cache-Control"] == "private"
    assert {"Cookie", "HX-Request"} <= set(page["Vary"].split(", "))


def test_response_with_its_own_cache_control_is_unchanged(client):
    client.force_login(make_user("alice"))
    assert "no-store" in client.get("/me/tokens/")["Cache-Control"]
    assert client.get("/home/live/")["Cache-Control"] == "private, no-cache"


def test_anonymous_page_has_no_private_cache_control(client):
    answer = client.get("/api/v1/schema/")
    assert answer.status_code == 200
    assert "Cache-Control" not in answer
