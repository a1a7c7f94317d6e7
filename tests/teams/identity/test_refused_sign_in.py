"""Whom an identity provider refuses signs in here by no other way: neither by password nor by passkey."""

from datetime import timedelta
from typing import Any

import pytest
from allauth.account.internal.flows.login import perform_login
from allauth.account.models import Login
from allauth.mfa.models import Authenticator
from django.contrib.messages import get_messages
from django.contrib.messages.storage.fallback import FallbackStorage
from django.core.cache import cache
from django.test import Client, RequestFactory
from django.utils import timezone

from core.errors import Conflict, Forbidden
from teams.identity.models import IdentityGrant
from teams.identity.people import SignInRefused, unlink
from teams.identity.services import change_provider, remove_provider, set_enabled
from teams.identity.suspension import GRACE, outlives_session, set_break_glass, suspend_tokens, vouch_for
from teams.identity.sync import read_groups_again
from teams.models import AuditEntry, User
from teams.tasks import read_groups_again as read_groups_again_task
from tests.factories import make_user
from tests.teams.identity.conftest import NINA, asks, configured, due, sign_in

PASSWORD = "a long password of nina"


@pytest.fixture
def local(nina) -> User:
    """Nina, who has a password here too."""
    return give_password(User.objects.get(username="nina"))


def give_password(person: User) -> User:
    person.set_password(PASSWORD)
    User.objects.filter(pk=person.pk).update(password=person.password)
    return person


def refuse(issuer: Any) -> None:
    """The provider refuses to renew each sign-in."""
    issuer.refused = "invalid_grant"
    due()
    read_groups_again()
    issuer.refused = ""


def by_password(name: str = "nina", password: str = PASSWORD) -> str:
    """Sign in with a password; return "" if that went well, else what the page says."""
    browser = Client()
    page = browser.post("/accounts/login/", {"login": name, "password": password}, follow=True)
    return "" if browser.get("/me/").status_code == 200 else page.text


@pytest.mark.security("sign-in", "the password of a person whom the identity provider has disabled")
def test_a_password_is_closed_until_the_next_sign_in_through_the_provider(local, issuer):
    assert by_password() == ""
    refuse(issuer)
    assert (
        "SSO no longer renews your sign-in, and so your password and your passkeys are closed"
        in by_password()
    )
    entry = AuditEntry.objects.get(action="session.failed")
    assert (entry.name, entry.actor_kind) == ("nina", "nobody")
    assert "SSO refuses to renew the sign-in" in entry.text
    sign_in(Client(), issuer, **NINA)
    assert by_password() == ""


@pytest.mark.security("sign-in", "the passkey of a person whom the identity provider has disabled")
def test_a_passkey_is_closed_too(local, issuer, rf: RequestFactory):
    """As allauth signs in who has shown a passkey; in Chromium: tests/teams/test_passkeys_in_a_browser.py."""
    refuse(issuer)
    request = rf.post("/accounts/2fa/webauthn/login/")
    request.session = Client().session
    request._messages = FallbackStorage(request)
    answer = perform_login(request, Login(user=local))
    assert answer.url == "/accounts/login/"
    assert "your passkeys are closed" in str(next(iter(get_messages(request))))


@pytest.mark.security(
    "sign-in", "a session by password that goes on after the provider has disabled the person"
)
def test_sessions_that_began_with_a_password_end_too(local, issuer):
    browser = Client()
    browser.post("/accounts/login/", {"login": "nina", "password": PASSWORD})
    refuse(issuer)
    assert browser.get("/me/").status_code == 302


@pytest.mark.security(
    "sign-in", "a sign-in by password at the moment at which the provider refuses the person"
)
def test_a_session_of_the_moment_of_the_refusal_ends_soon(local, issuer, root):
    refuse(issuer)
    browser = Client()
    browser.force_login(local)  # as one that had passed the check before the refusal
    read_groups_again_task()
    assert browser.get("/me/").status_code == 302
    entry = AuditEntry.objects.filter(action="session.ended").latest("at")
    assert (entry.name, entry.text) == ("nina", "the sign-in at SSO is over: 1 of their sessions ended")
    set_break_glass(by=root, person=local, marked=True)
    browser.force_login(local)
    read_groups_again_task()
    assert browser.get("/me/").status_code == 200


@pytest.mark.security("sign-in", "a session by password that began before a refusal counted")
def test_a_session_ends_when_a_refusal_begins_to_count(local, issuer, time_machine):
    signed_out(issuer)
    time_machine.move_to(timezone.now() + GRACE - timedelta(hours=1))
    browser = Client()
    browser.post("/accounts/login/", {"login": "nina", "password": PASSWORD})
    read_groups_again_task()
    assert browser.get("/me/").status_code == 200
    time_machine.move_to(timezone.now() + timedelta(hours=1))
    read_groups_again_task()
    assert browser.get("/me/").status_code == 302


