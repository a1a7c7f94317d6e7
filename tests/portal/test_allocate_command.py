"""`manage.py allocate`: one case per line in, one result per line out, without a database."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_allocate_answers_line_by_line_without_a_database():
    lines = '{"name": "a"}\nnonsense\n{"name": "b", "node": null}\n'
    done = subprocess.run(
        [sys.executable, "manage.py", "allocate"],
        cwd=ROOT,
        env=os.environ | {"DATABASE_URL": "postgres://nobody:nothing@127.0.0.1:1/none"},
        input=lines,
        capture_output=True,
        text=True,
        check=True,
    )
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [result["name"] for result in results] == ["a", "", "b"]
    assert [bool(result["error"]) for result in results] == [False, True, True]
    assert done.stderr == ""


def test_allocate_answers_each_line_before_the_next_arrives():
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
