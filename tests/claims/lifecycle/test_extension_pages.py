"""The pages that extend, shorten and transfer a claim, and what its own page offers and tells."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from claims.lifecycle.services import extend
from claims.models import Claim, Extension, ProfileVersion, RequestStatus
from claims.states import ClaimState
from tests.factories import make_claim, make_profile, make_team, make_user

pytestmark = pytest.mark.django_db
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
PAGES = ("extend", "shorten", "transfer")


@pytest.fixture
def claim(vision, fra, alice):
    since = timezone.now().replace(second=0, microsecond=0) - 6 * HOUR
    return make_claim(
        vision,
        by=alice,
        cluster=fra,
        profile=make_profile("steady", extension=DAY),
        name="sam",
        state=ClaimState.PROVISIONED,
        decided_at=since,
        expires_at=since + DAY,
    )


@pytest.fixture
def mona(vision):
    mona = make_user("mona", first_name="Mona")
    vision.memberships.create(user=mona, role="member")
    return mona


def url(name, claim):
    return reverse(f"claims:{name}", args=[claim.pk])


def typed(moment):
    return timezone.localtime(moment).strftime("%Y-%m-%dT%H:%M")


def test_the_page_says_for_each_step_whether_somebody_is_asked(client, alice, claim):
    client.force_login(alice)
    page = client.get(url("extend", claim)).text
    assert page.count(" · no approval") == 2  # 4 h and 1 d
    assert page.count(" · needs lars or lena") == 2  # 3 d and 7 d
    assert page.count("Steady v1 may be extended by up to 1 d") == 1
    assert page.count("If nobody decides in time") == 1
    assert Extension.objects.count() == 0


def test_the_page_says_how_long_the_grace_period_is(client, alice, claim):
    client.force_login(alice)
    for grace in (2, 0):
        ProfileVersion.objects.update(grace=grace * HOUR)
        page = client.get(url("extend", claim)).text
        assert "It ends <time" in page
        assert ("</time>, then 2 h of grace." in page) == bool(grace)
    ProfileVersion.objects.update(grace=2 * HOUR)
    Claim.objects.update(expires_at=timezone.now() - HOUR)
    page = client.get(url("extend", claim)).text
    assert "It ended <time" in page
    assert "</time>; its 2 h of grace end <time" in page


def test_a_typed_end_is_judged_before_it_is_sent(client, alice, claim):
    client.force_login(alice)
    query = {"until": typed(claim.expires_at + 2 * DAY)}
    said = client.get(url("extend", claim), query, headers={"HX-Request": "true"}).text
    assert said.startswith("until ")
    assert "needs lars or lena" in said
    assert "<html" not in said
    assert "needs lars or lena" in client.get(url("extend", claim), query).text


def test_extending_at_once_moves_the_end(client, alice, claim):
    client.force_login(alice)
    answer = client.post(url("extend", claim), {"span": "24h", "key": "k"}, follow=True)
    assert answer.redirect_chain == [(url("detail", claim), 302)]
    assert "sam now ends on" in answer.text
    claim.refresh_from_db()
    assert claim.expires_at == Extension.objects.get().until


def test_a_span_counts_from_the_end_that_the_page_has_shown(client, alice, claim):
    client.force_login(alice)
    page = client.get(url("extend", claim)).text
    sent = {"span": "24h", "key": "k", "end": page.partition('name="end" value="')[2].partition('"')[0]}
    for _again in range(2):
        assert client.post(url("extend", claim), sent).status_code == 302
    in_another_tab = client.post(url("extend", claim), sent | {"key": "other"})
    assert (in_another_tab.status_code, "Choose a later time." in in_another_tab.text) == (422, True)
    assert Claim.objects.get().expires_at == Extension.objects.get().until == claim.expires_at + DAY


def test_a_longer_one_waits_and_the_page_of_the_claim_tells_of_it(client, alice, claim, lena):
    client.force_login(alice)
    requested = {"span": "other", "until": typed(claim.expires_at + 3 * DAY), "reason": "One more epoch."}
    page = client.post(url("extend", claim), requested, follow=True).text
    extension = Extension.objects.get()
    assert extension.status == RequestStatus.WAITING
    assert "You requested an extension until" in page
    assert reverse("claims:extension_withdraw", args=[extension.pk]) in page
    page = client.post(reverse("claims:extension_withdraw", args=[extension.pk]), follow=True).text
    assert "You requested an extension until" not in page
    assert Extension.objects.get().status == RequestStatus.WITHDRAWN


def test_who_may_not_change_the_end_is_not_offered_to_take_the_wish_back(
    client, alice, bob, lena, mona, claim
):
    extend(claim=claim, by=alice, until=claim.expires_at + 3 * DAY, key="k")
    offered = {}
    for person in (alice, lena, mona, bob):
        client.force_login(person)
        page = client.get(url("detail", claim)).text
        requester = "You" if person == alice else "alice"
        assert f"{requester} requested an extension until" in page
        offered[person.username] = "Cancel extension request" in page
    assert offered == {"alice": True, "lena": True, "mona": False, "bob": False}


@pytest.mark.parametrize(
    ("requested", "said"),
    [
        ({"span": "soon"}, "Enter a duration"),
        ({"span": "36500d", "end": "9990-01-01T00:00Z"}, "Enter a duration"),
        ({"span": "other"}, "Say until when."),
        ({"span": "other", "until": "tomorrow"}, "Enter a date and a time"),
        ({"span": "other", "until": "2020-01-01T00:00"}, "Choose a later time."),
    ],
)
def test_what_is_malformed_is_422_and_kept(client, alice, claim, requested, said):
    client.force_login(alice)
    answer = client.post(url("extend", claim), {**requested, "reason": "Kept as typed."})
    assert answer.status_code == 422
    assert said in answer.text
    assert "Kept as typed." in answer.text


def test_shortening_can_be_undone_from_the_toast(client, alice, claim):
    client.force_login(alice)
    before = claim.expires_at
    page = client.post(url("shorten", claim), {"until": typed(before - 4 * HOUR)}, follow=True).text
    claim.refresh_from_db()
    assert claim.expires_at == before - 4 * HOUR
    back = page.partition(url("extend_undo", claim))[2].partition('"')[0].replace("&amp;", "&")
    assert client.post(url("extend_undo", claim) + back).status_code == 302
    assert client.post(url("extend_undo", claim) + back).status_code == 302
    claim.refresh_from_db()
    assert claim.expires_at == before
    assert client.post(url("extend_undo", claim) + "?until=soon").status_code == 422


@pytest.mark.parametrize(("until", "said"), [("", "Enter the new end."), ("2020-01-01T00:00", "release it")])
def test_an_end_that_cannot_be_is_422(client, alice, claim, until, said):
    client.force_login(alice)
    answer = client.post(url("shorten", claim), {"until": until})
    assert answer.status_code == 422
    assert said in answer.text


def test_handing_over_can_be_undone_from_the_toast(client, alice, claim, mona):
    client.force_login(alice)
    assert ">Mona</option>" in client.get(url("transfer", claim)).text
    page = client.post(url("transfer", claim), {"to": "mona"}, follow=True).text
    assert Claim.objects.get().requested_by == mona
    assert f"{url('transfer_undo', claim)}?to=alice" in page
    assert client.post(url("transfer", claim), {"to": "mona"}).status_code == 403
    client.post(f"{url('transfer_undo', claim)}?to=alice")
    assert Claim.objects.get().requested_by == alice


def test_a_stranger_cannot_have_it(client, alice, claim, eve, mona):
    client.force_login(alice)
    assert client.post(url("transfer", claim), {"to": "eve"}).status_code == 422
    assert client.post(f"{url('transfer_undo', claim)}?to=eve").status_code == 404


@pytest.mark.parametrize("name", PAGES)
def test_only_the_owner_and_leads_find_the_page(client, claim, bob, eve, mona, lena, name):
    for person, status in ((eve, 404), (bob, 403), (mona, 403), (lena, 200)):
        client.force_login(person)
        assert client.get(url(name, claim)).status_code == status
        if status != 200:
            assert client.post(url(name, claim)).status_code == status


@pytest.mark.parametrize("name", PAGES)
def test_what_is_over_is_told_and_refused(client, alice, claim, name):
    Claim.objects.update(state=ClaimState.RELEASED)
    client.force_login(alice)
    assert "is “Released”" in client.get(url(name, claim)).text
    assert client.post(url(name, claim), {"span": "4h"}).status_code == 409


def test_a_second_wish_is_409_and_says_whose_is_first(client, alice, claim):
    extend(claim=claim, by=alice, until=claim.expires_at + 2 * DAY, key="k")
    client.force_login(alice)
    answer = client.post(url("extend", claim), {"span": "3d"})
    assert answer.status_code == 409
    assert "You have already requested an extension of sam until" in answer.text


def test_the_grace_period_is_told_and_can_still_be_extended(client, alice, claim):
    claim.profile_version.grace = 4 * HOUR
    type(claim.profile_version).objects.update(grace=4 * HOUR)
    Claim.objects.update(expires_at=timezone.now() - HOUR)
    client.force_login(alice)
    page = client.get(url("detail", claim)).text
    assert "the grace period ends on" in page
    assert "Grace ends" in page
    assert "Extend…" in page
    assert "Shorten…" not in page


def test_the_buttons_are_those_of_the_reader_and_the_state(client, claim, alice, bob, mona):
    for person, shown in ((alice, True), (mona, False), (bob, False)):
        client.force_login(person)
        page = client.get(url("detail", claim)).text
        assert all((text in page) is shown for text in ("Extend…", "Shorten…", "Transfer…", "Release…"))
    Claim.objects.update(state=ClaimState.REQUESTED)
    client.force_login(alice)
    page = client.get(url("detail", claim)).text
    assert "Withdraw…" in page
    assert "Extend…" not in page
    assert "Transfer…" not in page


def test_both_pages_tell_of_the_other(client, claim, alice, vision, fra):
    new = make_claim(
        vision, by=alice, cluster=fra, name="bigger", replaces=claim, state=ClaimState.PROVISIONED
    )
    Claim.objects.filter(pk=claim.pk).update(state=ClaimState.ALLOCATED)
    client.force_login(alice)
    old_page, new_page = client.get(url("detail", claim)).text, client.get(url("detail", new)).text
    assert (
        f'<a href="{url("detail", new)}">bigger</a> (“Waiting for a pod”) will replace this claim' in old_page
    )
    assert "Extend…" not in old_page
    assert "Release sam now…" in new_page
    Claim.objects.filter(pk=claim.pk).update(state=ClaimState.RELEASED)
    assert "bigger</a> replaced this claim." in client.get(url("detail", claim)).text
    assert "This claim replaced" in client.get(url("detail", new)).text


def test_the_request_form_is_filled_for_a_replacement_and_sends_it(client, alice, claim, quota, gateway):
    client.force_login(alice)
    page = client.get(url("detail", claim)).text
    link = page.partition("Change size or profile")[0].rpartition('<a href="')[2].partition('"')[0]
    form = client.get(link.replace("&amp;", "&")).text
    assert f'name="replaces" value="{claim.pk}"' in form
    assert "This replaces" in form
    requested = {
        "profile": "steady",
        "team": "vision",
        "cluster": "fra-1",
        "devices": 2,
        "replaces": claim.pk,
    }
    client.post(reverse("claims:request"), requested)
    made = Claim.objects.get(replaces=claim)
    assert (made.devices, made.carried) == (2, 1)
    refused = client.post(reverse("claims:request"), requested)
    assert refused.status_code == 409
    assert "is already being replaced by" in refused.text


def test_a_claim_of_another_team_cannot_be_named_as_replaced(client, alice, eve, claim, fra, quota):
    make_team("audio", members=(eve,))
    replaced = {}
    for person in (alice, eve):
        client.force_login(person)
        answer = client.get(reverse("claims:request"), {"replaces": claim.pk})
        assert answer.status_code == 200
        replaced[person.username] = "This replaces" in answer.text
    assert replaced == {"alice": True, "eve": False}


def test_the_number_of_queries_does_not_grow_with_the_wishes(client, alice, claim):
    client.force_login(alice)

    def count():
        with CaptureQueriesContext(connection) as seen:
            assert client.get(url("detail", claim)).status_code == 200
            assert client.get(url("extend", claim)).status_code == 200
        return len(seen)

    extend(claim=claim, by=alice, until=claim.expires_at + HOUR, key="first")
    count()  # the first visit of a session is dearer
    few = count()
    for number in range(5):
        fresh = Claim.objects.get()
        extend(claim=fresh, by=alice, until=fresh.expires_at + HOUR, key=f"k{number}")
    assert count() == few
