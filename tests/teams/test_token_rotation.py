"""A rotated token: a new text with the same settings, and the old one for a while."""

import re
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
import time_machine
from drf_spectacular.generators import SchemaGenerator

from core.errors import Conflict, Forbidden
from teams import tokens
from teams.models import ApiToken, recorded_changes
from teams.tokens import find_token, revoke_token, rotate_token
from tests.factories import make_token, make_user
from tests.teams.conftest import confirmed
from tests.threads import Race, without_lock

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def clock():
    with time_machine.travel(NOW, tick=False) as moved:
        yield moved


def test_both_texts_work_until_the_overlap_ends(alice, clock):
    row, old = make_token(alice, expires_at=NOW + 30 * DAY)
    ApiToken.objects.update(created_at=NOW)
    row.refresh_from_db()
    clock.move_to(NOW + 10 * DAY)
    new = rotate_token(by=alice, token=row, overlap=DAY)
    found = find_token(new)
    assert found == find_token(old) == row
    assert found is not None
    assert found.expires_at == NOW + 40 * DAY  # as long as before
    clock.move_to(NOW + 11 * DAY - timedelta(seconds=1))
    assert find_token(old) == row
    clock.move_to(NOW + 11 * DAY)
    assert find_token(old) is None
    assert find_token(new) == row
    assert recorded_changes(row)[0].text.startswith("rotated; the text before works until Thu 3 Dec 2026")


def test_without_an_overlap_the_old_text_ends_at_once(alice):
    row, old = make_token(alice)
    row.refresh_from_db()
    new = rotate_token(by=alice, token=row, overlap=timedelta(0))
    assert (find_token(old), find_token(new)) == (None, row)


def test_a_second_rotation_ends_the_first_text(alice):
    row, first = make_token(alice)
    row.refresh_from_db()
    second = rotate_token(by=alice, token=row)
    row.refresh_from_db()
    third = rotate_token(by=alice, token=row)
    assert [find_token(text) for text in (first, second, third)] == [None, row, row]


def test_the_old_text_never_lasts_longer_than_it_would_have(alice, clock):
    row, old = make_token(alice, expires_at=NOW + timedelta(hours=2))
    ApiToken.objects.update(created_at=NOW)
    row.refresh_from_db()
    clock.move_to(NOW + timedelta(hours=1))
    new = rotate_token(by=alice, token=row, overlap=7 * DAY)
    clock.move_to(NOW + timedelta(hours=2, seconds=-1))
    assert find_token(old) == row
    clock.move_to(NOW + timedelta(hours=2))
    assert (find_token(old), find_token(new)) == (None, row)


def test_two_rotations_at_once_make_one_text(alice):
    row, _old = make_token(alice)
    row.refresh_from_db()
    same = ApiToken.objects.get()
    text = rotate_token(by=alice, token=row)
    with pytest.raises(Conflict, match="was rotated or revoked in the meantime"):
        rotate_token(by=alice, token=same)
    assert find_token(text) == row


def test_revoking_ends_both_texts(alice):
    row, old = make_token(alice)
    row.refresh_from_db()
    new = rotate_token(by=alice, token=row)
    revoke_token(by=alice, token=row)
    assert (find_token(old), find_token(new)) == (None, None)
    row.refresh_from_db()
    with pytest.raises(Conflict, match="was revoked"):
        rotate_token(by=alice, token=row)


def test_an_expired_token_is_not_rotated(alice, clock):
    row, _old = make_token(alice, expires_at=NOW + DAY)
    row.refresh_from_db()
    clock.move_to(NOW + DAY)
    with pytest.raises(Conflict, match="has expired"):
        rotate_token(by=alice, token=row)


def test_a_token_rotates_itself_but_does_not_put_off_its_end(api, alice, clock):
    row, text = make_token(alice, expires_at=NOW + 30 * DAY)
    ApiToken.objects.update(created_at=NOW)
    clock.move_to(NOW + 10 * DAY)
    answer = api(token=text).post(f"/api/v1/tokens/{row.pk}/rotate/", {"overlap": "1h"}, format="json")
    assert answer.status_code == 200
    body = answer.json()
    assert body["expires_at"] == "2026-12-22T09:00:00Z"
    assert body["previous_ends_at"] == "2026-12-02T10:00:00Z"
    assert api(token=body["token"]).get("/api/v1/me/").status_code == 200


