"""The collector and the test of a source, over the HTTP API of a real Prometheus."""

import signal
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from claims.states import ClaimState
from inventory.models import Cluster
from inventory.telemetry_access import TelemetrySecret, change_telemetry
from simulator.cluster import SimulatedCluster
from simulator.resources import CLAIMS
from simulator.world import populate
from tests.factories import make_claim, make_team
from tests.prometheus import RealPrometheus, self_signed
from tests.usage.conftest import NOON, hold
from tests.usage.test_sources import SHARED
from usage.collect import collect
from usage.models import Collection, Rollup
from usage.samples import ENERGY, measurements
from usage.source_report import check_source
from usage.sources import TelemetrySource, TelemetryUnavailable, parse_exposition, read, source_of

PASSWORD = "pa55word"
HASH = "$2b$04$apqQH8liPksMMsxcwnGf/OPRqcR/AEi1XohKIOaUBsEPcRaSHHQdm"  # bcrypt of PASSWORD, 4 rounds
SERVER, CLIENT = self_signed("prometheus"), self_signed("dragoman")


@pytest.fixture
def prometheus(tmp_path):
    """Return a function that starts a Prometheus; all are stopped at the end."""
    running: list[RealPrometheus] = []

    def start(*targets, **fields):
        program = RealPrometheus(tmp_path / f"prometheus-{len(running)}", tuple(targets), **fields)
        running.append(program)
        program.start()
        return program

    yield start
    for program in running:
        program.stop(signal.SIGKILL)


AMD_BOARD = 'gpu_id="3",gpu_partition_id="0",hostname="mi300-1",card_model="MI300X"'
AMD = "".join(
    f'amd_{name}{{{AMD_BOARD},pod="train-0",namespace="vision"}} {value}\n'
    for name, value in {
        "gpu_gfx_activity": 40,
        "gpu_used_vram": 512,
        "gpu_total_vram": 196592,
        "gpu_power_usage": 310,
        "gpu_energy_consumed": 8_123_456_789_000,
        "gpu_junction_temperature": 61,
    }.items()
)


@pytest.fixture
def exporter(serve):
    return f"{serve(lambda path, body: (200, SHARED))}/metrics"


def scraped(program: RealPrometheus) -> RealPrometheus:
    program.wait_until(lambda: program.series("DCGM_FI_DEV_FB_USED"))
    return program


def test_series_of_amd_that_prometheus_scraped_are_those_of_the_exporter(prometheus, serve):
    program = prometheus(f"{serve(lambda path, body: (200, AMD))}/metrics")
    program.wait_until(lambda: program.series("amd_gpu_junction_temperature"))
    found = measurements(read(TelemetrySource(program.url, is_prometheus=True, with_amd=True)).series)
    (measurement,) = found.values()
    assert (measurement.memory_total, measurement.temperature) == (196592 * 2**20, 61)
    assert measurement.counters == {ENERGY: pytest.approx(8_123_456_789)}
    assert found == measurements(parse_exposition(AMD.splitlines()).series)


def test_series_that_prometheus_scraped_are_those_of_the_exporter(prometheus, exporter):
    program = scraped(prometheus(exporter))
    found = measurements(read(TelemetrySource(program.url, is_prometheus=True)).series)
    assert found == measurements(parse_exposition(SHARED.splitlines()).series)


def test_basic_authentication_over_tls_with_its_own_ca(prometheus, exporter, tmp_path):
    (tmp_path / "server.crt").write_text(SERVER.certificate)
    (tmp_path / "server.key").write_text(SERVER.key)
    web = {
        "tls_server_config": {
            "cert_file": str(tmp_path / "server.crt"),
            "key_file": str(tmp_path / "server.key"),
        },
        "basic_auth_users": {"reader": HASH},
    }
    program = scraped(prometheus(exporter, web=web, auth=("reader", PASSWORD)))
    secret = TelemetrySecret(user="reader", password=PASSWORD)
    good = TelemetrySource(program.url, is_prometheus=True, authority=SERVER.certificate, secret=secret)
    assert len(read(good).series) == 2
    for source, words in (
        (replace(good, authority=""), "not trusted"),
        (replace(good, authority=CLIENT.certificate), "not trusted"),
        (replace(good, url=good.url.replace("127.0.0.1", "localhost")), "not trusted"),
        (replace(good, secret=TelemetrySecret(user="reader", password="wrong")), "denies access"),
        (replace(good, secret=TelemetrySecret(token=PASSWORD)), "denies access"),
        (
            replace(good, url=good.url.replace("https", "http")),
            "status 400|rejected|unknown format|cannot be reached",
        ),
    ):
        with pytest.raises(TelemetryUnavailable, match=words) as problem:
            read(source)
        assert PASSWORD not in problem.value.message


