"""People in the browser: platform admins, deactivation, and invitations that work once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core import mail, signing
from django.urls import reverse
from django.utils import timezone

from core.errors import Conflict, Forbidden
from core.models import Installation
from notify import mail as notify_mail
from teams import invitations
from teams.identity.models import IdentityProvider
from teams.invitations import SALT, InvitationOver, accept_as, accept_as_new, invite, link_token
from teams.models import AuditEntry, Invitation, Membership, Role, User
from teams.scim.models import ScimUser
from teams.tokens import create_token, find_token
from tests.factories import make_claim, make_team, make_user

pytestmark = pytest.mark.django_db(transaction=True)
PASSWORD = "correct-horse-battery"


@pytest.fixture
def root():
    return make_user("root", admin=True, first_name="Lukas")


@pytest.fixture
def as_root(client, root):
    client.force_login(root)
    return client


@pytest.fixture
def with_mail(settings, monkeypatch):
    settings.MAIL_URL = "smtp://mail.example"
    settings.PORTAL_URL = "https://gpu.example.org"
    settings.MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}


def changes():
    return list(
        AuditEntry.objects.filter(in_activity=True).order_by("at").values_list("by__username", "text")
    )


def sent_link() -> str:
    (line,) = [line for line in mail.outbox[-1].body.splitlines() if "/join/" in line]
    return line.removeprefix("https://gpu.example.org")


def test_people_are_found_by_name_and_address(as_root):
    make_user("mia", first_name="Mia", email="mia@helix.example")
    make_user("otto")
    for word in ("mia", "helix"):
        page = as_root.get("/people/", {"q": word}).text
        assert "mia@helix.example" in page
        assert ">otto<" not in page
    assert "deactivated" not in as_root.get("/people/", {"format": "csv"}).getvalue().decode()


def test_admin_role_is_given_and_ended_once_each(as_root):
    mia = make_user("mia")
    address = f"/people/{mia.pk}/admin/"
    for admin in ("on", "on", "off", "off"):
        assert as_root.post(address, {"admin": admin}).status_code == 302
    mia.refresh_from_db()
    assert (mia.is_superuser, mia.is_staff) == (False, False)
    assert changes() == [("root", "platform admin"), ("root", "no longer platform admin")]


@pytest.mark.parametrize("action", ["admin", "deactivate"])
def test_last_platform_admin_stays(as_root, root, action):
    make_user("old", admin=True, is_active=False)  # cannot sign in
    response = as_root.post(f"/people/{root.pk}/{action}/", {"admin": "off"})
    assert response.status_code == 409
    assert "root is the only platform admin." in response.text
    root.refresh_from_db()
    assert (root.is_superuser, root.is_active) == (True, True)


@pytest.mark.security("sign-in", "goes on after the account was deactivated")
def test_deactivation_says_what_follows_and_ends_sessions_and_tokens(as_root, client):
    mia = make_user("mia")
    make_team("vision", owners=(mia,))
    make_claim(by=mia)
    _token, text = create_token(by=mia, title="Notebook")
    browser = type(client)()
    browser.force_login(mia)
    page = as_root.get(f"/people/{mia.pk}/deactivate/").text
    for fact in ("1 API token is revoked", "1 live claim stays", "Vision</a> has no other owner"):
        assert fact in page
    for _attempt in range(2):
        assert as_root.post(f"/people/{mia.pk}/deactivate/").status_code == 302
    assert browser.get("/me/").status_code == 302  # to the sign-in
    as_root.post(f"/people/{mia.pk}/reactivate")
    assert find_token(text) is None  # revoked for good
    assert [change for _by, change in changes()] == [
        "created",
        "revoked: the account was deactivated",
        "deactivated",
        "reactivated",
    ]


def test_invitation_is_mailed_and_makes_an_account_once(as_root, client, with_mail):
    make_team("vision")
    form = {"email": "Ana@Helix.example", "team": "vision", "role": "lead"}
    assert as_root.post("/people/invite/", form).url == "/people/"
    link = sent_link()
    assert mail.outbox[-1].to == ["ana@helix.example"]
    visitor = type(client)()
    assert visitor.get(link).status_code == 200  # looking uses nothing up
    weak = visitor.post(link, {"username": "ana", "password": "12345"})
    assert (weak.status_code, User.objects.filter(username="ana").exists()) == (422, False)
    joined = visitor.post(link, {"username": "ana", "first_name": "Ana", "password": PASSWORD})
    assert (joined.status_code, joined.url) == (302, "/")
    ana = User.objects.get(username="ana")
    assert (ana.email, ana.is_superuser, ana.check_password(PASSWORD)) == ("ana@helix.example", False, True)
    assert Membership.objects.get(user=ana).role == Role.LEAD
    assert visitor.get("/teams/vision/people/").status_code == 200
    again = type(client)().post(link, {"username": "eve", "password": PASSWORD})
    assert (again.status_code, User.objects.filter(username="eve").exists()) == (410, False)
    stored = str(list(AuditEntry.objects.filter(in_activity=True).values_list("text", "name")))
    assert link.rsplit("/", 2)[1] not in stored
    assert PASSWORD not in stored


def test_signed_in_person_joins_with_their_account(client, root, with_mail):
    team, eve = make_team("vision"), make_user("eve")
    link = reverse("setup:join", args=[link_token(invite(by=root, email="e@x.example", team=team))])
    client.force_login(eve)
    assert client.post(link).status_code == 302
    assert Membership.objects.get(team=team).user == eve
    assert User.objects.count() == 2
    assert client.post(link).status_code == 410


def test_address_with_an_account_is_asked_to_sign_in(client, root):
    make_user("mia", email="MIA@x.example")
    invitation = invite(by=root, email="mia@x.example", team=make_team("vision"))
    link = reverse("setup:join", args=[link_token(invitation)])
    page = client.get(link).text
    assert "This address has an account." in page
    assert 'name="password"' not in page
    with pytest.raises(Conflict):
        accept_as_new(token=link_token(invitation), username="mia2", name=("", ""), password=PASSWORD)


@pytest.mark.security("sign-in", "a password by an invitation, where only platform admins have one")
def test_where_only_admins_have_passwords_an_invitation_makes_none(client, root):
    token = link_token(invite(by=root, email="ana@x.example", team=make_team("vision")))
    Installation.objects.update_or_create(pk=1, defaults={"password_sign_in": False})
    link = reverse("setup:join", args=[token])
    page = client.get(link).text
    assert "Sign in through your identity provider to accept." in page
    assert 'name="password"' not in page
    client.post(link, {"username": "ana", "password": PASSWORD})
    with pytest.raises(Conflict, match="Only platform admins have a password here"):
        accept_as_new(token=token, username="ana", name=("", ""), password=PASSWORD)
    assert not User.objects.filter(username="ana").exists()
    assert client.get("/me/").status_code == 302


def over(client, token: str) -> str:
    response = client.get(reverse("setup:join", args=[token]))
    assert response.status_code == 410
    return response.text


@pytest.mark.security("guessing", "forged, old and withdrawn links of invitations")
def test_link_ends_when_it_expires_is_replaced_withdrawn_or_forged(as_root, client, root, with_mail):
    invitation = invite(by=root, email="ana@x.example")
    visitor, token = type(client)(), link_token(invitation)
    Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert "has expired" in over(visitor, token)
    as_root.post(f"/people/invitations/{invitation.pk}/resend")
    assert "a newer one was sent" in over(visitor, token)
    newer = sent_link().rsplit("/", 2)[1]
    assert visitor.get(reverse("setup:join", args=[newer])).status_code == 200
    for _attempt in range(2):
        as_root.post(f"/people/invitations/{invitation.pk}/revoke")
    assert "was withdrawn" in over(visitor, newer)
    forged = signing.dumps([str(invitation.pk), "x"], key="another key of the same length", salt=SALT)
    for text in (forged, "x", newer[:-1], signing.dumps("x", salt=SALT)):
        assert "is not valid" in over(visitor, text)
    assert [change for _by, change in changes()].count("ana@x.example: invitation withdrawn") == 1


def test_inviting_again_renews_the_open_invitation(root):
    team = make_team("vision")
    first = invite(by=root, email="ana@x.example", team=team, role=Role.VIEWER)
    second = invite(by=root, email="ANA@x.example", team=team, role=Role.OWNER)
    assert (first.pk, second.role, Invitation.objects.count()) == (second.pk, Role.OWNER, 1)


def test_only_one_of_two_accepts(root):
    token = link_token(invite(by=root, email="ana@x.example", team=make_team("vision")))
    accept_as(by=make_user("mia"), token=token)
    with pytest.raises(InvitationOver, match="accepted already"):
        accept_as(by=make_user("eve"), token=token)
    assert Membership.objects.count() == 1


def test_invitation_that_was_read_before_another_accepts_is_refused(root, monkeypatch):
    token = link_token(invite(by=root, email="ana@x.example", team=make_team("vision")))
    read_before = invitations.find_invitation(token)
    accept_as(by=make_user("mia"), token=token)
    monkeypatch.setattr(invitations, "find_invitation", lambda token: read_before)
    with pytest.raises(InvitationOver):
        accept_as(by=make_user("eve"), token=token)
    with pytest.raises(InvitationOver):
        accept_as_new(token=token, username="ana", name=("", ""), password=PASSWORD)
    assert not User.objects.filter(username="ana").exists()
    assert Membership.objects.get().user.username == "mia"


def test_members_are_not_invited_again_nor_people_without_a_team(root):
    mia = make_user("mia", email="mia@x.example")
    team = make_team("vision", members=(mia,))
    with pytest.raises(Conflict, match="is already in vision"):
        invite(by=root, email="mia@x.example", team=team)
    with pytest.raises(Conflict, match="has an account: mia"):
        invite(by=root, email="mia@x.example")


@pytest.mark.parametrize("fails", [False, True])
def test_link_is_shown_once_where_no_mail_goes_out(as_root, settings, monkeypatch, with_mail, fails):
    if fails:

        def refuse(self):
            raise OSError("connection refused")

        monkeypatch.setattr(notify_mail.EmailMessage, "send", refuse)
    else:
        settings.MAIL_URL = ""
    page = as_root.post("/people/invite/", {"email": "ana@x.example", "team": "", "role": "member"})
    assert page.status_code == 200
    assert "https://gpu.example.org/join/" in page.text
    assert ("connection refused" in page.text) is fails
    assert "/join/" not in as_root.get("/people/").text


@pytest.mark.parametrize("role", ["outsider", "member", "lead", "owner"])
def test_only_platform_admins_manage_people(client, root, role):
    people = {name: make_user(name) for name in ("outsider", "member", "lead", "owner")}
    team = make_team(members=(people["member"],), leads=(people["lead"],), owners=(people["owner"],))
    invitation = invite(by=root, email="ana@x.example", team=team)
    before = changes()
    client.force_login(people[role])
    for address in ("/people/", "/people/invite/", *(f"/people/{root.pk}/{end}" for end in ("", "admin/"))):
        assert client.get(address).status_code == 403, address
    person = people[role].pk
    posts = [
        "/people/invite/",
        *(f"/people/{person}/{end}" for end in ("admin/", "deactivate/", "reactivate")),
        *(f"/people/invitations/{invitation.pk}/{end}" for end in ("resend", "revoke")),
    ]
    form = {"admin": "on", "email": "x@x.example", "team": "vision", "role": "owner"}
    for address in posts:
        assert client.post(address, form).status_code == 403, address
    with pytest.raises(Forbidden):
        invite(by=people[role], email="x@x.example", team=team)
    assert (User.objects.filter(is_superuser=True).count(), changes()) == (1, before)
    assert Invitation.objects.get().revoked_at is None


@pytest.mark.parametrize("page", ["person_admin", "person_break_glass"])
def test_who_is_kept_by_scim_is_warned_of_at_promotion_and_mark(as_root, page):
    mia = make_user("mia")
    warning = (
        "Okta keeps this account through SCIM. From now on it can no longer change, deactivate or delete"
    )
    url = reverse(f"setup:{page}", args=[mia.pk])
    assert warning not in as_root.get(url).text
    okta = IdentityProvider.objects.create(slug="okta", title="Okta", issuer="https://okta.example")
    row = ScimUser.objects.create(provider=okta, user=mia, user_name="mia")
    assert warning in as_root.get(url).text
    for sent in (
        {"platform_admin": True},
        {"platform_admin": False},
        {"active": True},
        {"break_glass": True},
    ):
        answer = as_root.patch(f"/api/v1/people/{mia.pk}/", sent, "application/json").json()
        assert answer["warning"].startswith(warning) is (True in sent.values() and "active" not in sent)
    row.deleted_at = timezone.now()
    row.save(update_fields=["deleted_at"])
    assert warning not in as_root.get(url).text
