"""
The profiles that come with the portal, one file each, in the format of `manage.py catalogue export`.

A platform admin adds them. Nothing adds them automatically: whether they match depends on the drivers of the
clusters.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from claims.catalogue.definition import ProfileDefinition
from claims.catalogue.yaml_import import read_definitions

FOLDER = Path(__file__).parent


@cache
def presets() -> tuple[ProfileDefinition, ...]:
    """Return every preset, by slug."""
    files = sorted(FOLDER.glob("*.yaml"))
    return tuple(preset for file in files for preset in read_definitions(file.read_text(), file.name))
