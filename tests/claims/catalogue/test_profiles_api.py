"""Profiles over the API: filters, and what platform admins write."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from claims.catalogue.services import retire_profile
from claims.models import Profile
from claims.states import ClaimState
from tests.claims.requests.test_match_pages import mirrored
from tests.dra.clusters import gpu
from tests.factories import make_claim, make_profile, make_spec, make_team

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_availability")]

URL = "/api/v1/profiles/"
COUNTED_IN_WORDS = {"name": "a", "exactly": {"deviceClassName": "a", "count": "two"}}


def client(user) -> APIClient:
    made = APIClient()
    made.force_authenticate(user)
    return made


@pytest.fixture
def new():
    return {
        "slug": "slice",
        "title": "Slice",
        "use": "Small work.",
        "teams": [],
        "spec": make_spec(),
        "scalable": "gpu",
        "max_devices": 4,
        "default_duration": "24h",
        "max_duration": "7d",
        "grace": "30min",
        "extension": "1d",
        "approval": "both",
    }


@pytest.fixture
def change(new):
    """Return the body of a PUT: the slug stands in the address."""
    return {name: value for name, value in new.items() if name != "slug"}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("memory=24", {"train-80"}),
        ("memory=86", set()),
        ("model=nvidia+h100+80gb+hbm3", {"train-80"}),
        ("sharing=exclusive", {"train-80", "closed"}),
        ("sharing=mps", set()),
        ("price=5", set()),
        ("free=true", {"train-80"}),
        ("mine=true", {"train-80"}),
        ("automatic=true", {"closed"}),
        ("q=clo", {"closed"}),
        ("order=free", {"train-80", "closed"}),
    ],
)
def test_api_list_has_the_filters_of_the_page(alice, vision, fra, train, quota, query, found):
    mirrored(fra, [gpu(0)])
    make_profile("closed", spec=make_spec(device_class="gpu.amd.com"), automatic_devices=1)
    assert {row["slug"] for row in client(alice).get(f"{URL}?{query}").json()["results"]} == found


def test_malformed_filter_is_422(alice):
    for wrong in ("memory=much", "sharing=some", "order=colour", "price=-1"):
        assert client(alice).get(f"{URL}?{wrong}").status_code == 422, wrong


def test_query_count_of_a_filter_is_the_same_for_many_profiles(alice, vision, fra, train, quota):
    reader = client(alice)
    reader.get(f"{URL}?mine=true")
    with CaptureQueriesContext(connection) as one:
        reader.get(f"{URL}?mine=true")
    for number in range(20):
        make_profile(f"more-{number}")
    with CaptureQueriesContext(connection) as many:
        reader.get(f"{URL}?mine=true")
    assert len(many) == len(one)


def test_entry_has_waits_sharing_and_limits(alice, vision, fra, train, quota):
    mirrored(fra, [gpu(0)])
    entry = client(alice).get(f"{URL}train-80/").json()
    assert entry["waits"] == {
        "decision": {"count": 0, "median": None, "p90": None},
        "device": {"count": 0, "median": None, "p90": None},
    }
    assert (entry["sharing"], entry["memory"]) == (["exclusive"], 81559 * 2**20)
    assert (entry["grace"], entry["extension"], entry["price"]) == (0, 0, None)


def test_admin_creates_changes_and_reads_versions(root, new, change, fra):
    admin = client(root)
    made = admin.post(URL, new, format="json")
    assert made.status_code == 201, made.json()
    assert (made.json()["version"], made.json()["grace"], made.json()["approval"]) == (1, 1800, "both")
    assert admin.post(URL, new, format="json").status_code == 409
    assert admin.put(f"{URL}slice/", change, format="json").json()["version"] == 1
    assert admin.put(f"{URL}slice/", change | {"max_devices": 8}, format="json").json()["version"] == 2
    rows = admin.get(f"{URL}slice/versions/").json()["results"]
    assert [(row["number"], row["max_devices"], row["current"]) for row in rows] == [
        (2, 8, True),
        (1, 4, False),
    ]


def test_dry_run_has_the_changes_and_saves_nothing(root, new, change, vision, fra):
    admin = client(root)
    plan = admin.post(f"{URL}?dry_run=true", new, format="json")
    assert (plan.status_code, plan.json()["version"]) == (200, 1)
    assert not Profile.objects.exists()
    assert admin.post(f"{URL}?dry_run=true", new | {"max_devices": 0}, format="json").status_code == 422
    admin.post(URL, new, format="json")
    make_claim(vision, cluster=fra, profile=Profile.objects.get(), state=ClaimState.ALLOCATED)
    changed = change | {"spec": make_spec(device_class="gpu.amd.com"), "max_devices": 8}
    plan = admin.put(f"{URL}slice/?dry_run=true", changed, format="json").json()
    assert (plan["version"], plan["makes_version"], plan["live_claims"]) == (2, True, 1)
    assert plan["limits"] == [{"limit": "Max devices", "before": "4", "after": "8"}]
    diff = [line.replace(" ", "") for line in plan["spec_diff"].splitlines()]
    assert {"-deviceClassName:gpu.nvidia.com", "+deviceClassName:gpu.amd.com"} <= set(diff)
    assert diff[0].startswith("@@-")
    assert Profile.objects.get().current.number == 1
    assert admin.put(f"{URL}slice/?dry_run=true", change, format="json").json()["makes_version"] is False


def test_saving_says_what_the_check_finds_before_and_after(root, new, change, fra):
    mirrored(fra, [gpu(number) for number in range(2)])
    broken = [{"cel": {"expression": 'device.attributes["gpu.nvidia.com"].rack == "7"'}}]
    spec = make_spec(selectors=broken)
    admin = client(root)
    for address, code in ((f"{URL}?dry_run=true", 200), (URL, 201)):
        answer = admin.post(address, new | {"spec": spec}, format="json")
        assert answer.status_code == code
        finding = next(row for row in answer.json()["findings"] if row["code"] == "selector-fails")
        assert (finding["severity"], finding["name"]) == ("error", "slice")
        assert "fails on 2 of the 2 devices" in finding["messages"][0]["message"]
    admin.put(f"{URL}slice/", change | {"max_devices": 1}, format="json")
    again = admin.put(f"{URL}slice/", change | {"max_devices": 1}, format="json")
    assert again.json()["findings"] == []


def test_version_saved_by_another_admin_is_a_conflict(root, new, change):
    admin = client(root)
    admin.post(URL, new, format="json")
    admin.put(f"{URL}slice/", change | {"max_devices": 5, "base": 1}, format="json")
    answer = admin.put(f"{URL}slice/", change | {"max_devices": 6, "base": 1}, format="json")
    assert (answer.status_code, answer.json()["current"]) == (409, 2)
    again = admin.put(f"{URL}slice/", change | {"max_devices": 5, "base": 1}, format="json")
    assert (again.status_code, again.json()["version"]) == (200, 2)  # the same message twice


@pytest.mark.parametrize(
    "wrong",
    [
        {"slug": "Not One"},
        {"title": ""},
        {"spec": {"devices": {"requests": "all"}}},
        {"spec": {"devices": {"requests": [COUNTED_IN_WORDS]}}},
        {"spec": []},
        {"spec": make_spec() | {"more": "\u0000"}},
        {"scalable": "other"},
        {"default_duration": "9d"},
        {"grace": "-1h"},
        {"approval": "nobody"},
        {"teams": ["none"]},
    ],
)
def test_invalid_profile_is_422(root, new, wrong):
    answer = client(root).post(URL, new | wrong, format="json")
    assert answer.status_code == 422, answer.json()
    assert not Profile.objects.exists()


def test_profile_is_retired_and_restored(root, alice, vision, train):
    admin = client(root)
    assert admin.post(f"{URL}train-80/retire/").json()["retired_at"]
    assert client(alice).get(f"{URL}train-80/").status_code == 404
    assert admin.post(f"{URL}train-80/restore/").json()["retired_at"] is None
    assert client(alice).get(f"{URL}train-80/").status_code == 200
    assert admin.post(f"{URL}none/restore/").status_code == 404


def test_only_platform_admin_writes(lena, eve, vision, train, new):
    for user in (lena, eve):
        writer = client(user)
        assert writer.post(URL, new, format="json").status_code == 403
        assert writer.put(f"{URL}train-80/", new, format="json").status_code == 403
        assert writer.post(f"{URL}train-80/retire/").status_code == 403
        assert writer.post(f"{URL}train-80/restore/").status_code == 403


def test_versions_of_a_profile_of_other_teams_are_404(alice, vision, root):
    make_profile("theirs", teams=(make_team("nlp"),))
    assert client(alice).get(f"{URL}theirs/versions/").status_code == 404
    old = make_profile("old")
    retire_profile(by=root, profile=old)
    assert client(alice).get(f"{URL}old/versions/").status_code == 404
    assert client(root).get(f"{URL}old/versions/").status_code == 200


def test_saving_a_retired_profile_restores_it_and_dry_run_shows_that(root, train):
    admin = client(root)
    body = {"title": "Train", "spec": train.current.spec, "scalable": "gpu", "max_devices": 4}
    assert admin.put(f"{URL}train-80/?dry_run=true", body, format="json").json()["restores"] is False
    admin.post(f"{URL}train-80/retire/")
    assert admin.put(f"{URL}train-80/?dry_run=true", body, format="json").json()["restores"] is True
    assert Profile.objects.get().retired_at is not None
    assert admin.put(f"{URL}train-80/", body, format="json").json()["retired_at"] is None
    rows = admin.get(f"{URL}train-80/versions/").json()["results"]
    assert [(row["number"], row["restores"]) for row in rows] == [(2, True), (1, False)]
