"""Approval rules on their pages and over the API."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from rest_framework.test import APIClient

from claims.models import Approval, ApprovalRule
from tests.factories import make_claim, make_profile

pytestmark = pytest.mark.django_db

RULES, NEW_RULE = reverse("claims:approval_rules"), reverse("claims:approval_rule_new")


def url(name, row):
    return reverse(f"claims:{name}", args=[row.pk])


def api_of(user):
    api = APIClient()
    api.force_login(user)
    return api


def test_rules_are_for_platform_admins(client, lena, eve, vision):
    rule = ApprovalRule.objects.create(team=vision)
    for person in (lena, eve):
        client.force_login(person)
        for address in (RULES, NEW_RULE, url("approval_rule", rule), url("approval_rule_remove", rule)):
            assert client.get(address).status_code == 403
        assert client.post(NEW_RULE, {"team": "vision"}).status_code == 403


def test_rule_is_created_changed_and_removed(client, root, vision, train):
    client.force_login(root)
    sent = {"team": "vision", "approval": "lead", "automatic_devices": "2", "automatic_duration": "24h"}
    assert "The rule of Vision was saved." in client.post(NEW_RULE, sent, follow=True).text
    rule = ApprovalRule.objects.get()
    client.post(url("approval_rule", rule), {"approval": "both", "escalate_after": "8h"})
    rule.refresh_from_db()
    assert (rule.team, rule.approval, rule.automatic_devices) == (vision, "both", 0)
    assert rule.escalate_after == timedelta(hours=8)
    assert "no longer applies" in client.get(url("approval_rule_remove", rule)).text
    client.post(url("approval_rule_remove", rule))
    assert not ApprovalRule.objects.exists()


@pytest.mark.parametrize(
    "sent", [{}, {"team": "none"}, {"team": "vision", "automatic_duration": "soon"},
             {"team": "vision", "approval": "", "automatic_devices": "2"}]
)  # fmt: skip
def test_invalid_rule_is_422(client, root, vision, sent):
    client.force_login(root)
    assert client.post(NEW_RULE, sent).status_code == 422
    assert not ApprovalRule.objects.exists()


def test_rule_preview_saves_nothing(client, root, vision, fra, train, alice):
    for devices in (1, 2, 3):
        make_claim(vision, by=alice, cluster=fra, profile=train, devices=devices)
    client.force_login(root)
    sent = {"team": "vision", "profile": "train-80", "approval": "admin", "automatic_devices": "2"}
    part = client.post(NEW_RULE, sent | {"preview": "1"}, headers={"HX-Request": "true"}).text
    assert "It applies to 3 requests of the last 30 days" in part
    assert "Automatic: <b>0 → 2</b>" in part
    assert "Lead: <b>3 → 0</b>" in part
    assert "Platform admin: <b>0 → 1</b>" in part
    assert not ApprovalRule.objects.exists()


def test_rule_preview_queries_do_not_grow(client, root, vision, fra, train, alice):
    rule = ApprovalRule.objects.create(team=vision)
    make_claim(vision, by=alice, cluster=fra, profile=train)
    client.force_login(root)
    client.get(url("approval_rule", rule))
    with CaptureQueriesContext(connection) as one:
        client.get(url("approval_rule", rule))
    for _ in range(10):
        make_claim(vision, by=alice, cluster=fra, profile=train)
    with CaptureQueriesContext(connection) as many:
        client.get(url("approval_rule", rule))
    assert len(many) == len(one)


def test_list_of_rules_queries_do_not_grow(client, root, vision):
    ApprovalRule.objects.create(team=vision)
    client.force_login(root)
    client.get(RULES)
    with CaptureQueriesContext(connection) as one:
        client.get(RULES)
    for number in range(10):
        ApprovalRule.objects.create(team=vision, profile=make_profile(f"p-{number}"))
    with CaptureQueriesContext(connection) as many:
        client.get(RULES)
    assert len(many) == len(one)


def test_the_api_keeps_rules_for_admins(root, lena, vision, train):
    address = "/api/v1/approval-rules/"
    sent = {"team": "vision", "profile": "train-80", "approval": "both", "escalate_after": "8h"}
    assert api_of(lena).get(address).status_code == 403
    assert api_of(lena).post(address, sent, format="json").status_code == 403
    made = api_of(root).post(address, sent, format="json")
    assert (made.status_code, made.json()["escalate_after"]) == (201, 28_800)
    assert [row["approval"] for row in api_of(root).get(address).json()["results"]] == [Approval.BOTH]
    assert api_of(root).post(address, {}, format="json").status_code == 422
    assert api_of(root).delete(f"{address}{made.json()['id']}/").status_code == 204
