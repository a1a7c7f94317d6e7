"""Teams in the browser: created with namespaces, renamed, archived and restored, by platform admins only."""

from __future__ import annotations

import csv
import re
from datetime import timedelta
from html import unescape

import pytest
from django.urls import reverse
from django.utils import timezone

from claims.budgets.use import refresh
from claims.models import Budget, Delegation, Quota, QuotaRequest, TeamNamespace
from claims.quotas import tasks
from claims.quotas.namespaces import archive_team, set_namespace
from claims.quotas.services import set_quota
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, Invalid
from inventory.models import FleetCount, FleetSpan, Freshness, Namespace
from inventory.states import DeviceState
from portal.setup.team_list import COLUMNS
from teams.invitations import invite
from teams.models import AuditEntry, Membership, Role, Team, User
from teams.services import add_member, change_team
from tests.factories import make_claim, make_cluster, make_quota, make_team, make_user
from usage.cost import CURRENCY_UNIT, DEVICE_HOUR
from usage.models import DailySum, StoredDays

pytestmark = pytest.mark.django_db(transaction=True)
SETTINGS = "/teams/vision/settings/"


@pytest.fixture
def root():
    return make_user("root", admin=True)


@pytest.fixture
def as_root(client, root):
    client.force_login(root)
    return client


@pytest.fixture
def fra():
    cluster = make_cluster("fra-1")
    Freshness.objects.create(cluster=cluster, resource="namespaces", listed_at=timezone.now())
    for name in ("vision", "nlp"):
        Namespace.objects.create(cluster=cluster, uid=f"uid-{name}", name=name)
    return cluster


def changes():
    return list(AuditEntry.objects.filter(in_activity=True).order_by("at").values_list("name", "text"))


def test_team_is_created_with_owner_and_namespace(as_root, fra):
    olga = make_user("olga")
    form = {"slug": "vision", "title": "Vision", "owner": "olga", "namespace-fra-1": "vision"}
    assert as_root.post("/setup/team/", form).url == SETTINGS
    team = Team.objects.get()
    assert (team.slug, team.title) == ("vision", "Vision")
    assert Membership.objects.get(team=team).user == olga
    assert TeamNamespace.objects.get(team=team).namespace == "vision"
    assert changes() == [
        ("vision", "created: Vision"),
        ("vision", "olga: added as owner"),
        ("vision", "namespace in fra-1: – → vision"),
    ]
    assert "exists" in as_root.get(SETTINGS).text
    again = as_root.post("/setup/team/", form)
    assert (again.status_code, Team.objects.count()) == (409, 1)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"slug": "Vision"}, "Lower-case letters, digits and hyphens."),
        ({"owner": "nobody"}, "No user has the name “nobody”."),
    ],
)
def test_malformed_team_is_refused(as_root, fields, sentence):
    response = as_root.post("/setup/team/", {"slug": "vision", "title": "Vision", "owner": "", **fields})
    assert (response.status_code, Team.objects.count()) == (422, 0)
    assert sentence in response.text


def test_namespace_that_is_not_in_the_cluster_shows_how_to_create_it(as_root, fra, root):
    team = make_team("vision")
    set_namespace(by=root, team=team, cluster=fra, namespace="vision-2")
    page = as_root.get(SETTINGS).text
    assert "not in fra-1" in page
    assert "kubectl create namespace vision-2" in page
    Freshness.objects.all().delete()
    assert "not read yet" in as_root.get(SETTINGS).text


def test_namespace_is_changed_once_and_taken_away(as_root, fra):
    team = make_team("vision")
    address = f"{SETTINGS}namespace"
    for namespace in ("vision", "vision", "nlp", ""):
        assert as_root.post(address, {"cluster": "fra-1", "namespace": namespace}).status_code == 302
    assert not TeamNamespace.objects.filter(team=team).exists()
    assert [change for _team, change in changes()] == [
        "namespace in fra-1: – → vision",
        "namespace in fra-1: vision → nlp",
        "namespace in fra-1: nlp → –",
    ]


