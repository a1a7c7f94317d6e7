"""The pages of signing in and out: headings, labels and buttons are the portal's, in sentence case."""

import re

import pytest
from allauth.account.forms import default_token_generator
from allauth.account.utils import user_pk_to_url_str
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth as totp

from tests.teams.test_sign_in import sign_in

KEY = "/accounts/password/reset/key/"
VISITOR = (
    "/accounts/login/",
    "/accounts/signup/",
    "/accounts/inactive/",
    "/accounts/password/reset/",
    "/accounts/password/reset/done/",
    f"{KEY}done/",
)
SIGNED_IN = (
    "/accounts/logout/",
    "/accounts/password/change/",
    "/accounts/reauthenticate/",
    "/accounts/2fa/",
    "/accounts/2fa/totp/activate/",
)
WITH_APP = (
    "/accounts/2fa/totp/deactivate/",
    "/accounts/2fa/recovery-codes/",
    "/accounts/2fa/recovery-codes/generate/",
)
WORDS = re.compile(
    r"<(title|h1|h2|label|button|a)\b[^>]*>(?P<text>.*?)</\1>|placeholder=\"(?P<placeholder>[^\"]*)\"", re.S
)
NAMES = {"API", "Dragoman", "Enter", "QR"}


def title_case(page: str) -> list[str]:
    """Return the texts of the main part in which a later word begins with a capital."""
    main = page[: page.index("<body")] + page[page.index("<main") : page.index("</main>")]
    found = []
    for match in WORDS.finditer(main):
        text = re.sub(r"<[^>]*>", "", match["text"] or match["placeholder"] or "").partition(" · ")[0]
        _first, *later = text.split() or [""]
        if any(word[0].isupper() and word not in NAMES for word in later):
            found.append(" ".join(text.split()))
    return found


def confirmed(client):
    """Sign in, and enter the password once more, which the pages of second factors ask for."""
    sign_in(client)
    client.post("/accounts/reauthenticate/", {"password": "alice"})


def check(client, path):
    page = client.get(path)
    assert page.status_code == 200
    assert "<h1" in page.text
    assert title_case(page.text) == []


@pytest.mark.parametrize("path", VISITOR)
def test_pages_of_visitors_are_in_sentence_case(client, db, settings, path):
    settings.MAIL_URL = "smtp://mail.example.org"
    check(client, path)


def test_the_link_of_the_mail_leads_to_a_new_password(client, alice):
    key = f"{user_pk_to_url_str(alice)}-{default_token_generator.make_token(alice)}"
    page = client.get(f"{KEY}{key}/", follow=True)
    assert title_case(page.text) == []
    assert "revokes all your API tokens" in page.text
    new = {"password1": "a-long-new-secret", "password2": "a-long-new-secret"}
    done = client.post(page.redirect_chain[-1][0], new, follow=True)
    assert "Your password is changed" in done.text
    assert sign_in(client, password="a-long-new-secret").status_code == 302
    check(client, f"{KEY}{key}/")
    assert "This link is not valid" in client.get(f"{KEY}{key}/").text


@pytest.mark.parametrize("path", SIGNED_IN)
def test_pages_of_the_account_are_in_sentence_case(client, alice, path):
    confirmed(client)
    check(client, path)


@pytest.mark.parametrize("path", WITH_APP)
def test_pages_of_the_second_factor_are_in_sentence_case(client, alice, path):
    confirmed(client)
    totp.TOTP.activate(alice, totp.generate_totp_secret())
    RecoveryCodes.activate(alice)
    check(client, path)


def test_recovery_codes_are_shown_each_in_a_line(client, alice):
    confirmed(client)
    totp.TOTP.activate(alice, totp.generate_totp_secret())
    codes = RecoveryCodes.activate(alice).get_unused_codes()
    page = client.get("/accounts/2fa/recovery-codes/").text
    assert "\n".join(codes) in page
    assert f"{len(codes)} of {len(codes)} are unused" in page


def test_the_authenticator_app_is_set_up_and_removed(client, alice):
    confirmed(client)
    path = "/accounts/2fa/totp/activate/"
    secret = re.search(r'id="authenticator_secret" value="(\w+)"', client.get(path).text)[1]
    assert "Incorrect code" in client.post(path, {"code": "000000"}).text
    code = totp.format_hotp_value(totp.hotp_value(secret, next(totp.yield_hotp_counters_from_time())))
    client.post(path, {"code": code})
    assert alice.authenticator_set.filter(type="totp").exists()
    client.post("/accounts/2fa/totp/deactivate/")
    assert not alice.authenticator_set.exists()
