"""Entries of the catalogue for one reader, filters and sorting, and profiles over the API."""

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from uuid import uuid4

import pytest
from django.urls import reverse
from rest_framework.test import APIClient

from claims.approvals.rules import Rules
from claims.catalogue.listing import (
    NO_WAITS,
    CatalogueEntry,
    CatalogueFilter,
    DeviceKind,
    WhoApproves,
    approval_in_words,
    catalogue,
    filtered_entries,
    who_approves,
)
from claims.catalogue.waits import Typical, Waits
from claims.models import Approval, ApprovalRule, Profile, ProfileVersion, TeamNamespace
from claims.states import ClaimState
from tests.factories import (
    make_claim,
    make_cluster,
    make_profile,
    make_quota,
    make_spec,
    make_team,
    make_user,
)

pytestmark = pytest.mark.django_db
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
GB = 10**9
CLUSTER = uuid4()
LEAD = "A lead of your team approves."


def kind(memory=80 * GB, product="NVIDIA H100", fraction=1):
    return DeviceKind(CLUSTER, "gpu.nvidia.com", product, Fraction(fraction), memory)


def entry(
    title="Train",
    *,
    kinds=(),
    free=0,
    total=0,
    price=None,
    reason="",
    sometimes_automatic=False,
    wait=None,
    **more,
):
    version = ProfileVersion(spec=make_spec(), max_devices=more.get("max_devices", 1))
    return CatalogueEntry(
        profile=Profile(title=title, slug=title.lower(), use="Long runs."),
        version=version,
        free=free,
        total=total,
        kinds=frozenset(kinds),
        who=WhoApproves(LEAD, (), sometimes_automatic),
        reason=reason,
        price=price,
        waits=NO_WAITS if wait is None else Waits(Typical(), Typical(5, wait, wait)),
    )


@pytest.mark.parametrize(
    ("filters", "fields", "matches"),
    [
        ({}, {}, True),
        ({"memory_gb": 80}, {"kinds": [kind()]}, True),
        ({"memory_gb": 80}, {"kinds": [kind(80 * GB - 1)]}, False),
        ({"memory_gb": 80}, {"kinds": [kind(), kind(24 * GB)]}, False),
        ({"memory_gb": 24}, {"kinds": [kind(), kind(24 * GB)]}, True),
        ({"memory_gb": 1}, {"kinds": [kind(), kind(None)]}, False),
        ({"memory_gb": 1}, {}, False),
        ({"model": "nvidia h100"}, {"kinds": [kind()]}, True),
        ({"model": "NVIDIA"}, {"kinds": [kind()]}, False),
        ({"sharing": "exclusive"}, {"kinds": [kind()]}, True),
        ({"sharing": "partition"}, {"kinds": [kind()]}, False),
        ({"sharing": "partition"}, {"kinds": [kind(fraction="1/2")]}, True),
        ({"price": Decimal(2)}, {"price": Decimal(2)}, True),
        ({"price": Decimal(2)}, {"price": Decimal("2.01")}, False),
        ({"price": Decimal(2)}, {"price": None}, False),
        ({"price": Decimal(0)}, {"price": Decimal(0)}, True),
        ({"free": True}, {"free": 1}, True),
        ({"free": True}, {"free": 0}, False),
        ({"free": True}, {"free": None}, False),
        ({"mine": True}, {"reason": ""}, True),
        ({"mine": True}, {"reason": "No quota."}, False),
        ({"automatic": True}, {"sometimes_automatic": True}, True),
        ({"automatic": True}, {"sometimes_automatic": False}, False),
        ({"words": "LONG train h100"}, {"kinds": [kind()]}, True),
        ({"words": "train l40"}, {"kinds": [kind()]}, False),
        ({"words": "exclusive"}, {}, True),
    ],
)
def test_filter_matches_only_known_values(filters, fields, matches):
    assert CatalogueFilter(**filters).matches(entry(**fields)) is matches


