"""A lead asks the owners of a team to add somebody."""

import pytest
from django.urls import reverse

from core.errors import Conflict
from notify.models import Notice
from portal.setup import member_requests
from teams.models import AuditEntry, Membership, Role, Team
from tests.factories import make_team, make_user
from tests.threads import Race, without_lock

pytestmark = pytest.mark.django_db
ADDRESS = "/teams/vision/people/ask/"


@pytest.fixture
def people():
    names = {name: make_user(name) for name in ("olga", "lea", "alice", "vic", "eve")}
    names["root"] = make_user("root", admin=True)
    make_team(
        owners=(names["olga"],), leads=(names["lea"],), members=(names["alice"],), viewers=(names["vic"],)
    )
    return names


def post(client, by, **fields):
    client.force_login(by)
    return client.post(
        ADDRESS, {"person": "noah@helix.example", "role": "member", "reason": "A paper."} | fields
    )


def test_owner_has_a_notice_that_leads_to_the_filled_form(client, people):
    assert post(client, people["lea"]).status_code == 302
    (notice,) = Notice.objects.all()
    assert (notice.user, notice.important) == (people["olga"], True)
    assert notice.title == "lea asks you to add noah@helix.example to vision as member"
    assert notice.body.startswith("“A paper.” Without an account")
    client.force_login(people["olga"])
    assert 'value="noah@helix.example"' in client.get(notice.url).text
    assert AuditEntry.objects.filter(action="member.asked_for").count() == 1


def test_without_an_owner_platform_admins_have_it(client, people):
    Membership.objects.filter(role=Role.OWNER).delete()
    post(client, people["lea"])
    assert [notice.user for notice in Notice.objects.all()] == [people["root"]]


def test_the_same_is_asked_once_a_day(client, people):
    post(client, people["lea"])
    again = post(client, people["lea"], person="Noah@helix.example")
    assert again.status_code == 409
    assert "already asked today" in again.text
    assert Notice.objects.count() == 1
    assert post(client, people["lea"], role="lead").status_code == 302


@pytest.mark.parametrize(
    ("who", "status"), [("eve", 404), ("vic", 403), ("alice", 403), ("lea", 200), ("olga", 200)]
)
def test_leads_ask(client, people, who, status):
    client.force_login(people[who])
    assert client.get(ADDRESS).status_code == status


def test_owner_adds_people_themselves(client, people):
    refused = post(client, people["olga"])
    assert refused.status_code == 409
    assert "add noah@helix.example yourself" in refused.text


@pytest.mark.parametrize("fields", [{"person": ""}, {"person": "x" * 101}, {"role": "king"}])
def test_bad_input_is_said_and_nobody_is_asked(client, people, fields):
    assert post(client, people["lea"], **fields).status_code == 422
    assert not Notice.objects.exists()


def test_page_of_the_team_offers_it_to_leads(client, people):
    for name in ("lea", "alice", "olga"):
        client.force_login(people[name])
        for page in (reverse("team", args=["vision"]), reverse("teams:people", args=["vision"])):
            assert (f'href="{ADDRESS}"' in client.get(page).text) is (name == "lea")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("locked", [True, False])
def test_of_two_who_ask_the_same_at_once_one_is_told_so(people, monkeypatch, locked):
    if not locked:
        without_lock(monkeypatch, "portal.setup.member_requests.ask_for_member")
    race, team = Race(monkeypatch), Team.objects.get()
    race.hold_before(member_requests, "notify")

    def ask() -> object:
        return member_requests.ask_for_member(
            by=people["lea"], team=team, person="noah@helix.example", role=Role.MEMBER
        )

    answers = race.run(ask, ask)
    assert race.waited == locked
    assert sum(isinstance(answer, Conflict) for answer in answers) == int(locked)
    assert AuditEntry.objects.filter(action="member.asked_for").count() == (1 if locked else 2)
