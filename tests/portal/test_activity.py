"""The record of a team and of all teams: what is in it, who reads it, filters, pages, CSV and API."""

from __future__ import annotations

import csv
import io
from datetime import timedelta

import pytest
from django.utils import timezone

from claims.lifecycle.services import withdraw
from claims.models import Transition
from claims.quotas.services import request_quota, set_quota
from claims.states import ClaimState
from core.origin import Origin, OriginMiddleware, Source, current_origin
from portal.activity.entries import Filter, all_entries, read_entries
from teams.models import AuditEntry, Role, record_change
from teams.services import add_member
from teams.tokens import create_token
from tests.factories import (
    GPU_CLASS,
    changing_the_log,
    make_claim,
    make_cluster,
    make_profile,
    make_team,
    make_user,
)

pytestmark = pytest.mark.django_db
TEAM, PLATFORM, API = "/teams/vision/activity/", "/activity/", "/api/v1/activity/"


@pytest.fixture
def root():
    return make_user("root", admin=True)


@pytest.fixture
def alice():
    return make_user("alice")


@pytest.fixture
def vision(alice):
    return make_team("vision", members=(alice,), viewers=(make_user("vera"),))


@pytest.fixture
def fra(vision):
    return make_cluster("fra-1", teams=(vision,))


@pytest.fixture
def reads(client):
    """Return the page as this person sees it."""

    def page(person, address=TEAM):
        client.force_login(person)
        return client.get(address)

    return page


def rows(page):
    return [entry for _day, entries, _number in page.context["days"] for entry in entries]


def words(page):
    return [(entry.who, entry.verb, entry.name, entry.text) for entry in rows(page)]


# Who reads it.


def test_each_day_says_how_many_entries_it_has(reads, alice, vision, monkeypatch):
    for number in range(3):
        record_change(by=alice, of=vision, change=f"changed {number}")

    def numbers():
        return [(len(entries), number) for _day, entries, number in reads(alice).context["days"]]

    assert numbers() == [(3, "3")]
    monkeypatch.setattr("portal.activity.views.PER_PAGE", 2)
    assert numbers() == [(2, "2+")]


def test_every_member_reads_the_activity_of_the_team(reads, vision, alice):
    assert reads(make_user("vera")).status_code == 200
    assert reads(alice).status_code == 200


def test_outsiders_learn_of_no_team_and_members_of_no_platform(reads, vision, alice, client):
    eve = make_user("eve")
    assert reads(eve).status_code == 404
    assert reads(alice, PLATFORM).status_code == 403
    client.force_login(eve)
    assert client.get(API, {"team": "vision"}).status_code == 422


def test_a_team_does_not_show_entries_of_others_and_the_platform_shows_all(reads, root, vision, alice):
    nlp = make_team("nlp")
    set_quota(by=root, team=vision, device_class=GPU_CLASS, devices=8)
    set_quota(by=root, team=nlp, device_class=GPU_CLASS, devices=9)
    create_token(by=alice, title="laptop")
    assert [entry.team for entry in rows(reads(alice))] == ["vision"]
    assert [entry.team for entry in rows(reads(root, PLATFORM))] == ["", "nlp", "vision"]
    other = AuditEntry.objects.get(team=nlp)
    assert reads(alice, f"{TEAM}?entry=c{other.pk.hex}").status_code == 404


def test_api_without_a_team_has_the_entries_of_the_readers_teams(client, root, vision, alice):
    for team in (vision, make_team("nlp"), make_team("speech", viewers=(alice,))):
        set_quota(by=root, team=team, device_class=GPU_CLASS, devices=8)
    create_token(by=alice, title="laptop")
    read = {}
    for person in (alice, root, make_user("eve")):
        client.force_login(person)
        read[person.username] = [row["team"] for row in client.get(API).json()["results"]]
    assert read == {"alice": ["speech", "vision"], "root": ["", "speech", "nlp", "vision"], "eve": []}


# What stands in it, and from where it came.


