"""What the portal hands out to be pasted, before the real API server, its admission and its scheduler."""

import copy
import itertools
from fractions import Fraction
from functools import partial

import httpx
import pytest
import yaml

from claims.claim_page.snippets import KINDS
from cluster.credentials import from_kubeconfig
from cluster.kube import KubeGateway
from cluster.protocol import OPTIONAL
from demo.controlplane.client import eventually, object_path
from dra.manifests import resource_claim, resource_claim_template, to_yaml
from dra.workload_parts import ASSUMED, ClaimUse, WorkloadOptions
from tests.factories import make_spec

pytestmark = pytest.mark.controlplane

_numbers = itertools.count(1)
PLURALS = {"NetworkPolicy": "networkpolicies"}
PRIORITY = "dragoman-low"
OPTIONS = {
    "usual": WorkloadOptions(),
    "as the image wants": WorkloadOptions(restricted=False),
    "all": WorkloadOptions(
        image="registry.example.org:5000/team/train:1.2",
        request="gpu",
        pods=2,
        completions=5,
        port=9000,
        priority=PRIORITY,
        tolerate=("nvidia.com/gpu=present:NoSchedule", "spot:NoExecute"),
        capacity="karpenter.sh/capacity-type=spot",
        isolated=True,
        weights_claim="models",
        cuda="12.9",
    ),
    "weights from an image": WorkloadOptions(
        capacity=ASSUMED, weights_image="registry.example.org/qwen:1", isolated=True
    ),
}
USES = {
    "named": (False, 1),
    "template": (True, 2),
    "share of several requests": (False, 1, (("large", 1), ("small", 1))),
}
MADE = [kind for kind in KINDS if kind.manifests and kind.key != "jupyterhub"]
CORE = [kind for kind in MADE if not kind.requires]


def use_in(namespace, template, parallel, requests=(("gpu", 1),)):
    several = len(requests) > 1
    return ClaimUse(
        "grant", namespace, template, parallel, requests, "nvidia", claim_id="0199a7", separate=several,
        partial=several, memory_part=Fraction(20, 45) if several else Fraction(1),
    )  # fmt: skip


def device_request(name):
    return make_spec(1)["devices"]["requests"][0] | {"name": name}


def pasted(kind, use, options):
    """Return the documents as somebody gets them who pastes the YAML."""
    return list(yaml.safe_load_all(to_yaml(*kind.manifests(use, options))))


def create(admin, content, *, dry):
    kind, namespace = content["kind"], content["metadata"]["namespace"]
    path = object_path(kind, namespace, version=content["apiVersion"])
    plural = PLURALS.get(kind)
    if plural:
        path = path.rpartition("/")[0] + f"/{plural}"
    params = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry else {})
    answer = admin.raw("POST", path, json=content, params=params)
    if answer.is_error:
        raise httpx.HTTPStatusError(answer.text, request=answer.request, response=answer)
    return answer.json()


def pod_specs(content):
    if isinstance(content, dict):
        if "containers" in content:
            yield content
        for inner in content.values():
            yield from pod_specs(inner)


@pytest.fixture(scope="module")
def admin(controlplane):
    return controlplane.client()


@pytest.fixture
def namespace(admin):
    name = f"pasted-{next(_numbers)}"
    admin.create({"kind": "Namespace", "metadata": {"name": name}})
    yield name
    admin.delete("Namespace", name)  # with its Deployments, which would start their pods again


@pytest.fixture(scope="module")
def priority(admin):
    """Pods may name a PriorityClass only if there is one."""
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    made = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": PRIORITY},
        "value": 1,
    }
    admin.raw("POST", path, json=made).raise_for_status()
    yield
    admin.raw("DELETE", f"{path}/{PRIORITY}").raise_for_status()


