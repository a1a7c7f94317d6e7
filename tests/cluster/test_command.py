"""manage.py cluster, against the simulator and, for rights, the real control plane."""

from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
import yaml
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command

from cluster.checkup import manifest
from cluster.credentials import unseal
from cluster.kube import connect
from inventory.models import Cluster, TelemetryAccess
from inventory.telemetry_access import open_secret
from tests.cluster.conftest import simulated_kubeconfig

pytestmark = pytest.mark.django_db

type Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "120")  # what is printed is cut at the width of the terminal

    def run(action: str, *arguments: str, kubeconfig: str = "") -> str:
        if kubeconfig:
            file = tmp_path / "kubeconfig"
            file.write_text(kubeconfig)
            arguments = (*arguments, "--kubeconfig", str(file))
        output = StringIO()
        call_command("cluster", action, *arguments, stdout=output)
        return output.getvalue()

    return run


@pytest.fixture
def fra(simulator: str) -> str:
    return simulated_kubeconfig(simulator, "simulator-portal")


def test_a_cluster_is_added_by_its_identity_and_its_credentials_are_sealed(run, fra):
    table = run("add", "fra-1", "--title", "Frankfurt", kubeconfig=fra)
    cluster = Cluster.objects.get()
    assert (cluster.name, cluster.title, cluster.simulated) == ("fra-1", "Frankfurt", True)
    assert cluster.uid == connect(cluster.credentials).identity()
    assert b"simulator-portal" not in bytes(cluster.credentials)
    assert unseal(cluster.credentials).token == "simulator-portal"
    assert cluster.version in table
    assert "simulator-portal" not in table


def test_same_cluster_under_another_name_is_refused(run, fra):
    run("add", "fra-1", kubeconfig=fra)
    with pytest.raises(CommandError, match="This cluster is already “fra-1”"):
        run("add", "fra-2", kubeconfig=fra)
    assert Cluster.objects.count() == 1


def test_duplicate_cluster_name_is_refused(run, fra, simulator):
    run("add", "fra-1", kubeconfig=fra)
    other = fra.replace("/clusters/fra-1", "/clusters/lab-2")
    with pytest.raises(CommandError, match="A cluster “fra-1” exists already"):
        run("add", "fra-1", kubeconfig=other)


def test_credentials_are_renewed_only_by_those_of_the_same_cluster(run, fra):
    run("add", "fra-1", kubeconfig=fra)
    run("add", "fra-1", "--renew", kubeconfig=fra.replace("simulator-portal", "simulator-admin"))
    assert unseal(Cluster.objects.get().credentials).token == "simulator-admin"
    with pytest.raises(CommandError, match="lead to another cluster than “fra-1”"):
        run("add", "fra-1", "--renew", kubeconfig=fra.replace("/clusters/fra-1", "/clusters/lab-2"))


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("fra 1", ("", ""), "slug"),
        ("fra-1", ("token: simulator-portal", "tokenFile: /etc/passwd"), "a file (“tokenFile”)"),
        ("fra-1", ("simulator-portal", "wrong"), "does not know the credentials"),
        ("fra-1", ("127.0.0.1:", "127.0.0.1:1"), "refuses connections"),
    ],
)
def test_invalid_cluster_is_refused_with_a_sentence(run, fra, name, change, words):
    if change[0] == "127.0.0.1:":  # a port where nobody is
        fra = fra.replace(fra.partition("127.0.0.1:")[2].partition("/")[0], "1")
    else:
        fra = fra.replace(*change)
    with pytest.raises(CommandError) as problem:
        run("add", name, kubeconfig=fra)
    assert words in str(problem.value)
    assert problem.value.__context__ is None
    assert not Cluster.objects.exists()


def test_a_missing_file_is_a_sentence(run):
    with pytest.raises(CommandError, match="/nowhere cannot be read"):
        run("add", "fra-1", "--kubeconfig", "/nowhere")


def test_outside_a_cluster_there_is_no_in_cluster(run):
    with pytest.raises(CommandError, match="does not run inside a cluster"):
        run("add", "fra-1", "--in-cluster")


def test_a_check_shows_what_works(run, fra):
    run("add", "fra-1", kubeconfig=fra)
    table = run("check", "fra-1")
    for line in ("no TLS", "resource.k8s.io/v1", "create resourceclaims.resource.k8s.io", "watch nodes"):
        assert line in table
    assert "missing" not in table


def test_a_check_of_an_unknown_cluster_names_those_that_are_known(run, fra):
    run("add", "fra-1", kubeconfig=fra)
    with pytest.raises(CommandError, match=r"There is no cluster “paris”\. Clusters: fra-1"):
        run("check", "paris")


def test_a_check_sees_that_the_credentials_lead_elsewhere(run, fra):
    run("add", "fra-1", kubeconfig=fra)
    Cluster.objects.update(uid="another")
    with pytest.raises(CommandError, match="1 of the checks failed"):
        run("check", "fra-1")


def test_the_list_shows_every_cluster(run, fra):
    assert "No clusters yet" in run("list")
    run("add", "fra-1", "--read-only", kubeconfig=fra)
    table = run("list")
    for word in ("fra-1", "read-only", "simulated", Cluster.objects.get().uid):
        assert word in table


def test_a_cluster_is_removed_when_its_name_is_typed(run, fra, monkeypatch):
    run("add", "fra-1", kubeconfig=fra)
    monkeypatch.setattr("builtins.input", lambda question: "no")
    with pytest.raises(CommandError, match="Nothing was removed"):
        run("remove", "fra-1")
    monkeypatch.setattr("builtins.input", lambda question: "fra-1")
    assert "fra-1 is forgotten" in run("remove", "fra-1")
    assert not Cluster.objects.exists()


