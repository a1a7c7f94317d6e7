"""Clients that stop in the middle of a request do not keep the threads of the web process."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from types import SimpleNamespace

import pytest

from portal import serving
from tests import patience
from tests.demo.running import ROOT, free_port

THREADS = 4


@pytest.fixture
def web(tmp_path):
    """The web process as it is deployed, with few threads and little patience; yields its port."""
    port = free_port()
    program = [sys.executable, "-m", "gunicorn", "-c", "python:portal.serving", "--bind", f"127.0.0.1:{port}"]
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "WEB_THREADS": str(THREADS),
        "WEB_READ_TIMEOUT": "1",
    }
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(program, cwd=ROOT, env=environment, stdout=log, stderr=log)
    ends = time.monotonic() + patience.PROGRAM_READY
    while not answers(port, 1):
        assert process.poll() is None, (tmp_path / "log").read_text()
        assert time.monotonic() < ends, (tmp_path / "log").read_text()
        time.sleep(0.1)
    yield port
    process.terminate()
    process.wait(patience.EXIT)


def answers(port, seconds):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=seconds) as answer:
            return answer.status == 200
    except OSError:
        return False


def test_web_process_says_that_it_lives(monkeypatch):
    started, said = [], []

    def sleep(seconds):
        raise StopIteration

    monkeypatch.setattr(
        serving, "Thread", lambda **thread: SimpleNamespace(start=lambda: started.append(thread))
    )
    monkeypatch.setattr(serving, "time", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(serving, "say_that_web_lives", lambda: said.append("lives"))
    serving.post_worker_init(None)
    assert [thread["daemon"] for thread in started] == [True]
    with pytest.raises(StopIteration):
        started[0]["target"]()
    assert said == ["lives"]


STARTS = {
    "headers": b"GET /accounts/login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
    "body": b"POST /accounts/login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\nlogin=",
}


@pytest.mark.security("guessing", "idle connections with an unfinished request, several for each thread")
@pytest.mark.parametrize("part", STARTS)
def test_unfinished_requests_give_their_threads_back(web, part):
    idle = [socket.create_connection(("127.0.0.1", web)) for _ in range(2 * THREADS)]
    for client in idle:
        client.sendall(STARTS[part])
    time.sleep(0.3)  # until the threads read them
    assert answers(web, patience.PAGE / 3)
    for client in idle:
        client.close()