def test_namespace_is_refused_if_taken_malformed_or_in_use(fra, root):
    vision, nlp = make_team("vision"), make_team("nlp")
    set_namespace(by=root, team=nlp, cluster=fra, namespace="nlp")
    with pytest.raises(Conflict, match="nlp in fra-1 is the namespace of nlp"):
        set_namespace(by=root, team=vision, cluster=fra, namespace="nlp")
    with pytest.raises(Invalid, match="no name of a namespace"):
        set_namespace(by=root, team=vision, cluster=fra, namespace="Vision_1")
    set_namespace(by=root, team=vision, cluster=fra, namespace="vision")
    make_claim(vision, cluster=fra)
    with pytest.raises(Conflict, match="1 claim in fra-1 that is not over"):
        set_namespace(by=root, team=vision, cluster=fra, namespace="")
    assert TeamNamespace.objects.get(team=vision).namespace == "vision"


def test_claims_in_another_cluster_hold_up_no_namespace(fra, root):
    vision, lab = make_team("vision"), make_cluster("lab-2")
    make_claim(vision, cluster=lab)
    set_namespace(by=root, team=vision, cluster=fra, namespace="vision")
    assert TeamNamespace.objects.get(team=vision, cluster=fra).namespace == "vision"


def test_title_is_changed_and_recorded_once(as_root):
    make_team("vision")
    for _attempt in range(2):
        as_root.post(SETTINGS, {"title": "Robot vision"})
    assert Team.objects.get().title == "Robot vision"
    assert changes() == [("vision", "title Vision → Robot vision")]


def test_archived_team_has_no_members_quotas_or_namespaces_and_keeps_claims(as_root, fra, root, monkeypatch):
    queued: list[str] = []
    monkeypatch.setattr(tasks.write_cluster, "delay", queued.append)
    olga, mia = make_user("olga"), make_user("mia")
    team = make_team("vision", owners=(olga,), members=(mia,))
    set_namespace(by=root, team=team, cluster=fra, namespace="vision")
    type(fra).objects.update(write_quotas=True)
    make_quota(team, 8)
    make_claim(team, cluster=fra, state=ClaimState.RELEASED)
    now = timezone.now()
    for start in (-1, 1):
        Delegation.objects.create(
            team=team,
            lead=olga,
            to=mia,
            starts_at=now + timedelta(days=start),
            ends_at=now + timedelta(days=2),
        )
    invitation = invite(by=root, email="ana@helix.example", team=team)
    page = as_root.get("/teams/vision/archive/").text
    for fact in (
        "2 members leave it; 2 of them are in no other team",
        "1 quota",
        "1 namespace",
        "1 claim stay",
    ):
        assert fact in page
    for _attempt in range(2):
        assert as_root.post("/teams/vision/archive/").status_code == 302
    team.refresh_from_db()
    assert team.archived_at is not None
    assert (team.memberships.count(), Quota.objects.count(), TeamNamespace.objects.count()) == (0, 0, 0)
    assert team.claims.count() == 1
    assert not Delegation.objects.filter(ends_at__gt=timezone.now()).exists()
    invitation.refresh_from_db()
    assert invitation.revoked_at is not None
    assert queued == [str(fra.pk)]
    assert ("vision", "archived: 2 members, 1 quota, 1 namespace removed") in changes()
    assert [change for _what, change in changes()].count(
        "archived: 2 members, 1 quota, 1 namespace removed"
    ) == 1


def test_team_with_open_claims_or_requests_is_not_archived(as_root, root, fra):
    team = make_team("vision", members=(make_user("mia"),))
    quota = make_quota(team, 8)
    make_claim(team, cluster=fra)
    QuotaRequest.objects.create(
        team=team, requested_by=root, reason="More.", device_class="gpu.nvidia.com", devices=9, key="k"
    )
    with pytest.raises(
        Conflict, match="vision has 1 claim that is not over and 1 quota request to decide on"
    ):
        archive_team(by=root, team=team)
    response = as_root.post("/teams/vision/archive/")
    assert response.status_code == 409
    assert "1 claim that is not over" in response.text
    quota.refresh_from_db()  # nothing of it was removed
    assert team.memberships.count() == 1


def test_archived_team_gets_nothing_until_it_is_restored(as_root, root, fra):
    team = make_team("vision")
    archive_team(by=root, team=team)
    team.refresh_from_db()
    make_user("eve")
    attempts = (
        lambda: add_member(by=root, team=team, username="eve", role=Role.MEMBER),
        lambda: set_quota(by=root, team=team, device_class="gpu.nvidia.com", devices=1),
        lambda: set_namespace(by=root, team=team, cluster=fra, namespace="vision"),
        lambda: invite(by=root, email="ana@helix.example", team=team),
    )
    for attempt in attempts:
        with pytest.raises(Conflict, match="is archived"):
            attempt()
    assert "vision" not in as_root.get("/me/team/choose/").text
    assert "Archived" in as_root.get("/teams/?state=archived").text
    for _attempt in range(2):
        as_root.post("/teams/vision/restore")
    team.refresh_from_db()
    assert team.archived_at is None
    assert [change for _what, change in changes()].count("restored") == 1