def test_writes_of_pages_tokens_and_the_portal_are_told_apart(client, reads, root, vision, fra, alice):
    claim = make_claim(vision, by=alice, cluster=fra, name="bev-train", state=ClaimState.REQUESTED)
    client.force_login(alice)
    client.post(f"/claims/{claim.pk}/withdraw/", {"reason": "Not needed."})
    other = make_claim(vision, by=alice, cluster=fra, name="other", state=ClaimState.REQUESTED)
    _row, text = create_token(by=alice, title="ci-vision")
    client.logout()
    answer = client.post(
        f"/api/v1/claims/{other.pk}/withdraw/",
        {},
        "application/json",
        headers={"Authorization": f"Bearer {text}"},
    )
    assert answer.status_code == 200, answer.text
    third = make_claim(vision, by=alice, cluster=fra, name="third", state=ClaimState.REQUESTED)
    third.advance(ClaimState.EXPIRED, why="Nobody decided in time.")
    page = reads(alice)
    found = {
        entry.name: (entry.who, entry.source, entry.place)
        for entry in rows(page)
        if entry.verb != "requested"
    }
    assert found == {
        "bev-train": ("alice", Source.WEB, ""),
        "other": ("alice", Source.TOKEN, "ci-vision"),
        "third": ("The portal", Source.SYSTEM, ""),
    }
    assert "ci-vision" in page.text


def test_what_nobody_did_comes_from_the_system_in_a_request_too(alice, rf):
    seen = []
    OriginMiddleware(lambda _request: seen.append((current_origin(by=alice), current_origin(by=None))))(
        rf.get("/")
    )
    assert seen == [(Origin(Source.WEB), Origin(Source.SYSTEM))]


def test_the_origin_of_a_request_ends_with_it(client, vision, fra, alice):
    client.force_login(alice)
    client.get("/claims/")
    claim = make_claim(vision, by=alice, cluster=fra, state=ClaimState.REQUESTED)
    withdraw(claim=claim, by=alice, reason="")
    assert Transition.objects.filter(claim=claim, new=ClaimState.WITHDRAWN).get().source == Source.SYSTEM


def test_what_the_cluster_did_names_it(reads, vision, fra, alice):
    claim = make_claim(vision, by=alice, cluster=fra, state=ClaimState.PROVISIONED)
    claim.advance(ClaimState.ALLOCATED, why="The scheduler allocated 1 device.", source=Source.CLUSTER)
    newest = rows(reads(alice))[0]
    assert (newest.who, newest.verb, newest.place) == ("Kubernetes", "allocated devices", "fra-1")


def test_an_entry_opens_in_place_with_before_and_after(reads, root, vision, alice):
    set_quota(by=root, team=vision, device_class=GPU_CLASS, devices=8)
    set_quota(by=root, team=vision, device_class=GPU_CLASS, devices=12)
    newest = rows(reads(alice))[0]
    assert (newest.text, newest.values) == ("limit 8 → 12", [("limit", "8", "12")])
    closed, opened = reads(alice).text, reads(alice, f"{TEAM}?open={newest.id}").text
    assert ">Before<" not in closed
    assert ">Before<" in opened
    alone = reads(alice, f"{TEAM}?entry={newest.id}")
    assert [entry.id for entry in rows(alone)] == [newest.id]
    assert ">Before<" in alone.text


def test_moving_the_end_of_a_claim_has_both_ends(reads, vision, fra, alice):
    claim = make_claim(vision, by=alice, cluster=fra, state=ClaimState.PROVISIONED)
    claim.remark("Extended.", by=alice, expires_at=claim.expires_at + timedelta(days=1))
    [(what, before, after)] = rows(reads(alice))[0].values
    assert (what, before.endswith("UTC"), after.endswith("UTC"), before != after) == ("End", True, True, True)


@pytest.mark.parametrize(
    ("action", "verb"),
    [
        ("claim.extension_requested", "requested an extension"),
        ("claim.extension_denied", "denied an extension"),
        ("claim.transferred", "transferred"),
        ("claim.idle", "notified"),
        ("claim.reminded", "sent a reminder"),
        ("claim.evicted", "announced the eviction of pods"),
        ("claim.changed", "changed"),
    ],
)
def test_a_remark_on_a_claim_has_the_verb_of_what_was_done(reads, vision, fra, alice, action, verb):
    claim = make_claim(vision, by=alice, cluster=fra, state=ClaimState.PROVISIONED)
    claim.remark("Extended by mistake, as anybody may write.", by=alice, action=action)
    assert rows(reads(alice))[0].verb == verb


def test_an_entry_that_does_not_exist_is_404(reads, vision, alice):
    for entry in ("t0", "t99999999999999999999", f"c{'0' * 32}", "x", "c1", "t²"):
        assert reads(alice, f"{TEAM}?entry={entry}").status_code == 404, entry


def test_times_in_texts_are_shown_in_the_readers_zone(reads, root, vision, alice):
    AuditEntry.objects.create(
        by=root,
        team=vision,
        kind="quota",
        object_id="1",
        name="vision",
        text="until Fri 20 Nov 2026, 17:00 UTC",
    )
    alice.timezone = "Europe/Berlin"
    alice.save(update_fields=["timezone"])
    assert "Fri 20 Nov 2026, 18:00</time>" in reads(alice).text
    assert "18:00 CET" in "".join(
        part.decode() for part in reads(alice, f"{TEAM}?format=csv").streaming_content
    )


