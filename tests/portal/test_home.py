import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from claims.inbox.comments import comment_on_claim
from claims.models import Claim, ProfileWaits, Quota
from claims.states import ClaimState
from core import times
from inventory.freshness import OF_DEVICES
from inventory.models import Freshness
from teams.models import Role
from tests.factories import make_claim, make_cluster, make_profile, make_quota, make_team, make_user
from tests.usage.conftest import hold, measure, price
from usage.models import Collection, IdlePeriod, IdlePolicy
from usage.samples import BUCKET, bucket_start

HOUR = timedelta(hours=1)
HOME, LIVE = "/", "/home/live/"


@pytest.fixture
def alice(db):
    return make_user("alice")


@pytest.fixture
def lena(db):
    return make_user("lena")


@pytest.fixture
def vision(alice, lena):
    return make_team("vision", leads=(lena,), members=(alice,), viewers=(make_user("bob"),))


@pytest.fixture
def fra(vision):
    cluster = make_cluster("fra-1", teams=(vision,))
    for resource in OF_DEVICES:
        Freshness.objects.create(cluster=cluster, resource=resource, seen_at=timezone.now())
    return cluster


@pytest.fixture
def make(vision, alice, fra) -> Callable[..., Claim]:
    def make_one(state: ClaimState, **fields: Any) -> Claim:
        return make_claim(
            fields.pop("team", vision), by=fields.pop("by", alice), cluster=fra, state=state, **fields
        )

    return make_one


@pytest.fixture
def page(client) -> Callable[..., str]:
    def get(user: Any, address: str = HOME) -> str:
        client.force_login(user)
        response = client.get(address)
        assert response.status_code == 200
        text: str = response.content.decode()
        return text

    return get


def test_engineer_sees_needs_with_actions(make, page, alice):
    now = timezone.now()
    make(ClaimState.PROVISIONED, name="depth-sweep", expires_at=now + 48 * HOUR)
    make(ClaimState.REQUESTED, name="occ-pretrain", created_at=now - 17 * HOUR)
    make(ClaimState.ALLOCATED, name="night-run", expires_at=now + 5 * HOUR)
    make(ClaimState.APPROVED, name="blocked", problem="exceeded quota: gpus, limited: 8.")
    text = page(alice)
    for said in (
        "depth-sweep waits for a pod",
        "Get the manifest",
        "occ-pretrain has been waiting for approval for 17 h",
        "Withdraw…",
        "night-run expires in 4 h 59 min",
        "blocked has a problem",
        "exceeded quota: gpus, limited: 8.",
    ):
        assert said in text
    assert (
        text.index("blocked has a problem")
        < text.index("night-run expires")
        < text.index("depth-sweep waits")
    )


def test_grace_is_named_beside_each_end(make, page, alice, vision):
    later, over = timezone.now() + timedelta(hours=3), timezone.now() - timedelta(minutes=30)
    lenient = make_profile("lenient", grace=timedelta(hours=2))
    make(ClaimState.PROVISIONED, name="runs", profile=lenient, expires_at=later)
    make(ClaimState.PROVISIONED, name="over", profile=lenient, expires_at=over)
    make(ClaimState.PROVISIONED, name="strict", profile=make_profile("strict"), expires_at=later)
    for address in (HOME, reverse("team", args=[vision.slug])):
        text = page(alice, address)
        assert text.count("then 2 h of grace</span>") == 1
        assert len(re.findall(r"grace ends <time[^>]*>in 1 h \d+ min", text)) == 1


@pytest.mark.parametrize(
    ("duration", "left", "is_shown"),
    [
        (24 * HOUR, 6.1 * HOUR, False),
        (24 * HOUR, 5.9 * HOUR, True),
        (4 * HOUR, 1.1 * HOUR, False),
        (4 * HOUR, 0.9 * HOUR, True),
        (10 * 24 * HOUR, 24.1 * HOUR, False),
        (10 * 24 * HOUR, 23.9 * HOUR, True),
    ],
)
def test_expiry_is_a_need_in_the_last_quarter_or_day(make, page, alice, duration, left, is_shown):
    make(ClaimState.ALLOCATED, name="run", duration=duration, expires_at=timezone.now() + left)
    assert ("run expires in" in page(alice)) is is_shown


