"""The search over everything that a reader may see, as page and as palette."""

from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from claims.models import Claim
from claims.states import ClaimState
from inventory import device_search
from inventory.counts import store_counts
from inventory.models import Device, Node
from portal import search
from portal.search import KINDS, SHOWN
from tests.factories import make_claim, make_cluster, make_profile, make_team, make_user
from tests.usage.test_collect import mirrored

pytestmark = pytest.mark.django_db
SEARCH = reverse("search")


@pytest.fixture
def fra():
    cluster = make_cluster("fra-1")
    mirrored(cluster, "gpu-0", "")
    Device.objects.update(product="NVIDIA H100 80GB HBM3")
    Node.objects.create(cluster=cluster, uid="n", name="fra1-h100-03", raw={})
    return cluster


@pytest.fixture
def mira():
    return make_user("mira", email="mira@example.com")


@pytest.fixture
def outsider(fra):
    person = make_user("otto")
    make_team("robotics", members=(person,))
    return person


@pytest.fixture
def vision(fra, mira):
    return make_team("vision", members=(mira,), leads=(make_user("lena"),))


@pytest.fixture
def claim(vision, mira, fra):
    profile = make_profile("train-80")
    return make_claim(
        team=vision, by=mira, cluster=fra, profile=profile, name="notebook-mira", state=ClaimState.ALLOCATED
    )


def groups(person, q="", **query):
    client = Client()
    client.force_login(person)
    page = client.get(SEARCH, {"q": q, **query})
    assert page.status_code == 200
    return {group.key: group.rows for group in page.context["groups"]}


def titles(person, q, kind):
    return [row.title for row in groups(person, q).get(kind, [])]


def test_member_finds_claims_devices_profiles_people_pages_and_actions(mira, claim):
    assert titles(mira, "notebook", "claims") == ["notebook-mira"]
    assert titles(mira, "h100-03", "devices") == ["fra1-h100-03"]
    assert titles(mira, "train", "profiles") == ["Train 80"]
    assert titles(mira, "lena", "people") == ["lena"]
    assert titles(mira, "visi", "people")[0].lower() == "vision"
    assert titles(mira, "catal", "pages") == ["Catalogue", "Compare profiles"]
    assert "Request Train 80…" in titles(mira, "train", "actions")
    assert titles(mira, "notebook", "actions") == ["Release notebook-mira…"]


def test_result_says_what_it_is_and_where_it_leads(mira, claim):
    (row,) = groups(mira, "notebook-m")["claims"]
    assert (row.detail, row.state) == ("vision, mira · 1 × Train 80", ClaimState.ALLOCATED)
    assert row.url == reverse("claims:detail", args=[claim.pk])
    (row,) = groups(mira, "h100 80gb")["devices"]
    assert (row.detail, row.aside) == ("1 device in fra-1, 0 free", "Devices, filtered")


@pytest.mark.parametrize("word", ["notebook-mira", "mira", "mira@example.com", "vision", "lena", "train 80"])
def test_outsider_finds_nothing_of_another_team(outsider, claim, word):
    make_profile("train-80-closed", teams=(claim.team,))
    found = groups(outsider, word)
    assert found.keys() <= {"profiles", "actions"}
    assert all(
        "Closed" not in row.title and "mira" not in row.title for rows in found.values() for row in rows
    )


def test_platform_admin_finds_everything(claim):
    root = make_user("root", admin=True)
    assert titles(root, "notebook-mira", "claims") == ["notebook-mira"]
    assert titles(root, "mira@", "people") == ["mira"]
    assert titles(root, "invite", "actions") == ["Invite a person…"]


@pytest.mark.parametrize(
    ("newest", "text", "are_found"),
    [
        (9, "no", True),
        (9, "note", True),
        (1, "note", True),
        (1, "book mira", True),
        (1, "no fine", True),
        (1, "no", False),
    ],
)
def test_platform_admin_finds_old_claims_by_three_characters(claim, monkeypatch, newest, text, are_found):
    monkeypatch.setattr(search, "NEWEST", newest)
    Claim.objects.update(reason="No fine tuning")
    make_claim(team=claim.team, by=claim.requested_by, cluster=claim.cluster, name="other", reason="eval")
    make_claim(team=claim.team, by=claim.requested_by, cluster=claim.cluster, name="third", reason="eval")
    assert titles(make_user("root", admin=True), text, "claims") == ["notebook-mira"] * are_found


def test_every_word_has_to_match(mira, claim):
    assert titles(mira, "notebook vision-x", "claims") == []
    assert titles(mira, "NOTEBOOK mira", "claims") == ["notebook-mira"]


@pytest.mark.parametrize(("prefix", "kind"), [("#", "claims"), ("@", "people"), (">", "actions")])
def test_prefix_restricts_the_search_to_a_kind(mira, claim, prefix, kind):
    assert set(groups(mira, "mira")) == {"claims", "people", "actions"}
    assert set(groups(mira, f"{prefix} mira")) == {kind}
    assert set(groups(mira, "mira", kind=kind)) == {kind}


