"""The demo reads its simulated exporters through Prometheus if there is one, and says which way."""

import json
import subprocess
from types import SimpleNamespace
from typing import cast

import pytest

from demo import services
from demo.supervisor import Supervisor
from tests.prometheus import prometheus_program


@pytest.fixture
def supervisor(tmp_path):
    said: list[str] = []
    started: list[tuple[str, ...]] = []
    return SimpleNamespace(
        config=SimpleNamespace(home=tmp_path),
        environment={"DEMO_SIMULATOR": "http://127.0.0.1:9001"},
        say=said.append,
        start=lambda name, *command: started.append((name, *command)),
        said=said,
        started=started,
    )


def begin(supervisor, monkeypatch, program):
    monkeypatch.setattr(services.shutil, "which", lambda name: program)
    services.prometheus(cast(Supervisor, supervisor), ("fra-1", "lab-2"), 9090)


def test_prometheus_of_the_machine_scrapes_the_exporters_of_each_cluster(supervisor, monkeypatch, tmp_path):
    begin(supervisor, monkeypatch, "/usr/bin/prometheus")
    (started,) = supervisor.started
    assert started[:2] == ("prometheus", "/usr/bin/prometheus")
    assert "--web.listen-address=127.0.0.1:9090" in started
    assert supervisor.environment["DEMO_PROMETHEUS"] == "http://127.0.0.1:9090"
    assert supervisor.said == ["Telemetry: prometheus of this machine, http://127.0.0.1:9090"]
    config = json.loads((tmp_path / "prometheus/prometheus.json").read_text())
    found = [job["http_sd_configs"][0]["url"] for job in config["scrape_configs"]]
    assert found == [f"http://127.0.0.1:9001/clusters/{name}/exporters" for name in ("fra-1", "lab-2")]


def test_its_configuration_is_valid(supervisor, monkeypatch, tmp_path):
    promtool = prometheus_program("promtool")
    begin(supervisor, monkeypatch, "/usr/bin/prometheus")
    command = [promtool, "check", "config", str(tmp_path / "prometheus/prometheus.json")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(("program", "asked"), [(None, ""), ("/usr/bin/prometheus", "0")])
def test_without_prometheus_the_simulator_is_read_directly(supervisor, monkeypatch, program, asked):
    monkeypatch.setenv("DEMO_PROMETHEUS", asked)
    begin(supervisor, monkeypatch, program)
    assert supervisor.started == []
    assert "DEMO_PROMETHEUS" not in supervisor.environment
    assert supervisor.said[0].startswith("Telemetry: read from the simulated exporters")
