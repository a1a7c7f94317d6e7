"""Sign-in, groups, logout and tokens of a real Keycloak."""

import base64
import json
import time
from datetime import timedelta

import httpx
import pytest
import time_machine
from django.utils import timezone
from playwright.sync_api import Page, expect

from cluster.checkup import CheckupVerdict
from teams.identity.checkup import check_provider
from teams.identity.models import IdentityGrant
from teams.identity.services import change_provider, save_rule, set_secret
from teams.identity.suspension import GRACE
from teams.identity.sync import read_groups_again
from teams.identity.tokens import ProviderTokenRefused, id_token_claims
from teams.models import Membership, Session, User
from teams.tokens import create_token
from tests import patience
from tests.keycloak.realm import OTHER_CLIENT

pytestmark = pytest.mark.browser
WAIT = patience.PAGE * 1000


def is_in(page: Page, username: str) -> None:
    """Wait until the person is signed in."""
    page.wait_for_url(lambda url: "/accounts/" not in url and "/realms/" not in url, timeout=WAIT)
    page.goto(page.url.split("?")[0].rstrip("/") + "/me/")
    expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=WAIT)
    expect(page.locator(".dg-sub").first).to_have_text(username)


def is_out(page: Page, url: str) -> bool:
    page.goto(f"{url}/me/")
    return "/accounts/login/" in page.url


def until_out(page: Page, url: str) -> None:
    """Wait for a logout that Keycloak sends."""
    ends = time.monotonic() + patience.EVENT
    while not is_out(page, url):
        assert time.monotonic() < ends, "still signed in"
        time.sleep(0.2)


def role(username: str) -> str:
    return Membership.objects.filter(user__username=username).values_list("role", flat=True).first() or ""


def due() -> None:
    IdentityGrant.objects.exclude(due_at=None).update(due_at=timezone.now())


def test_groups_of_keycloak_become_roles(portal, sso):
    page = portal.sign_in("mira")
    is_in(page, "mira")
    assert "Mira Keys" in page.inner_text("body")
    assert role("mira") == "member"
    is_in(portal.sign_in("boss"), "boss")
    assert role("boss") == "lead"


@pytest.mark.security("access", "a sign-in of a person of Keycloak whom no rule admits")
def test_who_has_no_group_of_a_rule_stays_out(portal, sso):
    page = portal.sign_in("sales")
    expect(page.get_by_role("alert")).to_contain_text("none of your groups has a role", timeout=WAIT)
    assert not User.objects.filter(username="sales").exists()


def test_who_leaves_a_group_at_keycloak_loses_the_role_without_signing_in_again(portal, sso, company):
    page = portal.sign_in("leaver")
    is_in(page, "leaver")
    company.leaves("leaver", "gpu-vision")
    try:
        due()
        assert read_groups_again() == {"read": 1}
        assert role("leaver") == ""
        assert not is_out(page, portal.url)
    finally:
        company.joins("leaver", "gpu-vision")
    due()
    read_groups_again()
    assert role("leaver") == "member"


@pytest.mark.security(
    "sign-in", "a session here after Keycloak signed the person out, and that of somebody else"
)
def test_keycloak_ends_sessions_by_back_channel_logout(portal, sso, company):
    page, other = portal.sign_in("jonas"), portal.sign_in("mira")
    is_in(page, "jonas")
    is_in(other, "mira")
    assert Session.objects.get(user__username="jonas").provider_session
    company.log_out("jonas")
    until_out(page, portal.url)
    assert not is_out(other, portal.url)


def test_a_new_key_of_the_realm_works_for_logout_and_sign_in(portal, sso, company):
    page = portal.sign_in("traveller")
    is_in(page, "traveller")
    company.rotate_keys()
    company.log_out("traveller")
    until_out(page, portal.url)
    again = portal.sign_in("mira")
    is_in(again, "mira")


@pytest.mark.security("sign-in", "a session and a sign-in of a person whom Keycloak has disabled")
def test_a_person_whom_keycloak_disables_is_signed_out_and_stays_out(portal, sso, company):
    page = portal.sign_in("blocked")
    is_in(page, "blocked")
    company.set_enabled("blocked", enabled=False)
    try:
        due()
        assert read_groups_again() == {"over": 1}
        assert is_out(page, portal.url)
        refused = portal.sign_in("blocked")
        expect(refused.get_by_text("Account is disabled")).to_be_visible(timeout=WAIT)
    finally:
        company.set_enabled("blocked", enabled=True)


