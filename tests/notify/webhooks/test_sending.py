"""Where a webhook may be sent, and what is sent there."""

import base64
import hashlib
import hmac
import json
import re
import socket
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

import pytest

from core.addresses import reason_to_refuse
from core.errors import Invalid
from notify.webhooks import sending, signing
from notify.webhooks.sending import post, require_url
from tests.notify.webhooks.receiver import running

PUBLIC = "93.184.216.34"
ROOT = Path(__file__).parents[3]


@pytest.mark.security("outbound", "webhooks to addresses with other schemes, passwords and lines")
@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.org/",
        "ftp://hooks.example.org/",
        "https://",
        "https:///path",
        "https://user:secret@hooks.example.org/",
        "https://hooks.example.org/#part",
        "https://hooks.example.org/two words",
        "https://hooks.example.org/\r\nHost: x",
        "https://hooks.example.org:0/",
        "https://2852039166/",
        "https://0251.0376.0251.0376./",
        "https://0xa9fea9fe/",
        "https://0251.0376.0251.0376/",
        "https://169.254.43518/",
        "https://[::ffff:a9fe:a9fe]/",
        "https://hooks.example.org:99999/",
        "https://[::1",
        "https://gpüs.example.org/",
        "https://hooks.example.org/" + "x" * 500,
        "javascript:alert(1)",
        "",
    ],
)
@pytest.mark.parametrize("is_internal", [False, True])
def test_other_addresses_are_refused(url, is_internal):
    if url == "http://hooks.example.org/" and is_internal:
        assert require_url(url, is_internal=True).hostname == "hooks.example.org"
        return
    with pytest.raises(Invalid):
        require_url(url, is_internal=is_internal)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LocalHost.", "metrics.localhost"])
def test_the_own_machine_is_refused_under_every_name(host):
    with pytest.raises(Invalid, match="inside a network"):
        require_url(f"https://{host}/", is_internal=False)


