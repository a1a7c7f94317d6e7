"""Create, apply, patch, delete: strictness, ownership, immutability, in the words of Kubernetes 1.37."""

import json

import pytest

from tests.simulator.conftest import APPLY, CLAIMS, DRA, MERGE, TEMPLATES, created, make_claim, make_template

REQUIRED = "Required value: exactly one of `exactly` or `firstAvailable` is required"
STRICT = {"fieldValidation": "Strict"}


def apply(client, claim, *, manager="dragoman", **query):
    path = f"{CLAIMS}/{claim['metadata']['name']}"
    return client.patch(
        path, content=json.dumps(claim), headers=APPLY, params={"fieldManager": manager, **query}
    )


def causes(answer):
    return [(cause["field"], cause["message"]) for cause in answer.json()["details"]["causes"]]


def test_a_created_claim_has_its_defaults(portal):
    made = created(portal.post(CLAIMS, json=make_claim("a"), params=STRICT))
    assert made["spec"]["devices"]["requests"][0]["exactly"] == {
        "deviceClassName": "gpu.nvidia.com",
        "allocationMode": "ExactCount",
        "count": 1,
    }
    assert made["status"] == {}
    assert made["metadata"]["creationTimestamp"] == "2026-11-21T08:00:00Z"
    assert "generation" not in made["metadata"]


def test_generated_names_get_five_characters(portal):
    claim = make_claim("")
    claim["metadata"] = {"generateName": "run-"}
    name = created(portal.post(CLAIMS, json=claim))["metadata"]["name"]
    assert name.startswith("run-")
    assert len(name) == 9


@pytest.mark.parametrize("given", [make_claim("a"), make_claim("a", count=3)])
def test_creating_twice_is_a_conflict(portal, given):
    created(portal.post(CLAIMS, json=make_claim("a")))
    answer = portal.post(CLAIMS, json=given)
    assert (answer.status_code, answer.json()["reason"]) == (409, "AlreadyExists")
    assert answer.json()["message"] == 'resourceclaims.resource.k8s.io "a" already exists'


def test_unknown_fields_are_refused_strictly_and_dropped_with_a_warning_otherwise(portal):
    wrong = make_claim("a")
    wrong["spec"]["x"] = 1
    wrong["spec"]["devices"]["requests"][0]["deviceClassName"] = "flat"
    refused = portal.post(CLAIMS, json=wrong, params=STRICT)
    assert refused.status_code == 400
    assert refused.json()["message"] == (
        'ResourceClaim in version "v1" cannot be handled as a ResourceClaim: strict decoding error: '
        'unknown field "spec.devices.requests[0].deviceClassName", unknown field "spec.x"'
    )
    taken = portal.post(CLAIMS, json=wrong)
    assert 'unknown field \\"spec.x\\"' in taken.headers["warning"]
    assert "x" not in created(taken)["spec"]


def test_a_value_of_another_type_is_400(portal):
    answer = portal.post(CLAIMS, json=make_claim("a", count="two"))
    assert answer.status_code == 400
    assert "json: cannot unmarshal string into Go struct field" in answer.json()["message"]


def test_a_template_is_as_strict(portal):
    wrong = make_template("t")
    wrong["spec"]["foo"] = 1
    assert 'unknown field "spec.foo"' in portal.post(TEMPLATES, json=wrong, params=STRICT).text.replace(
        "\\", ""
    )
    created(portal.post(TEMPLATES, json=make_template("t", labels={"a": "b"}), params=STRICT))
    changed = {"spec": {"metadata": {"labels": {"a": "c"}}}}
    answer = portal.patch(f"{TEMPLATES}/t", json=changed, headers=MERGE)
    assert answer.status_code == 422
    assert "field is immutable" in answer.json()["message"]


