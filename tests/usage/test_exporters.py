"""Exporters of a cluster without Prometheus: which there are, and what one that does not respond costs."""

import socket

import httpx
import pytest
from django.core.exceptions import ValidationError

from inventory.models import Cluster, Node, ResourceSlice
from inventory.models.cluster import validate_exporters
from inventory.telemetry_access import server_of
from tests.usage.conftest import NOON, hold
from usage.collect import collect
from usage.exporters import Exporter, exporters_of
from usage.models import Collection
from usage.source_report import check_source
from usage.sources import TelemetrySource, TelemetryUnavailable, read_exporters, read_source, source_of

DEAD = "http://127.0.0.1:1/metrics"
pytestmark = pytest.mark.django_db


@pytest.fixture
def nodes(fra):
    """Two nodes that publish devices, one without an address, and one that publishes none."""
    for name, address in (
        ("h100-1", "10.0.0.1"),
        ("h100-2", "fd00::2"),
        ("h100-3", ""),
        ("cpu-1", "10.0.0.9"),
    ):
        addresses = [{"type": "Hostname", "address": name}]
        addresses += [{"type": "InternalIP", "address": address}] if address else []
        Node.objects.create(cluster=fra, uid=name, name=name, raw={"status": {"addresses": addresses}})
        if name.startswith("h100"):
            ResourceSlice.objects.create(
                cluster=fra, uid=name, name=name, pool=name, driver="gpu.nvidia.com",
                generation=1, pool_slices=1, node_name=name,
            )  # fmt: skip
    return fra


def urls(cluster: Cluster, text: str) -> list[str]:
    cluster.metrics_url = text
    return [one.url for one in exporters_of(cluster)]


def test_a_name_in_braces_stands_for_each_node_with_devices(nodes):
    assert urls(nodes, "http://{node}:9400/metrics") == [
        f"http://h100-{number}:9400/metrics" for number in (1, 2, 3)
    ]
    assert urls(nodes, "http://{address}:9400/metrics") == [
        "http://10.0.0.1:9400/metrics",
        "http://[fd00::2]:9400/metrics",
    ]


def test_nodes_are_read_once_for_any_number_of_addresses(nodes, django_assert_num_queries):
    with django_assert_num_queries(2):
        found = urls(nodes, "http://{node}:9400/metrics  http://{node}:5000/amd http://{node}:9400/metrics")
    assert len(found) == 6
    with django_assert_num_queries(0):
        assert urls(nodes, f"{DEAD} {DEAD}") == [DEAD]


def test_a_name_with_several_addresses_is_read_at_each_of_them(fra, monkeypatch):
    def found(host, port, **_more):
        assert (host, port) == ("dcgm.monitoring", 9400)
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fd00::1", 9400, 0, 0)),
            *((socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 9400)) for ip in ("10.1.0.2", "10.1.0.1")),
        ]

    monkeypatch.setattr(socket, "getaddrinfo", found)
    fra.metrics_url = "http://dcgm.monitoring:9400/metrics?token=x"
    assert exporters_of(fra) == [
        Exporter("http://10.1.0.1:9400/metrics?token=x", "dcgm.monitoring:9400"),
        Exporter("http://10.1.0.2:9400/metrics?token=x", "dcgm.monitoring:9400"),
    ]
    assert next(one.title for one in exporters_of(fra)) == "http://10.1.0.1:9400/metrics"
    assert urls(fra, "https://dcgm.monitoring:9400/metrics") == ["https://dcgm.monitoring:9400/metrics"]


@pytest.mark.parametrize(
    "text", ["", "http://{address}:9400/metrics", "http://a:1/ https://{node}.gpu.example/m"]
)
def test_addresses_with_placeholders_are_valid(text):
    validate_exporters(text)


@pytest.mark.parametrize(
    "text", ["http://{pod}:9400/", "http://{}", "ftp://{node}/", "http://a:1/ b", "http://u:p@{node}:9400/"]
)
def test_other_addresses_are_refused(text):
    with pytest.raises(ValidationError):
        validate_exporters(text)


def test_a_secret_is_given_for_all_servers_of_the_addresses():
    assert server_of("http://{node}/b http://{node}:80/a https://a:9400/metrics") == (
        "http://{node}:80 https://a:9400"
    )


