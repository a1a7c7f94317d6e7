"""JupyterHub with KubeSpawner gives each server a claim, on a real control plane."""

import json
import os
import subprocess
import sys

import pytest

from cluster.credentials import from_kubeconfig, seal
from cluster.kube import connect
from cluster.protocol import POD
from tests import patience
from tests.demo.running import ROOT

pytestmark = pytest.mark.controlplane


@pytest.fixture
def mira(real, client_of):
    return client_of(real, "engineer")


@pytest.fixture
def hub(real, mira, tmp_path):
    """Return a function that starts a hub with a server of a profile; it reads steps and lets it stop."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(real.kubeconfig("alice"))
    running = []

    class Started:
        def __init__(self, profile):
            self.mark = tmp_path / "stop"
            environment = os.environ | {
                "KUBECONFIG": str(kubeconfig),
                "DRAGOMAN_URL": real.url,
                "DRAGOMAN_TOKEN": mira.settings.token,
            }
            self.log = (tmp_path / "log").open("w+")
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.clients.hub", profile, str(self.mark)],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=self.log,
                text=True,
            )
            running.append(self)

        def reads(self, step):
            for line in self.process.stdout:
                said = json.loads(line)
                if said["step"] == step:
                    return said
            self.log.seek(0)
            raise AssertionError(f"The hub ended before “{step}”:\n{self.log.read()[-4000:]}")

    yield Started
    for started in running:
        started.process.kill()
        started.process.wait()
        started.process.stdout.close()
        started.log.close()


@pytest.fixture
def alice(real):
    gateway = connect(seal(from_kubeconfig(real.kubeconfig("alice"))))
    yield gateway
    gateway.close()


def test_a_server_holds_a_device_of_its_claim_and_gives_it_back(hub, mira, alice):
    started = hub("slice-10g")
    options = started.reads("options")["options"]
    assert options[0] == "without-gpu"
    assert "slice-10g" in options
    assert "train-80g" not in options  # needs approval
    assert started.reads("form")["shown"]
    claim = mira.get(started.reads("requested")["claim"])
    assert claim.name.startswith("jupyter-mira-")
    assert claim.info.duration == 8 * 3600
    server = started.reads("started")

    info = claim.wait("allocated", timeout=patience.SCHEDULER)
    assert len(info.allocations) == 1
    pod = alice.get(POD, server["pod"], namespace="vision")
    assert pod["spec"]["resourceClaims"] == [{"name": "gpu", "resourceClaimName": claim.name}]
    (container,) = pod["spec"]["containers"]
    assert container["resources"] == {
        "claims": [{"name": "gpu"}],
        "limits": {"memory": "2147483648"},
        "requests": {"cpu": "500m", "memory": "2147483648"},
    }
    assert {"name": "WANDB_TAGS", "value": f"dragoman.claim={claim.id}"} in container["env"]
    assert pod["metadata"]["labels"]["own-hook"] == "ran"
    assert pod["status"]["phase"] == "Running"

    started.mark.touch()
    started.reads("stopped")
    assert claim.refresh().state in ("releasing", "released")
    assert claim.info.state != "allocated"


def test_a_server_without_a_gpu_has_no_claim(hub, mira, alice):
    started = hub("without-gpu")
    assert started.reads("requested")["claim"] is None
    pod = alice.get(POD, started.reads("started")["pod"], namespace="vision")
    assert "resourceClaims" not in pod["spec"]
    started.mark.touch()
    started.reads("stopped")
