"""Signing in through a provider: whose account it is, and what is refused."""

import time
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from core import addresses
from teams.identity import discovery
from teams.identity.discovery import ENDPOINTS, ProviderUnavailable, metadata, read_json
from teams.identity.models import GroupRule, IdentityGrant, IdentityProvider
from teams.identity.provider import SocialAdapter
from teams.identity.services import change_provider, save_rule, set_password_sign_in
from teams.invitations import invite
from teams.models import AuditEntry, Invitation, Membership, Role, Session, User
from tests.factories import make_user
from tests.teams.conftest import confirm
from tests.teams.identity.conftest import begin, configured, sign_in
from tests.teams.identity.issuer import KEYS, running

NINA: dict[str, Any] = {
    "sub": "n-1",
    "preferred_username": "nina",
    "given_name": "Nina",
    "family_name": "Novak",
    "email": "nina@example.org",
    "email_verified": True,
    "groups": ["gpu-vision"],
}


@pytest.fixture
def rule(root, sso, vision) -> GroupRule:
    return save_rule(by=root, provider=sso, pattern="gpu-vision", team=vision, role="member")[0]


def test_the_first_sign_in_makes_an_account_with_the_roles_of_its_groups(client, issuer, rule, vision):
    answer = sign_in(client, issuer, **NINA)
    assert answer.headers["Location"] == "/"
    nina = User.objects.get(username="nina")
    assert (nina.label, nina.email, nina.has_usable_password()) == ("Nina Novak", "nina@example.org", False)
    membership = Membership.objects.get(user=nina)
    assert (membership.team, membership.role, membership.from_groups) == (vision, "member", True)
    assert "you are member in vision" in client.get("/me/").text
    entries = AuditEntry.objects.filter(action="member.added").values_list("text", flat=True)
    assert list(entries) == ["nina: added as member, through the group gpu-vision"]


def test_the_session_names_the_provider_and_its_session(client, issuer, rule):
    sign_in(client, issuer, **NINA)
    session = Session.objects.get(user__username="nina")
    assert (session.signed_in_with, session.provider_session) == ("sso", "session-1")


def test_the_second_sign_in_finds_the_account_whatever_it_is_called_by_then(client, issuer, rule):
    sign_in(client, issuer, **NINA)
    sign_in(Client(), issuer, **NINA | {"preferred_username": "nn", "email": "other@example.org"})
    assert User.objects.filter(username__in=["nina", "nn"]).count() == 1


def test_who_left_a_group_reads_what_happened_to_their_claims(client, issuer, rule):
    sign_in(client, issuer, **NINA)
    again = Client()
    sign_in(again, issuer, **NINA | {"groups": []})
    assert not Membership.objects.filter(user__username="nina").exists()
    assert "You are no longer in vision" in (page := again.get("/me/").text)
    assert "Your claims stay with the team" in page


def test_a_claim_that_is_missing_means_no_groups(client, issuer, rule):
    sign_in(client, issuer, **NINA)
    sign_in(Client(), issuer, **{name: value for name, value in NINA.items() if name != "groups"})
    assert not Membership.objects.filter(user__username="nina").exists()


def test_groups_that_are_too_many_for_a_token_change_nothing(client, issuer, rule):
    sign_in(client, issuer, **NINA)
    without = {name: value for name, value in NINA.items() if name != "groups"}
    sign_in(Client(), issuer, **without, _claim_names={"groups": "src1"})
    assert Membership.objects.filter(user__username="nina").exists()


def test_nobody_gets_an_account_without_a_rule_or_an_invitation(client, issuer, rule):
    answer = sign_in(client, issuer, **NINA | {"groups": ["sales"]})
    assert answer.status_code == 403
    assert "none of your groups has a role in this portal" in answer.text
    assert not User.objects.filter(username="nina").exists()
    assert AuditEntry.objects.filter(action="session.failed").count() == 1


