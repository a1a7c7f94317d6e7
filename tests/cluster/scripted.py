"""A server that answers as it was told, for what real clusters do seldom: overload, silence, torn streams."""

import gzip
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """`lines` are sent as a stream of chunks; with `torn` the last chunk is cut and the connection closed."""

    code: int = 200
    body: object = field(default_factory=dict)
    lines: tuple[object, ...] = ()
    torn: bool = False
    silent: bool = False
    text: str = ""
    compressed: bool = False


class Scripted(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[Answer] = []
        self.clients: set[tuple[str, int]] = set()
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []
        self.ended = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients may leave in mid-answer."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Scripted

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        self.server.asked.append(
            (self.command, self.path, {key.lower(): value for key, value in self.headers.items()}, body)
        )
        self.server.clients.add(self.client_address)
        now = self.server.answers.pop(0)
        if now.silent:
            self.server.ended.wait(20)
            return
        self.send_response(now.code)
        if now.lines:
            self.stream(now)
            return
        content = now.text.encode() or json.dumps(now.body).encode()
        if now.compressed:
            content = gzip.compress(content)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def stream(self, now: Answer) -> None:
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in now.lines:
            content = json.dumps(line).encode() + b"\n"
            half = len(content) // 2  # an event may come in pieces
            for piece in (content[:half], content[half:]):
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                self.wfile.flush()
        if now.torn:
            self.wfile.write(b'40\r\n{"type":"ADD')
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_PATCH = do_DELETE = answer


@contextmanager
def scripted_server(context: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    server = Scripted()
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
