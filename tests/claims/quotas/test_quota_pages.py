"""The quota pages: what is held, how it is computed, and who may change it."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from claims.models import Quota
from claims.states import ClaimState
from tests.claims.quotas.test_quota_usage import make_unmanaged
from tests.factories import make_claim, make_profile, make_quota, make_team

pytestmark = pytest.mark.django_db


def test_address_of_the_form_leads_back_to_the_page(client, alice, vision):
    client.force_login(alice)
    assert client.get(SET).url == PAGE


PAGE, SET = reverse("claims:quotas"), reverse("claims:quota_set")


@pytest.fixture
def used(vision, fra, train, alice, quota):
    make_claim(vision, by=alice, cluster=fra, name="waits", devices=2)
    make_claim(vision, by=alice, cluster=fra, name="runs", devices=3, state=ClaimState.ALLOCATED)
    make_claim(vision, by=alice, cluster=fra, name="over", devices=3, state=ClaimState.RELEASED)
    return quota


def test_the_page_tells_held_reserved_and_free(client, bob, used):
    client.force_login(bob)
    page = client.get(PAGE).text
    assert "<b>3</b> held · <b>2</b> reserved · <b>3</b> free of 8" in page
    assert 'data-quota="vision/gpu.nvidia.com" data-taken="5"' in page


def test_the_form_of_platform_admins_is_one_click_away(client, alice, root, used):
    for person, is_there in ((alice, False), (root, True)):
        client.force_login(person)
        page = client.get(PAGE).text
        assert ('href="#set-title"' in page, 'id="set-title"' in page) == (is_there, is_there)


def test_words_are_in_the_order_of_the_bar(client, bob, fra, used):
    make_unmanaged(fra, "by-hand", 1)
    client.force_login(bob)
    page = client.get(PAGE).text
    assert "<b>3</b> held · <b>1</b> unmanaged · <b>2</b> reserved · <b>2</b> free of 8" in page


def test_a_quota_lowered_below_what_is_held_is_shown_as_over(client, alice, used):
    Quota.objects.update(devices=4)
    client.force_login(alice)
    assert "1 over" in client.get(PAGE).text


@pytest.mark.parametrize("name", ["quota", "quota_parts"])
def test_every_claim_in_the_figure_is_listed_and_no_other(client, bob, used, name):
    client.force_login(bob)
    page = client.get(reverse(f"claims:{name}", args=[used.pk])).text
    assert "waits" in page
    assert "runs" in page
    assert ">over<" not in page
    assert "3 held + 2 reserved of 8" in page


def test_an_outsider_sees_no_quota_of_the_team(client, eve, used):
    client.force_login(eve)
    assert "gpu.nvidia.com" not in client.get(PAGE).text
    for name in ("quota", "quota_parts"):
        assert client.get(reverse(f"claims:{name}", args=[used.pk])).status_code == 404


def test_an_admin_sets_and_changes_a_quota(client, root, vision):
    client.force_login(root)
    sent = {"team": "vision", "device_class": "mig.nvidia.com", "devices": "4"}
    assert "vision may hold 4 × mig.nvidia.com." in client.post(SET, sent, follow=True).text
    client.post(SET, sent | {"devices": "6"})
    quota = Quota.objects.get()
    assert quota.devices == 6


def test_a_quota_may_be_of_a_profile(client, root, vision, train):
    client.force_login(root)
    client.post(SET, {"team": "vision", "profile": "train-80", "devices": "2"})
    assert Quota.objects.get().profile == train
    assert "Train 80" in client.get(PAGE).text


@pytest.mark.parametrize(
    "wrong",
    [
        {"devices": "-1"},
        {"devices": "some"},
        {"team": "nobody"},
        {"device_class": ""},
        {"profile": "train-80"},
    ],
)
def test_bad_input_is_422_and_changes_nothing(client, root, vision, train, wrong):
    client.force_login(root)
    sent = {"team": "vision", "device_class": "gpu.nvidia.com", "devices": "4"}
    assert client.post(SET, sent | wrong).status_code == 422
    assert not Quota.objects.exists()


def test_only_a_platform_admin_sets_quotas(client, lena, used):
    client.force_login(lena)
    sent = {"team": "vision", "device_class": "gpu.nvidia.com", "devices": "99"}
    assert client.post(SET, sent).status_code == 403
    assert "Set a quota" not in client.get(PAGE).text


def test_only_a_platform_admin_is_offered_to_change_the_limit(client, alice, lena, root, used):
    page = reverse("claims:quota", args=[used.pk])
    client.force_login(root)
    assert f'action="{SET}"' in client.get(page).text
    for person in (alice, lena):
        client.force_login(person)
        text = client.get(page).text
        assert "3 held + 2 reserved of 8" in text
        assert SET not in text


def test_a_team_in_the_address_narrows_the_page(client, root, used):
    make_quota(make_team("nlp"), 5, device_class="mig.nvidia.com")
    client.force_login(root)
    page = client.get(PAGE + "?team=nlp").text
    assert 'data-quota="nlp/mig.nvidia.com"' in page
    assert 'data-quota="vision/gpu.nvidia.com"' not in page


def test_the_page_costs_the_same_for_one_quota_and_for_many(client, root, used):
    profile = make_profile("other")
    make_quota(used.team, 2, profile=profile)
    client.force_login(root)
    client.get(PAGE)
    with CaptureQueriesContext(connection) as few:
        client.get(PAGE)
    for number in range(10):
        team = make_team(f"zeta-{number}")  # after vision, which stays on the page
        make_quota(team, 4)
        make_quota(team, 2, profile=profile)
    with CaptureQueriesContext(connection) as many:
        client.get(PAGE)
    assert len(many) == len(few)


def test_teams_are_paged_and_found_by_name(client, root, vision, quota, monkeypatch):
    monkeypatch.setattr("claims.quotas.views.TEAMS_PER_PAGE", 2)
    for name in ("alpha", "beta"):
        make_quota(make_team(name), 4)
    client.force_login(root)

    def shown(**query):
        return [group.team.slug for group in client.get(PAGE, query).context["groups"]]

    assert [shown(), shown(page="2"), shown(page="x")] == [["alpha", "beta"], ["vision"], ["alpha", "beta"]]
    assert [shown(team="vision"), shown(q="VIS"), shown(q="et a"), shown(q="nobody")] == [
        ["vision"], ["vision"], ["beta"], [],
    ]  # fmt: skip
    assert b"Nothing matches" in client.get(PAGE, {"q": "nobody"}).content
    lines = b"".join(client.get(PAGE, {"format": "csv"})).decode().splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == ["alpha", "beta", "vision"]


def test_parts_of_a_figure_are_paged_with_unmanaged_use_on_the_last_page(
    client, alice, vision, fra, train, quota, monkeypatch
):
    monkeypatch.setattr("claims.quotas.quota_usage.PARTS_PER_PAGE", 2)
    claims = [make_claim(vision, by=alice, cluster=fra, profile=train) for _ in range(3)]
    make_unmanaged(fra, "by-hand", 2)
    client.force_login(alice)

    def parts(**query):
        shown = client.get(reverse("claims:quota", args=[quota.pk]), query).context["parts"]
        return [part.claim for part in shown.claims], [part.use.name for part in shown.unmanaged]

    assert parts() == (claims[:2], [])
    assert parts(page="2") == (claims[2:], ["by-hand"])
    drawer = client.get(reverse("claims:quota_parts", args=[quota.pk])).content.decode()
    assert "the oldest 2 of 3 claims" in drawer
