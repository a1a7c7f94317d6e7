"""The admission policies on the real control plane: what each refuses, and that claims live on under all."""

import itertools
from collections.abc import Iterator

import httpx
import pytest
import yaml

from cluster.policies import ACCOUNT, MODE, POLICIES, PolicyAction, manifests, to_yaml
from core.errors import Invalid
from demo.controlplane.client import ALICE, PORTAL, Client, eventually, may_edit
from demo.controlplane.harness import ControlPlane

PATH = "/apis/admissionregistration.k8s.io/v1/"
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
OURS = {"gpu.dragoman.dev/claim": "0190"}
_numbers = itertools.count(1)
real = pytest.mark.controlplane


def test_the_file_says_where_it_acts_and_holds_a_policy_and_a_binding_each():
    text = to_yaml(POLICIES)
    assert text.startswith("# Acts in namespaces with the label gpu.dragoman.dev/gpu-mode=dra-only:")
    found = [item for item in yaml.safe_load_all(text) if item]
    assert [item["metadata"]["name"] for item in found] == [name for name in POLICIES for _ in range(2)]
    assert found == manifests()


@pytest.mark.parametrize("account", ["", "a' || true || 'b", "two words", "a" * 300])
def test_what_is_no_user_name_makes_no_policy(account):
    with pytest.raises(Invalid, match="is not the name of a user"):
        manifests(account=account)


def spec(count: int = 1) -> dict[str, object]:
    fields = {"deviceClassName": "gpu.nvidia.com", "count": count}
    return {"devices": {"requests": [{"name": "gpu", "exactly": fields}]}}


