"""A message that cannot be queued costs nothing but time."""

import pytest
from kombu.exceptions import OperationalError

from claims.approvals import decide
from claims.delivery import tasks
from claims.states import ClaimState

pytestmark = pytest.mark.django_db


@pytest.fixture
def broker_away(monkeypatch):
    def refuse(*_args):
        raise OperationalError("Error 111 connecting to redis:6379. Connection refused.")

    for task in (
        "claims.delivery.tasks.deliver",
        "claims.delivery.tasks.remove",
        "notify.tasks.mail_notices",
    ):
        monkeypatch.setattr(f"{task}.delay", refuse)


def test_an_approval_that_is_written_is_no_error_while_the_broker_is_away(
    ask, lena, broker_away, django_capture_on_commit_callbacks
):
    claim = ask()
    with django_capture_on_commit_callbacks(execute=True):
        approved = decide.approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    assert approved.state == ClaimState.APPROVED
    tasks.sweep()
    claim.refresh_from_db()
    assert claim.state == ClaimState.PROVISIONED


def test_what_else_waits_for_the_commit_is_done_all_the_same(
    ask, alice, lena, broker_away, django_capture_on_commit_callbacks
):
    claim = ask()
    with django_capture_on_commit_callbacks(execute=True) as waiting:
        decide.approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    assert len(waiting) > 1  # the delivery, and the mail to who asked


def test_a_task_that_fails_by_itself_is_not_hidden(ask, lena, gateway, django_capture_on_commit_callbacks):
    claim = ask()
    gateway.fail(RuntimeError("A fault of ours."))
    with pytest.raises(RuntimeError), django_capture_on_commit_callbacks(execute=True):
        decide.approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