@pytest.fixture
def restricted(admin, namespace):
    """The namespace takes pods of the standard “restricted” alone."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    admin.patch("Namespace", namespace, {"metadata": {"labels": labels}})
    return namespace


@pytest.mark.parametrize("named", USES)
@pytest.mark.parametrize("chosen", OPTIONS)
def test_the_api_server_takes_every_core_snippet_strictly(admin, namespace, priority, chosen, named):
    use = use_in(namespace, *USES[named])
    for kind in CORE:
        for content in pasted(kind, use, OPTIONS[chosen]):
            answer = create(admin, content, dry=True)
            assert answer["kind"] == content["kind"], kind.key
            for spec in pod_specs(answer):
                assert spec["resourceClaims"][0]["name"] == "gpu"
                for container in spec["containers"]:
                    assert container["resources"]["claims"]
                    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
                    assert "CLAIM_ID" in {row["name"] for row in container["env"]}


@pytest.mark.parametrize("chosen", [name for name, one in OPTIONS.items() if one.restricted])
def test_every_restricted_pod_is_admitted_where_only_such_are(admin, restricted, priority, chosen):
    for named in USES.values():
        for kind in MADE:
            for content in pasted(kind, use_in(restricted, *named), OPTIONS[chosen]):
                for number, spec in enumerate(pod_specs(content)):
                    known = {
                        name: value
                        for name, value in spec.items()
                        if name not in ("minReplicas", "maxReplicas")
                    }
                    pod = {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "metadata": {"name": f"{kind.key}-{number}", "namespace": restricted},
                        "spec": copy.deepcopy(known),
                    }
                    assert create(admin, pod, dry=True)["kind"] == "Pod"


def test_a_pod_that_is_not_restricted_is_refused_there(admin, restricted):
    """The test above could pass for want of the admission plugin."""
    (pod,) = pasted(KINDS[0], use_in(restricted, *USES["named"]), WorkloadOptions(restricted=False))
    with pytest.raises(httpx.HTTPStatusError, match="violates PodSecurity"):
        create(admin, pod, dry=True)


@pytest.mark.parametrize("key", ["pod", "job", "deployment"])
@pytest.mark.parametrize("named", USES)
def test_a_pasted_snippet_runs_until_its_devices_are_allocated(admin, restricted, key, named):
    use = use_in(restricted, *USES[named])
    granted = resource_claim_template if use.template else resource_claim
    spec = {"devices": {"requests": [device_request(name) for name, _count in use.requests]}}
    create(admin, granted("grant", restricted, spec), dry=False)
    kind = next(one for one in KINDS if one.key == key)
    for content in pasted(kind, use, WorkloadOptions()):
        create(admin, content, dry=False)
    pods = use.parallel if use.template and key != "pod" else 1

    def allocated():
        claims = admin.list("ResourceClaim", restricted)
        return len([one for one in claims if one.get("status", {}).get("allocation")]) == pods

    def running():
        phases = [one["status"].get("phase") for one in admin.list("Pod", restricted)]
        return len(phases) == pods and set(phases) <= {"Running", "Succeeded"}

    eventually(allocated, subject=f"{pods} allocated claims of the {key}")
    eventually(running, subject=f"{pods} running pods of the {key}")
    if key != "pod":
        version, plural = ("batch/v1", "jobs") if key == "job" else ("apps/v1", "deployments")
        name = f"grant-{key}"
        admin.raw(
            "DELETE",
            f"/apis/{version}/namespaces/{restricted}/{plural}/{name}",
            params={"propagationPolicy": "Background", "gracePeriodSeconds": "0"},
        ).raise_for_status()


def definition(kind):
    """Return a CustomResourceDefinition of that name that takes anything below spec."""
    whatever = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": whatever}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"plural": kind.plural, "singular": kind.kind.lower(), "kind": kind.kind},
            "versions": [version],
        },
    }


def test_kinds_of_operators_are_offered_where_the_cluster_serves_them_and_taken_there(
    admin, namespace, controlplane, priority
):
    gateway = KubeGateway(from_kubeconfig(controlplane.kubeconfig("portal")))
    keys = {f"{kind.api_version}/{kind.plural}" for kind in OPTIONAL}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

    def offered():
        served = gateway.discover().kinds
        return {
            one.key for one in MADE if one.requires and one.is_offered(use, WorkloadOptions(), sorted(served))
        }

    use = use_in(namespace, *USES["template"])
    try:
        assert not keys & gateway.discover().kinds
        assert offered() == set()
        for kind in OPTIONAL:
            admin.raw("POST", path, json=definition(kind)).raise_for_status()
        eventually(lambda: keys <= gateway.discover().kinds, subject="the kinds of operators")
        assert offered() == {"kubeflow-notebook", "kserve", "pytorchjob"}
        for made in (one for one in MADE if one.requires):
            for options in OPTIONS.values():
                for content in pasted(made, use, options):
                    eventually(partial(taken, admin, content), subject=made.key)
    finally:
        for kind in OPTIONAL:
            admin.raw("DELETE", f"{path}/{kind.plural}.{kind.group}")
        gateway.close()
    eventually(lambda: not admin.raw("GET", path).json()["items"], subject="the end of the definitions")


def taken(admin, content):
    """None while the server does not serve a new definition yet, which it may say it does a moment before."""
    try:
        return create(admin, content, dry=True)
    except httpx.HTTPStatusError as refusal:
        if refusal.response.status_code == 404:
            return None
        raise