def test_the_rule_of_an_archived_team_admits_nobody(client, issuer, rule, vision):
    type(vision).objects.filter(pk=vision.pk).update(archived_at=timezone.now())
    assert sign_in(client, issuer, **NINA).status_code == 403
    assert not User.objects.filter(username="nina").exists()


def test_a_provider_may_admit_everybody(client, root, issuer):
    configured(root, issuer, admits_everybody=True)
    assert sign_in(client, issuer, **NINA | {"groups": []}).status_code == 302
    assert "You are in no team yet" in client.get("/me/").text


def test_an_invited_address_is_linked_to_its_invitation(client, root, sso, issuer, vision):
    invite(by=root, email="Nina@example.org", team=vision, role=Role.LEAD)
    assert sign_in(client, issuer, **NINA | {"groups": []}).status_code == 302
    assert Membership.objects.get(user__username="nina").role == "lead"
    assert Invitation.objects.get().accepted_by.username == "nina"


def test_an_address_that_is_not_verified_uses_no_invitation(client, root, sso, issuer, vision):
    invite(by=root, email="nina@example.org", team=vision)
    answer = sign_in(client, issuer, **NINA | {"email_verified": False, "groups": []})
    assert answer.status_code == 403
    assert Invitation.objects.get().accepted_by is None


@pytest.mark.security("sign-in", "the account of somebody with a password, by their address at a provider")
@pytest.mark.parametrize("verified", [True, False])
def test_an_account_with_a_password_is_never_taken_over(client, rule, issuer, verified):
    victim = make_user("victim", email="nina@example.org")
    answer = sign_in(client, issuer, **NINA | {"email_verified": verified})
    assert answer.status_code == 403
    assert "Sign in as you did before, then link this provider in your account" in answer.text
    assert not victim.memberships.exists()
    assert client.get("/me/").status_code == 302


def test_an_account_without_a_password_is_linked_by_a_verified_address(client, sso, issuer):
    person = make_user("made-by-scim", email="Nina@example.org")
    person.set_unusable_password()
    person.save()
    assert sign_in(client, issuer, **NINA | {"groups": []}).status_code == 302
    assert "made-by-scim" in client.get("/me/").text


@pytest.mark.security("sign-in", "an account by an address that the provider has not verified")
def test_an_account_without_a_password_is_not_linked_by_any_address(client, sso, issuer):
    person = make_user("made-by-scim", email="nina@example.org")
    person.set_unusable_password()
    person.save()
    answer = sign_in(client, issuer, **NINA | {"email_verified": False})
    assert answer.status_code == 403
    assert "does not say that the address is yours" in answer.text


@pytest.mark.security("sign-in", "the account of another provider, by its address at a second one")
def test_an_account_of_another_provider_is_not_linked_by_its_address(client, root, issuer):
    configured(root, issuer, admits_everybody=True)
    sign_in(client, issuer, **NINA)
    with running() as other:
        configured(root, other, "second", admits_everybody=True, trusts_email=True)
        mallory = Client()
        answer = sign_in(mallory, other, "second", **NINA | {"sub": "mallory"})
        assert answer.status_code == 403
        assert "There is an account with the address nina@example.org already" in answer.text
        assert mallory.get("/me/").status_code == 302


def test_an_account_is_not_linked_twice_to_a_provider(client, sso, issuer):
    person = make_user("made-by-scim", email="nina@example.org")
    person.set_unusable_password()
    person.save()
    sign_in(client, issuer, **NINA)
    answer = sign_in(Client(), issuer, **NINA | {"sub": "mallory"})
    assert answer.status_code == 403


@pytest.mark.security("sign-in", "links a provider in the session of somebody else")
def test_linking_a_provider_asks_for_the_password_first(alice, browse, sso, issuer):
    mine = browse(alice)
    asked = mine.post("/accounts/oidc/sso/login/?process=connect")
    assert asked.url.startswith("/accounts/reauthenticate/")
    assert confirm(mine, "wrong").status_code == 200
    assert mine.post("/accounts/oidc/sso/login/?process=connect").status_code == 302


