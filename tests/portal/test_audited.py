"""
What the audit log covers, done through the real page or API: each leaves an entry with who, from which
address and with which token, what before and what after.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from claims.states import ClaimState
from teams.invitations import invite, link_token
from teams.models import AuditEntry, Membership, Role
from tests.factories import (
    GPU_CLASS,
    make_claim,
    make_cluster,
    make_profile,
    make_quota,
    make_team,
    make_token,
    make_user,
)

pytestmark = pytest.mark.django_db(transaction=True)
ADDRESS = "198.51.100.23"
LOGIN = "/accounts/login/"


@pytest.fixture(autouse=True)
def _no_counts_of_others():
    cache.clear()


@pytest.fixture
def root():
    return make_user("root", admin=True, password="root")


@pytest.fixture
def alice():
    return make_user("alice", password="alice")


@pytest.fixture
def lena():
    return make_user("lena")


@pytest.fixture
def vision(alice, lena):
    return make_team("vision", members=(alice,), leads=(lena,))


def browser(person=None):
    """Return a browser at ADDRESS, in which this person has signed in."""
    client = Client(REMOTE_ADDR=ADDRESS)
    if person:
        client.force_login(person)
    return client


def entry(action: str, **found: Any) -> AuditEntry:
    """Return the only entry of this action."""
    return AuditEntry.objects.get(action=action, **found)


def who_and_where(one: AuditEntry) -> tuple[str, str, str | None, str]:
    return one.actor, one.actor_kind, one.address, one.source


# Sign-in.


def test_a_sign_in(alice):
    browser().post(LOGIN, {"login": "alice", "password": "alice"})
    one = entry("session.signed_in")
    assert who_and_where(one) == ("alice", "person", ADDRESS, "web")
    assert (one.kind, one.object_id, one.name) == ("user", str(alice.pk), "alice")
    assert one.place == "POST account_login"
    assert len(one.request_id) == 32


def test_a_wrong_password(alice):
    browser().post(LOGIN, {"login": "alice", "password": "wrong"})
    one = entry("session.failed")
    assert who_and_where(one) == ("", "nobody", ADDRESS, "web")
    assert (one.object_id, one.name, one.text) == (str(alice.pk), "alice", "wrong password")


def test_a_name_that_nobody_has_is_not_stored_since_it_may_be_a_password(alice):
    browser().post(LOGIN, {"login": "correct horse", "password": "x"})
    one = entry("session.failed")
    assert "correct horse" not in str(vars(one))
    assert one.name == "unknown name"


def test_a_locked_sign_in_adds_no_more_entries(alice):
    person = browser()
    for _attempt in range(12):
        person.post(LOGIN, {"login": "alice", "password": "wrong"})
    assert AuditEntry.objects.filter(action="session.failed").count() == 5


def test_many_names_from_one_address_are_limited_too(db):
    person = browser()
    for number in range(20):
        person.post(LOGIN, {"login": f"name-{number}", "password": "wrong"})
    assert AuditEntry.objects.filter(action="session.failed").count() == 10


def test_a_wrong_code_of_the_second_factor(alice):
    TOTP.activate(alice, generate_totp_secret())
    person = browser()
    person.post(LOGIN, {"login": "alice", "password": "alice"})
    assert not AuditEntry.objects.filter(action="session.signed_in").exists()
    person.post("/accounts/2fa/authenticate/", {"code": "000000"})
    one = entry("second_factor.failed")
    assert (who_and_where(one), one.name) == (("", "nobody", ADDRESS, "web"), "alice")


def test_a_sign_out(alice):
    browser(alice).post("/accounts/logout/")
    assert who_and_where(entry("session.signed_out")) == ("alice", "person", ADDRESS, "web")


def test_a_new_password(alice):
    new = "correct horse battery staple"
    form = {"oldpassword": "alice", "password1": new, "password2": new}
    browser(alice).post("/accounts/password/change/", form)
    one = entry("password.changed", place="POST account_change_password")
    assert who_and_where(one) == ("alice", "person", ADDRESS, "web")
    assert new not in str(list(AuditEntry.objects.values()))


def test_a_password_that_a_command_sets(alice, monkeypatch):
    monkeypatch.setattr("sys.argv", ["manage.py", "changepassword"])
    alice.set_password("correct horse battery staple")
    alice.save()
    one = entry("password.changed", place="manage.py changepassword")
    assert (who_and_where(one), one.name) == (("", "portal", None, "system"), "alice")


def test_an_account_is_created_by_an_invitation(root):
    invitation = invite(by=root, email="noor@example.org")
    form = {"username": "noor", "password": "correct horse battery staple"}
    browser().post(f"/join/{link_token(invitation)}/", form)
    one = entry("person.created", name="noor")
    assert who_and_where(one) == ("", "nobody", ADDRESS, "web")
    assert one.place == "POST setup:join"  # without the link, which is a secret


def test_a_second_factor_is_added_and_removed_by_an_admin(root, alice):
    TOTP.activate(alice, generate_totp_secret())
    factor = Authenticator.objects.get(user=alice)
    browser(root).post(f"/admin/mfa/authenticator/{factor.pk}/delete/", {"post": "yes"})
    assert who_and_where(entry("second_factor.removed")) == ("root", "person", ADDRESS, "web")


# Behind a proxy.


def test_behind_a_proxy_the_address_is_that_of_the_client(alice, settings):
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1
    client = Client(REMOTE_ADDR="10.0.0.1", headers={"X-Forwarded-For": f"203.0.113.9, {ADDRESS}"})
    client.post(LOGIN, {"login": "alice", "password": "alice"})
    assert entry("session.signed_in").address == ADDRESS


def test_without_a_proxy_nobody_chooses_their_address(alice):
    client = Client(REMOTE_ADDR=ADDRESS, headers={"X-Forwarded-For": "203.0.113.9"})
    client.post(LOGIN, {"login": "alice", "password": "alice"})
    assert entry("session.signed_in").address == ADDRESS


def test_an_address_that_no_proxy_says_is_left_out(alice, settings):
    client = Client(REMOTE_ADDR="10.0.0.1", headers={"X-Forwarded-For": ADDRESS})
    client.force_login(alice)
    client.post("/accounts/reauthenticate/", {"password": "alice"})
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 2
    client.post("/me/tokens/", {"title": "laptop", "days": "30"})
    assert AuditEntry.objects.filter(action="token.created", address=None).count() == 1


# Tokens.


def test_a_token_is_created_and_revoked_on_the_page(alice):
    person = browser(alice)
    person.post("/accounts/reauthenticate/", {"password": "alice"})
    person.post("/me/tokens/", {"title": "laptop", "days": "30"})
    created = entry("token.created")
    assert who_and_where(created) == ("alice", "person", ADDRESS, "web")
    assert "laptop" in created.name
    person.post(f"/me/tokens/{created.object_id}/revoke")
    assert who_and_where(entry("token.revoked")) == ("alice", "person", ADDRESS, "web")


def test_what_a_token_does_names_it(alice, vision):
    make_cluster("fra-1", teams=(vision,))
    make_profile("train-80")
    make_quota(vision, 8)
    token, text = make_token(alice, "ci-vision")
    headers = {"Authorization": f"Bearer {text}"}
    body = {"team": "vision", "cluster": "fra-1", "profile": "train-80", "reason": "The review."}
    client = Client(REMOTE_ADDR=ADDRESS, headers=headers)
    assert client.post("/api/v1/claims/", body, content_type="application/json").status_code == 201
    one = entry("claim.requested")
    assert who_and_where(one) == ("alice", "person", ADDRESS, "token")
    assert (one.token, one.via, one.team) == (token.start, "ci-vision", vision)
    assert one.place == "POST api-claim-list"
    assert text not in str(vars(one))


# Roles.


def test_a_member_is_added_gets_another_role_and_is_removed(root, vision):
    noor = make_user("noor")
    admin = browser(root)
    admin.post("/teams/vision/people/", {"username": "noor", "role": "member"})
    admin.post(f"/teams/vision/people/{noor.pk}/role", {"role": "lead"})
    admin.post(f"/teams/vision/people/{noor.pk}/remove")
    assert not Membership.objects.filter(user=noor).exists()
    changes = [entry(f"member.{done}") for done in ("added", "role_changed", "removed")]
    assert [one.values for one in changes] == [
        [["Role of noor", "–", "member"]],
        [["Role of noor", "member", "lead"]],
        [["Role of noor", "lead", "–"]],
    ]
    assert {who_and_where(one) for one in changes} == {("root", "person", ADDRESS, "web")}
    assert {one.team for one in changes} == {vision}


def test_a_person_becomes_platform_admin_and_is_deactivated(root, alice):
    admin = browser(root)
    admin.post(f"/people/{alice.pk}/admin/", {"admin": "on"})
    one = entry("person.admin_granted")
    assert (one.values, one.name) == ([["Platform admin", "no", "yes"]], "alice")
    admin.post(f"/people/{alice.pk}/deactivate/")
    assert entry("person.deactivated").values == [["Active", "yes", "no"]]
    assert who_and_where(one) == ("root", "person", ADDRESS, "web")


# Approvals.


@pytest.fixture
def asked(alice, vision):
    fra = make_cluster("fra-1", teams=(vision,))
    make_quota(vision, 8)
    return make_claim(vision, by=alice, cluster=fra, profile=make_profile("train-80"), name="bev-train")


def test_an_approval(lena, asked):
    browser(lena).post(f"/approvals/{asked.pk}/approve/", {"spec_hash": asked.spec_hash})
    one = entry("claim.approved", name="bev-train")
    assert who_and_where(one) == ("lena", "person", ADDRESS, "web")
    assert one.values[0] == ["State", "Waiting for approval", "Approved"]


def test_a_denial(lena, asked):
    browser(lena).post(f"/approvals/{asked.pk}/deny/", {"note": "Too much."})
    one = entry("claim.denied")
    assert (one.text, one.values[0][2], one.actor) == ("Too much.", "Denied", "lena")


def test_a_release_and_what_the_portal_does_by_itself(alice, vision):
    fra = make_cluster("fra-1", teams=(vision,))
    held = make_claim(vision, by=alice, cluster=fra, state=ClaimState.PROVISIONED, name="held")
    browser(alice).post(f"/claims/{held.pk}/release/")
    assert who_and_where(entry("claim.releasing", name="held"))[0] == "alice"
    held.refresh_from_db()
    held.remark("Looked at.")
    one = entry("claim.changed", name="held")
    assert who_and_where(one) == ("", "portal", None, "system")


# Quota.


def test_a_quota_is_set_changed_and_removed(root, vision):
    admin = browser(root)
    form = {"team": "vision", "device_class": GPU_CLASS, "counts": ""}
    admin.post("/quotas/set/", {**form, "devices": "8"})
    admin.post("/quotas/set/", {**form, "devices": "12"})
    first, second = AuditEntry.objects.filter(action="quota.changed").order_by("at")
    assert second.values == [["limit", "8", "12"]]
    assert who_and_where(second) == ("root", "person", ADDRESS, "web")
    assert first.team == vision


def test_a_request_for_quota_is_approved(root, alice, vision):
    make_quota(vision, 8)
    client = Client(REMOTE_ADDR=ADDRESS)
    client.force_login(alice)
    body = {"team": "vision", "device_class": GPU_CLASS, "devices": 12, "reason": "More."}
    request = client.post("/api/v1/quotas/requests/", body, content_type="application/json").json()
    assert entry("quota_request.requested").values == [["limit", "–", "12"]]
    browser(root).post(f"/approvals/quota/{request['id']}/approve/")
    one = entry("quota_request.approved")
    assert (one.values, one.actor) == ([["State", "waiting", "approved"]], "root")


# Rates.


def test_a_rate_is_added_and_removed(root):
    admin = browser(root)
    later = (timezone.now() + timedelta(days=2)).isoformat()
    body = {"title": "H100", "per_hour": "2.5", "currency": "EUR", "valid_from": later}
    rate = admin.post("/api/v1/rates/", body, content_type="application/json").json()
    admin.post(f"/rates/{rate['id']}/remove/")
    added, removed = entry("rate.added"), entry("rate.removed")
    assert added.values[0][1] == "–"
    assert added.values[0][2] == removed.values[0][1]
    assert who_and_where(removed) == ("root", "person", ADDRESS, "web")


# Maintenance.


def test_a_cluster_is_paused_and_resumed(root):
    make_cluster("fra-1")
    admin = browser(root)
    admin.post("/clusters/fra-1/pause/")
    admin.post("/clusters/fra-1/resume")
    assert entry("cluster.paused").values == [["Paused", "no", "yes"]]
    assert entry("cluster.resumed").values == [["Paused", "yes", "no"]]
    assert who_and_where(entry("cluster.paused")) == ("root", "person", ADDRESS, "web")


# Admin access.


def test_a_page_of_djangos_admin(root, alice):
    admin = browser(root)
    assert admin.get(f"/admin/teams/user/{alice.pk}/change/").status_code == 200
    one = entry("admin.opened")
    assert who_and_where(one) == ("root", "person", ADDRESS, "web")
    assert one.name == f"/admin/teams/user/{alice.pk}/change/"


def test_who_may_not_open_djangos_admin_leaves_no_entry_of_it(alice):
    browser(alice).get("/admin/")
    assert not AuditEntry.objects.filter(action="admin.opened").exists()


# Exports.


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("/claims/?format=csv&q=bev", "claims.csv"),
        ("/people/?format=csv", "people.csv"),
        ("/activity/?format=csv", "activity.csv"),
        ("/audit/?format=csv", "audit.csv"),
        ("/rates/?format=csv", "rates.csv"),
        ("/teams/vision/cost.csv", "cost-vision-"),
        ("/api/v1/costs/focus/", "focus-"),
        ("/api/v1/costs/allocation/", "costs in the shape of OpenCost"),
        ("/profiles/export/", "catalogue.yaml"),
    ],
)
def test_a_download(root, vision, address, name):
    answer = browser(root).get(address)
    assert answer.status_code == 200, address
    one = entry("export.downloaded")
    assert one.name.startswith(name)
    assert who_and_where(one) == ("root", "person", ADDRESS, "web")
    assert ("q=bev" in one.text) is ("q=bev" in address)


def test_a_page_that_is_no_download_leaves_no_entry(root):
    browser(root).get("/claims/")
    assert not AuditEntry.objects.filter(action="export.downloaded").exists()


def test_an_export_of_the_configuration(root, capsys):
    call_command("config", "export")
    one = entry("configuration.exported")
    assert who_and_where(one) == ("", "portal", None, "system")


def test_a_change_by_a_command_names_its_author_and_the_command(root, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["manage.py", "config", "apply"])
    file = tmp_path / "site.yaml"
    file.write_text("apiVersion: dragoman.dev/v1\nkind: Team\nslug: nlp\ntitle: Language\n")
    call_command("config", "apply", str(file), "--by", "root", "--yes")
    one = entry("team.created")
    assert (one.actor, one.source, one.place, one.address) == ("root", "system", "manage.py config", None)


def test_activity_has_neither_addresses_nor_sign_ins(alice, vision, lena):
    person = browser()
    person.post(LOGIN, {"login": "alice", "password": "alice"})
    person.get("/claims/?format=csv")
    assert Membership.objects.get(user=alice).role == Role.MEMBER
    page = person.get("/teams/vision/activity/").text
    assert ADDRESS not in page
    assert "signed in" not in page
    assert "downloaded" not in page
    assert "signed in" not in browser(make_user("root", admin=True)).get("/activity/").text


def test_a_changed_account(alice):
    person = browser(alice)
    form = {
        "first_name": "Alice",
        "last_name": "",
        "email": "mallory@example.org",
        "timezone": "",
        "theme": "dark",
    }
    assert person.post("/me/", form).status_code == 302
    person.post("/accounts/reauthenticate/", {"password": "alice", "next": "/me/"})
    one = entry("person.changed")
    assert any(after == "mallory@example.org" for _what, _before, after in one.values)
    assert who_and_where(one) == ("alice", "person", ADDRESS, "web")


def test_a_saved_reason(root):
    admin = browser(root)
    admin.post("/approvals/reasons/new/", {"title": "Too long", "text": "Too long for a test."})
    assert entry("reason.added").values == [["Reason", "—", "Too long: Too long for a test."]]
