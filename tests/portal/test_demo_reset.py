"""`make demo-reset` deletes the data of the demo, and nothing while it runs or that is not its own."""

import fcntl
import os
import subprocess

from tests import patience
from tests.demo.running import ROOT


def reset(home):
    return subprocess.run(
        ["make", "demo-reset"],
        cwd=ROOT,
        env=os.environ | {"DEMO_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=patience.COMMAND,
    )


def test_reset_deletes_the_data_of_the_demo(tmp_path):
    home = tmp_path / "demo"
    for kind in ("sim", "real-empty"):  # with EMPTY=1
        (home / kind / "clusters").mkdir(parents=True)
        (home / kind / "lock").touch()
    (home / "notes.txt").touch()
    done = reset(home)
    assert done.returncode == 0, done.stderr
    assert [file.name for file in home.iterdir()] == ["notes.txt"]
    assert reset(home).returncode == 0  # nothing is there


def test_reset_of_a_running_demo_is_refused(tmp_path):
    home = tmp_path / "demo"
    (home / "sim").mkdir(parents=True)
    with (home / "sim" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = reset(home)
    assert done.returncode != 0
    assert home.exists()
