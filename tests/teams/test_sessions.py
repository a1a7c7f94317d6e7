"""A session is read with its user and their roles, and ends whenever Django's would."""

from datetime import timedelta

import pytest
from django.contrib.auth import BACKEND_SESSION_KEY
from django.contrib.sessions.backends.base import UpdateError
from django.test import Client
from django.utils import timezone

from teams.models import Membership, Role, Session, User
from teams.services import deactivate_person
from teams.sessions import PROVIDER_SESSION, SessionStore, end_provider_sessions, end_sessions, going_on
from teams.tasks import clear_sessions
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


@pytest.mark.security("sign-in", "a session after its user, password or time has ended")
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


@pytest.mark.security("sign-in", "a session whose row names another person than its signed text")
@pytest.mark.parametrize("other", [None, "root"])
def test_column_of_the_person_makes_nobody_another_person(person, alice, other):
    Session.objects.update(user=make_user(other, is_superuser=True) if other else None)
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


def sign_in(name="alice", **headers) -> Client:
    client = Client(headers=headers)
    assert client.post("/accounts/login/", {"login": name, "password": name}).status_code == 302
    return client


def test_session_says_whose_it_is_from_where_and_how(alice):
    sign_in(user_agent="Firefox\x00" + "x" * 400)
    row = stored()
    assert (row.user, row.signed_in_with, row.address) == (alice, "password", "127.0.0.1")
    assert row.user_agent == ("Firefox" + "x" * 400)[:300]


def test_last_seen_is_written_once_an_hour(person, django_assert_num_queries):
    began = timezone.now() - timedelta(minutes=59)
    Session.objects.update(last_seen_at=began)
    with django_assert_num_queries(2):
        person.get(BELL)
    assert stored().last_seen_at == began
    Session.objects.update(last_seen_at=began - timedelta(minutes=2))
    with django_assert_num_queries(3):
        person.get(BELL, REMOTE_ADDR="192.0.2.7", headers={"user-agent": "curl"})
    row = stored()
    assert (row.address, row.user_agent) == ("192.0.2.7", "curl")
    assert timezone.now() - row.last_seen_at < timedelta(minutes=1)
    with django_assert_num_queries(2):
        person.get(BELL)


def test_saving_the_session_keeps_what_its_columns_say(alice):
    person = sign_in(user_agent="Firefox")
    before = Session.objects.values().get()
    session = person.session
    session["more"] = 1
    session.save()
    after = Session.objects.values().get()
    changed = {name for name, value in before.items() if dict(after)[name] != value}
    assert changed <= {"session_data", "expire_date"}


@pytest.mark.security("sign-in", "a session after hours without a request")
def test_session_ends_when_nothing_was_asked_for_too_long(person, settings):
    settings.SESSION_IDLE = timedelta(hours=2)
    Session.objects.update(last_seen_at=timezone.now() - timedelta(minutes=119))
    assert person.get(PAGE).status_code == 200
    Session.objects.update(last_seen_at=timezone.now() - timedelta(minutes=121))
    assert person.get(PAGE).status_code == 302
    assert not going_on().exists()


def test_a_request_keeps_a_session_alive_for_another_time(person, settings, time_machine):
    settings.SESSION_IDLE = timedelta(hours=2)
    began = timezone.now()
    for hours in range(1, 7):
        time_machine.move_to(began + timedelta(hours=hours))
        assert person.get(PAGE).status_code == 200


@pytest.mark.security("sign-in", "a session that only an open page keeps asking for")
def test_a_page_that_is_only_open_does_not_keep_a_session_alive(person, settings, time_machine):
    began = timezone.now()
    for hours in range(1, 12):
        time_machine.move_to(began + timedelta(hours=hours, minutes=1))
        assert person.get(BELL, headers={"x-by-itself": "1"}).status_code == 200
    time_machine.move_to(began + timedelta(hours=12, minutes=1))
    assert person.get(BELL, headers={"x-by-itself": "1"}).status_code == 302


