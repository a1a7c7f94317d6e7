"""What the README tells a stranger to do works as it is written there."""

import re
from typing import Any

import pytest

from tests.demo.running import ROOT

pytestmark = pytest.mark.browser


def test_the_notebook_cell_asks_for_a_gpu_and_waits_for_it(simulated, capsys):
    (cell,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    cell = cell.replace("http://127.0.0.1:8000", simulated.url).replace(
        "drg_…", simulated.token("engineer")
    )
    names: dict[str, Any] = {}
    exec(compile(cell, "README.md", "exec"), names)
    said = capsys.readouterr().out
    assert said.startswith("provisioned ")
    assert "kind: ResourceClaim" in said
    claim = f"{names['portal']}/claims/{names['claim']['id']}/"
    assert names["me"].post(f"{claim}release/").json()["state"] in ("releasing", "released")


def test_every_picture_of_the_readme_is_there():
    named = re.findall(r"\]\((docs/pictures/[^)]+)\)", (ROOT / "README.md").read_text())
    assert len(named) >= 5
    assert [name for name in named if not (ROOT / name).exists()] == []
