"""A session is read with its user and their roles, and ends whenever Django's would."""

from datetime import timedelta

import pytest
from django.contrib.auth import BACKEND_SESSION_KEY
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from teams.models import Membership, Role, User
from teams.sessions import SessionStore
from tests.factories import make_team, make_user

PAGE, BELL = "/me/", "/me/notices/bell/"


@pytest.fixture
def alice(db):
    return make_user("alice")


@pytest.fixture
def person(alice) -> Client:
    client = Client()
    client.force_login(alice, backend="django.contrib.auth.backends.ModelBackend")
    return client


def stored() -> Session:
    return Session.objects.get()


def test_session_user_and_roles_are_one_query(person, alice, django_assert_num_queries):
    for number in range(3):
        make_team(f"team-{number}", members=(alice,))
    with django_assert_num_queries(2):  # with the number of unread notices
        assert person.get(BELL).wsgi_request.user == alice
    with django_assert_num_queries(2):
        request = person.get(BELL).wsgi_request
        assert [(team.slug, role) for team, role in request.user.roles_read.items()] == [
            (f"team-{number}", Role.MEMBER) for number in range(3)
        ]


def test_every_field_of_the_user_and_the_team_is_read(person, alice):
    vision = make_team("vision", leads=(alice,))
    read = person.get(BELL).wsgi_request.user
    alice.refresh_from_db()
    names = [field.attname for field in User._meta.concrete_fields]
    assert [getattr(read, name) for name in names] == [getattr(alice, name) for name in names]
    assert read.roles_read == {vision: Role.LEAD}
    (team,) = read.roles_read
    assert (team.pk, team.title, team.series) == (vision.pk, vision.title, vision.series)


def test_changed_role_holds_from_the_next_request(person, alice):
    vision = make_team("vision", members=(alice,))
    assert person.get("/teams/vision/people/").status_code == 200
    Membership.objects.filter(team=vision, user=alice).delete()
    assert person.get("/teams/vision/people/").status_code == 404


@pytest.mark.parametrize(
    "change",
    [
        lambda user: User.objects.filter(pk=user.pk).update(is_active=False),
        lambda user: User.objects.filter(pk=user.pk).update(password="another"),
        lambda user: user.delete(),
        lambda user: Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1)),
        lambda user: Session.objects.all().delete(),
    ],
)
def test_session_ends_with_its_user_password_or_time(person, alice, change):
    assert person.get(PAGE).status_code == 200
    change(alice)
    assert person.get(PAGE).status_code == 302


def test_session_of_an_unknown_backend_is_of_nobody(person):
    session = person.session
    session[BACKEND_SESSION_KEY] = "elsewhere.Backend"
    session.save()
    assert person.get(PAGE).status_code == 302


@pytest.mark.parametrize("prefix", ["", "|", "x|", "-" * 36 + "|"])
def test_text_before_the_signed_text_is_not_needed(person, alice, prefix):
    """A session that Django's own store has written has none."""
    row = stored()
    row.session_data = prefix + row.session_data.rpartition("|")[2]
    row.save()
    assert person.get(BELL).wsgi_request.user == alice


@pytest.mark.security("sign-in", "the id of another person before the signed text of a session")
def test_text_before_the_signed_text_makes_nobody_another_person(person, alice):
    root = make_user("root", is_superuser=True)
    row = stored()
    row.session_data = f"{root.pk}|{row.session_data.rpartition('|')[2]}"
    row.save()
    assert person.get(BELL).wsgi_request.user == alice


@pytest.mark.security("sign-in", "a session whose text was changed in the database")
def test_forged_session_text_is_of_nobody(person):
    row = stored()
    row.session_data = row.session_data[:-1] + ("A" if row.session_data[-1] != "A" else "B")
    row.save()
    assert person.get(PAGE).status_code == 302


def test_visitor_has_a_session_without_a_user(db):
    store = SessionStore()
    store["seen"] = "page"
    store.save()
    again = SessionStore(store.session_key)
    assert (again["seen"], again.user) == ("page", None)
