"""Certificates and proxies: what is wrong is named at once, with what helps."""

import ssl
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import dragoman
import pytest

from simulator import certificates
from tests.demo.running import free_port


class Me(BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{"username": "mira"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Quiet(HTTPServer):
    def handle_error(self, request, client_address):
        """A client that does not trust it is no fault."""


@pytest.fixture
def secure(tmp_path):
    """A portal whose certificate no usual authority has signed; its address and the file of its authority."""
    certificates.ensure(tmp_path)
    server = Quiet(("127.0.0.1", 0), Me)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / certificates.SERVER)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"https://127.0.0.1:{server.server_port}", str(tmp_path / certificates.AUTHORITY)
    server.shutdown()
    server.server_close()


@contextmanager
def client(url, **options):
    with dragoman.Client(url, "drg_x", **options) as made:
        yield made


def test_a_certificate_that_is_not_trusted_is_named_at_once(secure, no_pauses):
    url, _file = secure
    with client(url) as mira, pytest.raises(dragoman.ConfigurationError, match="DRAGOMAN_CA_FILE=") as error:
        mira.me()
    assert f"The certificate of {url} is not trusted: " in str(error.value)
    assert no_pauses == []


@pytest.mark.parametrize("how", ["argument", "DRAGOMAN_CA_FILE", "SSL_CERT_FILE"])
def test_its_authority_is_named_in_three_ways(secure, monkeypatch, how):
    url, file = secure
    options = {"ca": file} if how == "argument" else {}
    if not options:
        monkeypatch.setenv(how, file)
    with client(url, **options) as mira:
        assert mira.me().username == "mira"


def test_a_file_without_certificates_is_named(tmp_path):
    with pytest.raises(dragoman.ConfigurationError, match=r"none\.pem cannot be read"):
        dragoman.Client("https://portal.test", "drg_x", ca=str(tmp_path / "none.pem"))


def test_a_proxy_that_does_not_answer_is_named_at_once_without_its_password(monkeypatch, no_pauses):
    port = free_port()
    monkeypatch.setenv("HTTP_PROXY", f"http://mira:secret@127.0.0.1:{port}")
    monkeypatch.setenv("NO_PROXY", "")
    with client("http://portal.test") as mira, pytest.raises(dragoman.Unavailable) as error:
        mira.me()
    assert f"The proxy http://127.0.0.1:{port} does not connect to http://portal.test" in str(error.value)
    assert "NO_PROXY" in str(error.value)
    assert "secret" not in str(error.value)
    assert no_pauses == []


def test_a_socks_proxy_without_its_package_is_a_sentence(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "socks5://127.0.0.1:1080")
    monkeypatch.setitem(sys.modules, "socksio", None)
    with pytest.raises(dragoman.ConfigurationError, match=r"socks5://.*:1080 needs another package"):
        dragoman.Client("https://portal.test", "drg_x")
