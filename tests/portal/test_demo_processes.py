"""What `make demo` promises: a ready line, one clear sentence when it cannot, no process left behind."""

import os
import socket
import subprocess
import sys
import urllib.request
from types import SimpleNamespace
from typing import cast

import httpx
import pytest

from demo import __main__ as start
from demo import services
from demo.supervisor import Supervisor
from tests import patience, postgres
from tests.demo.running import ROOT, RunningDemo


def run_demo(**environment):
    return subprocess.run(
        [sys.executable, "-m", "demo"],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=patience.COMMAND,
    )


def test_a_port_in_use_is_one_sentence_with_the_way_out(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_demo(PORT=str(port), DEMO_HOME=str(tmp_path))
    assert done.returncode == 1
    assert f"Port {port} is in use. Choose another one: make demo PORT={port + 1}" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(("name", "value"), [("PORT", "http"), ("CLUSTER", "kind")])
def test_a_setting_that_makes_no_sense_is_refused_by_name(tmp_path, name, value):
    done = run_demo(**{"DEMO_HOME": str(tmp_path), name: value})
    assert done.returncode == 2
    assert done.stderr.startswith(f"{name} is '{value}'; it must be")


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("demo.supervisor.NEEDED_MIB", 2**40)
    from demo import __main__ as demo

    monkeypatch.setenv("DEMO_HOME", str(tmp_path))
    monkeypatch.setenv("PORT", "1")
    said = []
    monkeypatch.setattr("demo.supervisor.write", lambda _name, _colour, line: said.append(line))
    monkeypatch.setattr("signal.signal", lambda *_: None)
    assert demo.main() == 1
    assert "MiB free; the demo needs" in said[-1]
    assert "Make room or set DEMO_HOME." in said[-1]


def test_a_database_that_does_not_start_says_why(tmp_path):
    folder = tmp_path / "postgres"
    folder.mkdir()
    (folder / "PG_VERSION").write_text("18\n")  # and nothing else of a database
    done = subprocess.run(
        [sys.executable, "-m", "demo.postgres", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=patience.COMMAND,
    )
    assert done.returncode == 1
    assert f"PostgreSQL did not start. Its log, {folder / 'log'}, ends with:" in done.stderr
    assert "postgresql.conf" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_first_start_has_its_own_database_and_starting_again_keeps_it(tmp_path):
    """In an empty folder; the story is told once in a run, by `told`."""
    with RunningDemo(tmp_path, "sim", EMPTY="1") as demo:
        demo.start()
        with urllib.request.urlopen(f"{demo.url}/healthz") as answer:
            assert answer.read() == b"ok\n"
        assert len(demo.family()) >= 8  # itself, database, redis, simulator, web, two workers, beat
        token = demo.token("admin")
        assert demo.stop() == []
        assert demo.process.returncode == 0

        demo.start()
        with httpx.Client(base_url=demo.url, headers={"Authorization": f"Bearer {token}"}) as client:
            assert client.get("/api/v1/me/").json()["username"] == "admin"
        assert demo.stop() == []
        assert demo.process.returncode == 0


def claims_of_the_engineer(demo):
    with demo.client("engineer") as client:
        return client.get("/claims/").text


def test_ctrl_c_while_it_starts_leaves_no_process_behind(tmp_path):
    with RunningDemo(tmp_path, "sim") as demo:
        demo.start(until="Redis: ")
        assert len(demo.family()) >= 3  # itself, the database, the simulator
        assert demo.stop() == []
        assert demo.process.returncode == 0


def test_later_start_keeps_the_story_and_a_dead_process_stops_the_others(told, tmp_path):
    with told.copy(tmp_path / "home", postgres.own("dead_process")) as demo:
        demo.start()
        assert not any("claims of the demo" in line for line in demo.lines)  # they are there already
        assert "sam2-finetune" in claims_of_the_engineer(demo)
        family = demo.family()
        web = next(process for process in family if "portal.serving" in " ".join(process.cmdline()))
        web.kill()
        demo.process.wait(patience.EXIT)
        assert demo.process.returncode == 1
        assert any("web has ended with exit code" in line for line in demo.lines)
        assert [one for one in family if one.is_running() and one.status() != "zombie"] == []
    postgres.drop(postgres.own("dead_process"))


class Recorder:
    """A supervisor that notes what it is asked to do."""

    def __init__(self, home):
        self.config = SimpleNamespace(home=home, real=False, empty=False)
        self.environment: dict[str, str] = {}
        self.done: list[str] = []

    def run(self, _title, command, *_names):
        self.done.append(command)


@pytest.mark.parametrize(
    ("is_told", "are_collected", "order"),
    [
        (True, True, ["portal", "demo_prepare"]),
        (True, False, ["demo_prepare", "portal"]),  # after an update of the stylesheet
        (False, True, ["demo_prepare", "portal", "demo_story"]),
    ],
)
def test_portal_starts_after_changed_static_files_are_collected(
    tmp_path, monkeypatch, is_told, are_collected, order
):
    if is_told:
        (tmp_path / "story-loaded").touch()
    demo = Recorder(tmp_path)
    for name in ("clusters", "database", "redis"):
        monkeypatch.setattr(services, name, lambda _supervisor: lambda: None)
    monkeypatch.setattr(services, "portal", lambda _supervisor: demo.done.append("portal") or (lambda: None))
    monkeypatch.setattr(start, "settings_for_all", lambda _config: {})
    monkeypatch.setattr(services, "are_collected", lambda: are_collected)
    start.bring_up(cast("Supervisor", demo))
    assert demo.done == order


def test_static_files_are_collected_until_one_changes(tmp_path):
    for folder in ("static", "staticfiles"):
        (tmp_path / folder).mkdir()
    (tmp_path / "uv.lock").touch()
    style = tmp_path / "static" / "a.css"
    style.write_text("a {}")
    assert not services.are_collected(tmp_path)
    services.note_collected(tmp_path)
    assert services.are_collected(tmp_path)
    style.write_text("a { color: red }")
    assert not services.are_collected(tmp_path)