def test_who_is_signed_in_links_a_provider_and_then_signs_in_through_it(alice, browse, sso, issuer):
    mine = browse(alice)
    confirm(mine, "alice")
    issuer.claims = NINA
    back = issuer.authorize(begin(mine, process="connect"))
    answer = mine.get("/accounts/oidc/sso/login/callback/", back)
    assert answer.headers["Location"] == "/me/"
    other = Client()
    assert sign_in(other, issuer, **NINA).status_code == 302
    assert "Alice Ames" in other.get("/me/").text


def test_a_person_of_the_provider_is_linked_to_one_account(alice, bob, browse, sso, issuer):
    issuer.claims = NINA
    for person, status in ((alice, 302), (bob, 403)):
        mine = browse(person)
        confirm(mine, person.username)
        back = issuer.authorize(begin(mine, process="connect"))
        assert mine.get("/accounts/oidc/sso/login/callback/", back).status_code == status


def test_who_unlinks_a_provider_loses_what_its_groups_gave(root, alice, browse, rule, sso, issuer, nlp):
    save_rule(by=root, provider=sso, pattern="gpu-nlp", team=nlp, role="lead")
    mine = browse(alice)
    confirm(mine, "alice")
    issuer.claims = NINA | {"groups": ["gpu-nlp"]}
    mine.get("/accounts/oidc/sso/login/callback/", issuer.authorize(begin(mine, process="connect")))
    sign_in(Client(), issuer, **issuer.claims)
    assert Membership.objects.filter(user=alice, team=nlp).exists()
    mine.post("/me/providers/sso/unlink")
    assert not Membership.objects.filter(user=alice, team=nlp).exists()
    assert sign_in(Client(), issuer, **NINA | {"groups": []}).status_code == 403


def test_who_has_no_password_cannot_unlink_the_only_provider(client, rule, issuer):
    sign_in(client, issuer, **NINA)
    page = client.post("/me/providers/sso/unlink", follow=True)
    assert "Choose a password first" in page.text


def test_a_deactivated_account_stays_out(client, issuer, rule):
    sign_in(client, issuer, **NINA)
    User.objects.filter(username="nina").update(is_active=False)
    answer = sign_in(Client(), issuer, **NINA)
    assert answer.status_code == 403
    assert "Your account is deactivated" in answer.text


def test_a_user_name_that_is_taken_gets_a_number(client, issuer, rule):
    make_user("nina")
    sign_in(client, issuer, **NINA)
    assert User.objects.get(email="nina@example.org").username == "nina-2"


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("Nina Novak", "Nina-Novak"),
        ("", "nina"),
        ("\x00", "nina"),
        ("../../etc", "..-..-etc"),
        ("CORP\\nina", "CORP-nina"),
    ],
)
def test_user_name_is_made_from_that_of_the_provider_or_the_address(client, issuer, rule, said, name):
    sign_in(client, issuer, **NINA | {"preferred_username": said})
    assert User.objects.get(email="nina@example.org").username == name


# What a token must be.

FORGED = {
    "expired": ({"exp": int(time.time()) - 3600}, "The token has expired"),
    "of another issuer": ({"iss": "http://other.example"}, "of another issuer"),
    "for another client": ({"aud": "another-client"}, "was issued to another client"),
    "for two clients without saying which": ({"aud": ["dragoman", "other"]}, "issued to another client"),
    "issued to another party": ({"azp": "other"}, "issued to another client"),
    "without a subject": ({"sub": None}, "lacks the claim sub"),
    "without a nonce": ({"nonce": None}, "took too long, or was sent twice"),
    "of another sign-in": ({"nonce": "another"}, "took too long, or was sent twice"),
}


