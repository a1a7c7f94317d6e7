"""The token of SCIM on its page and over the API, for platform admins."""

import re

import pytest
from django.test import Client

from teams.scim.models import ScimToken
from tests.factories import make_user
from tests.teams.conftest import confirmed

PAGE, API = "/settings/sign-in/providers/okta/scim/", "/api/v1/identity-providers/okta/scim/"
TEXT = re.compile(r"drg_[0-9A-Za-z]{46}")


@pytest.fixture
def admin(root):
    client = Client()
    client.force_login(root)
    return confirmed(client, "root")


def works(okta, text) -> bool:
    okta.text = text
    return okta.get("Users").status_code == 200


def test_token_is_made_shown_once_rotated_and_removed(okta, admin):
    ScimToken.objects.all().delete()
    assert "No token yet" in admin.get(PAGE).text
    made = TEXT.search(admin.post(PAGE, {"overlap": "0"}).text)[0]
    assert works(okta, made)
    page = admin.get(PAGE).text
    assert made not in page
    assert made[:10] in page
    assert "from 127.0.0.1" in page
    assert "http://testserver/scim/v2" in page
    rotated = TEXT.search(admin.post(PAGE, {"overlap": "3600"}).text)[0]
    assert works(okta, made)
    assert works(okta, rotated)
    assert "The one before" in admin.get(PAGE).text
    assert admin.post(f"{PAGE}remove").headers["Location"] == PAGE
    assert not works(okta, rotated)
    assert admin.post(f"{PAGE}remove").status_code == 302


def test_page_says_how_many_it_keeps(okta, admin):
    okta.add_group("one", okta.add_user("mia")["id"])
    assert "1 person and 1 group stay as they are" in admin.get(PAGE).text


def test_api_makes_shows_and_removes_the_token(okta, admin):
    made = admin.post(API, {"overlap": "1h"}, content_type="application/json")
    assert made.status_code == 201
    assert works(okta, made.json()["token"])
    read = admin.get(API).json()
    assert "token" not in read
    assert (read["people"], read["groups"], read["start"]) == (0, 0, made.json()["token"][:10])
    assert read["previous_ends_at"]
    assert admin.delete(API).status_code == 204
    assert admin.get(API).json()["start"] is None


@pytest.mark.parametrize("path", [PAGE, f"{PAGE}remove", API])
def test_only_platform_admins(okta, path):
    client = Client()
    client.force_login(make_user("alice"))
    for method in ("get", "post"):
        answer = getattr(client, method)(path, content_type="application/json")
        assert answer.status_code in (403, 405)
    assert Client().post(path, content_type="application/json").status_code in (302, 401)
    assert ScimToken.objects.exists()


def test_bad_input_and_unknown_providers(okta, admin):
    assert admin.post(PAGE, {"overlap": "5"}).status_code == 422
    assert admin.post(API, {"overlap": "5d"}, content_type="application/json").status_code == 422
    assert admin.get(PAGE.replace("okta", "other")).status_code == 404
    assert admin.get(API.replace("okta", "other")).status_code == 404
    assert admin.get(f"{PAGE}remove").status_code == 405
