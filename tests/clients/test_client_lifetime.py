"""A program never loses a GPU: real processes against a real portal that is stopped and started."""

import re
import signal
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone
from dragoman import DragomanError, keepalive

from claims.approvals.decide import approve
from claims.lifecycle.expiry import end_overdue
from claims.models import ApprovalRule, Claim
from claims.models.approval import Approval
from claims.states import ClaimState
from teams.tokens import create_token
from tests.claims.conftest import *  # noqa: F403
from tests.clients.live_portal import Portal, Program, eventually

pytestmark = pytest.mark.django_db(transaction=True)
MINUTE = timedelta(minutes=1)
ENDED = (ClaimState.RELEASING, ClaimState.RELEASED, ClaimState.WITHDRAWN)
BLOCK = """
import time
from dragoman import Client
with Client() as client, client.claim("train-80", team="vision", cluster="fra-1", keep_alive="1m") as claim:
    print("inside", claim.id)
    {body}
print("after the block")
"""
ASYNC_BLOCK = """
import asyncio, time
from dragoman import AsyncClient
async def main():
    async with AsyncClient() as client:
        async with client.claim("train-80", team="vision", cluster="fra-1", keep_alive="1m") as claim:
            print("inside", claim.id)
            {body}
asyncio.run(main())
print("after the block")
"""
SLEEPS = "time.sleep(600)"
BLOCKS = {
    "sync": BLOCK.format(body=SLEEPS),
    "async": ASYNC_BLOCK.format(body="await asyncio.sleep(600)"),
    "busy loop": ASYNC_BLOCK.format(body=SLEEPS),
}
of_each = pytest.mark.parametrize("code", BLOCKS.values(), ids=BLOCKS)


@pytest.fixture
def portal(alice, vision, fra, train, quota, gateway, monkeypatch):
    """A portal that runs; programs sign in as alice."""
    _row, text = create_token(by=alice, title="Test")
    portal = Portal()
    monkeypatch.setenv("DRAGOMAN_URL", portal.url)
    monkeypatch.setenv("DRAGOMAN_TOKEN", text)
    portal.start()
    yield portal
    portal.stop()


@pytest.fixture
def automatic(vision):
    ApprovalRule.objects.create(team=vision, approval=Approval.AUTOMATIC)


@pytest.fixture
def run(portal, tmp_path):
    programs = []

    def start(code, **options):
        programs.append(Program(code, tmp_path, **options))
        return programs[-1]

    yield start
    for program in programs:
        program.kill()


def inside(program):
    """Return the claim of a program that is in its block."""
    (key,) = re.findall(r"inside (\S+)", program.until("inside "))
    return Claim.objects.get(pk=key)


def state(claim):
    claim.refresh_from_db()
    return claim.state


def only_claim():
    eventually(lambda: Claim.objects.exists())
    return Claim.objects.get()


def ends_by_silence(claim):
    """Let the sweep find what nobody renews for longer than a minute; a renewal may still be on its way."""

    def is_ended():
        end_overdue(timezone.now() + MINUTE)
        end_overdue(timezone.now() + 2 * MINUTE)
        return state(claim) in ENDED

    eventually(is_ended)


@of_each
def test_sigterm_in_the_block_releases_the_claim(run, automatic, code):
    program = run(code)
    claim = inside(program)
    program.send(signal.SIGTERM)
    assert program.end() == 128 + signal.SIGTERM, program.said
    assert state(claim) in ENDED


@pytest.mark.parametrize(
    "code", [BLOCKS["sync"], BLOCKS["async"]], ids=["sync", "async"]
)  # asyncio holds back the first Ctrl-C
def test_an_interrupted_block_releases_the_claim(run, automatic, code):
    program = run(code)
    claim = inside(program)
    program.send(signal.SIGINT)
    assert program.end() != 0
    assert state(claim) in ENDED


