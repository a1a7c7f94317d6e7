"""Saved reasons to deny: who edits which, their pages, their API."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from rest_framework.test import APIClient

from claims.approvals import services
from claims.approvals.services import reasons_for
from claims.models import ReasonTemplate
from core.errors import Forbidden, Invalid
from tests.factories import make_team

pytestmark = pytest.mark.django_db

LIST, NEW, API = reverse("claims:reasons"), reverse("claims:reason_new"), "/api/v1/approval-reasons/"
SENT = {"title": "Move", "text": "The cluster moves that week.", "team": "vision"}


def page(name, row):
    return reverse(f"claims:{name}", args=[row.pk])


@pytest.fixture
def everybody(db):
    return ReasonTemplate.objects.create(title="Budget", text="The budget of the year is spent.")


@pytest.fixture
def own(vision):
    return ReasonTemplate.objects.create(title="Move", text="The cluster moves that week.", team=vision)


@pytest.fixture
def theirs(db):
    return ReasonTemplate.objects.create(title="Theirs", text="No.", team=make_team("nlp"))


def titles(team):
    return [one.title for one in reasons_for(team)][:-4]  # the last four come with the product


def test_reasons_offered_in_a_team(vision, everybody, own, theirs):
    assert titles(vision) == ["Budget", "Move"]
    assert titles(None) == ["Budget"]


def test_lead_edits_reasons_of_the_team(client, lena, vision, everybody, own, theirs):
    client.force_login(lena)
    shown = client.get(LIST).text
    assert page("reason", own) in shown
    assert page("reason", everybody) not in shown
    assert page("reason", theirs) not in shown
    assert "Smaller device is enough" in shown
    sent = SENT | {"title": "Full", "text": "No node has room that week."}
    assert "“Full” was saved." in client.post(NEW, sent, follow=True).text
    assert titles(vision) == ["Budget", "Full", "Move"]
    client.post(page("reason", own), SENT | {"text": "It moves."})
    own.refresh_from_db()
    assert own.text == "It moves."
    assert "Approvers in vision can no longer choose it." in client.get(page("reason_remove", own)).text
    assert "“Move” was removed." in client.post(page("reason_remove", own), follow=True).text
    assert titles(vision) == ["Budget", "Full"]


def test_lead_cannot_edit_reasons_of_every_team_or_others(client, lena, everybody, own, theirs):
    client.force_login(lena)
    for row in (everybody, theirs):
        assert client.get(page("reason", row)).status_code == 404
        assert client.post(page("reason_remove", row)).status_code == 404
    assert client.post(NEW, SENT | {"team": "nlp"}).status_code == 422
    assert client.post(NEW, SENT | {"team": ""}).status_code == 422
    assert ReasonTemplate.objects.count() == 3
    with pytest.raises(Forbidden):
        services.save_reason(by=lena, title="All", text="No.", reason=everybody)
    with pytest.raises(Forbidden):
        services.save_reason(by=lena, title="Mine", text="No.", team=own.team, reason=everybody)


def test_platform_admin_edits_every_reason(client, root, vision, everybody, own, theirs):
    client.force_login(root)
    shown = client.get(LIST).text
    assert all(page("reason", row) in shown for row in (everybody, own, theirs))
    client.post(NEW, {"title": "Holiday", "text": "Nobody watches it.", "team": ""})
    assert titles(vision) == ["Budget", "Holiday", "Move"]


def test_member_cannot_edit_reasons(client, alice, bob, eve, own):
    for person in (alice, bob, eve):
        client.force_login(person)
        for address in (LIST, NEW, page("reason", own), page("reason_remove", own)):
            assert client.get(address).status_code == 403
        assert "approvals/reasons/" not in client.get(reverse("claims:approvals")).text


def test_inbox_links_to_reasons_and_rules_by_role(client, root, lena, vision):
    for person in (root, lena):
        client.force_login(person)
        assert f'href="{LIST}"' in client.get(reverse("claims:approvals")).text
    client.force_login(root)
    rules = client.get(reverse("claims:approval_rules")).text
    assert f'href="{LIST}"' in rules
    assert "expires after 7 d" in rules


@pytest.mark.parametrize(
    "wrong", [{"title": ""}, {"text": " "}, {"title": "x" * 81}, {"text": "x" * 501}, {"team": "nowhere"}]
)
def test_invalid_reason_is_explained_in_the_form(client, lena, vision, wrong):
    client.force_login(lena)
    assert client.post(NEW, SENT | wrong).status_code == 422
    assert not ReasonTemplate.objects.exists()


def test_reason_title_is_unique_per_team(client, lena, own, theirs):
    client.force_login(lena)
    again = client.post(NEW, SENT | {"text": "Something else."})
    assert again.status_code == 422
    assert "A reason “Move” already exists for " in again.text
    same = services.save_reason(by=lena, title="Move", text=own.text, team=own.team)
    assert same == own  # a double click makes one
    other = services.save_reason(by=lena, title="Theirs", text="Ours.", team=own.team)
    with pytest.raises(Invalid, match="already"):
        services.save_reason(by=lena, title="Move", text=own.text, team=own.team, reason=other)


def test_list_of_reasons_queries_do_not_grow(client, lena, vision, own):
    client.force_login(lena)
    client.get(LIST)
    with CaptureQueriesContext(connection) as one:
        client.get(LIST)
    for number in range(20):
        ReasonTemplate.objects.create(title=f"r{number}", text="No.", team=vision)
    with CaptureQueriesContext(connection) as many:
        client.get(LIST)
    assert len(many) == len(one)


def test_list_of_reasons_as_csv(client, lena, own):
    client.force_login(lena)
    answer = client.get(LIST, {"format": "csv"})
    assert answer["Content-Type"].startswith("text/csv")
    assert "Move,vision,The cluster moves that week." in b"".join(answer).decode()


def test_removing_a_reason_needs_confirmation(client, lena, own):
    client.force_login(lena)
    assert client.get(page("reason_remove", own)).status_code == 200
    assert ReasonTemplate.objects.filter(pk=own.pk).exists()


def test_api_edits_reasons(root, lena, bob, eve, vision, theirs):
    def api(user):
        made = APIClient()
        made.force_login(user)
        return made

    made = api(lena).post(API, SENT, format="json")
    assert (made.status_code, made.json()["team"]) == (201, "vision")
    address = f"{API}{made.json()['id']}/"
    assert [one["title"] for one in api(lena).get(API).json()["results"]] == ["Move"]
    assert [one["title"] for one in api(root).get(API).json()["results"]] == ["Move", "Theirs"]
    assert api(lena).put(address, SENT | {"text": "It moves."}, format="json").json()["text"] == "It moves."
    assert api(lena).post(API, SENT | {"team": ""}, format="json").status_code == 403
    assert api(bob).post(API, SENT, format="json").status_code == 403
    assert api(eve).post(API, SENT, format="json").status_code == 404
    assert api(bob).get(address).status_code == 404
    assert api(lena).delete(f"{API}{theirs.pk}/").status_code == 404
    assert api(lena).delete(address).status_code == 204


def test_reason_saved_twice_at_once_is_refused(lena, own, monkeypatch):
    """Where both pass the check, the constraint of the database refuses the second."""
    monkeypatch.setattr(ReasonTemplate.objects, "filter", lambda **_fields: ReasonTemplate.objects.none())
    with pytest.raises(Invalid, match="A reason “Move” already exists for vision"):
        services.save_reason(by=lena, title="Move", text="Other.", team=own.team)
