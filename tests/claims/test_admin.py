"""Django's admin: for platform admins, and to look at what the services and the cluster decide."""

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from teams.models import ApiToken, User
from tests.factories import make_claim

pytestmark = pytest.mark.django_db
LOOKED_AT = ("claim", "allocation", "profile", "quota")


@pytest.fixture
def as_root(root) -> Client:
    client = Client()
    client.force_login(root)
    return client


@pytest.mark.parametrize("model", [*LOOKED_AT, "teamnamespace"])
def test_an_admin_looks_at_every_list(as_root, vision, fra, train, quota, model):
    make_claim(vision, cluster=fra, profile=train)
    assert as_root.get(reverse(f"admin:claims_{model}_changelist")).status_code == 200


@pytest.mark.parametrize("model", LOOKED_AT)
def test_nothing_is_added_by_hand(as_root, model):
    assert as_root.get(reverse(f"admin:claims_{model}_add")).status_code == 403


def test_a_claim_is_shown_with_its_history_and_cannot_be_changed(as_root, vision, fra, train):
    claim = make_claim(vision, cluster=fra, profile=train, reason="made for a test")
    url = reverse("admin:claims_claim_change", args=[claim.pk])
    assert "made for a test" in as_root.get(url).content.decode()
    assert as_root.post(url, {"state": "allocated"}).status_code == 403
    assert (
        as_root.post(reverse("admin:claims_claim_delete", args=[claim.pk]), {"post": "yes"}).status_code
        == 403
    )


def test_names_of_lists_are_english(as_root):
    page = as_root.get(reverse("admin:index")).text
    assert "sss" not in page
    assert "Device classes" in page


def test_others_are_sent_to_sign_in(alice):
    client = Client()
    client.force_login(alice)
    assert client.get(reverse("admin:claims_claim_changelist")).status_code == 302


def test_it_changes_only_passwords_and_revokes_tokens_and_second_factors(rf, root):
    request = rf.get("/")
    request.user = root
    changed = {
        (model.__name__, name)
        for model, pages in admin.site._registry.items()
        for name, is_allowed in pages.get_model_perms(request).items()
        if is_allowed and name != "view"
    }
    assert changed == {("User", "change"), ("ApiToken", "change"), ("Authenticator", "delete")}
    for model in (User, ApiToken):
        pages = admin.site._registry[model]
        assert not set(pages.get_form(request, root).base_fields) - {"password"}


def test_the_password_of_a_person_is_set_there(as_root, alice):
    fields = {"usable_password": "true", "password1": "correct-horse", "password2": "correct-horse"}
    assert as_root.post(f"/admin/teams/user/{alice.pk}/password/", fields).status_code == 302
    alice.refresh_from_db()
    assert alice.check_password("correct-horse")
    as_root.post(f"/admin/teams/user/{alice.pk}/change/", {"username": "mallory", "is_superuser": "on"})
    alice.refresh_from_db()
    assert (alice.username, alice.is_superuser) == ("alice", False)
