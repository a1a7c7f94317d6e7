"""What the README tells a stranger to do works as it is written there."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import patience
from tests.demo.running import ROOT

pytestmark = pytest.mark.browser


PORTAL = "http://127.0.0.1:8000"
README = (ROOT / "README.md").read_text()


def test_the_notebook_cell_asks_for_a_gpu_waits_for_it_and_gives_it_back(simulated, capsys):
    (cell,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    cell = cell.replace(PORTAL, simulated.url).replace("drg_…", simulated.token("engineer"))
    names: dict[str, Any] = {}
    exec(compile(cell, "README.md", "exec"), names)
    said = capsys.readouterr().out
    assert said.startswith("provisioned ")
    assert "kind: Pod" in said
    assert names["claim"].state in ("releasing", "released")
    names["client"].close()


def test_the_commands_request_a_gpu_and_give_it_back(simulated, tmp_path):
    (commands,) = re.findall(r"```console\n(dragoman login .*?)```", README, re.DOTALL)
    (tmp_path / "token").write_text(simulated.token("engineer"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    done = subprocess.run(
        ["bash", "-ec", commands.replace(PORTAL, simulated.url)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=patience.COMMAND,
    )
    assert done.returncode == 0, done.stderr
    assert "state    releas" in done.stdout
    assert "kind: Job" in (tmp_path / "job.yaml").read_text()


def test_every_picture_of_the_readme_is_there():
    named = re.findall(r"\]\((docs/pictures/[^)]+)\)", README)
    assert len(named) >= 5
    assert [name for name in named if not (ROOT / name).exists()] == []