@pytest.mark.security("sign-in", "a new password of a person whom the identity provider has disabled")
def test_a_new_password_opens_nothing(local, issuer, token):
    refuse(issuer)
    local.refresh_from_db()
    local.set_password("another long password")
    local.save(update_fields=["password"])
    assert "are closed" in by_password(password="another long password")
    local.refresh_from_db()
    assert local.has_suspended_tokens


@pytest.mark.parametrize("error", ["invalid_client", "server_error"])
def test_a_provider_that_does_not_speak_of_the_person_closes_nothing(local, issuer, error):
    issuer.refused = error
    due()
    read_groups_again()
    assert by_password() == ""


def test_a_provider_that_is_disabled_or_removed_closes_nothing_any_more(local, issuer, sso, root):
    refuse(issuer)
    set_enabled(by=root, provider=sso, enabled=False)
    assert by_password() == ""
    set_enabled(by=root, provider=sso, enabled=True)
    assert "are closed" in by_password()
    remove_provider(by=root, provider=sso)
    assert by_password() == ""


def test_a_sign_in_through_another_provider_counts_as_well(local, issuer, sso, root):
    other = configured(root, issuer, "other", client_id="dragoman-2")
    refuse(issuer)
    IdentityGrant.objects.create(
        user=local, provider=other, subject="o-1", signed_in_at=timezone.now(), read_at=timezone.now()
    )
    assert "are closed" in by_password()  # of before
    vouch_for(other, local)
    assert by_password() == ""


def test_who_is_refused_does_not_unlink_the_provider_to_get_in(local, sso):
    IdentityGrant.objects.update(refused_at=timezone.now() + timedelta(days=3))
    with pytest.raises(SignInRefused, match="SSO has ended your sign-in"):
        unlink(by=local, provider=sso)


# Break-glass accounts.


def test_a_break_glass_account_signs_in_whatever_the_provider_says(local, issuer, token, root):
    set_break_glass(by=root, person=local, marked=True)
    refuse(issuer)
    assert by_password() == ""
    assert asks(token).status_code == 200


def test_the_mark_gives_back_what_was_closed_and_its_end_closes_it_again(local, issuer, token, root):
    refuse(issuer)
    assert asks(token).status_code == 401
    set_break_glass(by=root, person=local, marked=True)
    assert (by_password(), asks(token).status_code) == ("", 200)
    browser = Client()
    browser.post("/accounts/login/", {"login": "nina", "password": PASSWORD})
    set_break_glass(by=root, person=local, marked=False)
    assert asks(token).status_code == 401
    assert browser.get("/me/").status_code == 302
    assert "are closed" in by_password()


def test_only_platform_admins_mark_and_only_who_has_another_way_in(nina, root, alice):
    person = User.objects.get(username="nina")
    with pytest.raises(Forbidden):
        set_break_glass(by=alice, person=person, marked=True)
    with pytest.raises(Conflict, match="neither a password nor a passkey"):
        set_break_glass(by=root, person=person, marked=True)
    Authenticator.objects.create(user=person, type="webauthn", data={"name": "Key"})
    for _twice in range(2):
        set_break_glass(by=root, person=person, marked=True)
    entry = AuditEntry.objects.get(action="person.break_glass_marked")
    assert (entry.actor, entry.name) == ("root", "nina")


def test_the_page_of_a_person_marks_them_and_says_what_the_provider_does(client, local, issuer, root, alice):
    client.force_login(root)
    page, path = f"/people/{local.pk}/", f"/people/{local.pk}/break-glass/"
    refuse(issuer)
    assert (
        "SSO does not renew the sign-in: no password, no passkey and no API token works"
        in client.get(page).text
    )
    assert "Make nina a break-glass account?" in client.get(path).text
    assert client.post(path, {"marked": "on"}).url == page
    assert "this is a break-glass account, which signs in all the same" in client.get(page).text
    assert "nina is signed out at once" in client.get(path).text
    assert client.post(path, {"marked": "off"}).status_code == 302
    bare = make_user("bare")
    bare.set_unusable_password()
    bare.save()
    refused = client.post(f"/people/{bare.pk}/break-glass/", {"marked": "on"})
    assert refused.status_code == 409
    assert "bare has neither a password nor a passkey" in refused.text
    client.force_login(alice)
    assert client.post(path, {"marked": "on"}).status_code == 403


def test_the_api_marks_a_break_glass_account(api, local, root, alice):
    path = f"/api/v1/people/{local.pk}/"
    assert api(root).patch(path, {"break_glass": True}, format="json").json()["break_glass"] is True
    assert api(alice).patch(path, {"break_glass": False}, format="json").status_code == 403
    local.refresh_from_db()
    assert local.break_glass


# Nobody is locked out for good.


@pytest.fixture
def admins(nina, issuer, root) -> tuple[User, User]:
    """Two platform admins with a password who are linked to the provider, and no other."""
    people = []
    for number, name in enumerate(("ada", "ben")):
        sign_in(Client(), issuer, sub=f"a-{number}", preferred_username=name, groups=["gpu-vision"])
        people.append(give_password(User.objects.get(username=name)))
        User.objects.filter(username=name).update(is_superuser=True, is_staff=True)
    User.objects.filter(pk=root.pk).update(is_active=False)
    return people[0], people[1]


