"""The story of the demo, on pages rendered in this process."""

import pytest

from claims.models import Claim
from claims.states import ClaimState
from teams.models import User

pytestmark = [pytest.mark.usefixtures("demo_database"), pytest.mark.django_db]


def test_home_of_the_engineer_shows_claims_of_the_story(client):
    client.force_login(User.objects.get(username="engineer"))
    held = Claim.objects.filter(requested_by__username="engineer", state=ClaimState.ALLOCATED)
    first = held.order_by("expires_at")[0]
    assert f">{first.name}</a>" in client.get("/").content.decode()


@pytest.mark.parametrize("time", ["first", "second"])
def test_a_change_to_the_story_is_gone_in_the_next_test(time):
    assert Claim.objects.filter(name="sam2-finetune").update(name=f"{time}-name") == 1