# Filters.


@pytest.fixture
def busy(root, vision, fra, alice):
    """Something of every kind."""
    claim = make_claim(vision, by=alice, cluster=fra, name="bev-train", state=ClaimState.REQUESTED)
    withdraw(claim=claim, by=alice, reason="Not needed.")
    set_quota(by=root, team=vision, device_class=GPU_CLASS, devices=8)
    make_user("noor")
    add_member(by=root, team=vision, username="noor", role=Role.MEMBER)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("who=alice", ["bev-train", "bev-train"]),
        ("who=ALICE&action=end", ["bev-train"]),
        ("who=al", []),
        ("action=quota", ["vision"]),
        ("action=people", ["vision"]),
        ("action=request", ["bev-train"]),
        ("source=web", []),
        ("q=needed", ["bev-train"]),
        ("q=noor", ["vision"]),
        ("since=2020-01-01&until=2020-01-02", []),
        ("range=24h&action=end", ["bev-train"]),
    ],
)
def test_each_filter_restricts_the_list(reads, busy, alice, query, names):
    assert [entry.name.split(":")[0] for entry in rows(reads(alice, f"{TEAM}?{query}"))] == names


def test_the_range_is_seven_days_unless_another_is_chosen(reads, busy, alice):
    Transition.objects.update(at=timezone.now() - timedelta(days=8))
    with changing_the_log():
        AuditEntry.objects.update(at=timezone.now() - timedelta(days=8))
    assert rows(reads(alice)) == []
    assert len(rows(reads(alice, f"{TEAM}?range=30d"))) == 4
    assert len(rows(reads(alice, f"{TEAM}?since=2000-01-01"))) == 4


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("since=2026-11-20&until=2026-11-19", "before it begins"),
        ("since=yesterday", "Enter a valid date."),
        ("since=0001-01-01", "A date lies between"),
        ("until=9999-12-31", "A date lies between"),
        ("action=nothing", "Select a valid choice"),
        ("q=%00", "Null characters are not allowed."),
    ],
)
def test_a_filter_that_makes_no_sense_is_answered_with_a_sentence(reads, vision, alice, query, sentence):
    page = reads(alice, f"{TEAM}?{query}")
    assert page.status_code == 200
    assert sentence in page.text


def test_a_position_that_makes_no_sense_is_refused(reads, vision, alice):
    for text in ("x", "~t1", "2026-11-20~t1", "2026-11-20T10:00:00+00:00~x", "9999-12-31T23:59:59+00:00~t1"):
        assert reads(alice, f"{TEAM}?before={text.replace('+', '%2B')}").status_code == 422, text


# Pages.


