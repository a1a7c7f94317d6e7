"""Make `dragoman/_sync` before hatchling builds a wheel or an editable installation."""

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class MakeSync(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        runpy.run_path(str(Path(self.root) / "make_sync.py"), run_name="__main__")
