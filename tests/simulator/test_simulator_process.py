"""The simulator as its own process: the command line, the state on disk, time, and a clean end."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
import yaml

from cluster.credentials import from_kubeconfig, seal
from cluster.kube import connect
from cluster.protocol import POD
from simulator import app
from simulator.api import openapi, openapi_index
from simulator.app import opened_clusters
from simulator.certificates import ensure
from simulator.cluster import SimulatedCluster
from simulator.resources import CLAIMS as CLAIM_KIND
from simulator.resources import NODES
from tests import patience
from tests.demo.running import free_port
from tests.kubectl import on_path
from tests.simulator.conftest import CLAIMS, NOW, PODS, QUOTAS, created, eventually, make_claim, make_pod

ROOT = Path(__file__).parents[2]


def command(*arguments):
    return [sys.executable, "-m", "simulator", *map(str, arguments)]


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def reached(port):
    def look():
        try:
            return httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False).text == "ok"
        except httpx.TransportError:
            return False

    assert eventually(look, 60)


def kubeconfig(port, cluster, user):
    said = subprocess.run(
        command("kubeconfig", "--port", port, "--cluster", cluster, "--user", user),
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    return yaml.safe_load(said.stdout)


@contextmanager
def running(run, **options):
    """A process that does not outlive its test, so that a failure is seen and not waited for."""
    with subprocess.Popen(run, cwd=ROOT, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def client_of(config):
    return httpx.Client(
        base_url=config["clusters"][0]["cluster"]["server"],
        headers={"Authorization": f"Bearer {config['users'][0]['user']['token']}"},
        trust_env=False,
    )


def test_it_serves_both_clusters_keeps_their_state_and_ends_when_told(port, tmp_path):
    run = command("--port", port, "--state", tmp_path)
    with running(run, stderr=subprocess.PIPE) as process:
        reached(port)
        with client_of(kubeconfig(port, "fra-1", "portal")) as portal:
            assert len(portal.get("/api/v1/nodes").json()["items"]) == 30
            made = created(portal.post(CLAIMS, json=make_claim("kept")))
        with client_of(kubeconfig(port, "lab-2", "viewer")) as viewer:
            assert len(viewer.get("/api/v1/nodes").json()["items"]) == 14
        process.send_signal(signal.SIGTERM)
        _out, errors = process.communicate(timeout=patience.EXIT)
    assert errors == b""
    with running(run) as process:
        try:
            reached(port)
            with client_of(kubeconfig(port, "fra-1", "portal")) as portal:
                kept = portal.get(f"{CLAIMS}/kept").json()
            assert kept["metadata"]["uid"] == made["metadata"]["uid"]
            assert kept["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        finally:
            process.terminate()


def test_an_open_watch_does_not_keep_it_from_ending(port):
    with running(command("--port", port), stderr=subprocess.PIPE) as process:
        reached(port)
        with (
            client_of(kubeconfig(port, "fra-1", "portal")) as portal,
            portal.stream("GET", CLAIMS, params={"watch": "1"}) as response,
        ):
            assert response.status_code == 200
            process.terminate()
            _out, errors = process.communicate(timeout=patience.EXIT)
    assert errors == b""


def test_a_cluster_comes_back_from_disk_as_it_was(tmp_path):
    (before,) = opened_clusters(["lab-2"], seed=7, state=None, now=lambda: NOW)
    app.save(before, tmp_path)
    after = SimulatedCluster("lab-2", seed=7, now=lambda: NOW)
    assert app.load(after, tmp_path)
    assert after.dump() == before.dump()
    for _ in range(50):
        before.step()
        after.step()
    assert after.dump() == before.dump()


def test_revisions_never_come_again_after_a_kill(tmp_path):
    (killed,) = opened_clusters(["lab-2"], seed=7, state=tmp_path, now=lambda: NOW)
    app.save(killed, tmp_path)
    for _ in range(300):
        killed.step()
    (again,) = opened_clusters(["lab-2"], seed=7, state=tmp_path, now=lambda: NOW)
    assert again.store.revision > killed.store.revision
    assert again.store.since(CLAIM_KIND, killed.store.revision) is None


def test_a_save_that_was_cut_short_leaves_the_old_state(tmp_path, monkeypatch):
    cluster = SimulatedCluster("lab", seed=1, now=lambda: NOW)
    app.save(cluster, tmp_path)

    def full(_descriptor: int) -> None:
        raise OSError("no space left on device")

    cluster.step()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        app.save(cluster, tmp_path)
    again = SimulatedCluster("lab", seed=1, now=lambda: NOW)
    assert app.load(again, tmp_path)
    assert again.context.tick == 0


def test_a_folder_without_state_is_a_new_cluster(tmp_path):
    assert not app.load(SimulatedCluster("lab", seed=1, now=lambda: NOW), tmp_path / "nowhere")


def test_time_passes_by_itself_and_faster_when_asked(make_server):
    cluster = SimulatedCluster("lab", seed=1, now=lambda: NOW + timedelta(seconds=time.monotonic()))
    server = make_server(cluster, speed=50)
    with server.client("admin") as root:
        created(root.post("/api/v1/namespaces", json={"metadata": {"name": "vision"}}))
        node = {"metadata": {"name": "n", "labels": {}}, "spec": {}}
        created(root.post(f"/api/v1/{NODES.plural}", json=node))
        pod = make_pod("a", claim="x", run_seconds=60)
        del pod["spec"]["resourceClaims"]
        created(root.post(PODS, json=pod))
        started = time.monotonic()
        assert eventually(lambda: root.get(f"{PODS}/a").json()["status"]["phase"] == "Succeeded", 20)
        assert time.monotonic() - started < 20
        assert cluster.context.tick >= 60


def test_a_controller_that_fails_does_not_stop_the_others(make_server, monkeypatch, caplog):
    monkeypatch.setattr("simulator.app.AFTER_FAILURE", 0.01)
    cluster = SimulatedCluster("lab", seed=1, now=lambda: NOW)
    failures = iter([RuntimeError("broken object")])

    def settle() -> None:
        for failure in failures:
            raise failure
        SimulatedCluster.settle(cluster)

    monkeypatch.setattr(cluster, "settle", settle)
    with make_server(cluster).client("admin") as root:
        created(root.post("/api/v1/namespaces", json={"metadata": {"name": "vision"}}))
        created(root.post(QUOTAS, json={"metadata": {"name": "q"}, "spec": {"hard": {"count/x": "1"}}}))
        assert eventually(lambda: root.get(f"{QUOTAS}/q").json()["status"].get("used"))
    assert "A controller of lab failed; it tries again." in caplog.text


def test_an_empty_cluster_stands_still_and_holds_nothing(server):
    server.step(100)
    assert server.cluster.store.all(CLAIM_KIND) == []
    assert server.cluster.store.all(NODES) == []


def test_tls_serves_kubectl_with_the_ca_of_its_kubeconfig(port, tmp_path):
    """A program that sends tokens over TLS only, as kubectl does, is known; without the CA none connects."""
    tls = ("--tls", tmp_path / "tls", "--tls-port", free_port())
    with running(command("--port", port, *tls), stderr=subprocess.PIPE) as process:
        reached(port)
        asked = command("kubeconfig", *tls, "--cluster", "lab-2", "--user", "admin")
        text = subprocess.run(asked, cwd=ROOT, capture_output=True, check=True, text=True).stdout
        config = yaml.safe_load(text)
        server = config["clusters"][0]["cluster"]
        assert server["server"] == f"https://127.0.0.1:{tls[3]}/clusters/lab-2"
        with pytest.raises(httpx.ConnectError, match="certificate"):
            httpx.get(f"{server['server']}/version", trust_env=False)
        gateway, made = connect(seal(from_kubeconfig(text))), make_pod("try-me", claim="mine")
        gateway.create(POD, made | {"metadata": {"name": "try-me", "namespace": "default"}})
        (tmp_path / "config").write_text(text)
        listed = subprocess.run(
            ["kubectl", "get", "pods", "-n", "default"],
            env=os.environ | {"KUBECONFIG": str(tmp_path / "config"), "PATH": on_path(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert "try-me" in listed.stdout
        authority = (tmp_path / "tls" / "ca.crt").read_bytes()
        process.terminate()
        assert process.wait(patience.EXIT) in (0, -signal.SIGTERM)
    assert (tmp_path / "tls" / "server.pem").stat().st_mode & 0o077 == 0
    ensure(tmp_path / "tls")  # as at the next start
    assert (tmp_path / "tls" / "ca.crt").read_bytes() == authority


@pytest.mark.parametrize("version", ["api/v1", "apis/resource.k8s.io/v1", "apis/batch/v1"])
def test_openapi_tells_kubectl_that_the_server_checks_fields(version):
    """kubectl writes nothing without it: “failed to download openapi”."""
    assert openapi_index()["paths"][version] == {"serverRelativeURL": f"/openapi/v3/{version}"}
    group, _, number = version.partition("/")[2].rpartition("/")
    described = openapi(group, number)
    operations = [path["patch"] for path in described["paths"].values()]
    assert operations
    for operation in operations:
        assert operation["x-kubernetes-group-version-kind"]["version"] == "v1"
        assert "fieldValidation" in [parameter["name"] for parameter in operation["parameters"]]
    assert openapi("nobody.example.org", "v1") is None