def answer_to(portal, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.get(f"{portal.url}/api/v1/me", headers=headers, timeout=30).status_code


@pytest.mark.security("sign-in", "the API token of a person whom Keycloak has disabled")
def test_api_tokens_of_a_person_whom_keycloak_disables_stop_until_they_sign_in_again(portal, sso, company):
    is_in(portal.sign_in("blocked"), "blocked")
    _row, token = create_token(by=User.objects.get(username="blocked"), title="pipeline")
    assert answer_to(portal, token) == 200
    company.set_enabled("blocked", enabled=False)
    try:
        due()
        assert read_groups_again() == {"over": 1}
        assert answer_to(portal, token) == 401
    finally:
        company.set_enabled("blocked", enabled=True)
    assert answer_to(portal, token) == 401  # nobody has signed in yet
    is_in(portal.sign_in("blocked"), "blocked")
    assert answer_to(portal, token) == 200


def sign_out(page: Page, url: str) -> None:
    page.goto(f"{url}/accounts/logout/")
    page.locator("form.card").get_by_role("button", name="Sign out").click()
    page.wait_for_url(f"{url}/accounts/login/*", timeout=WAIT)


@pytest.mark.security("sign-in", "the session at Keycloak after a sign-out here")
def test_signing_out_here_signs_out_at_keycloak(portal, sso):
    page = portal.sign_in("mira")
    is_in(page, "mira")
    sign_out(page, portal.url)
    assert is_out(page, portal.url)
    page.goto(f"{portal.url}/accounts/login/")
    page.get_by_role("button", name="Sign in with Company").click()
    expect(page.locator("#password")).to_be_visible(timeout=WAIT)  # Keycloak does not know them any more


def test_without_it_keycloak_signs_the_person_in_again(portal, sso):
    change_provider(by=portal.root, provider=sso, signs_out=False)
    page = portal.sign_in("mira")
    is_in(page, "mira")
    sign_out(page, portal.url)
    page.goto(f"{portal.url}/accounts/login/")
    page.get_by_role("button", name="Sign in with Company").click()
    is_in(page, "mira")


def test_an_offline_token_outlives_the_sign_out_and_api_tokens_with_it(portal, sso, company):
    change_provider(by=portal.root, provider=sso, scopes="openid profile email offline_access")
    page = portal.sign_in("offline")
    is_in(page, "offline")
    _row, token = create_token(by=User.objects.get(username="offline"), title="pipeline")
    sign_out(page, portal.url)
    due()
    assert read_groups_again() == {"read": 1}
    assert answer_to(portal, token) == 200
    company.set_enabled("offline", enabled=False)
    try:
        due()
        assert read_groups_again() == {"over": 1}
        assert answer_to(portal, token) == 401
    finally:
        company.set_enabled("offline", enabled=True)


def test_without_an_offline_token_api_tokens_stop_a_week_after_the_sign_out(portal, sso):
    page = portal.sign_in("mira")
    is_in(page, "mira")
    _row, token = create_token(by=User.objects.get(username="mira"), title="pipeline")
    sign_out(page, portal.url)
    due()
    assert read_groups_again() == {"over": 1}
    assert answer_to(portal, token) == 200
    mira = User.objects.get(username="mira")
    assert not mira.has_suspended_tokens
    assert mira.tokens_suspended_at is not None
    User.objects.filter(pk=mira.pk).update(tokens_suspended_at=mira.tokens_suspended_at - GRACE)
    assert answer_to(portal, token) == 401


def test_two_providers_at_once(portal, sso, partners):
    row = portal.connect(partners, "partners")
    save_rule(by=portal.root, provider=row, pattern="externals", team=portal.vision, role="viewer")
    is_in(portal.sign_in("paula", "Partners"), "paula")
    is_in(portal.sign_in("mira", "Company"), "mira")
    assert (role("paula"), role("mira")) == ("viewer", "member")


@pytest.mark.security("sign-in", "the answer of Keycloak again, in another browser and in the same")
def test_an_answer_that_is_sent_again_signs_nobody_in(portal, sso):
    page = portal.visit()
    answers: list[str] = []
    page.on(
        "request", lambda request: answers.append(request.url) if "/login/callback/" in request.url else None
    )
    page.get_by_role("button", name="Sign in with Company").click()
    page.locator("#username").fill("replayer")
    page.locator("#password").fill("of-keycloak")
    page.locator("#kc-login").click()
    is_in(page, "replayer")
    (answer,) = (url for url in answers if "/login/callback/" in url)
    thief = portal.visit()
    thief.goto(answer)
    expect(thief.get_by_role("alert")).to_contain_text("took too long, or was sent twice")
    assert is_out(thief, portal.url)
    page.goto(answer)
    expect(page.get_by_role("alert")).to_contain_text("took too long, or was sent twice")


@pytest.mark.security("sign-in", "a real ID token: changed, for another client, expired")
def test_a_token_of_keycloak_is_accepted_only_as_it_is(portal, sso, real_id_token):
    token = real_id_token("mira")
    assert id_token_claims(sso, token)["preferred_username"] == "mira"
    head, body, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    forged = (
        base64.urlsafe_b64encode(json.dumps(claims | {"sub": "somebody-else"}).encode()).decode().rstrip("=")
    )
    with pytest.raises(ProviderTokenRefused, match="signature"):
        id_token_claims(sso, f"{head}.{forged}.{signature}")
    with pytest.raises(ProviderTokenRefused, match="issued to another client"):
        id_token_claims(sso, real_id_token("mira", OTHER_CLIENT))
    with (
        time_machine.travel(timezone.now() + timedelta(hours=1)),
        pytest.raises(ProviderTokenRefused, match="expired"),
    ):
        id_token_claims(sso, token)


@pytest.mark.security("sign-in", "an ID token of another realm of the same Keycloak")
def test_a_token_of_another_realm_is_refused(portal, sso, partners, real_id_token):
    row = portal.connect(partners, "partners")
    with pytest.raises(ProviderTokenRefused, match="does not publish"):
        id_token_claims(row, real_id_token("mira"))


def test_the_test_of_a_provider_finds_what_is_right_and_what_is_wrong(portal, sso):
    redirect = f"{portal.url}/accounts/oidc/company/login/callback/"
    findings = check_provider(sso, redirect_uri=redirect)
    verdicts = {finding.subject: finding.verdict for finding in findings}
    # Keycloak sends no Date, and nobody has signed in here yet.
    assert {name for name, verdict in verdicts.items() if verdict != CheckupVerdict.GOOD} == {
        "Clock",
        "Groups",
        "API tokens",  # without the scope offline_access
    }
    set_secret(by=portal.root, provider=sso, secret="wrong")
    sso.refresh_from_db()
    found = {finding.subject: finding for finding in check_provider(sso, redirect_uri=redirect)}
    assert found["Client secret"].verdict == CheckupVerdict.BAD
    assert "refused for the client dragoman" in found["Client secret"].detail
