"""The story of the demo, on pages rendered in this process."""

from datetime import timedelta

import pytest
from django.db.models import Sum

from claims.models import Allocation, Claim
from claims.states import ClaimState
from inventory.models import FleetSpan
from teams.models import User
from usage.daily import stored_until
from usage.fleet_report import Period, fleet_days

DAY = timedelta(days=1)

pytestmark = [pytest.mark.usefixtures("demo_database"), pytest.mark.django_db]


def test_home_of_the_engineer_shows_claims_of_the_story(client):
    client.force_login(User.objects.get(username="engineer"))
    held = Claim.objects.filter(requested_by__username="engineer", state=ClaimState.ALLOCATED)
    first = held.order_by("expires_at")[0]
    assert f">{first.name}</a>" in client.get("/").content.decode()


@pytest.mark.parametrize("time", ["first", "second"])
def test_a_change_to_the_story_is_gone_in_the_next_test(time):
    assert Claim.objects.filter(name="sam2-finetune").update(name=f"{time}-name") == 1


def test_managed_share_of_held_gpus_is_plausible_on_each_day():
    """The story goes on to its last day: neither do others suddenly hold everything, nor the portal."""
    end = stored_until()  # of today, or in the first hours of yesterday
    assert end is not None
    days = fleet_days(Period(end - 10 * DAY, end))
    held = {day: float(parts.allocated.held) for day, parts in days.items()}
    shares = {day: held[day] / (held[day] + float(parts.unmanaged.held)) for day, parts in days.items()}
    assert len(shares) == 10
    assert all(0.4 < share < 0.95 for share in shares.values()), shares
    mean = sum(held.values()) / len(held)
    assert all(0.4 * mean < hours < 1.6 * mean for hours in held.values()), held


def test_managed_share_of_held_gpus_is_plausible_now():
    managed = Allocation.objects.filter(ended_at=None).aggregate(parts=Sum("fraction"))["parts"]
    open_spans = FleetSpan.objects.filter(ended_at=None, use=FleetSpan.Use.UNMANAGED)
    unmanaged = open_spans.aggregate(parts=Sum("parts"))["parts"] / 10**6
    assert 0.35 < float(managed) / (float(managed) + float(unmanaged)) < 0.8, (managed, unmanaged)
