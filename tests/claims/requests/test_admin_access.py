"""Admin access sees devices that others hold: platform admins ask for it, where the cluster allows it."""

import pytest
from django.urls import reverse

from claims.catalogue.listing import catalogue
from claims.models import Approval, Claim
from claims.plans.plan import ADMIN_ACCESS_LABEL
from claims.requests.preview import preview
from claims.requests.services import request_claim
from core.errors import Forbidden, Invalid
from inventory.models import Namespace
from tests.factories import make_profile, make_quota, make_spec

pytestmark = pytest.mark.django_db

NO_ADMIN = "Only a platform admin may request admin access, which includes devices that others hold."
NO_LABEL = (
    "Admin access needs a namespace with the label resource.kubernetes.io/admin-access: “true”, which vision "
    "of fra-1 does not have. A cluster admin can set it: "
    "kubectl label namespace vision resource.kubernetes.io/admin-access=true"
)


@pytest.fixture
def monitoring(vision):
    make_quota(vision, 8)
    return make_profile("monitoring", spec=make_spec(adminAccess=True), approval=Approval.AUTOMATIC)


@pytest.fixture
def label(fra):
    """Give the namespace labels in the mirror."""

    def set_labels(**columns):
        fields = {"labels": {ADMIN_ACCESS_LABEL: "true"}, "name": "vision", **columns}
        return Namespace.objects.create(cluster=fra, uid="uid-of-vision", **fields)

    return set_labels


@pytest.fixture
def ask_for(monitoring, vision, fra):
    def ask_as(by, profile=monitoring, **fields):
        return request_claim(by=by, team=vision, cluster=fra, profile=profile, key=f"key-{by}", **fields)

    return ask_as


@pytest.mark.parametrize("person", ["alice", "lena"])
def test_nobody_of_the_team_may_ask_for_it(ask_for, label, person, request):
    label()
    with pytest.raises(Forbidden, match=NO_ADMIN):
        ask_for(request.getfixturevalue(person))
    assert not Claim.objects.exists()


def test_a_platform_admin_may_for_any_team(ask_for, label, gateway, root):
    label()
    claim = ask_for(root)
    assert claim.spec["devices"]["requests"][0]["exactly"]["adminAccess"] is True


@pytest.mark.parametrize(
    "columns",
    [
        {"labels": {}},
        {"labels": {ADMIN_ACCESS_LABEL: "True"}},
        {"name": "other"},
        {"gone_at": "2026-01-01T00:00Z"},
    ],
)
def test_a_namespace_without_the_label_is_named_with_what_sets_it(ask_for, label, root, columns):
    label(**columns)
    with pytest.raises(Invalid) as refusal:
        ask_for(root)
    assert refusal.value.extra["problems"] == [NO_LABEL]


def test_an_alternative_with_admin_access_is_not_smuggled_in(ask_for, label, alice, train, monitoring):
    label()
    with pytest.raises((Forbidden, Invalid)):
        ask_for(alice, profile=train, alternatives=[monitoring])


def test_other_specifications_need_no_label(ask_for, train, gateway, alice):
    assert ask_for(alice, profile=train).pk


def test_the_catalogue_offers_it_to_platform_admins_alone(monitoring, fra, alice, root):
    assert [entry.reason for entry in catalogue(alice)] == [NO_ADMIN]
    assert [entry.reason for entry in catalogue(root)] == [""]


def test_the_preview_says_why_not(monitoring, vision, fra, alice, root):
    said = {
        person: preview(by=person, team=vision, cluster=fra, profile=monitoring).problems
        for person in (alice, root)
    }
    assert said == {alice: (NO_ADMIN, NO_LABEL), root: (NO_LABEL,)}


@pytest.mark.parametrize(("person", "status"), [("alice", 403), ("root", 422)])
def test_page_and_api_refuse_alike(client, monitoring, fra, person, status, request):
    client.force_login(request.getfixturevalue(person))
    sent = {"team": "vision", "cluster": "fra-1", "profile": "monitoring", "delivery": "claim"}
    answer = client.post("/api/v1/claims/", sent, "application/json", headers={"Idempotency-Key": "one"})
    assert answer.status_code == status
    page = client.post(
        reverse("claims:request"),
        sent | {"devices": "1", "parallel": "1", "duration": "24h", "key": "two", "reason": "Watch."},
    )
    assert page.status_code == status
    assert not Claim.objects.exists()