@pytest.mark.parametrize("role", ["outsider", "member", "lead", "owner"])
def test_only_platform_admins_manage_teams(client, fra, role):
    people = {name: make_user(name) for name in ("outsider", "member", "lead", "owner")}
    team = make_team(members=(people["member"],), leads=(people["lead"],), owners=(people["owner"],))
    client.force_login(people[role])
    assert client.get("/setup/team/").status_code == 403
    assert client.post("/setup/team/", {"slug": "mine", "title": "Mine"}).status_code == 403
    for name in ("team", "team_archive"):
        assert client.get(reverse(f"setup:{name}", args=["vision"])).status_code == 403
    form = {"title": "Mine", "cluster": "fra-1", "namespace": "kube-system"}
    for name in ("team", "team_archive", "team_namespace", "team_restore", "team_invite"):
        assert client.post(reverse(f"setup:{name}", args=["vision"]), form).status_code == 403
    with pytest.raises(Forbidden):
        set_namespace(by=people[role], team=team, cluster=fra, namespace="x")
    with pytest.raises(Forbidden):
        archive_team(by=people[role], team=team)
    assert (Team.objects.get().title, TeamNamespace.objects.count(), changes()) == ("Vision", 0, [])


def holds(cluster, *held: tuple[str, int]) -> None:
    """Store the count of a cluster: so many devices are held by claims in each namespace."""
    places = [[namespace, DeviceState.IN_USE, devices] for namespace, devices in held]
    FleetCount.objects.create(
        cluster=cluster,
        revision=cluster.revision,
        namespaces=[*places, [None, DeviceState.FREE, 3]],
        groups=[["H100", True, DeviceState.IN_USE, sum(devices for _name, devices in held)]],
    )


def costs(dimension: str, euros: int, *, key=None, partition="") -> None:
    """Store what was held on the first day of this month, one hour for each euro."""
    day = timezone.now().date().replace(day=1)
    values = {"held": euros * DEVICE_HOUR, "amount": euros * CURRENCY_UNIT, "unpriced": 0}
    parts = {f"{name}{part}": 0 for name in values for part in ("_measured", "_used")}
    DailySum.objects.create(
        day=day, dimension=dimension, key=key, partition=partition, currency="EUR", **values, **parts
    )
    StoredDays.objects.update_or_create(pk=1, defaults={"until": day + timedelta(days=1)})


def listed(text):
    """Return the cells of each row of the list, and of its sums, by the name of the team."""
    rows = re.findall(
        r"<tr\b[^>]*>(.*?)</tr>", text[text.index("<tbody") : text.index("</table>")], re.DOTALL
    )
    return {row[0]: row[1:] for row in map(cells, rows)}


def test_teams_and_unmanaged_claims_add_up_to_the_fleet(as_root, fra):
    mia, lea, olga = make_user("mia"), make_user("lea"), make_user("olga")
    vision = make_team("vision", members=(mia,), leads=(lea,), owners=(olga,))
    nlp = make_team("nlp", members=(mia,))
    lab = make_cluster("lab-2", teams=(vision,))
    set_namespace(by=make_user("chief", admin=True), team=vision, cluster=fra, namespace="vision")
    make_quota(vision, 8)
    holds(fra, ("vision", 5), ("legacy", 2))
    holds(lab, ("vision", 1))
    costs("team", 30, key=vision.pk)
    costs("kind", 30)
    costs("fleet", 7, partition=FleetSpan.Use.UNMANAGED)
    page = as_root.get("/teams/")
    assert listed(page.text) == {
        "Nlp nlp": ["1 member nobody leads it", "none: it cannot request", "0 held, no quota", "— no budget"],
        "Vision vision": [
            *("3 members lea, olga", "fra-1 vision lab-2 vision", "6 of 8", "€30 no budget"),
        ],
        "Unmanaged claims in no team": ["Show and adopt", "fra-1 legacy", "2 held", "€7"],
        "All": ["3 people 1 in two teams or more", "", "8 held", "€37"],
    }
    assert "2 active, 3 people" in page.text
    assert "add up to the 8 devices" in page.text
    assert "6 devices held" in as_root.get(SETTINGS).text
    for address in (
        "/teams/vision/settings/",
        "/teams/vision/people/",
        "/teams/vision/cost/",
        "/quotas/?team=vision",
    ):
        assert f'href="{address}"' in page.text
    nlp.delete()


