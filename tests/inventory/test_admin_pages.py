"""Django admin: mirrored rows are looked at, and of a cluster only what the portal decides is changed."""

import pytest
from django.urls import reverse

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


def test_admin_changes_a_cluster_without_touching_sync_columns(as_root, fra):
    page = reverse("admin:inventory_cluster_change", args=[fra.pk])
    assert b"credentials" not in as_root.get(page).content
    type(fra).objects.update(version="v1.38.0")
    changed = {
        "title": "Frankfurt",
        "enabled": "on",
        "prometheus_url": "http://prometheus:9090",
        "metrics_url": "",
        "name": "other",
    }
    assert as_root.post(page, changed).status_code == 302
    fra.refresh_from_db()
    assert (fra.title, fra.name, fra.version) == ("Frankfurt", "fra-1", "v1.38.0")
    assert fra.prometheus_url == "http://prometheus:9090"
    refused = as_root.post(page, changed | {"prometheus_url": "prometheus:9090"})
    assert "Enter a URL such as http://prometheus:9090." in refused.text
