"""Groups are read again between sign-ins; what a provider ends is ended here."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from teams.identity import sync
from teams.identity.models import IdentityGrant
from teams.identity.services import change_provider, save_rule
from teams.identity.sync import read_groups_again
from teams.models import ApiToken, AuditEntry, Membership, User
from teams.service_accounts import create_account_token, create_service_account
from teams.tokens import create_token
from tests.teams.identity.conftest import NINA, asks, due, sign_in


def role() -> str:
    return Membership.objects.filter(user__username="nina").values_list("role", flat=True).first() or ""


def test_nothing_is_read_before_it_is_due(nina, issuer):
    issuer.asked.clear()
    assert not read_groups_again()
    assert issuer.asked == []


@pytest.mark.security("access", "the role of a group that the person has left")
def test_who_leaves_a_group_loses_access_without_signing_in_again(nina, issuer):
    issuer.claims = NINA | {"groups": []}
    due()
    assert read_groups_again() == {"read": 1}
    assert role() == ""
    assert nina.get("/me/").status_code == 200  # still signed in, in no team


def test_a_group_that_somebody_joins_gives_access_too(root, sso, vision, nina, issuer):
    save_rule(by=root, provider=sso, pattern="gpu-leads", team=vision, role="lead")
    issuer.claims = NINA | {"groups": ["gpu-vision", "gpu-leads"]}
    due()
    read_groups_again()
    assert role() == "lead"


def test_the_next_reading_is_put_off(nina, issuer):
    due()
    read_groups_again()
    assert not read_groups_again()
    assert IdentityGrant.objects.get().due_at > timezone.now() + timedelta(minutes=4)


@pytest.mark.security("sign-in", "a session whose refresh token the provider refuses")
def test_a_refused_refresh_token_ends_the_sessions_and_keeps_the_roles(nina, issuer):
    issuer.refused = "invalid_grant"
    due()
    assert read_groups_again() == {"over": 1}
    assert nina.get("/me/").status_code == 302
    assert role() == "member"  # the provider did not say that the groups changed
    entry = AuditEntry.objects.get(action="session.ended")
    assert "the sign-in at SSO is over: 1 of their sessions ended" in entry.text
    due()
    assert not read_groups_again()  # it is not asked for ever


@pytest.mark.parametrize("error", ["invalid_client", "server_error"])
def test_a_provider_that_refuses_the_client_ends_nobodys_session(nina, issuer, error, sso):
    issuer.refused = error
    due()
    assert read_groups_again() == {"unavailable": 1}
    assert nina.get("/me/").status_code == 200
    assert role() == "member"
    sso.refresh_from_db()
    assert error in sso.problem


def test_a_provider_that_is_away_removes_nobody_and_is_asked_less_and_less(nina, issuer, sso, time_machine):
    issuer.status = 503
    waits = []
    for _again in range(4):
        due()
        assert read_groups_again() == {"unavailable": 1}
        assert not read_groups_again()
        sso.refresh_from_db()
        waits.append(round((sso.retry_at - timezone.now()).total_seconds() / 60))
        time_machine.move_to(sso.retry_at + timedelta(seconds=1))
    assert waits == [1, 2, 4, 8]
    assert role() == "member"
    issuer.status = 200
    due()
    assert read_groups_again() == {"read": 1}
    sso.refresh_from_db()
    assert (sso.failures, sso.retry_at, sso.problem) == (0, None, "")


def test_userinfo_about_somebody_else_changes_nothing(nina, issuer):
    issuer.userinfo = NINA | {"sub": "somebody-else", "groups": []}
    due()
    assert read_groups_again() == {"unavailable": 1}
    assert role() == "member"


@pytest.mark.security("sign-in", "groups of somebody else, in the ID token or in userinfo")
@pytest.mark.parametrize("other", ["ID token", "userinfo", "both"])
def test_groups_of_another_subject_change_nothing_wherever_they_stand(root, sso, vision, nina, issuer, other):
    save_rule(by=root, provider=sso, pattern="gpu-leads", team=vision, role="lead")
    issuer.renews_id_token = True
    theirs = {"sub": "somebody-else", "groups": ["gpu-leads"]}
    if other != "userinfo":
        issuer.changes = theirs
    if other != "ID token":
        issuer.userinfo = NINA | theirs
    due()
    assert read_groups_again() == {"unavailable": 1}
    assert role() == "member"


def test_a_rotated_refresh_token_is_used_from_then_on(nina, issuer):
    answer = type(issuer).token

    def rotating(form):
        status, tokens = answer(issuer, form)
        if form["grant_type"] == "refresh_token" and status == 200:
            issuer.refresh_token = "refresh-2"
            tokens["refresh_token"] = "refresh-2"
        return status, tokens

    issuer.token = rotating
    for _twice in range(2):
        due()
        assert read_groups_again() == {"read": 1}


def test_a_sign_in_meanwhile_is_not_ended_by_the_older_token(nina, issuer, monkeypatch, sso):
    due()
    (grant,) = sync.due_grants(sso, timezone.now())
    newer = Client()
    issuer.refresh_token = "refresh-2"
    sign_in(newer, issuer, **NINA)
    assert sync.read_grant(sso, grant) == "newer"
    assert newer.get("/me/").status_code == 200


def test_two_runs_at_once_read_each_person_once(nina, sso):
    due()
    now = timezone.now()
    assert len(sync.due_grants(sso, now)) == 1
    assert sync.due_grants(sso, now) == []


def test_a_disabled_provider_and_a_deactivated_person_are_not_read(nina, issuer, sso):
    due()
    User.objects.filter(username="nina").update(is_active=False)
    assert not read_groups_again()
    User.objects.filter(username="nina").update(is_active=True)
    type(sso).objects.update(enabled=False)
    assert not read_groups_again()


def test_groups_that_only_id_tokens_name_are_read_from_the_new_one(nina, issuer):
    issuer.userinfo = {"sub": "n-1"}  # as that of Microsoft Entra ID
    issuer.renews_id_token = True
    due()
    read_groups_again()
    assert role() == "member"
    issuer.claims = {"sub": "n-1"}
    due()
    read_groups_again()
    assert role() == ""


def test_without_a_new_id_token_groups_that_userinfo_does_not_name_stay(nina, issuer):
    issuer.userinfo = {"sub": "n-1"}
    due()
    assert read_groups_again() == {"read": 1}
    assert role() == "member"


def test_a_new_id_token_that_is_not_valid_changes_nothing(nina, issuer, sso):
    issuer.renews_id_token = True
    issuer.changes = {"aud": "another-client", "groups": []}
    due()
    assert read_groups_again() == {"unavailable": 1}
    assert role() == "member"
    sso.refresh_from_db()
    assert "was issued to another client" in sso.problem


@pytest.mark.security("sign-in", "the API token of a person whose sign-in the provider refuses")
def test_a_refused_refresh_token_suspends_the_api_tokens_until_the_next_sign_in(nina, issuer, token):
    assert asks(token).status_code == 200
    issuer.refused = "invalid_grant"
    due()
    read_groups_again()
    refused = asks(token)
    assert refused.status_code == 401
    assert "API tokens of nina are suspended since" in refused.json()["detail"]
    assert ApiToken.objects.get().revoked_at is None
    entry = AuditEntry.objects.get(action="token.suspended")
    assert entry.text == "1 API token suspended: SSO refuses to renew the sign-in"
    issuer.refused = ""
    back = Client()
    sign_in(back, issuer, **NINA)
    assert "Your API tokens work again." in back.get("/me/").text
    assert asks(token).status_code == 200
    assert AuditEntry.objects.get(action="token.given_back").text.startswith("1 API token work")


def test_a_token_made_while_tokens_are_suspended_does_not_work_either(nina, issuer, token):
    issuer.refused = "invalid_grant"
    due()
    read_groups_again()
    _row, another = create_token(by=User.objects.get(username="nina"), title="another")
    assert asks(another).status_code == 401


@pytest.mark.parametrize("error", ["invalid_client", "server_error"])
def test_a_provider_that_refuses_the_client_suspends_nobodys_tokens(nina, issuer, token, error):
    issuer.refused = error
    due()
    read_groups_again()
    assert asks(token).status_code == 200


def test_a_lost_key_suspends_no_tokens_since_the_provider_said_nothing(nina, issuer, token):
    IdentityGrant.objects.update(sealed=b"sealed with a key that is gone")
    due()
    assert read_groups_again() == {"over": 1}
    assert asks(token).status_code == 200


def test_a_service_account_goes_on_without_the_person_who_made_it(nina, issuer, vision, olga):
    account = create_service_account(by=olga, team=vision, name="ci")
    _row, text = create_account_token(by=olga, account=account, title="ci")
    issuer.refused = "invalid_grant"
    due()
    read_groups_again()
    assert asks(text).status_code == 200


def test_a_provider_may_be_told_to_leave_tokens_alone(root, nina, issuer, sso, token):
    change_provider(by=root, provider=sso, suspends_tokens=False)
    issuer.refused = "invalid_grant"
    due()
    assert read_groups_again() == {"over": 1}
    assert asks(token).status_code == 200


def test_the_page_of_tokens_says_that_they_are_suspended(nina, issuer, token):
    person = User.objects.get(username="nina")
    other = Client()
    other.force_login(person)
    assert "suspended" not in other.get("/me/tokens/").text
    issuer.refused = "invalid_grant"
    due()
    read_groups_again()
    assert other.get("/me/tokens/").status_code == 302  # signed out, although not by the provider
    User.objects.filter(pk=person.pk).update(break_glass=True)
    other.force_login(person)
    assert "Your API tokens are suspended since" in other.get("/me/tokens/").text
    User.objects.filter(pk=person.pk).update(tokens_suspended_at=timezone.now() + timedelta(days=7))
    assert "Your API tokens go on until" in other.get("/me/tokens/").text
