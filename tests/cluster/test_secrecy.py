"""Credentials are read, kept and used, and appear nowhere."""

import base64
import logging
import pickle
import socket
import traceback
from types import TracebackType

import pytest
import yaml
from cryptography.fernet import Fernet

from cluster.credentials import Credentials, from_kubeconfig, reseal, seal, unseal
from cluster.kube import KubeGateway, connect, forget
from cluster.protocol import NODE, ClusterError, Unreachable
from core.errors import Invalid
from tests.cluster.scripted import Answer, scripted_server

TOKEN = "eyJhbGciOi-the-very-secret-token"
PEM = "-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----"
SECRET = Credentials(
    server="https://cluster.example:6443", token=TOKEN, key="the-private-key", certificate=PEM
)


def test_repr_and_str_tell_the_address_and_no_secret():
    for text in (repr(SECRET), str(SECRET), f"{SECRET}"):
        assert "cluster.example" in text
        assert TOKEN not in text
        assert "private" not in text


def test_credentials_are_not_pickled():
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(SECRET)


@pytest.mark.security("secrets", "reads credentials from the database")
def test_what_is_sealed_is_unreadable_and_comes_back_whole():
    sealed = seal(SECRET)
    assert TOKEN.encode() not in sealed
    assert unseal(sealed) == SECRET
    assert unseal(memoryview(sealed)) == SECRET  # what psycopg returns for a binary column


def test_sealing_twice_gives_different_bytes():
    assert seal(SECRET) != seal(SECRET)


def test_an_older_key_still_opens_and_the_newest_seals(settings):
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    settings.CREDENTIAL_KEYS = [old]
    sealed = seal(SECRET)
    settings.CREDENTIAL_KEYS = [new, old]
    assert unseal(sealed) == SECRET
    moved = reseal(sealed)
    settings.CREDENTIAL_KEYS = [new]
    assert unseal(moved) == SECRET


def test_a_lost_key_is_a_sentence(settings):
    sealed = seal(SECRET)
    settings.CREDENTIAL_KEYS = [Fernet.generate_key().decode()]
    with pytest.raises(Invalid, match="CREDENTIAL_KEYS lacks the key"):
        unseal(sealed)


def test_without_keys_one_is_derived_from_the_secret_key(settings):
    settings.CREDENTIAL_KEYS = []
    sealed = seal(SECRET)
    assert unseal(sealed) == SECRET
    settings.SECRET_KEY = "another"
    with pytest.raises(Invalid):
        unseal(sealed)


@pytest.mark.security("secrets", "credentials under the key of the repository")
@pytest.mark.parametrize("encrypt", [lambda: seal(SECRET), lambda: reseal(b"")])
def test_nothing_is_encrypted_with_the_key_of_the_source(settings, encrypt):
    settings.CREDENTIAL_KEYS, settings.SECRET_KEY = [], settings.DEVELOPMENT_KEY
    with pytest.raises(Invalid, match="Set SECRET_KEY or CREDENTIAL_KEYS"):
        encrypt()


def test_the_key_of_the_source_serves_for_development_or_beside_a_secret_one(settings):
    settings.SECRET_KEY = settings.DEVELOPMENT_KEY
    assert unseal(seal(SECRET)) == SECRET
    settings.CREDENTIAL_KEYS, settings.DEBUG = [], True
    assert unseal(seal(SECRET)) == SECRET


def everything_in(error: BaseException) -> str:
    """Return what a careless logger could write: the chain, and the variables of each of our frames."""
    parts = ["".join(traceback.format_exception(error)), repr(error), repr(error.__dict__)]
    seen: list[BaseException | None] = [error, error.__cause__, error.__context__]
    for link in filter(None, seen):
        trace: TracebackType | None = link.__traceback__
        while trace is not None:
            if (
                "/cluster/" in trace.tb_frame.f_code.co_filename
                and "/tests/" not in trace.tb_frame.f_code.co_filename
            ):
                parts.append(repr(trace.tb_frame.f_locals))
            trace = trace.tb_next
    return "\n".join(parts)


@pytest.mark.security("secrets", "the token of a cluster in an error or a log")
@pytest.mark.parametrize("code", [401, 403, 404, 409, 422, 429, 500])
def test_no_error_of_the_gateway_knows_the_token(code, caplog):
    caplog.set_level(logging.DEBUG)
    with scripted_server() as server:
        server.answers = [Answer(code, {"message": "no", "code": code})]
        gateway = KubeGateway(Credentials(server=server.address, token=TOKEN))
        with pytest.raises(ClusterError) as problem:
            list(gateway.list(NODE))
        gateway.close()
    assert TOKEN not in everything_in(problem.value)
    assert problem.value.__context__ is None
    assert problem.value.__cause__ is None
    assert TOKEN not in caplog.text


def test_no_error_of_the_way_knows_the_token(caplog):
    caplog.set_level(logging.DEBUG)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    gateway = KubeGateway(Credentials(server=f"http://127.0.0.1:{port}", token=TOKEN))
    with pytest.raises(Unreachable) as problem:
        gateway.get(NODE, "node")
    assert TOKEN not in everything_in(problem.value)
    assert problem.value.__context__ is None
    assert TOKEN not in caplog.text
    assert TOKEN not in repr(gateway)


@pytest.mark.security("secrets", "a damaged kubeconfig quoted in its error")
@pytest.mark.parametrize("text", [f"token: [{TOKEN}", f"{TOKEN}", f"kind: Config\nusers: {TOKEN}"])
def test_no_error_of_a_damaged_kubeconfig_quotes_it(text):
    with pytest.raises(Invalid) as problem:
        from_kubeconfig(text)
    assert TOKEN not in problem.value.message
    assert TOKEN not in "".join(traceback.format_exception(problem.value))
    assert problem.value.__context__ is None


@pytest.mark.parametrize("data", [f"%{TOKEN}", base64.b64encode(f"{TOKEN}\xff".encode("latin-1")).decode()])
def test_no_error_of_a_damaged_certificate_holds_its_text(data):
    """Neither of what is no base64 nor of what is base64 of something else than a PEM text."""
    user = {"client-certificate-data": data, "client-key-data": data}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "fra", "cluster": {"server": "https://cluster.example:6443"}}],
        "users": [{"name": "portal", "user": user}],
        "contexts": [{"name": "fra-1", "context": {"cluster": "fra", "user": "portal"}}],
        "current-context": "fra-1",
    }
    with pytest.raises(
        Invalid, match="client-certificate-data of the kubeconfig is not a PEM text"
    ) as problem:
        from_kubeconfig(yaml.safe_dump(document))
    assert TOKEN not in "".join(traceback.format_exception(problem.value))
    assert problem.value.__context__ is None
    assert problem.value.__cause__ is None


def test_one_connection_serves_a_process():
    sealed = seal(Credentials(server="http://127.0.0.1:1", token=TOKEN))
    assert connect(sealed) is connect(memoryview(sealed))
    assert connect(seal(Credentials(server="http://127.0.0.1:1"))) is not connect(sealed)
    first = connect(sealed)
    forget()  # as in a forked child
    assert connect(sealed) is not first
