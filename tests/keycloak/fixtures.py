"""Keycloak as a pytest fixture: one for a whole run, started when the first test asks for it."""

import os
from collections.abc import Iterator

import pytest
import pytest_socket

from tests.keycloak.realm import realm
from tests.keycloak.server import RealKeycloak, Realm, install, why_unusable


@pytest.fixture(scope="session")
def keycloak(tmp_path_factory) -> Iterator[RealKeycloak]:
    """A running Keycloak. Without Java or its distribution: skipped, but failed where CI is true."""
    pytest_socket.enable_socket()  # session fixtures come before the one that opens sockets for each test
    if reason := why_unusable() or install():
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    server = RealKeycloak(tmp_path_factory.mktemp("keycloak"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def company(keycloak: RealKeycloak) -> Realm:
    people = {
        name: ["gpu-vision"]
        for name in ("mira", "jonas", "leaver", "blocked", "traveller", "replayer", "offline")
    }
    return keycloak.add_realm(realm("company", people | {"boss": ["gpu-vision", "gpu-leads"], "sales": []}))


@pytest.fixture(scope="session")
def partners(keycloak: RealKeycloak) -> Realm:
    return keycloak.add_realm(realm("partners", {"paula": ["externals"]}))