def test_least_time_left_for_its_duration_comes_first_with_extend(make, page, alice):
    now = timezone.now()
    for name, duration, left in (
        ("long", 240 * HOUR, 20 * HOUR),
        ("short", 4 * HOUR, 0.1 * HOUR),
        ("over", 24 * HOUR, -0.1 * HOUR),
        ("day", 24 * HOUR, 5 * HOUR),
    ):
        make(ClaimState.ALLOCATED, name=name, duration=duration, expires_at=now + left)
    text = page(alice)
    titles = re.findall(r">(\w+) (?:expires in|expired)", text)
    assert titles == ["over", "short", "long", "day"]
    needs = text[: text.index('id="mine-title"')]
    actions = re.findall(r'<a class="btn btn-sm[^>]*>([^<]+)</a>', needs)
    assert actions == ["Extend…", "Release…"] * 4


def test_open_question_is_a_need_of_the_requester(make, page, alice, lena):
    claim = make(ClaimState.REQUESTED, name="occ", created_at=timezone.now() - 17 * HOUR)
    comment_on_claim(claim=claim, by=lena, text="Would one device do?", key="q")
    text = page(alice)
    assert "occ: an approver has a question" in text
    assert "Would one device do?" in text
    assert f'href="{reverse("claims:detail", args=[claim.pk])}#thread">Answer</a>' in text
    assert "has been waiting for approval" not in text
    comment_on_claim(claim=claim, by=alice, text="Yes.", key="a")
    text = page(alice)
    assert "has a question" not in text
    assert "occ has been waiting for approval" in text


def test_idle_claim_shows_duration_and_cost(make, page, alice):
    price("0.55")
    claim = make(ClaimState.ALLOCATED, held=False, name="notebook", expires_at=timezone.now() + 90 * HOUR)
    held = hold(claim, timezone.now() - 3 * HOUR)
    measure(held, bucket_start(timezone.now()) - 24 * BUCKET, [0.01] * 24)
    text = page(alice)
    assert "notebook has been idle for 2 h" in text
    assert "It costs €0.55 per hour." in text


def test_idle_claim_can_be_released_or_snoozed_and_is_then_left_alone(make, page, client, alice):
    def actions():
        text = page(alice)
        return re.findall(r">(Open|Release…|Snooze[^<]*)<", text[: text.index('id="mine-title"')])

    claim = make(ClaimState.ALLOCATED, held=False, name="notebook", expires_at=timezone.now() + 90 * HOUR)
    held = hold(claim, timezone.now() - 3 * HOUR)
    measure(held, bucket_start(timezone.now()) - 24 * BUCKET, [0.01] * 24)
    assert actions() == ["Release…"]  # the idle time is not recorded yet
    now = timezone.now()
    period = IdlePeriod.objects.create(
        claim=claim, team=claim.team, since=now - 2 * HOUR, noticed_at=now, devices=1
    )
    policy = IdlePolicy.load()
    assert actions() == ["Release…", f"Snooze for {times.duration(policy.snooze_for)}"]
    answer = client.post(reverse("usage:snooze", args=[claim.pk]), follow=True)
    assert "notebook is snoozed until" in answer.text
    assert actions() == []
    assert "notebook has been idle" not in page(alice)
    period.refresh_from_db()
    period.snoozed_until, period.snoozes = timezone.now() - HOUR, policy.snoozes
    period.save()
    assert actions() == ["Release…"]


def test_use_of_the_last_two_hours_is_drawn_with_its_gaps(make, page, alice):
    claim = make(ClaimState.ALLOCATED, held=False, name="train", expires_at=timezone.now() + 90 * HOUR)
    held, now = hold(claim, timezone.now() - 3 * HOUR), bucket_start(timezone.now())
    measure(held, now - 12 * BUCKET, [0.5] * 3)
    measure(held, now - 3 * BUCKET, [0.9] * 3)
    text = page(alice)
    assert "Utilization of train in the last 2 hours" in text
    assert len(re.findall("<polyline", text)) == 2


def test_words_of_a_claim_that_does_little_now_are_not_green(make, page, alice):
    claim = make(ClaimState.ALLOCATED, held=False, name="notebook", expires_at=timezone.now() + 90 * HOUR)
    measure(hold(claim, timezone.now() - HOUR), bucket_start(timezone.now()) - BUCKET, [0.04])
    text = page(alice)
    assert '<span class="dg-badge over quiet">' in text
    assert "In use 4 %" in text
    assert "dg-good" not in text


