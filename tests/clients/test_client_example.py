"""Each cell of the example notebook is executed by a kernel, on a real control plane and in the demo."""

import re

import nbformat
import pytest
from nbclient import NotebookClient

from tests import patience
from tests.demo.running import ROOT
from tests.kubectl import on_path

EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
@pytest.mark.controlplane
def test_notebook_runs_as_written_on_a_real_control_plane(file, real, client_of, tmp_path, monkeypatch):
    run_all(file, real, client_of, real.kubeconfig("alice"), tmp_path, monkeypatch)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_notebook_runs_as_written_in_the_simulated_demo(file, simulated, client_of, tmp_path, monkeypatch):
    run_all(file, simulated, client_of, simulated.kubeconfig("people", "lab-2"), tmp_path, monkeypatch)


def run_all(file, demo, client_of, kubeconfig, tmp_path, monkeypatch):
    """Run each cell with the kubeconfig of people, as “Run All” does, and look at what was shown."""
    mira = client_of(demo, "engineer")
    (tmp_path / "kubeconfig").write_text(kubeconfig)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setenv("PATH", on_path(tmp_path))
    monkeypatch.setenv("DRAGOMAN_URL", demo.url)
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
    assert re.search(r"pod/\S+ created", shown["with"])
    assert re.search(r'pod "\S+" deleted', shown["with"])
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
