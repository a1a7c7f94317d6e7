"""Who has to have a second factor, and what stays open to whoever lacks one."""

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth as totp
from django.test import Client

from core.errors import Invalid
from core.models import Installation
from inventory.signals import secrets_resealed
from teams.models import Session
from tests.factories import make_token

PAGE, SETUP, BELL = "/me/", "/accounts/2fa/", "/me/notices/bell/"
LOGIN, CODE = "/accounts/login/", "/accounts/2fa/authenticate/"


def require_of(whom):
    Installation.objects.update_or_create(pk=1, defaults={"second_factor": whom})


def give_app(user) -> str:
    """Give somebody an authenticator app; return its secret."""
    secret = totp.generate_totp_secret()
    totp.TOTP.activate(user, secret)
    return secret


def code_now(secret) -> str:
    return totp.format_hotp_value(totp.hotp_value(secret, next(totp.yield_hotp_counters_from_time())))


@pytest.mark.security("sign-in", "pages without the second factor that the portal demands")
@pytest.mark.parametrize(
    ("required", "alice_is_led", "root_is_led"),
    [("", False, False), ("admins", False, True), ("all", True, True)],
)
def test_whoever_lacks_a_required_factor_is_led_to_set_one_up(
    browse, alice, root, required, alice_is_led, root_is_led
):
    require_of(required)
    for user, is_led in ((alice, alice_is_led), (root, root_is_led)):
        answer = browse(user).get(PAGE)
        assert answer.headers.get("Location") == (SETUP if is_led else None)


def test_setting_it_up_leads_on(browse, alice):
    require_of("all")
    person = browse(alice)
    page = person.get(SETUP).text
    assert "requires a second factor of you" in page
    assert person.get("/accounts/2fa/totp/activate/").status_code == 302  # asks for the password first
    assert person.get("/accounts/reauthenticate/").status_code == 200
    assert person.get("/accounts/logout/").status_code == 200
    give_app(alice)
    assert person.get(PAGE).status_code == 200
    assert "requires a second factor of you" not in person.get(SETUP).text


@pytest.mark.security("sign-in", "recovery codes as the only second factor")
def test_recovery_codes_alone_are_no_second_factor(browse, alice):
    require_of("all")
    RecoveryCodes.activate(alice)
    assert browse(alice).get(PAGE).status_code == 302


def test_parts_of_the_frame_change_nothing_meanwhile(browse, alice):
    require_of("all")
    answer = browse(alice).get(BELL, headers={"hx-request": "true"})
    assert (answer.status_code, answer.content) == (204, b"")


@pytest.mark.security("sign-in", "a form without the second factor that the portal demands")
def test_forms_are_not_taken_before(browse, alice):
    require_of("all")
    assert browse(alice).post(PAGE, {"first_name": "Mallory"}).headers["Location"] == SETUP
    alice.refresh_from_db()
    assert alice.first_name == "Alice"


def test_api_tells_browsers_and_leaves_tokens_alone(api, alice):
    require_of("all")
    refused = api(alice).get("/api/v1/me/")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert "second factor" in refused.json()["detail"]
    _row, text = make_token(alice)
    assert api(token=text).get("/api/v1/me/").status_code == 200


def test_who_comes_from_a_provider_is_not_asked(browse, alice):
    require_of("all")
    person = browse(alice)
    Session.objects.update(signed_in_with="keycloak")
    assert person.get(PAGE).status_code == 200
    Session.objects.update(signed_in_with="passkey")
    assert person.get(PAGE).status_code == 302


@pytest.mark.parametrize("required", ["", "admins", "all"])
def test_the_check_costs_no_query(browse, alice, required, django_assert_num_queries):
    give_app(alice)
    require_of(required)
    person = browse(alice)
    person.get(BELL)
    with django_assert_num_queries(2):
        assert person.get(BELL).status_code == 200


def test_visitors_sign_in_first(client, db):
    require_of("all")
    assert client.get(LOGIN).status_code == 200
    assert client.get(PAGE).headers["Location"].startswith(LOGIN)


def test_platform_admin_sets_it_on_the_page_and_over_the_api(browse, root, alice, api):
    give_app(root)
    form = {"name": "Dragoman", "currency": "EUR", "timezone": "", "second_factor": "admins"}
    assert browse(root).post("/settings/", form).status_code == 302
    assert Installation.objects.get().second_factor == "admins"
    assert "second factor required of none → admins" in browse(root).get("/settings/").text
    changed = api(root).patch("/api/v1/settings/", {"second_factor": "all"}, format="json")
    assert changed.json()["second_factor"] == "all"
    assert (
        api(root).patch("/api/v1/settings/", {"name": "GPU"}, format="json").json()["second_factor"] == "all"
    )
    assert api(root).patch("/api/v1/settings/", {"second_factor": "x"}, format="json").status_code == 422
    assert browse(alice).post("/settings/", form).status_code == 302  # lacks one, and may not


