"""What a person pastes to use a claim: pod, Job, kubectl and a notebook cell."""

from dataclasses import dataclass

from django.utils.translation import gettext as _

from claims import manifests
from claims.models import Claim
from dra.manifests import to_yaml


@dataclass(frozen=True, slots=True)
class Snippet:
    key: str  # "pod", "job", "kubectl", "notebook"
    title: str
    language: str  # "yaml", "shell", "python"
    text: str


def snippets_of(claim: Claim, *, base_url: str) -> list[Snippet]:
    """Return the snippets of a claim; `base_url` is that of the portal, without a slash at its end."""
    return [
        Snippet("pod", _("Pod"), "yaml", to_yaml(manifests.pod_of(claim))),
        Snippet("job", _("Job"), "yaml", to_yaml(manifests.job_of(claim))),
        Snippet("kubectl", "kubectl", "shell", KUBECTL.format(**_words(claim))),
        Snippet("notebook", _("Notebook"), "python", NOTEBOOK.format(**_words(claim), url=base_url)),
    ]


def _words(claim: Claim) -> dict[str, object]:
    return {
        "id": claim.pk,
        "name": claim.name,
        "namespace": claim.namespace,
        "plural": manifests.kind_of(claim.delivery).plural,
        "pod": manifests.pod_of(claim)["metadata"]["name"],
    }


KUBECTL = """\
kubectl -n {namespace} get {plural} {name} -o yaml
kubectl -n {namespace} apply -f pod.yaml
kubectl -n {namespace} get resourceclaims -l gpu.dragoman.dev/claim={id}
kubectl -n {namespace} logs {pod}
"""

# Waits by long polling: the answer comes as soon as the claim has changed.
NOTEBOOK = """\
import os, requests

portal = requests.Session()
portal.headers["Authorization"] = f"Bearer {{os.environ['DRAGOMAN_TOKEN']}}"
address = "{url}/api/v1/claims/{id}/"
claim = portal.get(address).json()
while claim["state"] in ("requested", "approved", "provisioned"):
    print(portal.get(address + "explain/").json()["sentence"])
    claim = portal.get(address, params={{"wait": 25, "version": claim["version"]}}).json()
for device in claim["allocations"]:
    print(device["node_name"], device["device"], device["product"], device["uuid"])
"""
