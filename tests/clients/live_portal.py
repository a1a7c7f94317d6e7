"""A portal of this process that a test stops and starts on its port, and programs that use it."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from threading import Thread

from django.core.handlers.wsgi import WSGIHandler
from django.core.servers.basehttp import ThreadedWSGIServer
from django.test.testcases import QuietWSGIRequestHandler

from tests import patience
from tests.demo.running import free_port

# What a program waits is shorter than for people.
QUICK = """
import dragoman.keepalive, dragoman._async.claim, dragoman._async.transport, dragoman._sync.claim
import dragoman._sync.transport
for module in (dragoman._async.claim, dragoman._sync.claim):
    module.AWAY_PAUSE, module.RELEASE_PATIENCE = 0.1, {patience}
for module in (dragoman._async.transport, dragoman._sync.transport):
    module.LONGEST_PAUSE = 0.05
dragoman.keepalive.RENEWALS, dragoman.keepalive.TICK, dragoman.keepalive.RETRY = 600, 0.1, 0.1
"""


class Server(ThreadedWSGIServer):
    """Cuts the connections that are open when it is stopped."""

    def __init__(self, *args, **kwargs):
        self.open = set()
        super().__init__(*args, **kwargs)

    def process_request(self, request, client_address):
        self.open.add(request)
        super().process_request(request, client_address)

    def close_request(self, request):
        self.open.discard(request)
        super().close_request(request)

    def handle_error(self, request, client_address):
        """A client that is gone is no fault."""


class Portal:
    """`slow_posts` is for how many seconds the answer to a POST is on its way."""

    def __init__(self):
        self.port, self.slow_posts = free_port(), 0.0
        self.url = f"http://127.0.0.1:{self.port}"
        self.handler = WSGIHandler()
        self.server = None

    def start(self):
        self.server = Server(("127.0.0.1", self.port), QuietWSGIRequestHandler)
        self.server.set_app(self.answer)
        self.thread = Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def stop(self):
        if self.server is None:
            return
        self.server.shutdown()
        for request in list(self.server.open):
            with suppress(OSError):  # closed by its client at this moment
                request.shutdown(socket.SHUT_RDWR)
        self.server.server_close()
        self.thread.join()
        self.server = None

    def answer(self, environ, start_response):
        body = self.handler(environ, start_response)
        if environ["REQUEST_METHOD"] == "POST":
            time.sleep(self.slow_posts)
        return body


class Program:
    """A Python program in a process of its own; `said` is what it has printed."""

    def __init__(self, code, folder, *, patience=60, **environment):
        self.file = folder / f"program-{time.monotonic_ns()}.txt"
        with self.file.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-u", "-c", QUICK.format(patience=patience) + code],
                env=os.environ | environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def said(self):
        return self.file.read_text()

    def until(self, text):
        eventually(lambda: text in self.said or self.process.poll() is not None)
        assert text in self.said, self.said
        return self.said

    def send(self, number):
        self.process.send_signal(number)

    def end(self):
        """Wait for its end; return its exit code."""
        return self.process.wait(patience.COMMAND)

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()


def eventually(holds):
    end = time.monotonic() + patience.COMMAND
    while not holds():
        assert time.monotonic() < end, "It did not come to pass."
        time.sleep(0.05)
