"""Which browser the tests drive: Debian's Chromium, or the one that CHROMIUM names."""

import os
import shutil

import pytest

# As root there is no sandbox; the others keep it from calling home.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def executable() -> str:
    """Return its path. Without one: skipped, but failed where CI is true."""
    for name in (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name) if name else None
        if found:
            return found
    reason = "No Chromium on PATH: install Debian's chromium, or name one in CHROMIUM."
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(reason)
    pytest.skip(reason)