@pytest.mark.security("scopes", "rotates a token that may more")
def test_a_token_rotates_none_that_may_more(api, alice):
    strong, _text = make_token(alice, "strong", scopes=["admin"])
    _weak, text = make_token(alice, "weak", scopes=["request"])
    answer = api(token=text).post(f"/api/v1/tokens/{strong.pk}/rotate/", {}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")


@pytest.mark.security("scopes", "rotates another token, to keep its new text once the own one is revoked")
def test_a_token_that_another_one_has_rotated_ends_with_it(api, alice):
    other, _text = make_token(alice, "pipeline")
    stolen, text = make_token(alice, "stolen")
    answer = api(token=text).post(f"/api/v1/tokens/{other.pk}/rotate/", {"overlap": "0h"}, format="json")
    new = answer.json()["token"]
    assert find_token(new) == other
    revoke_token(by=alice, token=stolen)
    assert find_token(new) is None


def test_a_token_that_rotates_itself_is_still_of_the_one_that_made_it(api, alice):
    maker, _text = make_token(alice, "maker")
    row, text = make_token(alice, "child", made_with=maker)
    new = api(token=text).post(f"/api/v1/tokens/{row.pk}/rotate/", {}, format="json").json()["token"]
    row.refresh_from_db()
    assert row.made_with == maker
    revoke_token(by=alice, token=maker)
    assert find_token(new) is None


@pytest.mark.security("races", "a token that a stolen one makes at the moment at which that is revoked")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", ["make", "rotate"])
@pytest.mark.parametrize("locked", [True, False])
def test_what_a_token_makes_while_it_is_revoked_ends_with_it(monkeypatch, locked, how):
    alice = make_user("alice")
    stolen, _text = make_token(alice, "stolen")
    other, _text = make_token(alice, "pipeline")
    race = Race(monkeypatch)
    race.hold_before(tokens, "record_token_change")
    if not locked:
        without_lock(monkeypatch, "teams.tokens._lock_maker")
    make = partial(tokens.create_token, by=alice, title="child", made_with=stolen)
    rotate = partial(rotate_token, by=alice, token=other, made_with=stolen)
    race.run(make if how == "make" else rotate, partial(revoke_token, by=alice, token=stolen))
    assert race.waited is locked
    made = ApiToken.objects.get(made_with=stolen)
    assert (made.revoked_at is not None) is locked


def test_a_revoked_token_makes_none(alice):
    row, _text = make_token(alice)
    revoke_token(by=alice, token=row)
    with pytest.raises(Conflict, match="was revoked in the meantime"):
        tokens.create_token(by=alice, title="child", made_with=row)


def test_a_repeated_rotation_with_one_key_makes_one_text(api, alice):
    row, _text = make_token(alice)
    person, address = api(alice), f"/api/v1/tokens/{row.pk}/rotate/"
    first = person.post(address, {}, format="json", headers={"Idempotency-Key": "k"})
    again = person.post(address, {}, format="json", headers={"Idempotency-Key": "k"})
    assert (first.status_code, again.status_code) == (200, 409)
    assert find_token(first.json()["token"]) == row


@pytest.mark.parametrize("overlap", ["2d", "", 5])
def test_another_overlap_is_malformed(api, alice, overlap):
    row, _text = make_token(alice)
    answer = api(alice).post(f"/api/v1/tokens/{row.pk}/rotate/", {"overlap": overlap}, format="json")
    assert answer.status_code == 422


def test_the_token_of_somebody_else_is_404(api, browse, alice, eve):
    row, _text = make_token(alice)
    assert api(eve).post(f"/api/v1/tokens/{row.pk}/rotate/", {}, format="json").status_code == 404
    assert browse(eve).post(f"/me/tokens/{row.pk}/rotate", {"overlap": "0"}).status_code == 404


def test_the_page_rotates_shows_the_text_once_and_says_when_the_old_one_ends(browse, alice):
    row, old = make_token(alice)
    person = confirmed(browse(alice), "alice")
    page = person.post(f"/me/tokens/{row.pk}/rotate", {"overlap": "86400"})
    (new,) = set(re.findall(r"drg_\w{46}", page.text))
    assert new != old
    assert find_token(new) == find_token(old) == row
    again = person.get("/me/tokens/").text
    assert new not in again
    assert "rotated, the old one ends" in again
    assert person.post(f"/me/tokens/{row.pk}/rotate", {"overlap": "5"}).status_code == 422


# The text before a rotation may be that of a thief.


@pytest.fixture
def rotated(alice) -> tuple[ApiToken, str, str]:
    """A token with the text before its rotation and the one after it; it has made another one."""
    row, old = make_token(alice, "leaked", scopes=["request", "admin"])
    row.refresh_from_db()
    tokens.create_token(by=alice, title="child", made_with=row)
    new = rotate_token(by=alice, token=row, overlap=DAY)
    return row, old, new


def writes_of(*secrets: str) -> list[tuple[str, str]]:
    """Each write of a view whose answers have such a secret: its method and address."""
    generator = SchemaGenerator()
    generator._initialise_endpoints()
    found = [(method.lower(), path, callback.cls) for path, _, method, callback in generator.endpoints or ()]  # type: ignore[misc]
    return [
        (method, path)
        for method, path, view in found
        if {*secrets} & getattr(view, "shown_once", frozenset()) and method != "get"
    ]


@pytest.mark.security("scopes", "makes, rotates, revokes with the text of a token from before its rotation")
def test_text_before_rotation_is_403_wherever_a_secret_is_made(api, rotated):
    _row, old, new = rotated
    operations = writes_of("token", "secret", "link")
    assert len(operations) > 10
    for method, path in operations:
        address = re.sub(r"\{\w+\}", "00000000-0000-7000-8000-000000000000", path)
        answer = getattr(api(token=old), method)(address, {}, format="json")
        assert (answer.status_code, "from before its rotation" in answer.json()["detail"]) == (403, True), (
            path
        )
        other = getattr(api(token=new), method)(address, {}, format="json")
        assert "from before its rotation" not in (other.text or ""), path


@pytest.mark.security("sign-in", "makes or rotates a token over the API in the session of another")
def test_session_gets_the_text_of_a_token_only_after_the_password(api, browse, root):
    operations = [path for method, path in writes_of("token") if method == "post"]
    assert len(operations) >= 5
    for path in operations:
        address = re.sub(r"\{\w+\}", "00000000-0000-7000-8000-000000000000", path)
        answer = browse(root).post(address, {}, content_type="application/json")
        assert (answer.status_code, "/accounts/reauthenticate/" in answer.json()["detail"]) == (403, True), (
            path
        )
        assert api(root).post(address, {}, format="json").status_code != 403, path
    assert not ApiToken.objects.exists()


@pytest.mark.security("scopes", "takes a token over with its text from before a rotation")
def test_text_before_rotation_neither_makes_nor_rotates_tokens(api, alice, rotated):
    row, old, _new = rotated
    assert api(token=old).get("/api/v1/me/").status_code == 200
    maker = find_token(old)
    for service in (
        partial(tokens.create_token, title="thief"),
        partial(rotate_token, token=row),
        partial(revoke_token, token=row),
    ):
        with pytest.raises(Forbidden, match="from before its rotation"):
            service(by=alice, made_with=maker)
    assert ApiToken.objects.filter(revoked_at=None).count() == 2


@pytest.mark.parametrize("end_made", [False, True])
def test_rotation_ends_what_the_token_has_made_only_if_asked(api, alice, rotated, end_made):
    row, _old, _new = rotated
    kept, _text = make_token(alice, "another")
    address = f"/api/v1/tokens/{row.pk}/rotate/"
    answer = api(alice).post(address, {"end_made": end_made}, format="json")
    assert answer.status_code == 200
    left = set(ApiToken.objects.filter(revoked_at=None).values_list("title", flat=True))
    assert left == {"leaked", kept.title} | (set() if end_made else {"child"})


def test_token_that_rotates_its_maker_is_not_ended_with_the_others(alice):
    row, _text = make_token(alice, "maker", scopes=["request", "admin"])
    row.refresh_from_db()
    _child, text = tokens.create_token(by=alice, title="child", scopes=row.scopes, made_with=row)
    tokens.create_token(by=alice, title="other", made_with=row)
    rotate_token(by=alice, token=row, end_made=True, made_with=find_token(text))
    left = ApiToken.objects.filter(revoked_at=None).values_list("title", flat=True)
    assert sorted(left) == ["child", "maker"]


def test_page_offers_to_end_what_a_token_has_made(browse, alice, rotated):
    row, _old, _new = rotated
    person = confirmed(browse(alice), "alice")
    assert "end the 1 it has made" in person.get("/me/tokens/").text
    page = person.post(f"/me/tokens/{row.pk}/rotate", {"overlap": "0", "end_made": "on"})
    assert page.status_code == 200
    assert not ApiToken.objects.filter(title="child", revoked_at=None).exists()
    assert "it has made" not in person.get("/me/tokens/").text


@pytest.mark.security("scopes", "revokes a token of its person that may more, or is of another team")
def test_token_revokes_only_what_may_no_more_than_itself(api, alice, vision):
    strong, _text = make_token(alice, "strong", scopes=["admin"])
    wide, _text = make_token(alice, "wide", scopes=["request"])
    weak, text = make_token(alice, "weak", scopes=["request"], team=vision)
    for row, status in ((strong, 404), (wide, 404), (weak, 204)):
        assert api(token=text).delete(f"/api/v1/tokens/{row.pk}/").status_code == status
    _other, text = make_token(alice, "other", scopes=["request"])
    assert api(token=text).delete(f"/api/v1/tokens/{strong.pk}/").json()["code"] == "scope_missing"
    assert api(token=text).delete(f"/api/v1/tokens/{wide.pk}/").status_code == 204