@pytest.mark.parametrize(
    ("sort", "titles"),
    [
        ("title", ["a", "B", "c"]),
        ("free", ["c", "a", "B"]),
        ("price", ["B", "c", "a"]),
        ("memory", ["a", "B", "c"]),
        ("wait", ["c", "B", "a"]),
        ("devices", ["B", "a", "c"]),
    ],
)
def test_sort_puts_the_best_first_and_unknown_values_last(sort, titles):
    shelf = [
        entry("c", free=2, price=Decimal(3), wait=timedelta(0), max_devices=1),
        entry("B", free=None, price=Decimal(0), wait=HOUR, kinds=[kind(24 * GB)], max_devices=8),
        entry("a", free=1, price=None, kinds=[kind()], max_devices=2),
    ]
    assert [one.profile.title for one in filtered_entries(shelf, CatalogueFilter(), sort)] == titles


def test_ties_are_sorted_by_title_ignoring_case():
    shelf = [entry(title, free=1) for title in ("b", "A", "C")]
    for sort in ("free", "price", "wait", "memory", "devices"):
        assert [one.profile.title for one in filtered_entries(shelf, CatalogueFilter(), sort)] == [
            "A",
            "b",
            "C",
        ]


def test_numbers_of_an_entry():
    one = entry(kinds=[kind(), kind(24 * GB, "NVIDIA L4")], free=2, total=5)
    assert (one.held, one.memory, one.max_memory) == (3, 24 * GB, 80 * GB)
    assert one.products == ["NVIDIA H100", "NVIDIA L4"]
    unknown = entry(kinds=[kind(None)], free=None, total=None)
    assert (unknown.held, unknown.memory, unknown.max_memory) == (0, None, None)


# Who approves.


@pytest.mark.parametrize(
    ("approval", "devices", "duration", "expected"),
    [
        (Approval.AUTOMATIC, 4, HOUR, "No approval needed."),
        (Approval.LEAD, 0, HOUR, LEAD),
        (Approval.ADMIN, 0, None, "A platform admin approves."),
        (Approval.BOTH, 0, None, "A lead of your team approves, then a platform admin."),
        (Approval.LEAD, 1, None, f"{LEAD} Up to 1 device needs no approval."),
        (
            Approval.ADMIN,
            2,
            3 * HOUR,
            "A platform admin approves. Up to 2 devices for 3 h need no approval.",
        ),
    ],
)
def test_approval_sentence_has_the_automatic_limits(approval, devices, duration, expected):
    assert approval_in_words(approval, devices, duration) == expected


def test_approval_sentence_names_teams_only_if_they_differ(vision):
    teams = [vision, *(make_team(f"team-{number}") for number in range(5))]
    version = make_profile("one").current
    same = who_approves(version, teams, Rules(teams))
    assert (same.sentence, len(same.of_teams), same.sometimes_automatic) == (LEAD, 6, False)
    ApprovalRule.objects.create(team=teams[1], approval="automatic")
    for team in teams[2:]:
        ApprovalRule.objects.create(team=team, approval="admin")
    found = who_approves(version, teams, Rules(teams))
    assert found.sentence == (
        f"vision: {LEAD} team-0: No approval needed. "
        "team-1, team-2, team-3 and 1 more: A platform admin approves."
    )
    assert found.sometimes_automatic is True
    assert [(one.team, one.approval) for one in found.of_teams][:3] == [
        (teams[0], "lead"),
        (teams[1], "automatic"),
        (teams[2], "admin"),
    ]
    assert who_approves(version, [], Rules([])) == WhoApproves(
        LEAD, (), sometimes_automatic=False, brief="Team lead"
    )


# Why not.


def reason(user, slug="one"):
    return {one.profile.slug: one.reason for one in catalogue(user)}[slug]


