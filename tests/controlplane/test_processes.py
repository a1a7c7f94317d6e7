"""Nothing is left behind: no process, no folder, unless it was to be kept."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from demo.controlplane.client import eventually
from demo.controlplane.harness import ControlPlane, NotReady, Program, free_ports
from tests import patience


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_stopped_program_is_gone_and_its_output_can_be_read(tmp_path):
    program = Program("echo", ["sh", "-c", "echo hello; exec sleep 60"], tmp_path / "log")
    program.start()
    eventually(lambda: program.last_lines() == "hello", subject="the output")
    assert program.running
    program.stop()
    assert not program.running
    assert not alive(program.pid)


def test_a_program_that_will_not_end_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("demo.controlplane.harness.SECONDS_TO_END", 0.2)
    program = Program(
        "deaf", ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"], tmp_path / "log"
    )
    program.start()
    eventually(lambda: program.last_lines() == "ready", subject="the trap")
    program.stop()
    assert not alive(program.pid)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux ends a child with its parent")
def test_a_program_ends_with_a_parent_that_was_killed(tmp_path):
    script = f"""
import sys, time
from pathlib import Path
from demo.controlplane.harness import Program
program = Program("sleep", ["sleep", "600"], Path({str(tmp_path / "log")!r}))
program.start()
print(program.pid, flush=True)
time.sleep(600)
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert alive(child)
        parent.kill()
    eventually(lambda: not alive(child), subject="the end of the child")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux ends a child with its parent")
def test_a_program_ends_with_a_parent_that_ended_while_it_started(tmp_path):
    script = f"""
import os
from pathlib import Path
from demo.controlplane.harness import Program
program = Program("sleep", ["sleep", "600"], Path({str(tmp_path / "log")!r}))
program.start()
os.write(1, str(program.pid).encode())
os.kill(os.getpid(), 9)
"""
    started = [
        subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=False) for _ in range(5)
    ]
    children = [int(parent.stdout) for parent in started]
    eventually(lambda: not any(alive(child) for child in children), subject="the end of the children")


def test_free_ports_are_free_and_different():
    ports = free_ports(5)
    assert len(set(ports)) == 5
    for port in ports:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))


@pytest.mark.controlplane
def test_a_control_plane_that_is_kept_is_the_same_the_next_time(controlplane, tmp_path):
    def seen(plane: ControlPlane) -> tuple[object, ...]:
        found = plane.client().get("Namespace", "kube-system")
        return (
            found and found["metadata"]["uid"],
            plane.kubeconfig("portal"),
            plane.client().list("DeviceClass"),
        )

    folder = tmp_path / "kept"
    with ControlPlane(folder, keep=True) as plane:
        first, pids = seen(plane), [program.pid for program in plane.programs.values()]
    assert [pid for pid in pids if alive(pid)] == []
    with ControlPlane(folder, keep=True) as plane:
        assert seen(plane) == first


@pytest.mark.controlplane
def test_a_program_that_does_not_come_up_is_named_with_its_last_words(controlplane, monkeypatch, tmp_path):
    monkeypatch.setattr(
        "demo.controlplane.harness.etcd_command", lambda *_: ["sh", "-c", "echo no luck; exit 1"]
    )
    folder = tmp_path / "failing"
    with pytest.raises(NotReady, match=r"etcd did not come up(.|\n)*no luck"), ControlPlane(folder):
        pass
    assert not folder.exists()


@pytest.mark.controlplane
def test_by_hand_it_ends_with_a_signal_and_leaves_no_process(controlplane, tmp_path):
    command = [
        sys.executable,
        "-m",
        "demo.controlplane",
        "--kubeconfigs",
        str(tmp_path),
        "--name",
        "lab-2",
    ]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as running:
        eventually((tmp_path / "lab-2.ready").exists, seconds=patience.PROGRAM_READY, subject="readiness")
        children = children_of(running.pid)
        running.send_signal(signal.SIGTERM)
        assert running.wait(90) == 0
    assert len(children) == 5
    assert [pid for pid in children if alive(pid)] == []
    assert "lab-2" in (tmp_path / "lab-2.kubeconfig").read_text()
    assert (tmp_path / "lab-2.people.kubeconfig").stat().st_mode & 0o077 == 0


def children_of(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in found.split()]