@of_each
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_request_is_on_its_way_takes_it_back(run, portal, code, number):
    portal.slow_posts = 3.0
    program = run(code)
    claim = only_claim()
    portal.slow_posts = 0.0
    program.send(number)
    assert program.end() != 0
    assert "inside" not in program.said
    assert state(claim) in ENDED, program.said


@of_each
def test_an_interrupted_wait_takes_the_request_back(run, code):
    program = run(code)
    program.until("Waiting for approval")
    program.send(signal.SIGINT)
    assert program.end() != 0
    assert state(only_claim()) == ClaimState.WITHDRAWN


@pytest.mark.parametrize("block", [BLOCK, ASYNC_BLOCK], ids=["sync", "async"])
def test_a_portal_that_is_away_at_the_end_of_the_block_is_tried_again(run, portal, automatic, block):
    program = run(block.format(body="time.sleep(3)"))
    claim = inside(program)
    portal.stop()
    program.until("is not released yet")
    assert state(claim) == ClaimState.PROVISIONED
    portal.start()
    assert program.end() == 0, program.said
    assert state(claim) in ENDED


@pytest.mark.parametrize("block", [BLOCK, ASYNC_BLOCK], ids=["sync", "async"])
@pytest.mark.parametrize("error", ["pass", "raise RuntimeError('training failed')"])
def test_a_claim_that_cannot_be_released_is_named_and_hides_no_error(run, portal, automatic, block, error):
    program = run(block.format(body=f"time.sleep(2); {error}"), patience=1)
    claim = inside(program)
    portal.stop()
    assert program.end() != 0
    assert f"dragoman release {claim.name}" in program.said
    raised = re.findall(r"^(?:\w+\.)*(\w*Error|Unavailable): ", program.said, flags=re.MULTILINE)[-1]
    assert raised == ("RuntimeError" if "raise" in error else "Unavailable")
    ends_by_silence(claim)


@pytest.mark.parametrize("block", [BLOCK, ASYNC_BLOCK], ids=["sync", "async"])
def test_an_upgrade_of_the_portal_ends_no_wait(run, portal, lena, block):
    program = run(block.format(body="pass"))
    program.until("Waiting for approval")
    portal.stop()
    program.until("The portal does not answer, trying again")
    claim = only_claim()
    portal.start()
    approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    assert program.end() == 0, program.said
    assert "after the block" in program.said
    assert state(claim) in ENDED


def test_a_wait_ends_at_its_timeout_also_while_the_portal_is_away(run, portal):
    program = run(BLOCK.format(body="pass").replace('keep_alive="1m"', "timeout=4"), patience=0)
    program.until("Waiting for approval")
    portal.stop()
    assert program.end() != 0
    assert "is not ready after 4 s. The portal does not answer" in program.said
    assert f"dragoman release {only_claim().name}" in program.said


@of_each
def test_a_killed_process_loses_its_claim_and_a_living_one_keeps_it(run, automatic, code):
    program = run(code)
    claim = inside(program)
    Claim.objects.filter(pk=claim.pk).update(ends_unless_renewed_at=timezone.now() - MINUTE)
    eventually(lambda: Claim.objects.get(pk=claim.pk).ends_unless_renewed_at > timezone.now())
    end_overdue(timezone.now())
    assert state(claim) == ClaimState.PROVISIONED
    program.kill()
    ends_by_silence(claim)


def test_an_undecided_request_of_a_killed_process_frees_its_quota(run):
    program = run(BLOCKS["sync"])
    program.until("Waiting for approval")
    program.kill()
    ends_by_silence(only_claim())
    assert state(only_claim()) == ClaimState.WITHDRAWN


@of_each
def test_a_machine_that_slept_for_too_long_says_that_the_claim_has_ended(run, automatic, code):
    program = run(code)
    claim = inside(program)
    program.send(signal.SIGSTOP)
    ends_by_silence(claim)
    program.send(signal.SIGCONT)
    said = program.until("is no longer yours to use")
    assert "The program that requested it has not renewed it for" in said


