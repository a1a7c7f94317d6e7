"""The web server does not start with the key that stands in the source."""

import os
import subprocess
import sys


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


def test_in_production_it_asks_for_a_key():
    done = start()
    assert done.returncode != 0
    assert "Set SECRET_KEY: whoever knows it can sign in as anybody." in done.stderr


def test_with_a_key_it_starts():
    done = start(SECRET_KEY="x" * 50)
    assert done.returncode == 0, done.stderr