PRIVATE = [
    *("127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "::1", "fc00::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "198.18.0.1", "192.0.2.1"),
    *("fec0::1", "::10.0.0.1", "::127.0.0.1"),
]
NEVER = [
    *("169.254.169.254", "169.254.0.1", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "ff02::1"),
    *("fd00:ec2::254", "100.100.100.200", "168.63.129.16", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"),
    "::169.254.169.254",
]  # fmt: skip


@pytest.mark.security("outbound", "webhooks to private and loopback addresses, also in IPv6")
@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_is_refused_unless_an_admin_allows_it(address):
    assert reason_to_refuse(ip_address(address), is_internal=False)
    assert not reason_to_refuse(ip_address(address), is_internal=True)


@pytest.mark.security("outbound", "webhooks to addresses of metadata")
@pytest.mark.parametrize("address", NEVER)
def test_addresses_of_the_machine_and_of_metadata_are_refused_to_everybody(address):
    assert reason_to_refuse(ip_address(address), is_internal=False)
    assert reason_to_refuse(ip_address(address), is_internal=True)


@pytest.mark.parametrize("address", [PUBLIC, "2606:4700::1111", "8.8.8.8"])
def test_public_addresses_are_allowed(address):
    assert not reason_to_refuse(ip_address(address), is_internal=False)


def resolves_to(monkeypatch, *addresses):
    asked = []

    def resolved(host, port, *_flags, **_more):
        if not host[0].isdigit():
            asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(sending.socket, "getaddrinfo", resolved)
    return asked


@pytest.mark.security("outbound", "a webhook to a name that leads inside")
@pytest.mark.parametrize("addresses", [["127.0.0.1"], [PUBLIC, "10.0.0.1"], ["169.254.169.254"]])
def test_a_name_that_leads_inside_is_refused_before_anything_is_connected(monkeypatch, addresses):
    resolves_to(monkeypatch, *addresses)
    monkeypatch.setattr(sending.socket, "create_connection", lambda *_args, **_more: pytest.fail("connected"))
    answer = post("https://hooks.example.org/", b"{}", {}, is_internal=False)
    assert answer.status is None
    assert "is an address" in answer.error


@pytest.mark.security("outbound", "a name of a webhook that leads elsewhere the second time")
def test_a_name_is_resolved_once_and_that_address_is_connected(monkeypatch):
    """A name server that answers otherwise the second time (DNS rebinding) gains nothing."""
    with running() as receiver:
        asked = resolves_to(monkeypatch, "127.0.0.1")
        answer = post(f"http://hooks.example.org:{receiver.port}/hook", b"{}", {}, is_internal=True)
        assert (answer.status, answer.answer, asked) == (200, "thanks", ["hooks.example.org"])
        assert receiver.got[0].headers["host"] == f"hooks.example.org:{receiver.port}"


@pytest.mark.security("outbound", "a receiver that redirects")
def test_redirects_are_not_followed():
    with running() as receiver, running() as elsewhere:
        receiver.statuses, receiver.headers = [302], {"Location": elsewhere.url}
        answer = post(receiver.url, b"{}", {}, is_internal=True)
        assert (answer.status, answer.is_success, elsewhere.got) == (302, False, [])


def test_proxies_of_the_environment_are_not_used(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with running() as receiver:
        assert post(receiver.url, b"{}", {}, is_internal=True).status == 200


def test_only_the_first_bytes_of_an_answer_are_kept():
    with running() as receiver:
        receiver.answer = b"x" * 5000 + b"\xff\x00"
        assert post(receiver.url, b"{}", {}, is_internal=True).answer == "x" * sending.KEPT


@pytest.mark.security("bombs", "a receiver that answers without end")
def test_who_answers_endlessly_is_hung_up_on(monkeypatch):
    monkeypatch.setattr(sending, "TIMEOUT", 0.5)
    with running() as receiver:
        receiver.drips, receiver.answer = True, b""
        answer = post(receiver.url, b"{}", {}, is_internal=True)
        assert (answer.status is None, answer.ms < 5000) == (True, True)
        assert "did not answer within" in answer.error


def test_a_refused_connection_is_an_error_in_words():
    with running() as receiver:
        url = receiver.url
    answer = post(url, b"{}", {}, is_internal=True)
    assert answer.status is None
    assert "refused" in answer.error.lower()


def test_tls_is_checked():
    with running() as receiver:
        answer = post(receiver.url.replace("http://", "https://"), b"{}", {}, is_internal=True)
        assert (answer.status, receiver.got) == (None, [])


def test_who_never_ends_the_handshake_is_hung_up_on(monkeypatch):
    monkeypatch.setattr(sending, "TIMEOUT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/"
        answer = post(url, b"{}", {}, is_internal=True)
    assert (answer.status, answer.ms < 5000) == (None, True)
    assert "did not answer within" in answer.error


def test_the_signature_is_that_of_standard_webhooks():
    """The example of the specification."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    signed = signing.signature(
        secret, message="msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp=1614265330, body=body
    )
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_secrets_are_random_and_as_long_as_the_digest():
    one, other = signing.new_secret(), signing.new_secret()
    assert one != other
    assert len(base64.b64decode(one.removeprefix("whsec_"))) == 32


def verification_in(page: str) -> str:
    """Return the function of the help."""
    found = re.search(r"```python\n(import base64.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert found
    return found[1]


def test_the_snippet_of_the_help_accepts_what_is_signed_and_nothing_else():
    scope: dict = {}
    exec(verification_in("docs/user/webhooks.md"), scope)
    verify, secret, old = scope["verify"], signing.new_secret(), signing.new_secret()
    body = json.dumps({"type": "claim.approved"}).encode()
    now = datetime.now(UTC)
    headers = signing.headers("msg_1", body, at=now, secrets_now=[secret, old])
    assert verify(secret, headers, body) == verify(old, headers, body) == {"type": "claim.approved"}
    late = signing.headers("msg_1", body, at=datetime(2026, 1, 1, tzinfo=UTC), secrets_now=[secret])
    other_id = {**headers, "webhook-id": "msg_2"}
    for wrong_secret, wrong_headers, wrong_body in (
        (signing.new_secret(), headers, body),
        (secret, late, body),
        (secret, other_id, body),
        (secret, headers, body + b" "),
    ):
        with pytest.raises(ValueError, match=r"signature|old"):
            verify(wrong_secret, wrong_headers, wrong_body)


def test_the_digest_is_over_id_timestamp_and_body():
    secret = signing.new_secret()
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, b"msg_1.5.{}", hashlib.sha256).digest()).decode()
    assert signing.signature(secret, message="msg_1", timestamp=5, body=b"{}") == f"v1,{expected}"