def test_each_reason_why_a_profile_may_not_be_requested(vision, alice, eve, root, bob):
    profile = make_profile("one")
    none = "You need the role “member” in a team to request devices. Ask a team owner."
    assert (reason(eve), reason(bob)) == (none, none)
    assert reason(alice) == "Your team has no namespace in any cluster."
    cluster = make_cluster("fra-1", teams=(vision,))
    cluster.enabled = False
    cluster.save(update_fields=["enabled"])
    assert reason(alice) == "Your team has no namespace in any cluster."
    cluster.enabled = True
    cluster.save(update_fields=["enabled"])
    assert reason(alice) == "Your team has no quota for gpu.nvidia.com devices."
    quota = make_quota(vision, 0)
    assert reason(alice) == "Your team has no quota for gpu.nvidia.com devices."
    quota.devices = 1
    quota.save(update_fields=["devices"])
    assert reason(alice) == ""
    make_profile("watch", spec=make_spec(adminAccess=True))
    assert reason(alice, "watch") == (
        "Only a platform admin may request admin access, which includes devices that others hold."
    )
    nlp = make_team("nlp", leads=(lead := make_user("nina"),))
    profile.teams.set([nlp])
    vision.memberships.create(user=lead, role="viewer")
    assert reason(lead) == "Your team has no namespace in any cluster."
    TeamNamespace.objects.create(team=nlp, cluster=cluster, namespace="nlp")
    assert reason(lead) == "Your team has no quota for gpu.nvidia.com devices."
    make_quota(nlp, 1)
    assert reason(lead) == ""
    Profile.objects.filter(pk=profile.pk).update(retired_at="2026-11-01T12:00:00Z")
    assert reason(root) == "This profile is retired."


def test_one_team_needs_quota_for_all_classes_of_a_profile(vision, alice):
    both = {
        "devices": {
            "requests": [
                {"name": "a", "exactly": {"deviceClassName": "gpu.nvidia.com"}},
                {"name": "b", "exactly": {"deviceClassName": "nic.nvidia.com"}},
            ]
        }
    }
    make_profile("one", spec=both, max_devices=2)
    nlp = make_team("nlp", members=(alice,))
    make_cluster("fra-1", teams=(vision, nlp))
    make_quota(vision, 1)
    make_quota(nlp, 1, device_class="nic.nvidia.com")
    missing = "Your team has no quota for gpu.nvidia.com, nic.nvidia.com devices."
    assert reason(alice) == missing
    make_quota(vision, 1, device_class="nic.nvidia.com")
    assert reason(alice) == ""


# By API.


URL = "/api/v1/profiles/"


def api(user):
    made = APIClient()
    made.force_authenticate(user)
    return made


BODY = {
    "slug": "slice",
    "title": "Slice",
    "use": "Small work.",
    "teams": ["vision"],
    "spec": make_spec(),
    "scalable": "gpu",
    "max_devices": 4,
    "default_duration": "24h",
    "max_duration": "7d",
    "grace": "30min",
    "extension": "1d",
    "deliveries": ["template"],
    "approval": "both",
    "automatic_devices": 2,
    "automatic_duration": "2h",
}


def test_api_creates_a_profile_with_every_field(root, vision):
    answer = api(root).post(URL, BODY, format="json")
    assert answer.status_code == 201, answer.json()
    profile = Profile.objects.get()
    version = profile.current
    assert (profile.slug, profile.title, profile.use, list(profile.teams.all())) == (
        "slice",
        "Slice",
        "Small work.",
        [vision],
    )
    assert (version.scalable, version.max_devices, version.deliveries, version.approval) == (
        "gpu",
        4,
        ["template"],
        "both",
    )
    assert (version.default_duration, version.max_duration, version.grace, version.extension) == (
        DAY,
        7 * DAY,
        HOUR / 2,
        DAY,
    )
    assert (version.automatic_devices, version.automatic_duration, version.created_by) == (2, 2 * HOUR, root)


def test_api_dry_run_has_the_changes_and_saves_nothing(root, vision, fra, alice):
    dry = f"{URL}?dry_run=true"
    assert api(root).post(dry, BODY, format="json").json() == {
        "version": 1, "makes_version": True, "restores": False,
        "spec_diff": "", "limits": [], "live_claims": 0, "findings": [],
    }  # fmt: skip
    assert not Profile.objects.exists()
    api(root).post(URL, BODY, format="json")
    profile = Profile.objects.select_related("current").get()
    for state in (ClaimState.REQUESTED, ClaimState.ALLOCATED, ClaimState.RELEASED):
        make_claim(vision, by=alice, cluster=fra, profile=profile, state=state)
    same = {name: value for name, value in BODY.items() if name != "slug"}
    expected = api(root).put(f"{URL}slice/?dry_run=true", same, format="json").json()
    assert expected == {
        "version": 1, "makes_version": False, "restores": False,
        "spec_diff": "", "limits": [], "live_claims": 2, "findings": [],
    }  # fmt: skip
    changed = {**same, "max_devices": 3, "grace": "0h", "title": "Other"}
    expected = api(root).put(f"{URL}slice/?dry_run=true", changed, format="json").json()
    assert (expected["version"], expected["makes_version"], expected["live_claims"]) == (2, True, 2)
    assert expected["limits"] == [
        {"limit": "Max devices", "before": "4", "after": "3"},
        {"limit": "Grace period", "before": "30 min", "after": "none"},
    ]
    assert Profile.objects.get().title == "Slice"
    assert ProfileVersion.objects.count() == 1