def test_share_of_the_budget_of_the_month_stands_below_the_cost(as_root, fra):
    team = make_team("vision")
    budget = Budget.objects.create(team=team, hours=100, first=timezone.now().date().replace(day=1))
    use = refresh([budget], now=timezone.now())[0]
    type(use).objects.filter(pk=use.pk).update(share=1.04)
    assert listed(as_root.get("/teams/").text)["Vision vision"][-1] == "— 104 % of budget"
    ended = Budget.objects.filter(pk=budget.pk)
    ended.update(ended_at=timezone.now(), ended_by=make_user("chief", admin=True))
    assert listed(as_root.get("/teams/").text)["Vision vision"][-1] == "— no budget"


def test_list_has_active_teams_unless_archived_ones_are_chosen(as_root):
    make_team("vision")
    gone = make_team("gone")
    Team.objects.filter(pk=gone.pk).update(archived_at=timezone.now())
    for address, names in (
        ("/teams/", {"Vision vision"}),
        ("/teams/?state=archived", {"Gone Archived gone"}),
        ("/teams/?state=all", {"Vision vision", "Gone Archived gone"}),
        ("/teams/?state=none", {"Vision vision"}),
    ):
        assert set(listed(as_root.get(address).text)) - {"Unmanaged claims in no team", "All"} == names


def test_team_is_found_by_its_name_and_by_its_people(as_root):
    make_team("vision", members=(make_user("mia", first_name="Mia"),))
    make_team("nlp")
    for word in ("vis", "mia"):
        assert "Nlp" not in as_root.get("/teams/", {"q": word}).text
    lines = as_root.get("/teams/?format=csv").getvalue().decode("utf-8-sig").splitlines()
    assert next(csv.reader(lines[2:])) == ["Vision", "1 member", "", "0", "—"]


def test_each_cell_of_the_list_is_under_its_head(as_root, fra):
    members = tuple(make_user(f"member-{number}") for number in range(4))
    vision = make_team("vision", members=members, owners=(make_user("olga"),))
    set_namespace(by=make_user("chief", admin=True), team=vision, cluster=fra, namespace="vision")
    make_quota(vision, 2)
    make_claim(vision, cluster=fra, state=ClaimState.ALLOCATED, devices=3)
    holds(fra, ("vision", 3))
    empty = make_team("empty")
    Team.objects.filter(pk=empty.pk).update(title="<Empty>", archived_at=timezone.now())
    columns = "&".join(f"col={column.name}" for column in COLUMNS)
    text = as_root.get(f"/teams/?state=all&{columns}").text
    heads = re.findall(r"<th\b.*?</th>", text, re.DOTALL)
    assert [words(head) for head in heads] == [column.label for column in COLUMNS]
    rows = listed(text)
    assert rows["<Empty> Archived empty"][:-1] == [
        *("empty", "0 members nobody is in it", "none: it cannot request", "0", "0 held, no quota"),
        *("0", "— no budget", "—"),
    ]
    assert rows["Vision vision"] == [
        *("vision", "5 members olga", "fra-1 vision", "1", "3 of 2", "2", "— no budget", "—", "—"),
    ]
    assert [len(row) for row in rows.values()] == [len(COLUMNS) - 1] * 4
    assert re.search(r'<td class="[^"]*dg-bad[^"]*"><a [^>]*><b>3</b>', text)


def cells(row):
    return [words(cell) for cell in re.findall(r"<td\b.*?</td>", row, re.DOTALL)]


def words(markup):
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", markup)).split())


def test_list_costs_the_same_queries_for_any_number_of_teams(as_root, fra, django_assert_max_num_queries):
    for slug in ("a", "b"):
        make_quota(make_team(slug, members=(make_user(f"of-{slug}"),)), 1)
    holds(fra)
    as_root.get("/teams/")
    with django_assert_max_num_queries(15) as few:
        as_root.get("/teams/")
    for number in range(30):
        team = make_team(f"team-{number}", members=(make_user(f"m-{number}"),))
        make_quota(team, 4)
        make_claim(team, cluster=fra, state=ClaimState.ALLOCATED)
        costs("team", number + 1, key=team.pk)
    with django_assert_max_num_queries(len(few)):
        assert "team-29" in as_root.get("/teams/").text


