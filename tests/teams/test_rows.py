"""Tokens, stored responses and time zones: whole rows, exact moments, and what belongs to other people."""

import hashlib
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.test import APIClient

from core import idempotency as keyed
from core.errors import Invalid
from core.models import StoredResponse
from notify.models import Notice
from teams.models import ApiToken, User, recorded_changes
from teams.tokens import create_token, find_token, revoke_token
from teams.zones import remember_zone, zone_for
from tests.factories import make_token, make_user

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def test_token_row_has_digest_prefix_and_expiry(alice):
    with time_machine.travel(NOW, tick=False):
        token, text = create_token(by=alice, title="Notebook", expires_at=NOW + SECOND)
    values = dict(ApiToken.objects.values().get())
    assert values.pop("created_at")
    assert values == {
        "id": token.pk,
        "user_id": alice.pk,
        "title": "Notebook",
        "scopes": ["read", "request"],
        "limited_to_id": None,
        "digest": hashlib.sha256(text.encode()).hexdigest(),
        "start": text[:10],
        "expires_at": NOW + SECOND,
        "last_used_at": None,
        "last_used_from": None,
        "rotated_at": None,
        "previous_digest": None,
        "previous_ends_at": None,
        "revoked_at": None,
        "made_with_id": None,
    }
    assert text.startswith("drg_")
    assert len(text) == 50
    assert make_token(alice, "Other")[1] != text


@pytest.mark.parametrize("expires_at", [NOW, NOW - SECOND])
def test_token_expiry_must_be_in_the_future(alice, expires_at):
    with time_machine.travel(NOW, tick=False), pytest.raises(Invalid) as refusal:
        create_token(by=alice, title="Notebook", expires_at=expires_at)
    assert refusal.value.message == "Choose an expiry in the future."
    assert refusal.value.extra == {"field": "expires_at"}
    assert not ApiToken.objects.exists()


YEAR = timedelta(days=365)


@pytest.mark.parametrize(
    ("expires_at", "latest", "expected"),
    [
        (None, None, NOW + timedelta(days=90)),
        (None, NOW + SECOND, NOW + SECOND),
        (None, NOW + YEAR, NOW + timedelta(days=90)),
        (NOW + YEAR, None, NOW + YEAR),
        (NOW + SECOND, NOW + SECOND, NOW + SECOND),
    ],
)
def test_every_token_expires_within_a_year_and_with_its_maker(alice, expires_at, latest, expected):
    with time_machine.travel(NOW, tick=False):
        maker = make_token(alice, "maker", expires_at=latest)[0] if latest else None
        token, _text = create_token(by=alice, title="x", expires_at=expires_at, made_with=maker)
    assert (token.expires_at, token.made_with) == (expected, maker)


@pytest.mark.parametrize(
    ("expires_at", "sentence"),
    [
        (NOW + YEAR + SECOND, "A token lasts at most 365 days."),
        (NOW + timedelta(hours=1), "The token of this request expires on"),
    ],
)
def test_expiry_after_a_year_or_after_that_of_the_maker_is_refused(alice, expires_at, sentence):
    with time_machine.travel(NOW, tick=False):
        maker, _text = make_token(alice, "maker", expires_at=NOW + SECOND)
        with pytest.raises(Invalid, match=sentence) as refusal:
            create_token(by=alice, title="x", expires_at=expires_at, made_with=maker)
    assert refusal.value.extra == {"field": "expires_at"}


def test_revoking_a_token_revokes_all_that_descend_from_it_and_records_it(alice, eve):
    first, _text = make_token(alice, "first")
    second, _text = make_token(alice, "second", made_with=first)
    third, text = make_token(alice, "third", made_with=second)
    other, other_text = make_token(alice, "other")
    revoke_token(by=eve, token=first)
    assert find_token(text)
    revoke_token(by=alice, token=first)
    revoke_token(by=alice, token=first)
    assert find_token(text) is None
    assert find_token(other_text)
    because = "revoked: the token that made it was revoked"
    for token, change in ((first, "revoked"), (second, because), (third, because)):
        assert [(entry.by, entry.text) for entry in recorded_changes(token)] == [
            (alice, change),
            (alice, "created"),
        ]
    assert [entry.text for entry in recorded_changes(other)] == ["created"]


def test_token_expiry_year_is_bounded(alice):
    with pytest.raises(Invalid, match="the year 2201 was sent"):
        create_token(by=alice, title="Notebook", expires_at=datetime(2201, 1, 1, tzinfo=UTC))


def test_token_works_until_its_expiry(alice):
    with time_machine.travel(NOW, tick=False) as clock:
        token, text = create_token(by=alice, title="Notebook", expires_at=NOW + timedelta(hours=1))
        make_token(alice, "Other")
        clock.move_to(NOW + timedelta(hours=1) - SECOND)
        assert find_token(text) == token
        used = dict(ApiToken.objects.values_list("title", "last_used_at"))
        assert used == {"Notebook": NOW + timedelta(hours=1) - SECOND, "Other": None}
        clock.move_to(NOW + timedelta(hours=1))
        assert find_token(text) is None


def test_token_without_prefix_is_refused(alice):
    text = "other_" + "x" * 43
    ApiToken.objects.create(
        user=alice,
        title="t",
        scopes=["read"],
        digest=hashlib.sha256(text.encode()).hexdigest(),
        start="other_",
        expires_at=timezone.now() + timedelta(days=1),
    )
    assert find_token(text) is None


