"""Claims that would free enough devices for a request, for those who may know and for those who may not."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from claims.models import AtLimit, BudgetUse
from claims.requests import suggestions
from dra.blockers import Blocker, Blockers
from inventory.models import ResourceClaim
from teams.models import Team
from tests.claims.catalogue.test_lint import publish
from tests.dra.clusters import gpu, holds
from tests.factories import make_budget, make_cluster, make_profile, make_spec, make_team, make_user

pytestmark = pytest.mark.django_db

PAGE = reverse("claims:request_blockers")


def hold(cluster, namespace, name, *devices):
    raw = holds(*devices, name=name)
    raw["metadata"]["namespace"] = namespace
    cluster.revision += 1
    cluster.save(update_fields=["revision"])
    return ResourceClaim.objects.create(
        cluster=cluster, uid=name, namespace=namespace, name=name, raw=raw, revision=cluster.revision
    )


@pytest.fixture
def full(vision):
    """Two GPUs: one is held by the reader's team, one by another."""
    cluster = make_cluster("fra-1", teams=(vision, make_team("nlp")))
    publish(cluster, gpu(0), gpu(1))
    hold(cluster, "vision", "ours", "gpu-0")
    hold(cluster, "nlp", "secret-project", "gpu-1")
    make_profile("one", spec=make_spec(), max_devices=8)
    return cluster


def asked(devices=1, **more):
    requested = {"team": "vision", "cluster": "fra-1", "profile": "one", "devices": str(devices), **more}
    return requested | {"parallel": "1", "delivery": "claim", "duration": "24h"}


def test_own_claims_are_named_and_those_of_others_are_not(client, alice, full):
    client.force_login(alice)
    said = client.get(PAGE, asked(2)).text
    assert "Fits on node-a" in said
    assert "vision/ours" in said
    assert "secret-project" not in said
    assert "another team" in said


def test_a_platform_admin_sees_all_names(client, root, full):
    client.force_login(root)
    assert "nlp/secret-project" in client.get(PAGE, asked(2)).text


def test_a_platform_admin_sees_first_whom_a_used_up_budget_makes_reclaimable(
    client, root, alice, full, monkeypatch
):
    found = (Blocker(("vision/ours",), "node-a"), Blocker(("nlp/secret-project",), "node-b"))
    monkeypatch.setattr(suggestions, "find_blockers", lambda *_args: Blockers(blockers=found))
    nlp = Team.objects.get(slug="nlp")
    BudgetUse.objects.filter(budget=make_budget(nlp, at_limit=AtLimit.RECLAIM)).update(share=1.1)
    client.force_login(root)
    said = client.get(PAGE, asked(2)).text
    tag = said.index("reclaimable: budget used up")
    assert said.index("nlp/secret-project") < tag < said.index("vision/ours")
    assert said.count("reclaimable: budget used up") == 1
    client.force_login(alice)
    assert "reclaimable" not in client.get(PAGE, asked(2)).text


def test_what_fits_needs_nobodys_end(client, alice, full):
    publish(full, gpu(0), node="node-b")
    client.force_login(alice)
    assert "One claim fits now" in client.get(PAGE, asked(1)).text
    assert PAGE not in client.get(reverse("claims:request_preview"), asked(1)).text


def test_what_no_end_helps_is_said(client, alice, full):
    client.force_login(alice)
    assert "No single claim or pair" in client.get(PAGE, asked(3)).text


def test_the_panel_gets_the_lines_alone_and_links_to_them(client, alice, full):
    client.force_login(alice)
    part = client.get(PAGE, asked(2), headers={"HX-Request": "true"}).text
    assert "Fits on node-a" in part
    assert "<html" not in part
    assert PAGE in client.get(reverse("claims:request_preview"), asked(2)).text


def test_who_may_not_ask_may_not_look(client, bob, full):
    client.force_login(bob)
    assert client.get(PAGE, asked()).status_code in (403, 422)
    client.force_login(make_user("stranger"))
    assert "vision/ours" not in client.get(PAGE, asked(2)).text


def test_a_wish_that_makes_no_sense_is_422(client, alice, full):
    client.force_login(alice)
    assert client.get(PAGE).status_code == 422
    assert client.get(PAGE, asked(cluster="nowhere")).status_code == 422


def test_one_holder_costs_as_many_queries_as_many(client, alice, full):
    client.force_login(alice)
    client.get(PAGE, asked(1))
    with CaptureQueriesContext(connection) as one:
        client.get(PAGE, asked(1))
    with CaptureQueriesContext(connection) as two:
        client.get(PAGE, asked(2))
    assert len(one) == len(two)
