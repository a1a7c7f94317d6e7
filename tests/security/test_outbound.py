"""Addresses that admins enter: none leads to the machine itself, where clouds hand out credentials."""

import httpx
import pytest
import yaml
from django.core.exceptions import ValidationError

from cluster.credentials import Credentials, from_kubeconfig
from cluster.kube import KubeGateway
from cluster.protocol import NODE, Unreachable
from core import addresses
from core.errors import Invalid
from inventory.models.cluster import validate_exporters, validate_http_url
from teams.identity.discovery import ProviderUnavailable, read_json, require_address
from tests.cluster.scripted import scripted_server
from tests.notify.webhooks.receiver import running
from usage.sources import TelemetrySource, TelemetryUnavailable, ask
from usage.tracking.mlflow import Mlflow, TrackingUnavailable
from usage.tracking.servers import refuse_machine

# One address in the ways in which it can be written, and those of other clouds.
MACHINE = [
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::a9fe:a9fe]",
    "[fe80::1]",
    "[fd00:ec2::254]",
    "100.100.100.200",
    "168.63.129.16",
    "0.0.0.0",
    "0",
    "[::]",
]


def kubeconfig(server, **cluster):
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


@pytest.mark.security("outbound", "the address of metadata in 15 spellings, as cluster, proxy and source")
@pytest.mark.parametrize("host", MACHINE)
def test_no_spelling_of_an_address_of_the_machine_is_taken(host):
    with pytest.raises(Invalid, match="machine itself"):
        from_kubeconfig(kubeconfig(f"https://{host}:6443"))
    with pytest.raises(Invalid, match="machine itself"):
        from_kubeconfig(kubeconfig("https://fra.example", **{"proxy-url": f"http://{host}:3128"}))
    for validate in (validate_http_url, validate_exporters):
        with pytest.raises(ValidationError):
            validate(f"http://{host}/latest/meta-data")
    with pytest.raises(Invalid):
        refuse_machine(f"http://{host}/latest/meta-data")
    with pytest.raises(Invalid):
        require_address(f"https://{host}/realms/main", field="issuer")


@pytest.mark.parametrize(
    "host", ["10.0.0.7", "127.0.0.1", "[::1]", "[fd00::7]", "prometheus", "prometheus.monitoring", "8.8.8.8"]
)
def test_addresses_inside_the_network_and_names_are_taken(host):
    assert from_kubeconfig(kubeconfig(f"https://{host}:6443")).server
    validate_http_url(f"http://{host}:9090")
    refuse_machine(f"http://{host}:5000")


@pytest.fixture
def _machine(monkeypatch):
    """The servers of the tests stand for one that hands out credentials, and have a name."""
    monkeypatch.setattr(addresses, "METADATA", ("127.0.0.1",))


@pytest.mark.security("outbound", "a name that leads to the address of metadata, once it is connected")
@pytest.mark.usefixtures("_machine")
def test_a_name_that_leads_to_the_machine_is_sent_nothing():
    with scripted_server() as server:
        port = server.address.rpartition(":")[2]
        gateway = KubeGateway(Credentials(server=f"http://localhost:{port}", token="t"))
        with pytest.raises(Unreachable, match="machine itself"):
            gateway.get(NODE, "node")
        gateway.close()
    with running() as server:
        source = TelemetrySource(f"http://localhost:{server.port}")
        with pytest.raises(TelemetryUnavailable, match="machine itself"):
            ask(source, lambda client: client.get(source.url).text)
        with pytest.raises(TrackingUnavailable, match="machine itself"):
            Mlflow(source, budget=10).experiments()
        with pytest.raises(ProviderUnavailable, match="machine itself"):
            read_json(f"http://localhost:{server.port}/keys", "the keys")
        assert server.got == []


def test_the_same_servers_are_read_otherwise():
    with running() as server:
        source = TelemetrySource(f"http://localhost:{server.port}")
        assert ask(source, lambda client: client.post(source.url).text) == "thanks"
        assert len(server.got) == 1


def test_what_httpx_tells_of_a_connection_is_what_is_read():
    """The check listens to an event of httpcore, which another version could name otherwise."""
    told = []
    with running() as server, httpx.Client() as client:
        client.post(server.url, extensions={"trace": lambda event, _info: told.append(event)})
    assert "connection.connect_tcp.complete" in told