def sign_in(client, name="alice"):
    return client.post(LOGIN, {"login": name, "password": name})


def test_code_of_the_app_signs_in(client, alice):
    secret = give_app(alice)
    assert sign_in(client).headers["Location"] == CODE
    assert client.get(PAGE).status_code == 302
    assert client.post(CODE, {"code": code_now(secret)}).headers["Location"] == "/"
    assert client.get(PAGE).status_code == 200
    assert Session.objects.get(user=alice).signed_in_with == "password"


@pytest.mark.security("sign-in", "a recovery code again")
def test_recovery_code_signs_in_once(alice):
    give_app(alice)
    code = RecoveryCodes.activate(alice).get_unused_codes()[0]
    for works in (True, False):
        client = Client()
        sign_in(client)
        answer = client.post(CODE, {"code": code})
        assert (answer.status_code == 302) is works
        assert (client.get(PAGE).status_code == 200) is works


def test_five_wrong_codes_block_more(client, alice):
    secret = give_app(alice)
    sign_in(client)
    for _attempt in range(5):
        assert "Incorrect code" in client.post(CODE, {"code": "000000"}).text
    code = totp.format_hotp_value(totp.hotp_value(secret, next(totp.yield_hotp_counters_from_time())))
    assert "Too many failed login attempts" in client.post(CODE, {"code": code}).text
    assert client.get(PAGE).status_code == 302


@pytest.mark.security("guessing", "sign-ins with passkeys, one after the other")
def test_attempts_with_passkeys_are_limited_by_address(client, db):
    answers = [
        client.post("/accounts/2fa/webauthn/login/", {"credential": "{}"}).status_code
        for _attempt in range(21)
    ]
    assert answers == [302] * 20 + [429]


@pytest.mark.security("sign-in", "malformed answers of passkeys at the sign-in")
@pytest.mark.parametrize(
    "credential", ["", "{}", "[]", "null", '"x"', "{", '{"id": 1}', '{"rawId": {"a": []}}']
)
def test_malformed_passkeys_are_refused(client, alice, credential):
    answer = client.post("/accounts/2fa/webauthn/login/", {"credential": credential})
    assert (answer.status_code, answer.headers["Location"]) == (302, LOGIN)
    assert client.get(PAGE).status_code == 302


@pytest.mark.security("access", "renaming and removing the passkey of somebody else")
def test_passkeys_of_others_are_not_found(browse, alice, bob):
    key = Authenticator.objects.create(user=bob, type="webauthn", data={"name": "Bob's"})
    person = browse(alice)
    person.post("/accounts/reauthenticate/", {"password": "alice"})
    for action in ("edit", "remove"):
        path = f"/accounts/2fa/webauthn/keys/{key.pk}/{action}/"
        assert person.get(path).status_code == 404
        assert person.post(path, {"name": "x"}).status_code == 404
    assert "Bob's" not in person.get("/accounts/2fa/webauthn/").text


@pytest.mark.parametrize("credential", ["{}", "[]", '{"id": 1}', '{"id": "x", "rawId": "x", "response": 1}'])
def test_malformed_passkeys_are_not_added(browse, alice, credential):
    person, path = browse(alice), "/accounts/2fa/webauthn/add/"
    person.post("/accounts/reauthenticate/", {"password": "alice"})
    assert person.get(path).status_code == 200
    assert person.post(path, {"name": "x", "credential": credential}).status_code == 200
    assert not Authenticator.objects.exists()


def test_malformed_passkeys_are_no_second_factor(client, alice):
    give_app(alice)
    sign_in(client)
    assert "Incorrect code" in client.post(CODE, {"credential": '{"id": 1}'}).text
    assert client.get(PAGE).status_code == 302


@pytest.mark.security("secrets", "reads secrets of authenticator apps from the database")
def test_secrets_of_second_factors_are_stored_encrypted_and_resealed(alice, settings):
    secret = give_app(alice)
    codes = RecoveryCodes.activate(alice).get_unused_codes()
    app, seed = Authenticator.objects.order_by("-type")
    assert secret not in str(app.data)
    assert "seed" in seed.data
    settings.CREDENTIAL_KEYS = ["bmV3LWtleS1uZXcta2V5LW5ldy1rZXktbmV3LWtleS0=", *settings.CREDENTIAL_KEYS]
    resealed = [count for _receiver, count in secrets_resealed.send(None)]
    assert sum(map(int, filter(None, resealed))) == 2
    settings.CREDENTIAL_KEYS = settings.CREDENTIAL_KEYS[:1]
    app.refresh_from_db()
    assert app.wrap().validate_code(code_now(secret))
    assert RecoveryCodes(Authenticator.objects.get(type="recovery_codes")).get_unused_codes() == codes
    settings.CREDENTIAL_KEYS = ["b3RoZXIta2V5LW90aGVyLWtleS1vdGhlci1rZXktb3Q="]
    with pytest.raises(Invalid, match="CREDENTIAL_KEYS lacks the key"):
        app.wrap().validate_code("000000")
