"""Claims from templates, and Jobs of pods that use them."""

import re

from tests.simulator.conftest import (
    CLAIMS,
    JOBS,
    PODS,
    TEMPLATES,
    created,
    eventually,
    make_pod,
    make_template,
)

LABELS = {"gpu.dragoman.dev/claim": "0190", "gpu.dragoman.dev/team": "vision"}


def items(client, path):
    return client.get(path).json()["items"]


def test_a_pod_gets_a_claim_of_its_own_that_carries_the_templates_labels(engineer):
    created(engineer.post(TEMPLATES, json=make_template("t", labels=LABELS)))
    pod = created(engineer.post(PODS, json=make_pod("train", template="t")))
    (claim,) = eventually(lambda: [one for one in items(engineer, CLAIMS) if one["status"]])
    metadata = claim["metadata"]
    assert re.fullmatch(r"train-gpu-[a-z0-9]{5}", metadata["name"])
    assert metadata["labels"] == LABELS
    assert metadata["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Pod", "train", pod["metadata"]["uid"])
    status = engineer.get(f"{PODS}/train").json()["status"]
    assert status["resourceClaimStatuses"] == [{"name": "gpu", "resourceClaimName": metadata["name"]}]
    assert claim["status"]["reservedFor"][0]["name"] == "train"


def test_long_names_are_cut_in_proportion_to_fit(engineer):
    created(engineer.post(TEMPLATES, json=make_template("t")))
    created(engineer.post(PODS, json=make_pod("p" * 60, template="t")))
    (claim,) = eventually(lambda: items(engineer, CLAIMS))
    assert len(claim["metadata"]["name"]) <= 63
    assert re.fullmatch(r"p+-gp?u?-[a-z0-9]{5}", claim["metadata"]["name"])


def test_the_claim_goes_when_the_pod_has_ended(fleet, engineer):
    created(engineer.post(TEMPLATES, json=make_template("t")))
    created(engineer.post(PODS, json=make_pod("train", template="t", run_seconds=5)))
    assert eventually(lambda: items(engineer, CLAIMS))
    fleet.step(10)
    assert engineer.get(f"{PODS}/train").json()["status"]["phase"] == "Succeeded"
    assert items(engineer, CLAIMS) == []


def test_the_claim_goes_when_the_pod_is_deleted(fleet, engineer):
    created(engineer.post(TEMPLATES, json=make_template("t")))
    created(engineer.post(PODS, json=make_pod("train", template="t")))
    assert eventually(lambda: items(engineer, CLAIMS))
    fleet.step(3)
    engineer.delete(f"{PODS}/train")
    fleet.step(5)
    assert items(engineer, PODS) == items(engineer, CLAIMS) == []


def test_a_missing_template_is_told_on_the_pod_and_made_good_later(fleet, engineer):
    created(engineer.post(PODS, json=make_pod("train", template="t")))
    (event,) = eventually(lambda: items(engineer, "/api/v1/namespaces/vision/events"))
    assert event["message"] == (
        'PodResourceClaim gpu: resource claim template "t": '
        'resourceclaimtemplate.resource.k8s.io "t" not found'
    )
    created(engineer.post(TEMPLATES, json=make_template("t")))
    fleet.step(15)
    assert engineer.get(f"{PODS}/train").json()["spec"]["nodeName"]


def make_job(name, *, completions, parallelism, run_seconds):
    pod = make_pod(name, template="t", run_seconds=run_seconds)
    template = {"metadata": {"annotations": pod["metadata"]["annotations"]}, "spec": pod["spec"]}
    spec = {"completions": completions, "parallelism": parallelism, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


def test_a_job_runs_so_many_pods_at_once_until_all_are_done(fleet, engineer):
    created(engineer.post(TEMPLATES, json=make_template("t")))
    created(engineer.post(JOBS, json=make_job("sweep", completions=3, parallelism=2, run_seconds=10)))
    assert eventually(lambda: len(items(engineer, CLAIMS)) == 2)
    fleet.step(5)
    assert engineer.get(f"{JOBS}/sweep").json()["status"]["active"] == 2
    fleet.step(10)
    assert len(items(engineer, CLAIMS)) == 1
    fleet.step(15)
    status = engineer.get(f"{JOBS}/sweep").json()["status"]
    assert (status["succeeded"], status["conditions"][0]["type"]) == (3, "Complete")
    assert items(engineer, CLAIMS) == []


def test_the_pods_of_a_job_end_by_themselves_and_a_bare_pod_does_not(fleet, engineer):
    created(engineer.post(TEMPLATES, json=make_template("t")))
    created(engineer.post(JOBS, json=make_job("sweep", completions=1, parallelism=1, run_seconds=None)))
    created(engineer.post(PODS, json=make_pod("notebook", template="t")))
    assert eventually(lambda: len(items(engineer, CLAIMS)) == 2)
    fleet.step(3600)
    assert engineer.get(f"{JOBS}/sweep").json()["status"]["conditions"][0]["type"] == "Complete"
    assert engineer.get(f"{PODS}/notebook").json()["status"]["phase"] == "Running"


def test_deleting_a_job_takes_its_pods_and_their_claims_along(fleet, engineer):
    created(engineer.post(TEMPLATES, json=make_template("t")))
    created(engineer.post(JOBS, json=make_job("sweep", completions=2, parallelism=2, run_seconds=1000)))
    assert eventually(lambda: len(items(engineer, CLAIMS)) == 2)
    engineer.delete(f"{JOBS}/sweep")
    fleet.step(6)
    assert items(engineer, PODS) == items(engineer, CLAIMS) == []


def test_deleting_a_namespace_empties_it_first(fleet, engineer):
    created(engineer.post(TEMPLATES, json=make_template("t")))
    created(engineer.post(PODS, json=make_pod("train", template="t")))
    gone = engineer.delete("/api/v1/namespaces/vision").json()
    assert gone["status"] == {"phase": "Terminating"}
    refused = engineer.post(TEMPLATES, json=make_template("u"))
    assert "because it is being terminated" in refused.json()["message"]
    fleet.step(5)
    assert engineer.get("/api/v1/namespaces/vision").status_code == 404