@pytest.mark.security(
    "sign-in", "ID tokens: expired, of others, for others, without subject, with no nonce or another"
)
@pytest.mark.parametrize("what", FORGED)
def test_an_id_token_is_refused(client, issuer, rule, what):
    issuer.changes, reason = FORGED[what]
    answer = sign_in(client, issuer, **NINA)
    assert answer.status_code == 403
    assert reason in answer.text
    assert not User.objects.filter(username="nina").exists()


@pytest.mark.security("sign-in", "a token of another kind that is sent as an ID token")
@pytest.mark.parametrize("kind", ["logout+jwt", "at+jwt"])
def test_a_token_of_another_type_signs_nobody_in(client, issuer, rule, kind):
    issuer.type = kind
    assert "This is a token of another kind" in sign_in(client, issuer, **NINA).text
    assert not User.objects.filter(username="nina").exists()


@pytest.mark.security("sign-in", "a sign-in at the provider that is weaker than was demanded")
def test_a_sign_in_that_is_too_weak_is_refused(client, root, issuer, rule, sso):
    change_provider(by=root, provider=sso, acr_values=" gold  phr phr")
    assert parse_qs(urlsplit(begin(client)).query)["acr_values"] == ["gold phr"]
    for told in ({}, {"acr": "silver"}, {"acr": "gold phr"}, {"acr": ["gold"]}):
        answer = sign_in(Client(), issuer, **NINA, **told)
        assert answer.status_code == 403
        assert "SSO did not say that you signed in strongly enough: gold phr is demanded" in answer.text
    issuer.userinfo = NINA | {"acr": "gold"}  # is not signed
    assert sign_in(Client(), issuer, **NINA).status_code == 403
    issuer.userinfo = None
    assert sign_in(client, issuer, **NINA, acr="phr").status_code == 302
    assert client.get("/me/").status_code == 200


@pytest.mark.security("sign-in", "an ID token signed with a key that is not the provider's")
def test_an_id_token_with_a_forged_signature_is_refused(client, issuer, rule):
    issuer.signs_with = KEYS["forged"]
    issuer.signed = lambda claims: type(issuer).signed(issuer, claims, kid="first")
    answer = sign_in(client, issuer, **NINA)
    assert "The signature of the token is not that of the provider" in answer.text
    assert not User.objects.filter(username="nina").exists()


def test_a_new_key_of_the_provider_is_read_at_once(client, issuer, rule):
    sign_in(client, issuer, **NINA)
    issuer.keys, issuer.signs_with = [KEYS["second"]], KEYS["second"]
    assert sign_in(Client(), issuer, **NINA).status_code == 302


@pytest.mark.security("sign-in", "userinfo about another person than the ID token")
def test_userinfo_about_somebody_else_is_refused(client, issuer, rule):
    issuer.userinfo = NINA | {"sub": "somebody-else"}
    answer = sign_in(client, issuer, **NINA)
    assert "about different people" in answer.text


@pytest.mark.security("forgery", "the answer of a provider in another browser, and twice")
def test_a_state_works_once_and_only_in_its_browser(client, issuer, rule):
    issuer.claims = NINA
    back = issuer.authorize(begin(client))
    stranger = Client().get("/accounts/oidc/sso/login/callback/", back)
    assert stranger.status_code == 403
    assert client.get("/accounts/oidc/sso/login/callback/", back).status_code == 302
    assert client.get("/accounts/oidc/sso/login/callback/", back).status_code == 403


@pytest.mark.security("forgery", "the answer of one provider at the address of another")
def test_a_state_of_one_provider_is_not_one_of_another(client, root, rule, issuer):
    with running() as other:
        configured(root, other, "second")
        issuer.claims = NINA
        back = issuer.authorize(begin(client))
        assert client.get("/accounts/oidc/second/login/callback/", back).status_code == 403


