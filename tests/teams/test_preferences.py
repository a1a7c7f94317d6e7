import pytest

from teams.models import User


def test_theme_is_rendered_and_stored_for_other_browsers(browse, alice):
    person = browse(alice)
    assert "data-bs-theme" not in person.get("/me/").text
    person.post("/me/theme", {"theme": "dark", "next": "/me/"})
    assert '<html lang="en" data-bs-theme="dark"' in person.get("/me/").text
    assert '<html lang="en" data-bs-theme="dark"' in browse(alice).get("/me/").text


def test_theme_cookie_overrides_the_stored_theme(browse, alice):
    User.objects.update(theme="dark")
    person = browse(alice)
    person.cookies["theme"] = "light"
    assert 'data-bs-theme="light"' in person.get("/me/").text


def test_anonymous_reader_may_choose_a_theme(client, db):
    assert "data-bs-theme" not in client.get("/accounts/login/").text
    client.post("/me/theme", {"theme": "dark", "next": "/accounts/login/"})
    assert 'data-bs-theme="dark"' in client.get("/accounts/login/").text


@pytest.mark.parametrize("theme", ["pink", "", '"><script>'])
def test_unknown_theme_is_refused(browse, alice, theme):
    person = browse(alice)
    assert person.post("/me/theme", {"theme": theme}).status_code == 400
    person.cookies["theme"] = "dark"
    assert "data-bs-theme" in person.get("/me/").text
    person.cookies["theme"] = theme
    assert "data-bs-theme" not in person.get("/me/").text


@pytest.mark.security("forgery", "leads to another host after a change of team")
@pytest.mark.parametrize(
    "there", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "nowhere", ""]
)
def test_redirect_stays_on_this_host(browse, alice, there):
    answer = browse(alice).post("/me/theme", {"theme": "dark", "next": there})
    assert answer.headers["Location"] == "/"


def test_current_team_is_stored_in_a_cookie(browse, vision, alice):
    person = browse(alice)
    person.post("/me/team", {"team": "vision", "next": "/me/"})
    assert person.cookies["team"].value == "vision"


def test_outsider_cannot_switch_to_a_team(browse, vision, alice, eve):
    member = browse(alice)
    member.cookies["team"] = "vision"
    assert "vision" in member.get("/me/").text
    outsider = browse(eve)
    assert outsider.post("/me/team", {"team": "vision"}).status_code == 404
    outsider.cookies["team"] = "vision"
    assert "vision" not in outsider.get("/me/").text


def test_switching_team_needs_a_login(client, vision):
    assert client.post("/me/team", {"team": "vision"}).headers["Location"].startswith("/accounts/login/")
