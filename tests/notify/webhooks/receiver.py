"""A real HTTP server that receives webhooks, and answers as a test wants."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Received:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """`statuses` are those of its answers in turn, the last one again and again."""

    port: int = 0
    statuses: list[int] = field(default_factory=lambda: [200])
    headers: dict[str, str] = field(default_factory=dict)
    answer: bytes = b"thanks"
    drips: bool = False
    takes: float = 0  # seconds
    at_once: int = 0
    most_at_once: int = 0
    got: list[Received] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


@contextmanager
def running() -> Iterator[Receiver]:
    receiver, counting = Receiver(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            named = {name.lower(): value for name, value in self.headers.items()}
            receiver.got.append(Received(self.path, named, body))
            with counting:
                receiver.at_once += 1
                receiver.most_at_once = max(receiver.most_at_once, receiver.at_once)
            time.sleep(receiver.takes)
            with counting:
                receiver.at_once -= 1
            status = receiver.statuses.pop(0) if len(receiver.statuses) > 1 else receiver.statuses[0]
            self.send_response(status)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if receiver.drips:
                self._drip()
            self.wfile.write(receiver.answer)

        def _drip(self) -> None:
            try:
                for _ in range(200):
                    self.wfile.write(b".")
                    self.wfile.flush()
                    time.sleep(0.05)
            except OSError:
                return

        def do_GET(self) -> None:
            receiver.got.append(Received(self.path, {}, b"a GET"))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