@pytest.mark.parametrize(
    ("requests", "field", "why"),
    [
        (
            [{"name": "gpu"}],
            "spec.devices.requests[0]",
            REQUIRED,
        ),
        (
            [{"name": "gpu", "exactly": {"deviceClassName": "a", "count": -1}}],
            "spec.devices.requests[0].exactly.count",
            "Invalid value: -1: must be greater than zero",
        ),
        (
            [{"name": "gpu", "exactly": {"deviceClassName": "a", "allocationMode": "All", "count": 2}}],
            "spec.devices.requests[0].exactly.count",
            "Invalid value: 2: must not be specified when allocationMode is 'All'",
        ),
        (
            [{"name": "gpu", "exactly": {"deviceClassName": "a", "allocationMode": "Some"}}],
            "spec.devices.requests[0].exactly.allocationMode",
            'Unsupported value: "Some": supported values: "All", "ExactCount"',
        ),
        (
            [{"name": "gpu", "exactly": {"deviceClassName": ""}}],
            "spec.devices.requests[0].exactly.deviceClassName",
            "Required value",
        ),
        (
            [{"name": "gpu", "exactly": {"deviceClassName": "a", "adminAccess": True}}],
            "spec.devices.requests[0].adminAccess",
            "Forbidden: admin access to devices requires the "
            "`resource.kubernetes.io/admin-access: true` label on the containing namespace",
        ),
    ],
)
def test_what_is_invalid_is_named_with_field_and_reason(portal, requests, field, why):
    claim = make_claim("a")
    claim["spec"]["devices"]["requests"] = requests
    answer = portal.post(CLAIMS, json=claim)
    assert answer.status_code == 422
    assert causes(answer) == [(field, why)]


def test_a_selector_that_does_not_compile_is_refused(portal):
    answer = portal.post(
        CLAIMS, json=make_claim("a", selectors=[{"cel": {"expression": "device.attributes["}}])
    )
    ((field, why),) = causes(answer)
    assert field == "spec.devices.requests[0].exactly.selectors[0].cel.expression"
    assert "compilation failed" in why


def test_what_the_real_server_forgets_to_check_passes_here_too(portal):
    created(portal.post(CLAIMS, json=make_claim("a", deviceClassName="nobody-has-this", count=33)))


def test_a_dry_run_leaves_nothing_behind(portal):
    made = created(portal.post(CLAIMS, json=make_claim("a"), params={"dryRun": "All"}))
    assert made["metadata"]["uid"]
    assert portal.get(f"{CLAIMS}/a").status_code == 404
    assert portal.post(CLAIMS, json=make_claim("a"), params={"dryRun": "Some"}).status_code == 422


def test_a_missing_namespace_is_named(portal):
    answer = portal.post(CLAIMS.replace("vision", "nowhere"), json=make_claim("a"))
    assert answer.status_code == 404
    assert answer.json()["message"] == 'namespaces "nowhere" not found'


