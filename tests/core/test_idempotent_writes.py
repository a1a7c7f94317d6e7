"""What an Idempotency-Key does to a write of the API."""

from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone
from rest_framework.test import APIClient

from core import idempotency as keyed
from core.models import StoredResponse
from teams.models import ApiToken
from tests.factories import make_user, sign_in_just_now
from usage.api import RateOut
from usage.models import Rate

pytestmark = pytest.mark.django_db

RATES, TOKENS = "/api/v1/rates/", "/api/v1/tokens/"
RATE = {"title": "H100", "per_hour": "2.5", "currency": "EUR", "valid_from": "2026-12-01T00:00:00Z"}


def api_of(user):
    api = APIClient()
    sign_in_just_now(api, user)
    return api


@pytest.fixture
def root():
    return make_user("root", admin=True)


@pytest.fixture
def api(root):
    return api_of(root)


def send(api, body=RATE, key="k", address=RATES):
    return api.post(address, body, format="json", headers={"Idempotency-Key": key})


def test_repeated_write_is_executed_once_with_the_same_response(api):
    first, second = send(api), send(api)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert Rate.objects.count() == 1


def test_write_without_a_key_is_executed_twice(api):
    for _ in range(2):
        assert api.post(RATES, RATE, format="json").status_code == 201
    assert Rate.objects.count() == 2
    assert not StoredResponse.objects.exists()


def test_other_key_or_user_is_another_write(api, root):
    send(api)
    send(api, key="other")
    send(api_of(make_user("second", admin=True)))
    assert Rate.objects.count() == 3


def test_the_same_key_at_another_address_is_another_write(api):
    assert send(api).status_code == 201
    assert send(api, {"title": "ci"}, address=TOKENS).status_code == 201


def test_other_content_with_the_same_key_is_422(api):
    send(api)
    refused = send(api, RATE | {"title": "A100"})
    assert refused.status_code == 422
    assert "This Idempotency-Key was used for another request" in refused.json()["detail"]
    assert Rate.objects.get().title == "H100"


def test_overlong_key_is_422(api):
    assert send(api, key="k" * 81).status_code == 422
    assert not Rate.objects.exists()


def test_refused_write_may_be_sent_again(api, root):
    bad = RATE | {"currency": "euros"}
    assert send(api, bad).status_code == 422
    assert not StoredResponse.objects.exists()
    assert send(api).status_code == 201


def test_a_fault_after_the_write_leaves_nothing_and_the_second_request_does_it(api, monkeypatch):
    api.raise_request_exception = False
    with monkeypatch.context() as patch:
        patch.setattr("usage.api.RateOut.to_representation", lambda *_: 1 / 0)
        assert "No change was saved." in send(api).json()["detail"]
    assert not Rate.objects.exists()
    assert send(api).status_code == 201
    assert Rate.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_fault_after_the_commit_keeps_the_response(api, monkeypatch):
    api.raise_request_exception = False
    with monkeypatch.context() as patch:
        failing = and_fail_once_committed(RateOut.to_representation)
        patch.setattr("usage.api.RateOut.to_representation", failing)
        assert "saved before the fault" in send(api).json()["detail"]
    assert send(api).status_code == 201
    assert Rate.objects.count() == 1


def and_fail_once_committed(represent):
    def failing(*args):
        transaction.on_commit(lambda: 1 / 0)
        return represent(*args)

    return failing


def test_write_in_progress_is_a_conflict(api, monkeypatch):
    send(api)
    StoredResponse.objects.update(status=None, body="")
    assert send(api).status_code == 409
    assert Rate.objects.count() == 1


def test_abandoned_write_is_taken_over(api):
    send(api)
    Rate.objects.all().delete()
    StoredResponse.objects.update(
        status=None, body="", at=timezone.now() - keyed.ABANDONED_AFTER - timedelta(seconds=1)
    )
    assert send(api).status_code == 201
    assert Rate.objects.count() == 1


def test_a_day_later_the_key_is_free(api):
    send(api)
    StoredResponse.objects.update(at=timezone.now() - keyed.KEEP - timedelta(seconds=1))
    assert send(api).status_code == 201
    assert Rate.objects.count() == 2
    assert StoredResponse.objects.count() == 1


def test_token_is_created_once_and_its_text_is_not_stored(api, root):
    made = send(api, {"title": "ci"}, address=TOKENS).json()
    again = send(api, {"title": "ci"}, address=TOKENS)
    assert again.status_code == 409
    assert again.json()["answered"]["id"] == made["id"]
    assert "token" not in again.json()["answered"]
    assert ApiToken.objects.filter(user=root).count() == 1
    assert made["token"] not in StoredResponse.objects.get().body


def test_profile_is_created_once_per_key(api):
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}
    body = {"slug": "new-one", "title": "New one", "spec": spec}
    first, second = (send(api, body, address="/api/v1/profiles/") for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert send(api, body, key="other", address="/api/v1/profiles/").status_code == 409


def test_a_retired_profile_is_not_retired_again_by_an_old_message(api):
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}
    send(api, {"slug": "new-one", "title": "New one", "spec": spec}, address="/api/v1/profiles/")
    assert send(api, {}, address="/api/v1/profiles/new-one/retire/").status_code == 200
    assert send(api, {}, address="/api/v1/profiles/new-one/restore/").status_code == 200
    assert send(api, {}, address="/api/v1/profiles/new-one/retire/").status_code == 200
    assert api.get("/api/v1/profiles/new-one/").json()["retired_at"] is None
