"""The packages of the portal, top first, as import-linter knows them."""

import tomllib
from pathlib import Path

_settings = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text())
SOURCE = tuple(name for name in _settings["tool"]["importlinter"]["root_packages"] if name != "dragoman")
