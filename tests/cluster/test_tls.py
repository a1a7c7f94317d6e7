"""Whom the gateway trusts, and how it shows a client certificate."""

import datetime
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from cluster.credentials import Credentials
from cluster.kube import KubeGateway
from cluster.protocol import NODE, Unreachable
from core.errors import Invalid
from tests.cluster.scripted import Answer, Scripted, scripted_server

NODE_OBJECT = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "node"}}


@dataclass(frozen=True)
class Pair:
    certificate: str
    key: str


def self_signed(name: str) -> Pair:
    """A certificate that is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Pair(certificate.public_bytes(encoding).decode(), private.decode())


SERVER, CLIENT = self_signed("api.cluster.example"), self_signed("portal")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Scripted]:
    """Speaks TLS under a name that is not its address, to those alone who show the client certificate."""
    (tmp_path / "pair.pem").write_text(SERVER.certificate + SERVER.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pair.pem")
    context.load_verify_locations(cadata=CLIENT.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    with scripted_server(context) as running:
        running.answers = [Answer(body=NODE_OBJECT)]
        yield running


@pytest.fixture
def good(server: Scripted) -> Credentials:
    return Credentials(
        server=server.address.replace("http:", "https:"),
        authority=SERVER.certificate,
        server_name="api.cluster.example",
        certificate=CLIENT.certificate,
        key=CLIENT.key,
    )


def ask(credentials: Credentials) -> object:
    gateway = KubeGateway(credentials)
    try:
        return gateway.get(NODE, "node")
    finally:
        gateway.close()


def test_a_trusted_server_under_its_name_takes_the_client_certificate(good):
    assert ask(good) == NODE_OBJECT


def test_a_server_of_another_authority_is_not_trusted(good):
    with pytest.raises(Unreachable, match="certificate is not trusted"):
        ask(replace(good, authority=CLIENT.certificate))


def test_a_server_under_another_name_is_not_trusted(good):
    with pytest.raises(Unreachable, match="certificate is not trusted"):
        ask(replace(good, server_name="somebody.else"))


def test_insecure_trusts_any_server(good):
    assert ask(replace(good, authority="", server_name="", insecure=True)) == NODE_OBJECT


def test_without_the_client_certificate_the_server_hangs_up(good):
    with pytest.raises(Unreachable):
        ask(replace(good, certificate="", key=""))


@pytest.mark.parametrize(
    "damage",
    [{"key": SERVER.key}, {"key": "nothing"}, {"authority": "nothing"}],
    ids=["other key", "no key", "no CA"],
)
def test_certificates_that_cannot_be_used_are_a_sentence(good, damage):
    with pytest.raises(Invalid, match="certificates of the kubeconfig cannot be used") as problem:
        KubeGateway(replace(good, **damage))
    assert problem.value.__context__ is None


def test_no_key_stays_on_the_disk(good, tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    ask(good)
    assert list(folder.iterdir()) == []


def test_credentials_with_a_certificate_expire_with_it():
    expires_at = Credentials(server="https://fra", certificate=CLIENT.certificate, key=CLIENT.key).expires_at
    left = expires_at - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(0) < left <= datetime.timedelta(hours=1)