def test_the_role_is_printed_as_yaml(run):
    assert run("rbac") == run("rbac", "--full") == manifest()
    assert run("rbac", "--write-quotas") == manifest(write_quotas=True)
    assert run("rbac", "--write-quotas", "--evict-pods") == manifest(write_quotas=True, evict_pods=True)
    assert run("rbac", "--review-tokens") == manifest(review_tokens=True)
    documents = list(yaml.safe_load_all(run("rbac", "--read-only", "--name", "viewer", "--namespace", "gpu")))
    assert [item["metadata"]["name"] for item in documents] == ["gpu", "viewer", "viewer", "viewer"]
    assert documents[-1]["subjects"][0]["namespace"] == "gpu"


@pytest.mark.controlplane
def test_a_check_of_a_real_cluster_with_the_printed_role_finds_nothing_missing(run, controlplane):
    run("add", "fra-1", kubeconfig=controlplane.kubeconfig("portal"))
    table = run("check", "fra-1")
    assert "v1.37.1" in table
    assert "missing" not in table


@pytest.mark.controlplane
def test_a_check_with_the_read_only_role_names_what_is_missing(run, controlplane):
    table = run("add", "fra-1", kubeconfig=controlplane.kubeconfig("reader"))
    lines = [line for line in table.splitlines() if "missing" in line]
    # create, patch, delete of claims, of templates and of quotas; evict pods; review tokens
    assert len(lines) == 11
    assert any("delete resourceclaimtemplates.resource.k8s.io" in line for line in lines)
    with pytest.raises(CommandError, match="6 of the checks failed"):
        run("check", "fra-1")
    Cluster.objects.update(read_only=True)
    assert run("check", "fra-1").count("missing") == 1  # a note: tokens of pods are not reviewed


def test_what_is_said_when_a_cluster_is_added_is_kept_of_that_cluster(run, fra):
    run(
        "add", "fra-1", "--title", "Frankfurt", "--write-quotas", "--prometheus-url", "http://prom.monitoring.svc:9090",
        "--metrics-url", "http://dcgm.monitoring.svc:9400", kubeconfig=fra,
    )  # fmt: skip
    names = ("title", "read_only", "write_quotas", "prometheus_url", "metrics_url")
    assert Cluster.objects.values_list(*names).get() == (
        "Frankfurt",
        False,
        True,
        "http://prom.monitoring.svc:9090",
        "http://dcgm.monitoring.svc:9400",
    )
    told = run("set", "fra-1", "--no-write-quotas")
    assert told.strip() == "The portal's quotas are removed from fra-1 within a minute."
    assert run("set", "fra-1", "--write-quotas").strip() == "Quotas are written to fra-1 within a minute."
    assert run("set", "fra-1", "--end-policy", "ask").startswith(
        "When a claim in fra-1 ends: ask before eviction."
    )
    assert Cluster.objects.get().end_policy == "ask"
    with pytest.raises(CommandError, match="Name what to change"):
        run("set", "fra-1")
    Cluster.objects.create(name="lab-2", credentials=b"")
    assert "lab-2 is forgotten" in run("remove", "lab-2", "--yes")
    assert Cluster.objects.get().name == "fra-1"


def test_telemetry_is_set_from_files_and_its_secret_is_not_printed(run, tmp_path):
    Cluster.objects.create(name="fra-1", credentials=b"")
    token = tmp_path / "token"
    token.write_text("the-very-secret-token\n")
    address = ("--prometheus-url", "https://prometheus.example")
    told = run(
        "telemetry", "fra-1", *address, "--token-file", str(token), "--tenant", "gpu", "--timeout", "5"
    )
    assert told == "Telemetry of fra-1: https://prometheus.example, bearer token.\n"
    access = TelemetryAccess.objects.get()
    assert (access.tenant, access.timeout_seconds, access.server) == (
        "gpu",
        5,
        "https://prometheus.example:443",
    )
    assert open_secret(Cluster.objects.get(), access).token == "the-very-secret-token"
    assert run("telemetry", "fra-1", "--matchers", 'cluster="fra-1"').endswith("bearer token.\n")
    assert run("telemetry", "fra-1", "--no-secret").endswith("example, no authentication.\n")
    with pytest.raises(CommandError, match="either a secret or --no-secret"):
        run("telemetry", "fra-1", "--no-secret", "--token-file", str(token))
    with pytest.raises(CommandError, match="/nowhere cannot be read"):
        run("telemetry", "fra-1", "--ca-file", "/nowhere")
    with pytest.raises(CommandError, match="Enter certificates in PEM"):
        run("telemetry", "fra-1", "--ca-file", str(token))


def test_reseal_encrypts_with_the_newest_key_so_that_older_ones_may_go(run, fra, settings):
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    settings.CREDENTIAL_KEYS = [old]
    run("add", "fra-1", kubeconfig=fra)
    settings.CREDENTIAL_KEYS = [new, old]
    assert (
        "Credentials of 1 cluster and 0 secrets of telemetry and tracking encrypted with the newest key."
        in run("reseal")
    )
    settings.CREDENTIAL_KEYS = [new]
    assert unseal(Cluster.objects.get().credentials).token == "simulator-portal"
    settings.CREDENTIAL_KEYS = [old]
    with pytest.raises(CommandError, match="CREDENTIAL_KEYS lacks the key that sealed them"):
        run("check", "fra-1")
