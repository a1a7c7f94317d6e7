"""ResourceQuota: what is charged, when it refuses, and in which words."""

import pytest

from tests.simulator.conftest import (
    CLAIMS,
    PODS,
    QUOTAS,
    TEMPLATES,
    created,
    eventually,
    make_claim,
    make_pod,
    make_template,
)

DEVICES = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
NUMBER = "count/resourceclaims.resource.k8s.io"


def limit(client, **hard):
    created(client.post(QUOTAS, json={"metadata": {"name": "q"}, "spec": {"hard": hard["hard"]}}))
    eventually(lambda: client.get(f"{QUOTAS}/q").json().get("status", {}).get("used"))


def used(client):
    return client.get(f"{QUOTAS}/q").json()["status"]["used"]


def test_what_was_there_before_the_quota_is_counted(portal, root):
    created(portal.post(CLAIMS, json=make_claim("a", count=3)))
    limit(root, hard={DEVICES: "8", NUMBER: "20"})
    assert used(portal) == {DEVICES: "3", NUMBER: "1"}


@pytest.mark.parametrize("dry", [{}, {"dryRun": "All"}])
def test_an_exceeded_quota_is_a_403_with_the_numbers(portal, root, dry):
    limit(root, hard={DEVICES: "8"})
    created(portal.post(CLAIMS, json=make_claim("a", count=6)))
    refused = portal.post(CLAIMS, json=make_claim("b", count=4), params=dry)
    assert refused.status_code == 403
    assert refused.json()["message"] == (
        f'resourceclaims.resource.k8s.io "b" is forbidden: exceeded quota: q, requested: {DEVICES}=4, '
        f"used: {DEVICES}=6, limited: {DEVICES}=8"
    )
    assert used(portal)[DEVICES] == "6"


def test_two_claims_at_once_cannot_both_take_the_last_devices(portal, root):
    limit(root, hard={DEVICES: "4"})
    answers = [portal.post(CLAIMS, json=make_claim(name, count=3)).status_code for name in "ab"]
    assert answers == [201, 403]


def test_deleted_claim_releases_quota(portal, root):
    limit(root, hard={DEVICES: "4"})
    created(portal.post(CLAIMS, json=make_claim("a", count=4)))
    portal.delete(f"{CLAIMS}/a")
    assert eventually(lambda: used(portal)[DEVICES] == "0")
    created(portal.post(CLAIMS, json=make_claim("b", count=4)))


def test_all_devices_cost_32_and_a_template_costs_nothing(portal, root):
    limit(root, hard={DEVICES: "31"})
    created(portal.post(TEMPLATES, json=make_template("t", count=40)))
    refused = portal.post(CLAIMS, json=make_claim("a", allocationMode="All"))
    assert f"requested: {DEVICES}=32" in refused.json()["message"]


def test_keys_that_mean_nothing_are_taken_and_limit_nothing(portal, root):
    limit(root, hard={"gpu.nvidia.com.resource.k8s.io/count": "1"})
    created(portal.post(CLAIMS, json=make_claim("a", count=9)))
    assert used(portal) == {"gpu.nvidia.com.resource.k8s.io/count": "0"}


def test_a_quota_of_a_broken_number_is_refused(root):
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {DEVICES: "1500m"}}}
    answer = root.post(QUOTAS, json=quota)
    assert answer.status_code == 422
    assert answer.json()["message"].endswith('Invalid value: "1500m": must be an integer')


def test_a_template_claim_over_quota_is_told_on_the_pod(server, root):
    limit(root, hard={DEVICES: "1"})
    created(root.post(TEMPLATES, json=make_template("t", count=2)))
    created(root.post(PODS, json=make_pod("p", template="t")))
    event = eventually(lambda: root.get("/api/v1/namespaces/vision/events").json()["items"])[0]
    assert event["reason"] == "FailedResourceClaimCreation"
    assert "PodResourceClaim gpu: create ResourceClaim : resourceclaims" in event["message"]
    assert "exceeded quota: q" in event["message"]
    root.delete(f"{QUOTAS}/q")
    server.step(15)
    assert root.get(f"{PODS}/p").json()["status"]["resourceClaimStatuses"][0]["name"] == "gpu"