def test_claim_appears_once_for_most_urgent_need(make, page, alice):
    claim = make(ClaimState.ALLOCATED, held=False, name="notebook", expires_at=timezone.now() + HOUR)
    measure(hold(claim, timezone.now() - 3 * HOUR), bucket_start(timezone.now()) - 24 * BUCKET, [0.01] * 24)
    text = page(alice)
    assert "notebook expires in" in text
    assert "notebook has been idle" not in text


def test_empty_home_shows_next_step(page, alice, vision):
    text = page(alice)
    assert "Nothing needs you." in text
    assert "Three steps to a GPU" in text
    assert "You are in Vision. Claims count against its quota." in text
    assert reverse("claims:catalogue") in text


def test_user_without_team_learns_how_to_join(page, db):
    text = page(make_user("eve"))
    assert "Three steps to a GPU" in text
    assert "You are in no team yet. Ask the owner of a team to add you by your user name, eve." in text
    assert "New request" not in text


def test_first_steps_are_gone_with_the_first_claim(make, page, alice):
    make(ClaimState.REQUESTED)
    assert "Three steps to a GPU" not in page(alice)


def test_missing_metric_is_no_telemetry_and_missing_price_no_rate(make, page, alice):
    hold(make(ClaimState.ALLOCATED, held=False, expires_at=timezone.now() + 90 * HOUR), timezone.now() - HOUR)
    text = page(alice)
    assert "No telemetry" in text
    assert "no rate" in text
    assert "€0" not in text
    assert "0 %" not in text


def test_my_claims_exclude_others_and_long_closed(make, page, alice, lena):
    make(ClaimState.ALLOCATED, by=lena, name="not-mine")
    make(ClaimState.RELEASED, name="long-past", state_since=timezone.now() - timedelta(days=8))
    make(ClaimState.RELEASED, name="of-late", state_since=timezone.now() - timedelta(days=6))
    text = page(alice)
    assert "not-mine" not in text
    assert "long-past" not in text
    assert "of-late" in text


def test_lead_sees_inbox_first_with_age_of_oldest(make, page, lena, alice):
    make(ClaimState.REQUESTED, created_at=timezone.now() - 30 * HOUR)
    make(ClaimState.REQUESTED)
    text = page(lena)
    assert "2 requests wait for your decision" in text
    assert "The oldest has waited for 1 d 6 h." in text
    assert reverse("claims:approvals") in text
    assert "wait for your decision" not in page(alice)


def test_viewer_gets_no_request_button_and_learns_which_role_requests(make, page, vision):
    make_profile("train-80")
    text = page(make_user("bob"))
    assert "New request" not in text
    assert "You are a viewer of Vision and cannot request devices." in text
    free = text[text.index('id="free-title"') :]
    assert "You need the role “member” in a team to request devices." in free
    assert "0 of 0" not in free


def test_fifth_need_and_later_ones_are_folded(make, page, alice):
    for number in range(7):
        make(ClaimState.PROVISIONED, name=f"run-{number}")
    text = page(alice)
    needs = text[text.index('id="needs-title"') : text.index('id="mine-title"')]
    shown, folded = needs.split("<details>")
    assert shown.count("waits for a pod") == 4
    assert "3 more</summary>" in folded
    assert folded.count("waits for a pod") == 3
    assert needs.count("</details>") == 1


def test_four_needs_are_not_folded(make, page, alice):
    for number in range(4):
        make(ClaimState.PROVISIONED, name=f"run-{number}")
    text = page(alice)
    assert "<details>" not in text[text.index('id="needs-title"') : text.index('id="mine-title"')]


def test_each_quota_has_the_name_that_the_page_of_quotas_gives_it(page, alice, vision):
    make_quota(vision, 8)
    make_quota(vision, 4, device_class="", profile=make_profile("train-80"))
    Quota.objects.create(team=vision, devices=3, counts=Quota.Counts.CLAIMS)
    names = ("<code>gpu.nvidia.com</code>", 'Train 80 <span class="dg-tag">profile</span>')
    addresses = (HOME, "/teams/vision/", "/claims/request/", "/quotas/")
    for text in (page(alice, address) for address in addresses):
        for name in (*names, "Claims at once"):
            assert f">{name}<" in text