class TestReading:
    @pytest.fixture
    def exporters(self, serve):
        """Return a function that serves one exporter per text, None is one that does not respond."""

        def of(*texts: str | None) -> TelemetrySource:
            def address(text: str | None) -> str:
                return DEAD if text is None else f"{serve(lambda path, body: (200, text))}/metrics?key=secret"

            return TelemetrySource("http://many", exporters=tuple(Exporter(address(text)) for text in texts))

        return of

    def test_all_are_read(self, exporters):
        texts = [f'DCGM_FI_DEV_FB_USED{{UUID="GPU-{number}"}} {number}\n' for number in range(40)]
        found, problem = read_exporters(exporters(*texts))
        assert [value for one in found for value in one.values.values()] == [*range(40)]
        assert problem == ""

    def test_one_that_does_not_respond_is_named_and_the_others_count(self, exporters):
        text = 'DCGM_FI_DEV_FB_USED{UUID="GPU-1"} 7\n'
        found = read_exporters(exporters(text, None, text))
        assert len(found.series) == 2
        assert found.problem == (
            f"1 of 3 exporters cannot be read. {DEAD}: The telemetry source cannot be reached (ConnectError)."
        )

    def test_malformed_text_of_one_costs_only_its_samples_and_shows_no_query(self, exporters):
        found = read_exporters(
            exporters('DCGM_FI_DEV_FB_USED{UUID="GPU-1"} 7\n', "DCGM_FI_DEV_FB_USED many\n")
        )
        assert len(found.series) == 1
        assert "in an unknown format" in found.problem
        assert "secret" not in found.problem

    def test_malformed_line_is_named_and_the_others_count(self, exporters):
        used = 'DCGM_FI_DEV_FB_USED{UUID="GPU-1",Hostname="h100-1"} 7\n'
        empty = used.replace("FB_USED", "XID_ERRORS").replace(" 7", " N/A")
        found = read_exporters(exporters(used + empty + empty, used, None))
        assert len(found.series) == 2
        failed, _, lines = found.problem.partition(
            " 2 lines of 1 exporter cannot be read; the others count. "
        )
        assert failed.startswith("1 of 3 exporters cannot be read.")
        assert lines.endswith(f": line “{empty.strip()}”.")
        assert "secret" not in lines

    def test_none_that_responds_is_a_failure(self, exporters):
        with pytest.raises(TelemetryUnavailable, match="None of 5 exporters can be read"):
            read_exporters(exporters(*[None] * 5))

    def test_what_is_not_reached_in_time_is_named(self, exporters, monkeypatch):
        monkeypatch.setattr("usage.sources.LONGEST", -1.0)
        with pytest.raises(TelemetryUnavailable, match="did not respond within"):
            read_exporters(exporters("", ""))

    def test_nodes_without_devices_are_a_sentence(self, fra):
        fra.metrics_url = "http://{node}:9400/metrics"
        fra.save(update_fields=["metrics_url"])
        with pytest.raises(TelemetryUnavailable, match="No node publishes devices yet"):
            read_source(fra)


def test_host_of_a_resolved_name_is_sent(serve, monkeypatch):
    address = serve(lambda path, body: (200, "DCGM_FI_DEV_FB_USED 7\n"))
    seen = []

    def sent(self, method, url, **more):
        seen.append(more.get("headers"))
        return stream(self, method, url, **more)

    stream = httpx.Client.stream
    monkeypatch.setattr(httpx.Client, "stream", sent)
    read_exporters(TelemetrySource(address, exporters=(Exporter(address, "dcgm:9400"),)))
    assert seen == [{"Host": "dcgm:9400"}]


def test_collection_stores_what_it_has_and_says_what_is_missing(nodes, claim, serve):
    """A node whose exporter is away costs the telemetry of its devices only."""
    hold(claim, NOON, device="gpu-2")

    def answer(path: str, body: str) -> tuple[int, str]:
        if path != "/h100-1/metrics":
            return 503, ""
        labels = (
            'UUID="GPU-2",dra_claim_name="sam2-finetune",dra_claim_namespace="vision",'
            'dra_driver_name="gpu.nvidia.com",dra_pool_name="fra1-h100-03",dra_device_name="gpu-2"'
        )
        return 200, f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}} 0.5\n"

    nodes.metrics_url = serve(answer) + "/{node}/metrics"
    nodes.save(update_fields=["metrics_url"])
    assert collect(nodes.pk) == 1
    collection = Collection.objects.get()
    assert collection.failed_at is None
    assert collection.error.startswith("2 of 3 exporters cannot be read. ")
    assert "/h100-2/metrics: The telemetry source returned status 503." in collection.error

    report = check_source(nodes, source_of(nodes))
    assert [question.text for question in report.questions] == ["GET of 3 exporters"]
    assert {finding.subject: finding.verdict for finding in report.findings}["Exporters"] == "bad"
    assert report.measured == 1
