import pytest
from django.test import Client

from tests.factories import make_user

LOGIN = "/accounts/login/"


def sign_in(client, login="alice", password="alice"):
    return client.post(LOGIN, {"login": login, "password": password})


def test_the_page_greets_a_stranger_without_a_way_to_sign_up(client, db):
    page = client.get(LOGIN)
    assert page.status_code == 200
    assert "signup" not in page.text
    assert "Sign Up Closed" in client.get("/accounts/signup/").text


@pytest.mark.parametrize("login", ["alice", "alice@example.org"])
def test_one_signs_in_by_user_name_or_address(client, db, login):
    make_user("alice", email="alice@example.org")
    assert sign_in(client, login).headers["Location"] == "/"
    assert client.get("/me/").status_code == 200


def test_a_wrong_password_is_said_on_the_page_and_what_was_typed_stays(client, alice):
    page = sign_in(client, password="wrong")
    assert "not correct" in page.text
    assert 'value="alice"' in page.text
    assert client.get("/me/").status_code == 302


def test_after_five_wrong_passwords_even_the_right_one_has_to_wait(client, alice):
    for _attempt in range(5):
        sign_in(client, password="wrong")
    page = sign_in(client)
    assert "Too many failed login attempts" in page.text
    assert client.get("/me/").status_code == 302


def test_the_admin_has_no_sign_in_of_its_own_without_that_limit(client, db):
    assert client.get("/admin/login/").headers["Location"].startswith(LOGIN)


def test_signing_out_is_a_post_and_ends_the_session(browse, alice):
    person = browse(alice)
    assert person.get("/accounts/logout/").status_code == 200
    assert person.get("/me/").status_code == 200
    assert person.post("/accounts/logout/").headers["Location"] == LOGIN
    assert person.get("/me/").status_code == 302


def test_the_password_is_changed_with_the_old_one(browse, alice):
    new = "correct horse battery staple"
    form = {"oldpassword": "alice", "password1": new, "password2": new}
    answer = browse(alice).post("/accounts/password/change/", form)
    assert answer.status_code == 302
    assert sign_in(Client(), password=new).headers["Location"] == "/"


def test_a_form_from_another_site_is_refused_with_a_page(alice):
    client = Client(enforce_csrf_checks=True)
    page = sign_in(client)
    assert page.status_code == 403
    assert "The form is too old" in page.text


@pytest.mark.parametrize(
    "path",
    ["/accounts/password/change/", "/accounts/2fa/", "/accounts/2fa/totp/activate/", "/accounts/logout/"],
)
def test_pages_of_the_account_wear_the_frame_of_the_portal(browse, alice, path):
    page = browse(alice).get(path, follow=True)
    assert page.status_code == 200
    assert 'class="dg-brand"' in page.text


def test_a_stranger_is_sent_to_the_sign_in_and_back(client, alice):
    asked = client.get("/me/tokens/")
    assert asked.headers["Location"] == f"{LOGIN}?next=/me/tokens/"
    answer = client.post(
        asked.headers["Location"], {"login": "alice", "password": "alice", "next": "/me/tokens/"}
    )
    assert answer.headers["Location"] == "/me/tokens/"