def test_client_certificate_identifies_the_portal(prometheus, exporter, tmp_path):
    for name, text in (("crt", SERVER.certificate), ("key", SERVER.key), ("ca", CLIENT.certificate)):
        (tmp_path / name).write_text(text)
    tls = {"cert_file": str(tmp_path / "crt"), "key_file": str(tmp_path / "key")}
    tls |= {"client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": str(tmp_path / "ca")}
    # It takes no request without the certificate, so that it is ready is seen by the portal's reader.
    program = RealPrometheus(tmp_path / "data", (exporter,), web={"tls_server_config": tls})
    secret = TelemetrySecret(certificate=CLIENT.certificate, key=CLIENT.key)
    source = TelemetrySource(program.url, is_prometheus=True, authority=SERVER.certificate, secret=secret)

    def answers():
        try:
            return bool(read(source).series)
        except TelemetryUnavailable:
            return False

    try:
        program.start(until=answers)
        with pytest.raises(TelemetryUnavailable, match="cannot be reached"):
            read(replace(source, secret=TelemetrySecret()))
    finally:
        program.stop(signal.SIGKILL)


@pytest.fixture
def simulated():
    """A simulated cluster after half an hour of its life."""
    cluster = SimulatedCluster("fra-1", seed=7, now=lambda: NOON)
    populate(cluster.registry, cluster.name)
    for _ in range(600):
        cluster.step()
    return cluster


@pytest.fixture
def mirrored(simulated, alice, fra):
    """The portal's rows of what claims hold in the simulated cluster."""
    held = []
    for claim in simulated.store.unordered(CLAIMS):
        allocation = (claim.get("status") or {}).get("allocation") or {}
        results = (allocation.get("devices") or {}).get("results", [])
        if not results:
            continue
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        team = make_team(namespace)
        row = make_claim(team, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False, name=name)
        held += [
            hold(
                row,
                datetime(2026, 1, 1, tzinfo=UTC),
                object_name=name,
                **{key: result[key] for key in ("driver", "pool", "device")},
            )
            for result in results
        ]
    assert held
    return held


@pytest.mark.django_db(transaction=True)
def test_collector_reads_what_the_simulated_exporter_says(prometheus, serve, simulated, mirrored, fra):
    address = serve(lambda path, body: (200, simulated.metrics()))
    program = scraped(
        prometheus(
            f"{address}/metrics", auth=("reader", PASSWORD), web={"basic_auth_users": {"reader": HASH}}
        )
    )
    change_telemetry(
        name="fra-1",
        addresses={"prometheus_url": program.url},
        secret=TelemetrySecret(user="reader", password=PASSWORD),
    )
    assert collect(fra.pk) > 0
    expected: dict[tuple[str, str], float] = {}
    for one in parse_exposition(simulated.metrics().splitlines()).series:
        activity = one.values.get("DCGM_FI_PROF_GR_ENGINE_ACTIVE")
        if activity is not None and one.labels.get("dra_device_name"):
            place = one.labels["dra_pool_name"], one.labels["dra_device_name"]
            expected[place] = max(expected.get(place, 0.0), activity)
    rows = Rollup.objects.filter(driver="gpu.nvidia.com", activity__isnull=False)
    seen = {
        (pool, device): activity for pool, device, activity in rows.values_list("pool", "device", "activity")
    }
    assert seen
    assert {place: pytest.approx(expected[place], abs=1e-6) for place in seen if place in expected} == seen

    program.stop(signal.SIGKILL)
    Collection.objects.update(sampled_at=None)
    assert collect(fra.pk) == 0
    assert "cannot be reached" in Collection.objects.get().error


@pytest.mark.django_db(transaction=True)
def test_report_of_a_source_says_what_it_asked_and_what_it_joined(
    prometheus, serve, simulated, mirrored, fra
):
    address = serve(lambda path, body: (200, simulated.metrics()))
    program = scraped(prometheus(f"{address}/metrics"))
    Cluster.objects.update(prometheus_url=program.url)
    fra.refresh_from_db()
    report = check_source(fra, source_of(fra))
    assert report.problem == ""
    assert report.measured > 0
    assert report.held == len(mirrored)
    asked = [question.text for question in report.questions]
    assert all(text.startswith(("max by (", "count(")) for text in asked)
    by_subject = {finding.subject: finding for finding in report.findings}
    assert by_subject["DRA labels"].verdict == "good"
    assert by_subject["Host label"].detail == "hostname: dcgm-exporter 4.6.0 or later"
    assert by_subject["DCGM_FI_PROF_GR_ENGINE_ACTIVE"].verdict == "good"