def test_spend_and_quota_of_current_team_are_links(make, page, alice, vision):
    price("3")
    make_quota(vision, 8)
    hold(make(ClaimState.ALLOCATED, held=False, devices=2), timezone.now() - timedelta(minutes=20))
    text = page(alice)
    assert "Quota of Vision" in text
    assert "vision holds 2 of 8 gpu.nvidia.com devices" in text
    assert '<b class="dg-bb">6</b> <span class="dg-2">free of 8</span>' in text
    assert f"Spend in {timezone.now():%B}" in text
    cost = reverse("usage:team", args=["vision"])
    assert f'<a class="dg-link dg-fig" href="{cost}">€1</a>' in text
    assert f'<a class="dg-link" href="{cost}#by-person">' in text


def menu_of(text: str, name: str) -> list[str]:
    """Return the labels of the menu of a claim on Home."""
    parts = re.search(f'aria-label="Actions on {name}".*?<div class="dg-pop">(.*?)</div>', text, re.DOTALL)
    return re.findall(r"</svg>([^<]*)</a>", parts[1]) if parts else []


@pytest.mark.parametrize(
    ("state", "fields", "labels"),
    [
        (ClaimState.REQUESTED, {}, ["Withdraw…"]),
        (ClaimState.APPROVED, {}, ["Extend…", "Shorten…", "Transfer…", "Release…"]),
        (ClaimState.ALLOCATED, {}, ["Get the manifest", "Extend…", "Shorten…", "Transfer…", "Release…"]),
        (ClaimState.ALLOCATED, {"left": -1}, ["Get the manifest", "Extend…", "Transfer…", "Release…"]),
        (ClaimState.ALLOCATED, {"left": None}, ["Get the manifest", "Transfer…", "Release…"]),
        (ClaimState.RELEASING, {}, []),
        (ClaimState.DENIED, {}, []),
    ],
)
def test_menu_of_a_claim_has_what_its_state_allows(make, page, alice, state, fields, labels):
    left = fields.get("left", 30)
    make(state, name="flow", expires_at=None if left is None else timezone.now() + left * HOUR)
    assert menu_of(page(alice), "flow") == labels


def test_menu_is_empty_for_a_former_member_and_a_replaced_claim_is_not_extended(make, page, alice, vision):
    old = make(ClaimState.ALLOCATED, name="old", expires_at=timezone.now() + 30 * HOUR)
    make(ClaimState.REQUESTED, name="new", replaces=old)
    assert menu_of(page(alice), "old") == ["Get the manifest", "Shorten…", "Transfer…", "Release…"]
    vision.memberships.filter(user=alice).update(role=Role.VIEWER)
    assert menu_of(page(alice), "old") == []


def test_free_profiles_show_their_typical_wait(make, page, alice, vision):
    make_quota(vision, 8)
    profile = make_profile("train")
    ProfileWaits.objects.create(
        profile=profile,
        computed_at=timezone.now(),
        devices=9,
        device_median=timedelta(minutes=6),
        device_p90=HOUR,
    )
    make_profile("other")
    (said,) = re.findall(r">wait ([^<]*)<", page(alice))
    assert said == "6 min"


def test_free_devices_are_listed_per_profile_with_request_link(make, page, alice, vision, fra):
    make_quota(vision, 8)
    make_profile("train-80")
    make_profile("closed", teams=(make_team("nlp"),))
    text = page(alice)
    assert "Train 80" in text
    assert "?profile=train-80" in text
    assert "Closed" not in text


def test_six_profiles_are_shown_first_those_in_use_then_those_open_to_the_reader(make, page, alice, vision):
    make_quota(vision, 8)
    nlp = make_team("nlp", members=(alice,))
    for number in range(6):
        make_profile(f"open-{number}")
    make_profile("aside", teams=(nlp,))  # nlp has no namespace
    make(ClaimState.ALLOCATED, profile=make_profile("zeta"))
    text = page(alice)
    free = text[text.index('id="free-title"') :]
    shown = re.findall(r'href="/claims/request/\?profile=([\w-]+)"', free)
    assert shown == ["zeta", "open-0", "open-1", "open-2", "open-3", "open-4"]
    assert "All 8 profiles" in free