def test_applying_again_changes_nothing(portal):
    first = created(apply(portal, make_claim("a"), **STRICT))
    second = apply(portal, make_claim("a"), **STRICT)
    assert second.status_code == 200
    assert second.json()["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_applying_drops_the_labels_left_out_and_keeps_those_of_others(portal):
    claim = make_claim("a")
    claim["metadata"]["labels"] = {"mine": "1", "also": "2"}
    created(apply(portal, claim))
    portal.patch(f"{CLAIMS}/a", json={"metadata": {"labels": {"theirs": "3"}}}, headers=MERGE)
    claim["metadata"]["labels"] = {"mine": "1"}
    assert apply(portal, claim).json()["metadata"]["labels"] == {"mine": "1", "theirs": "3"}


def test_another_managers_field_is_a_conflict_unless_forced(portal):
    claim = make_claim("a")
    claim["metadata"]["labels"] = {"a": "1"}
    created(apply(portal, claim))
    bare = {key: claim[key] for key in ("apiVersion", "kind")} | {
        "metadata": {"name": "a", "labels": {"a": "2"}}
    }
    refused = apply(portal, bare, manager="other")
    assert refused.status_code == 409
    assert refused.json()["message"] == (
        'Apply failed with 1 conflict: conflict with "dragoman": .metadata.labels.a'
    )
    forced = apply(portal, bare, manager="other", force="true")
    assert forced.json()["metadata"]["labels"] == {"a": "2"}
    assert forced.json()["spec"] == portal.get(f"{CLAIMS}/a").json()["spec"]


def test_the_spec_of_a_claim_is_immutable(portal):
    created(apply(portal, make_claim("a")))
    answer = apply(portal, make_claim("a", count=2))
    assert answer.status_code == 422
    assert causes(answer) == [("spec", "Invalid value: null: field is immutable")]


def test_an_unknown_field_in_an_apply_is_a_500_as_on_the_real_server(portal):
    wrong = make_claim("a")
    wrong["spec"]["x"] = 1
    answer = apply(portal, wrong, **STRICT)
    assert answer.status_code == 500
    assert answer.json()["message"].endswith(".spec.x: field not declared in schema")


def test_yaml_can_be_applied(portal):
    text = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nspec: {devices: {requests: []}}\n"
    answer = portal.patch(f"{CLAIMS}/y", content=text, headers=APPLY, params={"fieldManager": "kubectl"})
    assert created(answer)["metadata"]["name"] == "y"


def test_an_apply_needs_a_manager(portal):
    path = f"{CLAIMS}/a"
    answer = portal.patch(path, content=json.dumps(make_claim("a")), headers=APPLY)
    assert answer.status_code == 422
    assert causes(answer) == [("fieldManager", "Required value: is required for apply patch")]


def test_json_patches_work_and_fail_whole(portal):
    created(portal.post(CLAIMS, json=make_claim("a")))
    kind = {"content-type": "application/json-patch+json"}
    patch = [{"op": "add", "path": "/metadata/labels", "value": {"x/y": "1"}}]
    assert portal.patch(f"{CLAIMS}/a", json=patch, headers=kind).json()["metadata"]["labels"] == {"x/y": "1"}
    failing = [
        {"op": "replace", "path": "/metadata/labels/x~1y", "value": "2"},
        {"op": "test", "path": "/metadata/name", "value": "b"},
    ]
    assert portal.patch(f"{CLAIMS}/a", json=failing, headers=kind).status_code == 422
    assert portal.get(f"{CLAIMS}/a").json()["metadata"]["labels"] == {"x/y": "1"}


def test_a_patch_of_an_unknown_type_is_415(portal):
    created(portal.post(CLAIMS, json=make_claim("a")))
    assert portal.patch(f"{CLAIMS}/a", json={}).status_code == 415


def test_a_stale_resource_version_is_a_conflict(portal):
    created(portal.post(CLAIMS, json=make_claim("a")))
    stale = {"metadata": {"resourceVersion": "1", "labels": {"x": "1"}}}
    answer = portal.patch(f"{CLAIMS}/a", json=stale, headers=MERGE)
    assert answer.status_code == 409
    assert "the object has been modified" in answer.json()["message"]


def test_a_status_without_an_allocation_cannot_reserve(root):
    created(root.post(CLAIMS, json=make_claim("a")))
    status = {"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]}}
    answer = root.patch(f"{CLAIMS}/a/status", json=status, headers=MERGE)
    assert causes(answer) == [
        ("status.reservedFor", "Forbidden: may not be specified when `allocated` is not set")
    ]


def test_only_the_very_object_is_deleted(portal):
    uid = created(portal.post(CLAIMS, json=make_claim("a")))["metadata"]["uid"]
    wrong = portal.request("DELETE", f"{CLAIMS}/a", json={"preconditions": {"uid": "another"}})
    assert wrong.status_code == 409
    assert f"the UID in the precondition (another) does not match the UID in record ({uid})" in wrong.text
    right = portal.request("DELETE", f"{CLAIMS}/a", json={"preconditions": {"uid": uid}})
    assert right.json()["metadata"]["uid"] == uid
    assert portal.delete(f"{CLAIMS}/a").status_code == 404


def test_a_finalizer_holds_a_deleted_object_until_it_is_taken_off(portal):
    claim = make_claim("a")
    claim["metadata"]["finalizers"] = ["example.org/hold"]
    created(portal.post(CLAIMS, json=claim))
    assert portal.delete(f"{CLAIMS}/a").json()["metadata"]["deletionTimestamp"] == "2026-11-21T08:00:00Z"
    assert portal.get(f"{CLAIMS}/a").status_code == 200
    portal.patch(f"{CLAIMS}/a", json={"metadata": {"finalizers": None}}, headers=MERGE)
    assert portal.get(f"{CLAIMS}/a").status_code == 404


def test_deleting_a_taint_rule_answers_with_a_status(root):
    rule = {"metadata": {"name": "r"}, "spec": {"taint": {"key": "a/b", "effect": "NoSchedule"}}}
    made = created(root.post(f"{DRA}/devicetaintrules", json=rule))
    assert made["spec"]["taint"]["timeAdded"] == "2026-11-21T08:00:00Z"
    assert root.delete(f"{DRA}/devicetaintrules/r").json()["status"] == "Success"


def test_the_wrong_method_is_405(portal):
    assert portal.post(f"{CLAIMS}/a", json={}).status_code == 405
    assert portal.delete(CLAIMS).status_code == 405