@pytest.mark.security("sign-in", "the subject of a person at another provider")
def test_two_providers_at_once_know_different_people_by_the_same_subject(client, root, issuer):
    configured(root, issuer, admits_everybody=True)
    with running() as other:
        configured(root, other, "second", admits_everybody=True)
        page = client.get("/accounts/login/").text
        assert page.index("Sign in with SECOND") > 0 < page.index("Sign in with SSO")
        sign_in(client, issuer, **NINA)
        sign_in(Client(), other, "second", sub="n-1", preferred_username="other")
    assert User.objects.filter(username__in=["nina", "other"]).count() == 2


def test_who_cancels_is_back_on_the_sign_in_page(client, issuer, rule):
    back = issuer.authorize(begin(client))
    page = client.get(
        "/accounts/oidc/sso/login/callback/",
        {"error": "access_denied", "state": back["state"]},
        follow=True,
    )
    assert "You cancelled the sign-in at SSO" in page.text


@pytest.mark.security("forgery", "parameters that would change what the portal asks a provider for")
def test_nothing_of_the_address_reaches_the_provider(client, issuer, rule):
    address = begin(client, scope="admin", auth_params="prompt=none")
    assert "admin" not in address
    assert "prompt" not in address


@pytest.mark.security("forgery", "a link that begins a sign-in at a provider by itself")
def test_a_link_from_elsewhere_asks_before_it_leads_to_the_provider(client, issuer, rule):
    page = client.get("/accounts/oidc/sso/login/")
    assert page.status_code == 200
    assert "Sign in with SSO?" in page.text
    assert "Refresh" not in page.headers


def test_unknown_and_disabled_providers_are_404(client, root, sso, issuer):
    assert client.post("/accounts/oidc/unknown/login/").status_code == 404
    type(sso).objects.update(enabled=False)
    assert client.post("/accounts/oidc/sso/login/").status_code == 404
    assert client.get("/accounts/oidc/sso/login/callback/?code=1&state=2").status_code == 404


def test_a_provider_that_is_away_says_so(client, issuer, rule):
    back = issuer.authorize(begin(client))
    issuer.status = 503
    answer = client.get("/accounts/oidc/sso/login/callback/", back)
    assert answer.status_code == 403
    assert "SSO" in answer.text


@pytest.mark.security("secrets", "client secret and refresh token in the database")
def test_the_secret_and_the_tokens_are_stored_encrypted(client, issuer, rule, sso):
    sign_in(client, issuer, **NINA)
    grant = IdentityGrant.objects.get()
    assert b"of-the-client" not in bytes(sso.sealed)
    assert b"refresh-1" not in bytes(grant.sealed)
    assert grant.due_at is not None


# Passwords, for the day when a provider is away.


@pytest.mark.security("sign-in", "a password where only platform admins have one")
def test_without_passwords_only_platform_admins_have_a_local_sign_in(client, root, alice, issuer, sso):
    set_password_sign_in(by=root, allowed=False)
    page = client.post("/accounts/login/", {"login": "alice", "password": "alice"}, follow=True)
    assert "Only platform admins sign in with a password here" in page.text
    assert client.get("/me/").status_code == 302
    client.post("/accounts/login/", {"login": "root", "password": "root"})
    assert client.get("/me/").status_code == 200


@pytest.mark.security("outbound", "a provider that sends the sign-in elsewhere")
@pytest.mark.parametrize("path", ["/token", "/userinfo"])
def test_no_redirect_of_a_provider_is_followed_at_the_sign_in(root, sso, issuer, path):
    change_provider(by=root, provider=sso, admits_everybody=True)
    issuer.redirects = {path: f"{issuer.url}/elsewhere"}
    refused = sign_in(Client(), issuer, sub="n-1", preferred_username="nina", groups=[])
    assert refused.status_code == 403
    assert "302" in refused.text or "not a JSON object" in refused.text
    assert "/elsewhere" not in [asked for asked, _form in issuer.asked]
    assert not User.objects.filter(username="nina").exists()


