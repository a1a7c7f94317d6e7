"""Passwords that others guess: words of the organization, and what was stolen elsewhere."""

import hashlib
from types import SimpleNamespace

import pytest
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ImproperlyConfigured, ValidationError

from core.models import Installation
from portal.checks import connections_are_encrypted, list_of_stolen_passwords_is_there
from teams.passwords import is_listed


def codes(password: str) -> list[str]:
    """Return why a password is refused."""
    try:
        validate_password(password)
    except ValidationError as refusal:
        return [str(one.code) for one in refusal.error_list]
    return []


@pytest.mark.security("sign-in", "a password that is a word of the organization with a number")
@pytest.mark.parametrize(
    ("password", "is_refused"),
    [
        ("Helix2026!", True),
        ("robotics-helix", True),  # both are words here
        ("gpu-portal-9", True),  # of the name of the portal
        ("Dragoman-42", True),
        ("helix-7-otters-knit", False),
        ("correct horse battery", False),
    ],
)
def test_a_word_of_the_organization_is_no_password(db, settings, password, is_refused):
    settings.PASSWORD_WORDS = ["Helix", "Robotics", "GPU"]  # the last is too short to look for
    Installation.objects.create(pk=1, name="GPU Portal")
    assert ("password_of_organization" in codes(password)) is is_refused


@pytest.fixture
def stolen(tmp_path, settings):
    """A list as that of Have I Been Pwned, of some hundred passwords."""

    def write(*passwords: str) -> None:
        digests = sorted(hashlib.sha1(one.encode()).hexdigest().upper() for one in passwords)
        (tmp_path / "stolen.txt").write_text(
            "".join(f"{digest}:{number}\r\n" for number, digest in enumerate(digests))
        )
        settings.BREACHED_PASSWORDS = str(tmp_path / "stolen.txt")

    return write


@pytest.mark.security("sign-in", "a password that was stolen elsewhere")
def test_a_stolen_password_is_refused(db, stolen):
    listed = [f"old password {number}" for number in range(300)]
    stolen(*listed)
    for password in listed:  # the first and the last line too
        assert codes(password) == ["password_breached"], password
    for number in range(300):
        assert codes(f"new password {number}") == []


@pytest.mark.parametrize("passwords", [(), ("one",), ("one", "two")])
def test_short_lists_are_searched_to_their_ends(tmp_path, stolen, passwords):
    stolen(*passwords)
    path = tmp_path / "stolen.txt"
    assert [one for one in ("one", "two", "three") if is_listed(path, one)] == list(passwords)


def test_without_its_file_nobody_chooses_a_password_and_the_check_says_so(db, tmp_path, settings):
    assert list_of_stolen_passwords_is_there() == []
    settings.BREACHED_PASSWORDS = str(tmp_path / "missing.txt")
    with pytest.raises(ImproperlyConfigured, match="BREACHED_PASSWORDS cannot be read"):
        codes("correct horse battery")
    (warning,) = list_of_stolen_passwords_is_there()
    assert warning.id == "dragoman.W003"


@pytest.mark.security("outbound", "reads what goes to PostgreSQL or Redis on another machine")
@pytest.mark.parametrize(
    ("host", "mode", "redis", "found"),
    [
        ("db.example", "verify-full", "rediss://cache.example:6379/0", []),
        ("localhost", None, "redis://localhost:6379/0", []),
        ("/run/postgresql", None, "unix:///run/redis.sock", []),
        ("db.example", None, "redis://127.0.0.1:6379/0", ["dragoman.W001"]),
        ("db.example", "require", "redis://cache.example:6379/0", ["dragoman.W001", "dragoman.W002"]),
    ],
)
def test_the_deployment_check_asks_for_tls(monkeypatch, host, mode, redis, found):
    database = {"HOST": host, "OPTIONS": {"sslmode": mode} if mode else {}}
    configured = SimpleNamespace(DATABASES={"default": database}, REDIS_URL=redis)
    monkeypatch.setattr("portal.checks.settings", configured)
    assert [warning.id for warning in connections_are_encrypted()] == found
