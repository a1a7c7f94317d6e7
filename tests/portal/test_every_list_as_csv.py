"""Every list of the portal can be taken along as CSV, and no cell of it is run by a spreadsheet."""

import csv
import io
from datetime import timedelta

import pytest
from django.utils import timezone

from claims.models import Draft
from claims.states import ClaimState
from inventory.models import Node, ResourceClaim, ResourceClaimTemplate
from teams.models import Notice
from teams.tokens import create_token
from tests.factories import (
    make_claim,
    make_cluster,
    make_profile,
    make_quota,
    make_spec,
    make_team,
    make_user,
)
from usage.models import Rate

pytestmark = pytest.mark.django_db
EVIL = "=HYPERLINK(1)"

# Address, and whether the data below gives it a row.
LISTS = {
    "/claims/": True,
    "/claims/outside/": True,
    "/claims/outside/templates/": True,
    "/claims/drafts/": True,
    "/approvals/": True,
    "/approvals/?tab=all": True,
    "/approvals/?tab=decided": True,
    "/approvals/rules/": False,
    "/catalogue/": True,
    "/profiles/": True,
    "/quotas/": True,
    "/quotas/requests/": False,
    "/quotas/{quota}/": True,
    "/fleet/": False,
    "/devices/": False,
    "/nodes/": True,
    "/clusters/": True,
    "/rates/": True,
    "/teams/": True,
    "/teams/vision/people/": True,
    "/teams/vision/cost/": False,
    "/me/tokens/": True,
    "/me/notices/": True,
}


@pytest.fixture
def quota(client):
    """A platform admin at the browser, and one row of everything, with names as somebody evil gives them."""
    root, alice = make_user("root", admin=True), make_user("alice")
    alice.first_name = EVIL
    alice.save(update_fields=["first_name"])
    vision = make_team("vision", members=(alice,), leads=(root,))
    fra = make_cluster("fra-1", teams=(vision,))
    make_profile("train-80")
    make_claim(vision, by=alice, cluster=fra, reason=EVIL)
    make_claim(vision, by=alice, cluster=fra, reason=EVIL, state=ClaimState.PROVISIONED)
    raw = {"metadata": {"name": EVIL}, "spec": make_spec(1)}
    ResourceClaim.objects.create(cluster=fra, uid="c", name=EVIL, namespace="vision", raw=raw)
    ResourceClaimTemplate.objects.create(cluster=fra, uid="t", name=EVIL, namespace="vision", raw=raw)
    Draft.objects.create(by=root, key="d", fields={"name": [EVIL], "profile": ["train-80"]})
    Node.objects.create(cluster=fra, uid="n", name=EVIL)
    Notice.objects.create(user=root, key="n", title=EVIL)
    Rate.objects.create(title=EVIL, per_hour=1, valid_from=timezone.now())
    create_token(by=root, title=EVIL, expires_at=timezone.now() + timedelta(days=1))
    client.force_login(root)
    return make_quota(vision, 8)


@pytest.mark.parametrize("address", LISTS)
def test_every_list_has_a_link_to_its_csv_with_heads_and_harmless_rows(client, quota, address):
    path = address.format(quota=quota.pk)
    page = client.get(path)
    assert page.status_code == 200, path
    link = next(
        (part.split('"')[0] for part in page.text.split('href="')[1:] if "csv" in part.split('"')[0]), None
    )
    assert link, f"{path} has no link to a CSV"
    link = link.replace("&amp;", "&")
    answer = client.get(link if link.startswith("/") else path.split("?")[0] + link)
    assert answer["Content-Type"].startswith("text/csv")
    assert answer["Content-Disposition"].startswith("attachment; filename=")
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content
    heads, *rows = list(csv.reader(io.StringIO(body.decode())))
    assert any(heads)
    assert bool(rows) or not LISTS[address], f"{path} has no row"
    assert all(len(row) == len(heads) for row in rows)
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "@"))]
