"""Times in stored texts are shown in the zone of the reader, wherever the text is shown."""

from datetime import timedelta

import pytest
from django.utils import timezone

from claims.states import ClaimState
from notify.models import Notice
from tests.factories import make_claim, make_cluster, make_team, make_user

pytestmark = pytest.mark.django_db
STORED = "Fri 20 Nov 2026, 17:00 UTC"
LONG = f"{'It may run for as long as the review of the quarter takes'}, that is until {STORED}."


@pytest.fixture
def claim(client):
    alice = make_user("alice")
    alice.timezone = "Europe/Berlin"
    alice.save(update_fields=["timezone"])
    vision = make_team("vision", leads=(alice,))
    client.force_login(alice)
    fra = make_cluster("fra-1", teams=(vision,))
    return make_claim(vision, by=make_user("mira"), cluster=fra, state=ClaimState.REQUESTED)


def decide(claim):
    lena = make_user("lena", admin=True)
    now = timezone.now()
    claim.advance(
        ClaimState.APPROVED,
        why=LONG,
        by=lena,
        decided_by=lena,
        decided_at=now,
        expires_at=now + timedelta(days=1),
    )


def test_in_the_steps_of_a_claim_and_on_its_card(client, claim):
    decide(claim)
    for address in (f"/claims/{claim.pk}/", f"/approvals/{claim.pk}/"):
        text = client.get(address).text
        assert "Fri 20 Nov 2026, 18:00</time>" in text, address
        assert "that is until Fri" not in text, address


def test_in_the_csv_of_notices(client, claim):
    alice = make_user("alice")
    Notice.objects.create(user=alice, key="k", title=f"bev-train ends on {STORED}", body=LONG)
    lines = client.get("/me/notices/?format=csv&col=title&col=body").streaming_content
    text = "".join(part.decode() for part in lines)
    assert text.count("Fri 20 Nov 2026, 18:00 CET") == 2
    assert "UTC" not in text
