"""What is not YAML: commands, a notebook cell, and the configuration of a JupyterHub."""

import json
from shlex import quote

from claims.manifests import CLAIM_LABEL, kind_of
from claims.models import Claim
from dra import workloads
from dra.workloads import Options, Use, hub
from dra.workloads.pods import name_of

# Waits by long polling: the answer comes as soon as the claim has changed.
CELL = """\
import os, requests

portal = requests.Session()
portal.headers["Authorization"] = f"Bearer {{os.environ['DRAGOMAN_TOKEN']}}"
address = {address!r}
claim = portal.get(address).json()
while claim["state"] in ("requested", "approved", "provisioned"):
    print(portal.get(address + "explain/").json()["sentence"])
    claim = portal.get(address, params={{"wait": 25, "version": claim["version"]}}).json()
for device in claim["allocations"]:
    print(device["node_name"], device["device"], device["product"], device["uuid"])
"""


def script_of(key: str, claim: Claim, use: Use, options: Options, *, base_url: str) -> str:
    """Return the text of "kubectl", "notebook" or "jupyterhub-config"."""
    if key == "kubectl":
        return commands(claim, use, options)
    if key == "notebook":
        return CELL.format(address=f"{base_url}/api/v1/claims/{claim.pk}/")
    return hub.config(use, options)


def commands(claim: Claim, use: Use, options: Options) -> str:
    """Return kubectl for each step: look, run, reach, read, clear away."""
    kubectl = f"kubectl -n {quote(use.namespace)}"
    (pod, *_policy) = workloads.pod(use, options)
    name, shell = pod["metadata"]["name"], name_of(use, "shell")
    inner = pod["spec"]
    (container,) = inner["containers"]
    inner["containers"] = [container | {"name": shell, "stdin": True, "tty": True, "command": ["sh"]}]
    overrides = quote(json.dumps({"apiVersion": "v1", "spec": inner}))
    return "\n".join(
        [
            "# What is granted, and what is held",
            f"{kubectl} get {kind_of(claim.delivery).plural} {quote(claim.name)} -o yaml",
            f"{kubectl} get resourceclaims -l {CLAIM_LABEL}={claim.pk}",
            "# The manifest of the tab Pod",
            f"{kubectl} apply -f {claim.name}-pod.yaml",
            f"{kubectl} wait --for=condition=Ready pod/{name} --timeout=10m",
            f"{kubectl} logs -f {name}",
            "# A shell with the devices, gone when you leave it",
            f"{kubectl} run {shell} -it --rm --restart=Never --image={quote(container['image'])} \\",
            f"  --overrides={overrides}",
            "# Devices go back when the last pod is gone",
            f"{kubectl} delete pod {name}",
            "",
        ]
    )
