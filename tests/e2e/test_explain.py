"""Why a claim waits, as an engineer sees it in the browser without reloading, and without JavaScript."""

import re

import pytest
from playwright.sync_api import expect

from cluster.credentials import from_kubeconfig, seal
from cluster.kube import connect
from cluster.protocol import POD

pytestmark = pytest.mark.browser


@pytest.fixture
def alice(simulated):
    """Who starts pods."""
    return connect(seal(from_kubeconfig(simulated.kubeconfig("people"))))


def test_a_page_says_why_a_pod_waits_and_who_can_do_what(people, alice):
    mira = people("engineer")
    mira.ask("slice-10g", "why-not")
    mira.sees_state("Waiting for a pod")  # the profile needs nobody's approval
    panel = mira.page.locator("#claim-explain")
    expect(panel.get_by_text("Waiting pods")).to_have_count(0)

    pod = mira.snippet("Pod")
    name = pod["metadata"]["name"]
    pod["spec"]["nodeSelector"] = {"nobody": "has-this"}
    alice.create(POD, pod)
    expect(panel.get_by_text("Waits for the scheduler")).to_be_visible()
    expect(
        panel.get_by_text("node selector, node affinity or node name excludes the node").first
    ).to_be_visible()
    expect(panel.get_by_text(re.compile("the claim fits on|The portal's snapshot")).first).to_be_visible()
    now = mira.page.locator(".dg-chain [aria-current='step']")
    expect(now).to_contain_text("Scheduler")

    plain = people("engineer", java_script_enabled=False)
    plain.page.goto(mira.page.url)
    expect(plain.page.locator("#claim-explain")).to_contain_text("Message of the scheduler:")

    alice.delete(POD, name, namespace="vision")
    expect(panel.get_by_text("Waits for the scheduler")).to_have_count(0)
    del pod["spec"]["nodeSelector"]
    pod["spec"]["resourceClaims"].append({"name": "data", "resourceClaimName": "not-there"})
    alice.create(POD, pod)
    expect(panel.get_by_text("Refers to a missing claim")).to_be_visible()
    expect(mira.page.get_by_text("You act next.")).to_be_visible()

    alice.delete(POD, name, namespace="vision")