def test_page_of_a_team_costs_the_same_for_any_number_of_members(as_root, fra, django_assert_max_num_queries):
    team = make_team("vision", members=(make_user("mia"),))
    holds(fra)
    as_root.get(SETTINGS)
    with django_assert_max_num_queries(15) as few:
        as_root.get(SETTINGS)
    for number in range(40):
        Membership.objects.create(team=team, user=make_user(f"m-{number}"), role=Role.MEMBER)
        invite(by=User.objects.get(username="root"), email=f"p{number}@helix.example", team=team)
    with django_assert_max_num_queries(len(few)):
        assert "11 more" in as_root.get(SETTINGS).text


def test_role_that_is_changed_on_the_page_of_a_team_returns_there(as_root):
    mia, olga = make_user("mia"), make_user("olga")
    team = make_team("vision", members=(mia,), owners=(olga,))
    changed = as_root.post(f"/teams/vision/people/{mia.pk}/role", {"role": "lead", "next": SETTINGS})
    assert (changed.url, Membership.objects.get(team=team, user=mia).role) == (SETTINGS, Role.LEAD)
    removed = as_root.post(f"/teams/vision/people/{mia.pk}/remove", {"next": "https://evil.example/"})
    assert removed.url == "/teams/vision/people/"
    refused = as_root.post(f"/teams/vision/people/{olga.pk}/remove", {"next": SETTINGS}, follow=True)
    assert "olga is the only owner of vision" in refused.text


def test_several_addresses_are_invited_and_links_shown_once_without_a_mail_server(as_root):
    team = make_team("vision", members=(make_user("mia", email="mia@helix.example"),))
    form = {"emails": "ana@helix.example, mia@helix.example; ben@helix.example", "role": "lead"}
    page = as_root.post(f"{SETTINGS}invite", form).text
    assert page.count("shown only once") == 2
    assert "mia@helix.example is already in vision." in page
    assert {(row.email, row.role) for row in team.invitations.open()} == {
        ("ana@helix.example", Role.LEAD),
        ("ben@helix.example", Role.LEAD),
    }
    assert "/join/" not in as_root.get(SETTINGS).text


@pytest.mark.parametrize(
    ("emails", "sentence"),
    [
        ("ana@helix.example nobody", "“nobody” is no email address."),
        (" ".join(f"p{number}@helix.example" for number in range(21)), "21 addresses; invite at most 20"),
        ("", "This field is required."),
    ],
)
def test_malformed_addresses_invite_nobody(as_root, emails, sentence):
    team = make_team("vision")
    refused = as_root.post(f"{SETTINGS}invite", {"emails": emails, "role": "member"})
    assert (refused.status_code, team.invitations.count()) == (422, 0)
    assert sentence in refused.text


@pytest.mark.parametrize("role", ["outsider", "member", "owner"])
def test_only_platform_admins_see_the_list(client, role):
    people = {name: make_user(name) for name in ("outsider", "member", "owner")}
    make_team(members=(people["member"],), owners=(people["owner"],))
    client.force_login(people[role])
    for address in ("/teams/", "/teams/?format=csv"):
        assert client.get(address).status_code == 403
    client.force_login(make_user("root", admin=True))


def test_an_efficiency_goal_is_set_recorded_and_removed(as_root):
    team = make_team("vision")
    assert as_root.post(SETTINGS, {"title": team.title, "efficiency_goal": "101"}).status_code == 422
    as_root.post(SETTINGS, {"title": team.title, "efficiency_goal": "70"})
    team.refresh_from_db()
    assert team.efficiency_goal == 70
    assert "efficiency goal none → 70 %" in AuditEntry.objects.filter(in_activity=True).latest("pk").text
    as_root.post(SETTINGS, {"title": team.title, "efficiency_goal": ""})
    team.refresh_from_db()
    assert team.efficiency_goal is None


def test_only_platform_admins_set_a_goal_of_1_to_100_percent(root):
    lead = make_user("lead")
    team = make_team("vision", leads=(lead,))
    with pytest.raises(Forbidden):
        change_team(by=lead, team=team, efficiency_goal=70)
    with pytest.raises(Invalid):
        change_team(by=root, team=team, efficiency_goal=0)
