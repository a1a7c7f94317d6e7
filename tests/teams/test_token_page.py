import re
from datetime import timedelta

import pytest
from django.utils import timezone

from teams.models import ApiToken, recorded_changes
from teams.tokens import create_token, find_token
from tests.factories import make_token
from tests.teams.conftest import confirm, confirmed

TOKENS = "/me/tokens/"


def test_new_token_is_shown_once_and_works(browse, api, alice):
    person = confirmed(browse(alice), "alice")
    made = person.post(TOKENS, {"title": "Notebook", "days": "30"})
    token = re.findall(r"drg_[\w-]+", made.text)[0]
    assert made.headers["Cache-Control"].startswith("max-age=0, no-cache, no-store")
    assert api(token=token).get("/api/v1/me/").json()["username"] == "alice"
    again = person.get(TOKENS)
    assert "Notebook" in again.text
    assert token not in again.text


@pytest.mark.security("secrets", "reads tokens from the database")
def test_only_the_digest_of_a_token_is_stored(alice):
    row, text = make_token(alice, "Notebook")
    assert text not in str(ApiToken.objects.filter(pk=row.pk).values().get())


def test_token_form_sets_the_expiry(browse, alice):
    confirmed(browse(alice), "alice").post(TOKENS, {"title": "Notebook", "days": "7"})
    expires_at = ApiToken.objects.get().expires_at
    assert expires_at is not None
    assert timedelta(days=6, hours=23) < expires_at - timezone.now() <= timedelta(days=7)


@pytest.mark.security("sign-in", "makes a token in the session of another")
def test_token_is_made_only_after_the_password(browse, alice):
    person = browse(alice)
    asked = person.post(TOKENS, {"title": "Notebook", "days": "7"})
    assert asked.url.startswith("/accounts/reauthenticate/?next=")
    assert confirm(person, "wrong").status_code == 200
    assert not ApiToken.objects.exists()
    made = person.post("/accounts/reauthenticate/", {"password": "alice", "next": TOKENS})
    assert find_token(re.findall(r"drg_\w{46}", made.text)[0]).title == "Notebook"  # as it was filled in


def test_token_form_without_title_or_with_unknown_lifetime_is_422(browse, alice):
    person = browse(alice)
    assert person.post(TOKENS, {"title": "", "days": "30"}).status_code == 422
    assert person.post(TOKENS, {"title": "Notebook", "days": "100000"}).status_code == 422
    assert not ApiToken.objects.exists()


def test_revoked_token_is_refused_immediately(browse, api, alice):
    row, text = make_token(alice, "Notebook")
    page = browse(alice).post(f"{TOKENS}{row.pk}/revoke", follow=True)
    assert "Token “Notebook” revoked." in page.text
    assert api(token=text).get("/api/v1/me/").status_code == 401


def test_admin_cannot_see_or_revoke_tokens_of_others(browse, alice, eve, root):
    row, _text = make_token(alice, "Secret of Alice")
    for other in (eve, root):
        person = browse(other)
        assert "Secret of Alice" not in person.get(TOKENS).text
        assert person.post(f"{TOKENS}{row.pk}/revoke").status_code == 404
    row.refresh_from_db()
    assert row.revoked_at is None


def test_anonymous_reader_is_sent_to_sign_in(client, db):
    assert client.get(TOKENS).status_code == 302


def test_token_page_query_count_is_constant(browse, alice, django_assert_max_num_queries):
    person = browse(alice)
    make_token(alice, "First")
    with django_assert_max_num_queries(20) as one:
        person.get(TOKENS)
    for number in range(20):
        create_token(by=alice, title=f"Token {number}", expires_at=timezone.now() + timedelta(days=1))
    with django_assert_max_num_queries(len(one)):
        assert "Token 19" in person.get(TOKENS).text


def test_revoking_in_the_admin_is_recorded_with_its_author(browse, alice, root):
    first, _text = make_token(alice, "first")
    second, text = make_token(alice, "second", made_with=first)
    form = {"action": "revoke", "_selected_action": str(first.pk)}
    assert browse(root).post("/admin/teams/apitoken/", form).status_code == 302
    assert find_token(text) is None
    for token, change in ((first, "revoked"), (second, "revoked: the token that made it was revoked")):
        assert [(entry.by, entry.text) for entry in recorded_changes(token)] == [
            (root, change),
            (alice, "created"),
        ]
