"""What the README tells a stranger to do works as it is written there."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import expect

from tests import patience
from tests.demo.running import ROOT
from tests.kubectl import on_path

pytestmark = pytest.mark.browser


PORTAL = "http://127.0.0.1:8000"
README = (ROOT / "README.md").read_text()


def test_the_notebook_cell_asks_for_a_gpu_waits_for_it_and_gives_it_back(simulated, capsys):
    (cell,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    cell = cell.replace(PORTAL, simulated.url).replace("drg_…", simulated.token("engineer"))
    names: dict[str, Any] = {}
    exec(compile(cell, "README.md", "exec"), names)
    said = capsys.readouterr().out
    assert said.startswith("provisioned ")
    assert "kind: Pod" in said
    assert names["claim"].state in ("releasing", "released")
    names["client"].close()


def test_the_commands_request_a_gpu_and_give_it_back(simulated, tmp_path):
    (commands,) = re.findall(r"```console\n(dragoman login .*?)```", README, re.DOTALL)
    (tmp_path / "token").write_text(simulated.token("engineer"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    done = subprocess.run(
        ["bash", "-ec", commands.replace(PORTAL, simulated.url)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=patience.COMMAND,
    )
    assert done.returncode == 0, done.stderr
    assert "state    releas" in done.stdout
    assert "kind: Job" in (tmp_path / "job.yaml").read_text()


def test_steps_of_try_it_lead_to_a_pod_without_a_reload(simulated, people, tmp_path):
    """The four numbered steps, click by click; the words in bold are the names of what is clicked."""
    steps = re.findall(r"^\d\. (.*?)(?=^\d\. |^$)", README, re.DOTALL | re.MULTILINE)
    clicks = [re.findall(r"\*\*([^*]+)\*\*", " ".join(step.split())) for step in steps]
    assert clicks == [["Catalogue", "Request"], ["Approvals"], ["Start it here", "Release"], ["Fleet"]]

    mira, aylin = people("engineer"), people("lead")
    mira.page.goto("/")
    mira.page.get_by_role("link", name="Catalogue", exact=True).first.click()
    card = mira.page.locator(".card, article, tr").filter(has_text="Train 80 GB").last
    card.get_by_role("link", name=re.compile("^Request")).first.click()
    mira.page.get_by_label("Claim name").fill("first-steps")
    mira.page.get_by_label("Purpose").fill("The steps of the README.")
    mira.asked.append("first-steps")
    mira.page.locator("#send").click()
    mira.sees_state("Waiting for approval")

    aylin.page.goto("/")
    aylin.page.get_by_role("link", name=re.compile("^Approvals")).first.click()
    aylin.approve("first-steps")

    mira.sees_state("Waiting for a pod")
    expect(mira.page.get_by_text("nothing is billed").first).to_be_visible()
    mira.page.get_by_role("button", name="Start it here").click()
    expect(mira.page.get_by_text(re.compile("was created in the simulated cluster"))).to_be_visible()
    mira.sees_state("Allocated")
    expect(mira.page.locator("#claim-devices").get_by_text(re.compile("^GPU-"))).to_be_visible()
    pod = mira.snippet("Pod")
    kubectl(simulated, pod, "delete", tmp_path)
    mira.sees_state("Waiting for a pod")
    kubectl(simulated, pod, "apply", tmp_path)  # as the block of commands below the steps
    mira.sees_state("Allocated")
    kubectl(simulated, pod, "delete", tmp_path)
    mira.release()
    mira.sees_state("Releas")

    lukas, theo = people("admin"), people("outsider")
    lukas.page.goto("/")
    lukas.page.get_by_role("link", name="Fleet", exact=True).first.click()
    expect(lukas.page.get_by_role("heading", level=1, name="Fleet")).to_be_visible()
    theo.page.goto("/claims/?q=first-steps")
    expect(theo.page.get_by_role("link", name="first-steps", exact=True)).to_have_count(0)


def kubectl(demo, pod, verb, folder):
    """Run the block of the README with the file that the demo names when it is ready."""
    (block,) = re.findall(r"```console\n(export KUBECONFIG=.*?)```", README, re.DOTALL)
    (printed,) = [line for line in demo.lines if "export KUBECONFIG=" in line]
    named = re.search(r"KUBECONFIG=(\S+)", printed)[1]
    cluster = "fra-1"
    assert named == str(demo.home / "sim" / "clusters" / f"{cluster}.people.kubeconfig")
    block = block.replace("$PWD/.demo", str(demo.home)).replace("kubectl apply", f"kubectl {verb}")
    done = subprocess.run(
        ["bash", "-ec", block],
        input=yaml.safe_dump(pod),
        env=os.environ | {"PATH": on_path(folder)},
        capture_output=True,
        text=True,
        timeout=patience.COMMAND,
    )
    assert done.returncode == 0, done.stderr
    assert pod["metadata"]["name"] in done.stdout


def test_every_picture_of_the_readme_is_there():
    named = re.findall(r"\]\((docs/pictures/[^)]+)\)", README)
    assert len(named) >= 5
    assert [name for name in named if not (ROOT / name).exists()] == []
