"""`manage.py allocate`: cases in, answers out, without any database."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("options", [[], ["--no-color"]], ids=["without Django", "with Django"])
def test_it_answers_line_by_line_without_a_database(options):
    lines = '{"name": "a"}\nnonsense\n{"name": "b", "node": null}\n'
    done = subprocess.run(
        [sys.executable, "manage.py", "allocate", *options],
        cwd=ROOT,
        env=os.environ | {"DATABASE_URL": "postgres://nobody:nothing@127.0.0.1:1/none"},
        input=lines,
        capture_output=True,
        text=True,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["name"] for one in answers] == ["a", "", "b"]
    assert [bool(one["error"]) for one in answers] == [False, True, True]
    assert done.stderr == ""


def test_it_answers_before_it_is_asked_again():
    with subprocess.Popen(
        [sys.executable, "manage.py", "allocate"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        for name in ("first", "second"):
            running.stdin.write(json.dumps({"name": name}).encode() + b"\n")
            running.stdin.flush()
            assert json.loads(running.stdout.readline())["name"] == name
        running.stdin.close()
        assert running.wait() == 0