class Place:
    """A namespace in which the policies act, or not."""

    def __init__(self, admin: Client, alice: Client, *, labeled: bool) -> None:
        self.name = name = f"policies-{next(_numbers)}"
        labels = dict([MODE]) if labeled else {}
        admin.create({"kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        admin.create(may_edit(ALICE, name))
        eventually(
            lambda: self.tries(alice, self.pod("try")).status_code == 201, subject="the rights of alice"
        )

    def tries(self, someone: Client, manifest: dict[str, object]) -> httpx.Response:
        """Ask whether this could be created, and create nothing."""
        path = "/api/v1" if manifest["kind"] == "Pod" else "/apis/resource.k8s.io/v1"
        url = f"{path}/namespaces/{self.name}/{str(manifest['kind']).lower()}s"
        return someone.raw("POST", url, json=manifest, params={"dryRun": "All"})

    def claim(self, name: str, **labels: str) -> dict[str, object]:
        metadata = {"name": name, "namespace": self.name, "labels": labels}
        return {"kind": "ResourceClaim", "metadata": metadata, "spec": spec()}

    def template(self, name: str) -> dict[str, object]:
        metadata = {"name": name, "namespace": self.name, "labels": OURS}
        inner = {"metadata": {"labels": OURS}, "spec": spec()}
        return {"kind": "ResourceClaimTemplate", "metadata": metadata, "spec": inner}

    def pod(self, name: str, *, init: bool = False, wants: str = "", **claim: str) -> dict[str, object]:
        plain = {"name": "main", "image": "registry.example/none"}
        asking = {**plain, "name": "asks", "resources": {"limits": {wants: "1"}}} if wants else {}
        body: dict[str, object] = {"containers": [plain]}
        if wants:
            body |= {"initContainers": [asking]} if init else {"containers": [asking]}
        if claim:
            body["resourceClaims"] = [{"name": "gpu", **claim}]
        return {"kind": "Pod", "metadata": {"name": name, "namespace": self.name}, "spec": body}


def refused(call, manifest: dict[str, object]) -> str:
    with pytest.raises(httpx.HTTPStatusError) as refusal:
        call(manifest)
    assert refusal.value.response.status_code == 403, refusal.value
    message: str = refusal.value.response.json()["message"]
    return message


@pytest.fixture(scope="module")
def admin(controlplane: ControlPlane) -> Client:
    return controlplane.client()


@pytest.fixture(scope="module")
def portal(controlplane: ControlPlane) -> Client:
    return controlplane.client(PORTAL)


@pytest.fixture(scope="module")
def alice(controlplane: ControlPlane) -> Client:
    return controlplane.client(ALICE)


@pytest.fixture(scope="module")
def place(admin: Client, alice: Client, portal: Client) -> Iterator[Place]:
    """A namespace in which all three are at work: an API server takes a moment to act on a new policy."""
    for item in manifests():
        answer = admin.raw(
            "POST", PATH + PLURALS[item["kind"]], json=item, params={"fieldValidation": "Strict"}
        )
        assert answer.status_code == 201, answer.text
    place = Place(admin, alice, labeled=True)

    def acts(manifest: dict[str, object]) -> bool:
        return "GPU portal" in place.tries(alice, manifest).text

    eventually(lambda: acts(place.pod("try", wants="nvidia.com/gpu")), subject="the policy on pods")
    eventually(lambda: acts(place.claim("try")), subject="the policy on claims")
    portal.create(place.claim("probe", **OURS))
    url = f"/apis/resource.k8s.io/v1/namespaces/{place.name}/resourceclaims/probe"
    dry = {"dryRun": "All"}
    eventually(
        lambda: "belongs to" in alice.raw("DELETE", url, params=dry).text, subject="the policy on labels"
    )
    yield place
    for item in reversed(manifests()):
        admin.raw("DELETE", f"{PATH}{PLURALS[item['kind']]}/{item['metadata']['name']}")


@real
@pytest.mark.parametrize(
    "wants",
    [
        "nvidia.com/gpu",
        "nvidia.com/mig-1g.10gb",
        "amd.com/gpu",
        "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
    ],
)
@pytest.mark.parametrize("init", [False, True])
def test_gpus_by_number_are_refused(place, alice, wants, init):
    assert "ask the GPU portal for a claim" in refused(alice.create, place.pod("p", wants=wants, init=init))


@real
def test_pods_without_gpus_and_pods_with_a_claim_pass(place, alice):
    alice.create(place.pod("cpu"))
    alice.create(place.pod("with-claim", resourceClaimName="of-nobody"))


@real
def test_claims_and_templates_are_made_by_the_portal_alone(place, alice, admin, portal):
    for someone, name in ((alice, ALICE), (admin, "admin")):
        said = refused(someone.create, place.claim("by-hand"))
        assert f"made by the GPU portal, not by {name}" in said
    refused(alice.create, place.template("by-hand"))
    portal.create(place.claim("of-the-portal", **OURS))


@real
def test_what_carries_the_labels_of_the_portal_is_changed_by_it_alone(place, alice, portal):
    portal.create(place.claim("labeled", **OURS))
    for change in (
        {"metadata": {"labels": {"gpu.dragoman.dev/claim": None}}},
        {"metadata": {"labels": {"a": "b"}}},
    ):
        with pytest.raises(httpx.HTTPStatusError, match="belongs to the GPU portal"):
            alice.patch("ResourceClaim", "labeled", change, place.name)
    with pytest.raises(httpx.HTTPStatusError, match="Release the claim in the portal"):
        alice.delete("ResourceClaim", "labeled", place.name)
    portal.patch("ResourceClaim", "labeled", {"metadata": {"labels": {"a": "b"}}}, place.name)
    assert portal.delete("ResourceClaim", "labeled", place.name)


@real
def test_claims_are_allocated_generated_released_and_cleaned_up_under_all_three(place, alice, portal, admin):
    portal.create(place.claim("named", **OURS))
    portal.create(place.template("each"))
    alice.create(place.pod("uses-named", resourceClaimName="named"))
    alice.create(place.pod("uses-each", resourceClaimTemplateName="each"))

    def held() -> set[str]:
        found = admin.list("ResourceClaim", place.name)
        return {
            one["metadata"].get("generateName", one["metadata"]["name"])
            for one in found
            if (one.get("status") or {}).get("reservedFor")
        }

    eventually(lambda: held() >= {"named", "uses-each-gpu-"}, subject="both claims held")
    for name in ("uses-named", "uses-each"):
        alice.delete("Pod", name, place.name)

    def left() -> bool:
        claims = admin.list("ResourceClaim", place.name)
        generated = [one for one in claims if one["metadata"].get("ownerReferences")]
        named = next(one for one in claims if one["metadata"]["name"] == "named")
        return not generated and not (named.get("status") or {}).get("allocation")

    eventually(left, subject="the generated claim gone and the named one free")
    assert portal.delete("ResourceClaim", "named", place.name)
    eventually(lambda: admin.get("ResourceClaim", "named", place.name) is None, subject="the claim gone")


@real
def test_a_namespace_without_the_label_is_left_alone(place, admin, alice):
    free = Place(admin, alice, labeled=False)
    alice.create(free.pod("p", wants="nvidia.com/gpu"))
    alice.create(free.claim("by-hand", **OURS))
    assert alice.delete("ResourceClaim", "by-hand", free.name)
    assert admin.delete(
        "Pod", "p", free.name
    )  # it has a claim of its own, and perhaps the GPU of another test
    eventually(lambda: not admin.list("ResourceClaim", free.name), subject="the release of its GPU")


@real
def test_a_namespace_is_emptied_when_it_is_deleted(place, admin, alice, portal):
    other = Place(admin, alice, labeled=True)
    portal.create(other.claim("left", **OURS))
    assert admin.delete("Namespace", other.name)
    eventually(lambda: admin.get("ResourceClaim", "left", other.name) is None, subject="the claim gone")


@real
def test_warn_mode_admits_with_a_warning(place, admin, alice):
    bindings = [item for item in manifests(action=PolicyAction.WARN) if "policyName" in item["spec"]]
    loose = Place(admin, alice, labeled=False)
    label = {"metadata": {"labels": {"try": loose.name}}}
    admin.patch("Namespace", loose.name, label)
    for item in bindings:
        item["metadata"]["name"] = f"warn-{item['metadata']['name']}"
        item["spec"]["matchResources"]["namespaceSelector"] = {"matchLabels": {"try": loose.name}}
        assert admin.raw("POST", PATH + PLURALS[item["kind"]], json=item).status_code == 201

    def warned() -> bool:
        answer = loose.tries(alice, loose.pod("p", wants="nvidia.com/gpu"))
        return answer.status_code == 201 and "ask the GPU portal" in answer.headers.get("Warning", "")

    eventually(warned, subject="a warning")
    for item in bindings:
        admin.raw("DELETE", f"{PATH}{PLURALS[item['kind']]}/{item['metadata']['name']}")


def test_the_account_is_that_of_the_printed_role():
    assert ACCOUNT == "system:serviceaccount:dragoman:dragoman"
