"""Pages and API of identity providers and group rules: what they do, and for whom."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from notify.models import Notice
from teams.identity.groups import set_groups_of
from teams.identity.models import GroupRule, IdentityProvider
from teams.identity.services import save_rule
from teams.models import Membership, User
from tests.factories import make_user
from tests.teams.identity.issuer import SECRET

HOME = "/settings/sign-in/"
SSO = "/settings/sign-in/providers/sso/"
NEW = {
    "slug": "partners",
    "title": "Partners",
    "issuer": "https://sso.example",
    "client_id": "dragoman",
    "secret": "s",
    "scopes": "openid",
    "position": "0",
}


@pytest.fixture
def rule(root, sso, vision) -> GroupRule:
    return save_rule(by=root, provider=sso, pattern="gpu", team=vision, role="member")[0]


@pytest.fixture
def admin(root, browse):
    return browse(root)


@pytest.fixture
def program(root, api):
    return api(root)


@pytest.mark.security("access", "pages and API of providers and rules, by owners, members and others")
def test_everybody_else_is_turned_away(sso, rule, olga, alice, bob, eve, browse, api):
    pages = [HOME, f"{HOME}new/", f"{HOME}rules/", f"{HOME}rules/new/", SSO, f"{SSO}test/", f"{SSO}remove/"]
    pages += [f"{HOME}rules/{rule.pk}/", f"{HOME}rules/{rule.pk}/remove/"]
    posts = [*pages[1:2], *pages[3:5], *pages[6:], f"{HOME}passwords", f"{SSO}secret", f"{SSO}switch"]
    for person in (olga, alice, bob, eve):
        browser = browse(person)
        assert {browser.get(page).status_code for page in pages} == {403}
        assert {browser.post(page, {"name": "sso"}).status_code for page in posts} == {403}
        program = api(person)
        for path in (
            "identity-providers/",
            "identity-providers/sso/",
            "group-rules/",
            f"group-rules/{rule.pk}/",
        ):
            assert program.get(f"/api/v1/{path}").status_code == 403
        assert program.delete("/api/v1/identity-providers/sso/").status_code == 403
        assert program.post("/api/v1/identity-providers/", NEW).status_code == 403
    assert IdentityProvider.objects.count() == GroupRule.objects.count() == 1


def test_strangers_are_led_to_the_sign_in(client, sso):
    assert client.get(HOME).status_code == 302
    assert client.get(SSO).status_code == 302


def test_a_provider_is_added_in_steps_and_its_secret_never_shown(admin):
    page = admin.get(f"{HOME}new/")
    assert "1. Name" in page.text
    assert admin.get(f"{HOME}new/?name=No Name").status_code == 422
    page = admin.get(f"{HOME}new/?name=partners")
    assert "http://testserver/accounts/oidc/partners/login/callback/" in page.text
    assert "http://testserver/accounts/oidc/partners/logout/" in page.text
    answer = admin.post(f"{HOME}new/", NEW)
    assert answer.headers["Location"] == "/settings/sign-in/providers/partners/"
    row = IdentityProvider.objects.get()
    assert (row.enabled, row.issuer, row.scopes) == (False, "https://sso.example", "openid")
    page = admin.get("/settings/sign-in/providers/partners/")
    assert "Stored encrypted since" in page.text
    assert 'value="s"' not in page.text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"issuer": "sso"}, "This is not an address"),
        ({"issuer": "ftp://sso.example"}, "begins with https://"),
        ({"issuer": "https://u:p@sso.example"}, "neither user name"),
        ({"issuer": "http://169.254.169.254/realm"}, "an address of the machine itself"),
        ({"issuer": "https://[::1"}, "This is not an address"),
        ({"client_id": " "}, "required"),
        ({"slug": "Not A Name"}, ""),
        ({"position": "-1"}, ""),
    ],
)
def test_bad_input_is_refused_at_its_field(admin, change, words):
    page = admin.post(f"{HOME}new/", NEW | change)
    assert page.status_code == 422
    assert words in page.text
    assert not IdentityProvider.objects.exists()


def test_two_providers_of_one_name_or_client_are_refused(admin, sso):
    assert admin.post(f"{HOME}new/", NEW | {"slug": "sso"}).status_code == 409
    page = admin.post(f"{HOME}new/", NEW | {"issuer": sso.issuer})
    assert page.status_code == 409
    assert "with the same issuer and client ID" in page.text


@pytest.mark.security("outbound", "a provider whose address has no TLS")
def test_http_is_refused_where_the_portal_itself_has_tls(admin, settings):
    settings.HTTPS = True
    page = admin.post(f"{HOME}new/", NEW | {"issuer": "http://sso.example"}, secure=True)
    assert "what is sent must not be read on the way" in page.text


def test_the_test_says_what_works_and_what_to_do(admin, sso, issuer):
    page = admin.get(f"{SSO}test/")
    assert "It works, with notes" in page.text
    assert "Put the groups into the claim groups" in page.text
    IdentityProvider.objects.update(scopes="openid groups")
    issuer.metadata = {"backchannel_logout_supported": False, "grant_types_supported": []}
    page = admin.get(f"{SSO}test/", headers={"HX-Request": "true"})
    assert "groups is not among those that it names" in page.text
    assert "Whoever leaves a group keeps its roles until the next sign-in" in page.text
    assert "Whoever signs out there stays signed in here" in page.text
    assert "<html" not in page.text


def test_the_test_names_a_wrong_issuer_keys_and_secret(admin, sso, issuer):
    issuer.metadata = {"issuer": "https://another.example"}
    assert "says that its issuer is https://another.example" in admin.get(f"{SSO}test/").text
    issuer.metadata = {}
    issuer.keys = []
    admin.post(f"{SSO}secret", {"secret": "wrong"})
    page = admin.get(f"{SSO}test/")
    assert "2 failed" in page.text
    assert "none that the portal accepts" in page.text
    assert "refused for the client dragoman" in page.text
    issuer.status = 500
    assert "answers 500 for the discovery document" in admin.get(f"{SSO}test/").text


def test_a_provider_is_disabled_and_enabled(admin, sso):
    admin.post(f"{SSO}switch", {})
    assert not IdentityProvider.objects.get().enabled
    assert "Sign in with SSO" not in admin.get("/accounts/logout/").text
    admin.post(f"{SSO}switch", {"enabled": "on"})
    assert IdentityProvider.objects.get().enabled


def test_without_a_secret_it_is_not_enabled(admin, sso):
    admin.post(f"{SSO}switch", {})
    IdentityProvider.objects.update(sealed=b"")
    page = admin.post(f"{SSO}switch", {"enabled": "on"}, follow=True)
    assert "has no client secret" in page.text


def test_another_issuer_disables_it_and_forgets_the_secret(admin, sso):
    form = NEW | {"title": "SSO", "issuer": "https://other.example"}
    assert admin.post(SSO, form).status_code == 302
    row = IdentityProvider.objects.get()
    assert (row.enabled, bytes(row.sealed), row.issuer) == (False, b"", "https://other.example")


def test_passwords_are_for_admins_alone_only_while_there_is_another_way(admin, root):
    page = admin.post(f"{HOME}passwords", {}, follow=True)
    assert "No identity provider is enabled" in page.text


def test_the_only_way_to_sign_in_is_not_disabled_or_removed(admin, sso):
    admin.post(f"{HOME}passwords", {})
    page = admin.post(f"{SSO}switch", {}, follow=True)
    assert "is the only way to sign in" in page.text
    page = admin.post(f"{SSO}remove/", {"name": "sso"})
    assert page.status_code == 409
    admin.post(f"{HOME}passwords", {"allowed": "on"})
    admin.post(f"{SSO}switch", {})
    assert not IdentityProvider.objects.get().enabled


def test_a_provider_is_removed_by_its_typed_name(admin, sso, rule, alice, nlp):
    set_groups_of(alice, sso, ["gpu"])
    page = admin.get(f"{SSO}remove/")
    assert "1 group and 1 rule are forgotten" in page.text
    assert admin.post(f"{SSO}remove/", {"name": "other"}).status_code == 422
    assert admin.post(f"{SSO}remove/", {"name": "sso"}).status_code == 302
    assert not IdentityProvider.objects.exists()
    assert Membership.objects.get(user=alice).group_role == ""


def test_a_rule_shows_what_changes_for_whom_before_it_is_saved(admin, sso, vision):
    for name in ("nina", "nico"):
        set_groups_of(make_user(name), sso, ["gpu-users"])
    form = {"provider": "sso", "pattern": "gpu-*", "gives": "lead", "team": "vision"}
    page = admin.post(f"{HOME}rules/new/", form)
    assert "2 people: 2 roles given." in page.text
    assert "nina" in page.text
    assert "through the group gpu-users" in page.text
    assert not GroupRule.objects.exists()
    assert admin.post(f"{HOME}rules/new/", form | {"save": "1"}).status_code == 302
    assert Membership.objects.filter(team=vision, group_role="lead").count() == 2
    rule = GroupRule.objects.get()
    page = admin.get(f"{HOME}rules/{rule.pk}/remove/")
    assert "2 people: 2 roles taken away." in page.text
    admin.post(f"{HOME}rules/{rule.pk}/remove/")
    assert not Membership.objects.exclude(group_role="").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"team": ""}, "Choose the team in which the group has this role."),
        ({"gives": "platform-admin"}, "Platform admins are in no team"),
        ({"provider": "none"}, "Select a valid choice"),
        ({"pattern": " "}, "required"),
        ({"pattern": "*", "gives": "platform-admin", "team": ""}, "Every group would make its members"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_at_its_field(admin, sso, vision, change, words):
    form = {"provider": "sso", "pattern": "gpu", "gives": "lead", "team": "vision"}
    page = admin.post(f"{HOME}rules/new/", form | change)
    assert page.status_code == 422
    assert words in page.text


def test_who_must_stay_is_shown_above_the_rules(admin, root, sso, vision, olga):
    nina = make_user("nina")
    save_rule(by=root, provider=sso, pattern="owners", team=vision, role="owner")
    set_groups_of(nina, sso, ["owners"])
    Membership.objects.filter(user=olga).delete()
    set_groups_of(nina, sso, [])
    assert "nina is the only owner of vision and stays owner" in admin.get(f"{HOME}rules/").text


@pytest.mark.parametrize("page", [HOME, f"{HOME}rules/", f"{HOME}rules/new/"])
def test_a_page_reads_as_much_for_one_as_for_many(admin, root, sso, rule, vision, page):
    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert admin.get(page).status_code == 200
        return len(queries)

    set_groups_of(make_user("nina"), sso, ["gpu"])
    count()
    one = count()
    for number in range(10):
        IdentityProvider.objects.create(
            slug=f"p{number}", title="P", issuer=f"http://p{number}.example", client_id="x"
        )
        GroupRule.objects.create(provider=sso, pattern=f"g{number}", team=vision, role="member")
        set_groups_of(make_user(f"q{number}"), sso, ["gpu", f"g{number}"])
    assert count() == one


def test_leads_and_the_person_are_told_who_lost_a_team(root, sso, rule, olga, vision):
    nina = make_user("nina")
    set_groups_of(nina, sso, ["gpu"])
    set_groups_of(nina, sso, [])
    notices = dict(Notice.objects.values_list("user__username", "title"))
    assert notices == {"nina": "You are no longer in vision", "olga": "nina is no longer in vision"}


# API


def test_the_api_adds_tests_changes_and_removes_a_provider(program, issuer):
    body = {"slug": "sso", "title": "SSO", "issuer": issuer.url, "client_id": "dragoman", "secret": SECRET}
    made = program.post("/api/v1/identity-providers/", body, format="json")
    assert made.status_code == 201
    assert "secret" not in made.json()
    assert program.post("/api/v1/identity-providers/", body, format="json").status_code == 409
    path = "/api/v1/identity-providers/sso/"
    found = program.post(f"{path}test/").json()
    assert found["redirect_uri"].endswith("/accounts/oidc/sso/login/callback/")
    assert {"verdict": "good", "subject": "Client secret", "detail": "accepted", "remedy": ""} in found[
        "findings"
    ]
    changed = program.patch(path, {"enabled": True, "title": "Company"}, format="json").json()
    assert (changed["enabled"], changed["title"]) == (True, "Company")
    assert program.post(f"{path}secret/", {"secret": " "}, format="json").status_code == 422
    assert program.delete(path).json() == {"changes": []}
    assert program.get(path).status_code == 404


def test_the_api_previews_saves_and_removes_a_rule(program, sso, vision):
    nina = make_user("nina")
    set_groups_of(nina, sso, ["gpu"])
    body = {"provider": "sso", "group": "gpu", "team": "vision", "role": "member"}
    change = {
        "person": "nina",
        "team": "vision",
        "before": "",
        "after": "member",
        "reason": "through the group gpu",
        "refused": "",
    }
    assert program.post("/api/v1/group-rules/preview/", body, format="json").json() == {"changes": [change]}
    assert not Membership.objects.filter(user=nina).exists()
    saved = program.post("/api/v1/group-rules/", body, format="json")
    assert (saved.status_code, saved.json()["changes"]) == (201, [change])
    path = f"/api/v1/group-rules/{saved.json()['id']}/"
    put = program.put(path, body | {"role": "lead"}, format="json").json()
    assert (put["changes"][0]["before"], put["changes"][0]["after"]) == ("member", "lead")
    removed = program.delete(path).json()["changes"]
    assert (removed[0]["before"], removed[0]["after"]) == ("lead", "")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"provider": "none"}, "provider"),
        ({"team": "none"}, "team"),
        ({"group": ""}, "group"),
        ({"role": "x"}, "role"),
    ],
)
def test_the_api_names_the_field_that_is_wrong(program, sso, vision, change, field):
    body = {"provider": "sso", "group": "gpu", "team": "vision", "role": "member"} | change
    answer = program.post("/api/v1/group-rules/", body, format="json")
    assert answer.status_code == 422
    assert field in str(answer.json())


@pytest.mark.parametrize("slug", ["Main", "a b", "password", "passkey"])
def test_a_provider_is_not_named_as_another_way_to_sign_in(program, slug):
    body = {"slug": slug, "title": "Main", "issuer": "https://sso.example.org", "client_id": "portal"}
    answer = program.post("/api/v1/identity-providers/", body, format="json")
    assert answer.status_code == 422
    assert "ower-case letters" in answer.text or "another way to sign in" in answer.text
    assert not IdentityProvider.objects.exists()


def test_the_api_switches_passwords(program, sso):
    answer = program.patch("/api/v1/settings/", {"password_sign_in": False}, format="json")
    assert answer.json()["password_sign_in"] is False
    IdentityProvider.objects.all().delete()
    program.patch("/api/v1/settings/", {"password_sign_in": True}, format="json")
    assert program.patch("/api/v1/settings/", {"password_sign_in": False}, format="json").status_code == 409


def test_no_page_needs_one_more_query_for_identity(admin, sso, alice, browse):
    """The session reads the person with their roles; groups and providers are read where they are shown."""
    with CaptureQueriesContext(connection) as queries:
        browse(alice).get("/help/")
    assert not [one for one in queries if "identityprovider" in one["sql"] or "externalgroup" in one["sql"]]
    assert User.objects.count() >= 2