def test_api_versions_have_current_and_claim_count(root, vision, fra, alice):
    api(root).post(URL, BODY, format="json")
    profile = Profile.objects.select_related("current").get()
    make_claim(vision, by=alice, cluster=fra, profile=profile, state=ClaimState.RELEASED)
    changed = {name: value for name, value in BODY.items() if name != "slug"} | {"max_devices": 3}
    assert api(root).put(f"{URL}slice/", {**changed, "base": 1}, format="json").status_code == 200
    late = api(root).put(f"{URL}slice/", {**changed, "max_devices": 2, "base": 1}, format="json")
    assert late.status_code == 409
    rows = api(alice).get(f"{URL}slice/versions/").json()["results"]
    assert [(row["number"], row["current"], row["claims"]) for row in rows] == [(2, True, 0), (1, False, 1)]


@pytest.mark.parametrize("who", ["alice", "lena"])
def test_only_platform_admin_writes_profiles_by_api(request, who, vision):
    make_profile("one")
    writer = api(request.getfixturevalue(who))
    change = {name: value for name, value in BODY.items() if name != "slug"}
    answers = [
        writer.post(URL, BODY, format="json"),
        writer.put(f"{URL}one/", change, format="json"),
        writer.post(f"{URL}one/retire/"),
        writer.post(f"{URL}one/restore/"),
    ]
    assert [answer.status_code for answer in answers] == [403] * 4
    assert Profile.objects.get().retired_at is None


def test_api_retires_and_restores_a_profile(root, vision):
    make_profile("one")
    assert api(root).post(f"{URL}one/retire/").status_code == 200
    assert Profile.objects.get().retired_at is not None
    assert api(root).post(f"{URL}one/restore/").status_code == 200
    assert Profile.objects.get().retired_at is None
    assert api(root).post(f"{URL}none/retire/").status_code == 404


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"max_devices": 0}, "max_devices"),
        ({"max_devices": 1025}, "max_devices"),
        ({"automatic_devices": 1025}, "automatic_devices"),
        ({"default_duration": "8d"}, "default_duration"),
        ({"title": "t" * 81}, "title"),
        ({"teams": ["none"]}, "teams"),
        ({"deliveries": ["pigeon"]}, "deliveries"),
        ({"base": 0}, "base"),
    ],
)
def test_malformed_value_is_named_by_its_field(root, vision, change, name):
    answer = api(root).post(URL, {**BODY, **change}, format="json")
    assert answer.status_code == 422
    assert name in str(answer.json())
    assert not Profile.objects.exists()


def test_default_duration_may_equal_the_max_duration(root, vision):
    assert api(root).post(URL, {**BODY, "default_duration": "7d"}, format="json").status_code == 201


# The list for platform admins.


def test_list_of_profiles_has_live_claims_and_retired_ones_last(client, root, vision, fra, alice):
    for slug in ("b", "a", "old", "older"):
        make_profile(slug)
    Profile.objects.filter(slug="old").update(retired_at="2026-11-02T12:00:00Z")
    Profile.objects.filter(slug="older").update(retired_at="2026-11-01T12:00:00Z")
    profile = Profile.objects.select_related("current").get(slug="a")
    for state in (ClaimState.REQUESTED, ClaimState.ALLOCATED, ClaimState.RELEASED, ClaimState.DENIED):
        make_claim(vision, by=alice, cluster=fra, profile=profile, state=state)
    client.force_login(root)
    rows = client.get(reverse("claims:profiles")).context["listing"].page.object_list
    assert [(row.slug, row.live) for row in rows] == [("a", 2), ("b", 0), ("old", 0), ("older", 0)]
