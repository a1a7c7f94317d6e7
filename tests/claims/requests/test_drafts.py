"""Drafts of requests: kept while one types, private, gone when sent or old."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from claims.models import Claim, Draft
from claims.requests.services import open_drafts, save_draft
from claims.tasks import forget_drafts
from core.errors import Conflict, Invalid
from tests.factories import make_profile, make_user

pytestmark = pytest.mark.django_db

FORM = reverse("claims:request")
SAVE = reverse("claims:draft_save")
LIST = reverse("claims:drafts")


def open_form(client, draft):
    return client.get(f"{FORM}?draft={draft.pk}")


def test_what_is_typed_is_kept_and_said(client, alice, request_fields):
    client.force_login(alice)
    answer = client.post(SAVE, request_fields)
    draft = Draft.objects.get()
    assert answer.url == f"{FORM}?draft={draft.pk}"
    page = open_form(client, draft).text
    assert "Draft saved" in page
    assert 'value="train-80" checked' in page
    assert 'name="devices" min="1" max="1024" value="2"' in page
    assert "Fine-tuning." in page
    assert 'name="key" value="k-1"' in page


def test_a_draft_follows_when_what_was_typed_is_deleted_again(client, alice, request_fields):
    client.force_login(alice)
    client.post(SAVE, request_fields)
    client.post(SAVE, {"key": "k-1", "profile": "train-80", "devices": "1"})
    assert "reason" not in Draft.objects.get().fields


def test_typing_on_changes_the_same_draft(client, alice, request_fields):
    client.force_login(alice)
    client.post(SAVE, request_fields)
    client.post(
        SAVE, request_fields | {"devices": "", "together": ["train-80", ""], "together_devices": ["3", "1"]}
    )
    draft = Draft.objects.get()
    assert "devices" not in draft.fields
    assert draft.fields["together"] == ["train-80", ""]
    assert "csrfmiddlewaretoken" not in draft.fields


def test_without_javascript_a_button_saves_it_and_the_form_opens_again(client, alice, request_fields):
    client.force_login(alice)
    answer = client.post(SAVE, request_fields)
    assert answer.url == f"{FORM}?draft={Draft.objects.get().pk}"


def test_sending_takes_the_draft_away(client, alice, request_fields):
    client.force_login(alice)
    client.post(SAVE, request_fields)
    client.post(FORM, request_fields)
    assert Claim.objects.get().key == "k-1"
    assert not Draft.objects.exists()


def test_sending_leaves_the_draft_of_somebody_else_with_the_same_key(client, alice, lena, request_fields):
    save_draft(by=lena, key=request_fields["key"], fields={})
    client.force_login(alice)
    client.post(SAVE, request_fields)
    client.post(FORM, request_fields)
    assert [draft.by for draft in Draft.objects.all()] == [lena]


def test_what_is_refused_keeps_the_draft(client, alice, request_fields):
    client.force_login(alice)
    client.post(SAVE, request_fields)
    assert client.post(FORM, request_fields | {"devices": "9"}).status_code == 422
    assert Draft.objects.exists()


def test_what_was_typed_last_and_comes_after_sending_makes_no_draft(client, alice, request_fields):
    client.force_login(alice)
    client.post(FORM, request_fields)
    assert client.post(SAVE, request_fields).url == reverse("claims:list")
    assert not Draft.objects.exists()
    Draft.objects.create(by=alice, key="k-1", fields={})  # as one that was saved in the same instant
    assert not open_drafts(alice).exists()


def test_form_and_list_of_claims_tell_of_drafts(client, alice, request_fields):
    client.force_login(alice)
    assert "draft" not in client.get(reverse("claims:list")).text
    client.post(SAVE, request_fields)
    client.post(SAVE, request_fields | {"key": "k-2"})
    assert "You have 2 drafts" in client.get(FORM).text
    assert "You have 1 draft" in open_form(client, Draft.objects.get(key="k-1")).text
    assert "2 drafts" in client.get(reverse("claims:list")).text


def test_the_list_shows_profile_team_and_age_and_is_a_csv_too(client, alice, request_fields):
    client.force_login(alice)
    client.post(SAVE, request_fields)
    page = client.get(LIST).text
    assert "Train 80" in page
    assert "vision" in page
    rows = client.get(LIST + "?format=csv").getvalue().decode().splitlines()
    assert rows[0] == "Profile,Claim name,Devices,Team,Saved,Created"
    assert rows[1].startswith("Train 80,sam2,2,vision,")


def test_a_draft_is_private(client, alice, lena, eve, request_fields):
    client.force_login(alice)
    client.post(SAVE, request_fields)
    draft = Draft.objects.get()
    for other in (lena, eve):
        client.force_login(other)
        assert "sam2" not in client.get(LIST).text
        assert client.post(reverse("claims:draft_delete", args=[draft.pk])).status_code == 404
    client.force_login(lena)
    assert open_form(client, draft).status_code == 404
    assert client.get(f"{FORM}?draft=none").status_code == 404


def test_a_deleted_draft_can_be_brought_back_once(client, alice, request_fields):
    client.force_login(alice)
    client.post(SAVE, request_fields)
    page = client.post(reverse("claims:draft_delete", args=[Draft.objects.get().pk]), follow=True).text
    assert not Draft.objects.exists()
    assert reverse("claims:draft_restore") in page
    client.post(reverse("claims:draft_restore"))
    assert Draft.objects.get().fields["name"] == ["sam2"]
    Draft.objects.all().delete()
    client.post(reverse("claims:draft_restore"))
    assert not Draft.objects.exists()


def test_a_profile_that_was_retired_meanwhile_is_told(client, alice, train, request_fields):
    client.force_login(alice)
    client.post(SAVE, request_fields)
    train.retired_at = timezone.now()
    train.save(update_fields=["retired_at"])
    page = open_form(client, Draft.objects.get())
    assert page.status_code == 200
    assert "“train-80” cannot be requested" in page.text
    assert "Fine-tuning." in page.text
    assert "can no longer be requested" in client.get(LIST).text


def test_what_is_sent_after_the_session_ended_is_there_again_after_signing_in(client, alice, request_fields):
    answer = client.post(FORM, request_fields | {"whose": str(alice.pk)})
    assert answer.url.startswith(reverse("account_login"))
    assert not Claim.objects.exists()
    client.login(username="alice", password="alice")
    page = client.get(FORM, follow=True)
    assert "Fine-tuning." in page.text
    assert 'name="key" value="k-1"' in page.text
    assert Draft.objects.get().by == alice


@pytest.mark.parametrize(("who", "gets_it"), [("alice", True), ("lena", False)])
def test_only_who_typed_it_gets_it_after_signing_in_there(client, alice, lena, request_fields, who, gets_it):
    client.post(SAVE, request_fields | {"whose": str(alice.pk)})
    client.login(username=who, password=who)
    assert ("Fine-tuning." in client.get(FORM, follow=True).text) is gets_it
    assert Draft.objects.exists() is gets_it


def test_saving_says_that_the_session_has_ended(client, alice, request_fields):
    answer = client.post(SAVE, request_fields | {"whose": str(alice.pk)})
    assert answer.url.startswith(reverse("account_login"))


def test_only_writing_makes_drafts(client, alice, request_fields):
    client.force_login(alice)
    assert client.post(SAVE, request_fields | {"key": "k" * 81}).status_code == 422
    assert client.post(SAVE, request_fields | {"reason": "x" * 9000}).status_code == 422


def test_drafts_of_one_person_have_an_end(alice, monkeypatch):
    monkeypatch.setattr("claims.requests.services.MAX_DRAFTS", 2)
    for key in ("a", "b", "b"):
        save_draft(by=alice, key=key, fields={})
    with pytest.raises(Conflict, match="You have 2 drafts"):
        save_draft(by=alice, key="c", fields={})
    with pytest.raises(Invalid):
        save_draft(by=alice, key="", fields={})
    assert save_draft(by=make_user("bob"), key="c", fields={}) is not None


def test_old_drafts_are_forgotten(alice):
    now = timezone.now()
    save_draft(by=alice, key="old", fields={}, now=now - timedelta(days=30, minutes=1))
    save_draft(by=alice, key="new", fields={}, now=now - timedelta(days=29))
    forget_drafts()
    assert [draft.key for draft in Draft.objects.all()] == ["new"]


def test_the_list_costs_the_same_for_one_draft_and_for_many(client, alice, request_fields):
    client.force_login(alice)
    client.post(SAVE, request_fields)
    client.get(LIST)
    with CaptureQueriesContext(connection) as one:
        client.get(LIST)
    for number in range(8):
        make_profile(f"p-{number}")
        client.post(SAVE, request_fields | {"key": f"more-{number}", "profile": f"p-{number}"})
    with CaptureQueriesContext(connection) as many:
        client.get(LIST)
    assert len(many) == len(one)
