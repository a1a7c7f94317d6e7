"""Django's admin: for platform admins, and to look at what the services and the cluster decide."""

import pytest
from django.test import Client
from django.urls import reverse

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


def test_others_are_sent_to_sign_in(alice):
    client = Client()
    client.force_login(alice)
    assert client.get(reverse("admin:claims_claim_changelist")).status_code == 302
