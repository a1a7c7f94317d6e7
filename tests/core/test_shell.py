"""The frame of every page: what the sidebar offers to whom, and how old the data is."""

from datetime import datetime, timedelta
from functools import partial
from itertools import product
from uuid import UUID

import pytest
from django.db.models import Count, Min
from django.test import RequestFactory
from django.utils import timezone

from claims.approvals.pending import Backlog, waiting_for
from claims.models import Claim, Delegation
from claims.states import ClaimState
from core.prepared import Prepared
from inventory.freshness import OF_DEVICES, ages, ages_for
from inventory.models import Freshness
from notify.models import NoticeKind
from notify.services import notify, unread_count
from portal.context import Counts, NavItem, counts_for, counts_statement, current_url
from teams.models import User
from tests.factories import make_claim, make_cluster, make_team, make_user

ME = "/me/"
HOUR = timedelta(hours=1)


def offered(page) -> list[str]:
    nav = page.context["shell"].nav
    return [str(item.label) for item in (*nav.main, *(i for s in nav.sections for i in s.items), *nav.foot)]


def test_a_member_is_offered_their_own_and_no_administration(browse, alice, vision):
    labels = offered(browse(alice).get(ME))
    assert {"Home", "Team", "API tokens"} <= set(labels)
    assert not {"Approvals", "Rates", "Profiles", "Settings", "Teams"} & set(labels)


def test_a_lead_is_offered_approvals_with_the_count_that_waits(browse, vision, root):
    lena = make_user("lena")
    make_team("nlp", leads=(lena,))
    team = make_team("speech", leads=(lena,))
    make_claim(team=team, state=ClaimState.REQUESTED)
    make_claim(team=team, state=ClaimState.ALLOCATED)
    make_claim(team=vision, state=ClaimState.REQUESTED)  # not hers
    (approvals,) = [item for item in browse(lena).get(ME).context["shell"].nav.main if item.icon == "checks"]
    assert (approvals.count, approvals.due) == (1, True)


def test_a_platform_admin_is_offered_the_platform_and_all_teams(browse, root, vision):
    page = browse(root).get(ME)
    assert {"Approvals", "Teams", "People", "Settings"} <= set(offered(page))
    assert page.context["shell"].team is None
    assert "All teams" in page.text


def test_menu_of_a_platform_admin_loads_the_teams_when_it_opens(browse, root, vision):
    person = browse(root)
    assert 'value="vision"' not in person.get(ME).text
    buttons = person.get("/me/team/choose/", headers={"HX-Request": "true"})
    assert 'value="vision"' in buttons.text
    assert "<html" not in buttons.text
    page = person.get("/me/team/choose/", {"next": "/me/tokens/"}).text
    assert 'name="next" value="/me/tokens/"' in page
    person.cookies["team"] = "vision"
    assert person.get(ME).context["shell"].team == vision


def test_only_own_teams_are_offered_to_choose_from(browse, alice, vision):
    make_team("nlp")
    page = browse(alice).get("/me/team/choose/").text
    assert 'value="vision"' in page
    assert 'value="nlp"' not in page


@pytest.mark.parametrize("person", ["alice", "lena", "mira", "root"])
def test_counts_of_the_frame_are_those_of_their_subjects(request, vision, alice, root, person):
    lena, mira = make_user("lena"), make_user("mira")
    nlp = make_team("nlp", leads=(lena,), members=(alice, mira))
    for team, state, by in product((vision, nlp), (ClaimState.REQUESTED, ClaimState.RELEASED), (alice, mira)):
        make_claim(team=team, state=state, by=by)
    Delegation.objects.create(
        team=nlp, lead=lena, to=mira, starts_at=timezone.now() - HOUR, ends_at=timezone.now() + HOUR
    )
    notify([alice, root, lena, lena, mira], kind=NoticeKind.CHANGE, key="k", title="sam2 ends today")
    user = User.objects.get(username=person)
    live = Claim.objects.live() if user.is_superuser else Claim.objects.live().filter(requested_by=user)
    counts = counts_for(RequestFactory().get("/"), user)
    waiting = Backlog(**waiting_for(user).aggregate(count=Count("pk"), oldest=Min("requested_at")))
    assert counts == Counts(live.count(), waiting, unread_count(user))
    assert any((counts.live, counts.undecided.count))


def test_the_sidebar_counts_to_999(root, monkeypatch):
    monkeypatch.setattr("portal.context.MAX_COUNT", 2)
    team = make_team("nlp")
    for number in range(4):
        make_claim(team=team, name=f"claim-{number}", state=ClaimState.ALLOCATED)
    ((live, *_rest),) = Prepared(partial(counts_statement, is_admin=True), UUID, datetime).rows(
        root.pk, timezone.now()
    )
    assert live == 3
    texts = [NavItem("Claims", "stack-2", "/claims/", count=count).count_text for count in (0, 2, live)]
    assert texts == ["0", "2", "2+"]


