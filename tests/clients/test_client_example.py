"""The example notebook is executed as written, by a Jupyter kernel, on a real control plane."""

import re
import time
from threading import Event, Thread

import nbformat
import pytest
import yaml
from nbclient import NotebookClient

from cluster.credentials import from_kubeconfig, seal
from cluster.kube import connect
from cluster.protocol import POD
from tests import patience
from tests.demo.running import ROOT

pytestmark = pytest.mark.controlplane
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.ipynb"))


@pytest.fixture
def kubectl(real, tmp_path):
    """Somebody at a terminal who runs `kubectl apply -f pod.yaml` as the notebook says."""
    alice = connect(seal(from_kubeconfig(real.kubeconfig("alice"))))
    ended, created = Event(), []

    def apply():
        file = tmp_path / "pod.yaml"
        while not ended.is_set():
            if file.exists() and (pod := yaml.safe_load(file.read_text())):
                created.append(alice.create(POD, pod))
                return
            time.sleep(0.1)

    thread = Thread(target=apply)
    thread.start()
    yield created
    ended.set()
    thread.join()
    for pod in created:
        alice.delete(POD, pod["metadata"]["name"], namespace="vision")
    alice.close()


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_notebook_runs_as_written(file, real, client_of, kubectl, tmp_path, monkeypatch):
    mira = client_of(real, "engineer")
    monkeypatch.setenv("DRAGOMAN_URL", real.url)
    monkeypatch.setenv("DRAGOMAN_TOKEN", mira.settings.token)
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / file.name))
    notebook = nbformat.read(file, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "Clear the outputs before you commit."
    client = NotebookClient(
        notebook, timeout=int(patience.SCHEDULER * 3), resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    shown = {cell.id: texts(cell) for cell in notebook.cells if cell.cell_type == "code"}
    assert "slice-10g" in shown["magic"]
    assert "matching devices are free now" in shown["preview"]
    assert re.search(r"MIG-\S+ on \S+", shown["with"])
    assert re.search(r"releas(ing|ed) ", shown["with"].splitlines()[-1])
    assert "You act next." in shown["why"]
    assert re.search(r"(approved|waiting) \d{4}-", shown["extend"])
    assert len(kubectl) == 1
    assert not [
        claim
        for claim in mira.claims(state=["provisioned", "allocated"], mine=True, profile="slice-10g")
        if claim.info.reason in ("example notebook", "several cells")
    ]


def texts(cell):
    return "\n".join(
        output.get("text") or output["data"].get("text/html") or output["data"]["text/plain"]
        for output in cell.outputs
    )