def test_of_two_admins_the_one_whom_the_provider_refuses_stays_out(admins, issuer):
    ada, _ben = admins
    IdentityGrant.objects.exclude(user=ada).update(due_at=None)
    refuse(issuer)
    assert "are closed" in by_password("ada")
    assert by_password("ben") == ""


def test_a_provider_that_refuses_every_admin_locks_nobody_out(admins, issuer):
    refuse(issuer)
    assert (by_password("ada"), by_password("ben")) == ("", "")
    User.objects.filter(username="ben").update(break_glass=True)  # now there is another one
    assert "are closed" in by_password("ada")


# A sign-out is no refusal of the person, where the two can be told apart.


@pytest.mark.parametrize(
    ("scopes", "granted", "outlives"),
    [
        ("openid", None, False),
        ("openid", "openid profile", False),
        ("openid", "openid offline_access", True),  # a default of the client
        ("openid offline_access", None, True),  # RFC 6749 §5.1: those that were asked for
        ("openid offline_access", "openid profile", True),  # Microsoft Entra ID never names it
        ("openid", ["offline_access"], False),
    ],
)
def test_the_answer_says_whether_the_refresh_token_outlives_the_session(
    root, sso, issuer, scopes, granted, outlives
):
    change_provider(by=root, provider=sso, scopes=scopes, admits_everybody=True)
    sso.refresh_from_db()
    assert outlives_session(sso, granted) is outlives
    issuer.scope = granted
    sign_in(Client(), issuer, **NINA)
    assert IdentityGrant.objects.get().is_offline is outlives


def signed_out(issuer: Any, sid: str = "session-1") -> None:
    """Sign out at the provider, which says so here and then refuses the refresh token."""
    answer = Client().post("/accounts/oidc/sso/logout/", {"logout_token": issuer.logout_token(sid=sid)})
    assert answer.status_code == 200
    refuse(issuer)


def test_after_a_sign_out_at_the_provider_tokens_go_on_for_a_week(local, issuer, token, time_machine):
    signed_out(issuer)
    assert asks(token).status_code == 200
    assert by_password() == ""
    entry = AuditEntry.objects.get(action="token.suspended")
    assert entry.text.startswith("1 API token suspended from ")
    local.refresh_from_db()
    assert local.tokens_suspended_at - timezone.now() > GRACE - timedelta(minutes=1)
    time_machine.move_to(timezone.now() + GRACE)
    assert asks(token).status_code == 401
    assert "are closed" in by_password()


def test_a_sign_in_within_the_week_keeps_the_tokens(nina, issuer, token, time_machine):
    signed_out(issuer)
    sign_in(Client(), issuer, **NINA)
    time_machine.move_to(timezone.now() + GRACE + timedelta(minutes=1))
    assert asks(token).status_code == 200


def test_after_a_sign_out_here_tokens_go_on_for_a_week(nina, issuer, token, time_machine):
    issuer.metadata = {"end_session_endpoint": f"{issuer.url}/end"}
    cache.clear()  # of metadata
    assert "Your API tokens go on until" in nina.post("/accounts/logout/").text
    refuse(issuer)
    assert asks(token).status_code == 200
    time_machine.move_to(timezone.now() + GRACE)
    assert asks(token).status_code == 401


@pytest.mark.security("sign-in", "a refusal that passes for a sign-out of an older session")
def test_a_sign_out_of_another_session_is_none_of_this_sign_in(nina, issuer, token):
    signed_out(issuer, sid="older")
    assert asks(token).status_code == 401


def test_with_an_offline_token_a_refusal_counts_at_once_after_a_sign_out_too(root, nina, sso, issuer, token):
    issuer.scope = "openid offline_access"
    sign_in(Client(), issuer, **NINA)
    signed_out(issuer)
    assert asks(token).status_code == 401


def test_userinfo_that_is_refused_is_about_the_person(nina, issuer, token, monkeypatch):
    answer = type(issuer).answer
    logout = issuer.logout_token(sid="session-1")
    Client().post("/accounts/oidc/sso/logout/", {"logout_token": logout})
    issuer.answer = lambda path, form: (403, {}) if path == "/userinfo" else answer(issuer, path, form)
    due()
    assert read_groups_again() == {"over": 1}
    assert asks(token).status_code == 401


@pytest.mark.parametrize("before", [None, timedelta(days=7), timedelta(0)], ids=["none", "in a week", "now"])
@pytest.mark.parametrize("now", [timedelta(days=7), timedelta(0)], ids=["in a week", "now"])
def test_of_two_refusals_the_one_that_counts_first_suspends_the_tokens(local, sso, token, before, now):
    """Each refusal, the earlier and the later one, counts at once or in a week."""
    start = timezone.now()
    if before is not None:
        suspend_tokens(sso, local, at=start + before)
    suspend_tokens(sso, local, at=start + now)
    local.refresh_from_db()
    assert local.tokens_suspended_at == start + min(now, now if before is None else before)
    assert asks(token).status_code == (401 if local.has_suspended_tokens else 200)