def test_the_counts_read_the_ages_of_devices_too(alice, django_assert_num_queries):
    fra = make_cluster("fra")
    make_cluster("osl", title="Oslo", halt_reason="The token has expired.")
    for resource in OF_DEVICES:
        seen = {"seen_at": timezone.now(), "error": resource}
        Freshness.objects.update_or_create(cluster=fra, resource=resource, defaults=seen)
    request = RequestFactory().get("/")
    expected = ages(OF_DEVICES)
    counts_for(request, alice)
    with django_assert_num_queries(0):
        read = ages_for(request)
    assert read == expected != []
    assert [age.cluster.title for age in read] == [age.cluster.title for age in expected]


def test_team_of_the_frame_is_that_of_the_cookie_not_of_the_address(browse, alice, vision):
    make_team("nlp", members=(alice,))
    person = browse(alice)
    assert person.get(ME).context["shell"].team.slug == "nlp"
    person.cookies["team"] = "vision"
    assert person.get(ME).context["shell"].team.slug == "vision"
    assert person.get(ME, {"team": "nlp"}).context["shell"].team.slug == "vision"
    assert person.get(ME, {"team": "nonsense"}).context["shell"].team.slug == "vision"


def test_a_cluster_that_has_been_silent_is_shown_as_stale_with_its_age(browse, alice):
    now = timezone.now()
    fresh, silent = make_cluster("fra-1"), make_cluster("lab-2")
    for cluster, resource in product((fresh, silent), OF_DEVICES):
        Freshness.objects.create(cluster=cluster, resource=resource, seen_at=now)
    page = browse(alice).get(ME)
    assert not page.context["shell"].is_stale
    Freshness.objects.filter(cluster=silent, resource="resourceclaims").update(
        seen_at=now - timedelta(minutes=6, seconds=5)
    )
    page = browse(alice).get(ME)
    assert [cluster.is_stale for cluster in page.context["shell"].freshness] == [False, True]
    assert ">6 min</time>" in page.text
    assert "dg-fresh dg-desk old" in page.text


def test_a_cluster_that_refuses_what_is_optional_is_not_stale(browse, alice):
    cluster = make_cluster("fra-1")
    for resource in OF_DEVICES:
        Freshness.objects.create(cluster=cluster, resource=resource, seen_at=timezone.now())
    Freshness.objects.create(cluster=cluster, resource="nodes", error="nodes may not be listed", failures=9)
    assert not browse(alice).get(ME).context["shell"].is_stale
    Freshness.objects.filter(resource=OF_DEVICES[0]).update(seen_at=timezone.now() - timedelta(minutes=6))
    assert browse(alice).get(ME).context["shell"].is_stale


@pytest.mark.parametrize("simulated", [True, False])
def test_the_header_says_of_a_simulated_cluster_that_it_is_one(browse, alice, simulated):
    make_cluster("fra-1", simulated=simulated)
    assert ("simulated" in browse(alice).get(ME).text) is simulated


def test_a_cluster_that_was_never_seen_is_stale(browse, alice):
    make_cluster("fra-1")
    page = browse(alice).get(ME)
    assert page.context["shell"].is_stale
    assert "never" in page.text


def test_user_without_a_team_gets_the_page(browse, db):
    page = browse(make_user("eve")).get(ME)
    assert page.status_code == 200
    assert "in no team" in page.text


@pytest.mark.parametrize(
    ("path", "current"),
    [
        ("/", "/"),
        ("/claims/", "/claims/"),
        ("/claims/7/", "/claims/"),
        ("/claims/new/", "/claims/new/"),
        ("/me/", ""),
    ],
)
def test_the_entry_that_a_page_lies_below_is_marked(path, current):
    items = [NavItem("", "", url) for url in ("/", "/claims/", "/claims/new/")]
    assert current_url(items, path) == current


def test_the_frame_costs_the_same_for_one_cluster_team_and_claim_and_for_many(
    browse, alice, vision, django_assert_max_num_queries
):
    person = browse(alice)
    make_claim(team=vision, by=alice)
    with django_assert_max_num_queries(8) as one:
        person.get(ME)
    for number in range(10):
        make_team(f"team-{number}", members=(alice,))
        make_cluster(f"cluster-{number}")
        make_claim(team=vision, by=alice)
    with django_assert_max_num_queries(len(one)):
        person.get(ME)


@pytest.mark.parametrize("person", ["alice", "root"])
def test_the_sidebar_names_each_page_once(request, browse, vision, person):
    shell = browse(request.getfixturevalue(person)).get("/").context["shell"]
    urls = [item.url for section in shell.nav.sections for item in section.items]
    assert len(urls) == len(set(urls))
