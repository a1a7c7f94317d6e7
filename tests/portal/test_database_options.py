"""How the portal connects to PostgreSQL, where a server or the network goes silent."""

import socket
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import connection

LIMITS = ("connect_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout")


@pytest.fixture
def silent_server() -> Iterator[int]:
    """A port where the kernel takes connections and nobody ever answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_connecting_to_a_server_that_never_answers_ends(silent_server):
    options: dict[str, Any] = settings.DATABASES["default"]["OPTIONS"]
    limit = {"connect_timeout": min(options["connect_timeout"], 5)}  # of psycopg's own there is none
    with pytest.raises(psycopg.errors.ConnectionTimeout):
        psycopg.connect(host="127.0.0.1", port=silent_server, user="u", dbname="d", **limit)


@pytest.mark.django_db
def test_open_connections_notice_a_silent_network_within_seconds():
    connection.ensure_connection()
    used = connection.connection.info.get_parameters()
    limits = {name: int(used.get(name, 0)) for name in LIMITS}
    assert all(limits.values()), limits
    assert limits["connect_timeout"] < 5  # seconds that a request waits for a connection of the pool
    silent = limits["keepalives_idle"] + limits["keepalives_interval"] * limits["keepalives_count"]
    assert silent <= 20
    assert limits["tcp_user_timeout"] <= 20_000  # milliseconds
