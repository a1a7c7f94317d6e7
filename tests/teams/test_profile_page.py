import pytest

from teams.models import Membership, User
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


@pytest.mark.security("sign-in", "changes the mail address, in the session of another")
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


def test_profile_allows_get_and_post_only(browse, alice):
    assert browse(alice).delete(ME).status_code == 405


def test_profile_query_count_is_constant(browse, vision, alice, django_assert_max_num_queries):
    person = browse(alice)
    with django_assert_max_num_queries(20) as one:
        person.get(ME)
    for number in range(20):
        Membership.objects.create(user=alice, team=make_team(f"team-{number}"))
    with django_assert_max_num_queries(len(one)):
        assert "team-19" in person.get(ME).text