def many(vision, alice, number):
    """Entries of both tables, several at the same time."""
    claim = make_claim(vision, by=alice, cluster=make_cluster("lab", teams=(vision,)))
    now = timezone.now()
    times = [now - timedelta(minutes=index // 3) for index in range(number)]
    Transition.objects.bulk_create(
        Transition(claim=claim, team=vision, old="", new="requested", reason=f"step {index}", by=alice, at=at)
        for index, at in enumerate(times)
    )
    AuditEntry.objects.bulk_create(
        AuditEntry(
            by=alice, team=vision, kind="team", object_id="1", name="vision", text=f"change {index}", at=at
        )
        for index, at in enumerate(times)
    )


def test_pages_show_every_entry_once_newest_first(reads, vision, alice):
    many(vision, alice, 60)
    address, seen = TEAM, []
    while address:
        page = reads(alice, address)
        seen += rows(page)
        address = page.context["older_url"] and TEAM + page.context["older_url"]
    at_once = read_entries(Filter(team=vision.pk), limit=1000)
    assert [entry.id for entry in seen] == [entry.id for entry in at_once]
    assert len({entry.id for entry in seen}) == Transition.objects.count() + 60
    assert [entry.at for entry in seen] == sorted((entry.at for entry in seen), reverse=True)


def test_a_csv_continues_after_each_chunk(vision, alice, monkeypatch):
    many(vision, alice, 20)
    at_once = [entry.id for entry in all_entries(Filter(team=vision.pk))]
    monkeypatch.setattr("portal.activity.entries.CHUNK", 3)
    assert [entry.id for entry in all_entries(Filter(team=vision.pk))] == at_once


def addresses(page):
    return {entry.kind: entry.url for entry in rows(page)}


def test_entries_lead_to_objects_that_the_reader_may_see(reads, vision, alice, root, fra):
    quota = set_quota(team=vision, devices=8, device_class=GPU_CLASS, by=root)
    pending = request_quota(team=vision, by=alice, devices=9, device_class=GPU_CLASS, reason="more", key="k")
    make_user("noor")
    add_member(team=vision, username="noor", role=Role.MEMBER, by=root)
    create_token(by=alice, title="notebook")
    record_change(by=root, of=fra, change="paused")
    record_change(by=root, of=make_profile("train"), change="retired")
    of_team = {
        "quota": f"/quotas/{quota.pk}/",
        "quotarequest": f"/approvals/quota/{pending.pk}/",
        "team": "/teams/vision/",
    }
    assert addresses(reads(alice)) == of_team
    everything = addresses(reads(root, PLATFORM))
    assert everything == of_team | {
        "apitoken": "",  # of somebody else
        "cluster": "/clusters/fra-1/",
        "profile": "/profiles/train/",
    }
    for address in filter(None, everything.values()):
        assert reads(root, address).status_code == 200, address


def test_verbs_name_what_was_requested_and_delegated(reads, vision, alice, root):
    request_quota(team=vision, by=alice, devices=9, device_class=GPU_CLASS, reason="more", key="k")
    AuditEntry.objects.create(
        by=root, team=vision, kind="delegation", object_id="1", name="x", text="delegated approvals to Bea"
    )
    verbs = {entry.kind: entry.verb for entry in rows(reads(alice))}
    assert verbs == {"quotarequest": "requested quota", "delegation": "delegated approvals"}


def test_a_denied_request_for_extra_budget_is_no_quota_request(reads, vision, alice, root):
    AuditEntry.objects.create(
        by=root, team=vision, kind="quotarequest", object_id="1", name="vision: extra budget", text="denied"
    )
    assert rows(reads(alice))[0].verb == "denied a request for extra budget"


def test_entries_of_removed_objects_lead_nowhere(reads, vision, alice, root):
    quota = set_quota(team=vision, devices=8, device_class=GPU_CLASS, by=root)
    quota.delete()
    assert addresses(reads(alice))["quota"] == ""


def test_a_page_needs_the_same_queries_for_one_entry_and_a_hundred(
    client, vision, alice, django_assert_max_num_queries, django_assert_num_queries
):
    client.force_login(alice)
    create = AuditEntry(by=alice, team=vision, kind="team", object_id="1", name="vision", text="one")
    create.save()
    client.get(TEAM)
    with django_assert_max_num_queries(15) as one:
        client.get(TEAM)
    many(vision, alice, 100)
    with django_assert_num_queries(len(one)):
        client.get(TEAM)


def test_csv_has_all_pages_of_what_is_filtered(reads, vision, alice):
    many(vision, alice, 60)
    answer = reads(alice, f"{TEAM}?action=people&format=csv")
    lines = list(csv.reader(io.StringIO("".join(part.decode() for part in answer.streaming_content))))
    assert lines[0][:4] == ["Time", "Who", "Did what", "To what"]
    assert len(lines) == 61


# API.


def test_api_returns_the_same_entries_in_pages(client, vision, alice):
    many(vision, alice, 5)
    client.force_login(alice)
    seen, address = [], f"{API}?team=vision&limit=4"
    while address is not None:
        page = client.get(address).json()
        seen += [row["id"] for row in page["results"]]
        address = page["next"]
    assert seen == [entry.id for entry in read_entries(Filter(team=vision.pk), limit=100)]


def test_api_shows_before_and_after_and_refuses_what_it_does_not_know(client, root, vision):
    set_quota(by=root, team=vision, device_class=GPU_CLASS, devices=8)
    client.force_login(root)
    [row] = client.get(API).json()["results"]
    assert row["values"] == [{"what": "limit", "before": "0", "after": "8"}]
    assert (row["who"], row["source"], row["team"]) == ("root", "system", "vision")
    for query in (
        {"action": "x"},
        {"limit": 0},
        {"team": ""},
        {"since": "x"},
        {"since": "0001-01-01T00:00:00Z"},
        {"colour": "red"},
        {"cursor": "x"},
    ):
        assert client.get(API, query).status_code == 422, query


def test_an_entry_outlives_the_account_of_its_author(reads, root, vision, alice):
    gone = make_user("gone", admin=True)
    add_member(by=gone, team=vision, username=root.username, role=Role.MEMBER)
    gone.delete()
    assert rows(reads(alice))[0].who == "gone"