@pytest.mark.security("outbound", "a provider whose name leads to the machine itself, at the sign-in")
def test_a_sign_in_sends_nothing_to_an_address_of_the_machine(root, sso, issuer, monkeypatch):
    browser = Client()
    issuer.claims = {"sub": "n-1"}
    back = issuer.authorize(begin(browser))
    issuer.asked.clear()
    monkeypatch.setattr(addresses, "reason_to_refuse_host", lambda host: f"{host} is the machine itself")
    refused = browser.get("/accounts/oidc/sso/login/callback/", back)
    assert refused.status_code == 403
    assert "SSO does not answer" in refused.text
    assert issuer.asked == []


@pytest.mark.security("outbound", "a provider whose document sends the client secret over HTTP")
@pytest.mark.parametrize(
    "name", ["authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri"]
)
def test_endpoints_without_tls_are_not_asked(settings, monkeypatch, name):
    settings.HTTPS = True
    issuer = "https://sso.example.org"
    sound = dict.fromkeys(ENDPOINTS, f"{issuer}/x") | {"issuer": issuer}
    monkeypatch.setattr(discovery, "read_json", lambda *_asked: sound)
    provider = IdentityProvider(title="SSO", issuer=issuer)
    assert metadata(provider, fresh=True) == sound
    for address in ("http://sso.example.org/x", "javascript:alert(1)", "//sso.example.org/x"):
        monkeypatch.setattr(discovery, "read_json", lambda *_asked, one=address: sound | {name: one})
        with pytest.raises(ProviderUnavailable, match=f"{name} of SSO does not begin with https://"):
            metadata(provider, fresh=True)


@pytest.mark.security("bombs", "a provider that answers without end, at the sign-in")
@pytest.mark.parametrize("path", ["/token", "/userinfo", "/keys"])
def test_a_provider_that_answers_without_end_is_hung_up_on(rule, issuer, monkeypatch, path):
    monkeypatch.setattr(discovery, "LONGEST", 0.3)
    browser, whole = Client(), issuer.answer
    issuer.claims = NINA
    back = issuer.authorize(begin(browser))

    def answer(asked, form):
        issuer.drips = asked == path
        return whole(asked, form)

    issuer.answer = answer
    began = time.monotonic()
    refused = browser.get("/accounts/oidc/sso/login/callback/", back)
    assert refused.status_code == 403
    assert "SSO does not answer" in refused.text
    assert time.monotonic() - began < 5


@pytest.mark.security("bombs", "a compressed answer of a provider, which would grow")
def test_a_compressed_answer_of_a_provider_is_not_read(sso, issuer):
    assert read_json(f"{issuer.url}/keys", "the keys")["keys"]
    issuer.encoding = "gzip"
    with pytest.raises(ProviderUnavailable, match="Its answer is compressed"):
        read_json(f"{issuer.url}/keys", "the keys")


@pytest.mark.security("guessing", "sign-ins that each wait for a provider that is away")
def test_a_provider_that_is_away_is_not_waited_for_by_everybody(
    client, sso, issuer, monkeypatch, time_machine
):
    asked = []

    def unreachable(_client, request, **_options):
        asked.append(request.url.path)
        raise httpx.ConnectTimeout("away", request=request)

    monkeypatch.setattr(httpx.Client, "send", unreachable)
    cache.clear()
    for _person in range(3):
        assert Client().post("/accounts/oidc/sso/login/").status_code == 503
    assert len(asked) == 1
    time_machine.move_to(timezone.now() + timedelta(seconds=discovery.AWAY + 1))
    Client().post("/accounts/oidc/sso/login/")
    assert len(asked) == 2


def test_allauth_asks_no_provider_by_itself():
    with pytest.raises(RuntimeError, match=r"discovery\.client"):
        SocialAdapter().get_requests_session()
