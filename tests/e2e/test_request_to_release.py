"""
The main way, for real: Chromium, gunicorn, Celery worker and beat, PostgreSQL, Redis, and a real Kubernetes
control plane. Waits are on what a person sees; the cluster is looked at only to check what the page has said.
"""

import re

import pytest
from playwright.sync_api import expect

from cluster.credentials import from_kubeconfig, seal
from cluster.kube import connect
from cluster.protocol import POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, Kind
from tests.e2e.person import Person

pytestmark = [pytest.mark.controlplane, pytest.mark.browser]
JOB = Kind("batch", "v1", "Job", "jobs", namespaced=True)


@pytest.fixture
def people(real, browser):
    """Return a function that seats somebody of the demo at a browser of their own."""
    seated = []

    def seat(name):
        seated.append(Person(browser, real.url, name).sign_in())
        return seated[-1]

    yield seat
    for person in seated:
        person.leaves()


@pytest.fixture
def alice(real):
    """Who starts pods: a user of the namespaces, with kubectl's rights and not the portal's."""
    return connect(seal(from_kubeconfig(real.kubeconfig("alice"))))


def held_by_vision(person):
    """Return the number that the quota page gives as held and reserved of gpu.nvidia.com."""
    person.page.goto("/quotas/")
    row = person.page.locator("[data-quota='vision/gpu.nvidia.com']")
    return int(row.get_attribute("data-taken"))


def test_an_engineer_asks_a_lead_approves_a_pod_holds_the_gpu_and_all_is_given_back(people, alice):
    mira, aylin = people("engineer"), people("lead")
    before = held_by_vision(mira)

    mira.ask("train-80g", "main-way", reason="One GPU of 80 GB for the main way.")
    mira.sees_state("Waiting for approval")
    assert alice.get(RESOURCE_CLAIM, "main-way", namespace="vision") is None

    aylin.approve("main-way")
    mira.sees_state("Waiting for a pod")  # without a reload
    written = alice.get(RESOURCE_CLAIM, "main-way", namespace="vision")
    assert written["metadata"]["labels"]["gpu.dragoman.dev/team"] == "vision"
    expect(mira.page.get_by_text("No device is held", exact=True)).to_be_visible()

    pod = mira.snippet("Pod")
    alice.create(POD, pod)
    mira.sees_state("Allocated")
    (held,) = alice.get(RESOURCE_CLAIM, "main-way", namespace="vision")["status"]["allocation"]["devices"][
        "results"
    ]
    devices = mira.page.locator("#claim-devices")
    expect(devices.get_by_text(held["device"], exact=True)).to_be_visible()
    expect(devices.get_by_text(held["pool"], exact=True)).to_be_visible()  # the pool of a node has its name
    expect(devices.get_by_text(re.compile("^GPU-"))).to_be_visible()
    expect(mira.page.locator("#claim-side").get_by_text(pod["metadata"]["name"])).to_be_visible()

    alice.delete(POD, pod["metadata"]["name"], namespace="vision")
    mira.sees_state("Waiting for a pod")
    expect(mira.page.get_by_text("No device is held", exact=True)).to_be_visible()

    mira.release()
    mira.sees_state("Released")
    assert alice.get(RESOURCE_CLAIM, "main-way", namespace="vision") is None
    assert held_by_vision(mira) == before


def test_a_template_serves_a_job_of_two_pods(people, alice):
    mira = people("engineer")
    mira.ask("slice-10g", "sweep", template=2)
    mira.sees_state("Waiting for a pod")  # the profile needs nobody's approval
    assert alice.get(RESOURCE_CLAIM_TEMPLATE, "sweep", namespace="vision") is not None

    job = mira.snippet("Job")
    assert job["spec"]["parallelism"] == 2
    alice.create(JOB, job)
    mira.sees_state("Allocated")
    expect(mira.page.locator("#claim-devices tbody tr")).to_have_count(2)

    mira.sees_state("Waiting for a pod")  # the pods of the Job have ended, and with them their claims
    mira.release()
    mira.sees_state("Released")
    assert alice.get(RESOURCE_CLAIM_TEMPLATE, "sweep", namespace="vision") is None


def test_a_request_that_is_denied_says_why_and_leaves_nothing(people, alice):
    mira, aylin = people("engineer"), people("lead")
    mira.ask("train-80g", "too-long", devices=2)
    mira.sees_state("Waiting for approval")
    aylin.deny("too-long", "Two are not needed for a test.")
    mira.sees_state("Denied")
    expect(mira.page.get_by_text("Two are not needed for a test.").first).to_be_visible()
    assert alice.get(RESOURCE_CLAIM, "too-long", namespace="vision") is None


def test_a_request_over_quota_is_refused_with_the_numbers_and_loses_no_input(people):
    mira = people("engineer")
    mira.ask("train-80g", "too-many", devices=8, template=8, reason="Sixty-four at once.")
    refusal = mira.page.get_by_role("alert")
    expect(refusal).to_contain_text(
        re.compile(r"Quota of Vision exceeded by \d+: \d+ of \d+ gpu\.nvidia\.com devices")
    )
    expect(refusal).to_contain_text("this request needs 64")
    expect(mira.page.get_by_label("Claim name")).to_have_value("too-many")
    expect(mira.page.get_by_label("Purpose")).to_have_value("Sixty-four at once.")


def test_who_is_of_another_team_finds_nothing(people, real):
    mira, theo = people("engineer"), people("outsider")
    mira.open_claim("sam2-finetune")
    address = mira.page.url
    assert theo.page.goto(address).status == 404
    theo.page.goto("/claims/")
    expect(theo.page.get_by_text("sam2-finetune")).to_have_count(0)