@pytest.mark.parametrize("jump", [3600, -3600])
def test_renewal_follows_the_clock_of_the_wall_after_a_sleep(monkeypatch, jump):
    """A monotonic clock stands still while the machine sleeps."""
    clock, renewals = {"ahead": 0}, []
    wall = SimpleNamespace(time=lambda: time.time() + clock["ahead"], monotonic=time.monotonic)
    monkeypatch.setattr(keepalive, "time", wall)
    monkeypatch.setattr(keepalive, "TICK", 0.05)

    def renew():
        renewals.append(clock["ahead"])
        return {"keep_alive": 900}

    keeper = keepalive.KeepAlive("train-1", 900, renew=renew)
    try:
        eventually(lambda: renewals == [0])
        clock["ahead"] = jump
        eventually(lambda: renewals == [0, jump])
    finally:
        keeper.stop()


def test_each_time_of_failed_renewals_is_said_once(monkeypatch):
    said: list[str] = []
    outcomes = iter([False, False, True, False, False])
    monkeypatch.setattr(keepalive, "tell", said.append)
    monkeypatch.setattr(keepalive, "TICK", 0.05)
    over = []

    def renew():
        works = next(outcomes, None)
        if works is None:
            over.append(True)
        if works is False:
            raise DragomanError("The portal is away.")
        return {"keep_alive": 1}

    keeper = keepalive.KeepAlive("train-1", 0.3, renew=renew)
    try:
        eventually(lambda: over)
    finally:
        keeper.stop()
    assert len(said) == 2
    assert all("is not renewed: The portal is away." in sentence for sentence in said)


def test_a_kept_claim_is_not_released_by_its_block(run, automatic, alice):
    from claims.lifecycle.keep_alive import keep

    program = run(BLOCK.format(body="time.sleep(3)"))
    claim = inside(program)
    keep(claim=claim, by=alice)
    assert program.end() == 0
    assert f"was kept on its page, so it is not released: dragoman release {claim.name}" in program.said
    assert state(claim) == ClaimState.PROVISIONED


class TestKernelsOfOneNotebook:
    """Two kernels share nothing; one takes over what another has left only when that process is gone."""

    NOTEBOOK = {"JPY_SESSION_NAME": "/home/jovyan/train.ipynb"}

    def test_each_has_a_claim_of_its_own(self, run, automatic):
        first = run(BLOCK.format(body="time.sleep(3)"), **self.NOTEBOOK)
        held = inside(first)
        second = run(BLOCKS["sync"], **self.NOTEBOOK)
        other = inside(second)
        assert other.pk != held.pk
        assert first.end() == 0
        assert (state(held) in ENDED, state(other)) == (True, ClaimState.PROVISIONED)

    def test_the_claim_of_one_that_is_gone_is_taken_over(self, run, automatic):
        killed = run(BLOCKS["sync"], **self.NOTEBOOK)
        held = inside(killed)
        killed.kill()
        again = run(BLOCK.format(body="pass"), **self.NOTEBOOK)
        assert inside(again).pk == held.pk
        assert again.end() == 0
        assert state(held) in ENDED

    def test_a_process_of_another_machine_is_believed_alive_while_it_beats(self, run, automatic, home):
        killed = run(BLOCKS["sync"], **self.NOTEBOOK)
        held = inside(killed)
        killed.kill()
        (file,) = (home / "state" / "dragoman" / "claims").iterdir()
        file.write_text(file.read_text().replace('"host": "', '"host": "another-'))
        again = run(BLOCK.format(body="pass"), **self.NOTEBOOK)
        assert inside(again).pk != held.pk
        assert again.end() == 0
        old = timezone.now().timestamp() - 600
        import os

        os.utime(file, (old, old))
        assert inside(run(BLOCK.format(body="pass"), **self.NOTEBOOK)).pk == held.pk
