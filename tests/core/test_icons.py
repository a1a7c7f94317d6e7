"""Icons that templates and states name must be in the sprite: one that is missing is an empty square."""

import re
from pathlib import Path

from core import assets

ROOT = assets.ROOT
USES = (
    re.compile(r'\{% icon "([\w-]+)"'),
    re.compile(r'\{% empty "([\w-]+)"'),
    re.compile(r'\{% state_badge "\w+" "([\w-]+)"'),
    re.compile(r'icon_name="([\w-]+)"'),
    re.compile(r'empty_icon="([\w-]+)"'),
)
# A colour of a state and its icon, alone or before a label; no list of names.
IN_PYTHON = re.compile(
    r'NavItem\("[^"]+", "([a-z0-9-]+)"'
    r'|\("(?:wait|you|work|held|bad|over|unknown)", "([a-z0-9-]+)"(?:\)|, "[A-Z])'
)


def used() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for file in (ROOT / "templates").rglob("*.html"):
        for pattern in USES:
            found |= dict.fromkeys(pattern.findall(file.read_text()), file)
    for package in ("portal", "teams", "inventory", "claims", "usage"):
        for file in (ROOT / package).rglob("*.py"):
            found |= {one or other: file for one, other in IN_PYTHON.findall(file.read_text())}
    return found


def test_every_icon_that_is_used_is_in_the_sprite():
    known = set(assets.icon_names())
    missing = {name: str(file.relative_to(ROOT)) for name, file in used().items() if name not in known}
    assert not missing, "add them to static/dragoman/icons.txt"


def test_the_search_for_uses_finds_them():
    assert {"home", "cpu", "menu-2", "hourglass-high"} <= used().keys()