@pytest.mark.security("sign-in", "a session that is saved again and again")
def test_session_ends_two_weeks_after_the_sign_in_however_often_it_is_saved(person, time_machine):
    began = timezone.now()
    for days in range(13):
        time_machine.move_to(began + timedelta(days=days, hours=1))
        Session.objects.update(last_seen_at=timezone.now())
        session = person.session
        session["more"] = days
        session.save()
        assert person.get(PAGE).status_code == 200
    time_machine.move_to(began + timedelta(days=14, minutes=1))
    Session.objects.update(last_seen_at=timezone.now())
    assert person.get(PAGE).status_code == 302


@pytest.mark.parametrize("column", ["expire_date", "last_seen_at", "created_at"])
def test_sessions_that_are_over_are_removed(person, column):
    clear_sessions()
    assert Session.objects.exists()
    Session.objects.update(**{column: timezone.now() - timedelta(days=15)})
    clear_sessions()
    assert not Session.objects.exists()


@pytest.mark.security("sign-in", "a request that saves a session which ended meanwhile")
def test_session_that_was_ended_is_not_written_again(person):
    session = person.session
    session["more"] = 1
    Session.objects.all().delete()
    with pytest.raises(UpdateError):
        session.save()
    assert not Session.objects.exists()


def test_new_key_that_is_taken_is_replaced_by_another(person, monkeypatch):
    taken = stored().session_key
    keys = iter([taken, free := "f" * 32])
    store = SessionStore()
    monkeypatch.setattr(store, "_get_new_session_key", lambda: next(keys))
    store.create()
    assert store.session_key == free
    assert Session.objects.count() == 2


def signed_in_at(provider, sid, person) -> str:
    store = SessionStore()
    records = [{"method": "socialaccount", "provider": provider}, {"method": "mfa", "type": "totp"}]
    store.update(
        {"_auth_user_id": str(person.pk), "account_authentication_methods": records, PROVIDER_SESSION: sid}
    )
    store.create()
    store.save()
    return store.session_key


def left() -> set[str]:
    return set(Session.objects.values_list("session_key", flat=True))


def test_provider_ends_its_own_sessions_only(alice, bob):
    one, other, elsewhere = (
        signed_in_at("keycloak", "s1", alice),
        signed_in_at("keycloak", "s2", alice),
        signed_in_at("entra", "s1", alice),
    )
    bobs = signed_in_at("keycloak", "s3", bob)
    assert end_provider_sessions("keycloak", sid="s1") == 1
    assert left() == {other, elsewhere, bobs}
    assert end_provider_sessions("keycloak", sid="s1") == 0
    assert end_provider_sessions("keycloak", sid="s3", person=alice) == 0
    assert end_provider_sessions("keycloak", person=alice) == 1
    assert left() == {elsewhere, bobs}
    with pytest.raises(ValueError, match="required"):
        end_provider_sessions("keycloak")
    assert one not in left()


def test_all_sessions_of_a_person_end_but_one(alice, bob):
    kept, _other, bobs = (
        signed_in_at("keycloak", sid, who) for sid, who in (("1", alice), ("2", alice), ("3", bob))
    )
    assert end_sessions(alice, but=kept) == 1
    assert left() == {kept, bobs}
    assert end_sessions(alice) == 1
    assert left() == {bobs}


@pytest.mark.security("sign-in", "other sessions after a new password")
def test_new_password_removes_the_other_sessions_and_keeps_this_one(alice):
    here, elsewhere = sign_in(), sign_in()
    new = "correct horse battery staple"
    form = {"oldpassword": "alice", "password1": new, "password2": new}
    assert here.post("/accounts/password/change/", form).status_code == 302
    assert (here.get(PAGE).status_code, elsewhere.get(PAGE).status_code) == (200, 302)
    assert stored().user == alice


def test_deactivated_person_has_no_session_left(person, alice):
    deactivate_person(by=make_user("root", is_superuser=True), person=alice)
    assert not Session.objects.exists()


def test_sessions_that_expired_are_removed(person):
    kept = stored().session_key
    over = SessionStore()
    over.set_expiry(-1)
    over["seen"] = "page"
    over.create()
    over.save()
    assert Session.objects.count() == 2
    clear_sessions()
    assert left() == {kept}
