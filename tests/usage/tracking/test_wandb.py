"""Links from claims to their runs of Weights & Biases: who sets them, and what a claim's page leads to."""

import pytest
import time_machine
from django.urls import reverse

from core.errors import Forbidden, Invalid
from teams.models import AuditEntry
from tests.factories import make_team
from tests.usage.conftest import NOON, hold
from usage.models import RunsLink
from usage.tracking.wandb import runs_link_of, set_runs_link

PAGE = "/settings/tracking/"
API = "/api/v1/tracking-servers/runs-links/"
AT = "https://wandb.ai/acme/vision/table"


def test_the_link_of_the_team_goes_before_that_of_the_installation(root, claim, vision):
    assert runs_link_of(claim) is None
    set_runs_link(by=root, url="https://wandb.ai/acme")
    assert runs_link_of(claim).url == "https://wandb.ai/acme"
    set_runs_link(by=root, team=vision, url=AT)
    set_runs_link(by=root, team=make_team("nlp"), url="https://wandb.ai/nlp")
    found = runs_link_of(claim)
    assert found.url == AT
    assert found.filter == f'tags is "dragoman.claim={claim.pk}"'


def test_words_in_braces_stand_for_the_claim_and_are_quoted(root, claim):
    set_runs_link(by=root, url="https://wandb.example.org/{team}/runs?tag={tag}&id={claim}")
    assert runs_link_of(claim).url == (
        f"https://wandb.example.org/vision/runs?tag=dragoman.claim%3D{claim.pk}&id={claim.pk}"
    )


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "wandb.ai/acme",
        "https://wandb.ai/{project}",
        "https://wandb.ai/a b",
        "https://wandb.ai/" + "x" * 300,
        "{tag}",
    ],
)
def test_only_web_addresses_are_taken(root, url):
    with pytest.raises(Invalid):
        set_runs_link(by=root, url=url)
    assert not RunsLink.objects.exists()


def test_each_change_is_recorded_once(root, vision):
    for url in (AT, AT, f"{AT}?x=1", "", ""):
        set_runs_link(by=root, team=vision, url=url)
    actions = AuditEntry.objects.filter(action__startswith="runs_link.").order_by("pk")
    assert list(actions.values_list("action", flat=True)) == [
        "runs_link.added",
        "runs_link.changed",
        "runs_link.removed",
    ]


def test_only_platform_admins_set_it(client, lena, vision):
    with pytest.raises(Forbidden):
        set_runs_link(by=lena, url=AT)
    client.force_login(lena)
    assert client.post(f"{PAGE}wandb/", {"url": AT}).status_code == 403
    assert client.get(API).status_code == 403
    assert client.put(API, {"url": AT}, content_type="application/json").status_code == 403


def test_the_page_sets_and_removes_links_and_says_what_is_wrong(client, root, vision):
    client.force_login(root)
    assert client.post(f"{PAGE}wandb/", {"team": "vision", "url": AT}).status_code == 302
    page = client.get(PAGE).text
    assert AT in page
    refused = client.post(f"{PAGE}wandb/", {"url": "https://wandb.ai/{project}"})
    assert refused.status_code == 422
    assert "Only {tag}, {claim}, {team} may stand in braces." in refused.text
    assert client.post(f"{PAGE}wandb/", {"team": "nobody", "url": AT}).status_code == 422
    assert client.post(f"{PAGE}wandb/", {"team": "vision"}).status_code == 302
    assert not RunsLink.objects.exists()


def test_the_api_sets_and_removes_links(client, root, vision):
    client.force_login(root)
    for _ in range(2):
        answer = client.put(API, {"team": "vision", "url": AT}, content_type="application/json")
        assert answer.json() == {"team": "vision", "url": AT}
    assert client.get(API).json()["results"] == [{"team": "vision", "url": AT}]
    wrong = {"team": "vision", "url": "ftp://wandb.ai"}
    assert client.put(API, wrong, content_type="application/json").status_code == 422
    assert client.put(API, {"team": "no", "url": AT}, content_type="application/json").status_code == 404
    assert client.put(API, {"team": "vision", "url": ""}, content_type="application/json").status_code == 200
    assert client.get(API).json()["results"] == []


def test_the_page_of_a_claim_has_the_link_and_the_filter(client, root, alice, claim):
    set_runs_link(by=root, url=AT)
    client.force_login(alice)
    address = reverse("usage:claim_fragment", args=[claim.pk])
    with time_machine.travel(NOON, tick=False):
        assert "Weights &amp; Biases" not in client.get(address).text  # it has not held anything
        hold(claim, NOON)
        page = client.get(address).text
    assert f'href="{AT}" rel="noopener noreferrer"' in page
    assert f"tags is &quot;dragoman.claim={claim.pk}&quot;" in page
