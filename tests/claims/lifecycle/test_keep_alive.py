"""Claims that a program keeps alive: they end after its silence, never without a notice, and may be kept."""

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from claims.approvals.decide import approve
from claims.delivery import tasks
from claims.lifecycle import services
from claims.lifecycle.expiry import end_overdue
from claims.lifecycle.keep_alive import keep, renew
from claims.models import Claim
from claims.states import ClaimState
from core.cache import WEB_LIVES
from core.errors import Conflict, Forbidden
from notify.models import Notice
from teams.models import AuditEntry
from tests.factories import make_user

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)
GRACE = 15 * MINUTE


@pytest.fixture(autouse=True)
def _no_web_has_lived():
    cache.delete(WEB_LIVES)


@pytest.fixture
def held(ask, lena):
    """A claim of alice that waits for a pod, renewed at this moment."""
    claim = ask(keep_alive=GRACE)
    approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    tasks.deliver(str(claim.pk))
    claim.refresh_from_db()
    assert claim.state == ClaimState.PROVISIONED
    return claim


def after(minutes, claim):
    """Run the sweep so many minutes after now; return the state of the claim."""
    end_overdue(timezone.now() + minutes * MINUTE)
    claim.refresh_from_db()
    return claim.state


def notices(claim):
    found = Notice.objects.filter(user=claim.requested_by, kind="end").order_by("pk")
    return [notice.title for notice in found]


def test_a_silent_program_is_noticed_and_then_its_claim_is_released(held):
    assert (after(9, held), notices(held)) == (ClaimState.PROVISIONED, [])
    assert after(11, held) == ClaimState.PROVISIONED
    (told,) = notices(held)
    assert told.startswith(f"{held} ends on ")
    assert told.endswith(" unless its program renews it")
    body = Notice.objects.get(title=told).body
    assert body.startswith("The program that requested it has not renewed it for 11 min.")
    assert after(14, held) == ClaimState.PROVISIONED
    assert after(17, held) == ClaimState.RELEASING
    assert held.history.last().reason == "The program that requested it has not renewed it for 16 min."
    assert notices(held)[1:] == [f"{held} has ended with its program"]


def test_an_undecided_request_of_a_silent_program_frees_its_quota(ask, quota):
    claim = ask(devices=8, keep_alive=GRACE)
    after(11, claim)
    assert after(17, claim) == ClaimState.WITHDRAWN
    assert claim.history.last().reason.startswith("The program that requested it has not renewed")
    assert notices(claim)[1:] == [f"The request {claim} is withdrawn"]
    assert ask(devices=8)


def test_nothing_ends_after_an_outage_before_programs_could_renew(held):
    assert after(600, held) == ClaimState.PROVISIONED  # the first sweep after ten hours only gives notice
    assert len(notices(held)) == 1
    assert after(604, held) == ClaimState.PROVISIONED
    assert held.ends_unless_renewed_at - timezone.now() > 604 * MINUTE
    assert after(606, held) == ClaimState.RELEASING


@pytest.mark.parametrize(("lived", "state"), [(None, "releasing"), (0, "provisioned"), (605, "releasing")])
def test_only_time_in_which_a_web_process_lived_counts(held, lived, state):
    """`lived`: the last minute in which one has said so; the worker sweeps all the time."""
    if lived is not None:
        cache.set(WEB_LIVES, (timezone.now() + lived * MINUTE).timestamp(), None)
    assert after(11, held) == ClaimState.PROVISIONED
    for minute in range(600, 606):
        after(minute, held)
    assert after(606, held) == state
    assert bool(notices(held)) is (lived != 0)


def test_after_an_outage_of_the_web_a_program_has_its_whole_time(held):
    cache.set(WEB_LIVES, timezone.now().timestamp(), None)
    after(600, held)
    cache.set(WEB_LIVES, (timezone.now() + 601 * MINUTE).timestamp(), None)
    assert after(601, held) == ClaimState.PROVISIONED
    assert notices(held) == []
    assert held.ends_unless_renewed_at - timezone.now() > 614 * MINUTE


def test_a_renewal_starts_the_time_anew_and_needs_another_notice(held, alice):
    after(11, held)
    renew(claim=held, by=alice)
    assert after(9, held) == ClaimState.PROVISIONED
    assert after(100, held) == ClaimState.PROVISIONED
    assert len(notices(held)) == 2


@pytest.mark.parametrize("how", ["a renewal that was read before", "an outage of the web"])
def test_a_notice_of_silence_is_read_once_it_is_wrong(held, alice, how):
    before = Claim.objects.get()
    if how == "an outage of the web":
        cache.set(WEB_LIVES, (timezone.now() + 11 * MINUTE).timestamp(), None)
        after(11, held)
        after(12 + 60, held)
    else:
        after(11, held)
        renew(claim=before, by=alice)
    assert Notice.objects.get(kind="end").read_at is not None


def test_a_claim_without_a_program_is_left_alone(ask, lena):
    claim = ask()
    assert (after(60, claim), notices(claim)) == (ClaimState.REQUESTED, [])


def test_a_renewal_is_one_write_and_changes_no_version(held, alice):
    with CaptureQueriesContext(
        connection,
    ) as queries:
        renew(claim=held, by=alice)
    writes = [query["sql"] for query in queries if not query["sql"].startswith("SELECT")]
    assert len(writes) == 1
    assert Claim.objects.get(pk=held.pk).version == held.version


