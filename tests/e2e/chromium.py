"""Which browser the tests drive: Debian's Chromium, or the one that CHROMIUM names."""

import os
import shutil
from pathlib import Path

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


def found() -> str:
    """Return the path of Chromium, "" without one."""
    for name in (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome"):
        if name and (path := shutil.which(name)):
            return path
    cached = Path.home().glob(
        ".cache/ms-playwright/chromium-*/chrome-linux*/chrome"
    )  # of `playwright install`
    return str(next(cached, ""))


def executable() -> str:
    """Return its path. Without one: skipped, but failed where CI is true."""
    if path := found():
        return path
    reason = "No Chromium on PATH: install Debian's chromium, or name one in CHROMIUM."
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(reason)
    pytest.skip(reason)