def test_revoking_ends_only_the_owners_token_and_keeps_the_first_time(alice, eve):
    mine, text = make_token(alice, "mine")
    make_token(alice, "other")
    revoke_token(by=eve, token=mine)
    assert find_token(text) == mine
    with time_machine.travel(NOW, tick=False):
        revoke_token(by=alice, token=mine)
    revoke_token(by=alice, token=mine)
    assert dict(ApiToken.objects.values_list("title", "revoked_at")) == {"mine": NOW, "other": None}
    assert find_token(text) is None


RATES = "/api/v1/rates/"
RATE = {"title": "H100", "per_hour": "2.5", "currency": "EUR", "valid_from": "2026-12-01T00:00:00Z"}


def send(person, *, key="k", body=RATE, address=RATES):
    api = APIClient()
    api.force_login(person)
    return api.post(address, body, format="json", headers={"Idempotency-Key": key})


def test_stored_response_belongs_to_person_key_and_path(root):
    with time_machine.travel(NOW, tick=False):
        made = send(root)
    kept = dict(StoredResponse.objects.values().get())
    del kept["id"], kept["digest"]
    answer = str(kept.pop("body"))
    assert kept == {
        "user_id": root.pk,
        "key": "k",
        "address": hashlib.sha256(RATES.encode()).hexdigest(),
        "at": NOW,
        "status": 201,
    }
    assert made.json()["id"] in answer


def test_query_string_is_part_of_the_request(root):
    assert send(root).status_code == 201
    assert send(root, address=f"{RATES}?x=1").status_code == 422


def test_field_order_does_not_change_the_request(root):
    first = send(root)
    assert send(root, body=dict(reversed(RATE.items()))).json() == first.json()


def test_deleting_own_keys_keeps_those_of_others(root):
    second = make_user("second", admin=True)
    for person in (root, second):
        send(person, key="old")
        send(person, key="kept")
    with time_machine.travel(NOW, tick=False):
        StoredResponse.objects.filter(key="kept").update(at=NOW - keyed.KEEP)
        StoredResponse.objects.filter(key="old").update(at=NOW - keyed.KEEP - SECOND)
        send(root, key="new")
    left = StoredResponse.objects.order_by("user__username", "key").values_list("user__username", "key")
    assert list(left) == [("root", "kept"), ("root", "new"), ("second", "kept"), ("second", "old")]


@pytest.mark.parametrize(
    ("ago", "status"), [(timedelta(minutes=1), 409), (timedelta(minutes=1) + SECOND, 201)]
)
def test_unfinished_request_is_taken_over_after_a_minute(root, ago, status):
    send(root)
    StoredResponse.objects.update(status=None, body="")
    with time_machine.travel(NOW, tick=False):
        StoredResponse.objects.update(at=NOW - ago)
        answer = send(root)
        assert answer.status_code == status
        kept = StoredResponse.objects.get()
        assert (kept.at, kept.status) == ((NOW, 201) if status == 201 else (NOW - ago, None))
    if status == 409:
        sentence = "A request with this Idempotency-Key is in progress. Try again in a moment."
        assert answer.json()["detail"] == sentence


def test_failed_write_frees_its_key(root, monkeypatch):
    def break_down(*args, **kwargs):
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr("rest_framework.serializers.BaseSerializer.is_valid", break_down)
        with pytest.raises(ZeroDivisionError):
            send(root)
    assert not StoredResponse.objects.exists()
    assert send(root).status_code == 201


@pytest.mark.parametrize(
    ("chosen", "seen", "zone"),
    [
        ("Europe/Berlin", "Asia/Tokyo", "Europe/Berlin"),
        ("", "Asia/Tokyo", "Asia/Tokyo"),
        ("Nowhere", "Asia/Tokyo", "Asia/Tokyo"),
        ("", "", "UTC"),
    ],
)
@pytest.mark.django_db
def test_zone_for_prefers_the_chosen_zone(chosen, seen, zone):
    assert str(zone_for(User(timezone=chosen, seen_timezone=seen))) == zone


def test_sign_in_stores_the_zone_of_that_person_only(alice, bob):
    request = HttpRequest()
    request.COOKIES["timezone"] = "Europe/Berlin"
    remember_zone(None, request, alice)
    assert dict(User.objects.values_list("username", "seen_timezone")) == {
        "alice": "Europe/Berlin",
        "bob": "",
    }
    alice.refresh_from_db()
    request.COOKIES.clear()
    remember_zone(None, request, alice)
    assert User.objects.get(username="alice").seen_timezone == "Europe/Berlin"


@pytest.mark.parametrize(
    ("chosen", "cookie", "hour"),
    [
        ("", "", "09:00"),
        ("", "Asia/Tokyo", "18:00"),
        ("Europe/Berlin", "Asia/Tokyo", "10:00"),
        ("Nowhere", "Asia/Tokyo", "18:00"),
    ],
)
def test_page_times_use_chosen_then_browser_zone(browse, alice, chosen, cookie, hour):
    User.objects.update(timezone=chosen)
    Notice.objects.create(user=alice, key="k", title="t", created_at=NOW)
    person = browse(alice)
    if cookie:
        person.cookies["timezone"] = cookie
    assert hour in person.get("/me/notices/").text
    assert timezone.get_current_timezone_name() == "UTC"