@pytest.mark.parametrize("how", ["renewed", "kept"])
def test_one_renewed_or_kept_while_the_sweep_reads_it_stays(held, alice, monkeypatch, how):
    after(11, held)
    from claims.lifecycle import expiry

    end = expiry._end

    def meanwhile(claim, move):
        {"renewed": renew, "kept": keep}[how](claim=Claim.objects.get(pk=claim.pk), by=alice)
        return end(claim, move)

    monkeypatch.setattr(expiry, "_end", meanwhile)
    assert after(17, held) == ClaimState.PROVISIONED


def test_a_renewal_of_an_ended_claim_says_why_it_ended(held, alice):
    services.release(claim=held, by=alice, reason="Done.")
    with pytest.raises(Conflict, match=r"has ended: it is “Releas.*Done\."):
        renew(claim=held, by=alice)


def test_a_kept_claim_lives_without_its_program(held, alice):
    keep(claim=held, by=alice)
    keep(claim=held, by=alice)
    assert [after(minutes, held) for minutes in (11, 1000)] == [ClaimState.PROVISIONED] * 2
    assert held.history.last().reason == "Kept: its program need not renew it any more."
    assert AuditEntry.objects.filter(action="claim.kept").count() == 1
    assert renew(claim=held, by=alice).keep_alive is None


def test_a_new_owner_need_not_wait_for_the_program_of_the_old_one(held, alice, lena):
    services.transfer(claim=held, by=alice, to=lena)
    assert [after(minutes, held) for minutes in (11, 1000)] == [ClaimState.PROVISIONED] * 2


def test_webhooks_are_told_before_the_end_and_at_it(held, vision, monkeypatch):
    told = []

    def emit(kind, *, team_id, data):
        told.append((kind, data()))

    monkeypatch.setattr("claims.webhook_events.emit", emit)
    after(11, held)
    after(17, held)
    assert [str(kind) for kind, _data in told][:2] == ["claim.expiring", "claim.releasing"]
    assert told[0][1]["ends_unless_renewed_at"]


def test_others_may_neither_renew_nor_keep(held, vision, bob):
    other = make_user("mona")
    vision.memberships.create(user=other, role="member")
    for action in (renew, keep):
        with pytest.raises(Forbidden):
            action(claim=held, by=other)
    assert after(11, held) == ClaimState.PROVISIONED


class TestApi:
    def call(self, person, method, claim, **fields):
        api = APIClient()
        api.force_login(person)
        address = f"/api/v1/claims/{claim.pk}/keep-alive/" if claim else "/api/v1/claims/"
        return getattr(api, method)(address, fields, format="json")

    def test_a_program_requests_renews_and_keeps(self, held, alice):
        body = self.call(alice, "put", held).json()
        assert (body["state"], body["keep_alive"]) == ("provisioned", 900)
        assert body["ends_unless_renewed_at"]
        body = self.call(alice, "delete", held).json()
        assert (body["keep_alive"], body["ends_unless_renewed_at"]) == (None, None)

    def test_a_claim_that_is_over_is_409(self, held, alice):
        services.release(claim=held, by=alice)
        assert self.call(alice, "put", held).status_code == 409

    def test_an_outsider_hears_404_and_a_viewer_403(self, held, eve, bob):
        for method in ("put", "delete"):
            assert self.call(eve, method, held).status_code == 404
            assert self.call(bob, method, held).status_code == 403

    @pytest.mark.parametrize(("sent", "stored"), [("15m", 900), ("1m", 60), (None, None), ("7d", 604800)])
    def test_a_request_names_the_time(self, alice, vision, fra, train, quota, gateway, sent, stored):
        fields = {"team": "vision", "cluster": "fra-1", "profile": "train-80", "keep_alive": sent}
        answer = self.call(alice, "post", None, **fields)
        assert (answer.status_code, answer.json()["keep_alive"]) == (201, stored)

    @pytest.mark.parametrize("sent", ["59s", "8d", "", "soon"])
    def test_a_time_that_is_too_short_or_too_long_is_refused(self, alice, vision, fra, train, quota, sent):
        fields = {"team": "vision", "cluster": "fra-1", "profile": "train-80", "keep_alive": sent}
        answer = self.call(alice, "post", None, **fields)
        assert answer.status_code == 422
        assert [row["field"] for row in answer.json()["errors"]] == ["keep_alive"]

    def test_the_tag_changes_with_a_renewal_and_a_write_does_not_mind(self, held, alice):
        api = APIClient()
        api.force_login(alice)
        address = f"/api/v1/claims/{held.pk}/"
        before = api.get(address)["ETag"]
        Claim.objects.filter(pk=held.pk).update(ends_unless_renewed_at=timezone.now() + timedelta(hours=1))
        assert api.get(address)["ETag"] != before
        released = api.post(f"{address}release/", {}, format="json", headers={"If-Match": before})
        assert released.status_code == 200


class TestPage:
    def test_the_page_says_when_it_ends_and_offers_to_keep_it(self, client, held, alice):
        client.force_login(alice)
        page = client.get(f"/claims/{held.pk}/").text
        assert "Kept alive by a program; ends " in page
        said = client.post(f"/claims/{held.pk}/keep/", follow=True).text
        assert "stays until its own end" in said
        assert "Kept alive by a program" not in said

    def test_the_open_page_follows_a_renewal(self, client, held, alice):
        client.force_login(alice)
        live = f"/claims/{held.pk}/live/"
        tag = client.get(live)["ETag"]
        assert client.get(live, headers={"If-None-Match": tag}).status_code == 304
        renew(claim=held, by=alice)
        assert client.get(live, headers={"If-None-Match": tag}).status_code == 200

    def test_an_outsider_hears_404_and_a_viewer_403(self, client, held, eve, bob):
        for person, status in ((eve, 404), (bob, 403)):
            client.force_login(person)
            assert client.post(f"/claims/{held.pk}/keep/").status_code == status
