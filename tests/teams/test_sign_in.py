import pytest
from django.test import Client

from teams.models import User, recorded_changes
from teams.tokens import find_token
from tests.factories import make_token, make_user

LOGIN = "/accounts/login/"


def sign_in(client, login="alice", password="alice"):
    return client.post(LOGIN, {"login": login, "password": password})


@pytest.mark.security("sign-in", "signs up where an admin makes accounts")
def test_sign_in_page_offers_no_sign_up(client, db):
    page = client.get(LOGIN)
    assert page.status_code == 200
    assert "signup" not in page.text
    assert "Platform admins make the accounts" in client.get("/accounts/signup/").text


@pytest.mark.parametrize("login", ["alice", "alice@example.org"])
def test_sign_in_by_user_name_or_email(client, db, login):
    make_user("alice", email="alice@example.org")
    assert sign_in(client, login).headers["Location"] == "/"
    assert client.get("/me/").status_code == 200


def test_wrong_password_shows_an_error_and_keeps_input(client, alice):
    page = sign_in(client, password="wrong")
    assert "Wrong user name or password." in page.text
    assert 'value="alice"' in page.text
    assert client.get("/me/").status_code == 302


@pytest.mark.security("guessing", "guesses a password")
def test_five_wrong_passwords_lock_the_sign_in(client, alice):
    for _attempt in range(5):
        sign_in(client, password="wrong")
    page = sign_in(client)
    assert "Too many failed login attempts" in page.text
    assert client.get("/me/").status_code == 302


@pytest.mark.security("guessing", "locks somebody else out with wrong passwords for a known name")
def test_wrong_passwords_from_one_address_lock_nobody_out_elsewhere(client, alice):
    for _attempt in range(9):
        client.post(LOGIN, {"login": "alice", "password": "wrong"}, REMOTE_ADDR="203.0.113.7")
    assert sign_in(Client()).headers["Location"] == "/"


@pytest.mark.security("guessing", "guesses a password from many addresses")
def test_wrong_passwords_for_a_name_are_limited_from_everywhere_too(alice):
    def attempt(number, password="wrong"):
        at = f"2001:db8:{number // 4:x}::1"
        return Client().post(LOGIN, {"login": "Alice", "password": password}, REMOTE_ADDR=at)

    for number in range(100):
        assert "Wrong user name or password." in attempt(number).text
    assert "Too many failed login attempts" in attempt(400, "alice").text
    assert sign_in(Client(), "bob", "bob").status_code == 200  # another name has its own limit


@pytest.mark.security("guessing", "asks for a port of the host with each guess, to be counted anew")
def test_the_port_that_a_client_names_gives_no_fresh_limit(client, alice):
    for port in range(81, 87):
        page = client.post(LOGIN, {"login": "alice", "password": "wrong"}, HTTP_HOST=f"testserver:{port}")
    assert "Too many failed login attempts" in page.text


def test_right_passwords_use_no_limit_up(alice):
    for number in range(110):
        browser = Client()
        answer = browser.post(
            LOGIN, {"login": "alice", "password": "alice"}, REMOTE_ADDR=f"198.51.100.{number}"
        )
        assert answer.headers["Location"] == "/"


@pytest.mark.security("guessing", "guesses a password in Django's admin")
def test_django_admin_uses_the_rate_limited_sign_in(client, db):
    assert client.get("/admin/login/").headers["Location"].startswith(LOGIN)


def test_sign_out_needs_post_and_ends_the_session(browse, alice):
    person = browse(alice)
    assert person.get("/accounts/logout/").status_code == 200
    assert person.get("/me/").status_code == 200
    assert person.post("/accounts/logout/").headers["Location"] == LOGIN
    assert person.get("/me/").status_code == 302


@pytest.mark.security("sign-in", "changes the password without the old one")
def test_changing_the_password_needs_the_old_one(browse, alice):
    new = "correct horse battery staple"
    form = {"oldpassword": "alice", "password1": new, "password2": new}
    answer = browse(alice).post("/accounts/password/change/", form)
    assert answer.status_code == 302
    assert sign_in(Client(), password=new).headers["Location"] == "/"


def changes(of):
    return [(entry.by.username, entry.text) for entry in recorded_changes(of)]


@pytest.mark.security("sign-in", "goes on with a token after the password was changed")
def test_new_password_revokes_the_tokens_of_that_person_and_says_so_before(browse, alice, bob):
    person, path = browse(alice), "/accounts/password/change/"
    mine, text = make_token(alice)
    _theirs, other_text = make_token(bob)
    assert "revokes all your API tokens" in person.get(path).text
    new = "correct horse battery staple"
    assert person.post(path, {"oldpassword": "wrong", "password1": new, "password2": new}).status_code == 200
    assert find_token(text)
    person.post(path, {"oldpassword": "alice", "password1": new, "password2": new})
    assert find_token(text) is None
    assert find_token(other_text)
    assert changes(mine) == [("alice", "revoked: the password was changed"), ("alice", "created")]


def test_password_set_by_an_admin_revokes_tokens_and_a_new_hash_does_not(alice, settings):
    _token, text = make_token(alice)
    alice.first_name = "Alice"
    alice.save()
    settings.PASSWORD_HASHERS = [
        "django.contrib.auth.hashers.ScryptPasswordHasher",
        *settings.PASSWORD_HASHERS,
    ]
    assert alice.check_password("alice")
    assert User.objects.get().password.startswith("scrypt")
    assert find_token(text)
    alice.set_password("correct horse battery staple")
    alice.save(update_fields=["password"])
    assert find_token(text) is None


def test_password_reset_without_mail_names_whom_to_ask(client, alice, settings):
    path = "/accounts/password/reset/"
    settings.MAIL_URL = ""
    for answer in (client.get(path), client.post(path, {"email": "alice@example.org"})):
        assert answer.status_code == 200
        assert "Ask a platform admin to set a new password" in answer.text
    settings.MAIL_URL = "smtp://mail.example.org"
    assert 'name="email"' in client.get(path).text
    answer = client.post(path, {"email": "nobody@example.org"})
    assert (answer.status_code, answer.headers["Location"]) == (302, f"{path}done/")


def test_csrf_failure_shows_a_page(alice):
    client = Client(enforce_csrf_checks=True)
    page = sign_in(client)
    assert page.status_code == 403
    assert "Form expired" in page.text


@pytest.mark.parametrize(
    "path",
    ["/accounts/password/change/", "/accounts/2fa/", "/accounts/2fa/totp/activate/", "/accounts/logout/"],
)
def test_account_pages_use_the_portal_frame(browse, alice, path):
    page = browse(alice).get(path, follow=True)
    assert page.status_code == 200
    assert 'class="dg-brand"' in page.text


def test_anonymous_reader_returns_to_the_page_after_sign_in(client, alice):
    asked = client.get("/me/tokens/")
    assert asked.headers["Location"] == f"{LOGIN}?next=/me/tokens/"
    answer = client.post(
        asked.headers["Location"], {"login": "alice", "password": "alice", "next": "/me/tokens/"}
    )
    assert answer.headers["Location"] == "/me/tokens/"
