"""
DRA health of the real control plane: its scheduler and its controller manager, scraped by a real Prometheus
with the rights of deploy/monitoring/rbac.yaml. There is no kubelet: its metrics are in `expositions`.
"""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_socket
import yaml
from django.conf import settings

from demo.controlplane.client import Client, eventually
from demo.controlplane.harness import CONTROLLERS, SCHEDULER, ControlPlane
from inventory.models import Cluster, DraHealth
from tests.factories import make_cluster, make_spec, make_user
from tests.patience import SCHEDULER as SCHEDULER_SPEAKS
from tests.prometheus import RealPrometheus, running_prometheus
from usage import dra_health

pytestmark = [pytest.mark.controlplane, pytest.mark.django_db]
EXPOSITIONS = Path(__file__).parent / "expositions"
MONITORING = "monitoring"
SAMPLE = re.compile(r"^(\w+?)(?:_bucket|_sum|_count)?(?:\{(.*)\})? \S+$", re.M)
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def token(controlplane: ControlPlane) -> Iterator[str]:
    """A token of the account of deploy/monitoring/rbac.yaml, which may do nothing else."""
    pytest_socket.enable_socket()
    admin = controlplane.client()
    admin.create({"kind": "Namespace", "metadata": {"name": MONITORING}})
    for document in yaml.safe_load_all((settings.BASE_DIR / "deploy/monitoring/rbac.yaml").read_text()):
        admin.apply(document)
    path = f"/api/v1/namespaces/{MONITORING}/serviceaccounts/prometheus/token"
    answer = admin.raw("POST", path, json={"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"})
    assert answer.status_code == 201, answer.text
    yield answer.json()["status"]["token"]
    admin.delete("Namespace", MONITORING)


def job(name: str, address: str, token: str) -> dict[str, Any]:
    """Return the job of deploy/monitoring/prometheus.yaml for a program that is no pod."""
    config = yaml.safe_load((settings.BASE_DIR / "deploy/monitoring/prometheus.yaml").read_text())
    (found,) = [one for one in config["scrape_configs"] if one["job_name"] == name]
    kept = {key: found[key] for key in ("job_name", "scheme", "tls_config")}
    return kept | {"authorization": {"credentials": token}, "static_configs": [{"targets": [address]}]}


@pytest.fixture(scope="module")
def prometheus(controlplane: ControlPlane, token: str, tmp_path_factory) -> Iterator[RealPrometheus]:
    jobs = [job(name, controlplane.metrics[name], token) for name in (SCHEDULER, CONTROLLERS)]
    with running_prometheus(tmp_path_factory.mktemp("prometheus"), jobs) as running:
        running.wait_for_samples(2)
        yield running


@pytest.fixture
def fra(prometheus) -> Cluster:
    return make_cluster("fra-1", prometheus_url=prometheus.url)


@pytest.fixture
def namespace(controlplane: ControlPlane) -> Iterator[str]:
    admin, name = controlplane.client(), f"health-{next(_numbers)}"
    admin.create({"kind": "Namespace", "metadata": {"name": name}})
    yield name
    for pod in admin.list("Pod", name):
        admin.delete("Pod", pod["metadata"]["name"], name)
    admin.delete("Namespace", name)


def template(namespace: str, name: str = "one-gpu", **exactly: Any) -> dict[str, Any]:
    return {
        "kind": "ResourceClaimTemplate",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": make_spec(1, **exactly)},
    }


def impossible(namespace: str) -> dict[str, Any]:
    """Return a template of a claim that no device matches."""
    nobody = {"cel": {"expression": "device.driver == 'nobody.example.org'"}}
    return template(namespace, "no-gpu", selectors=[nobody])


def pod(namespace: str, name: str, template: str) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {
        "containers": [container],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}],
        "tolerations": [{"operator": "Exists"}],
        "automountServiceAccountToken": False,
    }
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def figures(cluster: Cluster) -> dict[str, float | None]:
    DraHealth.objects.filter(cluster=cluster).delete()
    dra_health.read(cluster.pk)
    row = DraHealth.objects.get(cluster=cluster)
    assert row.error == ""
    found: dict[str, float | None] = row.figures
    return found


def scheduled(admin: Client, namespace: str, name: str) -> bool:
    found = admin.get("Pod", name, namespace)
    return bool(found and found["spec"].get("nodeName"))


def test_scheduler_and_controller_are_scraped_and_a_kubelet_is_not(fra):
    found = figures(fra)
    assert (found["scraped_scheduler"], found["scraped_controller"], found["scraped_kubelet"]) == (1, 1, None)
    assert found["create_errors"] == 0
    assert found["attempt_errors"] == 0
    assert found["prepares"] is None


def test_attempts_claims_and_pods_that_wait_are_counted(client, controlplane, fra, namespace):
    admin = controlplane.client()
    for wanted in (template(namespace), impossible(namespace)):
        admin.create(wanted)
    before = figures(fra)
    admin.create(pod(namespace, "fits", "one-gpu"))
    eventually(lambda: scheduled(admin, namespace, "fits"), subject="a scheduled pod")
    admin.create(pod(namespace, "waits", "no-gpu"))
    # Of a counter that began between two scrapes, Prometheus does not know the first count.
    more = {"unschedulable": 1, "allocated": 1, "unallocated": 1, "attempts": 0, "creates": 0}

    def counted() -> bool:
        now = figures(fra)
        return all((now[key] or 0) >= (before[key] or 0) + number for key, number in more.items())

    eventually(counted, subject="figures of both pods")
    assert (figures(fra)["attempts"] or 0) > 0
    assert (figures(fra)["attempt_latency"] or 0) >= 0
    client.force_login(make_user("alice"))
    page = " ".join(re.sub(r"<[^>]*>", " ", client.get("/clusters/fra-1/").text).split())
    assert re.search(r"Pods that no device fits now [1-9]", page)
    assert "No telemetry from the kubelets" in page


def test_nobody_reads_metrics_without_the_right(controlplane, token):
    for address in controlplane.metrics.values():
        url = f"https://{address}/metrics"
        for headers, status in (({}, 403), ({"Authorization": f"Bearer {token}"}, 200)):
            answer = httpx.get(url, headers=headers, verify=False, trust_env=False)
            assert answer.status_code == status, answer.text


@pytest.mark.usefixtures("prometheus")
@pytest.mark.parametrize("program", [SCHEDULER, CONTROLLERS])
def test_expositions_have_the_names_and_labels_of_kubernetes(controlplane, token, namespace, program):
    """A counter that never counted has no series, so a claim is made first."""
    admin = controlplane.client()
    admin.create(impossible(namespace))
    admin.create(pod(namespace, "waits", "no-gpu"))
    ours = labels_by_name((EXPOSITIONS / f"{program}.prom").read_text())

    def differing() -> dict[str, frozenset[str]]:
        headers = {"Authorization": f"Bearer {token}"}
        url = f"https://{controlplane.metrics[program]}/metrics"
        real = labels_by_name(httpx.get(url, headers=headers, verify=False, trust_env=False).text)
        return {name: labels for name, labels in ours.items() if real.get(name) != labels}

    eventually(lambda: not differing(), seconds=SCHEDULER_SPEAKS, subject=f"{differing()}")


def labels_by_name(text: str) -> dict[str, frozenset[str]]:
    """Return the names of the labels of each metric."""
    found: dict[str, frozenset[str]] = {}
    for name, labels in SAMPLE.findall(text):
        names = frozenset(re.findall(r'(\w+)="', labels)) - {"le"}
        found[name] = found.get(name, frozenset()) | names
    return found
