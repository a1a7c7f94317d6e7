"""How the portal identifies itself to a telemetry source: what is stored, what is sent, and to whom."""

import base64
import json
import logging
import pickle
import traceback
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import pytest
from cryptography.fernet import Fernet
from django.core.exceptions import ValidationError

from core.errors import Forbidden, Invalid
from inventory.clusters import change_cluster
from inventory.models import Cluster, TelemetryAccess
from inventory.telemetry_access import (
    NO_SECRET,
    TelemetrySecret,
    change_telemetry,
    open_secret,
    reseal_secrets,
    server_of,
)
from teams.models import AuditEntry
from usage.collect import collect
from usage.models import Collection
from usage.sources import TelemetrySource, TelemetryUnavailable, read_exporters, read_prometheus, read_source

TOKEN = "the-very-secret-token"
AT = "https://prometheus.example:9090"
ANSWER = json.dumps({"data": {"result": []}})


@pytest.fixture
def headers():
    """Return a function that serves one answer, and the headers of what was asked."""
    servers = []

    def start(status=200, body=ANSWER, **extra):
        asked = []

        class Handler(BaseHTTPRequestHandler):
            def reply(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                asked.append(dict(self.headers))
                self.send_response(status)
                for name, value in extra.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body.encode())

            do_GET = do_POST = reply

            def log_message(self, *args):
                """Keep quiet."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}", asked

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def at_source(fra):
    """A cluster whose Prometheus has an address."""
    Cluster.objects.filter(pk=fra.pk).update(prometheus_url=AT)
    fra.refresh_from_db()
    return fra


def access_of(cluster):
    return TelemetryAccess.objects.get(cluster=cluster)


def changes():
    return list(AuditEntry.objects.filter(in_activity=True).order_by("at").values_list("text", flat=True))


@pytest.mark.parametrize(
    ("secret", "header"),
    [
        (TelemetrySecret(token=TOKEN), f"Bearer {TOKEN}"),
        (
            TelemetrySecret(user="reader", password="pä55"),
            "Basic " + base64.b64encode("reader:pä55".encode()).decode(),
        ),
        (NO_SECRET, None),
    ],
    ids=["token", "password", "none"],
)
@pytest.mark.parametrize("read", [read_prometheus, read_exporters])
def test_secret_and_tenant_go_with_each_request(headers, secret, header, read):
    url, asked = headers()
    read(TelemetrySource(url, secret=secret, tenant="gpu|lab"))
    assert {one.get("Authorization") for one in asked} == {header}
    assert {one.get("X-Scope-OrgID") for one in asked} == {"gpu|lab"}


def test_no_tenant_is_sent_unless_one_is_set(headers):
    url, asked = headers()
    read_prometheus(TelemetrySource(url))
    assert all("X-Scope-OrgID" not in one for one in asked)


@pytest.mark.security("outbound", "a Prometheus or exporter that redirects")
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirect_is_not_followed_so_that_no_secret_goes_elsewhere(headers, status):
    elsewhere, asked = headers()
    url, _ = headers(status, Location=f"{elsewhere}/login?next={TOKEN}")
    with pytest.raises(TelemetryUnavailable, match=r"redirects to 127\.0\.0\.1\.") as problem:
        read_prometheus(TelemetrySource(url, secret=TelemetrySecret(token=TOKEN)))
    assert asked == []
    assert TOKEN not in problem.value.message


@pytest.mark.parametrize("status", [401, 403])
def test_denied_access_says_what_to_check(headers, status):
    url, _ = headers(status, body=f"{TOKEN} is wrong")
    with pytest.raises(TelemetryUnavailable, match=rf"denies access \(status {status}\)") as problem:
        read_prometheus(TelemetrySource(url, secret=TelemetrySecret(token=TOKEN)))
    assert TOKEN not in problem.value.message


def test_error_holds_no_request_with_its_headers(headers):
    for url in (headers(500)[0], "http://127.0.0.1:1"):
        with pytest.raises(TelemetryUnavailable) as problem:
            read_prometheus(TelemetrySource(url, secret=TelemetrySecret(token=TOKEN)))
        assert problem.value.__context__ is None
        assert TOKEN not in "".join(traceback.format_exception(problem.value))


def test_silent_source_is_given_up_after_its_time_limit(serve):
    silence = Event()

    def wait(path, body):
        silence.wait(30)
        return 200, ANSWER

    url = serve(wait)
    with pytest.raises(TelemetryUnavailable, match=r"did not respond within 0\.2 seconds"):
        read_prometheus(TelemetrySource(url, timeout_seconds=0.2))
    silence.set()


def test_source_that_answers_slowly_and_without_an_end_is_given_up_after_its_time_limit():
    given_up = Event()

    class Drip(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):  # the reader has hung up
                for _ in range(500):
                    self.wfile.write(b" ")
                    if given_up.wait(0.02):
                        break

        def log_message(self, *args):
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Drip) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with pytest.raises(TelemetryUnavailable, match=r"did not respond within 0\.2 seconds"):
            read_prometheus(TelemetrySource(f"http://127.0.0.1:{server.server_port}", timeout_seconds=0.2))
        given_up.set()
        server.shutdown()


@pytest.mark.security("secrets", "a secret in a log, a message or a cache")
def test_secret_is_in_no_repr_and_is_not_pickled():
    secret = TelemetrySecret(token=TOKEN, password=TOKEN, key=TOKEN, certificate=TOKEN)
    assert TOKEN not in repr(secret) + repr(TelemetrySource("http://a", secret=secret))
    with pytest.raises(TypeError):
        pickle.dumps(secret)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"token": "a", "user": "b", "password": "c"}, "one of them"),
        ({"password": "c"}, "Give the user"),
        ({"user": "a:b", "password": "c"}, "RFC 7617"),
        ({"token": "a\nX-Evil: 1"}, "no header can carry"),
        ({"token": "Bearer a"}, "without “Bearer”"),
        ({"certificate": "-----BEGIN"}, "with its key"),
        ({"certificate": "a", "key": "b"}, "damaged"),
    ],
)
def test_incomplete_secret_is_refused_with_a_sentence(fields, words):
    with pytest.raises(Invalid, match=words):
        TelemetrySecret(**fields).require_sound()


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("https://prom", "https://prom:443"),
        ("http://PROM:9090/base", "http://prom:9090"),
        ("http://[fd00::1]:9", "http://[fd00::1]:9"),
        ("", ""),
    ],
)
def test_server_is_scheme_host_and_port(url, server):
    assert server_of(url) == server


@pytest.mark.django_db(transaction=True)
class TestStored:
    def test_secret_is_stored_encrypted_for_its_server_and_recorded_without_it(self, at_source, root, caplog):
        caplog.set_level(logging.DEBUG)
        secret = TelemetrySecret(token=TOKEN)
        fields: dict[str, str | int] = {"tenant": "gpu", "timeout_seconds": 5}
        change_telemetry(name="fra-1", by=root, secret=secret, fields=fields)
        access = access_of(at_source)
        assert (access.kind, access.server, access.tenant) == ("token", AT, "gpu")
        assert TOKEN.encode() not in bytes(access.sealed)
        assert open_secret(at_source, access) == secret
        assert changes() == [
            "tenant – → gpu, timeout_seconds 10 → 5, access to telemetry given: bearer token"
        ]
        assert TOKEN not in caplog.text

    def test_same_values_again_change_nothing(self, at_source, root):
        for _attempt in range(2):
            change_telemetry(name="fra-1", by=root, fields={"tenant": "gpu"})
        assert changes() == ["tenant – → gpu"]

    def test_only_platform_admins_change_it(self, at_source, alice):
        with pytest.raises(Forbidden):
            change_telemetry(name="fra-1", by=alice, secret=TelemetrySecret(token=TOKEN))
        assert not TelemetryAccess.objects.exists()

    def test_secret_needs_an_address(self, fra):
        with pytest.raises(Invalid, match="Give the address"):
            change_telemetry(name="fra-1", secret=TelemetrySecret(token=TOKEN))
        assert not TelemetryAccess.objects.exists()

    def test_secret_stays_when_only_the_path_changes_and_must_be_given_again_elsewhere(self, at_source):
        change_telemetry(name="fra-1", secret=TelemetrySecret(token=TOKEN))
        change_telemetry(name="fra-1", addresses={"prometheus_url": f"{AT}/base"})
        assert access_of(at_source).kind == "token"
        with pytest.raises(Invalid, match=r"was given for https://prometheus\.example:9090"):
            change_telemetry(name="fra-1", addresses={"prometheus_url": "https://evil.example"})
        assert Cluster.objects.get().prometheus_url == f"{AT}/base"
        change_telemetry(
            name="fra-1",
            addresses={"prometheus_url": "https://new.example"},
            secret=TelemetrySecret(token="another"),
        )
        assert access_of(at_source).server == "https://new.example:443"

    def test_address_that_changes_otherwise_gets_no_secret(self, at_source, headers):
        """Configuration as code changes addresses and has no secrets."""
        url, asked = headers()
        change_telemetry(name="fra-1", secret=TelemetrySecret(token=TOKEN))
        change_cluster(name="fra-1", prometheus_url=url)
        with pytest.raises(TelemetryUnavailable, match="Give it again"):
            read_source(Cluster.objects.get())
        collect(at_source.pk)
        assert "is not sent to" in Collection.objects.get().error
        assert asked == []

    def test_secret_is_removed(self, at_source):
        change_telemetry(name="fra-1", secret=TelemetrySecret(token=TOKEN))
        change_telemetry(name="fra-1", secret=NO_SECRET)
        access = access_of(at_source)
        assert (access.kind, access.server, bytes(access.sealed)) == ("", "", b"")
        assert changes()[-1] == "access to telemetry removed"

    def test_stored_access_is_used_by_a_collection(self, at_source, headers):
        url, asked = headers()
        secret = TelemetrySecret(token=TOKEN)
        fields = {"tenant": "gpu"}
        change_telemetry(name="fra-1", addresses={"prometheus_url": url}, secret=secret, fields=fields)
        collect(at_source.pk)
        assert Collection.objects.get().error == ""
        assert {one["Authorization"] for one in asked} == {f"Bearer {TOKEN}"}
        assert {one["X-Scope-OrgID"] for one in asked} == {"gpu"}

    def test_new_key_encrypts_it_and_a_lost_key_is_a_sentence(self, at_source, settings):
        old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
        settings.CREDENTIAL_KEYS = [old]
        change_telemetry(name="fra-1", secret=TelemetrySecret(token=TOKEN))
        settings.CREDENTIAL_KEYS = [new, old]
        assert (reseal_secrets(), TelemetryAccess.objects.count()) == (1, 1)
        settings.CREDENTIAL_KEYS = [new]
        assert open_secret(at_source, access_of(at_source)).token == TOKEN
        settings.CREDENTIAL_KEYS = [old]
        with pytest.raises(TelemetryUnavailable, match="CREDENTIAL_KEYS lacks the key"):
            read_source(at_source)

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("tenant", "a b"),
            ("tenant", "a\nb"),
            ("timeout_seconds", 0),
            ("timeout_seconds", 61),
            ("authority", "-----BEGIN CERTIFICATE-----"),
        ],
    )
    def test_malformed_field_is_refused(self, at_source, field, value):
        with pytest.raises(ValidationError) as refusal:
            change_telemetry(name="fra-1", fields={field: value})
        assert list(refusal.value.message_dict) == [field]
        assert not TelemetryAccess.objects.exists()


def test_nothing_is_resealed_without_a_secret(at_source):
    TelemetryAccess.objects.create(cluster=at_source, tenant="gpu")
    assert reseal_secrets() == 0
