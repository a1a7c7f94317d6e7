"""Claims that no pod uses: their owner is reminded once per wait, after a quarter of their duration."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from claims.lifecycle.unused import remind_after, remind_of_pods
from claims.models import Claim
from claims.states import ClaimState
from claims.tasks import expire
from notify.models import Notice
from tests.factories import make_claim

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def waits(vision, fra, alice):
    """Return a function that makes a claim of alice that waits for a pod since noon."""

    def make(name="sam", duration=DAY, **fields):
        values = {
            "state": ClaimState.PROVISIONED,
            "state_since": NOON,
            "expires_at": NOON + duration,
        } | fields
        return make_claim(vision, by=alice, cluster=fra, name=name, duration=duration, **values)

    return make


@pytest.mark.parametrize(
    ("duration", "after"),
    [(HOUR, HOUR), (4 * HOUR, HOUR), (DAY, 6 * HOUR), (4 * DAY, DAY), (30 * DAY, DAY)],
)
def test_reminder_is_due_after_a_quarter_of_the_duration(duration, after):
    assert remind_after(duration) == after


def test_owner_is_reminded_once_of_a_claim_without_a_pod(waits, alice):
    claim = waits()
    remind_of_pods(NOON + 6 * HOUR - MINUTE)
    assert not Notice.objects.exists()
    for minutes in (0, 1, 90):
        remind_of_pods(NOON + 6 * HOUR + minutes * MINUTE)
    (notice,) = Notice.objects.all()
    assert (notice.user, notice.important) == (alice, True)
    assert notice.title == "sam has been waiting for a pod for 6 h"
    assert notice.body == (
        "No pod in fra-1 uses it. Nothing is billed, but it counts against the quota of vision until "
        "Mon 2 Nov 2026, 12:00 UTC. Start a pod that uses it, or release it."
    )
    assert notice.url == f"/claims/{claim.pk}/#snippets"


def test_next_wait_is_a_reminder_of_its_own(waits):
    claim = waits(duration=4 * DAY)
    remind_of_pods(NOON + DAY)
    Claim.objects.filter(pk=claim.pk).update(state_since=NOON + DAY)  # a pod came and went
    remind_of_pods(NOON + DAY + HOUR)
    assert Notice.objects.count() == 1
    remind_of_pods(NOON + 2 * DAY)
    assert Notice.objects.count() == 2


@pytest.mark.parametrize("state", [ClaimState.REQUESTED, ClaimState.APPROVED, ClaimState.ALLOCATED])
def test_claims_in_other_states_are_not_meant(waits, state):
    waits(state=state)
    remind_of_pods(NOON + 12 * HOUR)
    assert not Notice.objects.exists()


def test_expired_claim_has_the_notice_of_its_end_alone(waits):
    waits(duration=4 * HOUR)
    remind_of_pods(NOON + 5 * HOUR)
    assert not Notice.objects.exists()


def test_reminders_take_the_same_queries_for_many_claims_that_were_told(waits):
    waits("one")
    remind_of_pods(NOON + 6 * HOUR)
    with CaptureQueriesContext(connection) as for_one:
        remind_of_pods(NOON + 7 * HOUR)
    for number in range(5):
        waits(f"more-{number}")
    remind_of_pods(NOON + 7 * HOUR)
    with CaptureQueriesContext(connection) as for_many:
        remind_of_pods(NOON + 8 * HOUR)
    assert len(for_many) == len(for_one) == 2


def test_task_of_ends_reminds_too(waits, gateway):
    waits()
    with time_machine.travel(NOON + 8 * HOUR, tick=False):
        expire()
    assert Notice.objects.filter(title__contains="waiting for a pod").count() == 1