def test_more_results_than_shown_lead_to_the_whole_list(mira, claim):
    for number in range(SHOWN):
        make_claim(
            team=claim.team,
            by=mira,
            cluster=claim.cluster,
            profile=claim.profile_version.profile,
            name=f"mira-{number}",
        )
    client = Client()
    client.force_login(mira)
    page = client.get(SEARCH, {"q": "mira"})
    (group,) = (group for group in page.context["groups"] if group.key == "claims")
    assert len(group.rows) == SHOWN
    assert group.more == f"{reverse('claims:list')}?q=mira"


def test_each_kind_has_its_number_of_results_up_to_a_limit(mira, claim, monkeypatch):
    monkeypatch.setattr(search, "MAX_COUNT", 6)
    client = Client()
    client.force_login(mira)

    def counts(q="mira", **query):
        return {key: number for key, _label, number in client.get(SEARCH, {"q": q, **query}).context["kinds"]}

    assert counts() == {"claims": "1", "people": "1", "actions": "1"}
    for number in range(7):
        profile = claim.profile_version.profile
        make_claim(team=claim.team, by=mira, cluster=claim.cluster, profile=profile, name=f"mira-{number}")
    assert counts()["claims"] == "6+"
    assert counts(kind="people") == counts()  # of all kinds, whichever is shown
    assert counts(kind="help") == counts() | {"help": None}


def test_count_of_the_newest_claims_is_at_least_that(claim, monkeypatch):
    monkeypatch.setattr(search, "NEWEST", 1)
    for name in ("mira-0", "mira-1"):
        make_claim(team=claim.team, by=claim.requested_by, cluster=claim.cluster, name=name)
    client = Client()
    client.force_login(make_user("root", admin=True))
    (group,) = (row for row in client.get(SEARCH, {"q": "mi"}).context["groups"] if row.key == "claims")
    assert group.count == "2+"
    assert group.more == f"{reverse('claims:list')}?q=mi"


def test_without_words_it_shows_own_live_claims_pages_and_actions(mira, claim):
    make_claim(
        team=claim.team,
        by=mira,
        cluster=claim.cluster,
        profile=claim.profile_version.profile,
        name="old",
        state=ClaimState.RELEASED,
    )
    assert [row.title for row in groups(mira)["claims"]] == ["notebook-mira"]
    assert set(groups(mira)) == {"claims", "people", "pages", "actions"}


def test_device_is_found_by_its_uuid_alone(mira, fra, vision):
    device = Device.objects.get()
    Device.objects.update(uuid="GPU-5f3a9c11-aaaa")
    device_search.refresh()
    (row,) = groups(mira, "GPU-5F3A")["devices"]
    assert row.url == reverse("inventory:device", args=[device.pk])
    assert titles(mira, "gpu-0", "devices") == []


def test_matching_parts_are_marked_and_markup_is_escaped(mira, claim):
    client = Client()
    client.force_login(mira)
    assert "<mark>book</mark>-mira" in client.get(SEARCH, {"q": "book"}).text
    page = client.get(SEARCH, {"q": "<script>alert(1)</script>"}).text
    assert "<script>alert" not in page
    assert "Nothing that you may see matches “<script>alert(1)</script>”." in unescape(page)


def test_palette_gets_the_results_alone(mira, claim):
    client = Client()
    client.force_login(mira)
    answer = client.get(SEARCH, {"q": "notebook"}, headers={"HX-Request": "true"})
    assert "notebook" in answer.text
    assert "<html" not in answer.text


@pytest.mark.parametrize("role", ["member", "lead", "admin", "nobody"])
def test_every_page_and_action_that_is_offered_opens(claim, mira, role):
    person = {
        "member": lambda: mira,
        "lead": lambda: claim.team.members.get(username="lena"),
        "admin": lambda: make_user("root", admin=True),
        "nobody": lambda: make_user("nobody"),
    }[role]()
    client = Client()
    client.force_login(person)
    rows = [row for kind in ("pages", "actions") for row in groups(person, kind=kind)[kind]]
    assert len(rows) >= 8
    assert {row.url: client.get(row.url).status_code for row in rows} == {row.url: 200 for row in rows}


def test_queries_do_not_grow_with_the_results(mira, claim):
    client = Client()
    client.force_login(mira)

    def count():
        with CaptureQueriesContext(
            connection,
        ) as queries:
            client.get(SEARCH, {"q": "mira"}, headers={"HX-Request": "true"})
        return len(queries)

    store_counts()
    count()
    first = count()
    for number in range(3):
        make_claim(
            team=claim.team,
            by=mira,
            cluster=claim.cluster,
            profile=claim.profile_version.profile,
            name=f"mira-{number}",
        )
        make_team(f"mira-{number}", members=(mira,))
    assert count() <= first
    assert first <= 13


def test_visitor_signs_in_first(client):
    assert client.get(SEARCH).status_code == 302


def test_help_is_found_by_title_and_by_heading(mira):
    found = {row.title: row.url for row in groups(mira, "quota", kind="help")["help"]}
    assert found["Quota"] == "/help/quota/"
    assert groups(mira, "guarantee")["help"][0].url == "/help/quota/#guarantee"
    assert [row.url for row in groups(mira, "transfer", kind="help")["help"]] == ["/help/claims/#transfer"]


def test_kinds_are_those_of_the_prefixes(mira):
    assert list(KINDS) == ["claims", "devices", "profiles", "people", "pages", "actions", "help"]
