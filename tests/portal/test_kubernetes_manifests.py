"""The manifests of the portal: whole, in agreement with docker-compose.yml, accepted by a real API server."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import pytest_socket
import yaml

from demo.controlplane.client import object_path
from scripts.compose import setting_names
from tests.postgres import ROOT

BASE = ROOT / "deploy/kubernetes/portal"
EXAMPLE = "ingress.example.yaml"
SECRETS = {"SECRET_KEY", "CREDENTIAL_KEYS", "DATABASE_URL", "REDIS_URL", "EMAIL_URL"}
PROCESSES = ("web", "sync", "worker", "beat")
# What a laptop and a cluster have for different reasons.
OWN_VALUES = {"ALLOWED_HOSTS", "PORTAL_URL"}


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((BASE / name).read_text()))


def resources() -> list[str]:
    names: list[str] = documents("kustomization.yaml")[0]["resources"]
    return names


def objects() -> dict[tuple[str, str], dict[str, Any]]:
    found = [document for name in [*resources(), EXAMPLE] for document in documents(name)]
    return {(document["kind"], document["metadata"]["name"]): document for document in found}


def pod_specs() -> Iterator[tuple[str, dict[str, Any]]]:
    for (kind, name), document in objects().items():
        if kind in ("Deployment", "Job"):
            yield name, document["spec"]["template"]["spec"]


def containers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [*spec.get("initContainers", []), *spec["containers"]]


@pytest.fixture
def services():
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


def settings() -> dict[str, str]:
    return objects()["ConfigMap", "portal"]["data"]


def test_base_names_every_file_but_the_example():
    assert {*resources(), "kustomization.yaml", EXAMPLE} == {path.name for path in BASE.iterdir()}


def test_every_setting_is_in_the_config_map_or_the_secret():
    assert settings().keys() | SECRETS == setting_names()
    assert not settings().keys() & SECRETS
    page = (ROOT / "docs/deployment.md").read_text()
    assert set(re.findall(r"--from-literal=(\w+)=", page)) == SECRETS
    for _name, spec in pod_specs():
        for container in containers(spec):
            assert container["envFrom"] == [
                {"configMapRef": {"name": "portal"}},
                {"secretRef": {"name": "portal"}},
            ]


def test_settings_have_the_values_of_docker_compose(services):
    environment = services["web"]["environment"]
    default = {name: re.fullmatch(r"\$\{\w+:-(.*)\}", str(value)) for name, value in environment.items()}
    composed = {name: match[1] for name, match in default.items() if match and name not in SECRETS}
    assert composed.keys() == settings().keys()
    assert {name: settings()[name] for name in composed if name not in OWN_VALUES} == {
        name: value for name, value in composed.items() if name not in OWN_VALUES
    }


@pytest.mark.parametrize("name", [*PROCESSES, "migrate"])
def test_processes_run_as_in_docker_compose(services, name):
    (container,) = dict(pod_specs())[name]["containers"]
    assert container.get("command") == services[name].get("command")
    assert container["image"] == services[name]["image"]
    node = services[name]["environment"].get("CELERY_NODE")
    assert container.get("env", []) == ([{"name": "CELERY_NODE", "value": node}] if node else [])
    probe = container.get("livenessProbe")
    check = services[name].get("healthcheck", {}).get("test")
    if name == "web":
        assert probe["httpGet"]["path"] in check[-1]
    elif name != "migrate":
        assert probe["exec"]["command"] == ["sh", "-c", check[1].replace("$$", "$")]


def test_processes_wait_for_migrations_and_beat_is_alone():
    for name in PROCESSES:
        spec = objects()["Deployment", name]["spec"]
        (first,) = spec["template"]["spec"]["initContainers"]
        assert "migrate --check" in first["command"][-1]
    assert objects()["Deployment", "beat"]["spec"]["replicas"] == 1
    assert objects()["Deployment", "beat"]["spec"]["strategy"] == {"type": "Recreate"}
    budgets = {name for kind, name in objects() if kind == "PodDisruptionBudget"}
    assert budgets == {name for name in PROCESSES if objects()["Deployment", name]["spec"]["replicas"] > 1}


def test_pods_run_as_the_user_of_the_image_and_name_none():
    """OpenShift gives a pod a user id of its namespace, and refuses one that names another."""
    (user,) = re.findall(r"^USER (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert int(user) > 0  # a number, by which Kubernetes sees that it is not root
    for name, spec in pod_specs():
        contexts = [spec["securityContext"], *(one["securityContext"] for one in containers(spec))]
        assert contexts[0]["runAsNonRoot"], name
        assert not any({"runAsUser", "runAsGroup", "fsGroup"} & set(context) for context in contexts), name


def test_every_container_has_requests_and_a_limit_of_memory():
    for _name, spec in pod_specs():
        assert spec["automountServiceAccountToken"] is False
        for container in containers(spec):
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}
            assert container["resources"]["limits"].keys() == {"memory"}


@pytest.fixture(scope="module")
def admin(controlplane):
    """The API server, with the namespace of the portal."""
    pytest_socket.enable_socket()
    client = controlplane.client()
    (namespace,) = documents("namespace.yaml")
    client.create(namespace)
    yield client
    client.delete("Namespace", namespace["metadata"]["name"])


def dry_run(admin, document):
    namespace = "" if document["kind"] == "Namespace" else document["metadata"]["namespace"]
    path = object_path(document["kind"], namespace, version=document["apiVersion"])
    parameters = {"dryRun": "All", "fieldValidation": "Strict"}
    return admin.raw("POST", path, json=document, params=parameters)


@pytest.mark.controlplane
def test_real_api_server_accepts_every_object(admin):
    for (kind, name), document in objects().items():
        if kind == "Namespace":
            continue
        answer = dry_run(admin, document)
        assert answer.status_code == 201, f"{kind} {name}: {answer.text}"
        assert "Warning" not in answer.headers, answer.headers["Warning"]
    misspelled = objects()["Deployment", "web"] | {"specs": {}}
    assert dry_run(admin, misspelled).status_code == 400


@pytest.mark.controlplane
def test_pods_meet_the_restricted_pod_security_standard(admin):
    for name, spec in pod_specs():
        metadata = {"name": name, "namespace": "dragoman-portal"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        answer = dry_run(admin, pod)
        assert answer.status_code == 201, f"{name}: {answer.text}"
        loose = pod | {"spec": spec | {"securityContext": {}}}
        assert dry_run(admin, loose).status_code == 403
