"""Only platform admins change a request to a profile with admin access."""

import pytest
from django.urls import reverse

from claims.approvals import decide
from claims.models import Approval
from claims.plans.changes import WantedChange
from claims.states import ClaimState
from core.errors import Forbidden
from inventory.models import Namespace
from tests.factories import make_profile, make_spec

pytestmark = pytest.mark.django_db


@pytest.fixture
def claim(ask):
    return ask(name="sam2", devices=1)


@pytest.fixture
def watching(fra):
    """The namespace allows it, and on paper a lead decides on it: the guard has to stand by itself."""
    labels = {"resource.kubernetes.io/admin-access": "true"}
    Namespace.objects.create(cluster=fra, uid="n", name="vision", labels=labels)
    return make_profile("watching", spec=make_spec(adminAccess=True), approval=Approval.LEAD)


def test_lead_cannot_change_to_admin_access(lena, claim, watching):
    with pytest.raises(Forbidden, match="Only a platform admin may request admin access"):
        decide.approve_with_changes(
            claim=claim, by=lena, spec_hash=claim.spec_hash, wanted=WantedChange(profile=watching)
        )
    claim.refresh_from_db()
    assert (claim.state, claim.original_request, claim.profile_version.profile.slug) == (
        ClaimState.REQUESTED,
        None,
        "train-80",
    )


def test_change_page_refuses_admin_access(client, lena, claim, watching):
    client.force_login(lena)
    sent = {"spec_hash": claim.spec_hash, "profile": "watching"}
    refused = client.post(reverse("claims:change", args=[claim.pk]), sent)
    assert refused.status_code == 403
    assert "Only a platform admin may request admin access" in refused.text
    claim.refresh_from_db()
    assert claim.state == ClaimState.REQUESTED


def test_platform_admin_may_change_to_admin_access(root, claim, watching):
    changed = decide.approve_with_changes(
        claim=claim, by=root, spec_hash=claim.spec_hash, wanted=WantedChange(profile=watching)
    )
    assert (changed.state, changed.profile_version) == (ClaimState.APPROVED, watching.current)
