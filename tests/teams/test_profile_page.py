import pytest
from django.urls import URLResolver, get_resolver, resolve

from teams.identity.views import elsewhere
from teams.models import AuditEntry, Membership, User
from tests.factories import make_team
from tests.teams.conftest import confirm

ME = "/me/"
FORM = {
    "first_name": "Alicia",
    "last_name": "",
    "email": "",
    "timezone": "Europe/Berlin",
    "theme": "dark",
}


def test_profile_lists_own_teams_and_roles(browse, vision, alice):
    page = browse(alice).get(ME)
    assert page.status_code == 200
    assert 'href="/teams/vision/people/"' in page.text


def test_profile_stores_name_zone_and_theme(browse, alice):
    answer = browse(alice).post(ME, FORM)
    assert answer.headers["Location"] == ME
    alice.refresh_from_db()
    assert (alice.first_name, alice.timezone, alice.theme) == ("Alicia", "Europe/Berlin", "dark")


@pytest.mark.security("sign-in", "changes the email address, in the session of another")
def test_another_mail_address_asks_for_the_password_and_is_saved_after_it(browse, alice):
    person = browse(alice)
    asked = person.post(ME, FORM | {"email": "a@example.org"})
    assert asked.url.startswith("/accounts/reauthenticate/?next=")
    assert confirm(person, "wrong").status_code == 200
    alice.refresh_from_db()
    assert alice.email == ""
    confirm(person, "alice")
    alice.refresh_from_db()
    assert (alice.email, alice.first_name) == ("a@example.org", "Alicia")
    assert person.post(ME, FORM | {"email": "b@example.org"}).url == ME  # asked just now


def test_profile_form_ignores_admin_flags(browse, alice):
    browse(alice).post(ME, FORM | {"is_superuser": "on", "is_staff": "on", "username": "root"})
    alice.refresh_from_db()
    assert (alice.is_superuser, alice.is_staff, alice.username) == (False, False, "alice")


@pytest.mark.parametrize("field", [{"timezone": "Mars/Phobos"}, {"theme": "pink"}, {"email": "no address"}])
def test_invalid_profile_is_422(browse, alice, field):
    page = browse(alice).post(ME, FORM | field)
    assert page.status_code == 422
    assert "dg-err" in page.text
    assert User.objects.get(pk=alice.pk).first_name == "Alice"


def test_anonymous_reader_is_sent_to_sign_in(client, db):
    assert client.get(ME).status_code == 302
    assert client.post(ME, FORM).status_code == 302


def test_profile_query_count_is_constant(browse, vision, alice, django_assert_max_num_queries):
    person = browse(alice)
    with django_assert_max_num_queries(20) as one:
        person.get(ME)
    for number in range(20):
        Membership.objects.create(user=alice, team=make_team(f"team-{number}"))
    with django_assert_max_num_queries(len(one)):
        assert "team-19" in person.get(ME).text


@pytest.mark.security("sign-in", "the email address on a page of allauth, without the password")
def test_address_is_changed_in_the_profile_alone_and_the_former_one_is_told(
    browse, alice, settings, mailoutbox, django_capture_on_commit_callbacks
):
    settings.MAIL_URL = "smtp://mail.example"
    User.objects.filter(pk=alice.pk).update(email="old@example.org")
    person = browse(alice)
    for fields in (
        {"action_add": "", "email": "x@evil.example"},
        {"action_primary": "", "email": "x@evil.example"},
    ):
        assert person.post("/accounts/email/", fields).url == ME
    assert User.objects.get(pk=alice.pk).email == "old@example.org"
    with django_capture_on_commit_callbacks(execute=True):
        person.post(ME, FORM | {"email": "new@example.org"})
        confirm(person, "alice")
    assert User.objects.get(pk=alice.pk).email == "new@example.org"
    assert [(mail.to, mail.subject) for mail in mailoutbox] == [
        (["old@example.org"], "Your email address was changed")
    ]
    entry = AuditEntry.objects.get(action="person.changed", object_id=str(alice.pk))
    assert "Email address" in entry.text


# Each address of allauth that answers otherwise than by leading elsewhere, and why it is open.
OPEN = {
    "account_login": "signs in",
    "account_logout": "signs out",
    "account_inactive": "says that an account is deactivated",
    "account_signup": "says that nobody signs up",
    "account_reauthenticate": "asks for the password again",
    "account_email_verification_sent": "a page without a form",
    "account_confirm_email": "of signed links, which the portal does not send",
    "account_change_password": "asks for the password before",
    "account_set_password": "only for who has none, asked by the provider",
    "account_reset_password": "sends a link to the address of the account",
    "account_confirm_login_code": "of codes by email, which are off",
    "account_reset_password_from_key_done": "a page without a form",
    "account_reset_password_from_key": "of a signed link",
    "account_reset_password_done": "a page without a form",
    "openid_connect_login": "leads to the provider",
    "openid_connect_callback": "comes back from it",
    "identity_logout": "back-channel logout, by a signed token",
}


@pytest.mark.security("sign-in", "a page of allauth that nobody has looked at")
def test_each_open_address_of_allauth_is_known_with_its_reason():
    names = set()
    for pattern in get_resolver().url_patterns:
        if str(pattern.pattern) == "accounts/" and isinstance(pattern, URLResolver):
            names |= {name for name in pattern.reverse_dict if isinstance(name, str)}
    assert resolve("/accounts/email/").func == elsewhere
    of_second_factor = {name for name in names if name.startswith("mfa_")}  # each asks for the password first
    led_elsewhere = {"account_email", *(name for name in names if name.startswith("socialaccount_"))}
    assert names - of_second_factor - led_elsewhere == OPEN.keys()
