"""Discovery, access, lists with pages, selectors."""

import pytest

from tests.simulator.conftest import CLAIMS, DRA, created, make_claim


def test_the_version_says_that_the_cluster_is_simulated(portal):
    assert portal.get("/version").json()["gitVersion"] == "v1.37.1+simulated"


def test_discovery_lists_the_kinds_of_dra(portal):
    kinds = {entry["name"]: entry["kind"] for entry in portal.get(DRA).json()["resources"]}
    assert kinds["resourceclaims"] == "ResourceClaim"
    assert {"devicetaintrules", "resourceslices", "deviceclasses", "resourceclaimtemplates"} <= set(kinds)
    groups = [group["name"] for group in portal.get("/apis").json()["groups"]]
    assert {"resource.k8s.io", "batch", "authorization.k8s.io"} <= set(groups)
    assert portal.get("/apis/resource.k8s.io").json()["preferredVersion"]["version"] == "v1"


def test_a_kind_that_is_not_served_is_a_status_404(portal):
    answer = portal.get(f"{DRA}/nopes")
    assert answer.status_code == 404
    assert answer.json()["message"] == "the server could not find the requested resource"


@pytest.mark.parametrize("path", ["/apis/resource.k8s.io/v1beta9", "/apis/nope.io", "/elsewhere"])
def test_a_group_version_that_is_not_served_is_a_line_of_text(portal, path):
    answer = portal.get(path)
    assert (answer.status_code, answer.text) == (404, "404 page not found\n")


def test_a_cluster_that_is_not_there_is_404(portal, server):
    assert portal.get(f"{server.base}/clusters/elsewhere/version").status_code == 404


@pytest.mark.parametrize("token", ["", "Bearer nonsense", "Basic simulator-admin"])
def test_without_a_token_there_is_no_answer(portal, token):
    answer = portal.get("/version", headers={"Authorization": token})
    assert answer.status_code == 401
    assert answer.json()["reason"] == "Unauthorized"


def test_the_missing_permission_is_named(server):
    with server.client("viewer") as viewer:
        answer = viewer.post(CLAIMS, json=make_claim("a"))
    assert answer.status_code == 403
    assert answer.json()["message"] == (
        'resourceclaims.resource.k8s.io is forbidden: User "viewer" cannot create resource "resourceclaims" '
        'in API group "resource.k8s.io" in the namespace "vision"'
    )


@pytest.mark.parametrize(
    ("verb", "resource", "allowed"), [("list", "nodes", True), ("create", "pods", False)]
)
def test_an_access_review_answers_for_the_asker(portal, verb, resource, allowed):
    review = {"spec": {"resourceAttributes": {"verb": verb, "resource": resource}}}
    answer = portal.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", json=review)
    assert created(answer)["status"] == {"allowed": allowed}


def test_pages_come_from_one_moment(portal):
    for name in "abcde":
        portal.post(CLAIMS, json=make_claim(name))
    first = portal.get(CLAIMS, params={"limit": 2}).json()
    assert first["metadata"]["remainingItemCount"] == 3
    portal.post(CLAIMS, json=make_claim("aa"))
    names, page = [], first
    while True:
        names += [item["metadata"]["name"] for item in page["items"]]
        if not (token := page["metadata"].get("continue")):
            break
        page = portal.get(CLAIMS, params={"limit": 2, "continue": token}).json()
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert names == ["a", "b", "c", "d", "e"]


def test_a_continue_token_expires(server, portal):
    for name in "abc":
        portal.post(CLAIMS, json=make_claim(name))
    token = portal.get(CLAIMS, params={"limit": 1}).json()["metadata"]["continue"]
    portal.post(CLAIMS, json=make_claim("d"))
    server.do(server.cluster.lister.forget)
    answer = portal.get(CLAIMS, params={"limit": 1, "continue": token})
    assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")


def test_a_revision_to_come_is_a_time_out_to_try_again(portal):
    answer = portal.get(CLAIMS, params={"resourceVersion": "999999"})
    assert answer.status_code == 504
    assert answer.json()["details"]["retryAfterSeconds"] == 1


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("team=vision", ["a", "b"]),
        ("team=vision,gpu!=l4", ["a"]),
        ("gpu in (l4, t4)", ["b", "c"]),
        ("gpu notin (l4)", ["a", "c"]),
        ("gpu", ["b", "c"]),
        ("!gpu", ["a"]),
        ("", ["a", "b", "c"]),
    ],
)
def test_labels_select(portal, selector, names):
    for name, labels in {
        "a": {"team": "vision"},
        "b": {"team": "vision", "gpu": "l4"},
        "c": {"team": "nlp", "gpu": "t4"},
    }.items():
        claim = make_claim(name)
        claim["metadata"]["labels"] = labels
        created(portal.post(CLAIMS, json=claim))
    found = portal.get(CLAIMS, params={"labelSelector": selector}).json()
    assert [item["metadata"]["name"] for item in found["items"]] == names


def test_the_name_is_a_field_selector_and_others_are_refused_by_name(portal):
    for name in "ab":
        portal.post(CLAIMS, json=make_claim(name))
    found = portal.get(CLAIMS, params={"fieldSelector": "metadata.name=b"}).json()
    assert [item["metadata"]["name"] for item in found["items"]] == ["b"]
    refused = portal.get(CLAIMS, params={"fieldSelector": "spec.x=b"})
    assert refused.status_code == 400
    assert refused.json()["message"] == (
        '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


def test_a_selector_that_does_not_parse_is_400(portal):
    assert portal.get(CLAIMS, params={"labelSelector": "a==b==c"}).status_code == 400
