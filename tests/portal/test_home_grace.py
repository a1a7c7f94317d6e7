"""A claim in its grace on the home of its owner: what is over, and when it is deleted."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from claims.states import ClaimState
from inventory.freshness import OF_DEVICES
from inventory.models import Freshness
from tests.factories import make_claim, make_cluster, make_profile, make_team, make_user

pytestmark = pytest.mark.django_db


def test_claim_in_grace_shows_deletion_time(client):
    alice = make_user("alice")
    vision = make_team("vision", members=(alice,))
    fra = make_cluster("fra-1", teams=(vision,))
    now = timezone.now()
    for resource in OF_DEVICES:
        Freshness.objects.create(cluster=fra, resource=resource, seen_at=now)
    profile = make_profile("train", grace=timedelta(hours=2))
    over = now - timedelta(minutes=35)
    state = ClaimState.ALLOCATED
    make_claim(vision, by=alice, cluster=fra, profile=profile, name="flow", state=state, expires_at=over)
    client.force_login(alice)
    text = client.get("/").content.decode()
    assert re.search(r"flow expired 3\d min ago", text)
    assert re.search(r"The claim is deleted in 1 h 2\d min, at the end of its grace period", text)
    assert "The claim is deleted then" not in text
