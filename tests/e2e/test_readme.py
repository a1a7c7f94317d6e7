"""What the README tells a stranger to do works as it is written there."""

import re

import httpx
import pytest

from tests.demo.running import ROOT

pytestmark = pytest.mark.browser


def token_of(demo, name):
    """Sign in as a browser does and make a token, which is shown once."""
    with httpx.Client(base_url=demo.url, follow_redirects=True, timeout=90) as client:
        form = client.get("/accounts/login/").text
        csrf = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form).group(1)
        client.post("/accounts/login/", data={"csrfmiddlewaretoken": csrf, "login": name, "password": "demo"})
        headers = {"X-CSRFToken": client.cookies["csrftoken"], "Referer": demo.url}
        answer = client.post("/api/v1/tokens/", json={"title": "README"}, headers=headers)
        assert answer.status_code == 201, answer.text
        return next(
            value for value in answer.json().values() if str(value).startswith("drg_") and len(value) > 20
        )


def test_the_notebook_cell_asks_for_a_gpu_and_waits_for_it(simulated, capsys):
    (cell,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    cell = cell.replace("http://127.0.0.1:8000", simulated.url).replace(
        "drg_…", token_of(simulated, "engineer")
    )
    exec(compile(cell, "README.md", "exec"), {})
    said = capsys.readouterr().out
    assert said.startswith("provisioned ")
    assert "kind: ResourceClaim" in said


def test_every_picture_of_the_readme_is_there():
    named = re.findall(r"\]\((docs/pictures/[^)]+)\)", (ROOT / "README.md").read_text())
    assert len(named) >= 5
    assert [name for name in named if not (ROOT / name).exists()] == []
