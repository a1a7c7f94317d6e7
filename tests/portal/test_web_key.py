"""The web server does not start with the key that stands in the source."""

import os
import subprocess
import sys

import pytest
from django.core.checks.security.base import check_secret_key


def start(**env):
    given = {
        name: value
        for name, value in os.environ.items()
        if name not in ("SECRET_KEY", "INSECURE_HTTP", "DEBUG")
    }
    return subprocess.run(
        [sys.executable, "-c", "import portal.wsgi"],
        env=given | {"DJANGO_SETTINGS_MODULE": "portal.settings"} | env,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.security("secrets", "an installation with the key of the repository")
@pytest.mark.parametrize("env", [{}, {"INSECURE_HTTP": "true"}])
def test_outside_development_it_asks_for_a_key(env):
    done = start(**env)
    assert done.returncode != 0
    assert "Set SECRET_KEY: whoever knows it can sign in as anybody." in done.stderr


@pytest.mark.parametrize("env", [{"SECRET_KEY": "x" * 50}, {"DEBUG": "true"}])
def test_with_a_key_or_for_development_it_starts(env):
    done = start(**env)
    assert done.returncode == 0, done.stderr


def test_check_of_a_deployment_warns_of_the_key_of_the_source(settings):
    assert check_secret_key(None) == []
    settings.SECRET_KEY = settings.DEVELOPMENT_KEY
    assert [warning.id for warning in check_secret_key(None)] == ["security.W009"]
