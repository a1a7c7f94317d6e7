"""
The profiles that come with the portal, one file each, in the format of `manage.py catalogue export`.

They are offered to a platform admin, never added on their own: whether they match anything depends on the
drivers of the clusters.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from claims.catalogue.yaml_export import ProfileEntry
from claims.catalogue.yaml_import import entries_in

FOLDER = Path(__file__).parent


@cache
def presets() -> tuple[ProfileEntry, ...]:
    """Return every preset, by slug."""
    files = sorted(FOLDER.glob("*.yaml"))
    return tuple(entry for file in files for entry in entries_in(file.read_text(), file.name))