def test_six_claims_are_shown_and_the_number_of_all(make, page, alice):
    make(ClaimState.REQUESTED, name="run-0")
    for number in range(1, 8):
        claim = make(ClaimState.ALLOCATED, name=f"run-{number}")
        Claim.objects.filter(pk=claim.pk).update(expires_at=timezone.now() + (9 - number) * HOUR)
    text = page(alice)
    mine = text[text.index('id="mine-title"') : text.index('id="free-title"')]
    assert re.findall(r">(run-\d)</a>", mine) == ["run-7", "run-6", "run-5", "run-4", "run-3", "run-2"]
    assert "The first 6 of 8: claims that hold devices first" in mine


def test_anonymous_is_redirected(client):
    for address in (HOME, LIVE):
        assert client.get(address).status_code == 302


def test_live_part_is_304_until_home_changes(make, client, alice):
    claim = make(ClaimState.PROVISIONED, name="depth-sweep")
    client.force_login(alice)
    first = client.get(LIVE)
    assert first.status_code == 200
    assert "<!doctype" not in first.content.decode()
    again = client.get(LIVE, headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    claim.advance(ClaimState.ALLOCATED, why="a pod came")
    moved = client.get(LIVE, headers={"If-None-Match": first["ETag"]})
    assert moved.status_code == 200
    assert moved["ETag"] != first["ETag"]


def test_page_has_etag_of_first_poll(make, client, alice):
    make(ClaimState.PROVISIONED)
    client.force_login(alice)
    tag = client.get(LIVE)["ETag"].strip('"')
    assert f'data-etag="&quot;{tag}&quot;"' in client.get(HOME).content.decode()


@pytest.mark.parametrize("address", [HOME, LIVE])
def test_home_queries_do_not_grow_with_claims(make, client, alice, address, django_assert_max_num_queries):
    def one_more() -> None:
        claim = make(ClaimState.ALLOCATED, held=False, expires_at=timezone.now() + HOUR)
        measure(hold(claim, timezone.now() - HOUR), bucket_start(timezone.now()) - 3 * BUCKET, [0.5] * 3)

    one_more()
    client.force_login(alice)
    client.get(address)
    with django_assert_max_num_queries(60) as one:
        client.get(address)
    for _ in range(9):
        one_more()
    with django_assert_max_num_queries(len(one)):
        client.get(address)


def test_every_change_reaches_a_home_that_polls(make, client, alice, lena, vision, fra):
    """What the stamp stands for: claims, problems, ends, telemetry, rates, the inbox and the teams."""
    claim = make(ClaimState.ALLOCATED, held=False, expires_at=timezone.now() + 30 * HOUR)
    allocation = hold(claim, timezone.now() - HOUR)
    client.force_login(alice)

    def busy() -> None:
        measure(allocation, bucket_start(timezone.now()) - 2 * BUCKET, [0.9, 0.9])
        Collection.objects.update_or_create(cluster=fra, defaults={"sampled_at": timezone.now()})

    claims: list[Claim] = []
    changes: list[Callable[[], object]] = [
        lambda: claims.append(make(ClaimState.REQUESTED)),
        lambda: Claim.objects.filter(pk=claim.pk).update(problem="The node is gone."),
        lambda: Claim.objects.filter(pk=claim.pk).update(expires_at=timezone.now() + HOUR),
        busy,
        lambda: price("5.00"),
        lambda: comment_on_claim(claim=claims[0], by=lena, text="Why?", key="q"),
        lambda: make(ClaimState.RELEASED),
        lambda: vision.memberships.filter(user=alice).delete(),
    ]
    tag = client.get(LIVE)["ETag"]
    for number, change in enumerate(changes):
        assert client.get(LIVE, headers={"If-None-Match": tag}).status_code == 304, number
        change()
        moved = client.get(LIVE, headers={"If-None-Match": tag})
        assert moved.status_code == 200, number
        tag = moved["ETag"]


def test_a_home_whose_stamp_alone_is_new_hears_the_new_tag(make, client, alice, fra):
    make(ClaimState.PROVISIONED)
    client.force_login(alice)
    first = client.get(LIVE)["ETag"]
    Collection.objects.create(cluster=fra, sampled_at=timezone.now())
    again = client.get(LIVE, headers={"If-None-Match": first})
    assert (again.status_code, again.content) == (304, b"")
    assert again["ETag"] != first
