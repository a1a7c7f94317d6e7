"""Who approves, as cards, table, profile page and API say it to one reader: by the rules of their teams."""

import csv
import io
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from claims.catalogue.listing import catalogue
from claims.models import Approval, ApprovalRule
from tests.factories import make_profile, make_team, make_user

pytestmark = pytest.mark.django_db

CATALOGUE = reverse("claims:catalogue")
API = "/api/v1/profiles/train-80/"


@pytest.fixture
def nlp(alice):
    return make_team("nlp", members=(alice,))


def said_to(user, slug="train-80"):
    return {entry.profile.slug: entry for entry in catalogue(user)}[slug].approval_sentence


def rule(team=None, profile=None, approval=Approval.ADMIN, **fields):
    return ApprovalRule.objects.create(team=team, profile=profile, approval=approval, **fields)


def test_without_a_rule_it_is_what_the_profile_says(alice, vision, nlp, train):
    assert said_to(alice) == "A lead of your team approves."


def test_a_rule_of_the_team_goes_before_the_profile(alice, vision, train):
    rule(vision, automatic_devices=2, automatic_duration=timedelta(hours=12))
    assert said_to(alice) == "A platform admin approves. Up to 2 devices for 12 h needs no approval."


def test_a_rule_that_leaves_it_to_the_profile_changes_nothing(alice, vision, train):
    rule(vision, approval="", escalate_after=timedelta(hours=1))
    assert said_to(alice) == "A lead of your team approves."


def test_the_same_in_every_team_is_said_once(alice, vision, nlp, train):
    rule(vision)
    rule(nlp)
    assert said_to(alice) == "A platform admin approves."


def test_what_differs_between_teams_is_said_with_their_names(alice, vision, nlp, train):
    rule(vision, train, Approval.AUTOMATIC)
    assert said_to(alice) == "nlp: A lead of your team approves. vision: No approval needed."


def test_of_many_teams_three_are_named(root, vision, nlp, train):
    for name in ("one", "three", "two"):
        make_team(name)
    rule(vision, train, Approval.AUTOMATIC)
    assert (
        said_to(root)
        == "nlp, one, three and 1 more: A lead of your team approves. vision: No approval needed."
    )


def test_a_team_that_may_not_ask_for_it_does_not_count(alice, vision, nlp):
    make_profile("own", teams=(vision,))
    rule(nlp, approval=Approval.AUTOMATIC)
    assert said_to(alice, "own") == "A lead of your team approves."


def test_who_is_a_member_of_no_team_reads_what_holds_for_any(eve, bob, vision, train):
    rule(vision)
    rule(profile=train, approval=Approval.BOTH)
    for person in (eve, bob):
        assert said_to(person) == "A lead of your team approves, then a platform admin."


def test_what_needs_no_approval_is_found_by_the_rules_of_the_reader(client, alice, vision, train):
    client.force_login(alice)
    page = reverse("claims:profile", args=["train-80"])
    assert page not in client.get(f"{CATALOGUE}?automatic=1").text
    rule(vision, automatic_devices=1)
    assert page in client.get(f"{CATALOGUE}?automatic=1").text


def test_cards_table_csv_profile_page_comparison_and_api_say_the_same(client, alice, vision, nlp, train):
    rule(vision, train, Approval.AUTOMATIC)
    make_profile("other")
    said = "nlp: A lead of your team approves. vision: No approval needed."
    client.force_login(alice)
    profile = reverse("claims:profile", args=["train-80"])
    compared = reverse("claims:catalogue_compare") + "?profile=train-80&profile=other"
    for address in (
        CATALOGUE,
        f"{CATALOGUE}?view=table",
        profile,
        compared,
    ):
        assert said in client.get(address).text, address
    rows = csv.DictReader(io.StringIO(client.get(f"{CATALOGUE}?format=csv").text))
    assert {row["profile"]: row["approval"] for row in rows}["train-80"] == said
    told = client.get(API).json()
    assert told["approval_sentence"] == said
    assert [(one["team"], one["approval"]) for one in told["approval_of_teams"]] == [
        ("nlp", "lead"),
        ("vision", "automatic"),
    ]
    assert told["approval"] == "lead"  # what the version says itself


def test_an_outsider_reads_nothing_of_a_profile_of_others(client, eve, vision):
    make_profile("own", teams=(vision,))
    client.force_login(eve)
    assert client.get(reverse("claims:profile", args=["own"])).status_code == 404
    assert client.get("/api/v1/profiles/own/").status_code == 404


def test_rules_are_read_once_however_many_profiles_and_rules_there_are(client, alice, vision, nlp, train):
    rule(vision, train)
    client.force_login(alice)
    client.get(CATALOGUE)
    with CaptureQueriesContext(connection) as one:
        client.get(CATALOGUE)
    for number in range(12):
        profile = make_profile(f"more-{number}")
        rule(nlp, profile, automatic_devices=number)
    with CaptureQueriesContext(connection) as many:
        client.get(CATALOGUE)
    assert len(many) == len(one)


def test_rules_of_teams_of_others_are_not_read(alice, vision, train):
    stranger = make_team("secret", members=(make_user("mallory"),))
    rule(stranger, train, Approval.AUTOMATIC)
    assert said_to(alice) == "A lead of your team approves."
