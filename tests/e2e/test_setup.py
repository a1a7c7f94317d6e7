"""
From an empty database to the first approved claim without leaving the browser, on the real control plane: the
platform admin connects the cluster, adds a profile, a team and a person; she requests, he approves.
"""

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from cluster.credentials import from_kubeconfig, seal
from cluster.kube import connect
from cluster.protocol import RESOURCE_CLAIM
from demo.controlplane.client import eventually
from tests import patience
from tests.demo.running import RunningDemo
from tests.e2e.person import Person

pytestmark = [pytest.mark.controlplane, pytest.mark.browser]
PASSWORD = "correct-horse-battery"
PRESET = "any-40g"


@pytest.fixture(scope="module")
def empty(controlplane_ready, tmp_path_factory):
    """`make demo CLUSTER=real EMPTY=1`."""
    demo = RunningDemo(tmp_path_factory.mktemp("demo"), "real", EMPTY="1")
    demo.start()
    yield demo
    assert demo.stop() == []


@pytest.fixture
def clusters(empty):
    """The folder of the kubeconfigs."""
    return empty.home / "real-empty" / "clusters"


def takes_next_step(page, name: str) -> None:
    page.goto("/")
    page.get_by_role("region", name="Set up Dragoman").get_by_role("link", name=name).click()


def connects_cluster(page, kubeconfig) -> None:
    takes_next_step(page, "Add a cluster")
    page.get_by_label("Name", exact=True).fill("fra-1")
    page.get_by_label("or its file").set_input_files(kubeconfig)
    page.get_by_role("region", name="3. Check").get_by_role("button", name="Check").click()
    expect(page.get_by_text("All passed")).to_be_visible()
    page.get_by_role("button", name="Add fra-1", exact=True).click()
    expect(page.get_by_role("heading", level=1, name="Settings of fra-1")).to_be_visible()
    expect(page.get_by_text("All passed")).to_be_visible()
    assert from_kubeconfig(kubeconfig.read_text()).token not in page.content()


def adds_preset(page) -> None:
    """Add a preset once devices of the cluster that match it were read."""
    preset = page.get_by_role("row").filter(has=page.locator(f"#preset-{PRESET}"))

    def sees_devices() -> bool:
        page.goto("/profiles/presets/")
        return re.search(r"fra-1: \d+", preset.inner_text()) is not None

    eventually(sees_devices, seconds=patience.DEMO_READY, subject="devices of fra-1 on the presets page")
    takes_next_step(page, "Choose presets")
    preset.get_by_role("checkbox").check()
    page.get_by_role("button", name="Add to the catalogue").click()


def creates_team(page) -> None:
    takes_next_step(page, "Create a team")
    page.get_by_label("Name", exact=True).fill("vision")
    page.get_by_label("Title").fill("Vision")
    page.get_by_label("Namespace in fra-1").fill("vision")
    page.get_by_role("button", name="Create the team").click()
    expect(page.get_by_text("exists", exact=True)).to_be_visible()
    takes_next_step(page, "Set a quota")
    expect(page.get_by_role("combobox", name="Team")).to_have_value("vision")
    page.get_by_label("Device class").fill("gpu.nvidia.com")
    page.get_by_label("Limit").fill("4")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("vision may hold 4")).to_be_visible()


def invites(page) -> str:
    """Invite a person into the team; return the path of the link."""
    takes_next_step(page, "Invite")
    page.get_by_label("Email address").fill("mira@helix.example")
    page.get_by_role("combobox", name=re.compile("^Team")).select_option("vision")
    page.get_by_role("button", name="Create invitation link").click()
    return urlsplit(page.get_by_label("Link of the invitation").inner_text().strip()).path


def joins(page, link: str) -> None:
    page.goto(link)
    page.get_by_label("User name").fill("mira")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Create the account and join").click()
    expect(page.get_by_text("Welcome to Vision.")).to_be_visible()


def requests_devices(page) -> None:
    page.goto(f"/claims/request/?profile={PRESET}")
    page.get_by_label("Claim name").fill("first-claim")
    page.get_by_label("Purpose").fill("The first claim of this portal.")
    page.locator("#send").click()
    expect(page.get_by_role("heading", level=1, name="first-claim")).to_be_visible()


def test_an_empty_portal_leads_its_admin_to_the_first_approved_claim(empty, clusters, browser):
    lukas, mira = Person(browser, empty.url, "admin").sign_in(), Person(browser, empty.url, "mira")
    expect(lukas.page.get_by_text("0 of 5 done")).to_be_visible()
    connects_cluster(lukas.page, clusters / "fra-1.kubeconfig")
    adds_preset(lukas.page)
    creates_team(lukas.page)
    joins(mira.page, invites(lukas.page))
    requests_devices(mira.page)
    lukas.approve("first-claim")
    mira.sees_state("Waiting for a pod")
    admin = connect(seal(from_kubeconfig((clusters / "fra-1.people.kubeconfig").read_text())))
    written = admin.get(RESOURCE_CLAIM, "first-claim", namespace="vision")
    assert written["metadata"]["labels"]["gpu.dragoman.dev/team"] == "vision"
    lukas.page.goto("/setup/")
    expect(lukas.page.get_by_text("4 of 5 done")).to_be_visible()  # the control plane has no telemetry
    for person in (lukas, mira):
        person.leaves()
