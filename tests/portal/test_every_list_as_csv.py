"""Every list of the portal can be taken along as CSV, and no cell of it is run by a spreadsheet."""

import csv
import io
from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from claims.budgets.services import set_budget
from claims.models import ApprovalRule, Draft, Profile, QuotaRequest
from claims.states import ClaimState
from inventory.models import Device, DeviceClass, Node, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from notify.models import Notice
from teams.models import User
from teams.tokens import create_token
from tests.factories import (
    GPU_CLASS,
    make_alert,
    make_claim,
    make_cluster,
    make_profile,
    make_quota,
    make_spec,
    make_team,
    make_user,
)
from tests.usage.conftest import hold
from usage.daily import store_days
from usage.models import IdlePeriod, Rate, SizeCheck

pytestmark = pytest.mark.django_db
EVIL, EVIL_NAME = "=HYPERLINK(1)", "@SUM"

LISTS = (
    "/claims/",
    "/claims/unmanaged/",
    "/claims/unmanaged/templates/",
    "/claims/drafts/",
    "/approvals/",
    "/approvals/?tab=all",
    "/approvals/?tab=decided",
    "/approvals/rules/",
    "/catalogue/",
    "/profiles/",
    "/quotas/",
    "/quotas/requests/",
    "/quotas/{quota}/",
    "/budgets/",
    "/fleet/",
    "/devices/",
    "/nodes/",
    "/clusters/",
    "/report/?range=7d",
    "/report/?range=7d&by=claim",
    "/waste/",
    "/alerts/",
    "/waste/oversized/",
    "/waste/overstay/",
    "/rates/",
    "/teams/",
    "/teams/vision/",
    "/teams/vision/people/",
    "/teams/vision/activity/",
    "/activity/",
    "/audit/",
    "/people/",
    "/teams/vision/cost/",
    "/me/tokens/",
    "/me/sessions/",
    "/me/notices/",
)
# All their texts are names that Kubernetes or the portal keeps in order.
ONLY_NAMES = {
    *("/approvals/rules/", "/profiles/", "/quotas/", "/clusters/", "/budgets/"),
    "/me/sessions/",  # browsers in our own words
    "/report/?range=7d&by=claim",
}


@pytest.fixture
def quota(client):
    """A platform admin at the browser, and one row of everything, with names as somebody evil gives them."""
    root = make_user("root", admin=True)
    alice = User.objects.create(username=EVIL_NAME, first_name=EVIL)  # unlike make_user in the audit log
    vision = make_team("vision", members=(alice,), leads=(root,), title=EVIL)
    fra = make_cluster("fra-1", teams=(vision,))
    train = make_profile("train-80")
    Profile.objects.filter(pk=train.pk).update(title=EVIL, use=EVIL)
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
    DeviceClass.objects.create(cluster=fra, uid="k", name=GPU_CLASS)
    fields = {"cluster": fra, "driver": "gpu.nvidia.com", "pool": "node"}
    piece = ResourceSlice.objects.create(uid="s", name="s", generation=1, pool_slices=1, **fields)
    Device.objects.create(slice=piece, name="gpu-0", product=EVIL, classes=[GPU_CLASS], **fields)
    ApprovalRule.objects.create(profile=train, approval="lead")
    QuotaRequest.objects.create(
        requested_by=alice, key="q", team=vision, device_class=GPU_CLASS, devices=9, reason=EVIL
    )
    held = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED)
    hold(held, timezone.now() - timedelta(minutes=1), product=EVIL)
    hold(held, timezone.now() - timedelta(days=3), timezone.now() - timedelta(days=2), product=EVIL)
    at = timezone.now() - timedelta(hours=2)
    ended = make_claim(vision, by=alice, cluster=fra, state=ClaimState.RELEASING, state_since=at)
    hold(ended, at, product=EVIL)
    store_days(now=timezone.now())
    IdlePeriod.objects.create(claim=held, team=vision, since=at, noticed_at=at, devices=1)
    make_alert(vision, claim=held, cluster=fra, text=EVIL)
    SizeCheck.objects.create(
        **{"claim": held, "team": vision, "checked_at": at, "verdict": "oversized", "devices": 1},
        **{"per_hour": 2, "saves": 1, "currency": "EUR", "profile": train},
    )
    set_budget(by=root, team=vision, amount=Decimal(1))
    client.force_login(root)
    return make_quota(vision, 8)


@pytest.mark.security("injection", "formulas in the CSV of every list")
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
    assert rows, f"{path} has no row"
    assert all(len(row) == len(heads) for row in rows)
    cells = [cell for row in rows for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    disarmed = [cell for cell in cells if cell in (f"'{EVIL}", f"'{EVIL_NAME}")]
    assert bool(disarmed) is (address not in ONLY_NAMES), cells
