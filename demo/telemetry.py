"""The Prometheus of the demo, if this machine has one; without it the portal reads the simulator itself."""

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from demo.supervisor import Supervisor

SCRAPE_SECONDS = 15
RETENTION = "2d"  # gaps of a day are filled from it


def prometheus(supervisor: Supervisor, clusters: Iterable[str], port: int) -> None:
    """
    Start a Prometheus that scrapes each exporter of each simulated cluster; say which way telemetry goes.

    Nobody waits for it: it is ready before the portal is, and a collection that comes too early is repeated.
    """
    program = None if os.environ.get("DEMO_PROMETHEUS") == "0" else shutil.which("prometheus")
    if program is None:
        supervisor.say("Telemetry: read from the simulated exporters, without Prometheus")
        return
    folder = supervisor.config.home / "prometheus"
    folder.mkdir(exist_ok=True)
    config = folder / "prometheus.json"  # JSON is YAML
    config.write_text(json.dumps(settings(clusters, supervisor.environment["DEMO_SIMULATOR"])))
    supervisor.start("prometheus", program, *options(config, folder / "data", port))
    address = supervisor.environment["DEMO_PROMETHEUS"] = f"http://127.0.0.1:{port}"
    supervisor.say(f"Telemetry: {Path(program).name} of this machine, {address}")


def settings(clusters: Iterable[str], simulator: str) -> dict[str, object]:
    """Return the configuration of Prometheus: a job per cluster, its exporters found by HTTP."""
    return {
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "scrape_timeout": f"{SCRAPE_SECONDS}s"},
        "scrape_configs": [
            {
                "job_name": f"dcgm-exporter-{name}",
                "honor_labels": True,
                "http_sd_configs": [{"url": f"{simulator}/clusters/{name}/exporters"}],
            }
            for name in clusters
        ],
    }


def options(config: Path, data: Path, port: int) -> list[str]:
    return [
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        f"--storage.tsdb.retention.time={RETENTION}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
