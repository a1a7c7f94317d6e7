"""What an import makes of manifests that people publish, before the real API server, strictly."""

import copy
import itertools

import httpx
import pytest

from claims.requests.manifest_specs import read_documents, requested_specs
from core.yaml_documents import read_yaml
from demo.controlplane.client import object_path
from tests.claims.requests.published_manifests import FILES, pods_in

pytestmark = pytest.mark.controlplane

_numbers = itertools.count(1)
PLURALS = {"DeviceClass": "deviceclasses"}
CORE = ("v1", "apps/v1", "batch/v1", "resource.k8s.io/v1")


@pytest.fixture(scope="module")
def admin(controlplane):
    return controlplane.client()


@pytest.fixture(scope="module")
def namespace(admin):
    name = f"imported-{next(_numbers)}"
    admin.create({"kind": "Namespace", "metadata": {"name": name}})
    yield name
    admin.delete("Namespace", name)


def send(admin, manifest, namespace):
    """Return the answer to a strict dry run of an object."""
    content = copy.deepcopy(manifest)
    where = None if content["kind"] == "DeviceClass" else namespace
    if where:
        content["metadata"]["namespace"] = where
    path = object_path(content["kind"], where, version=content["apiVersion"])
    if content["kind"] in PLURALS:
        path = path.rpartition("/")[0] + f"/{PLURALS[content['kind']]}"
    return admin.raw("POST", path, json=content, params={"fieldValidation": "Strict", "dryRun": "All"})


def as_taken(manifest):
    """Return an object that the server knows, or the pods of one that it does not."""
    if manifest.get("apiVersion") in CORE:
        return [manifest]
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{number}"}, "spec": spec}
        for number, spec in enumerate(pods_in(manifest))
    ]


def refusals(admin, manifests, namespace):
    answers = [send(admin, one, namespace) for manifest in manifests for one in as_taken(manifest)]
    return [answer.json()["message"] for answer in answers if answer.is_error]


@pytest.mark.parametrize("name", FILES)
def test_converted_file_is_taken_by_a_strict_dry_run(admin, namespace, name):
    imported = requested_specs(read_documents(FILES[name], name), name)
    assert imported.manifests
    refused = refusals(admin, imported.manifests, namespace)
    problems = [problem for spec in imported.specs for problem in spec.problems]
    if not problems:
        assert refused == []
        return
    assert len(refused) == len(problems)  # and the text that is offered instead is taken
    _said, right = problems[0].split(" Try: ")
    for manifest in imported.manifests:
        for request in manifest["spec"]["devices"]["requests"]:
            request["exactly"]["selectors"] = [{"cel": {"expression": right}}]
    assert refusals(admin, imported.manifests, namespace) == []


def test_file_as_published_is_refused_in_many_cases(admin, namespace):
    """Otherwise the test above could pass for want of strictness."""
    refused = 0
    for name, text in FILES.items():
        for _node, manifest in read_yaml(text, name):
            if manifest.get("apiVersion") in CORE[:3] and manifest["kind"] in ("Job", "Pod"):
                try:
                    refused += send(admin, manifest, namespace).is_error
                except httpx.HTTPError:
                    refused += 1
    assert refused >= 2
