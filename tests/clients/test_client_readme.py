"""The README of the client is executed as written: its Python, and its session in a terminal."""

import re
from typing import Any

import pytest
from dragoman.cli.shared import EXIT_CODES, INTERRUPTED
from dragoman.results import LIVE

from tests.demo.running import ROOT

README = (ROOT / "clients" / "python" / "README.md").read_text()
PORTAL = "https://gpu.example.org"


@pytest.fixture
def mira(client_of, simulated):
    client = client_of(simulated, "engineer")
    before = {claim.id for claim in client.claims(state=LIVE, mine=True)}
    yield client
    left = [claim for claim in client.claims(state=LIVE, mine=True) if claim.id not in before]
    for claim in left:
        claim.release()
    assert left == []  # what the README requests it also gives back


def test_its_python_runs(mira, monkeypatch, capsys):
    monkeypatch.setenv("DRAGOMAN_URL", mira.settings.url)
    monkeypatch.setenv("DRAGOMAN_TOKEN", mira.settings.token)
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 3
    for code in blocks:
        exec(compile(code, "README.md", "exec"), names)
    names["client"].close()
    shown = capsys.readouterr().out
    assert "kind: Pod" in shown
    assert "You act next." in shown
    assert re.search(r"^(approved|waiting) \d{4}-", shown, re.MULTILINE)
    assert shown.splitlines()[-1] == "provisioned"


def matches(written, shown):
    """Return whether a text is what was written: “…” is any part of a line, or alone any number of lines."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "…" else ".*?".join(map(re.escape, line.split("…"))) + r"\n"
        for line in squeezed(written).splitlines()
    )
    text = "".join(f"{line}\n" for line in squeezed(shown).splitlines())
    return re.fullmatch(pattern, text) is not None


def test_its_session_runs_and_shows_what_is_written(mira, shell, home):
    (session,) = re.findall(r"```console\n(\$ .*?)```", README, re.DOTALL)
    (home / "work" / "token").write_text(f"{mira.settings.token}\n")
    session = session.replace(PORTAL, mira.settings.url)
    steps = re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE)
    assert len(steps) >= 9
    for command, written in steps:
        done = shell(f"({command}) 2>&1")
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        difference = f"{command}\n{done.stdout}\nWritten:\n{written}"
        assert matches(written, done.stdout), difference
    assert "kind: Job" in (home / "work" / "job.yaml").read_text()


def squeezed(text):
    """Return a text without the width of its columns, which follows from values that differ."""
    return re.sub(r" +", " ", text.strip())


def test_it_has_every_exit_code():
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", README, re.MULTILINE)}
    assert documented == {0, 1, 2, INTERRUPTED} | {code for _kind, code in EXIT_CODES}


@pytest.mark.parametrize(
    ("written", "shown", "same"),
    [
        ("a\n…\nb", "a\nx\ny\nb", True),
        ("a\n…\nb", "a\nb", True),
        ("a …", "a\nb", False),
        ("a", "b", False),
        ("n …", "n 3 of 4", True),
        ("x … z", "x y", False),
    ],
)
def test_only_the_marked_parts_may_differ(written, shown, same):
    assert matches(written, shown) is same
