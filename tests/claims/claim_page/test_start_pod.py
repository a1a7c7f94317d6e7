"""“Start it here”: the page of a claim in a simulated cluster of the demo starts its pod; nowhere else."""

import pytest
from django.urls import reverse

from claims.states import ClaimState
from cluster.protocol import ClusterConflict
from inventory.models import Cluster
from tests.factories import make_claim

pytestmark = pytest.mark.django_db

STARTED = []


def record(cluster, pod):
    if (cluster, pod["metadata"]["name"]) in [(where, made["metadata"]["name"]) for where, made in STARTED]:
        raise ClusterConflict("there is one")
    STARTED.append((cluster, pod))


@pytest.fixture(autouse=True)
def _demo(settings, tmp_path):
    (tmp_path / "fra-1.people.kubeconfig").touch()
    settings.PEOPLE_KUBECONFIGS = str(tmp_path)
    settings.START_POD = f"{__name__}.record"
    STARTED.clear()


@pytest.fixture
def claim(vision, fra, train, alice):
    Cluster.objects.update(simulated=True)
    return make_claim(vision, by=alice, cluster=fra, name="sam2", state=ClaimState.PROVISIONED)


def page_of(client, user, claim, query=""):
    client.force_login(user)
    return client.get(reverse("claims:detail", args=[claim.pk]) + query).text


def press(client, user, claim, query=""):
    client.force_login(user)
    return client.post(reverse("claims:start_pod", args=[claim.pk]) + query, follow=True)


def test_start_button_creates_the_shown_pod_and_says_it_is_simulated(client, alice, claim, tmp_path):
    page = page_of(client, alice, claim)
    assert "claim-changed from:body" in page.partition('id="snippet-form"')[2].partition(">")[0]
    assert "Start it here" in page
    assert "The cluster is simulated: nothing runs in it." in page
    assert f"export KUBECONFIG={tmp_path}/fra-1.people.kubeconfig" in page
    answer = press(client, alice, claim, "?image=registry.example.org/train:1")
    assert "Pod sam2-pod was created in the simulated cluster fra-1." in answer.text
    ((cluster, pod),) = STARTED
    assert (cluster, pod["kind"], pod["metadata"]["namespace"]) == ("fra-1", "Pod", claim.namespace)
    assert pod["spec"]["containers"][0]["image"] == "registry.example.org/train:1"
    assert pod["spec"]["resourceClaims"][0]["resourceClaimName"] == "sam2"

    again = press(client, alice, claim)
    assert again.status_code == 409
    assert f"Pod sam2-pod exists already in namespace {claim.namespace}." in again.text


@pytest.mark.security("access", "a pod in the name of a team that is not one's own")
def test_start_button_is_for_members_of_the_team_only(client, bob, eve, lena, claim):
    assert press(client, eve, claim).status_code == 404
    assert "Start it here" not in page_of(client, bob, claim)
    assert press(client, bob, claim).status_code == 403
    assert STARTED == []
    assert press(client, lena, claim).status_code == 200
    assert len(STARTED) == 1


@pytest.mark.parametrize("elsewhere", ["no demo", "a real cluster", "no kubeconfig", "requested claim"])
def test_start_button_exists_only_for_a_usable_claim_of_the_demo(client, alice, claim, settings, elsewhere):
    status = 404
    match elsewhere:
        case "no demo":
            settings.PEOPLE_KUBECONFIGS = ""
        case "a real cluster":
            Cluster.objects.update(simulated=False)
        case "no kubeconfig":
            settings.PEOPLE_KUBECONFIGS += "/elsewhere"
        case _:
            claim = make_claim(
                claim.team, by=alice, cluster=claim.cluster, name="new", state=ClaimState.REQUESTED
            )
            status = 409
    page = page_of(client, alice, claim)
    assert "Start it here" not in page
    assert ("export KUBECONFIG" in page) == (elsewhere in ("a real cluster", "requested claim"))
    assert press(client, alice, claim).status_code == status
    assert STARTED == []


@pytest.mark.parametrize(
    ("query", "stands"), [("?snippet=job", True), ("?snippet=kubectl", True), ("?image=two%20words", False)]
)
def test_start_button_stands_beside_every_snippet_with_valid_options(client, alice, claim, query, stands):
    assert ("Start it here" in page_of(client, alice, claim, query)) == stands


def test_start_with_options_that_are_refused_starts_nothing(client, alice, claim):
    assert press(client, alice, claim, "?image=%20two%20words").status_code == 404
    assert STARTED == []
