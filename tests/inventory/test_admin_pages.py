"""Django admin: mirrored rows are looked at, and of a cluster only what the portal decides is changed."""

import pytest
from django.urls import reverse

from inventory.models import TelemetryAccess
from teams.models import User

pytestmark = pytest.mark.django_db
KINDS = ("device", "node", "resourceclaim", "pod", "freshness", "objectevent", "resourceslice")


@pytest.fixture
def as_root(client):
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.mark.parametrize("kind", KINDS)
def test_mirrored_rows_can_be_looked_at_and_not_added(as_root, mirrored, kind):
    assert as_root.get(reverse(f"admin:inventory_{kind}_changelist")).status_code == 200
    assert as_root.get(reverse(f"admin:inventory_{kind}_add")).status_code == 403


def test_admin_of_django_shows_a_cluster_and_changes_nothing(as_root, fra):
    TelemetryAccess.objects.create(cluster=fra, kind="token", sealed=b"pa55word")
    page = reverse("admin:inventory_cluster_change", args=[fra.pk])
    shown = as_root.get(page).content
    assert b"credentials" not in shown
    assert b"pa55word" not in shown
    assert as_root.post(page, {"title": "Other", "enabled": ""}).status_code == 403
    fra.refresh_from_db()
    assert (fra.title, fra.enabled) == ("", True)
